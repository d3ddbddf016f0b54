/*
 * infer_rules - the rule of each operation, and helpers of the rules; for infer*.c, and for
 * builders that check an operation in words of their own.
 *
 * A rule fills node->dtype and node->shape, or checks the shape that the node carries; the number
 * of inputs was checked. Texts come without the operation's name, which infer.c puts before them.
 */
#ifndef CADRE_COMMON_GRAPH_INFER_RULES_H
#define CADRE_COMMON_GRAPH_INFER_RULES_H

#include "common/graph/infer.h"

/* Declares cadre_infer_matmul and so on, a function for each op but the leaves. */
#define ROW(NAME, number, word, ...)                                                               \
    int cadre_infer_##word(const cadre_infer_t *self, cadre_program_node_t *node);
CADRE_OP_RULE_LIST(ROW)
#undef ROW

typedef struct {
    char text[CADRE_EXTENTS_TEXT_SIZE];
} cadre_infer_text_t;

const cadre_program_node_t *cadre_infer_input(const cadre_infer_t *self,
                                              const cadre_program_node_t *node, int index);

/* Writes the shape into `text`, and returns the text. */
const char *cadre_infer_shown(const cadre_infer_t *self, const cadre_extents_t *shape,
                              cadre_infer_text_t *text);

/* Fails with CADRE_EDTYPE unless the node has this dtype. */
int cadre_infer_need_dtype(const cadre_program_node_t *of, cadre_dtype_t dtype);

/* Fails with CADRE_EDTYPE unless the node is of numbers that are added and compared: f32, f64 or
 * i64. */
int cadre_infer_need_number(const cadre_program_node_t *of);

#endif
