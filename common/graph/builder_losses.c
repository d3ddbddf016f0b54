/*
 * builder_losses - losses, and counts of correct predictions, of which metrics are made; each a few
 * operations.
 */
#include <math.h>

#include "common/base/memory.h"
#include "common/graph/program_data.h"

static const cadre_node_t none = {0};

/* Returns whether low <= value < high; if not, notes the mistake. */
static bool
in_range(cadre_program_t *self, const char *what, float value, float low, float high)
{
    bool fits = value >= low && value < high;
    if (!fits) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID, "%s: %g is not in %g to below %g",
                                               what, (double)value, (double)low, (double)high));
    }
    return fits;
}

cadre_node_t
cadre_op_softmax_cross_entropy(cadre_program_t *self, cadre_node_t logits, cadre_node_t labels)
{
    return cadre_op_mean_all(self, cadre_op_xent(self, logits, labels));
}

/* Returns the mean cross entropy against labels of which `smoothing` is spread evenly over all
 * classes: a weighted sum of the loss against the labels and of that against equal probabilities.
 * */
cadre_node_t
cadre_op_softmax_cross_entropy_smoothed(cadre_program_t *self, cadre_node_t logits,
                                        cadre_node_t labels, float smoothing)
{
    if (!cadre_program_has(self, logits, "softmax cross entropy") ||
        !in_range(self, "softmax cross entropy: smoothing", smoothing, 0, 1)) {
        return none;
    }
    cadre_node_t hard = cadre_op_softmax_cross_entropy(self, logits, labels);
    /* The loss against equal probabilities is the mean of -log p over the classes. */
    cadre_node_t even =
        cadre_op_mean_all(self, cadre_op_neg(self, cadre_op_log_softmax(self, logits)));
    return cadre_op_add(self, cadre_op_mul(self, hard, cadre_op_const_f32(self, 1 - smoothing)),
                        cadre_op_mul(self, even, cadre_op_const_f32(self, smoothing)));
}

/* Returns the mean of -log p[label], given log probabilities. */
cadre_node_t
cadre_op_nll(cadre_program_t *self, cadre_node_t log_probabilities, cadre_node_t labels)
{
    /* Log probabilities may be taken for logits: as a row's probabilities sum to 1, its cross
     * entropy is -log p[label]. The op also checks the label. */
    return cadre_op_mean_all(self, cadre_op_xent(self, log_probabilities, labels));
}

/* Returns the mean over rows of sum(t (log t - log softmax(logits))), for targets t. */
cadre_node_t
cadre_op_kl_divergence(cadre_program_t *self, cadre_node_t logits, cadre_node_t targets)
{
    if (!cadre_program_has(self, logits, "kl divergence") ||
        !cadre_program_has(self, targets, "kl divergence")) {
        return none;
    }
    if (!cadre_extents_equal(&cadre_program_at(self, logits)->shape,
                             &cadre_program_at(self, targets)->shape)) {
        cadre_program_misfit(self, "kl divergence", (cadre_named_node_t){"logits", logits},
                             (cadre_named_node_t){"targets", targets});
        return none;
    }
    /* 0 log 0 is 0: where a target is 0, the logarithm is of 1. */
    cadre_node_t one = cadre_op_const_f32(self, 1);
    cadre_node_t there = cadre_op_gt(self, targets, cadre_op_const_f32(self, 0));
    cadre_node_t entropy = cadre_op_log(self, cadre_op_where(self, there, targets, one));
    cadre_node_t each = cadre_op_mul(
        self, targets, cadre_op_sub(self, entropy, cadre_op_log_softmax(self, logits)));
    return cadre_op_mean_all(self, cadre_op_sum(self, each, -1));
}

/* Returns `x` without its last axis if that has size 1 and `x` has one axis more than `other`; else
 * `x` itself. */
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

/* Brings predictions and targets to one shape and to f32. Of [B,1] against [B] the last axis is
 * dropped, since broadcasting would give [B,B]; after that anything but the same shape is refused.
 * */
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
    cadre_dtype_t dtype = cadre_program_at(self, right)->dtype;
    if (dtype == CADRE_I32 || dtype == CADRE_I64) {
        right = cadre_op_cast(self, right, CADRE_F32);
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

/* Returns the mean cross entropy of targets z from 0 to 1 against s(x), s the sigmoid, x a logit.
 * */
cadre_node_t
cadre_op_sigmoid_cross_entropy(cadre_program_t *self, cadre_node_t logits, cadre_node_t targets)
{
    if (!pair_up(self, "sigmoid cross entropy", &logits, &targets)) {
        return none;
    }
    /* -z log s(x) - (1 - z) log(1 - s(x)) = softplus(x) - x z, which never overflows. */
    cadre_node_t each =
        cadre_op_sub(self, cadre_op_softplus(self, logits), cadre_op_mul(self, logits, targets));
    return cadre_op_mean_all(self, each);
}

/* Moves each target toward one half: t (1 - smoothing) + smoothing / 2; then as without smoothing.
 * */
cadre_node_t
cadre_op_sigmoid_cross_entropy_smoothed(cadre_program_t *self, cadre_node_t logits,
                                        cadre_node_t targets, float smoothing)
{
    if (!pair_up(self, "sigmoid cross entropy", &logits, &targets) ||
        !in_range(self, "sigmoid cross entropy: smoothing", smoothing, 0, 1)) {
        return none;
    }
    cadre_node_t kept = cadre_op_mul(self, targets, cadre_op_const_f32(self, 1 - smoothing));
    cadre_node_t smoothed = cadre_op_add(self, kept, cadre_op_const_f32(self, smoothing / 2));
    return cadre_op_sigmoid_cross_entropy(self, logits, smoothed);
}

/* Returns the mean of max(0, 1 - y score), with y = 1 for a target above one half, else -1. */
cadre_node_t
cadre_op_hinge(cadre_program_t *self, cadre_node_t scores, cadre_node_t targets)
{
    if (!pair_up(self, "hinge", &scores, &targets)) {
        return none;
    }
    cadre_node_t one = cadre_op_const_f32(self, 1);
    cadre_node_t above = cadre_op_gt(self, targets, cadre_op_const_f32(self, 0.5F));
    cadre_node_t side =
        cadre_op_sub(self, cadre_op_mul(self, above, cadre_op_const_f32(self, 2)), one);
    return cadre_op_mean_all(
        self, cadre_op_relu(self, cadre_op_sub(self, one, cadre_op_mul(self, side, scores))));
}

/* Returns the mean of d^2 / 2 for differences |d| up to delta, beyond it of delta (|d| - delta /
 * 2). */
cadre_node_t
cadre_op_huber(cadre_program_t *self, cadre_node_t predictions, cadre_node_t targets, float delta)
{
    if (!pair_up(self, "huber", &predictions, &targets)) {
        return none;
    }
    if (!(delta > 0 && isfinite(delta))) {
        cadre_program_mistake(
            self, cadre_fail(CADRE_EINVALID, "huber: delta %g is not above 0", (double)delta));
        return none;
    }
    /* With m = min(|d|, delta) both branches are m (|d| - m / 2). */
    cadre_node_t distance = cadre_op_abs(self, cadre_op_sub(self, predictions, targets));
    cadre_node_t near = cadre_op_min(self, distance, cadre_op_const_f32(self, delta));
    cadre_node_t half = cadre_op_mul(self, near, cadre_op_const_f32(self, 0.5F));
    return cadre_op_mean_all(self, cadre_op_mul(self, near, cadre_op_sub(self, distance, half)));
}

cadre_node_t
cadre_op_mse(cadre_program_t *self, cadre_node_t predictions, cadre_node_t targets)
{
    if (!pair_up(self, "mse", &predictions, &targets)) {
        return none;
    }
    return cadre_op_mean_all(self, cadre_op_square(self, cadre_op_sub(self, predictions, targets)));
}

cadre_node_t
cadre_op_mae(cadre_program_t *self, cadre_node_t predictions, cadre_node_t targets)
{
    if (!pair_up(self, "mae", &predictions, &targets)) {
        return none;
    }
    return cadre_op_mean_all(self, cadre_op_abs(self, cadre_op_sub(self, predictions, targets)));
}

cadre_node_t
cadre_op_correct(cadre_program_t *self, cadre_node_t logits, cadre_node_t labels)
{
    labels = cadre_program_positions(self, labels, "correct");
    return cadre_op_eq(self, cadre_op_argmax(self, logits, -1), labels);
}

/* Returns 1 where the logit predicts the target, else 0: a logit above 0 predicts a target above
 * one half, another logit another target. */
cadre_node_t
cadre_op_binary_correct(cadre_program_t *self, cadre_node_t logits, cadre_node_t targets)
{
    if (!pair_up(self, "binary correct", &logits, &targets)) {
        return none;
    }
    cadre_node_t said = cadre_op_gt(self, logits, cadre_op_const_f32(self, 0));
    cadre_node_t true_target = cadre_op_gt(self, targets, cadre_op_const_f32(self, 0.5F));
    return cadre_op_eq(self, said, true_target);
}

/* Returns the numbers 0 to `classes` - 1, as i32 [classes]. */
static cadre_node_t
class_numbers(cadre_program_t *self, int64_t classes)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t numbers = {0};
    int status = cadre_tensor_init(&numbers, CADRE_I32, &classes, 1);
    if (status < 0) {
        cadre_program_mistake(self, status);
        return none;
    }

    int32_t *number = numbers.data;
    for (int64_t i = 0; i < classes; i++) {
        number[i] = (int32_t)i;
    }
    return cadre_op_const(self, &numbers);
}

/* Returns `x` with one more axis at the end, of size 1. */
static cadre_node_t
add_last(cadre_program_t *self, cadre_node_t x)
{
    if (!cadre_program_has(self, x, "rows")) {
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self, x)->shape;
    shape.extents[shape.rank++] = cadre_extent_number(1);
    return cadre_program_emit_reshape(self, x, &shape);
}

/* Returns the one-hot rows of index [..] (i32 or i64), as [.., classes]. The row of an index that
 * is no class is all zeros. */
static cadre_node_t
one_hot(cadre_program_t *self, cadre_node_t index, int64_t classes)
{
    index = cadre_program_positions(self, index, "one hot");
    return cadre_op_eq(self, add_last(self, index), class_numbers(self, classes));
}

/* Returns whether logits are [.., classes], with a known number of classes, and labels [..]; if
 * not, notes the mistake. */
static bool
has_classes(cadre_program_t *self, const char *what, cadre_node_t logits, cadre_node_t labels,
            int64_t *classes)
{
    if (!cadre_program_has(self, logits, what) || !cadre_program_has(self, labels, what)) {
        return false;
    }

    cadre_extents_t rows = cadre_program_at(self, logits)->shape;
    int rank = rows.rank - 1;
    bool is_number = rank >= 0 && rows.extents[rank].symbol == CADRE_EXTENT_NO_SYMBOL;
    rows.rank = rank;
    if (!is_number || !cadre_extents_equal(&rows, &cadre_program_at(self, labels)->shape)) {
        cadre_program_misfit(self, what, (cadre_named_node_t){"labels", labels},
                             (cadre_named_node_t){"logits", logits});
        return false;
    }

    *classes = cadre_program_at(self, logits)->shape.extents[rank].factor;
    return true;
}

/* Returns whether `x` has one axis; if not, notes the mistake. */
static bool
is_rows(cadre_program_t *self, const char *what, const char *name, cadre_node_t x)
{
    if (cadre_program_at(self, x)->shape.rank == 1) {
        return true;
    }
    cadre_program_mistake(
        self, cadre_fail(CADRE_ESHAPE, "%s: %s must have one axis, that of rows", what, name));
    return false;
}

/* Returns the confusion matrix [classes, classes] as a product of one-hot rows: row, the label;
 * column, the prediction. */
cadre_node_t
cadre_op_confusion(cadre_program_t *self, cadre_node_t logits, cadre_node_t labels)
{
    int64_t classes = 0;
    if (!has_classes(self, "confusion", logits, labels, &classes) ||
        !is_rows(self, "confusion", "labels", labels)) {
        return none;
    }
    cadre_node_t actual = one_hot(self, labels, classes);
    cadre_node_t said = one_hot(self, cadre_op_argmax(self, logits, -1), classes);
    return cadre_op_matmul_transposed(self, actual, 1, said, 0);
}

/* Returns [B, 2] for is_so [B] of zeros and ones: 1 - is_so in the first column, is_so in the
 * second. */
static cadre_node_t
both_sides(cadre_program_t *self, cadre_node_t is_so)
{
    cadre_node_t is_not = cadre_op_sub(self, cadre_op_const_f32(self, 1), is_so);
    const cadre_node_t sides[] = {add_last(self, is_not), add_last(self, is_so)};
    return cadre_op_concat(self, sides, 2, 1);
}

/* Returns the confusion matrix [2, 2]: row, whether the target is true; column, whether the
 * prediction is. */
cadre_node_t
cadre_op_binary_confusion(cadre_program_t *self, cadre_node_t logits, cadre_node_t targets)
{
    if (!pair_up(self, "binary confusion", &logits, &targets) ||
        !is_rows(self, "binary confusion", "targets", targets)) {
        return none;
    }
    cadre_node_t said = cadre_op_gt(self, logits, cadre_op_const_f32(self, 0));
    cadre_node_t is_true = cadre_op_gt(self, targets, cadre_op_const_f32(self, 0.5F));
    return cadre_op_matmul_transposed(self, both_sides(self, is_true), 1, both_sides(self, said),
                                      0);
}

/* Returns thresholds for probabilities as Keras has them: evenly spaced from 0 to 1, the ends a
 * little outside, so that every probability is above the first and none above the last. */
static cadre_node_t
even_thresholds(cadre_program_t *self, int64_t count)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t thresholds = {0};
    int status = cadre_tensor_init(&thresholds, CADRE_F32, &count, 1);
    if (status < 0) {
        cadre_program_mistake(self, status);
        return none;
    }

    const float outside = 1e-7F;
    float *threshold = thresholds.data;
    for (int64_t i = 0; i < count; i++) {
        threshold[i] = (float)((double)i / (double)(count - 1));
    }
    threshold[0] = -outside;
    threshold[count - 1] = 1 + outside;
    return cadre_op_const(self, &thresholds);
}

/* Returns how many examples are above each threshold, f32 [2, thresholds]: examples whose target is
 * false in the first row, those whose target is true in the second. */
cadre_node_t
cadre_op_roc_counts(cadre_program_t *self, cadre_node_t logits, cadre_node_t targets,
                    int thresholds)
{
    if (!pair_up(self, "roc counts", &logits, &targets) ||
        !is_rows(self, "roc counts", "targets", targets)) {
        return none;
    }
    if (thresholds < 2 || thresholds > CADRE_ROC_THRESHOLDS_MAX) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID,
                                               "roc counts: %d thresholds, 2 to %d are "
                                               "possible",
                                               thresholds, (int)CADRE_ROC_THRESHOLDS_MAX));
        return none;
    }

    cadre_node_t probability = add_last(self, cadre_op_sigmoid(self, logits));
    cadre_node_t above = cadre_op_gt(self, probability, even_thresholds(self, thresholds));
    cadre_node_t is_true = cadre_op_gt(self, targets, cadre_op_const_f32(self, 0.5F));
    return cadre_op_matmul_transposed(self, both_sides(self, is_true), 1, above, 0);
}

/* Returns 1 for each row in which fewer than `k` logits are above that of the label, else 0. */
cadre_node_t
cadre_op_top_k_correct(cadre_program_t *self, cadre_node_t logits, cadre_node_t labels, int k)
{
    int64_t classes = 0;
    if (!has_classes(self, "top k", logits, labels, &classes)) {
        return none;
    }
    if (k < 1) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID, "top k: k is %d, at least 1", k));
        return none;
    }

    /* The logit of the label, taken as the sum of it and zeros, which is exact. */
    cadre_node_t zero = cadre_op_const_f32(self, 0);
    cadre_node_t own =
        cadre_op_sum(self, cadre_op_where(self, one_hot(self, labels, classes), logits, zero), -1);
    cadre_node_t above = cadre_op_sum(self, cadre_op_gt(self, logits, add_last(self, own)), -1);
    cadre_node_t is_among = cadre_op_gt(self, cadre_op_const_f32(self, (float)k), above);
    return cadre_op_mul(self, is_among, cadre_op_eq(self, own, own)); /* NaN is never right */
}
