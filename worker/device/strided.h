/*
 * strided - how up to six inputs are walked in step with a contiguous output.
 *
 * Broadcasting, transposing and slicing are all the same walk: per axis of the output each input
 * moves by some number of elements, 0 where it is broadcast. Axes that can be walked as one are
 * merged when the plan is made, so that the inner loop is as long as it can be.
 *
 * Plain data.
 */
#ifndef CADRE_WORKER_DEVICE_STRIDED_H
#define CADRE_WORKER_DEVICE_STRIDED_H

#include <stdint.h>

#include <cadre/program.h>

enum { CADRE_STRIDED_INPUTS_MAX = 6 };

typedef struct {
    int rank;   /* at least 1 */
    int inputs; /* how many inputs are walked; set by cadre_strided_merge */
    int64_t size[CADRE_PROGRAM_RANK_MAX];
    int64_t stride[CADRE_STRIDED_INPUTS_MAX][CADRE_PROGRAM_RANK_MAX];
    int64_t offset[CADRE_STRIDED_INPUTS_MAX]; /* of each input's first element, in elements */
} cadre_strided_t;

/* Begins a walk over an output of this shape, with all strides of inputs 0. */
void cadre_strided_init(cadre_strided_t *self, const int64_t *shape, int rank);

/* Sets the strides of input `input`, of shape `from`, which is broadcast to the output. Called
 * before merging. */
void cadre_strided_broadcast(cadre_strided_t *self, int input, const int64_t *from, int from_rank);

/* Drops axes of size 1 and merges neighbours that `input_count` inputs walk as one. */
void cadre_strided_merge(cadre_strided_t *self, int input_count);

/* The position of a walk: the inner loop that comes next. */
typedef struct {
    int64_t index[CADRE_PROGRAM_RANK_MAX];
    int64_t at[CADRE_STRIDED_INPUTS_MAX]; /* first element of each input in this inner loop */
    int64_t out;                          /* first element of the output in this inner loop */
} cadre_strided_place_t;

void cadre_strided_start(const cadre_strided_t *self, cadre_strided_place_t *place);

/* Moves to inner loop number `row`, which must exist; the first is 0. */
void cadre_strided_seek(const cadre_strided_t *self, int64_t row, cadre_strided_place_t *place);

/* Moves on to the next inner loop; returns 0 when there is none. */
int cadre_strided_next(const cadre_strided_t *self, cadre_strided_place_t *place);

#endif
