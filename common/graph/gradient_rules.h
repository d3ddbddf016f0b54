/*
 * gradient_rules - the derivative of each operation, as nodes that are added to the program.
 *
 * For this folder only. Mistakes stick to the program.
 */
#ifndef CADRE_COMMON_GRAPH_GRADIENT_RULES_H
#define CADRE_COMMON_GRAPH_GRADIENT_RULES_H

#include "common/graph/gradient_visit.h"

/* Adds to the adjoints of the node's inputs, as far as these depend on what is asked for. */
void cadre_gradient_visit(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit);

/* TAKE, SCATTER, BAG and BAG_GRAD: gradient_sparse.c. */
void cadre_gradient_visit_sparse(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit);

/* ---- what flows ---- */

/* Whether a gradient flows from the node to its input `index`. */
bool cadre_gradient_flows(const cadre_program_t *program, const cadre_program_node_t *node,
                          int index);

/* True for ops that stand for a first derivative and have none of their own. */
bool cadre_gradient_is_derivative(const cadre_program_node_t *node);

#endif
