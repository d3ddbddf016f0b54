/*
 * window_order - the order of an epoch whose rows are shuffled within windows of a few blocks.
 *
 * Owner:   a stream.
 * Thread:  one at a time.
 *
 * The blocks of the dataset come in a random order, so many of them at a time are a window, and the
 * rows of a window come in a random order. So a range of positions needs the blocks of a window,
 * or of two, not all. The order follows from seed, epoch and the number of rows: it is the same on
 * each worker.
 */
#ifndef CADRE_WORKER_DATA_WINDOW_ORDER_H
#define CADRE_WORKER_DATA_WINDOW_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/data/row_split.h"

typedef struct cadre_window_order cadre_window_order_t;

/* Returns an order of the rows of a part (copied), of `window_blocks` blocks at a time. */
cadre_window_order_t *cadre_window_order_new(const cadre_row_split_t *split, int64_t window_blocks);

/* Frees and nulls the pointer; NULL inside is fine. */
void cadre_window_order_destroy(cadre_window_order_t **self_p);

/* Chooses the epoch. Returns whether it is another than before; then it looks at each block. */
bool cadre_window_order_choose(cadre_window_order_t *self, uint64_t seed, uint64_t epoch);

/* Returns the row of the part at `position` of the chosen epoch, which must have it. */
int64_t cadre_window_order_at(cadre_window_order_t *self, int64_t position);

/* Returns the window of `position`. */
int64_t cadre_window_order_window(const cadre_window_order_t *self, int64_t position);

/* Returns the position at which a window begins; of the number of windows the end of the epoch. */
int64_t cadre_window_order_begin(const cadre_window_order_t *self, int64_t window);

/* Gives the block that is number `index` of a window; returns false when there is none. */
bool cadre_window_order_block(const cadre_window_order_t *self, int64_t window, int64_t index,
                              int64_t *block);

#endif
