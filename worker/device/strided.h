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
    int inputs; /* that are walked, known from merging on */
    int64_t size[CADRE_PROGRAM_RANK_MAX];
    int64_t stride[CADRE_STRIDED_INPUTS_MAX][CADRE_PROGRAM_RANK_MAX];
    int64_t offset[CADRE_STRIDED_INPUTS_MAX]; /* of the first element */
} cadre_strided_t;

/* A walk over an output of that shape whose inputs do not move yet. */
void cadre_strided_init(cadre_strided_t *self, const int64_t *shape, int rank);

/* Input `input`, of shape `from`, is broadcast to the output. Before merging. */
void cadre_strided_broadcast(cadre_strided_t *self, int input, const int64_t *from, int from_rank);

/* Drops axes of size 1 and merges neighbours that `input_count` inputs walk as one. */
void cadre_strided_merge(cadre_strided_t *self, int input_count);

/* The place of a walk: which inner loop comes next. */
typedef struct {
    int64_t index[CADRE_PROGRAM_RANK_MAX];
    int64_t at[CADRE_STRIDED_INPUTS_MAX]; /* first element of each input in this inner loop */
    int64_t out;                          /* and of the output */
} cadre_strided_place_t;

void cadre_strided_start(const cadre_strided_t *self, cadre_strided_place_t *place);

/* The place of inner loop number `row`, counted from the first; it exists. */
void cadre_strided_seek(const cadre_strided_t *self, int64_t row, cadre_strided_place_t *place);

/* On to the next inner loop; 0 when there is none. */
int cadre_strided_next(const cadre_strided_t *self, cadre_strided_place_t *place);

#endif
