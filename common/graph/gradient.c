/*
 * gradient - reverse-mode differentiation, source to source: the gradient of a node is more nodes.
 *
 * The nodes are walked from the loss to the front. adjoints[i] is the gradient of the loss with
 * respect to node i, complete when the walk arrives there, because every user of i comes later in
 * the list. Only nodes through which the loss depends on a wanted one are visited (`depends`).
 *
 * All adjoints are f32, also those of bf16 nodes: the gradients of several uses of a node are
 * added, for which bf16 has no operation and too few bits. So the gradient of a cast between the
 * two dtypes is the gradient of its result, unchanged. f64 is for statistics: where a gradient
 * would have to go through a node of it, that is a mistake of the program, since to stop there
 * without a word would leave a part of the model untrained.
 */
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/graph/gradient_rules.h"
#include "common/graph/program_data.h"

static const cadre_node_t none = {0};

/* Marks in `depends` all nodes up to `last` that depend on a node which the caller has marked. Each
 * node comes after its inputs, so one pass is enough. */
static void
spread(const cadre_program_t *program, bool *depends, int32_t last)
{
    for (int32_t i = 0; i <= last; i++) {
        const cadre_program_node_t *node = cadre_program_node(program, i);
        for (int k = 0; k < node->input_count && !depends[i]; k++) {
            depends[i] = depends[node->inputs[k]] && cadre_gradient_flows(program, node, k);
        }
    }
}

/* Marks in `reached` all nodes that `from` depends on; its users come behind each node, so one pass
 * to the front is enough. */
static void
reach(const cadre_program_t *program, bool *reached, int32_t from)
{
    reached[from] = true;
    for (int32_t i = from; i >= 0; i--) {
        const cadre_program_node_t *node = cadre_program_node(program, i);
        for (int k = 0; k < node->input_count && reached[i]; k++) {
            if (cadre_gradient_flows(program, node, k)) {
                reached[node->inputs[k]] = true;
            }
        }
    }
}

/* Walks from the loss to the front: the rule of each node adds to the adjoints of its inputs. A
 * node without an adjoint by then does not change the loss. Node ids count from 1, indexes from 0.
 * */
static void
walk_back(cadre_gradient_walk_t *walk, cadre_node_t loss)
{
    walk->adjoints[loss.id - 1] = cadre_op_const_f32(walk->program, 1);
    for (int32_t i = loss.id - 1; i >= 0; i--) {
        if (!walk->depends[i] || walk->adjoints[i].id == 0) {
            continue;
        }
        cadre_gradient_visit_t visit = {.node = *cadre_program_node(walk->program, i),
                                        .value = {.id = i + 1},
                                        .gradient = walk->adjoints[i]};
        int64_t function = visit.node.attributes[CADRE_FUNCTION];
        if (visit.node.dtype == CADRE_F64) {
            cadre_program_mistake(
                walk->program,
                cadre_fail(CADRE_EDTYPE,
                           "gradient: none goes through %s of f64: detach it, or compute in f32",
                           cadre_op_text(visit.node.op, function)));
            return;
        }
        if (cadre_op_derivative(visit.node.op, function) == CADRE_DERIVATIVE_LAST) {
            cadre_program_mistake(
                walk->program, cadre_fail(CADRE_EINVALID, "gradient: %s has no second derivative",
                                          cadre_op_text(visit.node.op, function)));
            return;
        }
        cadre_gradient_visit(walk, &visit);
    }
}

/* Returns whether the loss is one f32 number of this program; else notes the mistake. */
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

/* Returns what to call a node in an error text: the name of a variable or argument, else its op. */
static const char *
node_name(const cadre_program_t *self, cadre_node_t node)
{
    const cadre_program_node_t *at = cadre_program_at(self, node);
    int index = (int)at->attributes[CADRE_LEAF_INDEX];
    if (at->op == CADRE_OP_VAR) {
        return cadre_program_variable(self, index)->name;
    }
    if (at->op == CADRE_OP_ARG) {
        return cadre_program_argument(self, index)->name;
    }

    return cadre_op_text(at->op, at->attributes[CADRE_FUNCTION]);
}

/* Returns whether the loss depends on a node at all, also where no gradient flows. */
static bool
is_read_by(const cadre_program_t *self, cadre_node_t loss, cadre_node_t node)
{
    cadre_auto(cadre_free) bool *reads = cadre_calloc((size_t)loss.id, sizeof(*reads));
    for (int32_t i = 0; i < loss.id; i++) {
        const cadre_program_node_t *at = cadre_program_node(self, i);
        reads[i] = i == node.id - 1;
        for (int k = 0; k < at->input_count && !reads[i]; k++) {
            reads[i] = reads[at->inputs[k]];
        }
    }
    return reads[loss.id - 1];
}

/* Adds nodes that compute the gradient of the loss with respect to each of `nodes`, and gives them
 * in `gradients`. Node ids count from 1, the indexes of `depends` and `adjoints` from 0. */
void
cadre_op_gradient(cadre_program_t *self, cadre_node_t loss, const cadre_node_t *nodes, int count,
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
    /* Adjoints are made only of what depends on one of `nodes`. */
    for (int i = 0; i < count; i++) {
        depends[nodes[i].id - 1] = true;
    }
    spread(self, depends, loss.id - 1);
    cadre_gradient_walk_t walk = {.program = self, .adjoints = adjoints, .depends = depends};
    walk_back(&walk, loss);
    for (int i = 0; i < count && self->status == 0; i++) {
        gradients[i] = adjoints[nodes[i].id - 1];
        if (gradients[i].id == 0) {
            const char *name = node_name(self, nodes[i]);
            int status =
                is_read_by(self, loss, nodes[i])
                    ? cadre_fail(CADRE_EINVALID,
                                 "gradient: the loss depends on %s only through what has none: "
                                 "integers, comparisons, detach and the like",
                                 name)
                    : cadre_fail(CADRE_EINVALID, "gradient: the loss does not depend on %s", name);
            cadre_program_mistake(self, status);
        }
    }
}

/* Adds the gradient of each variable on which the loss depends, and pushes it. */
void
cadre_op_minimize(cadre_program_t *self, cadre_node_t loss)
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
        if (reached[node] && cadre_program_node(self, node)->dtype == CADRE_F32) {
            found[count++].id = node + 1;
        }
    }
    if (count == 0) {
        cadre_program_mistake(
            self, cadre_fail(CADRE_EINVALID, "minimize: the loss depends on no variable"));
        return;
    }
    cadre_op_gradient(self, loss, found, count, gradients);
    for (int i = 0; i < count && self->status == 0; i++) {
        cadre_op_push(self, found[i], gradients[i]);
    }
}
