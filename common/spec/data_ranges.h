/*
 * data_ranges - the ranges of an epoch of streamed rows, which several workers read side by side.
 *
 * Owner:   nobody: plain functions.
 * Thread:  any.
 *
 * Rows of a file that is larger than memory are cheap to read one behind the other, and dear
 * anywhere else. So the positions of a shuffled epoch are divided into ranges, of equally many
 * whole batches or one more, and the batches are given in turn: batch 0 is the first of range 0,
 * batch 1 the first of range 1, and so on, back to the second one of range 0. A worker that gets
 * the batches of its own ranges reads the others' rows never. Coordinator and workers compute this
 * from the same numbers: rows, rows of a batch, and ranges. The order of the batches follows from
 * them too, whoever reads what.
 *
 * The rows of a file in its own order are not given in turn. There the ranges are so many pieces of
 * CADRE_DATA_PIECE_ROWS rows, dealt in turn.
 */
#ifndef CADRE_COMMON_SPEC_DATA_RANGES_H
#define CADRE_COMMON_SPEC_DATA_RANGES_H

#include <stdbool.h>
#include <stdint.h>

/* Rows in the file's own order that are read by one worker: four blocks (worker/data/row_split.h).
 */
enum { CADRE_DATA_PIECE_ROWS = 4 * 4096 };

/* Returns the position of the first row of batch number `batch`, from 0 on, of a shuffled epoch of
 * `rows` rows in batches of `batch_size`. The last batch, which the rows may not fill, is the last
 * one of all. */
int64_t cadre_data_range_position(int64_t rows, int64_t batch_size, int64_t ranges, int64_t batch);

/* Returns the range, from 0 on, of the batch of `count` rows at position `first`. */
int64_t cadre_data_range_of(int64_t rows, int64_t ranges, bool is_shuffled, int64_t first,
                            int64_t count);

#endif
