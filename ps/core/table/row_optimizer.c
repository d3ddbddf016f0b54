#include "ps/core/table/row_optimizer.h"

#include <math.h>

#include "common/base/assert.h"
#include "ps/core/values/optimizer_kernel.h"

enum { SUMS = 4 }; /* of squares, that are computed together */

void
cadre_row_optimizer_init(cadre_row_optimizer_t *self, const cadre_table_spec_t *spec)
{
    *self = (cadre_row_optimizer_t){
        .dim = spec->dim, .row_wise = spec->row_wise, .group_lasso = spec->group_lasso};
    int status = cadre_optimizer_init(&self->optimizer, &spec->optimizer, CADRE_F32);
    cadre_assert(status == 0);
}

size_t
cadre_row_optimizer_slot_count(const cadre_row_optimizer_t *self)
{
    return self->optimizer.slot_count;
}

size_t
cadre_row_optimizer_slot_width(const cadre_row_optimizer_t *self)
{
    return self->row_wise ? 1 : self->dim;
}

void
cadre_row_optimizer_begin_slot(const cadre_row_optimizer_t *self, size_t slot, float *numbers)
{
    const float initial = cadre_optimizer_slot_initial(&self->optimizer.spec, slot);
    const size_t width = cadre_row_optimizer_slot_width(self);
    for (size_t i = 0; i < width; i++) {
        numbers[i] = initial;
    }
}

static double
sum_of_squares(const cadre_unaligned_f32_t *numbers, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)numbers[i] * (double)numbers[i];
    }
    return sum;
}

/* Computes the sums of SUMS rows, each in its order, as sum_of_squares does: an addition waits for
 * the one before it, so those of several rows go on side by side. */
static void
sums_of_squares(const cadre_unaligned_f32_t *numbers, size_t dim, double *sums)
{
    double a = 0;
    double b = 0;
    double c = 0;
    double d = 0;
    for (size_t i = 0; i < dim; i++) {
        a += (double)numbers[i] * (double)numbers[i];
        b += (double)numbers[dim + i] * (double)numbers[dim + i];
        c += (double)numbers[2 * dim + i] * (double)numbers[2 * dim + i];
        d += (double)numbers[3 * dim + i] * (double)numbers[3 * dim + i];
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/* Applies row-wise adagrad to one row, whose gradient has this sum of squares. */
static void
apply_to_row(const cadre_row_optimizer_t *self, double learning_rate, double squares,
             const cadre_kernel_span_t *span, float *accumulator)
{
    const double epsilon = self->optimizer.spec.parameters[CADRE_ADAGRAD_EPSILON];
    *accumulator += (float)(squares / self->dim);
    cadre_kernel_sgd(span, (float)(learning_rate / sqrt((double)*accumulator + epsilon)));
}

/* Applies adagrad with one accumulator for each row: sgd with a learning rate of the row. */
static void
apply_row_wise(const cadre_row_optimizer_t *self, double learning_rate,
               const cadre_unaligned_f32_t *gradient, const cadre_row_block_t *block)
{
    double squares[SUMS];
    for (size_t row = 0; row < block->rows; row++) {
        const size_t first = row * self->dim;
        const cadre_kernel_span_t span = {
            .count = self->dim,
            .gradient = gradient + first,
            .value_in = block->values + first,
            .value_out = block->values + first,
        };
        const size_t begun = row % SUMS;
        if (begun == 0 && row + SUMS <= block->rows) {
            sums_of_squares(gradient + first, self->dim, squares);
        } else if (row - begun + SUMS > block->rows) {
            squares[begun] = sum_of_squares(gradient + first, self->dim);
        }
        apply_to_row(self, learning_rate, squares[begun], &span, &block->slots[0][row]);
    }
}

/* Shortens each row by `length`, or to 0. */
static void
shrink(const cadre_row_optimizer_t *self, double length, const cadre_row_block_t *block)
{
    for (size_t row = 0; row < block->rows; row++) {
        float *values = block->values + row * self->dim;
        const double norm = sqrt(sum_of_squares(values, self->dim));
        const double factor = norm > length ? 1 - length / norm : 0;
        for (size_t i = 0; i < self->dim; i++) {
            values[i] = (float)(factor * (double)values[i]);
        }
    }
}

void
cadre_row_optimizer_apply(const cadre_row_optimizer_t *self, uint64_t step,
                          const cadre_row_block_t *block)
{
    const cadre_optimizer_spec_t *spec = &self->optimizer.spec;
    const double learning_rate = cadre_optimizer_rate(&self->optimizer, step);
    const size_t count = block->rows * self->dim;
    const void *gradient = block->gradient;
    if (spec->clip_value > 0) {
        cadre_kernel_clip_f32(count, (float)spec->clip_value, gradient, block->room);
        gradient = block->room;
    }

    if (self->row_wise) {
        apply_row_wise(self, learning_rate, gradient, block);
    } else {
        cadre_optimizer_span_t span = {.count = count,
                                       .gradient = gradient,
                                       .value_in = block->values,
                                       .value_out = block->values};
        for (size_t s = 0; s < self->optimizer.slot_count; s++) {
            span.slots_in[s] = block->slots[s];
            span.slots_out[s] = block->slots[s];
        }
        cadre_optimizer_apply(&self->optimizer, step, &span);
    }

    if (self->group_lasso > 0) {
        shrink(self, learning_rate * self->group_lasso, block);
    }
}
