#include "common/graph/infer.h"

#include <inttypes.h>

#include "common/status.h"
#include "common/tensor.h"

typedef struct {
    char text[CADRE_EXTENTS_TEXT_SIZE];
} text_t;

static const cadre_program_node_t *
input(const cadre_program_t *program, const cadre_program_node_t *node, int index)
{
    return cadre_program_node(program, node->inputs[index]);
}

static const char *
shown(const cadre_program_t *program, const cadre_extents_t *shape, text_t *text)
{
    return cadre_extents_text(shape, cadre_program_symbols(program), text->text);
}

static int
need_dtype(const cadre_program_node_t *of, cadre_dtype_t dtype)
{
    if (of->dtype != dtype) {
        return cadre_fail(CADRE_EDTYPE, "needs %s, not %s", cadre_dtype_text(dtype),
                          cadre_dtype_text(of->dtype));
    }
    return 0;
}

static bool
is_one(cadre_extent_t extent)
{
    return extent.factor == 1 && extent.symbol < 0;
}

bool
cadre_infer_broadcast(const cadre_extents_t *left, const cadre_extents_t *right,
                      cadre_extents_t *out)
{
    cadre_extents_t shape = {.rank = left->rank > right->rank ? left->rank : right->rank};
    for (int i = 0; i < shape.rank; i++) {
        int l = i - (shape.rank - left->rank);
        int r = i - (shape.rank - right->rank);
        cadre_extent_t a = l < 0 ? cadre_extent_number(1) : left->extents[l];
        cadre_extent_t b = r < 0 ? cadre_extent_number(1) : right->extents[r];
        if (!cadre_extent_equal(a, b) && !is_one(a) && !is_one(b)) {
            return false;
        }
        shape.extents[i] = is_one(a) ? b : a;
    }
    *out = shape;
    return true;
}

static int
infer_leaf(const cadre_program_t *program, cadre_program_node_t *node)
{
    int64_t index = node->attributes[CADRE_LEAF_INDEX];
    int64_t count = node->op == CADRE_OP_ARG   ? cadre_program_argument_count(program)
                    : node->op == CADRE_OP_VAR ? cadre_program_variable_count(program)
                                               : cadre_program_constant_count(program);
    if (index < 0 || index >= count) {
        return cadre_fail(CADRE_EINVALID, "index %" PRId64 " of %" PRId64, index, count);
    }
    int at = (int)index;
    if (node->op == CADRE_OP_ARG) {
        node->dtype = cadre_program_argument(program, at)->dtype;
        node->shape = cadre_program_argument(program, at)->shape;
        return 0;
    }
    const int64_t *shape = NULL;
    if (node->op == CADRE_OP_VAR) {
        node->dtype = CADRE_F32;
        node->shape.rank = cadre_program_variable(program, at)->rank;
        shape = cadre_program_variable(program, at)->shape;
    } else {
        node->dtype = cadre_program_constant(program, at)->dtype;
        node->shape.rank = cadre_program_constant(program, at)->rank;
        shape = cadre_program_constant(program, at)->shape;
    }
    for (int i = 0; i < node->shape.rank; i++) {
        node->shape.extents[i] = cadre_extent_number(shape[i]);
    }
    return 0;
}

/* [.., m, k] times [.., k, n], either transposed, with equal leading axes. */
static int
infer_matmul(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *left = input(program, node, 0);
    const cadre_program_node_t *right = input(program, node, 1);
    int64_t flip_left = node->attributes[CADRE_MATMUL_TRANSPOSE_LEFT];
    int64_t flip_right = node->attributes[CADRE_MATMUL_TRANSPOSE_RIGHT];
    if (need_dtype(left, CADRE_F32) < 0 || need_dtype(right, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    if (flip_left < 0 || flip_left > 1 || flip_right < 0 || flip_right > 1) {
        return cadre_fail(CADRE_EINVALID, "a transpose flag is 0 or 1");
    }
    const cadre_extents_t *a = &left->shape;
    const cadre_extents_t *b = &right->shape;
    text_t left_text;
    text_t right_text;
    const char *problem = NULL;
    int rank = a->rank;
    if (rank < 2 || b->rank != rank) {
        problem = "needs two matrices of the same rank";
    } else if (!cadre_extent_equal(a->extents[rank - 1 - flip_left],
                                   b->extents[rank - 2 + flip_right])) {
        problem = "inner dimensions differ";
    }
    for (int i = 0; !problem && i < rank - 2; i++) {
        if (!cadre_extent_equal(a->extents[i], b->extents[i])) {
            problem = "leading dimensions differ";
        }
    }
    if (problem) {
        return cadre_fail(CADRE_ESHAPE, "%s: %s%s times %s%s", problem,
                          flip_left ? "transposed " : "", shown(program, a, &left_text),
                          flip_right ? "transposed " : "", shown(program, b, &right_text));
    }
    node->dtype = CADRE_F32;
    node->shape = *a;
    node->shape.extents[rank - 2] = a->extents[rank - 2 + flip_left];
    node->shape.extents[rank - 1] = b->extents[rank - 1 - flip_right];
    return 0;
}

static int
infer_map1(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = input(program, node, 0);
    if (!cadre_map1_valid(node->attributes[CADRE_FUNCTION])) {
        return cadre_fail(CADRE_EINVALID, "no function %" PRId64, node->attributes[CADRE_FUNCTION]);
    }
    node->dtype = CADRE_F32;
    node->shape = x->shape;
    return need_dtype(x, CADRE_F32);
}

static int
need_broadcast(const cadre_program_t *program, const cadre_extents_t *left,
               const cadre_extents_t *right, cadre_extents_t *out)
{
    if (!cadre_infer_broadcast(left, right, out)) {
        text_t left_text;
        text_t right_text;
        return cadre_fail(CADRE_ESHAPE, "shapes do not broadcast: %s and %s",
                          shown(program, left, &left_text), shown(program, right, &right_text));
    }
    return 0;
}

static int
infer_map2(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *left = input(program, node, 0);
    const cadre_program_node_t *right = input(program, node, 1);
    int64_t function = node->attributes[CADRE_FUNCTION];
    if (!cadre_map2_valid(function)) {
        return cadre_fail(CADRE_EINVALID, "no function %" PRId64, function);
    }
    bool compares = function == CADRE_MAP2_GT || function == CADRE_MAP2_EQ;
    if (left->dtype != right->dtype) {
        return cadre_fail(CADRE_EDTYPE, "types differ: %s and %s", cadre_dtype_text(left->dtype),
                          cadre_dtype_text(right->dtype));
    }
    if (!compares && need_dtype(left, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    node->dtype = CADRE_F32;
    return need_broadcast(program, &left->shape, &right->shape, &node->shape);
}

static int
infer_where(const cadre_program_t *program, cadre_program_node_t *node)
{
    cadre_extents_t shape = {0};
    for (int i = 0; i < 3; i++) {
        const cadre_program_node_t *x = input(program, node, i);
        if (need_dtype(x, CADRE_F32) < 0) {
            return CADRE_EDTYPE;
        }
        int status = need_broadcast(program, &shape, &x->shape, &shape);
        if (status < 0) {
            return status;
        }
    }
    node->dtype = CADRE_F32;
    node->shape = shape;
    return 0;
}

static int
infer_reduce(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = input(program, node, 0);
    int64_t function = node->attributes[CADRE_FUNCTION];
    int64_t begin = node->attributes[CADRE_REDUCE_BEGIN];
    int64_t end = node->attributes[CADRE_REDUCE_END];
    text_t text;
    if (!cadre_reduce_valid(function)) {
        return cadre_fail(CADRE_EINVALID, "no function %" PRId64, function);
    }
    if (need_dtype(x, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    if (begin < 0 || begin >= end || end > x->shape.rank) {
        const char *in = shown(program, &x->shape, &text);
        return end == begin + 1
                   ? cadre_fail(CADRE_ESHAPE, "no axis %" PRId64 " in %s", begin, in)
                   : cadre_fail(CADRE_ESHAPE, "no axes %" PRId64 " to below %" PRId64 " in %s",
                                begin, end, in);
    }
    node->dtype = function == CADRE_REDUCE_ARGMAX ? CADRE_I32 : CADRE_F32;
    node->shape.rank = 0;
    for (int i = 0; i < x->shape.rank; i++) {
        if (i < begin || i >= end) {
            node->shape.extents[node->shape.rank++] = x->shape.extents[i];
        }
    }
    return 0;
}

static int
check_shape(const cadre_program_t *program, const cadre_extents_t *shape)
{
    if (shape->rank < 0 || shape->rank > CADRE_PROGRAM_RANK_MAX) {
        return cadre_fail(CADRE_EINVALID, "rank %d is not in 0..%d", shape->rank,
                          CADRE_PROGRAM_RANK_MAX);
    }
    for (int i = 0; i < shape->rank; i++) {
        if (shape->extents[i].factor < 1 || shape->extents[i].symbol < CADRE_EXTENT_NO_SYMBOL ||
            shape->extents[i].symbol >= cadre_program_symbol_count(program)) {
            return cadre_fail(CADRE_EINVALID, "dimension %d is not at least 1", i);
        }
    }
    int64_t factor = 0;
    return cadre_extents_factor(shape, &factor);
}

static int
infer_broadcast(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = input(program, node, 0);
    int64_t share = node->attributes[CADRE_BROADCAST_SHARE];
    cadre_extents_t shape = {0};
    text_t from;
    text_t to;
    if (share < 0 || share > 1 || (share == 1 && x->dtype != CADRE_F32)) {
        return cadre_fail(CADRE_EINVALID, "share is 0, or 1 for f32");
    }
    if (!cadre_infer_broadcast(&x->shape, &node->shape, &shape) ||
        !cadre_extents_equal(&shape, &node->shape)) {
        return cadre_fail(CADRE_ESHAPE, "%s does not broadcast to %s",
                          shown(program, &x->shape, &from), shown(program, &node->shape, &to));
    }
    node->dtype = x->dtype;
    return 0;
}

static int
infer_reshape(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = input(program, node, 0);
    text_t from;
    text_t to;
    if (!cadre_extents_same_count(&x->shape, &node->shape)) {
        return cadre_fail(CADRE_ESHAPE, "%s and %s have different numbers of elements",
                          shown(program, &x->shape, &from), shown(program, &node->shape, &to));
    }
    node->dtype = x->dtype;
    return 0;
}

static int
infer_transpose(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = input(program, node, 0);
    unsigned seen = 0;
    node->dtype = x->dtype;
    node->shape.rank = x->shape.rank;
    for (int i = 0; i < CADRE_PROGRAM_RANK_MAX; i++) {
        int64_t axis = node->attributes[i];
        if (i >= x->shape.rank) {
            if (axis != 0) {
                return cadre_fail(CADRE_EINVALID, "order names more axes than there are");
            }
            continue;
        }
        if (axis < 0 || axis >= x->shape.rank || (seen & (1U << axis))) {
            return cadre_fail(CADRE_EINVALID, "order is no permutation of %d axes", x->shape.rank);
        }
        seen |= 1U << axis;
        node->shape.extents[i] = x->shape.extents[axis];
    }
    return 0;
}

static int
need_axis(const cadre_program_t *program, const cadre_program_node_t *x, int64_t axis)
{
    text_t text;
    if (axis < 0 || axis >= x->shape.rank) {
        return cadre_fail(CADRE_ESHAPE, "no axis %" PRId64 " in %s", axis,
                          shown(program, &x->shape, &text));
    }
    return 0;
}

static int
infer_concat(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *first = input(program, node, 0);
    int64_t axis = node->attributes[CADRE_AXIS];
    int status = need_axis(program, first, axis);
    if (status < 0) {
        return status;
    }
    node->dtype = first->dtype;
    node->shape = first->shape;
    cadre_extent_t *total = &node->shape.extents[axis];
    for (int i = 1; i < node->input_count; i++) {
        const cadre_program_node_t *next = input(program, node, i);
        if (need_dtype(next, first->dtype) < 0) {
            return CADRE_EDTYPE;
        }
        cadre_extents_t expected = next->shape;
        int64_t more = 0;
        if (axis < expected.rank && expected.extents[axis].symbol == total->symbol) {
            more = expected.extents[axis].factor;
            expected.extents[axis] = first->shape.extents[axis];
        }
        if (!cadre_extents_equal(&expected, &first->shape)) {
            text_t left;
            text_t right;
            return cadre_fail(CADRE_ESHAPE, "%s and %s do not join at axis %" PRId64,
                              shown(program, &first->shape, &left),
                              shown(program, &next->shape, &right), axis);
        }
        total->factor += more; /* both below 2^40, and at most 32 of them */
    }
    return 0;
}

/* SLICE and PAD: `axis` changes to `factor`. */
static int
infer_axis_change(cadre_program_node_t *node, const cadre_program_node_t *x, int64_t factor)
{
    node->dtype = x->dtype;
    node->shape = x->shape;
    node->shape.extents[node->attributes[CADRE_AXIS]].factor = factor;
    return 0;
}

static int
infer_slice(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = input(program, node, 0);
    int64_t axis = node->attributes[CADRE_AXIS];
    int64_t begin = node->attributes[CADRE_SLICE_BEGIN];
    int64_t length = node->attributes[CADRE_SLICE_LENGTH];
    int status = need_axis(program, x, axis);
    if (status < 0) {
        return status;
    }
    int64_t size = x->shape.extents[axis].factor;
    if (begin < 0 || begin > size || length < 1 || length > size - begin) {
        text_t text;
        return cadre_fail(CADRE_ESHAPE,
                          "%" PRId64 " from %" PRId64 " on is outside of axis %" PRId64 " of %s",
                          length, begin, axis, shown(program, &x->shape, &text));
    }
    return infer_axis_change(node, x, length);
}

static int
infer_pad(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = input(program, node, 0);
    int64_t before = node->attributes[CADRE_PAD_BEFORE];
    int64_t after = node->attributes[CADRE_PAD_AFTER];
    int status = need_axis(program, x, node->attributes[CADRE_AXIS]);
    if (status < 0) {
        return status;
    }
    if (before < 0 || after < 0 || before > CADRE_EXTENTS_FACTOR_MAX ||
        after > CADRE_EXTENTS_FACTOR_MAX) {
        return cadre_fail(CADRE_EINVALID, "cannot pad by %" PRId64 " and %" PRId64, before, after);
    }
    return infer_axis_change(
        node, x, x->shape.extents[node->attributes[CADRE_AXIS]].factor + before + after);
}

static int
infer_softmax(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = input(program, node, 0);
    int64_t logarithm = node->attributes[CADRE_SOFTMAX_LOG];
    if (logarithm < 0 || logarithm > 1) {
        return cadre_fail(CADRE_EINVALID, "the log flag is 0 or 1");
    }
    if (x->shape.rank < 1) {
        return cadre_fail(CADRE_ESHAPE, "needs at least one axis");
    }
    node->dtype = CADRE_F32;
    node->shape = x->shape;
    return need_dtype(x, CADRE_F32);
}

/* Logits [.., C], labels [..], and for the gradient the loss' gradient [..]. */
static int
infer_xent(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *logits = input(program, node, 0);
    const cadre_program_node_t *labels = input(program, node, 1);
    cadre_extents_t rows = logits->shape;
    rows.rank--;
    if (logits->shape.rank < 1 || !cadre_extents_equal(&rows, &labels->shape)) {
        text_t left;
        text_t right;
        return cadre_fail(CADRE_ESHAPE, "logits %s do not go with labels %s",
                          shown(program, &logits->shape, &left),
                          shown(program, &labels->shape, &right));
    }
    if (need_dtype(logits, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    if (labels->dtype != CADRE_I32) {
        return cadre_fail(CADRE_EDTYPE, "labels must be i32, not %s",
                          cadre_dtype_text(labels->dtype));
    }
    node->dtype = CADRE_F32;
    node->shape = rows;
    if (node->op == CADRE_OP_XENT_GRAD) {
        const cadre_program_node_t *gradient = input(program, node, 2);
        node->shape = logits->shape;
        if (!cadre_extents_equal(&rows, &gradient->shape)) {
            text_t left;
            text_t right;
            return cadre_fail(CADRE_ESHAPE, "gradient %s does not go with labels %s",
                              shown(program, &gradient->shape, &left),
                              shown(program, &labels->shape, &right));
        }
        return need_dtype(gradient, CADRE_F32);
    }
    return 0;
}

static int
infer_cast(const cadre_program_t *program, cadre_program_node_t *node)
{
    int64_t dtype = node->attributes[CADRE_CAST_DTYPE];
    if (dtype != CADRE_F32 && dtype != CADRE_I32) {
        return cadre_fail(CADRE_EDTYPE, "cannot cast to %s",
                          dtype >= 0 && cadre_dtype_valid((uint64_t)dtype)
                              ? cadre_dtype_text((cadre_dtype_t)dtype)
                              : "?");
    }
    node->dtype = (cadre_dtype_t)dtype;
    node->shape = input(program, node, 0)->shape;
    return 0;
}

static int
infer_rand(cadre_program_node_t *node)
{
    int64_t stream = node->attributes[CADRE_RAND_STREAM];
    if (stream < 0 || stream > UINT32_MAX) {
        return cadre_fail(CADRE_EINVALID, "no stream %" PRId64, stream);
    }
    node->dtype = CADRE_F32;
    return 0;
}

static int
infer_same(const cadre_program_t *program, cadre_program_node_t *node)
{
    node->dtype = input(program, node, 0)->dtype;
    node->shape = input(program, node, 0)->shape;
    return 0;
}

static int
infer_op(const cadre_program_t *program, cadre_program_node_t *node)
{
    switch (node->op) {
    case CADRE_OP_ARG:
    case CADRE_OP_VAR:
    case CADRE_OP_CONST:
        return infer_leaf(program, node);
    case CADRE_OP_MATMUL:
        return infer_matmul(program, node);
    case CADRE_OP_MAP1:
        return infer_map1(program, node);
    case CADRE_OP_MAP2:
        return infer_map2(program, node);
    case CADRE_OP_WHERE:
        return infer_where(program, node);
    case CADRE_OP_REDUCE:
        return infer_reduce(program, node);
    case CADRE_OP_BROADCAST:
        return infer_broadcast(program, node);
    case CADRE_OP_RESHAPE:
        return infer_reshape(program, node);
    case CADRE_OP_TRANSPOSE:
        return infer_transpose(program, node);
    case CADRE_OP_CONCAT:
        return infer_concat(program, node);
    case CADRE_OP_SLICE:
        return infer_slice(program, node);
    case CADRE_OP_PAD:
        return infer_pad(program, node);
    case CADRE_OP_SOFTMAX:
        return infer_softmax(program, node);
    case CADRE_OP_XENT:
    case CADRE_OP_XENT_GRAD:
        return infer_xent(program, node);
    case CADRE_OP_CAST:
        return infer_cast(program, node);
    case CADRE_OP_RAND:
        return infer_rand(node);
    case CADRE_OP_DETACH:
        return infer_same(program, node);
    }
    return cadre_fail(CADRE_EINVALID, "no operation %d", (int)node->op);
}

int
cadre_infer(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_op_info_t *info = cadre_op_info((uint64_t)node->op);
    if (!info) {
        return cadre_fail(CADRE_EINVALID, "no operation %d", (int)node->op);
    }
    int status = 0;
    if (node->input_count < info->inputs_min || node->input_count > info->inputs_max) {
        status = cadre_fail(CADRE_EINVALID, "%d inputs", node->input_count);
    }
    if (status == 0 && info->carries_shape) {
        status = check_shape(program, &node->shape);
    }
    if (status == 0) {
        status = infer_op(program, node);
    }
    if (status == 0) {
        status = check_shape(program, &node->shape);
    }
    if (status < 0) {
        return cadre_fail_within(status, "%s",
                                 cadre_op_text(node->op, node->attributes[CADRE_FUNCTION]));
    }
    return 0;
}
