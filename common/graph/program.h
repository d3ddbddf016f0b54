/*
 * program - the parts of a built or decoded program, for code that runs it or sends it to workers.
 *
 * Owner:   whoever built or decoded it (cadre_program_destroy).
 * Thread:  after cadre_program_finish or decoding it never changes: any number of threads may read.
 *
 * The structs are open: a finished program is only data. Node ids in these tables are indexes into
 * the list of nodes, from 0 (the public cadre_node_t counts from 1, so that zero is empty).
 */
#ifndef CADRE_COMMON_GRAPH_PROGRAM_H
#define CADRE_COMMON_GRAPH_PROGRAM_H

#include <stddef.h>

#include <cadre/program.h>

#include "common/graph/extent.h"
#include "common/graph/op.h"

enum {
    CADRE_PROGRAM_NODES_MAX = 65536,
    CADRE_PROGRAM_VARIABLES_MAX = 4096,
    CADRE_PROGRAM_CONSTANTS_MAX = 4096,
    CADRE_PROGRAM_CONSTANT_SIZE_MAX = 1 << 20, /* bytes of all constants together */
    CADRE_PROGRAM_SIZE_MAX = 8 << 20,          /* bytes encoded */
};

/* Rows of a table, as a program has it: one for each i32 that is not negative. What has so many is
 * looked up by keys: ids of i32, or all bits of ids of i64. */
#define CADRE_PROGRAM_TABLE_ROWS ((int64_t)INT32_MAX + 1)

/* What is padding in the bags of an index, of i32 or i64, and so is no row and no key there. */
enum { CADRE_PROGRAM_PADDING = -1 };

typedef struct {
    cadre_op_t op;
    cadre_dtype_t dtype;
    cadre_extents_t shape;
    int input_count;
    int32_t inputs[CADRE_OP_INPUTS_MAX]; /* all smaller than the node's own index */
    int64_t attributes[CADRE_OP_ATTRIBUTES_MAX];
} cadre_program_node_t;

typedef struct {
    char *name;
    cadre_dtype_t dtype;
    cadre_extents_t shape;
    int32_t node; /* its one leaf */
} cadre_program_argument_t;

typedef struct {
    char *name;
    cadre_dtype_t dtype;
    int rank;
    int64_t shape[CADRE_PROGRAM_RANK_MAX];
    int32_t node; /* the variable's leaf */
} cadre_program_variable_t;

typedef struct {
    int variable; /* index into the program's variables */
    int32_t node; /* the gradient, of the variable's dtype and shape */
} cadre_program_push_t;

typedef struct {
    char *name;
    int32_t node; /* whose value is the result */
} cadre_program_result_t;

/* ---- inspection ---- */

const char *cadre_program_name(const cadre_program_t *self);

/* Returns the hash (XXH3) of the encoded bytes, which identifies a program; 0 before the program is
 * finished. */
uint64_t cadre_program_hash(const cadre_program_t *self);

int cadre_program_symbol_count(const cadre_program_t *self);
const char *const *cadre_program_symbols(const cadre_program_t *self);

/* Returns the symbol of a row program (row_program.h) that stands for its rows; -1: no row
 * program. */
int cadre_program_rows_symbol(const cadre_program_t *self);

int cadre_program_argument_count(const cadre_program_t *self);
const cadre_program_argument_t *cadre_program_argument(const cadre_program_t *self, int index);

int cadre_program_variable_count(const cadre_program_t *self);
const cadre_program_variable_t *cadre_program_variable(const cadre_program_t *self, int index);

int cadre_program_constant_count(const cadre_program_t *self);
const cadre_tensor_t *cadre_program_constant(const cadre_program_t *self, int index);

int cadre_program_push_count(const cadre_program_t *self);
const cadre_program_push_t *cadre_program_push(const cadre_program_t *self, int index);

int cadre_program_result_count(const cadre_program_t *self);
const cadre_program_result_t *cadre_program_result(const cadre_program_t *self, int index);

int cadre_program_node_count(const cadre_program_t *self);
const cadre_program_node_t *cadre_program_node(const cadre_program_t *self, int32_t index);

/* ---- shipping ---- */

/* Returns the encoded form of a finished program, owned by the program. */
const uint8_t *cadre_program_bytes(const cadre_program_t *self, size_t *size_bytes);

/* Decodes untrusted bytes to a finished program. Fails with CADRE_EMALFORMED for bytes that are no
 * program, CADRE_EPROTOCOL for a format version that this build does not know, else with the status
 * that building the same program would give: CADRE_ETOOLARGE beyond a limit, CADRE_ESHAPE,
 * CADRE_EDTYPE, CADRE_EINVALID, CADRE_EEXISTS. */
int cadre_program_decode(const uint8_t *bytes, size_t size_bytes, cadre_program_t **out);

/* Copies a finished program, whose results are replaced by the values of `count` of its nodes (1 to
 * CADRE_RESULTS_MAX): result i is that of node nodes[i], counted from 0. */
int cadre_program_observe(const cadre_program_t *self, const int32_t *nodes, int count,
                          cadre_program_t **out);

/* ---- arguments ---- */

/* Checks `count` arguments, in the program's order, against the program, and finds the size that
 * each symbol stands for: symbol_values[cadre_program_symbol_count]; 0 for that of rows.
 * `f32_dtype` is the dtype that arguments must have which the program declares as f32: CADRE_F32,
 * or CADRE_F64 in the device that tests build. Fails with CADRE_EINVALID for another count,
 * CADRE_EDTYPE, CADRE_ESHAPE; the text names the argument and the shapes. */
int cadre_program_bind(const cadre_program_t *self, const cadre_tensor_t *arguments, int count,
                       cadre_dtype_t f32_dtype, int64_t *symbol_values);

/* Computes the shape of `node` into shape[CADRE_PROGRAM_RANK_MAX], where symbol_values[i] is what
 * symbol i stands for. Fails with CADRE_ETOOLARGE when a size overflows. */
int cadre_program_node_shape(const cadre_program_t *self, int32_t node,
                             const int64_t *symbol_values, int64_t *shape);

#endif
