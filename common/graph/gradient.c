/*
 * gradient - reverse-mode differentiation, source to source: the gradient of a node is more nodes.
 *
 * The nodes are walked from the loss to the front. adjoints[i] is the gradient of the loss with
 * respect to node i, complete when the walk arrives there, because every user of i comes later in
 * the list. Only nodes through which the loss depends on a wanted one are visited (`depends`).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/assert.h"
#include "common/graph/program_data.h"
#include "common/memory.h"

static const cadre_node_t none = {0};

typedef struct {
    cadre_program_t *program;
    cadre_node_t *adjoints;
    bool *depends;
} walk_t;

/* The node that is differentiated, copied because the list may move while nodes are added. */
typedef struct {
    cadre_program_node_t node;
    cadre_node_t value;    /* the node itself */
    cadre_node_t gradient; /* of the loss with respect to it */
} visit_t;

static cadre_node_t
input_of(const visit_t *visit, int index)
{
    return (cadre_node_t){.id = visit->node.inputs[index] + 1};
}

static bool
wanted(const walk_t *walk, const visit_t *visit, int index)
{
    return walk->depends[visit->node.inputs[index]];
}

static cadre_extents_t
shape_of(const walk_t *walk, cadre_node_t node)
{
    return node.id > 0 ? cadre_program_at(walk->program, node)->shape : (cadre_extents_t){0};
}

/* Adds `gradient` to what has arrived for the input; a mistake in between made it empty. */
static void
give(walk_t *walk, const visit_t *visit, int index, cadre_node_t gradient)
{
    cadre_node_t *adjoint = &walk->adjoints[visit->node.inputs[index]];
    if (gradient.id == 0) {
        return;
    }
    *adjoint = adjoint->id == 0 ? gradient : cadre_add(walk->program, *adjoint, gradient);
}

/* Reduces `x` over the axes along which `shape` was broadcast, so that it has that shape again. */
static cadre_node_t
unbroadcast(walk_t *walk, cadre_node_t x, const cadre_extents_t *shape, cadre_reduce_t function)
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

static void
give_unbroadcast(walk_t *walk, const visit_t *visit, int index, cadre_node_t gradient)
{
    cadre_extents_t shape = shape_of(walk, input_of(visit, index));
    if (gradient.id != 0) {
        give(walk, visit, index, unbroadcast(walk, gradient, &shape, CADRE_REDUCE_SUM));
    }
}

/* C = op(A) op(B), where op transposes if its flag is set. */
static void
visit_matmul(walk_t *walk, const visit_t *visit)
{
    cadre_node_t a = input_of(visit, 0);
    cadre_node_t b = input_of(visit, 1);
    cadre_node_t g = visit->gradient;
    int flip_a = (int)visit->node.attributes[CADRE_MATMUL_TRANSPOSE_LEFT];
    int flip_b = (int)visit->node.attributes[CADRE_MATMUL_TRANSPOSE_RIGHT];
    if (wanted(walk, visit, 0)) {
        give(walk, visit, 0,
             flip_a ? cadre_matmul_transposed(walk->program, b, flip_b, g, 1)
                    : cadre_matmul_transposed(walk->program, g, 0, b, !flip_b));
    }
    if (wanted(walk, visit, 1)) {
        give(walk, visit, 1,
             flip_b ? cadre_matmul_transposed(walk->program, g, 1, a, flip_a)
                    : cadre_matmul_transposed(walk->program, a, !flip_a, g, 0));
    }
}

/* The derivative of a map1 function times g. Where it can be had from the result y it is, because
 * then x need not be kept. */
static cadre_node_t
map1_gradient(cadre_program_t *p, const visit_t *visit)
{
    cadre_node_t x = input_of(visit, 0);
    cadre_node_t y = visit->value;
    cadre_node_t g = visit->gradient;
    switch ((cadre_map1_t)visit->node.attributes[CADRE_FUNCTION]) {
    case CADRE_MAP1_NEG:
        return cadre_neg(p, g);
    case CADRE_MAP1_EXP:
        return cadre_mul(p, g, y);
    case CADRE_MAP1_LOG:
        return cadre_div(p, g, x);
    case CADRE_MAP1_SQRT:
        return cadre_div(p, cadre_mul(p, g, cadre_const_f32(p, 0.5F)), y);
    case CADRE_MAP1_RSQRT:
        return cadre_mul(p, cadre_mul(p, g, cadre_const_f32(p, -0.5F)),
                         cadre_mul(p, y, cadre_square(p, y)));
    case CADRE_MAP1_RECIP:
        return cadre_neg(p, cadre_mul(p, g, cadre_square(p, y)));
    case CADRE_MAP1_SQUARE:
        return cadre_mul(p, g, cadre_mul(p, x, cadre_const_f32(p, 2)));
    case CADRE_MAP1_ABS:
        return cadre_mul(p, g, cadre_sign(p, x));
    case CADRE_MAP1_RELU:
        return cadre_mul(p, g, cadre_step(p, y));
    case CADRE_MAP1_SIGMOID:
        return cadre_mul(p, g, cadre_mul(p, y, cadre_sub(p, cadre_const_f32(p, 1), y)));
    case CADRE_MAP1_TANH:
        return cadre_mul(p, g, cadre_sub(p, cadre_const_f32(p, 1), cadre_square(p, y)));
    case CADRE_MAP1_GELU:
        return cadre_mul(p, g, cadre_dgelu(p, x));
    case CADRE_MAP1_SOFTPLUS:
        return cadre_mul(p, g, cadre_sigmoid(p, x));
    case CADRE_MAP1_SIGN: /* these three have no path: see differentiable() */
    case CADRE_MAP1_STEP:
    case CADRE_MAP1_DGELU:
        break;
    }
    return none;
}

static void
visit_map2(walk_t *walk, const visit_t *visit)
{
    cadre_program_t *p = walk->program;
    cadre_node_t a = input_of(visit, 0);
    cadre_node_t b = input_of(visit, 1);
    cadre_node_t g = visit->gradient;
    bool to_a = wanted(walk, visit, 0);
    bool to_b = wanted(walk, visit, 1);
    cadre_node_t for_a = g;
    cadre_node_t for_b = g;
    switch ((cadre_map2_t)visit->node.attributes[CADRE_FUNCTION]) {
    case CADRE_MAP2_ADD:
        break;
    case CADRE_MAP2_SUB:
        for_b = to_b ? cadre_neg(p, g) : none;
        break;
    case CADRE_MAP2_MUL:
        for_a = to_a ? cadre_mul(p, g, b) : none;
        for_b = to_b ? cadre_mul(p, g, a) : none;
        break;
    case CADRE_MAP2_DIV:
        for_a = cadre_div(p, g, b);
        for_b = to_b ? cadre_neg(p, cadre_mul(p, for_a, visit->value)) : none;
        break;
    case CADRE_MAP2_MAX: /* of equals, the right one gets it all */
        for_a = cadre_mul(p, g, cadre_gt(p, a, b));
        for_b = to_b ? cadre_sub(p, g, for_a) : none;
        break;
    case CADRE_MAP2_MIN:
        for_a = cadre_mul(p, g, cadre_gt(p, b, a));
        for_b = to_b ? cadre_sub(p, g, for_a) : none;
        break;
    case CADRE_MAP2_GT:
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

static void
visit_where(walk_t *walk, const visit_t *visit)
{
    cadre_program_t *p = walk->program;
    cadre_node_t condition = input_of(visit, 0);
    cadre_node_t zero = cadre_const_f32(p, 0);
    if (wanted(walk, visit, 1)) {
        give_unbroadcast(walk, visit, 1, cadre_where(p, condition, visit->gradient, zero));
    }
    if (wanted(walk, visit, 2)) {
        give_unbroadcast(walk, visit, 2, cadre_where(p, condition, zero, visit->gradient));
    }
}

static void
visit_reduce(walk_t *walk, const visit_t *visit)
{
    cadre_program_t *p = walk->program;
    cadre_node_t x = input_of(visit, 0);
    cadre_extents_t shape = shape_of(walk, x);
    cadre_extents_t kept = shape; /* the reduced axes stay, with size 1 */
    for (int64_t i = visit->node.attributes[CADRE_REDUCE_BEGIN];
         i < visit->node.attributes[CADRE_REDUCE_END]; i++) {
        kept.extents[i] = cadre_extent_number(1);
    }
    int64_t function = visit->node.attributes[CADRE_FUNCTION];
    cadre_node_t g = visit->gradient;
    if (function == CADRE_REDUCE_MAX) { /* equals share it */
        cadre_node_t largest = cadre_program_emit_reshape(p, visit->value, &kept);
        cadre_node_t mask = cadre_eq(p, x, largest);
        cadre_node_t ties = cadre_program_emit_reduce(
            p, CADRE_REDUCE_SUM, mask, (int)visit->node.attributes[CADRE_REDUCE_BEGIN],
            (int)visit->node.attributes[CADRE_REDUCE_END]);
        cadre_node_t share = cadre_program_emit_reshape(p, cadre_div(p, g, ties), &kept);
        give(walk, visit, 0, cadre_mul(p, mask, share));
        return;
    }
    g = cadre_program_emit_reshape(p, g, &kept);
    give(walk, visit, 0, cadre_program_emit_broadcast(p, g, &shape, function == CADRE_REDUCE_MEAN));
}

static void
visit_broadcast(walk_t *walk, const visit_t *visit)
{
    cadre_extents_t shape = shape_of(walk, input_of(visit, 0));
    bool share = visit->node.attributes[CADRE_BROADCAST_SHARE] != 0;
    give(walk, visit, 0,
         unbroadcast(walk, visit->gradient, &shape, share ? CADRE_REDUCE_MEAN : CADRE_REDUCE_SUM));
}

static void
visit_transpose(walk_t *walk, const visit_t *visit)
{
    int inverse[CADRE_PROGRAM_RANK_MAX] = {0};
    for (int i = 0; i < visit->node.shape.rank; i++) {
        inverse[visit->node.attributes[i]] = i;
    }
    give(walk, visit, 0, cadre_transpose(walk->program, visit->gradient, inverse));
}

static void
visit_concat(walk_t *walk, const visit_t *visit)
{
    int axis = (int)visit->node.attributes[CADRE_AXIS];
    int64_t begin = 0;
    for (int i = 0; i < visit->node.input_count; i++) {
        int64_t length = shape_of(walk, input_of(visit, i)).extents[axis].factor;
        if (wanted(walk, visit, i)) {
            give(walk, visit, i, cadre_slice(walk->program, visit->gradient, axis, begin, length));
        }
        begin += length;
    }
}

static void
visit_slice(walk_t *walk, const visit_t *visit)
{
    int axis = (int)visit->node.attributes[CADRE_AXIS];
    int64_t size = shape_of(walk, input_of(visit, 0)).extents[axis].factor;
    int64_t begin = visit->node.attributes[CADRE_SLICE_BEGIN];
    int64_t length = visit->node.attributes[CADRE_SLICE_LENGTH];
    give(walk, visit, 0,
         cadre_pad(walk->program, visit->gradient, axis, begin, size - begin - length));
}

static void
visit_pad(walk_t *walk, const visit_t *visit)
{
    int axis = (int)visit->node.attributes[CADRE_AXIS];
    int64_t length = shape_of(walk, input_of(visit, 0)).extents[axis].factor;
    give(walk, visit, 0,
         cadre_slice(walk->program, visit->gradient, axis, visit->node.attributes[CADRE_PAD_BEFORE],
                     length));
}

/* softmax: y (g - sum(g y)); log softmax: g - exp(y) sum(g); sums over the row. */
static void
visit_softmax(walk_t *walk, const visit_t *visit)
{
    cadre_program_t *p = walk->program;
    cadre_node_t y = visit->value;
    cadre_node_t g = visit->gradient;
    cadre_extents_t rows = visit->node.shape;
    rows.extents[rows.rank - 1] = cadre_extent_number(1);
    bool logarithm = visit->node.attributes[CADRE_SOFTMAX_LOG] != 0;
    cadre_node_t sum = cadre_sum(p, logarithm ? g : cadre_mul(p, g, y), -1);
    sum = cadre_program_emit_reshape(p, sum, &rows);
    if (logarithm) {
        give(walk, visit, 0, cadre_sub(p, g, cadre_mul(p, cadre_exp(p, y), sum)));
    } else {
        give(walk, visit, 0, cadre_mul(p, y, cadre_sub(p, g, sum)));
    }
}

static void
visit_xent(walk_t *walk, const visit_t *visit)
{
    if (visit->gradient.id == 0) {
        return;
    }
    cadre_program_node_t node = {
        .op = CADRE_OP_XENT_GRAD,
        .input_count = 3,
        .inputs = {visit->node.inputs[0], visit->node.inputs[1], visit->gradient.id - 1}};
    give(walk, visit, 0, cadre_program_emit(walk->program, &node));
}

static void
visit_node(walk_t *walk, const visit_t *visit)
{
    cadre_extents_t shape = {0};
    switch (visit->node.op) {
    case CADRE_OP_MATMUL:
        visit_matmul(walk, visit);
        return;
    case CADRE_OP_MAP1:
        give(walk, visit, 0, map1_gradient(walk->program, visit));
        return;
    case CADRE_OP_MAP2:
        visit_map2(walk, visit);
        return;
    case CADRE_OP_WHERE:
        visit_where(walk, visit);
        return;
    case CADRE_OP_REDUCE:
        visit_reduce(walk, visit);
        return;
    case CADRE_OP_BROADCAST:
        visit_broadcast(walk, visit);
        return;
    case CADRE_OP_RESHAPE:
        shape = shape_of(walk, input_of(visit, 0));
        give(walk, visit, 0, cadre_program_emit_reshape(walk->program, visit->gradient, &shape));
        return;
    case CADRE_OP_TRANSPOSE:
        visit_transpose(walk, visit);
        return;
    case CADRE_OP_CONCAT:
        visit_concat(walk, visit);
        return;
    case CADRE_OP_SLICE:
        visit_slice(walk, visit);
        return;
    case CADRE_OP_PAD:
        visit_pad(walk, visit);
        return;
    case CADRE_OP_SOFTMAX:
        visit_softmax(walk, visit);
        return;
    case CADRE_OP_XENT:
        visit_xent(walk, visit);
        return;
    case CADRE_OP_CAST: /* f32 to f32: see differentiable() */
        give(walk, visit, 0, visit->gradient);
        return;
    case CADRE_OP_ARG:
    case CADRE_OP_VAR:
    case CADRE_OP_CONST:
    case CADRE_OP_XENT_GRAD:
    case CADRE_OP_RAND:
    case CADRE_OP_DETACH:
        return;
    }
}

/* Whether a gradient flows from the node to its input `index`. */
static bool
differentiable(const cadre_program_t *program, const cadre_program_node_t *node, int index)
{
    int64_t function = node->attributes[CADRE_FUNCTION];
    switch (node->op) {
    case CADRE_OP_MAP1:
        return function != CADRE_MAP1_SIGN && function != CADRE_MAP1_STEP;
    case CADRE_OP_MAP2:
        return function != CADRE_MAP2_GT && function != CADRE_MAP2_EQ;
    case CADRE_OP_WHERE:
        return index > 0;
    case CADRE_OP_REDUCE:
        return function != CADRE_REDUCE_ARGMAX;
    case CADRE_OP_XENT:
        return index == 0;
    case CADRE_OP_CAST:
        return node->dtype == CADRE_F32 &&
               cadre_program_node(program, node->inputs[0])->dtype == CADRE_F32;
    case CADRE_OP_DETACH:
        return false;
    case CADRE_OP_XENT_GRAD:
        return index != 1;
    case CADRE_OP_ARG:
    case CADRE_OP_VAR:
    case CADRE_OP_CONST:
    case CADRE_OP_RAND:
    case CADRE_OP_MATMUL:
    case CADRE_OP_BROADCAST:
    case CADRE_OP_RESHAPE:
    case CADRE_OP_TRANSPOSE:
    case CADRE_OP_CONCAT:
    case CADRE_OP_SLICE:
    case CADRE_OP_PAD:
    case CADRE_OP_SOFTMAX:
        return true;
    }
    return false;
}

/* Ops that stand for a first derivative have none of their own here. */
static bool
is_derivative(const cadre_program_node_t *node)
{
    return node->op == CADRE_OP_XENT_GRAD ||
           (node->op == CADRE_OP_MAP1 && node->attributes[CADRE_FUNCTION] == CADRE_MAP1_DGELU);
}

/* Marks what depends on the nodes already marked, up to `last`. */
static void
spread(const cadre_program_t *program, bool *depends, int32_t last)
{
    for (int32_t i = 0; i <= last; i++) {
        const cadre_program_node_t *node = cadre_program_node(program, i);
        for (int k = 0; k < node->input_count && !depends[i]; k++) {
            depends[i] = depends[node->inputs[k]] && differentiable(program, node, k);
        }
    }
}

/* Marks what `from` depends on: the other direction. */
static void
reach(const cadre_program_t *program, bool *reached, int32_t from)
{
    reached[from] = true;
    for (int32_t i = from; i >= 0; i--) {
        const cadre_program_node_t *node = cadre_program_node(program, i);
        for (int k = 0; k < node->input_count && reached[i]; k++) {
            if (differentiable(program, node, k)) {
                reached[node->inputs[k]] = true;
            }
        }
    }
}

static void
walk_back(walk_t *walk, cadre_node_t loss)
{
    walk->adjoints[loss.id - 1] = cadre_const_f32(walk->program, 1);
    for (int32_t i = loss.id - 1; i >= 0; i--) {
        if (!walk->depends[i] || walk->adjoints[i].id == 0) {
            continue;
        }
        visit_t visit = {.node = *cadre_program_node(walk->program, i),
                         .value = {.id = i + 1},
                         .gradient = walk->adjoints[i]};
        if (is_derivative(&visit.node)) {
            cadre_program_mistake(
                walk->program,
                cadre_fail(CADRE_EINVALID, "gradient: %s has no second derivative",
                           cadre_op_text(visit.node.op, visit.node.attributes[CADRE_FUNCTION])));
            return;
        }
        visit_node(walk, &visit);
    }
}

static bool
check_loss(cadre_program_t *self, cadre_node_t loss)
{
    if (!cadre_program_has(self, loss, "gradient")) {
        return false;
    }
    const cadre_program_node_t *node = cadre_program_at(self, loss);
    if (node->shape.rank != 0 || node->dtype != CADRE_F32) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self, cadre_fail(CADRE_ESHAPE, "gradient: the loss must be one f32 number, not %s %s",
                             cadre_dtype_text(node->dtype),
                             cadre_extents_text(&node->shape, cadre_program_symbols(self), text)));
        return false;
    }
    return true;
}

/* What to call a node in a message. */
static const char *
node_name(const cadre_program_t *self, cadre_node_t node)
{
    const cadre_program_node_t *at = cadre_program_at(self, node);
    int index = (int)at->attributes[CADRE_LEAF_INDEX];
    return at->op == CADRE_OP_VAR   ? cadre_program_variable(self, index)->name
           : at->op == CADRE_OP_ARG ? cadre_program_argument(self, index)->name
                                    : cadre_op_text(at->op, at->attributes[CADRE_FUNCTION]);
}

void
cadre_gradient(cadre_program_t *self, cadre_node_t loss, const cadre_node_t *nodes, int count,
               cadre_node_t *gradients)
{
    for (int i = 0; i < count; i++) {
        gradients[i] = none;
    }
    bool usable = check_loss(self, loss);
    for (int i = 0; i < count && usable; i++) {
        usable = cadre_program_has(self, nodes[i], "gradient");
    }
    if (!usable) {
        return;
    }
    size_t node_count = (size_t)cadre_program_node_count(self);
    cadre_auto(cadre_free) cadre_node_t *adjoints = cadre_calloc(node_count, sizeof(*adjoints));
    cadre_auto(cadre_free) bool *depends = cadre_calloc(node_count, sizeof(*depends));
    for (int i = 0; i < count; i++) {
        depends[nodes[i].id - 1] = true;
    }
    spread(self, depends, loss.id - 1);
    walk_t walk = {.program = self, .adjoints = adjoints, .depends = depends};
    walk_back(&walk, loss);
    for (int i = 0; i < count && self->status == 0; i++) {
        gradients[i] = adjoints[nodes[i].id - 1];
        if (gradients[i].id == 0) {
            cadre_program_mistake(self, cadre_fail(CADRE_EINVALID,
                                                   "gradient: the loss does not depend on %s",
                                                   node_name(self, nodes[i])));
        }
    }
}

void
cadre_minimize(cadre_program_t *self, cadre_node_t loss)
{
    if (!check_loss(self, loss)) {
        return;
    }
    size_t variable_count = (size_t)cadre_program_variable_count(self);
    cadre_auto(cadre_free) cadre_node_t *found = cadre_calloc(variable_count, sizeof(*found));
    cadre_auto(cadre_free) cadre_node_t *gradients = cadre_calloc(variable_count, sizeof(*found));
    cadre_auto(cadre_free) bool *reached =
        cadre_calloc((size_t)cadre_program_node_count(self), sizeof(*reached));
    reach(self, reached, loss.id - 1);
    int count = 0;
    for (int i = 0; i < (int)variable_count; i++) {
        int32_t node = cadre_program_variable(self, i)->node;
        if (reached[node]) {
            found[count++].id = node + 1;
        }
    }
    if (count == 0) {
        cadre_program_mistake(
            self, cadre_fail(CADRE_EINVALID, "minimize: the loss depends on no variable"));
        return;
    }
    cadre_gradient(self, loss, found, count, gradients);
    for (int i = 0; i < count && self->status == 0; i++) {
        cadre_push(self, found[i], gradients[i]);
    }
}
