#include "common/base/u64_map.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

enum { CAPACITY_MIN = 16 };

/* Returns where an entry for `key` is looked for first. The finalizer of SplitMix64 (Steele, Lea,
 * Flood 2014) lets every bit of the key change the low bits. */
static size_t
home(const cadre_u64_map_t *self, uint64_t key)
{
    key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
    key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
    return (size_t)(key ^ (key >> 31)) & (self->capacity - 1);
}

void
cadre_u64_map_fini(cadre_u64_map_t *self)
{
    free(self->entries);
    *self = (cadre_u64_map_t){0};
}

/* Returns the entry with `key`, or the free entry where it would be put. Entries are probed one by
 * one from their home; some are always free, so the search ends. */
static cadre_u64_map_entry_t *
find(const cadre_u64_map_t *self, uint64_t key)
{
    size_t at = home(self, key);
    while (self->entries[at].value && self->entries[at].key != key) {
        at = (at + 1) & (self->capacity - 1);
    }
    return &self->entries[at];
}

void *
cadre_u64_map_get(const cadre_u64_map_t *self, uint64_t key)
{
    return self->capacity ? find(self, key)->value : NULL;
}

/* Doubles the table, and puts every entry where the larger table has its home. */
static void
grow(cadre_u64_map_t *self)
{
    cadre_u64_map_t bigger = {.capacity = self->capacity ? 2 * self->capacity : CAPACITY_MIN};
    bigger.entries = cadre_calloc(bigger.capacity, sizeof(*bigger.entries));
    for (size_t i = 0; i < self->capacity; i++) {
        if (self->entries[i].value) {
            *find(&bigger, self->entries[i].key) = self->entries[i];
        }
    }

    bigger.count = self->count;
    free(self->entries);
    *self = bigger;
}

/* Sets the value of a key; returns the one that it replaces, or NULL. The table is at most three
 * quarters full. */
void *
cadre_u64_map_put(cadre_u64_map_t *self, uint64_t key, void *value)
{
    cadre_assert(value);
    if (4 * (self->count + 1) > 3 * self->capacity) {
        grow(self);
    }
    cadre_u64_map_entry_t *entry = find(self, key);
    void *before = entry->value;
    *entry = (cadre_u64_map_entry_t){key, value};
    self->count += before ? 0 : 1;
    return before;
}

/* Removes a key and returns its value; NULL when the map does not have it. No tombstone stays:
 * entries behind the gap move back into it, so that a search that stops at a free entry misses
 * none. */
void *
cadre_u64_map_take(cadre_u64_map_t *self, uint64_t key)
{
    if (!self->capacity) {
        return NULL;
    }

    cadre_u64_map_entry_t *entry = find(self, key);
    void *value = entry->value;
    if (!value) {
        return NULL;
    }

    /* Close the gap: move back every follower that a search could not reach across it, that is,
     * whose home is not between the gap and itself. */
    size_t gap = (size_t)(entry - self->entries);
    for (size_t at = (gap + 1) & (self->capacity - 1); self->entries[at].value;
         at = (at + 1) & (self->capacity - 1)) {
        size_t distance = (at - home(self, self->entries[at].key)) & (self->capacity - 1);
        if (distance >= ((at - gap) & (self->capacity - 1))) {
            self->entries[gap] = self->entries[at];
            gap = at;
        }
    }

    self->entries[gap].value = NULL;
    self->count--;
    return value;
}

/* Returns the next value, in no particular order; NULL at the end. *cursor is 0 at the start. */
void *
cadre_u64_map_next(const cadre_u64_map_t *self, size_t *cursor)
{
    while (*cursor < self->capacity) {
        void *value = self->entries[(*cursor)++].value;
        if (value) {
            return value;
        }
    }
    return NULL;
}
