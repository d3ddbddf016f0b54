/*
 * value_cache - the newest value of each partition that this worker has pulled.
 *
 * Owner:   the worker core. Thread: the network actor; the chunks it hands out may be read and
 * released anywhere.
 *
 * It holds at most one version per partition, so at most the size of the model. A pull says which
 * version is here, and the shard answers "unchanged" instead of sending it again.
 */
#ifndef CADRE_WORKER_VALUE_CACHE_H
#define CADRE_WORKER_VALUE_CACHE_H

#include <stdint.h>

#include "common/chunk.h"
#include "common/u64_map.h"

typedef struct {
    uint64_t key;
    uint64_t generation; /* of the shard that sent it */
    uint64_t version;
    cadre_chunk_t **chunks;
    size_t chunk_count;
} cadre_cached_value_t;

/* Zeroed memory is an empty cache. */
typedef struct {
    cadre_u64_map_t values;
} cadre_value_cache_t;

/* Drops everything. */
void cadre_value_cache_fini(cadre_value_cache_t *self);

/* What is held of a partition, from that generation of its shard; NULL when nothing. */
const cadre_cached_value_t *cadre_value_cache_get(const cadre_value_cache_t *self,
                                                  uint32_t variable, uint32_t partition,
                                                  uint64_t generation);

/* Keeps a value unless a newer one of the same generation is there; takes its own references. */
void cadre_value_cache_put(cadre_value_cache_t *self, uint32_t variable, uint32_t partition,
                           const cadre_cached_value_t *value);

#endif
