/*
 * gradient_rules - the derivative of each operation, as nodes that are added to the program.
 *
 * Plain data for one walk, see gradient.c; for this folder only. Mistakes stick to the program.
 */
#ifndef CADRE_COMMON_GRAPH_GRADIENT_RULES_H
#define CADRE_COMMON_GRAPH_GRADIENT_RULES_H

#include "common/graph/program.h"

typedef struct {
    cadre_program_t *program;
    cadre_node_t *adjoints; /* per node: the gradient of the loss with respect to it, so far */
    bool *depends;          /* per node: whether it depends on a node that is asked for */
} cadre_gradient_walk_t;

/* The node that is differentiated, copied because the list may move while nodes are added. */
typedef struct {
    cadre_program_node_t node;
    cadre_node_t value;    /* the node itself */
    cadre_node_t gradient; /* of the loss with respect to it, complete */
} cadre_gradient_visit_t;

/* Adds to the adjoints of the node's inputs, as far as these depend on what is asked for. */
void cadre_gradient_visit(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit);

/* Whether a gradient flows from the node to its input `index`. */
bool cadre_gradient_flows(const cadre_program_t *program, const cadre_program_node_t *node,
                          int index);

/* True for ops that stand for a first derivative and have none of their own. */
bool cadre_gradient_is_derivative(const cadre_program_node_t *node);

#endif
