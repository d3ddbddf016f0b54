#include "worker/slot/host_memory.h"

#include <stdlib.h>

#include "common/base/memory.h"

typedef struct {
    cadre_device_t *device;
    void *data;
} lent_t;

/* Returns the device's pinned memory, or pageable memory when there is no device or it has none
 * left. */
static void *
new_memory(cadre_device_t *device, size_t size_bytes, bool *is_pageable)
{
    void *data = device ? cadre_device_memory_new(device, size_bytes) : NULL;
    *is_pageable = !data;
    return data ? data : cadre_aligned_alloc(size_bytes);
}

/* Makes room for `size_bytes`; returns true when the memory was replaced for that, and its content
 * lost. */
bool
cadre_host_memory_reserve(cadre_host_memory_t *self, size_t size_bytes)
{
    if (size_bytes <= self->capacity) {
        return false;
    }
    cadre_host_memory_fini(self);
    self->data = new_memory(self->device, size_bytes, &self->is_pageable);
    self->capacity = size_bytes;
    return true;
}

/* Frees the memory; the struct can be used again. */
void
cadre_host_memory_fini(cadre_host_memory_t *self)
{
    if (self->is_pageable) {
        free(self->data);
    } else if (self->data) {
        cadre_device_memory_free(self->device, self->data);
    }
    *self = (cadre_host_memory_t){.device = self->device};
}

/* Gives the memory of a chunk back to the device; called when the chunk's last reference is
 * dropped. */
static void
release(void *owner)
{
    lent_t *lent = owner;
    cadre_device_memory_free(lent->device, lent->data);
    free(lent);
}

/* Returns a chunk in the device's pinned memory, which goes back to the device with the chunk; in
 * pageable memory when there is no device or it has none left. */
cadre_chunk_t *
cadre_host_memory_chunk(cadre_device_t *device, size_t size_bytes)
{
    void *data = device ? cadre_device_memory_new(device, size_bytes) : NULL;
    if (!data) {
        return cadre_chunk_new(size_bytes);
    }
    lent_t *lent = cadre_calloc(1, sizeof(*lent));
    *lent = (lent_t){device, data};
    return cadre_chunk_new_foreign(data, size_bytes, release, lent);
}
