#include "coordinator/api/memory_rows.h"

#include <cadre/program.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/data_column.h"
#include "common/spec/data_spec.h"

/* Returns how many numbers of a row the column becomes. */
static int64_t
width_of(const cadre_tensor_t *column)
{
    const int64_t elements = cadre_tensor_count(column) / column->shape[0];
    return column->dtype == CADRE_I64 ? elements * CADRE_KEY_PARTS : elements;
}

/* Refuses a column that has no rows, or another number of them than there are labels. */
static int
check_column(const cadre_tensor_t *column, size_t index, int64_t rows)
{
    if (!column->data || (column->dtype != CADRE_F32 && column->dtype != CADRE_I64) ||
        column->rank < 1 || cadre_tensor_count(column) < 1) {
        return cadre_fail(CADRE_EINVALID,
                          "column %zu must be [rows] or [rows, numbers], f32 or for keys i64",
                          index);
    }
    if (column->shape[0] != rows) {
        return cadre_fail(CADRE_EINVALID, "y has %lld rows, and column %zu %lld", (long long)rows,
                          index, (long long)column->shape[0]);
    }
    return 0;
}

/* Refuses columns and labels that are no dataset by their dtypes and shapes; gives how many numbers
 * a row has. */
static int
check_shapes(const cadre_columns_t *self, int64_t *features)
{
    if (!self || !self->columns || self->count == 0) {
        return cadre_fail(CADRE_EINVALID, "there is no column");
    }
    const cadre_tensor_t *y = self->y;
    if (!y || !y->data || (y->dtype != CADRE_I32 && y->dtype != CADRE_F32) || y->rank != 1) {
        return cadre_fail(CADRE_EINVALID, "y must be [rows], i32 for numbers of classes or f32");
    }

    *features = 0;
    for (size_t i = 0; i < self->count; i++) {
        int status = check_column(&self->columns[i], i, y->shape[0]);
        if (status < 0) {
            return status;
        }
        *features += width_of(&self->columns[i]);
        if (*features > CADRE_DATA_FEATURES_MAX) {
            return cadre_fail(CADRE_ETOOLARGE, "%lld features in a row, %d are the most",
                              (long long)*features, CADRE_DATA_FEATURES_MAX);
        }
    }
    return 0;
}

/* Refuses numbers of a column that are not finite, with their row; the first is feature `first`. */
static int
check_numbers(const cadre_tensor_t *column, int64_t first)
{
    const int64_t count = cadre_tensor_count(column);
    const int64_t width = count / column->shape[0];
    const float *numbers = column->data;
    for (int64_t i = 0; column->dtype == CADRE_F32 && i < count; i++) {
        if (!isfinite(numbers[i])) {
            return cadre_fail(CADRE_EDATA, "row %lld: feature %lld is %g", (long long)(i / width),
                              (long long)(first + i % width), (double)numbers[i]);
        }
    }
    return 0;
}

/* Refuses labels that are no labels, with their row. */
static int
check_labels(const cadre_tensor_t *y)
{
    for (int64_t i = 0; i < y->shape[0]; i++) {
        if (y->dtype == CADRE_F32 && !isfinite(((const float *)y->data)[i])) {
            return cadre_fail(CADRE_EDATA, "row %lld: its label is %g", (long long)i,
                              (double)((const float *)y->data)[i]);
        }
        int32_t class = y->dtype == CADRE_I32 ? ((const int32_t *)y->data)[i] : 0;
        if (class < 0 || class >= CADRE_DATA_CLASSES_MAX) {
            return cadre_fail(CADRE_EDATA, "row %lld: label %d is no class from 0 to %d",
                              (long long)i, class, CADRE_DATA_CLASSES_MAX - 1);
        }
    }
    return 0;
}

/* Writes the numbers of a column: those of the first row to `x`, of the next ones each `features`
 * numbers behind. */
static void
write_column(const cadre_tensor_t *column, int64_t features, float *x)
{
    const int64_t rows = column->shape[0];
    const int64_t elements = cadre_tensor_count(column) / rows;
    for (int64_t row = 0; row < rows; row++, x += features) {
        if (column->dtype == CADRE_F32) {
            const float *numbers = (const float *)column->data + row * elements;
            memcpy(x, numbers, (size_t)elements * sizeof(*x));
            continue;
        }
        const int64_t *keys = (const int64_t *)column->data + row * elements;
        for (int64_t i = 0; i < elements; i++) {
            cadre_data_column_write_key((uint64_t)keys[i], x + i * CADRE_KEY_PARTS);
        }
    }
}

/* Copies the columns side by side into chunks. */
static int
copy_columns(const cadre_columns_t *self, int64_t features, cadre_row_chunks_t *out)
{
    const cadre_tensor_t *y = self->y;
    const int64_t rows = y->shape[0];
    if (self->count == 1 && self->columns[0].dtype == CADRE_F32) {
        return cadre_row_chunks_copy(self->columns[0].data, y->data, rows, features, y->dtype, out);
    }
    cadre_auto(cadre_free) float *x = cadre_calloc((size_t)(rows * features), sizeof(*x));
    int64_t first = 0;
    for (size_t i = 0; i < self->count; i++) {
        write_column(&self->columns[i], features, x + first);
        first += width_of(&self->columns[i]);
    }
    return cadre_row_chunks_copy(x, y->data, rows, features, y->dtype, out);
}

int
cadre_memory_rows_take(const cadre_columns_t *columns, cadre_row_chunks_t *out)
{
    int64_t features = 0;
    int status = check_shapes(columns, &features);
    status = status < 0 ? status : cadre_row_chunks_check(columns->y->shape[0], features);
    if (status < 0) {
        return status;
    }

    int64_t first = 0;
    for (size_t i = 0; i < columns->count && status == 0; i++) {
        status = check_numbers(&columns->columns[i], first);
        first += width_of(&columns->columns[i]);
    }
    status = status < 0 ? status : check_labels(columns->y);
    return status < 0 ? status : copy_columns(columns, features, out);
}
