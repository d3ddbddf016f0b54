/*
 * program_data - the fields of a program, for the files of this folder only.
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
    /* Number, plus 1, of the symbol that stands for rows that are not all of a variable
     * (row_program.h), so that no argument has it; 0: the program has none. */
    int rows_symbol;

    cadre_program_argument_t arguments[CADRE_ARGUMENTS_MAX];
    int argument_count;
    cadre_program_result_t results[CADRE_RESULTS_MAX];
    int result_count;
    /* Arrays that grow by doubling: variables, constants, pushes, nodes. */
    cadre_program_variable_t *variables;
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
    int rand_count; /* of random nodes: the next one's stream */
    int status;     /* of the first mistake; 0: none was made */
    char *text;     /* error text of the first mistake */
    bool finished;

    uint8_t *bytes; /* encoded, once finished */
    size_t size_bytes;
    uint64_t hash;
};

/* ---- tables: a function that adds refuses a bad entry, or gives the index of the new one ---- */

/* Checks that a name has 1 to CADRE_NAME_SIZE_MAX characters, none of them a control character;
 * `what` says in the error text whose name it is. */
int cadre_program_check_name(const char *what, const char *name);

int cadre_program_add_symbol(cadre_program_t *self, const char *symbol, int *index);

/* Gives the index of `symbol`, adding it when it is new. */
int cadre_program_find_symbol(cadre_program_t *self, const char *symbol, int *index);

/* Add a leaf: an entry in the table of arguments or variables, and the node that stands for it. The
 * shape of a variable is plain numbers. */
int cadre_program_add_argument(cadre_program_t *self, const char *name, cadre_dtype_t dtype,
                               const cadre_extents_t *shape, int32_t *node);
int cadre_program_add_variable(cadre_program_t *self, const char *name, cadre_dtype_t dtype,
                               const cadre_extents_t *shape, int32_t *node);

/* Adds a constant and its node; takes the memory of `tensor` on success. */
int cadre_program_add_constant(cadre_program_t *self, cadre_tensor_t *tensor, int32_t *node);

int cadre_program_add_push(cadre_program_t *self, int variable, int32_t node);
int cadre_program_add_result(cadre_program_t *self, const char *name, int32_t node);

/* Returns what the rules of shapes see of the program before a node is added to it: nodes and
 * symbols, borrowed. */
cadre_infer_t cadre_program_before(const cadre_program_t *self);

/* Checks a node (number of inputs, attributes), infers its dtype and shape, and appends it. The
 * inputs must be nodes of the program. */
int cadre_program_add_node(cadre_program_t *self, const cadre_program_node_t *node, int32_t *index);

/* Checks what can be checked of a whole program only: it has outputs, and an argument for each
 * symbol. */
int cadre_program_check(const cadre_program_t *self);

/* ---- building ---- */

/* Notes a mistake, with the current error text behind the name of the scope; only the first
 * counts. */
void cadre_program_mistake(cadre_program_t *self, int status);

/* Appends `node` and returns it; notes the mistake and returns the empty node when `node` is
 * refused. */
cadre_node_t cadre_program_emit(cadre_program_t *self, const cadre_program_node_t *node);

/* True when building goes on and `node` is one of this program's; otherwise notes the mistake that
 * `what` got an empty node. */
bool cadre_program_has(cadre_program_t *self, cadre_node_t node, const char *what);

/* A node, and what to call it in an error text. */
typedef struct {
    const char *name;
    cadre_node_t node;
} cadre_named_node_t;

/* Notes the mistake that the shapes of two nodes do not go together: "conv2d: bias [3] does not go
 * with weight [3,3,1,8]". */
void cadre_program_misfit(cadre_program_t *self, const char *what, cadre_named_node_t left,
                          cadre_named_node_t right);

/* Returns the data of a node, which must not be the empty one; valid until the next node is
 * added. */
const cadre_program_node_t *cadre_program_at(const cadre_program_t *self, cadre_node_t node);

/* Returns positions or labels as nodes of i32, as ops read them; those of i64 are cast. */
cadre_node_t cadre_program_positions(cadre_program_t *self, cadre_node_t index, const char *what);

/* Append a node of `op` with one or two inputs and one attribute, number 0, as most have. Return
 * and fail as cadre_program_emit does. */
cadre_node_t cadre_program_emit1(cadre_program_t *self, cadre_op_t op, int64_t attribute,
                                 cadre_node_t x);
cadre_node_t cadre_program_emit2(cadre_program_t *self, cadre_op_t op, int64_t attribute,
                                 cadre_node_t left, cadre_node_t right);

/* Converts `dims` to extents, adding new symbols to the program; notes the mistake and returns
 * false when `dims` are no shape. */
bool cadre_program_shape(cadre_program_t *self, const char *what, const cadre_dim_t *dims, int rank,
                         cadre_extents_t *out);

/* Append a reshape or broadcast to a shape given as extents, or a reduction over the axes `begin`
 * to `end` - 1. `share`: each copy of a value is divided by the number of its copies (op.h). */
cadre_node_t cadre_program_emit_reshape(cadre_program_t *self, cadre_node_t x,
                                        const cadre_extents_t *shape);
cadre_node_t cadre_program_emit_broadcast(cadre_program_t *self, cadre_node_t x,
                                          const cadre_extents_t *shape, bool share);
cadre_node_t cadre_program_emit_reduce(cadre_program_t *self, cadre_reduce_t function,
                                       cadre_node_t x, int begin, int end);

/* Appends an im2col with the attributes of the op (op.h). */
cadre_node_t cadre_program_emit_im2col(cadre_program_t *self, cadre_node_t x,
                                       const int64_t attributes[CADRE_OP_ATTRIBUTES_MAX]);

/* Appends random numbers of this shape, from a stream that no other node of the program has. */
cadre_node_t cadre_program_emit_rand(cadre_program_t *self, const cadre_extents_t *shape);

#endif
