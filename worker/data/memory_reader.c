/*
 * Rows of the program's memory, as the coordinator sent them: x and the labels as they are. The
 * coordinator has checked all of it before; bytes of the wire are checked here all the same.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/reader.h"

/* Copies row `row` to `x` [features], and adds it with its label to the store. */
static int
add_row(cadre_reader_t *self, int64_t rows, int64_t row, float *x)
{
    const size_t x_size = (size_t)self->features * sizeof(*x);
    const uint64_t labels_at = (uint64_t)rows * x_size;
    cadre_label_t y;
    cadre_row_chunks_read(self->rows, (uint64_t)row * x_size, x_size, x);
    cadre_row_chunks_read(self->rows, labels_at + (uint64_t)row * sizeof(y), sizeof(y), &y);

    cadre_label_t label;
    double number = self->rows->label == CADRE_I32 ? (double)y.number : (double)y.value;
    int status = cadre_label_rule_read(&self->label, number, &label);
    if (status < 0) {
        return cadre_fail_within(status, "%s:%" PRId64, cadre_reader_path(self), row);
    }
    for (int64_t i = 0; i < self->features; i++) {
        if (!isfinite(x[i])) {
            return cadre_fail(CADRE_EDATA, "%s:%" PRId64 ": feature %" PRId64 " is %g",
                              cadre_reader_path(self), row, i, (double)x[i]);
        }
    }
    return cadre_row_store_add(self->store, x, label);
}

/* Reads all rows into a new store; fails when the bytes that came are not whole rows. */
int
cadre_memory_read(cadre_reader_t *self)
{
    const int64_t rows = cadre_row_chunks_rows(self->rows);
    if (rows < 0) {
        return cadre_fail(CADRE_EDATA, "%s: %" PRIu64 " bytes are no rows of %" PRId64 " features",
                          cadre_reader_path(self), self->rows->size_bytes, self->rows->features);
    }

    self->features = self->rows->features;
    self->store =
        cadre_row_store_new(CADRE_ROWS_F32, self->spec, self->features, self->size_bytes_max);
    int status = cadre_row_store_check_size(self->store, rows);
    if (status < 0) {
        return cadre_fail_within(status, "%s", cadre_reader_path(self));
    }

    cadre_auto(cadre_free) float *x = cadre_calloc((size_t)self->features, sizeof(*x));
    for (int64_t i = 0; i < rows; i++) {
        status = add_row(self, rows, i, x);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}
