#include "coordinator/api/checkpoint_rows.h"

#include <stdlib.h>

#include <cadre/table.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/gate.h"

enum { BATCH_SIZE = 4 << 20 }; /* bytes of values of one assignment, unless a row is larger */

/* Rows of one part that were read and are not assigned yet. */
typedef struct {
    cadre_variable_t *table;
    cadre_table_record_t record; /* of the part */
    int64_t deadline_ms;
    size_t rows_max;
    size_t count;
    uint64_t *keys; /* [rows_max] */
    float *values;  /* [rows_max, dim] */
} batch_t;

static void
batch_fini(batch_t *self)
{
    free(self->keys);
    free(self->values);
}

/* Assigns the rows that were read. */
static int
flush(batch_t *self)
{
    if (self->count == 0) {
        return 0;
    }
    const cadre_tensor_t rows = {.dtype = CADRE_F32,
                                 .rank = 2,
                                 .shape = {(int64_t)self->count, (int64_t)self->record.dim},
                                 .data = self->values};
    const size_t count = self->count;
    self->count = 0;
    return cadre_variable_assign_keys(self->table, CADRE_VARIABLE_SET, self->keys, count, &rows,
                                      cadre_gate_left_ms(self->deadline_ms));
}

/* Adds the rows of a page. */
static int
take_page(void *context, const cadre_table_page_t *page)
{
    batch_t *self = context;
    const cadre_table_record_t *record = &self->record;
    const uint64_t first = page->position * record->page_rows;
    const uint64_t count = cadre_min_u64(record->page_rows, record->end - first);
    for (uint32_t place = 0; place < count; place++) {
        uint64_t key = 0;
        const void *values = NULL;
        if (!cadre_table_page_row(record, page->bytes, place, &key, &values)) {
            continue;
        }
        cadre_table_row_numbers(record, values, self->values + self->count * record->dim);
        self->keys[self->count++] = key;
        int status = self->count == self->rows_max ? flush(self) : 0;
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Reads a part of the table, and assigns its rows. */
static int
put_part(batch_t *self, cadre_checkpoint_reader_t *reader, uint32_t part)
{
    int status =
        cadre_checkpoint_reader_table(reader, self->table->name, part, NULL, &self->record);
    if (status < 0) {
        return status;
    }
    status = cadre_checkpoint_reader_pages(reader, self->table->name, part, NULL, take_page, self);
    return status < 0 ? status : flush(self);
}

int
cadre_checkpoint_rows_put(cadre_checkpoint_reader_t *reader, cadre_variable_t *table,
                          int64_t deadline_ms)
{
    const cadre_manifest_variable_t *stored =
        cadre_manifest_find(cadre_checkpoint_reader_manifest(reader), table->name);
    const size_t fitting = BATCH_SIZE / table->row_size_bytes;
    cadre_auto(batch_fini) batch_t batch = {
        .table = table, .deadline_ms = deadline_ms, .rows_max = fitting > 0 ? fitting : 1};
    batch.keys = cadre_calloc(batch.rows_max, sizeof(*batch.keys));
    batch.values = cadre_calloc(batch.rows_max, table->row_size_bytes);
    int status = 0;
    for (uint32_t part = 0; status == 0 && part < stored->partition_count; part++) {
        status = put_part(&batch, reader, part);
    }
    return status;
}
