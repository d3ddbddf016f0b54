#include "coordinator/cli/table_export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/table_rows.h"
#include "coordinator/cli/npy_file.h"

typedef struct {
    int64_t rows;
    int64_t dim;
    FILE *keys; /* NULL: the one file is text */
    FILE *values;
} files_t;

static int
fail_write(void)
{
    return cadre_fail(CADRE_EIO, "%s", strerror(errno));
}

/* Writes a row of numbers. */
static int
write_row(void *context, uint64_t key, const float *values)
{
    const files_t *self = context;
    const size_t dim = (size_t)self->dim;
    return fwrite(&key, sizeof(key), 1, self->keys) == 1 &&
                   fwrite(values, sizeof(*values), dim, self->values) == dim
               ? 0
               : fail_write();
}

/* Writes a row as a line; nine digits give each f32 back. */
static int
write_line(void *context, uint64_t key, const float *values)
{
    const files_t *self = context;
    fprintf(self->values, "%" PRIu64, key);
    for (int64_t i = 0; i < self->dim; i++) {
        fprintf(self->values, " %.9g", (double)values[i]);
    }
    return fputc('\n', self->values) == EOF || ferror(self->values) ? fail_write() : 0;
}

/* Return the names of a table's files, which the caller frees. No name of a variable has an '@' in
 * it, so the keys of v1 are in another file than a variable v1.keys. */
static char *
file_of_keys(const char *variable)
{
    return cadre_asprintf("%s@keys.npy", variable);
}

static char *
file_of_values(const char *variable, bool as_text)
{
    return cadre_asprintf("%s.%s", variable, as_text ? "txt" : "npy");
}

/* Writes keys and values as files for NumPy. */
static int
export_arrays(cadre_checkpoint_reader_t *reader, const char *variable, int folder, files_t *self)
{
    cadre_auto(cadre_free) char *keys = file_of_keys(variable);
    cadre_auto(cadre_free) char *values = file_of_values(variable, false);
    const int64_t shape[] = {self->rows, self->dim};
    const cadre_tensor_t matrix = cadre_tensor_view(CADRE_F32, NULL, shape, 2);
    const cadre_tensor_t vector = cadre_tensor_view(CADRE_I64, NULL, shape, 1);
    int status = cadre_npy_file_create(folder, keys, "<u8", &vector, &self->keys);
    if (status == 0) {
        status = cadre_npy_file_create(folder, values, "<f4", &matrix, &self->values);
    }
    if (status == 0) {
        status = cadre_table_rows_each(reader, variable, write_row, self);
    }
    status = cadre_output_end(folder, values, status, &self->values);
    return cadre_output_end(folder, keys, status, &self->keys);
}

/* Writes a text with a line for each row. */
static int
export_text(cadre_checkpoint_reader_t *reader, const char *variable, int folder, files_t *self)
{
    cadre_auto(cadre_free) char *name = file_of_values(variable, true);
    int status = cadre_output_create(folder, name, &self->values);
    if (status < 0) {
        return status;
    }
    fprintf(self->values, "%" PRId64 " %" PRId64 "\n", self->rows, self->dim);
    status = cadre_table_rows_each(reader, variable, write_line, self);
    return cadre_output_end(folder, name, status, &self->values);
}

void
cadre_table_export_files(const char *variable, bool as_text, json_t *files)
{
    cadre_auto(cadre_free) char *keys = file_of_keys(variable);
    cadre_auto(cadre_free) char *values = file_of_values(variable, as_text);
    if (!as_text) {
        json_array_append_new(files, json_string(keys));
    }
    json_array_append_new(files, json_string(values));
}

int
cadre_table_export(cadre_checkpoint_reader_t *reader, const char *variable, int folder,
                   bool as_text)
{
    uint64_t rows = 0;
    uint32_t dim = 0;
    int status = cadre_table_rows_count(reader, variable, &rows, &dim);
    if (status < 0) {
        return status;
    }
    files_t self = {.rows = (int64_t)rows, .dim = dim};
    return as_text ? export_text(reader, variable, folder, &self)
                   : export_arrays(reader, variable, folder, &self);
}
