/*
 * row_gradient - gradients of some rows of a partition, as a PUSH brings them. Those of the rows
 * of a table come alike, with keys (shard_tables.h).
 *
 * First the numbers of the rows, then the gradient of each, in the wire dtype, cut as a partition
 * of so many rows. What has no gradient here has one of zero, or rests, whichever the optimizer
 * does.
 *
 * Owner:   nobody: it has no state. Thread: the shard's.
 */
#ifndef CADRE_PS_CORE_ROW_GRADIENT_H
#define CADRE_PS_CORE_ROW_GRADIENT_H

#include "ps/core/partition.h"

/* An update by rows takes at most so many times the bytes of the shard: each number of a row has
 * eight, and the row itself four or more, or two on the wire. */
enum { CADRE_ROW_GRADIENT_FACTOR = 3 };

/* Zeroed: that of a whole partition. */
typedef struct {
    cadre_chunk_t *const *chunks; /* borrowed: those of the ids, then those of the rows */
    size_t count;                 /* of rows, at least 1 */
} cadre_row_gradient_t;

/* One of the gradients that are summed, and its factor in the sum. */
typedef struct {
    cadre_row_gradient_t gradient;
    float weight;
} cadre_row_term_t;

/* Returns in how many chunks `count` ids come. */
size_t cadre_row_gradient_id_chunks(uint64_t count);

/* Checks the bytes of each chunk of a gradient, whose rows are cut as `layout` says; fails with
 * CADRE_ESHAPE. */
int cadre_row_gradient_check_sizes(const cadre_row_gradient_t *self,
                                   const cadre_chunk_layout_t *layout);

/* Returns how many chunks gradients of `count` rows come in. Fails with CADRE_ETOOLARGE for more
 * rows than the partition has. */
int cadre_row_gradient_chunk_count(const cadre_partition_t *partition, uint64_t count, size_t *out);

/* Checks gradients of which all chunks are there, before any value is changed. Fails with
 * CADRE_EINVALID for a partition that keeps a running average or compensates delays, and for ids
 * that are not ascending, or of another partition; with CADRE_ESHAPE for chunks of other sizes;
 * with CADRE_ENOTFINITE for infinity or NaN. */
int cadre_row_gradient_check(const cadre_partition_t *partition,
                             const cadre_row_gradient_t *gradient);

/* Applies checked gradients, as one step of the optimizer. */
void cadre_row_gradient_apply(cadre_partition_t *partition, const cadre_row_gradient_t *gradient);

/* Applies the weighted sum of gradients as one step: of each row the sum of those that have it, in
 * the order of the terms. The optimizer `add` takes them unweighted. */
void cadre_row_gradient_apply_sum(cadre_partition_t *partition, const cadre_row_term_t *terms,
                                  size_t count);

/* Returns the gradient of the whole partition, zero but in these rows, in chunks that the caller
 * drops with cadre_row_gradient_drop. */
cadre_chunk_t **cadre_row_gradient_expand(const cadre_partition_t *partition,
                                          const cadre_row_gradient_t *gradient);
void cadre_row_gradient_drop(const cadre_partition_t *partition, cadre_chunk_t ***chunks_p);

#endif
