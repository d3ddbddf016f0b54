/*
 * update - one update on its way into several partitions: checked as a whole, then applied, both on
 * a shard's lanes.
 *
 * Owner:   one shard, which uses it again for every push.
 * Thread:  the shard's; the work of check and apply goes on the lanes' too.
 */
#ifndef CADRE_PS_CORE_UPDATE_H
#define CADRE_PS_CORE_UPDATE_H

#include "ps/core/partition.h"
#include "ps/core/row_gradient.h"
#include "ps/core/values/lanes.h"

typedef struct {
    cadre_partition_t *partition;
    cadre_gradient_term_t one;     /* the gradient, where there is a single one */
    cadre_gradient_sum_t gradient; /* a sum of several gradients; without terms `one` is applied */
} cadre_update_part_t;

typedef struct {
    const cadre_partition_t *partition;
    const cadre_chunk_t *chunk;
    size_t part; /* index of `parts` */
    size_t k;    /* number of the chunk in its partition */
    bool finite;
} cadre_update_check_t;

/* Zeroed: empty. */
typedef struct {
    cadre_update_part_t *parts;
    size_t count;
    size_t capacity;
    cadre_update_check_t *checks;
    size_t check_capacity;
    cadre_partition_piece_t *pieces;
    size_t piece_capacity;
} cadre_update_t;

/* Frees the memory of the update's lists; the partitions and chunks that they name are borrowed. */
void cadre_update_fini(cadre_update_t *self);

/* Removes all parts; the memory of the lists is kept for the next update. */
void cadre_update_clear(cadre_update_t *self);

/* Adds a partition and its gradient, whose chunks have the right number and sizes
 * (cadre_partition_check_gradient_sizes) and stay until the update is cleared. */
void cadre_update_add(cadre_update_t *self, cadre_partition_t *partition,
                      cadre_chunk_t *const *chunks);

/* Adds a partition and a gradient that is zero but in some rows, which cadre_row_update_check has
 * checked; cadre_update_check may not be called after it. Its chunks stay until the update is
 * cleared. */
void cadre_update_add_rows(cadre_update_t *self, cadre_partition_t *partition,
                           const cadre_row_gradient_t *rows);

/* Has the gradient of the part that was added last compensated for its delay; `pulled`, NULL or the
 * values that it was computed from (cadre_partition_pulled), stay until the update is cleared. */
void cadre_update_compensate(cadre_update_t *self, cadre_chunk_t *const *pulled);

/* Adds a partition whose gradient is a sum of several; the terms stay until the update is
 * cleared. */
void cadre_update_add_sum(cadre_update_t *self, cadre_partition_t *partition,
                          const cadre_gradient_sum_t *gradient);

/* Checks that all numbers of all parts are finite. Else fails with CADRE_ENOTFINITE, whose text
 * names the chunk, and sets `part` to the index of the first bad part. No part may be a sum. */
int cadre_update_check(cadre_update_t *self, const cadre_lanes_t *lanes, size_t *part);

/* Applies every part to its partition. */
void cadre_update_apply(cadre_update_t *self, const cadre_lanes_t *lanes);

#endif
