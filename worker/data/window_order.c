#include "worker/data/window_order.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/permutation.h"

/* Keeps the orders within windows apart from the order of blocks, and from one another. */
static const uint64_t WINDOW_SALT = UINT64_C(0x77696e646f777321);
static const uint64_t WINDOW_STEP = UINT64_C(0x9e3779b97f4a7c15); /* odd, so no two are equal */

struct cadre_window_order {
    cadre_row_split_t split;
    int64_t window_blocks;
    int64_t blocks;
    int64_t windows;
    bool is_chosen;
    uint64_t seed;
    uint64_t epoch;
    cadre_permutation_t order; /* of the blocks */
    int64_t *starts;           /* [windows + 1]: position at which each window begins */
    /* The window that was looked at last; -1: none. */
    int64_t window;
    cadre_permutation_t rows; /* order of its rows */
    int64_t *firsts;          /* [window_blocks]: first row of each of its blocks, of the part */
    int64_t *ends; /* [window_blocks]: rows of the window up to the end of each of its blocks */
};

cadre_window_order_t *
cadre_window_order_new(const cadre_row_split_t *split, int64_t window_blocks)
{
    cadre_window_order_t *self = cadre_calloc(1, sizeof(*self));
    self->split = *split;
    self->blocks = cadre_row_split_blocks(split);
    self->window_blocks = cadre_min_i64(window_blocks, self->blocks);
    self->windows = (self->blocks + self->window_blocks - 1) / self->window_blocks;
    self->starts = cadre_calloc((size_t)self->windows + 1, sizeof(*self->starts));
    self->firsts = cadre_calloc((size_t)self->window_blocks, sizeof(*self->firsts));
    self->ends = cadre_calloc((size_t)self->window_blocks, sizeof(*self->ends));
    return self;
}

void
cadre_window_order_destroy(cadre_window_order_t **self_p)
{
    cadre_window_order_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    free(self->starts);
    free(self->firsts);
    free(self->ends);
    free(self);
}

bool
cadre_window_order_block(const cadre_window_order_t *self, int64_t window, int64_t index,
                         int64_t *block)
{
    const int64_t at = window * self->window_blocks + index;
    if (index >= self->window_blocks || at >= self->blocks) {
        return false;
    }
    *block = (int64_t)cadre_permutation_at(&self->order, (uint64_t)at);
    return true;
}

/* Returns how many rows of the part a block has. */
static int64_t
rows_of(const cadre_window_order_t *self, int64_t block)
{
    return cadre_row_split_before(&self->split, block + 1) -
           cadre_row_split_before(&self->split, block);
}

bool
cadre_window_order_choose(cadre_window_order_t *self, uint64_t seed, uint64_t epoch)
{
    if (self->is_chosen && self->seed == seed && self->epoch == epoch) {
        return false;
    }
    self->is_chosen = true;
    self->seed = seed;
    self->epoch = epoch;
    self->window = -1;
    cadre_permutation_init(&self->order, (uint64_t)self->blocks, seed, epoch);
    for (int64_t window = 0; window < self->windows; window++) {
        int64_t block = 0;
        int64_t rows = 0;
        for (int64_t i = 0; cadre_window_order_block(self, window, i, &block); i++) {
            rows += rows_of(self, block);
        }
        self->starts[window + 1] = self->starts[window] + rows;
    }
    return true;
}

int64_t
cadre_window_order_window(const cadre_window_order_t *self, int64_t position)
{
    cadre_assert(self->is_chosen && position >= 0 && position < self->starts[self->windows]);
    int64_t first = 0;
    int64_t last = self->windows - 1;
    while (first < last) {
        const int64_t middle = first + (last - first) / 2;
        if (self->starts[middle + 1] > position) {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    return first;
}

int64_t
cadre_window_order_begin(const cadre_window_order_t *self, int64_t window)
{
    cadre_assert(self->is_chosen && window >= 0 && window <= self->windows);
    return self->starts[window];
}

/* Makes `window` the one that is looked at. */
static void
enter(cadre_window_order_t *self, int64_t window)
{
    int64_t block = 0;
    int64_t rows = 0;
    for (int64_t i = 0; cadre_window_order_block(self, window, i, &block); i++) {
        rows += rows_of(self, block);
        self->firsts[i] = cadre_row_split_before(&self->split, block);
        self->ends[i] = rows;
    }
    self->window = window;
    cadre_permutation_init(&self->rows, (uint64_t)rows,
                           self->seed ^ (WINDOW_SALT + WINDOW_STEP * (uint64_t)window),
                           self->epoch);
}

int64_t
cadre_window_order_at(cadre_window_order_t *self, int64_t position)
{
    const int64_t known = self->window;
    if (known < 0 || position < self->starts[known] || position >= self->starts[known + 1]) {
        enter(self, cadre_window_order_window(self, position));
    }
    const int64_t row = (int64_t)cadre_permutation_at(
        &self->rows, (uint64_t)(position - self->starts[self->window]));
    int64_t block = 0;
    while (row >= self->ends[block]) {
        block++;
    }
    return self->firsts[block] + row - (block > 0 ? self->ends[block - 1] : 0);
}
