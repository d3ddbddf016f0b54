/*
 * pulled_versions - the values of a partition as workers pulled them last: references, by version.
 *
 * Delay compensation (optimizer.h) needs the values that a late gradient was computed from. They
 * are not copied: by copy on write a chunk that is held here stays as it is. The last
 * CADRE_PULLED_VERSIONS_MAX versions are kept; the oldest is let go for a newer one.
 *
 * Owner:   one partition.
 * Thread:  the shard's; the chunks are read on the lanes' too.
 */
#ifndef CADRE_PS_CORE_PULLED_VERSIONS_H
#define CADRE_PS_CORE_PULLED_VERSIONS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "ps/core/values/chunk_pool.h"

typedef struct {
    uint64_t version;
    cadre_chunk_t **chunks;
} cadre_pulled_version_t;

/* Zeroed: none is kept. */
typedef struct {
    cadre_pulled_version_t items[CADRE_PULLED_VERSIONS_MAX]; /* the oldest first */
    size_t count;
} cadre_pulled_versions_t;

/* Keeps references to the `chunk_count` chunks of a version, which is the newest that was kept, or
 * newer than that. References that are let go go to the pool. */
void cadre_pulled_versions_keep(cadre_pulled_versions_t *self, uint64_t version,
                                cadre_chunk_t *const *chunks, size_t chunk_count,
                                cadre_chunk_pool_t *pool);

/* Returns the chunks of a version, valid until the next change; NULL where it is not kept. */
cadre_chunk_t *const *cadre_pulled_versions_find(const cadre_pulled_versions_t *self,
                                                 uint64_t version);

/* Lets all versions go, each of `chunk_count` chunks. */
void cadre_pulled_versions_clear(cadre_pulled_versions_t *self, size_t chunk_count,
                                 cadre_chunk_pool_t *pool);

#endif
