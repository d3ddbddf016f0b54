#include "worker/core/value_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

/* The content of a variable for which its newest content number stands. */
typedef struct {
    uint64_t number;
    size_t count;
    uint64_t pairs[]; /* generation and version of each partition */
} content_t;

/* Returns the key of the map for a partition. */
static uint64_t
key_of(uint32_t variable, uint32_t partition)
{
    return (uint64_t)variable << 32 | partition;
}

static void
drop_chunks(cadre_cached_value_t *value)
{
    for (size_t i = 0; i < value->chunk_count; i++) {
        cadre_chunk_unref(&value->chunks[i]);
    }
}

/* Frees a cached value with its references to the chunks. */
static void
drop(cadre_cached_value_t *value)
{
    drop_chunks(value);
    free(value->chunks);
    free(value);
}

/* Drops all values and content numbers. `content_last` stays, so that no number is given twice. */
void
cadre_value_cache_fini(cadre_value_cache_t *self)
{
    cadre_cached_value_t *value = NULL;
    for (size_t cursor = 0; (value = cadre_u64_map_next(&self->values, &cursor));) {
        drop(value);
    }
    cadre_u64_map_fini(&self->values);
    content_t *content = NULL;
    for (size_t cursor = 0; (content = cadre_u64_map_next(&self->contents, &cursor));) {
        free(content);
    }
    cadre_u64_map_fini(&self->contents);
}

/* Returns the cached value of a partition; NULL when there is none from this generation of its
 * shard: after a restore the same version may have other values. */
const cadre_cached_value_t *
cadre_value_cache_get(const cadre_value_cache_t *self, uint32_t variable, uint32_t partition,
                      uint64_t generation)
{
    const cadre_cached_value_t *value =
        cadre_u64_map_get(&self->values, key_of(variable, partition));
    return value && value->generation == generation ? value : NULL;
}

/* Takes the place of what the cache has of the partition: its chunks, or, where these have another
 * number, all of it. */
static void
replace(cadre_value_cache_t *self, uint64_t key, const cadre_cached_value_t *value)
{
    cadre_cached_value_t *kept = cadre_u64_map_get(&self->values, key);
    if (kept && kept->chunk_count == value->chunk_count) {
        drop_chunks(kept);
    } else {
        if (kept) {
            drop(kept);
        }
        kept = cadre_calloc(1, sizeof(*kept));
        kept->chunks = cadre_calloc(value->chunk_count, sizeof(cadre_chunk_t *));
        cadre_u64_map_put(&self->values, key, kept);
    }

    cadre_chunk_t **chunks = kept->chunks;
    *kept = *value;
    kept->key = key;
    kept->chunks = chunks;
    for (size_t i = 0; i < value->chunk_count; i++) {
        chunks[i] = cadre_chunk_ref(value->chunks[i]);
    }
}

/* Keeps a pulled value of a partition, unless the cache has the same version or a newer one:
 * answers to two pulls may come in any order. */
void
cadre_value_cache_put(cadre_value_cache_t *self, uint32_t variable, uint32_t partition,
                      const cadre_cached_value_t *value)
{
    const cadre_cached_value_t *held =
        cadre_value_cache_get(self, variable, partition, value->generation);
    if (held && held->version >= value->version) {
        return;
    }
    replace(self, key_of(variable, partition), value);
}

/* Drops the cached values and the content number of a variable with so many partitions. */
void
cadre_value_cache_forget(cadre_value_cache_t *self, uint32_t variable, uint32_t partitions)
{
    for (uint32_t i = 0; i < partitions; i++) {
        cadre_cached_value_t *value = cadre_u64_map_take(&self->values, key_of(variable, i));
        if (value) {
            drop(value);
        }
    }
    free(cadre_u64_map_take(&self->contents, variable));
}

/* The number stays as long as the pairs (generation and version of each partition) are those of the
 * call before; pairs that come back later get a new one. */
uint64_t
cadre_value_cache_content(cadre_value_cache_t *self, uint32_t variable, const uint64_t *pairs,
                          size_t count)
{
    size_t size_bytes = 2 * count * sizeof(*pairs);
    content_t *content = cadre_u64_map_get(&self->contents, variable);
    if (content && content->count == count && memcmp(content->pairs, pairs, size_bytes) == 0) {
        return content->number;
    }
    if (!content || content->count != count) {
        content_t *other = cadre_calloc(1, sizeof(*other) + size_bytes);
        other->count = count;
        free(cadre_u64_map_put(&self->contents, variable, other));
        content = other;
    }
    memcpy(content->pairs, pairs, size_bytes);
    content->number = ++self->content_last;
    return content->number;
}
