#include "worker/slot/id_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/table_spec.h"
#include "common/tensor/split.h"

enum { PADDING = CADRE_PROGRAM_PADDING, DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

void
cadre_id_list_begin(cadre_id_list_t *self)
{
    self->count = 0;
    self->position_count = 0;
    self->entry_count = 0;
}

/* Makes room for `more` entries. */
static void
reserve_entries(cadre_id_list_t *self, size_t more)
{
    if (self->entry_count + more <= self->entry_capacity) {
        return;
    }
    self->entry_capacity = 2 * (self->entry_count + more);
    self->entries = cadre_realloc(self->entries, self->entry_capacity, sizeof(*self->entries));
    /* Nothing of the spare is kept: sorting writes all of it. */
    free(self->spare);
    self->spare = cadre_calloc(self->entry_capacity, sizeof(*self->spare));
}

static void
reserve_positions(cadre_id_list_t *self, size_t more)
{
    if (self->position_count + more > self->position_capacity) {
        self->position_capacity = 2 * (self->position_count + more);
        self->positions =
            cadre_realloc(self->positions, self->position_capacity, sizeof(*self->positions));
    }
}

/* Fails because the id at `at` is out of range, as devices do: of positions [B, ..] the text of a
 * take names the row of the batch. */
static int
refuse(const cadre_row_lookup_t *lookup, const cadre_tensor_t *ids, int64_t at, int64_t rows)
{
    int32_t id = ((const int32_t *)ids->data)[at];
    if (lookup->op == CADRE_OP_TAKE && ids->rank > 1) {
        int64_t width = cadre_tensor_count(ids) / ids->shape[0];
        return cadre_fail(CADRE_EDATA,
                          "take: index %" PRId32 " in row %" PRId64 " at %" PRId64
                          " is not in 0..%" PRId64,
                          id, at / width, at % width, rows - 1);
    }
    return cadre_fail(CADRE_EDATA, "%s: index %" PRId32 " at %" PRId64 " is not in %d..%" PRId64,
                      cadre_op_text(lookup->op, 0), id, at, lookup->pads ? PADDING : 0, rows - 1);
}

/* Adds a position: of a row, or padding. */
static void
add_one(cadre_id_list_t *self, uint64_t id, bool is_padding)
{
    if (is_padding) {
        self->positions[self->position_count] = PADDING;
    } else {
        self->entries[self->entry_count++] = (cadre_id_entry_t){id, self->position_count};
    }
    self->position_count++;
}

int
cadre_id_list_add(cadre_id_list_t *self, const cadre_row_lookup_t *lookup,
                  const cadre_tensor_t *ids, int64_t rows, size_t *first)
{
    const int64_t count = cadre_tensor_count(ids);
    const int64_t low = lookup->pads ? PADDING : 0;
    reserve_entries(self, (size_t)count);
    reserve_positions(self, (size_t)count);
    *first = self->position_count;
    if (ids->dtype == CADRE_I64) {
        const int64_t *keys = ids->data;
        for (int64_t i = 0; i < count; i++) {
            add_one(self, (uint64_t)keys[i], lookup->pads && keys[i] == PADDING);
        }
        return 0;
    }
    const int32_t *from = ids->data;
    for (int64_t i = 0; i < count; i++) {
        if (from[i] < low || from[i] >= rows) {
            return refuse(lookup, ids, i, rows);
        }
        add_one(self, (uint64_t)from[i], from[i] == PADDING);
    }
    return 0;
}

int
cadre_id_list_add_numbers(cadre_id_list_t *self, const char *what, const int64_t *ids,
                          int64_t count, int64_t rows)
{
    reserve_entries(self, (size_t)count);
    reserve_positions(self, (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        if (rows != CADRE_ID_ALL && (ids[i] < 0 || ids[i] >= rows)) {
            return cadre_fail(CADRE_EDATA,
                              "%s: row %" PRId64 " at %" PRId64 " is not in 0..%" PRId64, what,
                              ids[i], i, rows - 1);
        }
        self->entries[self->entry_count++] =
            (cadre_id_entry_t){(uint64_t)ids[i], self->position_count++};
    }
    return 0;
}

/* Sorts the entries by the digit of their ids that begins at bit `shift`, keeping their order where
 * it is the same. */
static void
sort_by_digit(cadre_id_list_t *self, unsigned shift)
{
    size_t begins[DIGITS] = {0};
    for (size_t i = 0; i < self->entry_count; i++) {
        begins[self->entries[i].id >> shift & (DIGITS - 1)]++;
    }
    size_t at = 0;
    for (size_t i = 0; i < DIGITS; i++) {
        const size_t count = begins[i];
        begins[i] = at;
        at += count;
    }
    for (size_t i = 0; i < self->entry_count; i++) {
        const size_t digit = self->entries[i].id >> shift & (DIGITS - 1);
        self->spare[begins[digit]++] = self->entries[i];
    }
    cadre_id_entry_t *sorted = self->spare;
    self->spare = self->entries;
    self->entries = sorted;
}

/* Sorts the entries by id, from the lowest digit that is not 0 in all ids to the highest. */
static void
sort(cadre_id_list_t *self)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < self->entry_count; i++) {
        bits |= self->entries[i].id;
    }
    for (unsigned shift = 0; shift < 64 && bits >> shift != 0; shift += DIGIT_BITS) {
        sort_by_digit(self, shift);
    }
}

/* Writes the list and the positions of sorted entries. */
static void
list(cadre_id_list_t *self)
{
    if (self->entry_count > self->id_capacity) {
        self->id_capacity = self->entry_capacity;
        self->ids = cadre_realloc(self->ids, self->id_capacity, sizeof(*self->ids));
    }
    self->count = 0;
    for (size_t i = 0; i < self->entry_count; i++) {
        const cadre_id_entry_t *entry = &self->entries[i];
        if (self->count == 0 || self->ids[self->count - 1] != entry->id) {
            self->ids[self->count++] = entry->id;
        }
        if (entry->place != CADRE_ID_NOWHERE) {
            self->positions[entry->place] = (int32_t)(self->count - 1);
        }
    }
}

void
cadre_id_list_finish(cadre_id_list_t *self)
{
    sort(self);
    list(self);
}

void
cadre_id_list_spread(cadre_id_list_t *self, uint32_t shards)
{
    cadre_auto(cadre_free) size_t *begins = cadre_calloc((size_t)shards + 1, sizeof(*begins));
    for (size_t i = 0; i < self->entry_count; i++) {
        begins[cadre_table_shard(self->entries[i].id, shards) + 1]++;
    }
    for (uint32_t k = 0; k < shards; k++) {
        begins[k + 1] += begins[k];
    }
    for (size_t i = 0; i < self->entry_count; i++) {
        const uint32_t shard = cadre_table_shard(self->entries[i].id, shards);
        self->spare[begins[shard]++] = self->entries[i];
    }
    cadre_id_entry_t *sorted = self->spare;
    self->spare = self->entries;
    self->entries = sorted;
    list(self);
}

void
cadre_id_list_cover(cadre_id_list_t *self, int64_t rows, uint32_t partitions)
{
    const size_t before = self->entry_count;
    size_t at = 0;
    for (uint32_t i = 0; i < partitions; i++) {
        const uint64_t first = (uint64_t)cadre_split_first(rows, partitions, i);
        const uint64_t end = (uint64_t)cadre_split_first(rows, partitions, (int64_t)i + 1);
        const bool has_row = at < self->count && self->ids[at] < end;
        while (at < self->count && self->ids[at] < end) {
            at++;
        }
        if (!has_row && first < end) {
            reserve_entries(self, 1);
            self->entries[self->entry_count++] = (cadre_id_entry_t){first, CADRE_ID_NOWHERE};
        }
    }
    if (self->entry_count > before) {
        cadre_id_list_finish(self);
    }
}

void
cadre_id_list_fini(cadre_id_list_t *self)
{
    free(self->ids);
    free(self->positions);
    free(self->entries);
    free(self->spare);
    *self = (cadre_id_list_t){0};
}
