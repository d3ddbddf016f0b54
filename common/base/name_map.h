/*
 * name_map - a hash table of pointers by name.
 *
 * Owner:   whoever initialised it; names and values stay the caller's, and a name must live as long
 *          as its value is in the map. Thread: one at a time.
 *
 * Names with the same hash are compared, so the map is correct for any names.
 */
#ifndef CADRE_COMMON_BASE_NAME_MAP_H
#define CADRE_COMMON_BASE_NAME_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t hash;
    const char *name; /* NULL: free */
    void *value;
} cadre_name_map_entry_t;

/* Zeroed memory is an empty map. */
typedef struct {
    cadre_name_map_entry_t *entries;
    size_t capacity; /* 0 or a power of two */
    size_t count;
} cadre_name_map_t;

void cadre_name_map_fini(cadre_name_map_t *self);

/* Returns the value under `name`, or NULL. */
void *cadre_name_map_get(const cadre_name_map_t *self, const char *name);

/* Adds a value, which must not be NULL, under a name that the map does not have. */
void cadre_name_map_put(cadre_name_map_t *self, const char *name, void *value);

/* Removes `name` and returns its value; NULL when the map did not have it. */
void *cadre_name_map_take(cadre_name_map_t *self, const char *name);

#endif
