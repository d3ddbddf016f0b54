/*
 * value_cache - the newest value of each partition that this worker has pulled.
 *
 * Owner:   the worker core. Thread: the network actor; the chunks it hands out may be read and
 * released anywhere.
 *
 * The cache holds at most one version per partition, so at most the size of the model. A pull says
 * which version is here; if that is still the newest the shard answers "unchanged" without values.
 */
#ifndef CADRE_WORKER_CORE_VALUE_CACHE_H
#define CADRE_WORKER_CORE_VALUE_CACHE_H

#include <stdint.h>

#include "common/base/u64_map.h"
#include "common/tensor/chunk.h"

typedef struct {
    uint64_t key;
    uint64_t generation; /* of the shard that sent it */
    uint64_t version;
    cadre_chunk_t **chunks;
    size_t chunk_count;
} cadre_cached_value_t;

/* Zeroed memory is an empty cache; `content_last` may be set then. */
typedef struct {
    cadre_u64_map_t values;
    cadre_u64_map_t contents; /* by variable id: the content for which its newest content number
                                 stands */
    uint64_t content_last;    /* the last content number given; numbers only go up */
} cadre_value_cache_t;

/* Drops all values and contents; `content_last` stays, so that no number is given twice. */
void cadre_value_cache_fini(cadre_value_cache_t *self);

/* Returns the cached value of a partition, if it is from that generation of its shard; else NULL.
 */
const cadre_cached_value_t *cadre_value_cache_get(const cadre_value_cache_t *self,
                                                  uint32_t variable, uint32_t partition,
                                                  uint64_t generation);

/* Keeps a value unless a newer one of the same generation is there; takes its own references. */
void cadre_value_cache_put(cadre_value_cache_t *self, uint32_t variable, uint32_t partition,
                           const cadre_cached_value_t *value);

/* Drops the cached values of a variable that has `partitions` partitions. */
void cadre_value_cache_forget(cadre_value_cache_t *self, uint32_t variable, uint32_t partitions);

/* Returns a number for what a variable holds now, given the generation and version of each of its
 * `count` partitions (`pairs`): the number of the call before when all are the same, else a new one
 * that was never given. A slot that has values under a number need not copy these again. */
uint64_t cadre_value_cache_content(cadre_value_cache_t *self, uint32_t variable,
                                   const uint64_t *pairs, size_t count);

#endif
