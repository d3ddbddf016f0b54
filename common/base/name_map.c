#include "common/base/name_map.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

enum { CAPACITY_MIN = 16 };

void
cadre_name_map_fini(cadre_name_map_t *self)
{
    free(self->entries);
    *self = (cadre_name_map_t){0};
}

/* Returns the index where the search for a hash begins. `capacity` is a power of two. */
static size_t
home(const cadre_name_map_t *self, uint64_t hash)
{
    return (size_t)hash & (self->capacity - 1);
}

/* Returns the entry with `name`, or the free entry where it would be put. Entries are probed one by
 * one from their home; some are always free, so the search ends. */
static cadre_name_map_entry_t *
find(const cadre_name_map_t *self, const char *name, uint64_t hash)
{
    size_t at = home(self, hash);
    while (self->entries[at].name &&
           (self->entries[at].hash != hash || strcmp(self->entries[at].name, name) != 0)) {
        at = (at + 1) & (self->capacity - 1);
    }
    return &self->entries[at];
}

static uint64_t
hash_of(const char *name)
{
    return XXH3_64bits(name, strlen(name));
}

void *
cadre_name_map_get(const cadre_name_map_t *self, const char *name)
{
    return self->capacity ? find(self, name, hash_of(name))->value : NULL;
}

/* Doubles the table, and puts every entry where the larger table has its home. */
static void
grow(cadre_name_map_t *self)
{
    cadre_name_map_t bigger = {.capacity = self->capacity ? 2 * self->capacity : CAPACITY_MIN,
                               .count = self->count};
    bigger.entries = cadre_calloc(bigger.capacity, sizeof(*bigger.entries));
    for (size_t i = 0; i < self->capacity; i++) {
        const cadre_name_map_entry_t *entry = &self->entries[i];
        if (entry->name) {
            *find(&bigger, entry->name, entry->hash) = *entry;
        }
    }

    free(self->entries);
    *self = bigger;
}

/* Adds a value under a name that the map does not have. The table is at most three quarters full.
 */
void
cadre_name_map_put(cadre_name_map_t *self, const char *name, void *value)
{
    cadre_assert(value);
    if (4 * (self->count + 1) > 3 * self->capacity) {
        grow(self);
    }
    uint64_t hash = hash_of(name);
    cadre_name_map_entry_t *entry = find(self, name, hash);
    cadre_assert(!entry->name);
    *entry = (cadre_name_map_entry_t){hash, name, value};
    self->count++;
}

/* Removes a name and returns its value; NULL when the map does not have it. No tombstone stays:
 * entries behind the gap move back into it, so that a search that stops at a free entry misses
 * none. */
void *
cadre_name_map_take(cadre_name_map_t *self, const char *name)
{
    if (!self->capacity) {
        return NULL;
    }

    cadre_name_map_entry_t *entry = find(self, name, hash_of(name));
    void *value = entry->value;

    if (!entry->name) {
        return NULL;
    }

    /* Close the gap: move back every follower that a search could not reach across it, that is,
     * whose home is not between the gap and itself. */
    size_t gap = (size_t)(entry - self->entries);
    for (size_t at = (gap + 1) & (self->capacity - 1); self->entries[at].name;
         at = (at + 1) & (self->capacity - 1)) {
        size_t distance = (at - home(self, self->entries[at].hash)) & (self->capacity - 1);
        if (distance >= ((at - gap) & (self->capacity - 1))) {
            self->entries[gap] = self->entries[at];
            gap = at;
        }
    }

    self->entries[gap] = (cadre_name_map_entry_t){.name = NULL};
    self->count--;
    return value;
}
