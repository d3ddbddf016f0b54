#include "common/tensor/chunk.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

enum { ALIGNMENT = 64 };

struct cadre_chunk {
    atomic_size_t references;
    size_t size_bytes;
    void *data;
    void (*release)(
        void *owner); /* frees memory of another owner; NULL: `data` is in the same block
                                     of memory as this struct */
    void *owner;
};

/* Returns a chunk over memory of another owner; `release(owner)` is called when the last reference
 * is dropped. */
cadre_chunk_t *
cadre_chunk_new_foreign(void *bytes, size_t size_bytes, void (*release)(void *owner), void *owner)
{
    cadre_chunk_t *self = cadre_calloc(1, sizeof(*self));
    atomic_init(&self->references, 1);
    self->size_bytes = size_bytes;
    self->data = bytes;
    self->release = release;
    self->owner = owner;
    return self;
}

/* Returns a chunk whose bytes follow this struct in one block of memory, at the next multiple of
 * 64. */
cadre_chunk_t *
cadre_chunk_new(size_t size_bytes)
{
    /* Not aligned_alloc, which is slow for what is small and leaves splinters that malloc joins
     * only when it has no other memory left. */
    size_t block_size_bytes = sizeof(cadre_chunk_t) + ALIGNMENT + size_bytes;
    cadre_assert(block_size_bytes > size_bytes);
    cadre_chunk_t *self = cadre_realloc(NULL, 1, block_size_bytes);
    uintptr_t behind = (uintptr_t)(self + 1);
    atomic_init(&self->references, 1);
    self->size_bytes = size_bytes;
    self->data = (char *)(self + 1) + (ALIGNMENT - behind % ALIGNMENT) % ALIGNMENT;
    self->release = NULL;
    self->owner = NULL;
    return self;
}

/* Returns a chunk with a copy of the bytes. */
cadre_chunk_t *
cadre_chunk_new_copy(const void *bytes, size_t size_bytes)
{
    cadre_chunk_t *self = cadre_chunk_new(size_bytes);
    if (size_bytes > 0) {
        memcpy(self->data, bytes, size_bytes);
    }
    return self;
}

/* Adds a reference. Relaxed order is enough: the caller has one already, so the chunk cannot go. */
cadre_chunk_t *
cadre_chunk_ref(cadre_chunk_t *self)
{
    size_t before = atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
    cadre_assert(before > 0);
    return self;
}

/* Drops a reference and nulls the pointer; the last one frees the chunk. Acquire and release: what
 * other holders did with the bytes happens before they are freed. */
void
cadre_chunk_unref(cadre_chunk_t **self_p)
{
    cadre_chunk_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    size_t before = atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel);
    cadre_assert(before > 0);
    if (before > 1) {
        return;
    }
    if (self->release) {
        self->release(self->owner);
    }
    free(self);
}

/* Returns whether the caller, who holds a reference, holds the only one, and so may write. */
bool
cadre_chunk_alone(const cadre_chunk_t *self)
{
    return atomic_load_explicit(&self->references, memory_order_acquire) == 1;
}

void *
cadre_chunk_data(const cadre_chunk_t *self)
{
    return self->data;
}

size_t
cadre_chunk_size_bytes(const cadre_chunk_t *self)
{
    return self->size_bytes;
}
