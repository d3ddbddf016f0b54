#include "worker/slot/row_access.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

int
cadre_row_access_init(cadre_row_access_t *self, const cadre_variable_entry_t *variable,
                      const int64_t *ids, int64_t count)
{
    *self = (cadre_row_access_t){.rows = {.count = 0}};
    if (variable->rank < 1) {
        return cadre_fail(CADRE_EINVALID, "%s is a number, and has no rows", variable->name);
    }
    if (count < 1 || !ids) {
        return cadre_fail(CADRE_EINVALID, "%" PRId64 " rows of %s", count, variable->name);
    }
    const int64_t rows = variable->is_table ? CADRE_ID_ALL : variable->rows;
    int status = cadre_id_list_add_numbers(&self->list, variable->name, ids, count, rows);
    if (status < 0) {
        return status;
    }
    cadre_id_list_finish(&self->list);
    if (variable->is_table) {
        cadre_id_list_spread(&self->list, variable->partitions);
    }
    self->rows = (cadre_rows_t){.ids = self->list.ids, .count = self->list.count};
    return 0;
}

void
cadre_row_access_fini(cadre_row_access_t *self)
{
    cadre_id_list_fini(&self->list);
    self->rows = (cadre_rows_t){.count = 0};
}

void
cadre_row_access_cover(cadre_row_access_t *self, const cadre_variable_entry_t *variable)
{
    if (!variable->is_table) {
        cadre_id_list_cover(&self->list, variable->rows, variable->partitions);
    }
    self->rows = (cadre_rows_t){.ids = self->list.ids, .count = self->list.count};
}

void
cadre_row_access_gather(const cadre_row_access_t *self, size_t row_size_bytes, const void *from,
                        void *to)
{
    for (size_t i = 0; i < self->list.position_count; i++) {
        const size_t at = (size_t)self->list.positions[i];
        memcpy((char *)to + i * row_size_bytes, (const char *)from + at * row_size_bytes,
               row_size_bytes);
    }
}

float *
cadre_row_access_sum(const cadre_row_access_t *self, const cadre_variable_entry_t *variable,
                     const float *gradients, bool is_whole)
{
    const size_t elements = variable->row_size_bytes / sizeof(float);
    const size_t rows = is_whole ? (size_t)variable->rows : self->rows.count;
    float *sums = cadre_calloc(rows * elements, sizeof(*sums));
    for (size_t i = 0; i < self->list.position_count; i++) {
        const size_t position = (size_t)self->list.positions[i];
        const size_t row = is_whole ? (size_t)self->rows.ids[position] : position;
        for (size_t k = 0; k < elements; k++) {
            sums[row * elements + k] += gradients[i * elements + k];
        }
    }
    return sums;
}
