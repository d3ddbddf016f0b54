#include "common/graph/gradient_visit.h"

cadre_node_t
cadre_gradient_input(const cadre_gradient_visit_t *visit, int index)
{
    return (cadre_node_t){.id = visit->node.inputs[index] + 1};
}

bool
cadre_gradient_wanted(const cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit,
                      int index)
{
    return walk->depends[visit->node.inputs[index]];
}

/* Adds `gradient` to the adjoint of input `index`: the first one becomes it. The empty node, which
 * a mistake in the program leaves, is ignored. */
void
cadre_gradient_give(cadre_gradient_walk_t *walk, const cadre_gradient_visit_t *visit, int index,
                    cadre_node_t gradient)
{
    cadre_node_t *adjoint = &walk->adjoints[visit->node.inputs[index]];
    if (gradient.id == 0) {
        return;
    }
    *adjoint = adjoint->id == 0 ? gradient : cadre_op_add(walk->program, *adjoint, gradient);
}
