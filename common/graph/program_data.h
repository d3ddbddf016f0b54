/*
 * program_data - the inside of a program, for the files of this folder only.
 *
 * Owner:   the program.
 * Thread:  as in <cadre/program.h>.
 */
#ifndef CADRE_COMMON_GRAPH_PROGRAM_DATA_H
#define CADRE_COMMON_GRAPH_PROGRAM_DATA_H

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/graph/infer.h"
#include "common/graph/program.h"

enum { CADRE_SCOPE_DEPTH_MAX = 16 };

struct cadre_program {
    char *name;
    const char *symbols[CADRE_SYMBOLS_MAX]; /* owned */
    int symbol_count;

    cadre_program_argument_t arguments[CADRE_ARGUMENTS_MAX];
    int argument_count;
    cadre_program_result_t results[CADRE_RESULTS_MAX];
    int result_count;
    cadre_program_variable_t *variables; /* these four grow by doubling, up to their limits */
    int variable_count;
    cadre_tensor_t *constants;
    int constant_count;
    cadre_program_push_t *pushes;
    int push_count;
    cadre_program_node_t *nodes;
    int node_count;
    size_t constants_size_bytes;

    const char *scopes[CADRE_SCOPE_DEPTH_MAX]; /* owned */
    int scope_count;
    int rand_count;
    int status; /* of the first mistake, or 0 */
    char *text; /* its message */
    bool finished;

    uint8_t *bytes; /* encoded, once finished */
    size_t size_bytes;
    uint64_t hash;
};

/* ---- tables: each refuses what breaks its rules and returns the new entry's index ---- */

/* 1 to CADRE_NAME_SIZE_MAX characters, none of them a control character; `what` for the text. */
int cadre_program_check_name(const char *what, const char *name);

int cadre_program_add_symbol(cadre_program_t *self, const char *symbol, int *index);

/* The index of `symbol`, adding it when it is new. */
int cadre_program_find_symbol(cadre_program_t *self, const char *symbol, int *index);

/* A leaf: the table's entry together with its node. */
int cadre_program_add_argument(cadre_program_t *self, const char *name, cadre_dtype_t dtype,
                               const cadre_extents_t *shape, int32_t *node);
int cadre_program_add_variable(cadre_program_t *self, const char *name, const int64_t *shape,
                               int rank, int32_t *node);

/* Takes over the memory of `tensor` on success. */
int cadre_program_add_constant(cadre_program_t *self, cadre_tensor_t *tensor, int32_t *node);

int cadre_program_add_push(cadre_program_t *self, int variable, int32_t node);
int cadre_program_add_result(cadre_program_t *self, const char *name, int32_t node);

/* Returns what the rules of shapes see of the program when a node is added to it. */
cadre_infer_t cadre_program_before(const cadre_program_t *self);

/* Checks a node (number of inputs, attributes), infers its dtype and shape, and appends it. The
 * inputs must be nodes of the program. */
int cadre_program_add_node(cadre_program_t *self, const cadre_program_node_t *node, int32_t *index);

/* What must hold of a whole program: outputs, symbols. */
int cadre_program_check(const cadre_program_t *self);

/* ---- building ---- */

/* Notes the first mistake: the current error text, with the scope before it. */
void cadre_program_mistake(cadre_program_t *self, int status);

/* Appends `node`, or notes the mistake; the empty node after a mistake. */
cadre_node_t cadre_program_emit(cadre_program_t *self, const cadre_program_node_t *node);

/* True when building goes on and `node` is one of this program's; otherwise notes the mistake that
 * `what` got an empty node. */
bool cadre_program_has(cadre_program_t *self, cadre_node_t node, const char *what);

/* A node and what to call it in a message. */
typedef struct {
    const char *name;
    cadre_node_t node;
} cadre_named_node_t;

/* Notes the mistake that the shapes of two nodes do not go together: "conv2d: bias [3] does not go
 * with weight [3,3,1,8]". */
void cadre_program_misfit(cadre_program_t *self, const char *what, cadre_named_node_t left,
                          cadre_named_node_t right);

/* The node behind `node`, which must be one. The pointer holds until the next node is added. */
const cadre_program_node_t *cadre_program_at(const cadre_program_t *self, cadre_node_t node);

/* One node with one or two inputs and a first attribute, as most are; mistakes stick. */
cadre_node_t cadre_program_emit1(cadre_program_t *self, cadre_op_t op, int64_t attribute,
                                 cadre_node_t x);
cadre_node_t cadre_program_emit2(cadre_program_t *self, cadre_op_t op, int64_t attribute,
                                 cadre_node_t left, cadre_node_t right);

/* `dims` in inner form, adding symbols; false, with the mistake noted, when they are no shape. */
bool cadre_program_shape(cadre_program_t *self, const char *what, const cadre_dim_t *dims, int rank,
                         cadre_extents_t *out);

/* As cadre_op_reshape and cadre_op_broadcast, with the shape in inner form; `share` as in op.h. */
cadre_node_t cadre_program_emit_reshape(cadre_program_t *self, cadre_node_t x,
                                        const cadre_extents_t *shape);
cadre_node_t cadre_program_emit_broadcast(cadre_program_t *self, cadre_node_t x,
                                          const cadre_extents_t *shape, bool share);
cadre_node_t cadre_program_emit_reduce(cadre_program_t *self, cadre_reduce_t function,
                                       cadre_node_t x, int begin, int end);

/* cadre_op_im2col with the attributes of the op (op.h). */
cadre_node_t cadre_program_emit_im2col(cadre_program_t *self, cadre_node_t x,
                                       const int64_t attributes[CADRE_OP_ATTRIBUTES_MAX]);

/* A fresh stream of random numbers of that shape. */
cadre_node_t cadre_program_emit_rand(cadre_program_t *self, const cadre_extents_t *shape);

#endif
