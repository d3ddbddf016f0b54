/*
 * batch - the rows that stand at a range of positions of an epoch, as two tensors.
 *
 * Owner:   plain functions; the tensors belong to the caller.
 * Thread:  any.
 *
 * An epoch visits every row of the dataset once. Which row stands at a position follows from the
 * order alone, so that a worker can read any leased range without what came before it.
 */
#ifndef CADRE_WORKER_DATA_BATCH_H
#define CADRE_WORKER_DATA_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/tensor.h>

#include "worker/data/source.h"

/* Most bytes of the features (x) of one batch; a larger batch is refused. */
#define CADRE_BATCH_SIZE_MAX ((uint64_t)1 << 30)

/* The order of one epoch: the file's own, or the permutation that belongs to (seed, epoch), which
 * of a streamed source is one of blocks and of rows within a few blocks (window_order.h). */
typedef struct {
    bool shuffle;
    uint64_t seed;
    uint64_t epoch;
} cadre_batch_order_t;

/* Reads the rows at positions [first, first + count) of the epoch into x [count, features] and
 * y [count]. Both are zeroed structs or tensors of an earlier call, whose memory is used again when
 * the shape fits; the caller ends them with cadre_tensor_fini. CADRE_EINVALID when the range is
 * empty or leaves the dataset, CADRE_ETOOLARGE beyond CADRE_BATCH_SIZE_MAX; both leave the tensors
 * as they were. Fails as cadre_source_read. */
int cadre_batch_read(cadre_source_t *source, const cadre_batch_order_t *order, int64_t first,
                     int64_t count, cadre_tensor_t *x, cadre_tensor_t *y);

/* Reads a block of what a streamed source is asked for next, when cadre_batch_read has read the
 * batch of `count` rows at `first`. Returns 1; 0 when there is nothing to do; fails as
 * cadre_source_read. */
int cadre_batch_read_ahead(cadre_source_t *source, const cadre_batch_order_t *order, int64_t first,
                           int64_t count);

#endif
