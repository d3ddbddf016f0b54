/*
 * u64_map - a hash table of pointers by 64-bit key, with open addressing.
 *
 * Owner:   whoever initialised it; the pointers stay the caller's. Thread: one at a time.
 *
 * Keys are ids that Cadre hands out, or random incarnations; they are hashed. The map is used for
 * every closure and update, where a general container (a list node and a copied key per entry) cost
 * more than the lookup.
 */
#ifndef CADRE_COMMON_BASE_U64_MAP_H
#define CADRE_COMMON_BASE_U64_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t key;
    void *value; /* NULL: free */
} cadre_u64_map_entry_t;

/* Zeroed memory is an empty map. */
typedef struct {
    cadre_u64_map_entry_t *entries;
    size_t capacity; /* 0 or a power of two */
    size_t count;
} cadre_u64_map_t;

void cadre_u64_map_fini(cadre_u64_map_t *self);

/* Returns the value under `key`, or NULL. */
void *cadre_u64_map_get(const cadre_u64_map_t *self, uint64_t key);

/* Sets the value, which must not be NULL, of `key`; returns the one it replaces, or NULL. */
void *cadre_u64_map_put(cadre_u64_map_t *self, uint64_t key, void *value);

/* Removes `key` and returns its value; NULL when the map did not have it. */
void *cadre_u64_map_take(cadre_u64_map_t *self, uint64_t key);

/* Walks the values in no particular order: start with *cursor = 0; NULL at the end. The map must
 * not change meanwhile. */
void *cadre_u64_map_next(const cadre_u64_map_t *self, size_t *cursor);

#endif
