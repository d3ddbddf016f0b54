/*
 * gradient_sparse - the rules of take, scatter, bag and bag_grad.
 *
 * Each of these ops is linear in its table (or values) and in its weights, and bag, bag_grad of the
 * table and bag_grad of the weights are one another's adjoints. So the derivatives of these ops are
 * ops of the same kinds, and gradients of gradients exist too.
 */
#include "common/graph/gradient_rules.h"
#include "common/graph/program_data.h"

/* Returns a bag_grad of `gradient` over the bags of the visited node (its inputs 1 and 2). `like`
 * is the node, a table or weights, whose gradient it is and whose shape it has; `last` the fourth
 * input (empty: none). */
static cadre_node_t
bag_grad(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit, cadre_node_t gradient,
         cadre_node_t last, cadre_node_t like)
{
    /* Weights have one axis, a table has two. */
    bool of_weights = cadre_program_at(walk->program, like)->shape.rank == 1;
    cadre_program_node_t node = {.op = CADRE_OP_BAG_GRAD,
                                 .input_count = last.id ? 4 : 3,
                                 .inputs = {gradient.id - 1, visit->node.inputs[1],
                                            visit->node.inputs[2], last.id ? last.id - 1 : 0},
                                 .attributes = {visit->node.attributes[CADRE_BAG_MODE], of_weights},
                                 .shape = cadre_program_at(walk->program, like)->shape};
    return cadre_program_emit(walk->program, &node);
}

/* Returns a bag of `table`, with `weights` (empty: none), over the bags of the visited node. */
static cadre_node_t
bag(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit, cadre_node_t table,
    cadre_node_t weights)
{
    cadre_program_node_t node = {.op = CADRE_OP_BAG,
                                 .input_count = weights.id ? 4 : 3,
                                 .inputs = {table.id - 1, visit->node.inputs[1],
                                            visit->node.inputs[2], weights.id ? weights.id - 1 : 0},
                                 .attributes = {visit->node.attributes[CADRE_BAG_MODE]}};
    return cadre_program_emit(walk->program, &node);
}

/* Gives input 0 its gradient by the op `adjoint`: take and scatter are each the adjoint of the
 * other. */
static void
give_rows(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit, cadre_op_t adjoint)
{
    cadre_program_node_t node = {
        .op = adjoint,
        .input_count = 2,
        .inputs = {visit->gradient.id - 1, visit->node.inputs[1]},
        /* Used by scatter, which carries a shape; take's is inferred. */
        .shape = cadre_program_at(walk->program, cadre_gradient_input(visit, 0))->shape};
    cadre_gradient_give(walk, visit, 0, cadre_program_emit(walk->program, &node));
}

void
cadre_gradient_take(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    give_rows(walk, visit, CADRE_OP_SCATTER);
}

void
cadre_gradient_scatter(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    give_rows(walk, visit, CADRE_OP_TAKE);
}

/* Gives the gradients of a bag's table and weights: each is a bag_grad, whose fourth input is the
 * other of the two. */
void
cadre_gradient_bag(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    cadre_node_t table = cadre_gradient_input(visit, 0);
    cadre_node_t weights = {0};
    if (visit->node.input_count == 4) {
        weights = cadre_gradient_input(visit, 3);
    }
    if (cadre_gradient_wanted(walk, visit, 0)) {
        cadre_gradient_give(walk, visit, 0, bag_grad(walk, visit, visit->gradient, weights, table));
    }
    if (weights.id && cadre_gradient_wanted(walk, visit, 3)) {
        cadre_gradient_give(walk, visit, 3, bag_grad(walk, visit, visit->gradient, table, weights));
    }
}

/* Gives the gradients of a bag_grad's inputs; h is the gradient of its result. If that result is
 * the gradient of a table, h has the table's shape, and the gradient of input 0 is the bag of h. If
 * it is the gradient of weights, h has their shape, and the gradient of input 0 is the bag weighted
 * by h. The gradient of the fourth input is a bag_grad again. */
void
cadre_gradient_bag_grad(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit)
{
    bool of_weights = visit->node.attributes[CADRE_BAG_GRAD_OF_WEIGHTS] != 0;
    cadre_node_t h = visit->gradient;
    cadre_node_t g = cadre_gradient_input(visit, 0);
    cadre_node_t last = {0};
    if (visit->node.input_count == 4) {
        last = cadre_gradient_input(visit, 3);
    }
    if (cadre_gradient_wanted(walk, visit, 0)) {
        cadre_gradient_give(walk, visit, 0,
                            of_weights ? bag(walk, visit, last, h) : bag(walk, visit, h, last));
    }
    if (last.id && cadre_gradient_wanted(walk, visit, 3)) {
        cadre_gradient_give(walk, visit, 3, bag_grad(walk, visit, g, h, last));
    }
}
