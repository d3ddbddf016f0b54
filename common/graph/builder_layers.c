/*
 * builder_layers - layers and losses, each a few operations.
 */
#include "common/graph/program_data.h"

static const cadre_node_t none = {0};

cadre_node_t
cadre_dense(cadre_program_t *self, cadre_node_t x, cadre_node_t weight, cadre_node_t bias)
{
    cadre_node_t y = cadre_matmul(self, x, weight);
    return bias.id == 0 ? y : cadre_add(self, y, bias);
}

cadre_node_t
cadre_dropout(cadre_program_t *self, cadre_node_t x, float rate, int training)
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
    cadre_node_t dropped = cadre_gt(self, cadre_const_f32(self, rate), draw);
    cadre_node_t scaled = cadre_mul(self, x, cadre_const_f32(self, 1 / (1 - rate)));
    return cadre_where(self, dropped, cadre_const_f32(self, 0), scaled);
}

cadre_node_t
cadre_softmax_cross_entropy(cadre_program_t *self, cadre_node_t logits, cadre_node_t labels)
{
    return cadre_mean_all(self, cadre_xent(self, logits, labels));
}

/* `x` without a last axis of size 1, when it has one axis more than `other`. */
static cadre_node_t
drop_last(cadre_program_t *self, cadre_node_t x, cadre_node_t other)
{
    cadre_extents_t shape = cadre_program_at(self, x)->shape;
    int rank = cadre_program_at(self, other)->shape.rank;
    if (shape.rank != rank + 1 ||
        !cadre_extent_equal(shape.extents[rank], cadre_extent_number(1))) {
        return x;
    }
    shape.rank = rank;
    return cadre_program_emit_reshape(self, x, &shape);
}

/* Brings predictions and targets to one shape and to f32. Broadcasting would hide the mistake of
 * [B,1] against [B], which gives [B,B], so anything but the same shape is refused. */
static bool
pair_up(cadre_program_t *self, const char *what, cadre_node_t *predictions, cadre_node_t *targets)
{
    if (!cadre_program_has(self, *predictions, what) || !cadre_program_has(self, *targets, what)) {
        return false;
    }
    cadre_node_t left = drop_last(self, *predictions, *targets);
    cadre_node_t right = drop_last(self, *targets, left);
    if (left.id == 0 || right.id == 0) {
        return false;
    }
    if (cadre_program_at(self, right)->dtype == CADRE_I32) {
        right = cadre_cast(self, right, CADRE_F32);
    }
    const cadre_extents_t *left_shape = &cadre_program_at(self, left)->shape;
    const cadre_extents_t *right_shape = &cadre_program_at(self, right)->shape;
    if (!cadre_extents_equal(left_shape, right_shape)) {
        char left_text[CADRE_EXTENTS_TEXT_SIZE];
        char right_text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self,
            cadre_fail(CADRE_ESHAPE, "%s: predictions %s do not go with targets %s", what,
                       cadre_extents_text(left_shape, cadre_program_symbols(self), left_text),
                       cadre_extents_text(right_shape, cadre_program_symbols(self), right_text)));
        return false;
    }
    *predictions = left;
    *targets = right;
    return true;
}

cadre_node_t
cadre_sigmoid_cross_entropy(cadre_program_t *self, cadre_node_t logits, cadre_node_t targets)
{
    if (!pair_up(self, "sigmoid cross entropy", &logits, &targets)) {
        return none;
    }
    /* -z log s(x) - (1 - z) log(1 - s(x)) = softplus(x) - x z, which never overflows. */
    cadre_node_t each =
        cadre_sub(self, cadre_softplus(self, logits), cadre_mul(self, logits, targets));
    return cadre_mean_all(self, each);
}

cadre_node_t
cadre_mse(cadre_program_t *self, cadre_node_t predictions, cadre_node_t targets)
{
    if (!pair_up(self, "mse", &predictions, &targets)) {
        return none;
    }
    return cadre_mean_all(self, cadre_square(self, cadre_sub(self, predictions, targets)));
}

cadre_node_t
cadre_mae(cadre_program_t *self, cadre_node_t predictions, cadre_node_t targets)
{
    if (!pair_up(self, "mae", &predictions, &targets)) {
        return none;
    }
    return cadre_mean_all(self, cadre_abs(self, cadre_sub(self, predictions, targets)));
}

cadre_node_t
cadre_correct(cadre_program_t *self, cadre_node_t logits, cadre_node_t labels)
{
    return cadre_eq(self, cadre_argmax(self, logits, -1), labels);
}

cadre_node_t
cadre_binary_correct(cadre_program_t *self, cadre_node_t logits, cadre_node_t targets)
{
    if (!pair_up(self, "binary correct", &logits, &targets)) {
        return none;
    }
    cadre_node_t said = cadre_gt(self, logits, cadre_const_f32(self, 0));
    cadre_node_t true_target = cadre_gt(self, targets, cadre_const_f32(self, 0.5F));
    return cadre_eq(self, said, true_target);
}
