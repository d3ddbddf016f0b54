/*
 * chunk_pool - buffers that were values a moment ago, to be written again.
 *
 * Fresh memory is slow: its first touch costs several times the update itself. When an update
 * replaces a shared chunk, the shard's reference to the old one goes here instead of being dropped;
 * once whoever pulled it lets go, the pool is alone with the chunk and hands it out for the next
 * update. Nothing crosses threads but the reference count.
 *
 * Bounded: at most `size_bytes_max` bytes and CADRE_CHUNK_POOL_CLASSES sizes; beyond that
 * references are simply dropped, the oldest of a size first.
 *
 * Owner:   one shard, shared by its partitions.
 * Thread:  the shard's actor only.
 */
#ifndef CADRE_PS_CORE_VALUES_CHUNK_POOL_H
#define CADRE_PS_CORE_VALUES_CHUNK_POOL_H

#include <stddef.h>

#include "common/tensor/chunk.h"
#include "ps/core/values/huge_source.h"

enum {
    CADRE_CHUNK_POOL_CLASSES = 32,         /* sizes kept at a time */
    CADRE_CHUNK_POOL_SIZE_MAX = 128 << 20, /* bytes that the pool of a shard may hold */
};

typedef struct cadre_chunk_pool cadre_chunk_pool_t;

cadre_chunk_pool_t *cadre_chunk_pool_new(size_t size_bytes_max);

void cadre_chunk_pool_destroy(cadre_chunk_pool_t **self_p);

/* Returns a chunk of exactly `size_bytes` to which there is no other reference; its bytes are
 * arbitrary. */
cadre_chunk_t *cadre_chunk_pool_take(cadre_chunk_pool_t *self, size_t size_bytes);

/* Takes the caller's reference to a chunk, to hand the chunk out again once nobody else holds it;
 * over the limits the oldest chunks of that size, or this one, are let go. */
void cadre_chunk_pool_put(cadre_chunk_pool_t *self, cadre_chunk_t **chunk_p);

/* Say where what is larger than chunks of values has huge pages from, for those who have the pool:
 * zeroed at first. */
void cadre_chunk_pool_set_huge_source(cadre_chunk_pool_t *self, const cadre_huge_source_t *source);
cadre_huge_source_t cadre_chunk_pool_huge_source(const cadre_chunk_pool_t *self);

/* Returns the bytes of the chunks that the pool holds references to. */
size_t cadre_chunk_pool_size_bytes(const cadre_chunk_pool_t *self);

#endif
