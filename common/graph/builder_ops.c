/*
 * builder_ops - one public call per operation.
 */
#include <string.h>

#include "common/graph/program_data.h"

static const cadre_node_t none = {0};

#define MAP1(call, function)                                                                       \
    cadre_node_t call(cadre_program_t *self, cadre_node_t x)                                       \
    {                                                                                              \
        return cadre_program_emit1(self, CADRE_OP_MAP1, function, x);                              \
    }
MAP1(cadre_op_neg, CADRE_MAP1_NEG)
MAP1(cadre_op_exp, CADRE_MAP1_EXP)
MAP1(cadre_op_log, CADRE_MAP1_LOG)
MAP1(cadre_op_sqrt, CADRE_MAP1_SQRT)
MAP1(cadre_op_rsqrt, CADRE_MAP1_RSQRT)
MAP1(cadre_op_recip, CADRE_MAP1_RECIP)
MAP1(cadre_op_square, CADRE_MAP1_SQUARE)
MAP1(cadre_op_abs, CADRE_MAP1_ABS)
MAP1(cadre_op_sign, CADRE_MAP1_SIGN)
MAP1(cadre_op_step, CADRE_MAP1_STEP)
MAP1(cadre_op_relu, CADRE_MAP1_RELU)
MAP1(cadre_op_sigmoid, CADRE_MAP1_SIGMOID)
MAP1(cadre_op_tanh, CADRE_MAP1_TANH)
MAP1(cadre_op_gelu, CADRE_MAP1_GELU)
MAP1(cadre_op_dgelu, CADRE_MAP1_DGELU)
MAP1(cadre_op_softplus, CADRE_MAP1_SOFTPLUS)
#undef MAP1

#define MAP2(call, function)                                                                       \
    cadre_node_t call(cadre_program_t *self, cadre_node_t left, cadre_node_t right)                \
    {                                                                                              \
        return cadre_program_emit2(self, CADRE_OP_MAP2, function, left, right);                    \
    }
MAP2(cadre_op_add, CADRE_MAP2_ADD)
MAP2(cadre_op_sub, CADRE_MAP2_SUB)
MAP2(cadre_op_mul, CADRE_MAP2_MUL)
MAP2(cadre_op_div, CADRE_MAP2_DIV)
MAP2(cadre_op_max, CADRE_MAP2_MAX)
MAP2(cadre_op_min, CADRE_MAP2_MIN)
MAP2(cadre_op_gt, CADRE_MAP2_GT)
MAP2(cadre_op_eq, CADRE_MAP2_EQ)
#undef MAP2

/* Returns `yes` where `condition` is not 0, else `no`, element by element. */
cadre_node_t
cadre_op_where(cadre_program_t *self, cadre_node_t condition, cadre_node_t yes, cadre_node_t no)
{
    if (!cadre_program_has(self, condition, "where") || !cadre_program_has(self, yes, "where") ||
        !cadre_program_has(self, no, "where")) {
        return none;
    }
    cadre_program_node_t node = {.op = CADRE_OP_WHERE,
                                 .input_count = 3,
                                 .inputs = {condition.id - 1, yes.id - 1, no.id - 1}};
    return cadre_program_emit(self, &node);
}

/* Multiplies matrices, each of which may be transposed first. */
cadre_node_t
cadre_op_matmul_transposed(cadre_program_t *self, cadre_node_t left, int transpose_left,
                           cadre_node_t right, int transpose_right)
{
    if (!cadre_program_has(self, left, "matmul") || !cadre_program_has(self, right, "matmul")) {
        return none;
    }
    cadre_program_node_t node = {.op = CADRE_OP_MATMUL,
                                 .input_count = 2,
                                 .inputs = {left.id - 1, right.id - 1},
                                 .attributes = {transpose_left != 0, transpose_right != 0}};
    return cadre_program_emit(self, &node);
}

/* Multiplies matrices. If `right` is a single matrix while `left` has leading axes, these axes of
 * `left` are collapsed into the rows of one long matrix: one product instead of many. */
cadre_node_t
cadre_op_matmul(cadre_program_t *self, cadre_node_t left, cadre_node_t right)
{
    if (!cadre_program_has(self, left, "matmul") || !cadre_program_has(self, right, "matmul")) {
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self, left)->shape;
    cadre_extents_t matrix = cadre_program_at(self, right)->shape;
    cadre_extents_t flat = {0};
    if (shape.rank <= 2 || matrix.rank != 2 ||
        !cadre_extent_equal(shape.extents[shape.rank - 1], matrix.extents[0]) ||
        !cadre_extents_collapse(&shape, 1, &flat)) {
        return cadre_op_matmul_transposed(self, left, 0, right, 0);
    }
    cadre_node_t rows = cadre_program_emit_reshape(self, left, &flat);
    cadre_node_t product = cadre_op_matmul_transposed(self, rows, 0, right, 0);
    shape.extents[shape.rank - 1] = matrix.extents[1];
    return cadre_program_emit_reshape(self, product, &shape);
}

/* Appends a reduction over the axes `begin` to `end` - 1, which disappear. */
cadre_node_t
cadre_program_emit_reduce(cadre_program_t *self, cadre_reduce_t function, cadre_node_t x, int begin,
                          int end)
{
    if (!cadre_program_has(self, x, cadre_op_text(CADRE_OP_REDUCE, function))) {
        return none;
    }
    cadre_program_node_t node = {.op = CADRE_OP_REDUCE,
                                 .input_count = 1,
                                 .inputs = {x.id - 1},
                                 .attributes = {function, begin, end}};
    return cadre_program_emit(self, &node);
}

/* Returns an axis that is counted from the end (negative) as counted from the start. An axis that
 * does not exist is returned as it is, for the error text. */
static int
from_start(const cadre_program_t *self, cadre_node_t x, int axis)
{
    int rank = cadre_program_at(self, x)->shape.rank;
    return axis < 0 && axis >= -rank ? axis + rank : axis;
}

/* Reduces over one axis; a negative one counts from the end. */
static cadre_node_t
reduce(cadre_program_t *self, cadre_reduce_t function, cadre_node_t x, int axis)
{
    if (!cadre_program_has(self, x, cadre_op_text(CADRE_OP_REDUCE, function))) {
        return none;
    }
    int begin = from_start(self, x, axis);
    return cadre_program_emit_reduce(self, function, x, begin, begin + 1);
}

cadre_node_t
cadre_op_sum(cadre_program_t *self, cadre_node_t x, int axis)
{
    return reduce(self, CADRE_REDUCE_SUM, x, axis);
}

cadre_node_t
cadre_op_mean(cadre_program_t *self, cadre_node_t x, int axis)
{
    return reduce(self, CADRE_REDUCE_MEAN, x, axis);
}

cadre_node_t
cadre_op_reduce_max(cadre_program_t *self, cadre_node_t x, int axis)
{
    return reduce(self, CADRE_REDUCE_MAX, x, axis);
}

cadre_node_t
cadre_op_argmax(cadre_program_t *self, cadre_node_t x, int axis)
{
    return reduce(self, CADRE_REDUCE_ARGMAX, x, axis);
}

/* Reduces over all axes, to a scalar; a scalar is returned as it is. */
static cadre_node_t
reduce_all(cadre_program_t *self, cadre_reduce_t function, cadre_node_t x)
{
    if (!cadre_program_has(self, x, cadre_op_text(CADRE_OP_REDUCE, function))) {
        return none;
    }
    int rank = cadre_program_at(self, x)->shape.rank;
    return rank == 0 ? x : cadre_program_emit_reduce(self, function, x, 0, rank);
}

cadre_node_t
cadre_op_sum_all(cadre_program_t *self, cadre_node_t x)
{
    return reduce_all(self, CADRE_REDUCE_SUM, x);
}

cadre_node_t
cadre_op_mean_all(cadre_program_t *self, cadre_node_t x)
{
    return reduce_all(self, CADRE_REDUCE_MEAN, x);
}

/* Appends a broadcast to `shape`; returns `x` itself where it has that shape. With `share` each
 * copy of a value is divided by the number of copies. */
cadre_node_t
cadre_program_emit_broadcast(cadre_program_t *self, cadre_node_t x, const cadre_extents_t *shape,
                             bool share)
{
    if (!cadre_program_has(self, x, "broadcast")) {
        return none;
    }
    if (cadre_extents_equal(&cadre_program_at(self, x)->shape, shape)) {
        return x;
    }
    cadre_program_node_t node = {.op = CADRE_OP_BROADCAST,
                                 .shape = *shape,
                                 .input_count = 1,
                                 .inputs = {x.id - 1},
                                 .attributes = {share}};
    return cadre_program_emit(self, &node);
}

/* Broadcasts `x` to a shape, as in NumPy. */
cadre_node_t
cadre_op_broadcast(cadre_program_t *self, cadre_node_t x, const cadre_dim_t *dims, int rank)
{
    cadre_extents_t shape = {0};
    if (!cadre_program_shape(self, "broadcast", dims, rank, &shape)) {
        return none;
    }
    return cadre_program_emit_broadcast(self, x, &shape, false);
}

/* Appends a reshape; returns `x` itself where it has that shape. */
cadre_node_t
cadre_program_emit_reshape(cadre_program_t *self, cadre_node_t x, const cadre_extents_t *shape)
{
    if (!cadre_program_has(self, x, "reshape")) {
        return none;
    }
    if (cadre_extents_equal(&cadre_program_at(self, x)->shape, shape)) {
        return x;
    }
    cadre_program_node_t node = {
        .op = CADRE_OP_RESHAPE, .shape = *shape, .input_count = 1, .inputs = {x.id - 1}};
    return cadre_program_emit(self, &node);
}

/* Gives `x` another shape with as many elements. */
cadre_node_t
cadre_op_reshape(cadre_program_t *self, cadre_node_t x, const cadre_dim_t *dims, int rank)
{
    cadre_extents_t shape = {0};
    if (!cadre_program_shape(self, "reshape", dims, rank, &shape)) {
        return none;
    }
    return cadre_program_emit_reshape(self, x, &shape);
}

/* Reorders axes: axis i of the result is axis order[i] of `x`. Whether `order` is a permutation is
 * checked when the node is added. */
cadre_node_t
cadre_op_transpose(cadre_program_t *self, cadre_node_t x, const int *order)
{
    if (!cadre_program_has(self, x, "transpose")) {
        return none;
    }
    cadre_program_node_t node = {.op = CADRE_OP_TRANSPOSE, .input_count = 1, .inputs = {x.id - 1}};
    for (int i = 0; i < cadre_program_at(self, x)->shape.rank; i++) {
        node.attributes[i] = order[i];
    }
    return cadre_program_emit(self, &node);
}

/* Joins nodes along an axis. At most CADRE_OP_INPUTS_MAX inputs are copied; a larger `count` is
 * refused when the node is added. */
cadre_node_t
cadre_op_concat(cadre_program_t *self, const cadre_node_t *nodes, int count, int axis)
{
    cadre_program_node_t node = {.op = CADRE_OP_CONCAT, .input_count = count};
    for (int i = 0; i < count && i < CADRE_OP_INPUTS_MAX; i++) {
        if (!cadre_program_has(self, nodes[i], "concat")) {
            return none;
        }
        node.inputs[i] = nodes[i].id - 1;
    }
    if (count > 0) {
        node.attributes[CADRE_AXIS] = from_start(self, nodes[0], axis);
    }
    return cadre_program_emit(self, &node);
}

/* Appends a slice or pad of one axis: `amounts` is (begin, length) or (before, after). */
static cadre_node_t
change_axis(cadre_program_t *self, cadre_op_t op, cadre_node_t x, int axis,
            const int64_t amounts[2])
{
    if (!cadre_program_has(self, x, cadre_op_text(op, 0))) {
        return none;
    }
    cadre_program_node_t node = {.op = op,
                                 .input_count = 1,
                                 .inputs = {x.id - 1},
                                 .attributes = {from_start(self, x, axis), amounts[0], amounts[1]}};
    return cadre_program_emit(self, &node);
}

cadre_node_t
cadre_op_slice(cadre_program_t *self, cadre_node_t x, int axis, int64_t begin, int64_t length)
{
    return change_axis(self, CADRE_OP_SLICE, x, axis, (int64_t[2]){begin, length});
}

cadre_node_t
cadre_op_pad(cadre_program_t *self, cadre_node_t x, int axis, int64_t before, int64_t after)
{
    return change_axis(self, CADRE_OP_PAD, x, axis, (int64_t[2]){before, after});
}

cadre_node_t
cadre_op_softmax(cadre_program_t *self, cadre_node_t x)
{
    return cadre_program_emit1(self, CADRE_OP_SOFTMAX, 0, x);
}

cadre_node_t
cadre_op_log_softmax(cadre_program_t *self, cadre_node_t x)
{
    return cadre_program_emit1(self, CADRE_OP_SOFTMAX, 1, x);
}

cadre_node_t
cadre_op_xent(cadre_program_t *self, cadre_node_t logits, cadre_node_t labels)
{
    labels = cadre_program_positions(self, labels, "xent");
    return cadre_program_emit2(self, CADRE_OP_XENT, 0, logits, labels);
}

cadre_node_t
cadre_op_rownorm(cadre_program_t *self, cadre_node_t x, float eps)
{
    return cadre_program_emit1(self, CADRE_OP_ROWNORM, cadre_op_float_bits(eps), x);
}

/* Appends an im2col: attributes are height and width of the window, stride and padding. */
cadre_node_t
cadre_program_emit_im2col(cadre_program_t *self, cadre_node_t x,
                          const int64_t attributes[CADRE_OP_ATTRIBUTES_MAX])
{
    if (!cadre_program_has(self, x, "im2col")) {
        return none;
    }
    cadre_program_node_t node = {.op = CADRE_OP_IM2COL, .input_count = 1, .inputs = {x.id - 1}};
    memcpy(node.attributes, attributes, sizeof(node.attributes));
    return cadre_program_emit(self, &node);
}

cadre_node_t
cadre_op_im2col(cadre_program_t *self, cadre_node_t x, const int kernel[2], int stride, int padding)
{
    return cadre_program_emit_im2col(self, x, (int64_t[]){kernel[0], kernel[1], stride, padding});
}

cadre_node_t
cadre_op_cast(cadre_program_t *self, cadre_node_t x, cadre_dtype_t dtype)
{
    return cadre_program_emit1(self, CADRE_OP_CAST, (int64_t)dtype, x);
}

/* Returns positions or labels as i32. Those of i64 are cast; one beyond i32 becomes its least
 * number, which no op takes: the largest may be a row, and -1 is padding in a bag. Others stay as
 * they are, right or wrong. */
cadre_node_t
cadre_program_positions(cadre_program_t *self, cadre_node_t index, const char *what)
{
    if (!cadre_program_has(self, index, what)) {
        return none;
    }
    if (cadre_program_at(self, index)->dtype != CADRE_I64) {
        return index;
    }
    cadre_node_t beyond = cadre_op_gt(self, index, cadre_op_const_i64(self, INT32_MAX));
    cadre_node_t known = cadre_op_where(self, beyond, cadre_op_const_i64(self, INT64_MIN), index);
    return cadre_op_cast(self, known, CADRE_I32);
}

/* Appends random numbers in [0, 1). Each such node of a program has a stream of its own, so that no
 * two give the same numbers. */
cadre_node_t
cadre_program_emit_rand(cadre_program_t *self, const cadre_extents_t *shape)
{
    cadre_program_node_t node = {
        .op = CADRE_OP_RAND, .shape = *shape, .attributes = {self->rand_count}};
    self->rand_count++;
    return cadre_program_emit(self, &node);
}

/* Returns random numbers in [0, 1) of the given shape. */
cadre_node_t
cadre_op_rand_uniform(cadre_program_t *self, const cadre_dim_t *dims, int rank)
{
    cadre_extents_t shape = {0};
    if (!cadre_program_shape(self, "rand", dims, rank, &shape)) {
        return none;
    }
    return cadre_program_emit_rand(self, &shape);
}

cadre_node_t
cadre_op_detach(cadre_program_t *self, cadre_node_t x)
{
    return cadre_program_emit1(self, CADRE_OP_DETACH, 0, x);
}
