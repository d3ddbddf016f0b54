/*
 * gradient_sparse - the rules of take, scatter, bag and bag_grad.
 *
 * Each is linear in its table (or values) and in its weights, and bag, bag_grad of the table and
 * bag_grad of the weights are one another's adjoints. So these close under differentiation, and a
 * gradient of a gradient is there as well.
 */
#include "common/graph/gradient_rules.h"
#include "common/graph/program_data.h"

/* A bag_grad of `gradient` over the bags of the visited node; `last` is its fourth input, none for
 * the empty node, and `like` the node whose gradient it is. */
static cadre_node_t
bag_grad(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit, cadre_node_t gradient,
         cadre_node_t last, cadre_node_t like)
{
    bool of_weights = cadre_program_at(walk->program, like)->shape.rank == 1;
    cadre_program_node_t node = {.op = CADRE_OP_BAG_GRAD,
                                 .input_count = last.id ? 4 : 3,
                                 .inputs = {gradient.id - 1, visit->node.inputs[1],
                                            visit->node.inputs[2], last.id ? last.id - 1 : 0},
                                 .attributes = {visit->node.attributes[CADRE_BAG_MODE], of_weights},
                                 .shape = cadre_program_at(walk->program, like)->shape};
    return cadre_program_emit(walk->program, &node);
}

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

/* Gives the gradient by `adjoint`: take and scatter are each the adjoint of the other. */
static void
give_rows(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit, cadre_op_t adjoint)
{
    cadre_program_node_t node = {
        .op = adjoint,
        .input_count = 2,
        .inputs = {visit->gradient.id - 1, visit->node.inputs[1]},
        /* Inferred again for take. */
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

/* With h the gradient of the result: of the table's gradient, h is a table, and what arrives for
 * the bags' gradient is its bag; of the weights' gradient, h are weights. */
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
