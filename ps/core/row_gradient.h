/*
 * row_gradient - gradients of some rows of a partition, as a PUSH brings them. Those of the rows
 * of a table come alike, with keys (shard_tables.h).
 *
 * First the numbers of the rows, then the gradient of each, in the wire dtype, cut as a partition
 * of so many rows. What has no gradient here has one of zero, or rests, whichever the optimizer
 * does.
 *
 * Owner:   nobody: it has no state. Thread: any.
 */
#ifndef CADRE_PS_CORE_ROW_GRADIENT_H
#define CADRE_PS_CORE_ROW_GRADIENT_H

#include "common/tensor/chunk.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/tensor.h"

/* An update by rows takes at most so many times the bytes of the shard: each number of a row has
 * eight, and the row itself four or more, or two on the wire. */
enum { CADRE_ROW_GRADIENT_FACTOR = 3 };

/* Zeroed: that of a whole partition. */
typedef struct {
    cadre_chunk_t *const *chunks; /* borrowed: those of the ids, then those of the rows */
    size_t count; /* of rows, at least 1, but of a table in an update without keys */
} cadre_row_gradient_t;

/* One of the gradients that are summed, and its factor in the sum. */
typedef struct {
    cadre_row_gradient_t gradient;
    float weight;
} cadre_row_term_t;

/* The rows of a partition, as their gradients are cut. */
typedef struct {
    uint64_t first_row;
    size_t elements; /* of a row */
    size_t stride;   /* elements of a chunk, but for the last */
    cadre_dtype_t wire;
    cadre_dtype_t dtype;
} cadre_row_cut_t;

/* Returns in how many chunks `count` ids come. */
size_t cadre_row_gradient_id_chunks(uint64_t count);

/* Returns the number of the row that gradient `k` is of. */
uint64_t cadre_row_gradient_id(const cadre_row_gradient_t *self, size_t k);

/* Checks the bytes of each chunk of a gradient, whose rows are cut as `layout` says; fails with
 * CADRE_ESHAPE. */
int cadre_row_gradient_check_sizes(const cadre_row_gradient_t *self,
                                   const cadre_chunk_layout_t *layout);

/* Writes the gradient of `count` elements from element `first` of the partition on to `to`, zero
 * where no row has one: in the variable's dtype, converted where it came in another. The ids
 * ascend. */
void cadre_row_gradient_spread(const cadre_row_gradient_t *self, const cadre_row_cut_t *cut,
                               uint64_t first, size_t count, void *to);

#endif
