#include "worker/device/strided.h"

#include <stdbool.h>

/* Begins a walk over an output of this shape; all strides of inputs are 0. */
void
cadre_strided_init(cadre_strided_t *self, const int64_t *shape, int rank)
{
    *self = (cadre_strided_t){.rank = rank};
    for (int i = 0; i < rank; i++) {
        self->size[i] = shape[i];
    }
}

/* Sets the strides of an input of shape `from`, which is broadcast to the output: shapes are
 * aligned at the last axis, and an axis of size 1 is read again and again (stride 0). */
void
cadre_strided_broadcast(cadre_strided_t *self, int input, const int64_t *from, int from_rank)
{
    int64_t step = 1;
    for (int i = from_rank - 1; i >= 0; i--) {
        int axis = i + self->rank - from_rank;
        self->stride[input][axis] = from[i] == 1 ? 0 : step;
        step *= from[i];
    }
}

/* Copies the size and strides of axis `from` to axis `to`. */
static void
move_axis(cadre_strided_t *self, int to, int from)
{
    self->size[to] = self->size[from];
    for (int i = 0; i < CADRE_STRIDED_INPUTS_MAX; i++) {
        self->stride[i][to] = self->stride[i][from];
    }
}

/* Returns whether axes `outer` and `axis`, its next inner one, can be walked as one: for each input
 * a step along `outer` is as long as all steps along `axis`. */
static bool
mergeable(const cadre_strided_t *self, int input_count, int outer, int axis)
{
    for (int i = 0; i < input_count; i++) {
        if (self->stride[i][outer] != self->stride[i][axis] * self->size[axis]) {
            return false;
        }
    }
    return true;
}

/* Drops axes of size 1 and joins neighbours that all `input_count` inputs walk as one. At least one
 * axis stays: the inner loop. */
void
cadre_strided_merge(cadre_strided_t *self, int input_count)
{
    int rank = 0;
    self->inputs = input_count;
    for (int axis = 0; axis < self->rank; axis++) {
        if (self->size[axis] == 1) {
            continue;
        }
        if (rank > 0 && mergeable(self, input_count, rank - 1, axis)) {
            int64_t outer = self->size[rank - 1];
            move_axis(self, rank - 1, axis);
            self->size[rank - 1] *= outer;
        } else {
            move_axis(self, rank, axis);
            rank++;
        }
    }
    if (rank == 0) {
        self->size[0] = 1;
        for (int i = 0; i < CADRE_STRIDED_INPUTS_MAX; i++) {
            self->stride[i][0] = 0;
        }
        rank = 1;
    }
    self->rank = rank;
}

/* Puts the walk at its first inner loop. */
void
cadre_strided_start(const cadre_strided_t *self, cadre_strided_place_t *place)
{
    *place = (cadre_strided_place_t){0};
    for (int i = 0; i < CADRE_STRIDED_INPUTS_MAX; i++) {
        place->at[i] = self->offset[i];
    }
}

/* Puts the walk at inner loop number `row`. The inner loop runs over the last axis; `row` counts
 * the positions on all others. */
void
cadre_strided_seek(const cadre_strided_t *self, int64_t row, cadre_strided_place_t *place)
{
    cadre_strided_start(self, place);
    place->out = row * self->size[self->rank - 1];
    for (int axis = self->rank - 2; axis >= 0; axis--) {
        int64_t index = axis > 0 ? row % self->size[axis] : row;
        row /= self->size[axis];
        place->index[axis] = index;
        for (int i = 0; i < self->inputs; i++) {
            place->at[i] += index * self->stride[i][axis];
        }
    }
}

/* Moves the walk on to the next inner loop, as an odometer counts; returns 0 when there is none. */
int
cadre_strided_next(const cadre_strided_t *self, cadre_strided_place_t *place)
{
    place->out += self->size[self->rank - 1];
    for (int axis = self->rank - 2; axis >= 0; axis--) {
        place->index[axis]++;
        for (int i = 0; i < self->inputs; i++) {
            place->at[i] += self->stride[i][axis];
        }
        if (place->index[axis] < self->size[axis]) {
            return 1;
        }
        place->index[axis] = 0;
        for (int i = 0; i < self->inputs; i++) {
            place->at[i] -= self->stride[i][axis] * self->size[axis];
        }
    }
    return 0;
}
