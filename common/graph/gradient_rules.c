#include "common/graph/gradient_rules.h"

#include <string.h>

#include "common/base/memory.h"
#include "common/graph/program_data.h"

static const cadre_node_t none = {0};

/* Returns the shape of a node; rank 0 for the empty node, which a mistake leaves. */
static cadre_extents_t
shape_of(const cadre_gradient_walk_t *walk, cadre_node_t node)
{
    return node.id > 0 ? cadre_program_at(walk->program, node)->shape : (cadre_extents_t){0};
}

/* Reduces `x` over the axes along which `shape` was broadcast, so that it has that shape again.
 * Neighbouring axes are reduced at once. */
static cadre_node_t
unbroadcast(cadre_gradient_walk_t *walk, cadre_node_t x, const cadre_extents_t *shape,
            cadre_reduce_t function)
{
    cadre_extents_t from = shape_of(walk, x);
    int added = from.rank - shape->rank;
    bool grown[CADRE_PROGRAM_RANK_MAX] = {false};
    for (int i = 0; i < from.rank; i++) {
        grown[i] = i < added || !cadre_extent_equal(from.extents[i], shape->extents[i - added]);
    }
    for (int end = from.rank; end > 0; end--) {
        if (!grown[end - 1]) {
            continue;
        }
        int begin = end - 1;
        while (begin > 0 && grown[begin - 1]) {
            begin--;
        }
        x = cadre_program_emit_reduce(walk->program, function, x, begin, end);
        end = begin + 1;
    }
    return x.id == 0 ? x : cadre_program_emit_reshape(walk->program, x, shape);
}

/* Gives input `index` its gradient, summed over the axes along which the input was broadcast. */
static void
give_unbroadcast(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit, int index,
                 cadre_node_t gradient)
{
    cadre_extents_t shape = shape_of(walk, cadre_gradient_input(visit, index));
    if (gradient.id != 0) {
        cadre_gradient_give(walk, visit, index,
                            unbroadcast(walk, gradient, &shape, CADRE_REDUCE_SUM));
    }
}

/* Gives the gradients for C = op(A) op(B), where op transposes if its flag is set. If A and B are
 * bf16, the products for their gradients are of bf16 matrices too, for speed: dL/dC is rounded to
 * bf16, sums are f32. */
void
cadre_gradient_matmul(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_node_t a = cadre_gradient_input(visit, 0);
    cadre_node_t b = cadre_gradient_input(visit, 1);
    cadre_node_t g = visit->gradient;
    if (cadre_program_at(walk->program, a)->dtype == CADRE_BF16) {
        g = cadre_op_cast(walk->program, g, CADRE_BF16);
    }
    int flip_a = (int)visit->node.attributes[CADRE_MATMUL_TRANSPOSE_LEFT];
    int flip_b = (int)visit->node.attributes[CADRE_MATMUL_TRANSPOSE_RIGHT];
    if (cadre_gradient_wanted(walk, visit, 0)) {
        cadre_gradient_give(walk, visit, 0,
                            flip_a ? cadre_op_matmul_transposed(walk->program, b, flip_b, g, 1)
                                   : cadre_op_matmul_transposed(walk->program, g, 0, b, !flip_b));
    }
    if (cadre_gradient_wanted(walk, visit, 1)) {
        cadre_gradient_give(walk, visit, 1,
                            flip_b ? cadre_op_matmul_transposed(walk->program, g, 1, a, flip_a)
                                   : cadre_op_matmul_transposed(walk->program, a, !flip_a, g, 0));
    }
}

/* Returns the derivative of a map1 function times g. Where the derivative can be computed from the
 * result y it is, since x need not be kept in memory then. */
static cadre_node_t
map1_gradient(cadre_program_t *p, const cadre_gradient_visit_t *visit)
{
    cadre_node_t x = cadre_gradient_input(visit, 0);
    cadre_node_t y = visit->value;
    cadre_node_t g = visit->gradient;
    switch ((cadre_map1_t)visit->node.attributes[CADRE_FUNCTION]) {
    case CADRE_MAP1_NEG:
        return cadre_op_neg(p, g);
    case CADRE_MAP1_EXP:
        return cadre_op_mul(p, g, y);
    case CADRE_MAP1_LOG:
        return cadre_op_div(p, g, x);
    case CADRE_MAP1_SQRT:
        return cadre_op_div(p, cadre_op_mul(p, g, cadre_op_const_f32(p, 0.5F)), y);
    case CADRE_MAP1_RSQRT:
        return cadre_op_mul(p, cadre_op_mul(p, g, cadre_op_const_f32(p, -0.5F)),
                            cadre_op_mul(p, y, cadre_op_square(p, y)));
    case CADRE_MAP1_RECIP:
        return cadre_op_neg(p, cadre_op_mul(p, g, cadre_op_square(p, y)));
    case CADRE_MAP1_SQUARE:
        return cadre_op_mul(p, g, cadre_op_mul(p, x, cadre_op_const_f32(p, 2)));
    case CADRE_MAP1_ABS:
        return cadre_op_mul(p, g, cadre_op_sign(p, x));
    case CADRE_MAP1_RELU:
        return cadre_op_mul(p, g, cadre_op_step(p, y));
    case CADRE_MAP1_SIGMOID:
        return cadre_op_mul(p, g, cadre_op_mul(p, y, cadre_op_sub(p, cadre_op_const_f32(p, 1), y)));
    case CADRE_MAP1_TANH:
        return cadre_op_mul(p, g, cadre_op_sub(p, cadre_op_const_f32(p, 1), cadre_op_square(p, y)));
    case CADRE_MAP1_GELU:
        return cadre_op_mul(p, g, cadre_op_dgelu(p, x));
    case CADRE_MAP1_SOFTPLUS:
        return cadre_op_mul(p, g, cadre_op_sigmoid(p, x));
    case CADRE_MAP1_SIGN: /* these three have no rule (op.h) */
    case CADRE_MAP1_STEP:
    case CADRE_MAP1_DGELU:
        break;
    }
    return none;
}

void
cadre_gradient_map1(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_gradient_give(walk, visit, 0, map1_gradient(walk->program, visit));
}

/* Gives the gradients of a function of two elements, a and b, to those of the two that want one; g
 * is the gradient of its result. */
void
cadre_gradient_map2(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_program_t *p = walk->program;
    cadre_node_t a = cadre_gradient_input(visit, 0);
    cadre_node_t b = cadre_gradient_input(visit, 1);
    cadre_node_t g = visit->gradient;
    bool to_a = cadre_gradient_wanted(walk, visit, 0);
    bool to_b = cadre_gradient_wanted(walk, visit, 1);
    cadre_node_t for_a = g;
    cadre_node_t for_b = g;
    switch ((cadre_map2_t)visit->node.attributes[CADRE_FUNCTION]) {
    case CADRE_MAP2_ADD:
        break;
    case CADRE_MAP2_SUB:
        for_b = to_b ? cadre_op_neg(p, g) : none;
        break;
    case CADRE_MAP2_MUL:
        for_a = to_a ? cadre_op_mul(p, g, b) : none;
        for_b = to_b ? cadre_op_mul(p, g, a) : none;
        break;
    case CADRE_MAP2_DIV:
        for_a = cadre_op_div(p, g, b);
        for_b = to_b ? cadre_op_neg(p, cadre_op_mul(p, for_a, visit->value)) : none;
        break;
    case CADRE_MAP2_MAX: /* where a and b are equal, b gets all of the gradient, as for MIN */
        for_a = cadre_op_mul(p, g, cadre_op_gt(p, a, b));
        for_b = to_b ? cadre_op_sub(p, g, for_a) : none;
        break;
    case CADRE_MAP2_MIN:
        for_a = cadre_op_mul(p, g, cadre_op_gt(p, b, a));
        for_b = to_b ? cadre_op_sub(p, g, for_a) : none;
        break;
    case CADRE_MAP2_GT: /* comparisons have no gradient */
    case CADRE_MAP2_EQ:
        return;
    }
    if (to_a) {
        give_unbroadcast(walk, visit, 0, for_a);
    }
    if (to_b) {
        give_unbroadcast(walk, visit, 1, for_b);
    }
}

/* Gives the gradient to `yes` (input 1) where the condition holds, to `no` (input 2) elsewhere. */
void
cadre_gradient_where(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_program_t *p = walk->program;
    cadre_node_t condition = cadre_gradient_input(visit, 0);
    cadre_node_t zero = cadre_op_const_f32(p, 0);
    if (cadre_gradient_wanted(walk, visit, 1)) {
        give_unbroadcast(walk, visit, 1, cadre_op_where(p, condition, visit->gradient, zero));
    }
    if (cadre_gradient_wanted(walk, visit, 2)) {
        give_unbroadcast(walk, visit, 2, cadre_op_where(p, condition, zero, visit->gradient));
    }
}

/* Gives the gradient of a reduction: broadcast back over the reduced axes, for a mean divided by
 * their size, for a maximum only to the largest elements. */
void
cadre_gradient_reduce(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_program_t *p = walk->program;
    cadre_node_t x = cadre_gradient_input(visit, 0);
    cadre_extents_t shape = shape_of(walk, x);
    cadre_extents_t kept = shape; /* the reduced axes stay, with size 1 */
    for (int64_t i = visit->node.attributes[CADRE_REDUCE_BEGIN];
         i < visit->node.attributes[CADRE_REDUCE_END]; i++) {
        kept.extents[i] = cadre_extent_number(1);
    }
    int64_t function = visit->node.attributes[CADRE_FUNCTION];
    cadre_node_t g = visit->gradient;
    if (function == CADRE_REDUCE_MAX) { /* elements that are equally large share the gradient */
        cadre_node_t largest = cadre_program_emit_reshape(p, visit->value, &kept);
        cadre_node_t mask = cadre_op_eq(p, x, largest);
        cadre_node_t ties = cadre_program_emit_reduce(
            p, CADRE_REDUCE_SUM, mask, (int)visit->node.attributes[CADRE_REDUCE_BEGIN],
            (int)visit->node.attributes[CADRE_REDUCE_END]);
        cadre_node_t share = cadre_program_emit_reshape(p, cadre_op_div(p, g, ties), &kept);
        cadre_gradient_give(walk, visit, 0, cadre_op_mul(p, mask, share));
        return;
    }
    g = cadre_program_emit_reshape(p, g, &kept);
    cadre_gradient_give(walk, visit, 0,
                        cadre_program_emit_broadcast(p, g, &shape, function == CADRE_REDUCE_MEAN));
}

/* Gives the gradient of a broadcast: the sum over all copies of a value, or, where each copy was
 * divided by their number (share), the mean. */
void
cadre_gradient_broadcast(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_extents_t shape = shape_of(walk, cadre_gradient_input(visit, 0));
    bool share = visit->node.attributes[CADRE_BROADCAST_SHARE] != 0;
    cadre_gradient_give(
        walk, visit, 0,
        unbroadcast(walk, visit->gradient, &shape, share ? CADRE_REDUCE_MEAN : CADRE_REDUCE_SUM));
}

void
cadre_gradient_reshape(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_extents_t shape = shape_of(walk, cadre_gradient_input(visit, 0));
    cadre_gradient_give(walk, visit, 0,
                        cadre_program_emit_reshape(walk->program, visit->gradient, &shape));
}

/* Gives the gradient of a transpose: the gradient transposed by the inverse order. */
void
cadre_gradient_transpose(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    int inverse[CADRE_PROGRAM_RANK_MAX] = {0};
    for (int i = 0; i < visit->node.shape.rank; i++) {
        inverse[visit->node.attributes[i]] = i;
    }
    cadre_gradient_give(walk, visit, 0,
                        cadre_op_transpose(walk->program, visit->gradient, inverse));
}

/* Gives each input of a concat its part of the gradient, cut out by a slice. */
void
cadre_gradient_concat(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    int axis = (int)visit->node.attributes[CADRE_AXIS];
    int64_t begin = 0;
    for (int i = 0; i < visit->node.input_count; i++) {
        int64_t length = shape_of(walk, cadre_gradient_input(visit, i)).extents[axis].factor;
        if (cadre_gradient_wanted(walk, visit, i)) {
            cadre_gradient_give(
                walk, visit, i,
                cadre_op_slice(walk->program, visit->gradient, axis, begin, length));
        }
        begin += length;
    }
}

/* Gives the gradient of a slice: padded with zeros where the input was cut off. */
void
cadre_gradient_slice(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    int axis = (int)visit->node.attributes[CADRE_AXIS];
    int64_t size = shape_of(walk, cadre_gradient_input(visit, 0)).extents[axis].factor;
    int64_t begin = visit->node.attributes[CADRE_SLICE_BEGIN];
    int64_t length = visit->node.attributes[CADRE_SLICE_LENGTH];
    cadre_gradient_give(
        walk, visit, 0,
        cadre_op_pad(walk->program, visit->gradient, axis, begin, size - begin - length));
}

/* Gives the gradient of a pad: cut to the part that is the input. */
void
cadre_gradient_pad(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    int axis = (int)visit->node.attributes[CADRE_AXIS];
    int64_t length = shape_of(walk, cadre_gradient_input(visit, 0)).extents[axis].factor;
    cadre_gradient_give(walk, visit, 0,
                        cadre_op_slice(walk->program, visit->gradient, axis,
                                       visit->node.attributes[CADRE_PAD_BEFORE], length));
}

/* Gives dL/dx of softmax or log softmax, with g = dL/dy, sums being over the row. softmax: y (g -
 * sum(g y)); log softmax: g - exp(y) sum(g). */
void
cadre_gradient_softmax(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_program_t *p = walk->program;
    cadre_node_t y = visit->value;
    cadre_node_t g = visit->gradient;
    cadre_extents_t rows = visit->node.shape;
    rows.extents[rows.rank - 1] = cadre_extent_number(1);
    bool logarithm = visit->node.attributes[CADRE_SOFTMAX_LOG] != 0;
    cadre_node_t sum = cadre_op_sum(p, logarithm ? g : cadre_op_mul(p, g, y), -1);
    sum = cadre_program_emit_reshape(p, sum, &rows);
    if (logarithm) {
        cadre_gradient_give(walk, visit, 0,
                            cadre_op_sub(p, g, cadre_op_mul(p, cadre_op_exp(p, y), sum)));
    } else {
        cadre_gradient_give(walk, visit, 0, cadre_op_mul(p, y, cadre_op_sub(p, g, sum)));
    }
}

/* Gives the gradient of the logits of xent by the op xent_grad; labels have none. */
void
cadre_gradient_xent(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_program_node_t node = {
        .op = CADRE_OP_XENT_GRAD,
        .input_count = 3,
        .inputs = {visit->node.inputs[0], visit->node.inputs[1], visit->gradient.id - 1}};
    cadre_gradient_give(walk, visit, 0, cadre_program_emit(walk->program, &node));
}

/* Gives the gradient of rownorm's input by the op rownorm_grad, with the same eps. */
void
cadre_gradient_rownorm(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_gradient_give(walk, visit, 0,
                        cadre_program_emit2(walk->program, CADRE_OP_ROWNORM_GRAD,
                                            visit->node.attributes[CADRE_ROWNORM_EPS],
                                            visit->gradient, cadre_gradient_input(visit, 0)));
}

/* Gives the input's gradient by the op `adjoint`: im2col and col2im are each the adjoint of the
 * other. */
static void
give_image(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit, cadre_op_t adjoint)
{
    cadre_program_node_t node = {
        .op = adjoint, .input_count = 1, .inputs = {visit->gradient.id - 1}};
    memcpy(node.attributes, visit->node.attributes, sizeof(node.attributes));
    /* Used by col2im, which carries a shape; im2col's is inferred. */
    node.shape = shape_of(walk, cadre_gradient_input(visit, 0));
    cadre_gradient_give(walk, visit, 0, cadre_program_emit(walk->program, &node));
}

void
cadre_gradient_im2col(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    give_image(walk, visit, CADRE_OP_COL2IM);
}

void
cadre_gradient_col2im(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    give_image(walk, visit, CADRE_OP_IM2COL);
}

/* Hands the gradient of a cast between f32 and bf16 on: gradients of bf16 nodes are f32 too. */
void
cadre_gradient_cast(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_gradient_give(walk, visit, 0, visit->gradient);
}

/* Calls the rule of the node's op, from a table made of the list of ops. Ops without a rule (NONE,
 * LAST) have no entry there. */
void
cadre_gradient_visit(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    typedef void rule_t(cadre_gradient_walk_t * walk, const cadre_gradient_visit_t *visit);
    static rule_t *const rules[] = {
#define NONE(NAME, word)
#define LAST(NAME, word)
#define RULE(NAME, word) [CADRE_OP_##NAME] = cadre_gradient_##word,
#define ROW(NAME, number, word, inputs_min, inputs_max, attributes, shape, walk, indexes,          \
            derivative, ...)                                                                       \
    derivative(NAME, word)
        CADRE_OP_LIST(ROW)
#undef NONE
#undef LAST
#undef RULE
#undef ROW
    };
    if (visit->node.op < CADRE_COUNT_OF(rules) && rules[visit->node.op]) {
        rules[visit->node.op](walk, visit);
    }
}

static bool
is_of_integers(const cadre_program_node_t *node)
{
    return node->dtype == CADRE_I32 || node->dtype == CADRE_I64;
}

/* Returns whether a gradient flows from the node to its input `index`: the op and its function have
 * a derivative for it (op.h), and neither node is of integers. */
bool
cadre_gradient_flows(const cadre_program_t *program, const cadre_program_node_t *node, int index)
{
    const cadre_op_info_t *info = cadre_op_info((uint64_t)node->op);
    const cadre_program_node_t *input = cadre_program_node(program, node->inputs[index]);
    return (info->gradient_inputs & CADRE_OP_INPUT(index)) != 0 &&
           cadre_op_derivative(node->op, node->attributes[CADRE_FUNCTION]) !=
               CADRE_DERIVATIVE_NONE &&
           !is_of_integers(node) && !is_of_integers(input);
}
