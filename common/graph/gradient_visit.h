/*
 * gradient_visit - one step of the walk from the loss back to the leaves, and what all rules use.
 *
 * Plain data for one walk, see gradient.c; for this folder only.
 */
#ifndef CADRE_COMMON_GRAPH_GRADIENT_VISIT_H
#define CADRE_COMMON_GRAPH_GRADIENT_VISIT_H

#include "common/graph/program.h"

typedef struct {
    cadre_program_t *program;
    cadre_node_t *adjoints; /* per node: the gradient of the loss with respect to it, so far */
    bool *depends;          /* per node: whether it depends on a node whose gradient is asked for */
} cadre_gradient_walk_t;

/* The node that is differentiated: a copy, because the program's list of nodes may move in memory
 * while nodes are added. */
typedef struct {
    cadre_program_node_t node;
    cadre_node_t value;    /* the node itself */
    cadre_node_t gradient; /* of the loss with respect to it, complete; never the empty node */
} cadre_gradient_visit_t;

cadre_node_t cadre_gradient_input(const cadre_gradient_visit_t *visit, int index);

/* Returns whether the input depends on a node whose gradient is asked for. */
bool cadre_gradient_wanted(const cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit,
                           int index);

/* Adds `gradient` to what the adjoint of input `index` is so far. Ignores the empty node, which
 * every call returns after a mistake in the program. */
void cadre_gradient_give(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit,
                         int index, cadre_node_t gradient);

#endif
