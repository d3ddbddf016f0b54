#include "worker/core/pull_cut.h"

#include <string.h>

#include "common/base/memory.h"
#include "common/wire/row_list.h"

/* Returns whether the PULL may ask for so much. A row above the limit travels alone. */
static bool
fits(const cadre_pull_cut_t *self)
{
    if (self->parts == 1) {
        return true;
    }
    if (self->is_of_rows) {
        return self->parts <= CADRE_ROW_PARTS_MAX && self->rows <= CADRE_ROWS_MAX &&
               self->size_bytes <= CADRE_ROWS_SIZE_MAX;
    }
    return self->parts <= CADRE_PARTITIONS_PER_UPDATE_MAX &&
           self->chunks <= CADRE_MESSAGE_CHUNKS_MAX;
}

bool
cadre_pull_cut_add(cadre_pull_cut_t *self, const cadre_run_part_t *part)
{
    const cadre_chunk_layout_t layout = cadre_run_part_layout(part);
    const bool is_of_rows = part->ids != NULL;
    if (self->parts > 0 && self->is_of_rows != is_of_rows) {
        return false;
    }
    self->is_of_rows = is_of_rows;
    self->parts++;
    self->rows += part->id_count;
    self->chunks += layout.count;
    self->size_bytes += layout.size_bytes;
    return fits(self);
}

cadre_row_part_t *
cadre_pull_cut_name_rows(const cadre_run_part_t *parts, const size_t *indexes, size_t count,
                         cadre_message_t *message)
{
    cadre_row_part_t *records = cadre_calloc(count, sizeof(*records));
    size_t id_count = 0;
    for (size_t i = 0; i < count; i++) {
        const cadre_run_part_t *part = &parts[indexes[i]];
        records[i] = (cadre_row_part_t){.variable = part->variable->id,
                                        .partition = part->partition,
                                        .first = CADRE_ROWS_LISTED,
                                        .count = part->id_count};
        id_count += part->id_count;
    }
    cadre_chunk_t *ids = cadre_chunk_new(id_count * sizeof(uint64_t));
    char *at = cadre_chunk_data(ids);
    for (size_t i = 0; i < count; i++) {
        const cadre_run_part_t *part = &parts[indexes[i]];
        memcpy(at, part->ids, part->id_count * sizeof(*part->ids));
        at += part->id_count * sizeof(*part->ids);
    }
    cadre_message_add_chunk(message, ids);
    return records;
}

/* Writes numbers of two bytes, little-endian. */
static void
write_ages(unsigned char *to, const uint16_t *ages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *to++ = (unsigned char)ages[i];
        *to++ = (unsigned char)(ages[i] >> 8);
    }
}

uint64_t *
cadre_pull_cut_name_held(const cadre_run_part_t *parts, const size_t *indexes, size_t count,
                         cadre_message_t *message)
{
    size_t id_count = 0;
    bool holds_any = false;
    for (size_t i = 0; i < count; i++) {
        id_count += parts[indexes[i]].id_count;
        holds_any = holds_any || parts[indexes[i]].ages;
    }
    if (!holds_any) {
        return NULL;
    }

    uint64_t *newest = cadre_calloc(count, sizeof(*newest));
    cadre_chunk_t *chunk = cadre_chunk_new(id_count * sizeof(uint16_t));
    unsigned char *at = cadre_chunk_data(chunk);
    memset(at, 0, cadre_chunk_size_bytes(chunk));
    for (size_t i = 0; i < count; i++) {
        const cadre_run_part_t *part = &parts[indexes[i]];
        newest[i] = part->newest;
        if (part->ages) {
            write_ages(at, part->ages, part->id_count);
        }
        at += part->id_count * sizeof(uint16_t);
    }
    cadre_message_add_chunk(message, chunk);
    return newest;
}
