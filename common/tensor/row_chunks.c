#include "common/tensor/row_chunks.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

/* A label is an i32 or an f32, as large as a feature. */
enum { ELEMENT_SIZE = 4 };

static int
too_large(double size_bytes)
{
    return cadre_fail(CADRE_ETOOLARGE,
                      "the rows take %.0f bytes, and a dataset from memory %d at most: write them "
                      "to a file that the workers can read, or make several datasets",
                      size_bytes, CADRE_MEMORY_ROWS_SIZE_MAX);
}

/* Adds the next chunk and takes the caller's reference, which is dropped when there is no room. */
int
cadre_row_chunks_add(cadre_row_chunks_t *self, cadre_chunk_t *chunk)
{
    uint64_t size_bytes = self->size_bytes + cadre_chunk_size_bytes(chunk);
    if (size_bytes > CADRE_MEMORY_ROWS_SIZE_MAX) {
        cadre_chunk_unref(&chunk);
        return too_large((double)size_bytes);
    }

    self->chunks = cadre_realloc(self->chunks, self->count + 1, sizeof(cadre_chunk_t *));
    self->chunks[self->count++] = chunk;
    self->size_bytes = size_bytes;
    return 0;
}

/* Copies bytes [at, at + size_bytes) of the rows, which are those of x and behind them those of the
 * labels. */
static void
copy_part(char *out, const float *x, size_t x_size, const void *y, size_t at, size_t size_bytes)
{
    size_t of_x = at < x_size ? (size_t)cadre_min_u64(size_bytes, x_size - at) : 0;
    if (of_x > 0) {
        memcpy(out, (const char *)x + at, of_x);
    }
    if (of_x < size_bytes) {
        memcpy(out + of_x, (const char *)y + (at + of_x - x_size), size_bytes - of_x);
    }
}

int
cadre_row_chunks_check(int64_t rows, int64_t features)
{
    const double wanted = (double)rows * ((double)features + 1) * ELEMENT_SIZE;
    return wanted > CADRE_MEMORY_ROWS_SIZE_MAX ? too_large(wanted) : 0;
}

/* Copies the rows of x and their labels into chunks of their own. */
int
cadre_row_chunks_copy(const float *x, const void *y, int64_t rows, int64_t features,
                      cadre_dtype_t label, cadre_row_chunks_t *out)
{
    int status = cadre_row_chunks_check(rows, features);
    if (status < 0) {
        return status;
    }

    const size_t x_size = (size_t)rows * (size_t)features * ELEMENT_SIZE;
    const size_t end = x_size + (size_t)rows * ELEMENT_SIZE;
    cadre_row_chunks_t self = {.features = features, .label = label};
    for (size_t at = 0; at < end; at += CADRE_CHUNK_SIZE_MAX) {
        size_t size_bytes = (size_t)cadre_min_u64(end - at, CADRE_CHUNK_SIZE_MAX);
        cadre_chunk_t *chunk = cadre_chunk_new(size_bytes);
        copy_part(cadre_chunk_data(chunk), x, x_size, y, at, size_bytes);
        status = cadre_row_chunks_add(&self, chunk);
        cadre_assert(status == 0); /* the size was checked above */
    }

    *out = self;
    return 0;
}

int64_t
cadre_row_chunks_rows(const cadre_row_chunks_t *self)
{
    uint64_t row_size = ((uint64_t)self->features + 1) * ELEMENT_SIZE;
    return self->size_bytes % row_size == 0 ? (int64_t)(self->size_bytes / row_size) : -1;
}

/* Copies bytes out of the chunks. A chunk may have any size, since a worker has the chunks from the
 * wire. */
void
cadre_row_chunks_read(const cadre_row_chunks_t *self, uint64_t at, size_t size_bytes, void *out)
{
    cadre_assert(at <= self->size_bytes && size_bytes <= self->size_bytes - at);
    char *to = out;
    for (size_t i = 0; size_bytes > 0; i++) {
        size_t size = cadre_chunk_size_bytes(self->chunks[i]);
        if (at >= size) {
            at -= size;
            continue;
        }

        size_t part = (size_t)cadre_min_u64(size_bytes, size - at);
        memcpy(to, (const char *)cadre_chunk_data(self->chunks[i]) + at, part);
        to += part;
        size_bytes -= part;
        at = 0;
    }
}

void
cadre_row_chunks_fini(cadre_row_chunks_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        cadre_chunk_unref(&self->chunks[i]);
    }
    free(self->chunks);
    *self = (cadre_row_chunks_t){0};
}
