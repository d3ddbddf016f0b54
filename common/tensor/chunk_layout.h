/*
 * chunk_layout - how the rows of one partition are cut into chunks.
 *
 * Worker, ps and checkpoint cut alike, so chunk k is the same elements in memory, on the wire and
 * on disk. All chunks but the last have `stride_bytes`: as many whole rows as fit into
 * CADRE_CHUNK_SIZE_MAX, or, where one row is larger than that, CADRE_CHUNK_SIZE_MAX itself (rows
 * then begin inside chunks; elements never straddle two).
 *
 * Owner:   whoever holds the struct (plain data).
 * Thread:  immutable after init.
 */
#ifndef CADRE_COMMON_TENSOR_CHUNK_LAYOUT_H
#define CADRE_COMMON_TENSOR_CHUNK_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t size_bytes;   /* of all chunks together */
    size_t stride_bytes; /* of each chunk but the last; 0 when there are no chunks */
    size_t count;        /* number of chunks; 0 when rows or row_size_bytes is 0 */
} cadre_chunk_layout_t;

/* Computes the layout of `rows` rows; fails with CADRE_ETOOLARGE when rows * row_size_bytes exceeds
 * INT64_MAX. */
int cadre_chunk_layout_init(cadre_chunk_layout_t *self, uint64_t rows, size_t row_size_bytes);

/* Returns the layout of the same elements in another dtype, each chunk with the same elements as
 * before. An element has `from_bytes` in `self` and `to_bytes` (not more) in the result. */
cadre_chunk_layout_t cadre_chunk_layout_convert(const cadre_chunk_layout_t *self, size_t from_bytes,
                                                size_t to_bytes);

/* Returns how many bytes of the partition come before chunk `k`, k < count. */
size_t cadre_chunk_layout_offset(const cadre_chunk_layout_t *self, size_t k);

/* Returns how many bytes chunk `k` has, k < count. */
size_t cadre_chunk_layout_size(const cadre_chunk_layout_t *self, size_t k);

#endif
