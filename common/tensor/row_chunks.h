/*
 * row_chunks - rows that a program has in memory, as chunks: a dataset without a file.
 *
 * Owner:   the caller of init or copy; ended with fini.
 * Thread:  one at a time while chunks are added; then any number of threads may read.
 *
 * The bytes of all chunks, one after the other, are x, f32 [rows, features], and behind it the
 * labels, [rows] of i32 or f32. All chunks but the last have CADRE_CHUNK_SIZE_MAX bytes, so rows
 * begin inside chunks and lie across two; elements never do.
 */
#ifndef CADRE_COMMON_TENSOR_ROW_CHUNKS_H
#define CADRE_COMMON_TENSOR_ROW_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/tensor.h>

#include "common/tensor/chunk.h"

/* Zeroed memory has no rows. */
typedef struct {
    int64_t features;
    cadre_dtype_t label; /* CADRE_I32: numbers of classes; CADRE_F32: values */
    cadre_chunk_t **chunks;
    size_t count;
    uint64_t size_bytes; /* of all chunks */
} cadre_row_chunks_t;

/* Fails with CADRE_ETOOLARGE, with the size and the limit as text, where so many rows and their
 * labels take more than CADRE_MEMORY_ROWS_SIZE_MAX. */
int cadre_row_chunks_check(int64_t rows, int64_t features);

/* Copies the rows of `x`, f32 [rows, features], and their labels `y`, [rows] of `label`, into
 * chunks. Fails as cadre_row_chunks_check. */
int cadre_row_chunks_copy(const float *x, const void *y, int64_t rows, int64_t features,
                          cadre_dtype_t label, cadre_row_chunks_t *out);

/* Adds the next chunk; takes the caller's reference. CADRE_ETOOLARGE beyond
 * CADRE_MEMORY_ROWS_SIZE_MAX; then the reference is dropped. */
int cadre_row_chunks_add(cadre_row_chunks_t *self, cadre_chunk_t *chunk);

/* Returns how many rows the chunks hold; -1 when their bytes are no whole number of rows. */
int64_t cadre_row_chunks_rows(const cadre_row_chunks_t *self);

/* Copies `size_bytes` bytes from byte `at` of all on, which must be there. */
void cadre_row_chunks_read(const cadre_row_chunks_t *self, uint64_t at, size_t size_bytes,
                           void *out);

/* Drops the chunks and clears the struct; harmless on a zeroed one. */
void cadre_row_chunks_fini(cadre_row_chunks_t *self);

#endif
