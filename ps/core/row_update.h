/*
 * row_update - updates of some rows of a partition, whose other rows rest: those that an optimizer
 * leaves as they are where the gradient is zero, and those of lazy variables. Where the other rows
 * move, rows are a gradient of the whole partition (partition.h).
 *
 * Owner:   nobody: it has no state. Thread: the shard's.
 */
#ifndef CADRE_PS_CORE_ROW_UPDATE_H
#define CADRE_PS_CORE_ROW_UPDATE_H

#include "ps/core/partition.h"
#include "ps/core/row_gradient.h"

/* Returns how many chunks gradients of `count` rows come in. Fails with CADRE_ETOOLARGE for more
 * rows than the partition has. */
int cadre_row_update_chunk_count(const cadre_partition_t *partition, uint64_t count, size_t *out);

/* Checks gradients of which all chunks are there, before any value is changed, whether other rows
 * rest or not. Fails with CADRE_EINVALID for a partition that compensates delays, and for ids that
 * are not ascending, or of another partition; with CADRE_ESHAPE for chunks of other sizes; with
 * CADRE_ENOTFINITE for infinity or NaN. */
int cadre_row_update_check(const cadre_partition_t *partition,
                           const cadre_row_gradient_t *gradient);

/* Applies checked gradients, as one step of the optimizer. */
void cadre_row_update_apply(cadre_partition_t *partition, const cadre_row_gradient_t *gradient);

/* Applies the weighted sum of gradients as one step: of each row the sum of those that have it, in
 * the order of the terms. The optimizer `add` takes them unweighted. */
void cadre_row_update_apply_sum(cadre_partition_t *partition, const cadre_row_term_t *terms,
                                size_t count);

#endif
