#include "ps/core/pulled_versions.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

/* Hands the references of one version to the pool, which gives the chunks out again once no worker
 * is being sent them. */
static void
let_go(cadre_pulled_version_t *item, size_t chunk_count, cadre_chunk_pool_t *pool)
{
    for (size_t k = 0; k < chunk_count; k++) {
        cadre_chunk_pool_put(pool, &item->chunks[k]);
    }
    free(item->chunks);
}

void
cadre_pulled_versions_keep(cadre_pulled_versions_t *self, uint64_t version,
                           cadre_chunk_t *const *chunks, size_t chunk_count,
                           cadre_chunk_pool_t *pool)
{
    if (self->count > 0 && self->items[self->count - 1].version == version) {
        return;
    }
    cadre_assert(self->count == 0 || self->items[self->count - 1].version < version);
    if (self->count == CADRE_PULLED_VERSIONS_MAX) {
        let_go(&self->items[0], chunk_count, pool);
        self->count--;
        memmove(self->items, self->items + 1, self->count * sizeof(*self->items));
    }

    cadre_pulled_version_t *item = &self->items[self->count++];
    *item = (cadre_pulled_version_t){.version = version,
                                     .chunks = cadre_calloc(chunk_count, sizeof(cadre_chunk_t *))};
    for (size_t k = 0; k < chunk_count; k++) {
        item->chunks[k] = cadre_chunk_ref(chunks[k]);
    }
}

cadre_chunk_t *const *
cadre_pulled_versions_find(const cadre_pulled_versions_t *self, uint64_t version)
{
    for (size_t i = self->count; i > 0; i--) {
        if (self->items[i - 1].version == version) {
            return self->items[i - 1].chunks;
        }
    }
    return NULL;
}

void
cadre_pulled_versions_clear(cadre_pulled_versions_t *self, size_t chunk_count,
                            cadre_chunk_pool_t *pool)
{
    for (size_t i = 0; i < self->count; i++) {
        let_go(&self->items[i], chunk_count, pool);
    }
    self->count = 0;
}
