/*
 * value_cache - the newest value of each partition that this worker has pulled.
 *
 * Owner:   the worker core. Thread: the network actor; the chunks it hands out may be read and
 * released anywhere.
 *
 * It holds at most one version per partition, so at most the size of the model. A pull says which
 * version is here, and the shard answers "unchanged" instead of sending it again.
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
    cadre_u64_map_t contents; /* by variable: what was numbered last */
    uint64_t content_last;    /* the last number given, which only go up */
} cadre_value_cache_t;

/* Drops everything; numbers go on. */
void cadre_value_cache_fini(cadre_value_cache_t *self);

/* What is held of a partition, from that generation of its shard; NULL when nothing. */
const cadre_cached_value_t *cadre_value_cache_get(const cadre_value_cache_t *self,
                                                  uint32_t variable, uint32_t partition,
                                                  uint64_t generation);

/* Keeps a value unless a newer one of the same generation is there; takes its own references. */
void cadre_value_cache_put(cadre_value_cache_t *self, uint32_t variable, uint32_t partition,
                           const cadre_cached_value_t *value);

/* Drops what is held of a variable with so many partitions. */
void cadre_value_cache_forget(cadre_value_cache_t *self, uint32_t variable, uint32_t partitions);

/* A number for the content of a whole variable, which is known by generation and version of each of
 * its `count` partitions, one after the other in `pairs`: that of the call before when it is the
 * same, otherwise one that was never given. Contents that differ so never have the same number. */
uint64_t cadre_value_cache_content(cadre_value_cache_t *self, uint32_t variable,
                                   const uint64_t *pairs, size_t count);

#endif
