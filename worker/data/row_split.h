/*
 * row_split - which rows belong to the held-out part of a dataset, and which to the rest.
 *
 * Owner:   the source.
 * Thread:  immutable once set up.
 *
 * Rows are taken block by block, CADRE_BLOCK_ROWS of the file at a time: of each block the same
 * fraction is held out, drawn by the seed. So a row of a part is found without a table, and rows
 * that are near each other in a part are near each other in the file, which is read by blocks when
 * it does not fit into memory.
 */
#ifndef CADRE_WORKER_DATA_ROW_SPLIT_H
#define CADRE_WORKER_DATA_ROW_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/spec/data_spec.h"

enum { CADRE_BLOCK_ROWS = 4096 };

typedef struct {
    int64_t rows;    /* of both parts */
    double held_out; /* fraction that is held out; 0: all rows are one part */
    bool use_held_out;
    uint64_t seed;
} cadre_row_split_t;

/* Sets up the part that `spec` asks for, of `rows` rows. */
void cadre_row_split_init(cadre_row_split_t *self, const cadre_data_spec_t *spec, int64_t rows);

/* Returns the number of blocks, of which the last may be short. */
int64_t cadre_row_split_blocks(const cadre_row_split_t *self);

/* Returns how many rows of the part lie in front of block `block`; with the number of blocks, how
 * many there are. */
int64_t cadre_row_split_before(const cadre_row_split_t *self, int64_t block);

/* Returns the row of the file that is row `row` of the part, which must have it. */
int64_t cadre_row_split_at(const cadre_row_split_t *self, int64_t row);

#endif
