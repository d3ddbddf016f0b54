/*
 * split - where the parts of a variable begin, by a rule that coordinator, ps and workers share.
 *
 * `rows` rows are cut into `parts` contiguous parts; the first `rows % parts` of them have one row
 * more than the others (13 in 5: 3,3,3,2,2). Thread: any; no state.
 */
#ifndef CADRE_COMMON_TENSOR_SPLIT_H
#define CADRE_COMMON_TENSOR_SPLIT_H

#include <stdint.h>

/* Returns the first row of part `part`, for 0 <= part <= parts; `parts` is at least 1. Part `parts`
 * begins at `rows`. */
int64_t cadre_split_first(int64_t rows, int64_t parts, int64_t part);

/* Returns how many rows part `part` has. */
int64_t cadre_split_rows(int64_t rows, int64_t parts, int64_t part);

/* Returns the part that has row `row`, 0 <= row < rows. */
int64_t cadre_split_part(int64_t rows, int64_t parts, int64_t row);

#endif
