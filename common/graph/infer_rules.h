/*
 * infer_rules - the rule of each operation, and what the rules share; for infer*.c, and for
 * builders that check an operation in words of their own.
 *
 * A rule fills node->dtype and node->shape, or checks the shape that the node carries; the number
 * of inputs was checked. Texts come without the operation's name, which infer.c puts before them.
 */
#ifndef CADRE_COMMON_GRAPH_INFER_RULES_H
#define CADRE_COMMON_GRAPH_INFER_RULES_H

#include "common/graph/program.h"

typedef struct {
    char text[CADRE_EXTENTS_TEXT_SIZE];
} cadre_infer_text_t;

const cadre_program_node_t *cadre_infer_input(const cadre_program_t *program,
                                              const cadre_program_node_t *node, int index);

/* The shape as text, which is `text`. */
const char *cadre_infer_shown(const cadre_program_t *program, const cadre_extents_t *shape,
                              cadre_infer_text_t *text);

int cadre_infer_need_dtype(const cadre_program_node_t *of, cadre_dtype_t dtype);

int cadre_infer_matmul(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_map1(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_map2(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_where(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_reduce(const cadre_program_t *program, cadre_program_node_t *node);

int cadre_infer_broadcast(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_reshape(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_transpose(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_concat(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_slice(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_pad(const cadre_program_t *program, cadre_program_node_t *node);

int cadre_infer_take(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_scatter(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_bag(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_bag_grad(const cadre_program_t *program, cadre_program_node_t *node);

int cadre_infer_softmax(const cadre_program_t *program, cadre_program_node_t *node);

/* XENT and XENT_GRAD. */
int cadre_infer_xent(const cadre_program_t *program, cadre_program_node_t *node);

/* ROWNORM and ROWNORM_GRAD. */
int cadre_infer_rownorm(const cadre_program_t *program, cadre_program_node_t *node);

int cadre_infer_im2col(const cadre_program_t *program, cadre_program_node_t *node);
int cadre_infer_col2im(const cadre_program_t *program, cadre_program_node_t *node);

#endif
