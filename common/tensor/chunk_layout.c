#include "common/tensor/chunk_layout.h"

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/status.h"

/* Computes how `rows` rows are cut into chunks: as many whole rows to a chunk as fit into it; a row
 * that is larger than a chunk goes over several. */
int
cadre_chunk_layout_init(cadre_chunk_layout_t *self, uint64_t rows, size_t row_size_bytes)
{
    size_t size_bytes = 0;
    if (__builtin_mul_overflow(rows, row_size_bytes, &size_bytes) || size_bytes > INT64_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%llu rows of %zu bytes are more than 2^63 bytes",
                          (unsigned long long)rows, row_size_bytes);
    }
    *self = (cadre_chunk_layout_t){.size_bytes = size_bytes};
    if (size_bytes > 0) {
        const size_t chunk = CADRE_CHUNK_SIZE_MAX;
        self->stride_bytes =
            row_size_bytes <= chunk ? chunk / row_size_bytes * row_size_bytes : chunk;
        self->count =
            size_bytes <= self->stride_bytes ? 1 : (size_bytes - 1) / self->stride_bytes + 1;
    }
    return 0;
}

/* Returns the layout of the same elements in a smaller dtype: each chunk has the same elements as
 * before. Sizes are those of one element in bytes. */
cadre_chunk_layout_t
cadre_chunk_layout_convert(const cadre_chunk_layout_t *self, size_t from_bytes, size_t to_bytes)
{
    if (from_bytes == to_bytes) { /* mostly, and messages ask for layouts again and again */
        return *self;
    }
    cadre_assert(from_bytes >= to_bytes && self->stride_bytes % from_bytes == 0);
    return (cadre_chunk_layout_t){.size_bytes = self->size_bytes / from_bytes * to_bytes,
                                  .stride_bytes = self->stride_bytes / from_bytes * to_bytes,
                                  .count = self->count};
}

size_t
cadre_chunk_layout_offset(const cadre_chunk_layout_t *self, size_t k)
{
    cadre_assert(k < self->count);
    return k * self->stride_bytes;
}

/* Returns the bytes of chunk `k`: the stride, or, for the last chunk, what is left. */
size_t
cadre_chunk_layout_size(const cadre_chunk_layout_t *self, size_t k)
{
    size_t rest = self->size_bytes - cadre_chunk_layout_offset(self, k);
    return rest < self->stride_bytes ? rest : self->stride_bytes;
}
