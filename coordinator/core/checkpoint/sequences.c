#include "coordinator/core/checkpoint/sequences.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

void
cadre_sequences_fini(cadre_sequences_t *self)
{
    free(self->ranges);
    *self = (cadre_sequences_t){.ranges = NULL};
}

/* Returns the index of the first range that ends at `number` or after it. */
static size_t
find(const cadre_sequences_t *self, uint64_t number)
{
    size_t low = 0;
    size_t high = self->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (self->ranges[middle].last < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }

    return low;
}

/* Inserts a range at this index; the ranges behind it move up. */
static void
insert(cadre_sequences_t *self, size_t at, cadre_sequence_range_t range)
{
    self->ranges = cadre_grow(self->ranges, self->count, &self->capacity, sizeof(*self->ranges));
    memmove(self->ranges + at + 1, self->ranges + at, (self->count - at) * sizeof(*self->ranges));
    self->ranges[at] = range;
    self->count++;
}

/* Adds the numbers from `first` to `last`; ranges that they overlap or touch become one with
 * them. */
void
cadre_sequences_add(cadre_sequences_t *self, uint64_t first, uint64_t last)
{
    cadre_assert(first > 0 && first <= last && last <= CADRE_SEQUENCE_MAX);
    /* a range that ends at first - 1 touches the new one */
    size_t at = find(self, first - 1);
    size_t end = at; /* behind the ranges that it overlaps or touches */
    while (end < self->count && self->ranges[end].first <= last + 1) {
        first = self->ranges[end].first < first ? self->ranges[end].first : first;
        last = self->ranges[end].last > last ? self->ranges[end].last : last;
        end++;
    }

    if (end == at) {
        insert(self, at, (cadre_sequence_range_t){first, last});
        return;
    }

    self->ranges[at] = (cadre_sequence_range_t){first, last};
    memmove(self->ranges + at + 1, self->ranges + end, (self->count - end) * sizeof(*self->ranges));
    self->count -= end - at - 1;
}

void
cadre_sequences_merge(cadre_sequences_t *self, cadre_sequences_t *from)
{
    for (size_t i = 0; i < from->count; i++) {
        cadre_sequences_add(self, from->ranges[i].first, from->ranges[i].last);
    }
    cadre_sequences_fini(from);
}

/* Returns the first number from `from` on that is not in the set. */
uint64_t
cadre_sequences_next(const cadre_sequences_t *self, uint64_t from)
{
    size_t at = find(self, from);
    bool is_in = at < self->count && self->ranges[at].first <= from;
    return is_in ? self->ranges[at].last + 1 : from;
}

/* Returns the set as a flat list of first and last numbers. */
json_t *
cadre_sequences_json(const cadre_sequences_t *self)
{
    json_t *list = json_array();
    for (size_t i = 0; i < self->count; i++) {
        json_array_append_new(list, json_integer((json_int_t)self->ranges[i].first));
        json_array_append_new(list, json_integer((json_int_t)self->ranges[i].last));
    }
    return list;
}

/* Reads a flat list of first and last numbers into an empty set; fails unless they ascend, in
 * pairs. */
int
cadre_sequences_read(cadre_sequences_t *self, const json_t *list)
{
    uint64_t before = 0; /* the last number of the range before */
    size_t count = json_array_size(list);
    for (size_t i = 0; i + 1 < count; i += 2) {
        const json_t *first = json_array_get(list, i);
        const json_t *last = json_array_get(list, i + 1);
        if (!json_is_integer(first) || !json_is_integer(last) || json_integer_value(first) < 1 ||
            json_integer_value(last) < json_integer_value(first) ||
            (uint64_t)json_integer_value(first) <= before) {
            break;
        }

        before = (uint64_t)json_integer_value(last);
        cadre_sequences_add(self, (uint64_t)json_integer_value(first), before);
        if (i + 2 == count) {
            return 0;
        }
    }

    bool is_empty = json_is_array(list) && count == 0;
    return is_empty ? 0 : cadre_fail(CADRE_EMALFORMED, "sequence numbers that do not ascend");
}
