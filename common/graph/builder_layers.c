/*
 * builder_layers - layers over rows, each a few operations: dense, dropout, normalisations.
 */
#include <math.h>

#include "common/graph/program_data.h"

static const cadre_node_t none = {0};

cadre_node_t
cadre_op_dense(cadre_program_t *self, cadre_node_t x, cadre_node_t weight, cadre_node_t bias)
{
    cadre_node_t y = cadre_op_matmul(self, x, weight);
    return bias.id == 0 ? y : cadre_op_add(self, y, bias);
}

/* Zeroes each element with probability `rate`, and scales the others so that the mean stays. */
cadre_node_t
cadre_op_dropout(cadre_program_t *self, cadre_node_t x, float rate, int training)
{
    if (!cadre_program_has(self, x, "dropout")) {
        return none;
    }
    if (!(rate >= 0 && rate < 1)) {
        cadre_program_mistake(
            self,
            cadre_fail(CADRE_EINVALID, "dropout: rate %g is not in 0 to below 1", (double)rate));
        return none;
    }
    if (!training || rate == 0) {
        return x;
    }
    cadre_extents_t shape = cadre_program_at(self, x)->shape;
    cadre_node_t draw = cadre_program_emit_rand(self, &shape);
    /* Kept when not (rate > draw), that is draw >= rate, which has probability 1 - rate. */
    cadre_node_t dropped = cadre_op_gt(self, cadre_op_const_f32(self, rate), draw);
    cadre_node_t scaled = cadre_op_mul(self, x, cadre_op_const_f32(self, 1 / (1 - rate)));
    return cadre_op_where(self, dropped, cadre_op_const_f32(self, 0), scaled);
}

/* Returns whether `node` is empty or a row [C], one number for each channel (last axis) of `x`; if
 * not, notes the mistake. */
static bool
fits_channels(cadre_program_t *self, const char *what, const char *name, cadre_node_t node,
              cadre_node_t x)
{
    if (node.id == 0) {
        return true;
    }
    if (!cadre_program_has(self, node, what)) {
        return false;
    }
    const cadre_extents_t *row = &cadre_program_at(self, node)->shape;
    const cadre_extents_t *shape = &cadre_program_at(self, x)->shape;
    if (row->rank != 1 || shape->rank < 1 ||
        !cadre_extent_equal(row->extents[0], shape->extents[shape->rank - 1])) {
        cadre_program_misfit(self, what, (cadre_named_node_t){name, node},
                             (cadre_named_node_t){"x", x});
        return false;
    }
    return true;
}

/* Returns x * scale + shift; scale or shift is left out where it is the empty node. */
static cadre_node_t
scale_and_shift(cadre_program_t *self, cadre_node_t x, cadre_node_t scale, cadre_node_t shift)
{
    x = scale.id == 0 ? x : cadre_op_mul(self, x, scale);
    return shift.id == 0 ? x : cadre_op_add(self, x, shift);
}

/* Normalises each row of x [.., C], then scales and shifts by channel; empty nodes are left out. */
cadre_node_t
cadre_op_layer_norm(cadre_program_t *self, cadre_node_t x, cadre_node_t scale, cadre_node_t shift,
                    float eps)
{
    if (!cadre_program_has(self, x, "layer norm") ||
        !fits_channels(self, "layer norm", "scale", scale, x) ||
        !fits_channels(self, "layer norm", "shift", shift, x)) {
        return none;
    }
    return scale_and_shift(self, cadre_op_rownorm(self, x, eps), scale, shift);
}

/* Checks the arguments that both forms of batch norm have; notes the mistake when they do not
 * fit. */
static bool
can_norm_batch(cadre_program_t *self, cadre_node_t x, cadre_node_t scale, cadre_node_t shift,
               float eps)
{
    if (!cadre_program_has(self, x, "batch norm") ||
        !fits_channels(self, "batch norm", "scale", scale, x) ||
        !fits_channels(self, "batch norm", "shift", shift, x)) {
        return false;
    }
    const cadre_extents_t *shape = &cadre_program_at(self, x)->shape;
    char text[CADRE_EXTENTS_TEXT_SIZE];
    int status = 0;
    if (shape->rank < 2) {
        status = cadre_fail(CADRE_ESHAPE, "batch norm: needs a batch and channels, not %s",
                            cadre_extents_text(shape, cadre_program_symbols(self), text));
    } else if (!(eps >= 0 && isfinite(eps))) {
        status = cadre_fail(CADRE_EINVALID, "batch norm: eps must be a finite number, at least 0");
    }
    if (status < 0) {
        cadre_program_mistake(self, status);
    }
    return status == 0;
}

/* Normalises each channel (last axis) by mean and variance over all other axes, which are those of
 * this closure's batch, and gives both in `moments` unless NULL; empty nodes after a mistake. */
cadre_node_t
cadre_op_batch_norm(cadre_program_t *self, cadre_node_t x, cadre_node_t scale, cadre_node_t shift,
                    float eps, cadre_moments_t *moments)
{
    cadre_moments_t batch = {none, none};
    if (moments) {
        *moments = batch;
    }
    if (!can_norm_batch(self, x, scale, shift, eps)) {
        return none;
    }
    int channels = cadre_program_at(self, x)->shape.rank - 1;
    batch.mean = cadre_program_emit_reduce(self, CADRE_REDUCE_MEAN, x, 0, channels);
    /* The mean of the squared differences: mean(x^2) - mean(x)^2 would lose its digits. */
    cadre_node_t difference = cadre_op_sub(self, x, batch.mean);
    batch.variance = cadre_program_emit_reduce(self, CADRE_REDUCE_MEAN,
                                               cadre_op_square(self, difference), 0, channels);
    cadre_node_t root =
        cadre_op_rsqrt(self, cadre_op_add(self, batch.variance, cadre_op_const_f32(self, eps)));
    if (moments) {
        *moments = batch;
    }
    return scale_and_shift(self, cadre_op_mul(self, difference, root), scale, shift);
}

/* Normalises as cadre_op_batch_norm does, but with the given moments, as evaluations do. */
cadre_node_t
cadre_op_batch_norm_fixed(cadre_program_t *self, cadre_node_t x, cadre_moments_t moments,
                          cadre_node_t scale, cadre_node_t shift, float eps)
{
    if (!can_norm_batch(self, x, scale, shift, eps) ||
        !cadre_program_has(self, moments.mean, "batch norm") ||
        !cadre_program_has(self, moments.variance, "batch norm") ||
        !fits_channels(self, "batch norm", "mean", moments.mean, x) ||
        !fits_channels(self, "batch norm", "variance", moments.variance, x)) {
        return none;
    }
    /* One factor for each channel, so that the batch is multiplied only once. */
    cadre_node_t factor =
        cadre_op_rsqrt(self, cadre_op_add(self, moments.variance, cadre_op_const_f32(self, eps)));
    factor = scale.id == 0 ? factor : cadre_op_mul(self, factor, scale);
    cadre_node_t difference = cadre_op_sub(self, x, moments.mean);
    return scale_and_shift(self, difference, factor, shift);
}
