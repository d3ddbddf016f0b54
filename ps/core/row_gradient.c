#include "ps/core/row_gradient.h"

#include <string.h>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"

enum { IDS_PER_CHUNK = CADRE_CHUNK_SIZE_MAX / sizeof(uint64_t) };

size_t
cadre_row_gradient_id_chunks(uint64_t count)
{
    return (size_t)((count + IDS_PER_CHUNK - 1) / IDS_PER_CHUNK);
}

/* Reads the number of a row; the bytes of a message may be unaligned. */
uint64_t
cadre_row_gradient_id(const cadre_row_gradient_t *self, size_t k)
{
    uint64_t id = 0;
    const char *ids = cadre_chunk_data(self->chunks[k / IDS_PER_CHUNK]);
    memcpy(&id, ids + k % IDS_PER_CHUNK * sizeof(id), sizeof(id));
    return id;
}

/* Checks the number of bytes of each chunk. */
int
cadre_row_gradient_check_sizes(const cadre_row_gradient_t *self, const cadre_chunk_layout_t *layout)
{
    const size_t id_chunks = cadre_row_gradient_id_chunks(self->count);
    for (size_t k = 0; k < id_chunks + layout->count; k++) {
        const size_t left = (self->count - k * IDS_PER_CHUNK) * sizeof(uint64_t);
        const size_t ids = left < CADRE_CHUNK_SIZE_MAX ? left : CADRE_CHUNK_SIZE_MAX;
        const size_t expected =
            k < id_chunks ? ids : cadre_chunk_layout_size(layout, k - id_chunks);
        const size_t actual = cadre_chunk_size_bytes(self->chunks[k]);
        if (actual != expected) {
            return cadre_fail(CADRE_ESHAPE, "chunk %zu of rows has %zu bytes instead of %zu", k,
                              actual, expected);
        }
    }
    return 0;
}

/* Returns the first gradient of a row with number `id` or a later one. */
static size_t
find(const cadre_row_gradient_t *self, uint64_t id)
{
    size_t low = 0;
    size_t high = self->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (cadre_row_gradient_id(self, middle) < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Writes elements of the rows that came, which all stand together, from number `at` on. */
static void
copy(const cadre_row_gradient_t *self, const cadre_row_cut_t *cut, uint64_t at, size_t count,
     char *to)
{
    cadre_chunk_t *const *chunks = self->chunks + cadre_row_gradient_id_chunks(self->count);
    const size_t wire_size = cadre_dtype_size(cut->wire);
    const size_t size = cadre_dtype_size(cut->dtype);
    for (size_t done = 0, here = 0; done < count; done += here) {
        const size_t in_chunk = (size_t)((at + done) % cut->stride);
        const char *from = cadre_chunk_data(chunks[(at + done) / cut->stride]);
        here = count - done < cut->stride - in_chunk ? count - done : cut->stride - in_chunk;
        from += in_chunk * wire_size;
        if (cut->wire == cut->dtype) {
            memcpy(to + done * size, from, here * size);
        } else {
            cadre_dtype_traits(cut->wire)->to_f32(from, (float *)(void *)(to + done * size), here);
        }
    }
}

/* Walks the rows that have an element among those that are asked for. */
void
cadre_row_gradient_spread(const cadre_row_gradient_t *self, const cadre_row_cut_t *cut,
                          uint64_t first, size_t count, void *to)
{
    const size_t size = cadre_dtype_size(cut->dtype);
    const uint64_t end = first + count;
    memset(to, 0, count * size);
    for (size_t k = find(self, cut->first_row + first / cut->elements); k < self->count; k++) {
        const uint64_t row = (cadre_row_gradient_id(self, k) - cut->first_row) * cut->elements;
        if (row >= end) {
            break;
        }
        const size_t skipped = row < first ? (size_t)(first - row) : 0;
        const uint64_t from = row + skipped;
        const uint64_t row_end = row + cut->elements;
        const size_t here = (size_t)((row_end < end ? row_end : end) - from);
        copy(self, cut, (uint64_t)k * cut->elements + skipped, here,
             (char *)to + (size_t)(from - first) * size);
    }
}
