/*
 * infer_arithmetic - shapes of matmul, of functions of one, two and three elements, of reductions.
 */
#include "common/graph/infer_rules.h"

#include <inttypes.h>

#include "common/base/status.h"
#include "common/tensor/tensor.h"

/* Fails unless both nodes have the same dtype. */
static int
need_same_dtype(const cadre_program_node_t *left, const cadre_program_node_t *right)
{
    if (left->dtype != right->dtype) {
        return cadre_fail(CADRE_EDTYPE, "types differ: %s and %s", cadre_dtype_text(left->dtype),
                          cadre_dtype_text(right->dtype));
    }
    return 0;
}

/* Infers matmul: [.., m, k] times [.., k, n], either of which may be transposed, with equal leading
 * axes. The result is f32 for bf16 operands too: sums of products are never rounded to less. */
int
cadre_infer_matmul(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *left = cadre_infer_input(self, node, 0);
    const cadre_program_node_t *right = cadre_infer_input(self, node, 1);
    int64_t flip_left = node->attributes[CADRE_MATMUL_TRANSPOSE_LEFT];
    int64_t flip_right = node->attributes[CADRE_MATMUL_TRANSPOSE_RIGHT];
    if (left->dtype != CADRE_F32 && left->dtype != CADRE_BF16) {
        return cadre_fail(CADRE_EDTYPE, "needs f32 or bf16, not %s", cadre_dtype_text(left->dtype));
    }
    if (need_same_dtype(left, right) < 0) {
        return CADRE_EDTYPE;
    }
    if (flip_left < 0 || flip_left > 1 || flip_right < 0 || flip_right > 1) {
        return cadre_fail(CADRE_EINVALID, "a transpose flag is 0 or 1");
    }
    const cadre_extents_t *a = &left->shape;
    const cadre_extents_t *b = &right->shape;
    cadre_infer_text_t left_text;
    cadre_infer_text_t right_text;
    const char *problem = NULL;
    /* The last two axes of a transposed operand are swapped. */
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
                          flip_left ? "transposed " : "", cadre_infer_shown(self, a, &left_text),
                          flip_right ? "transposed " : "", cadre_infer_shown(self, b, &right_text));
    }
    node->dtype = CADRE_F32;
    node->shape = *a;
    node->shape.extents[rank - 2] = a->extents[rank - 2 + flip_left];
    node->shape.extents[rank - 1] = b->extents[rank - 1 - flip_right];
    return 0;
}

/* Infers a function of one element: f32, the shape stays. */
int
cadre_infer_map1(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    if (!cadre_map1_valid(node->attributes[CADRE_FUNCTION])) {
        return cadre_fail(CADRE_EINVALID, "no function %" PRId64, node->attributes[CADRE_FUNCTION]);
    }
    node->dtype = CADRE_F32;
    node->shape = x->shape;
    return cadre_infer_need_dtype(x, CADRE_F32);
}

/* Computes the shape to which two shapes are broadcast; fails when they cannot be. */
static int
need_broadcast(const cadre_infer_t *self, const cadre_extents_t *left, const cadre_extents_t *right,
               cadre_extents_t *out)
{
    if (!cadre_extents_broadcast(left, right, out)) {
        cadre_infer_text_t left_text;
        cadre_infer_text_t right_text;
        return cadre_fail(CADRE_ESHAPE, "shapes do not broadcast: %s and %s",
                          cadre_infer_shown(self, left, &left_text),
                          cadre_infer_shown(self, right, &right_text));
    }
    return 0;
}

/* Infers a function of two elements, which are broadcast against each other: both f32, f64 or i64,
 * which is the result's dtype too. A comparison takes i32 as well, and its result is f32. */
int
cadre_infer_map2(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *left = cadre_infer_input(self, node, 0);
    const cadre_program_node_t *right = cadre_infer_input(self, node, 1);
    int64_t function = node->attributes[CADRE_FUNCTION];
    if (!cadre_map2_valid(function)) {
        return cadre_fail(CADRE_EINVALID, "no function %" PRId64, function);
    }
    bool compares = function == CADRE_MAP2_GT || function == CADRE_MAP2_EQ;
    if (need_same_dtype(left, right) < 0) {
        return CADRE_EDTYPE;
    }
    if ((!compares || left->dtype != CADRE_I32) && cadre_infer_need_number(left) < 0) {
        return CADRE_EDTYPE;
    }
    node->dtype = compares ? CADRE_F32 : left->dtype;
    return need_broadcast(self, &left->shape, &right->shape, &node->shape);
}

/* Infers where: condition, which is f32, and yes and no, both f32, f64 or i64, are broadcast
 * against one another. */
int
cadre_infer_where(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *condition = cadre_infer_input(self, node, 0);
    const cadre_program_node_t *yes = cadre_infer_input(self, node, 1);
    const cadre_program_node_t *no = cadre_infer_input(self, node, 2);
    if (cadre_infer_need_dtype(condition, CADRE_F32) < 0 || cadre_infer_need_number(yes) < 0 ||
        need_same_dtype(yes, no) < 0) {
        return CADRE_EDTYPE;
    }
    cadre_extents_t shape = condition->shape;
    int status = need_broadcast(self, &shape, &yes->shape, &shape);
    status = status < 0 ? status : need_broadcast(self, &shape, &no->shape, &shape);
    if (status < 0) {
        return status;
    }
    node->dtype = yes->dtype;
    node->shape = shape;
    return 0;
}

/* Fails unless the node's dtype can be reduced by this function: a sum and the largest of f32, f64
 * or i64, a mean of those but i64, a position in f32. */
static int
need_reducible(const cadre_program_node_t *x, int64_t function)
{
    if (function == CADRE_REDUCE_ARGMAX) {
        return cadre_infer_need_dtype(x, CADRE_F32);
    }
    if (function == CADRE_REDUCE_MEAN && x->dtype == CADRE_I64) {
        return cadre_fail(CADRE_EDTYPE, "needs f32 or f64, not i64");
    }
    return cadre_infer_need_number(x);
}

/* Infers a reduction over the axes `begin` to `end` - 1, which disappear. Positions (argmax) are
 * i32. */
int
cadre_infer_reduce(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    int64_t function = node->attributes[CADRE_FUNCTION];
    int64_t begin = node->attributes[CADRE_REDUCE_BEGIN];
    int64_t end = node->attributes[CADRE_REDUCE_END];
    cadre_infer_text_t text;
    if (!cadre_reduce_valid(function)) {
        return cadre_fail(CADRE_EINVALID, "no function %" PRId64, function);
    }
    if (need_reducible(x, function) < 0) {
        return CADRE_EDTYPE;
    }
    if (begin < 0 || begin >= end || end > x->shape.rank) {
        const char *in = cadre_infer_shown(self, &x->shape, &text);
        return end == begin + 1
                   ? cadre_fail(CADRE_ESHAPE, "no axis %" PRId64 " in %s", begin, in)
                   : cadre_fail(CADRE_ESHAPE, "no axes %" PRId64 " to below %" PRId64 " in %s",
                                begin, end, in);
    }
    node->dtype = function == CADRE_REDUCE_ARGMAX ? CADRE_I32 : x->dtype;
    node->shape.rank = 0;
    for (int i = 0; i < x->shape.rank; i++) {
        if (i < begin || i >= end) {
            node->shape.extents[node->shape.rank++] = x->shape.extents[i];
        }
    }
    return 0;
}
