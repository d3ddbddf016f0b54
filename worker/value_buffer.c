#include "worker/value_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

const void *
cadre_value_buffer_put(cadre_value_buffer_t *self, cadre_value_t *value)
{
    cadre_value_buffer_release(self);
    if (value->chunk_count == 1) {
        self->chunk = value->chunks[0];
        value->chunks[0] = NULL;
        self->data = cadre_chunk_data(self->chunk);
        return self->data;
    }
    if (value->size_bytes > self->capacity) {
        free(self->memory);
        self->memory = cadre_aligned_alloc(value->size_bytes);
        self->capacity = value->size_bytes;
    }
    char *at = self->memory;
    for (size_t i = 0; i < value->chunk_count; i++) {
        size_t size_bytes = cadre_chunk_size_bytes(value->chunks[i]);
        memcpy(at, cadre_chunk_data(value->chunks[i]), size_bytes);
        at += size_bytes;
        cadre_chunk_unref(&value->chunks[i]);
    }
    self->data = self->memory;
    return self->data;
}

void
cadre_value_buffer_release(cadre_value_buffer_t *self)
{
    cadre_chunk_unref(&self->chunk);
    self->data = NULL;
}

void
cadre_value_buffer_fini(cadre_value_buffer_t *self)
{
    cadre_value_buffer_release(self);
    free(self->memory);
    *self = (cadre_value_buffer_t){0};
}
