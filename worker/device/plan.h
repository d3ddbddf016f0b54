/*
 * plan - a program made ready for arguments of certain shapes: numbers for all symbols, a place in
 * memory for every value.
 *
 * Owner:   the slot that keeps it.
 * Thread:  never changes once made.
 *
 * A plan refers to nothing of its program. One arena holds all that lives between the first and the
 * last step; its bytes are planned here and allocated by the slot. Gradients and results are
 * written where the caller wants them, not copied there, unless one value goes to several places or
 * comes straight from outside.
 */
#ifndef CADRE_WORKER_DEVICE_PLAN_H
#define CADRE_WORKER_DEVICE_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/graph/program.h"
#include "worker/device/strided.h"

typedef enum {
    CADRE_PLACE_NONE, /* not needed, or not placed yet */
    CADRE_PLACE_ARGUMENT,
    CADRE_PLACE_VARIABLE,
    CADRE_PLACE_CONSTANT,
    CADRE_PLACE_ARENA,
    CADRE_PLACE_GRADIENT,
    CADRE_PLACE_RESULT,
} cadre_plan_place_kind_t;

typedef struct {
    cadre_plan_place_kind_t kind;
    int index;     /* of the argument, variable, constant, push or result */
    size_t offset; /* in the arena */
} cadre_plan_place_t;

/* One per node of the program. */
typedef struct {
    cadre_dtype_t dtype;
    int rank;
    int64_t shape[CADRE_PROGRAM_RANK_MAX];
    int64_t count;
    size_t size_bytes;
    int32_t root; /* the value whose memory it shares; itself, but for reshape and detach */
    bool live;    /* some output needs it */
    int last_use; /* of a root: the last step that reads it, or -1 */
    cadre_plan_place_t place; /* of a root */
} cadre_plan_value_t;

typedef struct {
    cadre_op_t op;
    int64_t attributes[CADRE_OP_ATTRIBUTES_MAX];
    int32_t output; /* indexes into values */
    int input_count;
    int32_t inputs[CADRE_OP_INPUTS_MAX];
    cadre_strided_t walk; /* map2, where, broadcast, transpose, slice */
} cadre_plan_step_t;

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
    cadre_plan_copy_t *copies;
    int copy_count;
    void **constants; /* by index; f32 ones in the device's number type */
    int constant_count;
    int32_t *results; /* the value of each result */
    int result_count;
    size_t arena_size_bytes;
} cadre_plan_t;

/* Plans `program` for those symbol values. With `reuse` false every value gets memory of its own:
 * for tests. CADRE_ETOOLARGE when some value or dimension is beyond what the device can index. */
int cadre_plan_new(const cadre_program_t *program, const int64_t *symbol_values, bool reuse,
                   cadre_plan_t **out);
void cadre_plan_destroy(cadre_plan_t **self_p);

#endif
