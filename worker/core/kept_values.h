/*
 * kept_values - results of closures that are on this worker, because they were computed here or
 * came as arguments: what another closure takes of them need not be sent again.
 *
 * Owner:   the worker core. Thread: the network actor's; a slot reads a value that its run holds.
 *
 * Only values of CADRE_KEPT_VALUE_SIZE_MIN bytes and more are kept, and of all together no more
 * bytes than the limit: the least recently used is evicted first (LRU). A closure that names an
 * evicted one is handed back, and comes again with the bytes. A value is known by closure, attempt
 * and position of the result: two attempts of one closure may give different values.
 */
#ifndef CADRE_WORKER_CORE_KEPT_VALUES_H
#define CADRE_WORKER_CORE_KEPT_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/u64_map.h"
#include "common/wire/tensor_list.h"

typedef struct cadre_kept_value {
    struct cadre_kept_value *newer; /* the value that was used next after this one; NULL: none */
    struct cadre_kept_value *older; /* used last before this one */
    uint32_t references;            /* held by the cache, and by each run that takes the value */
    uint64_t closure;
    uint64_t attempt;
    uint64_t result;            /* its position */
    cadre_tensor_list_t tensor; /* the value: a list of one tensor, which never changes */
} cadre_kept_value_t;

/* Zeroed memory with `size_max` set is an empty cache. */
typedef struct {
    cadre_u64_map_t values; /* by closure and result: the value of the attempt that came last */
    cadre_kept_value_t *newest;
    cadre_kept_value_t *oldest;
    size_t size_bytes;
    size_t size_max;
} cadre_kept_values_t;

/* Drops everything; the limit stays. */
void cadre_kept_values_clear(cadre_kept_values_t *self);

/* Keeps the tensor at `position` of a list under `key` (closure, attempt, result), sharing its
 * chunks, and evicts the least recently used values where that takes room. Keeps nothing when the
 * tensor is smaller than CADRE_KEPT_VALUE_SIZE_MIN, larger than the limit, or not in the list. */
void cadre_kept_values_put(cadre_kept_values_t *self, const uint64_t key[3],
                           const cadre_tensor_list_t *list, size_t position);

/* Returns a reference to the value under `key` (closure, attempt, result), which becomes the most
 * recently used one; NULL when it is not kept. */
cadre_kept_value_t *cadre_kept_values_take(cadre_kept_values_t *self, const uint64_t key[3]);

/* Gives a reference back, and frees the value with the last one; harmless on NULL. */
void cadre_kept_value_unref(cadre_kept_value_t **value_p);

#endif
