#include "worker/slot/value_buffer.h"

#include <string.h>

#include "common/tensor/dtype.h"

/* Returns whether the memory holds the content of `value` already, by its content number (0:
 * unknown). If not, makes room for `size_bytes`, and notes that it will hold this content, which
 * the caller then copies. */
static bool
holds(cadre_value_buffer_t *self, const cadre_value_t *value, size_t size_bytes)
{
    bool gone = cadre_host_memory_reserve(&self->memory, size_bytes);
    bool same = !gone && value->content != 0 && value->content == self->content;
    self->content = value->content;
    return same;
}

/* Uses a value that came as one chunk where it is: takes the reference to the chunk. */
static const void *
keep_one(cadre_value_buffer_t *self, cadre_value_t *value)
{
    self->chunk = value->chunks[0];
    value->chunks[0] = NULL;
    self->data = cadre_chunk_data(self->chunk);
    return self->data;
}

static void
drop_chunks(cadre_value_t *value)
{
    for (size_t i = 0; i < value->chunk_count; i++) {
        cadre_chunk_unref(&value->chunks[i]);
    }
}

/* Takes a pulled value unconverted, in its wire dtype, and returns it as one piece of memory: its
 * chunk if there is only one, else a copy of all chunks. */
const void *
cadre_value_buffer_put_wire(cadre_value_buffer_t *self, cadre_value_t *value)
{
    cadre_value_buffer_release(self);
    if (value->chunk_count == 1) {
        return keep_one(self, value);
    }

    bool same = holds(self, value, value->size_bytes);
    char *at = self->memory.data;
    for (size_t i = 0; i < value->chunk_count && !same; i++) {
        size_t size_bytes = cadre_chunk_size_bytes(value->chunks[i]);
        memcpy(at, cadre_chunk_data(value->chunks[i]), size_bytes);
        at += size_bytes;
    }

    drop_chunks(value);
    self->data = self->memory.data;
    return self->data;
}

/* Copies the chunks of a value into the memory, converted from the wire dtype to f32, and returns
 * the memory. */
static const void *
convert(cadre_value_buffer_t *self, cadre_value_t *value)
{
    cadre_value_buffer_release(self);
    const cadre_variable_entry_t *variable = value->variable;
    bool same = holds(self, value, variable->row_size_bytes * (size_t)variable->rows);
    const cadre_dtype_traits_t *wire = cadre_dtype_traits(variable->wire);
    float *at = self->memory.data;
    for (size_t i = 0; i < value->chunk_count && !same; i++) {
        size_t count = cadre_chunk_size_bytes(value->chunks[i]) / cadre_dtype_size(variable->wire);
        wire->to_f32(cadre_chunk_data(value->chunks[i]), at, count);
        at += count;
    }

    drop_chunks(value);
    self->data = self->memory.data;
    return self->data;
}

const void *
cadre_value_buffer_put(cadre_value_buffer_t *self, cadre_value_t *value)
{
    return value->variable->wire == value->variable->dtype
               ? cadre_value_buffer_put_wire(self, value)
               : convert(self, value);
}

/* Fills `capacity` rows with copies of the first, from row `rows` on: numbers that a program may
 * compute with as it does with those that are meant. */
static void
pad(char *data, size_t row_size_bytes, size_t rows, size_t capacity)
{
    if (rows == 0) {
        memset(data, 0, capacity * row_size_bytes);
    }
    for (size_t i = rows; rows > 0 && i < capacity; i++) {
        memcpy(data + i * row_size_bytes, data, row_size_bytes);
    }
}

const void *
cadre_value_buffer_put_rows(cadre_value_buffer_t *self, cadre_value_t *value, size_t capacity,
                            bool on_wire)
{
    const cadre_variable_entry_t *variable = value->variable;
    const size_t rows = value->size_bytes / variable->wire_row_size_bytes;
    const bool is_converted = !on_wire && variable->wire != variable->dtype;
    const size_t row_size_bytes =
        is_converted ? variable->row_size_bytes : variable->wire_row_size_bytes;
    cadre_value_buffer_release(self);
    if (rows == capacity && value->chunk_count == 1 && !is_converted) {
        return keep_one(self, value);
    }

    holds(self, value, capacity * row_size_bytes);
    char *at = self->memory.data;
    for (size_t i = 0; i < value->chunk_count; i++) {
        const size_t size_bytes = cadre_chunk_size_bytes(value->chunks[i]);
        const size_t count = size_bytes / cadre_dtype_size(variable->wire);
        if (is_converted) {
            cadre_dtype_traits(variable->wire)
                ->to_f32(cadre_chunk_data(value->chunks[i]), (float *)(void *)at, count);
        } else {
            memcpy(at, cadre_chunk_data(value->chunks[i]), size_bytes);
        }
        at += is_converted ? count * cadre_dtype_size(variable->dtype) : size_bytes;
    }
    pad(self->memory.data, row_size_bytes, rows, capacity);
    drop_chunks(value);
    self->data = self->memory.data;
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
    cadre_host_memory_fini(&self->memory);
    self->content = 0;
}
