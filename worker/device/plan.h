/*
 * plan - a program made ready for arguments of certain shapes: numbers for all symbols, a place in
 * memory for every value.
 *
 * Owner:   the slot that keeps it.
 * Thread:  never changes once made.
 *
 * A plan keeps no pointer into its program. One arena holds all intermediate values; its bytes are
 * planned here and allocated by the slot. Gradients and results are written where the caller wants
 * them; a value is copied there only if it goes to several places, or is itself an argument, a
 * variable or a constant.
 */
#ifndef CADRE_WORKER_DEVICE_PLAN_H
#define CADRE_WORKER_DEVICE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/graph/program.h"
#include "worker/device/strided.h"

enum {
    CADRE_CHAIN_LINKS_MAX = 12,
    CADRE_CHAIN_INPUTS_MAX = CADRE_STRIDED_INPUTS_MAX,
};

/* Flags: what a device wants of its plans. */
enum {
    CADRE_PLAN_REUSE = 1,  /* memory of values that no later step reads is used again */
    CADRE_PLAN_CHAINS = 2, /* element operations that follow each other become one step */
    CADRE_PLAN_FUSE = 4,   /* groups that may run as one matrix product are found (plan_fuse.h) */
};

typedef enum {
    CADRE_PLACE_NONE, /* the value is not needed, only inside a chain, or not placed yet */
    CADRE_PLACE_ARGUMENT,
    CADRE_PLACE_VARIABLE,
    CADRE_PLACE_CONSTANT,
    CADRE_PLACE_ARENA,
    CADRE_PLACE_GRADIENT,
    CADRE_PLACE_RESULT,
} cadre_plan_place_kind_t;

typedef struct {
    cadre_plan_place_kind_t kind;
    int index;     /* number of the argument, variable, constant, push or result */
    size_t offset; /* in the arena, for CADRE_PLACE_ARENA */
} cadre_plan_place_t;

/* A value of the plan: one for each node of the program. */
typedef struct {
    cadre_dtype_t dtype;
    int rank;
    int64_t shape[CADRE_PROGRAM_RANK_MAX];
    int64_t count;
    size_t size_bytes;
    int32_t root; /* the value whose memory this one shares: itself, but for reshape and detach */
    bool live;    /* a gradient or result depends on it */
    int last_use; /* the last step that reads this memory, or -1; only a root's is set */
    cadre_plan_place_t place; /* where the memory is; only a root's is set */
} cadre_plan_value_t;

/* The op of a step that is a chain: several element operations, one after the other on each
 * element. The number is above those of all ops; it occurs in plans only. */
#define CADRE_STEP_CHAIN ((cadre_op_t)127)

/* One operation of a chain, a CADRE_OP_ELEMENT; all its numbers are f32. */
typedef struct {
    cadre_op_t op;
    int64_t function; /* which function of MAP1 or MAP2; 0 for other ops */
    int sources[3];   /* below the step's input_count: the input of that number; input_count + j:
                         the result of link j, an earlier link */
} cadre_chain_link_t;

/* The links of a chain. The last one computes the step's output. The results of the others have the
 * output's shape, are read by later links only, and have no place in memory. Inputs are read as the
 * step's walk says. */
typedef struct {
    int link_count; /* at least 2 */
    cadre_chain_link_t links[CADRE_CHAIN_LINKS_MAX];
} cadre_chain_t;

typedef struct {
    cadre_op_t op; /* or CADRE_STEP_CHAIN */
    int64_t attributes[CADRE_OP_ATTRIBUTES_MAX];
    int32_t output; /* indexes into values */
    int input_count;
    int32_t inputs[CADRE_OP_INPUTS_MAX];
    cadre_strided_t walk; /* how inputs are walked, of element operations, chains, broadcast,
                             transpose and slice */
    int chain;            /* for CADRE_STEP_CHAIN: index of the chain in the plan */
    int fusion;           /* index of the step's group in the plan's `fusions`, plus 1; 0: none */
} cadre_plan_step_t;

enum { CADRE_FUSION_STEPS_MAX = 4 };

typedef enum {
    CADRE_FUSION_SUM_NONE,
    CADRE_FUSION_SUM_OUTPUT, /* the group's output is summed over its rows: [columns] */
    CADRE_FUSION_SUM_LEFT,   /* the product's left factor is summed over its rows, as it is stored,
                                not transposed: the gradient of a bias */
    CADRE_FUSION_SUM_RIGHT,  /* the product's right factor is summed over its rows, as it is
                                stored */
} cadre_fusion_sum_t;

/* Steps that may run as one matrix product: output = relu(product + bias), or product * mask. */
typedef struct {
    int first; /* the group is the steps first .. first + count - 1 */
    int count;
    int product;     /* which of these steps is the MATMUL */
    int64_t rows;    /* of the product's output */
    int64_t columns; /* of the product's output; later steps may see it in another shape */
    int32_t output;  /* the value that the whole group computes */
    int32_t bias;    /* the value [columns] that is added to each row, or -1 */
    bool relu;
    int mask;           /* the mask of a relu (plan's `masks`), or -1: with `relu` the mask that the
                           group writes, otherwise the mask that the product is multiplied by */
    int32_t column_sum; /* a value that the group computes as a sum of rows (`sum`), or -1 */
    cadre_fusion_sum_t sum;
} cadre_plan_fusion_t;

/* A mask, in the arena: a bit for each number of a relu's output, set where that is above 0. */
typedef struct {
    size_t offset;
    size_t size_bytes;
    int64_t row_bits; /* bits from the begin of a row to that of the next, a multiple of 128 */
    int first;        /* the first step of the group that writes the mask */
    int last;         /* the last step of all groups that read the mask */
} cadre_plan_mask_t;

/* A value to be copied to an output after the last step. */
typedef struct {
    int32_t value;
    cadre_plan_place_t to;
} cadre_plan_copy_t;

typedef struct {
    cadre_plan_value_t *values;
    int value_count;
    cadre_plan_step_t *steps;
    int step_count;
    cadre_chain_t *chains;
    int chain_count;
    cadre_plan_fusion_t *fusions;
    int fusion_count;
    cadre_plan_mask_t *masks;
    int mask_count;
    cadre_plan_copy_t *copies;
    int copy_count;
    void **constants; /* by index; f32 ones in the device's number type */
    int constant_count;
    int32_t *results; /* the value of each result */
    int result_count;
    size_t arena_size_bytes;
} cadre_plan_t;

/* Plans `program` for these sizes of its symbols; `flags` are CADRE_PLAN_REUSE and so on. Fails
 * with CADRE_ETOOLARGE when a value or dimension is larger than a device can index. */
int cadre_plan_new(const cadre_program_t *program, const int64_t *symbol_values, unsigned flags,
                   cadre_plan_t **out);
void cadre_plan_destroy(cadre_plan_t **self_p);

/* Returns the group that a step is in; NULL when it is in none. */
static inline const cadre_plan_fusion_t *
cadre_plan_fusion_of(const cadre_plan_t *self, int step)
{
    int fusion = self->steps[step].fusion;
    return fusion == 0 ? NULL : &self->fusions[fusion - 1];
}

#endif
