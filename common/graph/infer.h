/*
 * infer - the dtype and shape of a node from its op, attributes and inputs.
 *
 * The same rules run where a program is built and, over untrusted bytes, where it is decoded: a
 * node that passes here is safe to plan and run. Texts begin with the op: "matmul: inner dimensions
 * differ: ...".
 */
#ifndef CADRE_COMMON_GRAPH_INFER_H
#define CADRE_COMMON_GRAPH_INFER_H

#include "common/graph/program.h"

/* What a rule sees of the program to which a node is added. Borrowed: valid until that node is in
 * the program. */
typedef struct {
    const cadre_program_node_t *nodes; /* the nodes before the new one, by index */
    const char *const *symbols;
    int symbol_count;
} cadre_infer_t;

/* Sets node->dtype and node->shape. For an op that carries its shape (op.h), checks the shape in
 * the node; a leaf comes with both. The inputs must be nodes of the program; their number and the
 * attributes are checked here. Fails with CADRE_ESHAPE, CADRE_EDTYPE, CADRE_EINVALID or
 * CADRE_ETOOLARGE. */
int cadre_infer(const cadre_infer_t *self, cadre_program_node_t *node);

/* Returns whether the rows of a value of this shape are looked up by keys, which may be i64: it has
 * as many as a table (CADRE_PROGRAM_TABLE_ROWS). */
bool cadre_infer_has_keys(const cadre_extents_t *shape);

#endif
