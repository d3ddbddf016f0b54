#include "ps/core/values/chunk_pool.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/base/memory.h"

enum {
    CLASS_CHUNKS = 128, /* of one size */
    LOOKS = 8,          /* how many of the oldest chunks a take looks at */
};

/* Chunks of one size, oldest first: the longer ago a chunk was replaced, the likelier it has been
 * let go. */
typedef struct {
    size_t size_bytes;
    size_t head;
    size_t count;
    cadre_chunk_t *ring[CLASS_CHUNKS];
} pool_class_t;

struct cadre_chunk_pool {
    size_t size_bytes_max;
    size_t size_bytes;
    cadre_huge_source_t huge_source;
    pool_class_t classes[CADRE_CHUNK_POOL_CLASSES];
};

cadre_chunk_pool_t *
cadre_chunk_pool_new(size_t size_bytes_max)
{
    cadre_chunk_pool_t *self = cadre_calloc(1, sizeof(*self));
    self->size_bytes_max = size_bytes_max;
    return self;
}

/* Takes the oldest chunk of a size out of the pool. */
static cadre_chunk_t *
pop(cadre_chunk_pool_t *self, pool_class_t *class)
{
    cadre_chunk_t *chunk = class->ring[class->head];
    class->head = (class->head + 1) % CLASS_CHUNKS;
    class->count--;
    self->size_bytes -= class->size_bytes;
    return chunk;
}

static void
drop_oldest(cadre_chunk_pool_t *self, pool_class_t *class)
{
    cadre_chunk_t *chunk = pop(self, class);
    cadre_chunk_unref(&chunk);
}

/* Drops the references to all chunks, and frees the pool. */
void
cadre_chunk_pool_destroy(cadre_chunk_pool_t **self_p)
{
    cadre_chunk_pool_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    for (size_t i = 0; i < CADRE_CHUNK_POOL_CLASSES; i++) {
        while (self->classes[i].count > 0) {
            drop_oldest(self, &self->classes[i]);
        }
    }
    free(self);
}

/* Returns the class of chunks of this size. If there is none: with `claim` returns an empty class,
 * which becomes that of this size (NULL when all are in use), without it NULL. */
static pool_class_t *
class_of(cadre_chunk_pool_t *self, size_t size_bytes, bool claim)
{
    pool_class_t *empty = NULL;
    for (size_t i = 0; i < CADRE_CHUNK_POOL_CLASSES; i++) {
        pool_class_t *class = &self->classes[i];
        if (class->size_bytes == size_bytes && class->count > 0) {
            return class;
        }
        if (class->count == 0) {
            empty = class;
        }
    }
    if (claim && empty) {
        empty->size_bytes = size_bytes;
        return empty;
    }
    return NULL;
}

/* Takes one of the oldest chunks of this size that nobody else holds any more, or makes a chunk.
 * Where the chunk was not the first in the ring, the first takes its position. */
cadre_chunk_t *
cadre_chunk_pool_take(cadre_chunk_pool_t *self, size_t size_bytes)
{
    pool_class_t *class = class_of(self, size_bytes, false);
    for (size_t i = 0; class && i < class->count && i < LOOKS; i++) {
        cadre_chunk_t **candidate = &class->ring[(class->head + i) % CLASS_CHUNKS];
        if (cadre_chunk_alone(*candidate)) {
            cadre_chunk_t *chunk = *candidate;
            *candidate = class->ring[class->head];
            class->ring[class->head] = chunk;
            return pop(self, class);
        }
    }
    return cadre_chunk_new(size_bytes);
}

/* Takes the reference to a chunk that was replaced. Where the pool is full, the oldest chunks of
 * this size make room; if that is not enough, or there are too many sizes, the reference is
 * dropped. */
void
cadre_chunk_pool_put(cadre_chunk_pool_t *self, cadre_chunk_t **chunk_p)
{
    size_t size_bytes = cadre_chunk_size_bytes(*chunk_p);
    pool_class_t *class = class_of(self, size_bytes, true);
    if (class && class->count == CLASS_CHUNKS) {
        drop_oldest(self, class);
    }
    while (class && class->count > 0 && self->size_bytes + size_bytes > self->size_bytes_max) {
        drop_oldest(self, class);
    }
    if (!class || self->size_bytes + size_bytes > self->size_bytes_max) {
        cadre_chunk_unref(chunk_p);
        return;
    }
    class->ring[(class->head + class->count) % CLASS_CHUNKS] = *chunk_p;
    class->count++;
    self->size_bytes += size_bytes;
    *chunk_p = NULL;
}

size_t
cadre_chunk_pool_size_bytes(const cadre_chunk_pool_t *self)
{
    return self->size_bytes;
}

void
cadre_chunk_pool_set_huge_source(cadre_chunk_pool_t *self, const cadre_huge_source_t *source)
{
    self->huge_source = *source;
}

cadre_huge_source_t
cadre_chunk_pool_huge_source(const cadre_chunk_pool_t *self)
{
    return self->huge_source;
}
