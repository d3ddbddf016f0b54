#include "worker/value_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "common/bf16.h"
#include "common/memory.h"

static void
reserve(cadre_value_buffer_t *self, size_t size_bytes)
{
    if (size_bytes > self->capacity) {
        free(self->memory);
        self->memory = cadre_aligned_alloc(size_bytes);
        self->capacity = size_bytes;
    }
}

const void *
cadre_value_buffer_put_wire(cadre_value_buffer_t *self, cadre_value_t *value)
{
    cadre_value_buffer_release(self);
    if (value->chunk_count == 1) {
        self->chunk = value->chunks[0];
        value->chunks[0] = NULL;
        self->data = cadre_chunk_data(self->chunk);
        return self->data;
    }
    reserve(self, value->size_bytes);
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

static const void *
widen(cadre_value_buffer_t *self, cadre_value_t *value)
{
    cadre_value_buffer_release(self);
    reserve(self, value->variable->row_size_bytes * (size_t)value->variable->rows);
    float *at = self->memory;
    for (size_t i = 0; i < value->chunk_count; i++) {
        size_t count = cadre_chunk_size_bytes(value->chunks[i]) / cadre_dtype_size(CADRE_BF16);
        cadre_bf16_widen(cadre_chunk_data(value->chunks[i]), at, count);
        at += count;
        cadre_chunk_unref(&value->chunks[i]);
    }
    self->data = self->memory;
    return self->data;
}

const void *
cadre_value_buffer_put(cadre_value_buffer_t *self, cadre_value_t *value)
{
    return value->variable->wire == value->variable->dtype
               ? cadre_value_buffer_put_wire(self, value)
               : widen(self, value);
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
