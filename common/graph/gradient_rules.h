/*
 * gradient_rules - the derivative of each operation, as nodes that are added to the program.
 *
 * For this folder only. Mistakes stick to the program.
 */
#ifndef CADRE_COMMON_GRAPH_GRADIENT_RULES_H
#define CADRE_COMMON_GRAPH_GRADIENT_RULES_H

#include "common/graph/gradient_visit.h"

/* Adds to the adjoints of the visited node's inputs, by the rule of its op; inputs that do not
 * depend on a node whose gradient is asked for may be left out. */
void cadre_gradient_visit(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit);

/* Declares cadre_gradient_matmul and so on, a function for each op that has a rule. */
#define NONE(word)
#define LAST(word)
#define RULE(word)                                                                                 \
    void cadre_gradient_##word(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit);
#define ROW(NAME, number, word, inputs_min, inputs_max, attributes, shape, walk, indexes,          \
            derivative, ...)                                                                       \
    derivative(word)
CADRE_OP_LIST(ROW)
#undef NONE
#undef LAST
#undef RULE
#undef ROW

/* Returns whether a gradient would flow from the node to its input `index`; none flows to or from
 * integers. Through f64 one would, but programs have none there (gradient.c). */
bool cadre_gradient_flows(const cadre_program_t *program, const cadre_program_node_t *node,
                          int index);

#endif
