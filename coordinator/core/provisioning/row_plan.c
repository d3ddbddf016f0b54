#include "coordinator/core/provisioning/row_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/tensor/chunk.h"
#include "common/tensor/split.h"
#include "common/wire/row_list.h"

/* A partition that has rows of the request. */
typedef struct {
    uint32_t shard;
    uint32_t partition;
} place_t;

/* Returns the row at a position of the request. */
static int64_t
row_at(const cadre_row_plan_t *self, size_t position)
{
    return self->ids ? self->ids[position] : self->first_row + (int64_t)position;
}

static size_t
partition_at(const cadre_row_plan_t *self, size_t position)
{
    const cadre_variable_t *variable = self->variable;
    if (variable->table) {
        return cadre_table_shard((uint64_t)row_at(self, position), variable->partitions);
    }
    return (size_t)cadre_split_part(variable->rows, variable->partitions, row_at(self, position));
}

/* Orders places by shard, and those of a shard by partition. */
static int
compare_places(const void *left, const void *right)
{
    const place_t *a = left;
    const place_t *b = right;
    if (a->shard != b->shard) {
        return a->shard > b->shard ? 1 : -1;
    }
    return (a->partition > b->partition) - (a->partition < b->partition);
}

/* Writes to `places` the partitions that have rows, in the order of shards; returns how many. */
static size_t
find_places(const cadre_variable_t *variable, const size_t *counts, place_t *places)
{
    size_t count = 0;
    for (uint32_t i = 0; i < variable->partitions; i++) {
        if (counts[i] > 0) {
            places[count++] = (place_t){variable->shards[i], i};
        }
    }
    qsort(places, count, sizeof(*places), compare_places);
    return count;
}

/* Sorts the positions by place, keeping the order of the request within one: a counting sort.
 * `counts`, the rows of each partition, become the ends of their spans in `order`. */
static void
sort(cadre_row_plan_t *self, const place_t *places, size_t place_count, size_t *counts)
{
    size_t at = 0;
    for (size_t i = 0; i < place_count; i++) {
        const size_t count = counts[places[i].partition];
        counts[places[i].partition] = at;
        at += count;
    }
    for (size_t position = 0; position < self->count; position++) {
        self->order[counts[partition_at(self, position)]++] = position;
    }
}

/* Returns how many more rows of this variable the message takes; 0: none, or no further part. */
static size_t
room_in(const cadre_row_plan_t *self, const cadre_row_plan_message_t *message)
{
    const size_t row_size_bytes = self->variable->row_size_bytes;
    const size_t fitting =
        row_size_bytes > 0 ? CADRE_ROWS_SIZE_MAX / row_size_bytes : (size_t)CADRE_ROWS_MAX;
    size_t rows_max = fitting < CADRE_ROWS_MAX ? fitting : CADRE_ROWS_MAX;
    rows_max = rows_max > 0 ? rows_max : 1; /* a larger row travels alone */
    return message->part_count < CADRE_ROW_PARTS_MAX ? rows_max - message->row_count : 0;
}

/* Returns the message that the next rows for `shard` go into: the last one, or a new one where that
 * is of another shard or full. */
static cadre_row_plan_message_t *
message_for(cadre_row_plan_t *self, uint32_t shard)
{
    if (self->message_count > 0) {
        cadre_row_plan_message_t *last = &self->messages[self->message_count - 1];
        if (last->shard == shard && room_in(self, last) > 0) {
            return last;
        }
    }
    self->messages =
        cadre_realloc(self->messages, self->message_count + 1, sizeof(*self->messages));
    cadre_row_plan_message_t *message = &self->messages[self->message_count++];
    *message = (cadre_row_plan_message_t){.shard = shard, .first_part = self->part_count};
    return message;
}

/* Cuts the rows of one place, order[first] to order[end - 1], into parts of messages. */
static void
cut(cadre_row_plan_t *self, const place_t *place, size_t first, size_t end)
{
    while (first < end) {
        cadre_row_plan_message_t *message = message_for(self, place->shard);
        const size_t room = room_in(self, message);
        const size_t count = end - first < room ? end - first : room;
        self->parts = cadre_realloc(self->parts, self->part_count + 1, sizeof(*self->parts));
        self->parts[self->part_count++] = (cadre_row_plan_part_t){place->partition, first, count};
        message->part_count++;
        message->row_count += count;
        first += count;
    }
}

/* Sorts the rows of a request by shard and partition, and cuts them into messages. */
void
cadre_row_plan_init(cadre_row_plan_t *self, const cadre_variable_t *variable, const int64_t *ids,
                    int64_t first_row, size_t count)
{
    *self = (cadre_row_plan_t){.variable = variable,
                               .ids = ids,
                               .first_row = first_row,
                               .count = count,
                               .order = cadre_calloc(count, sizeof(size_t))};
    cadre_auto(cadre_free) size_t *counts = cadre_calloc(variable->partitions, sizeof(*counts));
    cadre_auto(cadre_free) place_t *places = cadre_calloc(variable->partitions, sizeof(*places));
    for (size_t position = 0; position < count; position++) {
        counts[partition_at(self, position)]++;
    }
    const size_t place_count = find_places(variable, counts, places);
    sort(self, places, place_count, counts);

    size_t first = 0;
    for (size_t i = 0; i < place_count; i++) {
        const size_t end = counts[places[i].partition];
        cut(self, &places[i], first, end);
        first = end;
    }
}

void
cadre_row_plan_fini(cadre_row_plan_t *self)
{
    free(self->order);
    free(self->parts);
    free(self->messages);
    *self = (cadre_row_plan_t){.count = 0};
}

/* Returns whether the rows of a part follow each other, so that two numbers name them all. Keys of
 * a table are always listed. */
static bool
is_span(const cadre_row_plan_t *self, const cadre_row_plan_part_t *part)
{
    const size_t *order = self->order + part->first;
    const int64_t first = row_at(self, order[0]);
    if (self->variable->table) {
        return false;
    }
    for (size_t k = 1; k < part->count; k++) {
        if (row_at(self, order[k]) != first + (int64_t)k) {
            return false;
        }
    }
    return true;
}

/* Names the rows of a message: spans by their first row, others by their ids. */
cadre_chunk_t *
cadre_row_plan_name(const cadre_row_plan_t *self, const cadre_row_plan_message_t *message,
                    cadre_row_part_t *records)
{
    cadre_auto(cadre_free) uint64_t *ids = cadre_calloc(message->row_count, sizeof(*ids));
    size_t id_count = 0;
    for (size_t i = 0; i < message->part_count; i++) {
        const cadre_row_plan_part_t *part = &self->parts[message->first_part + i];
        const bool is_listed = !is_span(self, part);
        records[i] = (cadre_row_part_t){
            .variable = self->variable->id,
            .partition = part->partition,
            .first =
                is_listed ? CADRE_ROWS_LISTED : (uint64_t)row_at(self, self->order[part->first]),
            .count = part->count};
        for (size_t k = 0; is_listed && k < part->count; k++) {
            ids[id_count++] = (uint64_t)row_at(self, self->order[part->first + k]);
        }
    }
    return id_count > 0 ? cadre_chunk_new_copy(ids, id_count * sizeof(*ids)) : NULL;
}
