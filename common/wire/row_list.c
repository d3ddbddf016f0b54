#include "common/wire/row_list.h"

#include <string.h>

#include "common/base/status.h"

/* Counts the rows of all records, and those of them whose ids are in the payload. */
static int
count_rows(const cadre_row_part_list_t *parts, size_t *listed)
{
    size_t rows = 0;
    *listed = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const cadre_row_part_t *part = &parts->items[i];
        if (part->count == 0) {
            return cadre_fail(CADRE_EMALFORMED, "a list of rows has a partition without rows");
        }
        if (part->count > CADRE_ROWS_MAX - rows) {
            return cadre_fail(CADRE_ETOOLARGE, "more than %d rows in one message: ask in parts",
                              CADRE_ROWS_MAX);
        }
        rows += part->count;
        *listed += part->first == CADRE_ROWS_LISTED ? part->count : 0;
    }
    return 0;
}

/* Reads records and ids of a message, and checks that they fit together. */
int
cadre_row_list_init(cadre_row_list_t *self, const cadre_u64s_t *rows,
                    const cadre_message_t *message)
{
    const cadre_row_part_list_t parts = cadre_row_part_list_view(rows);
    size_t listed = 0;
    /* The second is true of a list that is no whole number of records. */
    if (parts.count == 0 || cadre_row_part_list(parts.items, parts.count).count != rows->count) {
        return cadre_fail(CADRE_EMALFORMED, "a list of rows has %zu numbers", rows->count);
    }
    int status = count_rows(&parts, &listed);
    if (status < 0) {
        return status;
    }

    const bool has_ids = listed > 0 && message->chunk_count > 0;
    const size_t size_bytes = has_ids ? cadre_chunk_size_bytes(message->chunks[0]) : 0;
    if (size_bytes != listed * sizeof(uint64_t)) {
        return cadre_fail(CADRE_EMALFORMED, "%zu bytes of ids for %zu rows", size_bytes, listed);
    }
    *self = (cadre_row_list_t){.parts = parts,
                               .ids = has_ids ? cadre_chunk_data(message->chunks[0]) : NULL,
                               .id_chunks = has_ids ? 1 : 0,
                               .listed = listed};
    return 0;
}

int
cadre_row_list_read_held(cadre_row_list_t *self, const cadre_u64s_t *held,
                         const cadre_message_t *message)
{
    if (held->count == 0) {
        return 0;
    }
    if (held->count != self->parts.count) {
        return cadre_fail(CADRE_EMALFORMED, "%zu versions of held rows for %zu lists of rows",
                          held->count, self->parts.count);
    }
    const bool has_ages = message->chunk_count > self->id_chunks;
    const size_t size_bytes =
        has_ages ? cadre_chunk_size_bytes(message->chunks[self->id_chunks]) : 0;
    if (size_bytes != self->listed * sizeof(uint16_t)) {
        return cadre_fail(CADRE_EMALFORMED, "%zu bytes about held rows for %zu rows", size_bytes,
                          self->listed);
    }
    if (has_ages) {
        self->newest = held->items;
        self->ages = cadre_chunk_data(message->chunks[self->id_chunks]);
    }
    return 0;
}

/* Gives the rows of the next record, and steps behind it. */
bool
cadre_row_list_next(cadre_row_list_t *self, cadre_part_rows_t *out)
{
    if (self->next == self->parts.count) {
        return false;
    }
    const size_t at = self->next++;
    const cadre_row_part_t *part = &self->parts.items[at];
    const bool is_listed = part->first == CADRE_ROWS_LISTED;
    *out = (cadre_part_rows_t){.variable = part->variable,
                               .partition = part->partition,
                               .first = part->first,
                               .ids = is_listed ? self->ids : NULL,
                               .count = (size_t)part->count};
    if (is_listed) {
        self->ids += part->count * sizeof(uint64_t);
    }
    if (is_listed && self->ages) {
        out->newest = self->newest[at];
        out->ages = self->ages;
        self->ages += part->count * sizeof(uint16_t);
    }
    return true;
}

uint64_t
cadre_part_rows_at(const cadre_part_rows_t *self, size_t k)
{
    uint64_t id = self->first + k;
    if (self->ids) {
        memcpy(&id, self->ids + k * sizeof(id), sizeof(id));
    }
    return id;
}

uint64_t
cadre_part_rows_held(const cadre_part_rows_t *self, size_t k)
{
    if (!self->ages) {
        return 0;
    }
    const uint8_t *at = self->ages + k * sizeof(uint16_t);
    const uint64_t age = at[0] | (uint64_t)at[1] << 8;
    return age > 0 && age - 1 <= self->newest ? self->newest - (age - 1) + 1 : 0;
}
