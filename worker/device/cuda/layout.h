/*
 * layout - where everything that one plan touches lies in a slot's block of device memory.
 *
 *     [ seed | variables | arguments ][ gradients, results | flags ][ arena ]
 *       copied in, in this order       copied out, in the order in which they become ready
 *
 * Variables come first, so that they are in the same place whatever the batch (held.h). The first
 * two parts have a twin in pinned host memory with the same offsets. Every place begins at a
 * multiple of CADRE_ARENA_ALIGNMENT, which is what cuBLAS is promised. Plain bookkeeping: no memory
 * is touched.
 *
 * Owner:   what was prepared of a plan. Thread: never changes once made.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_LAYOUT_H
#define CADRE_WORKER_DEVICE_CUDA_LAYOUT_H

#include <stdint.h>

#include "common/base/limits.h"
#include "worker/device/plan.h"

enum { CADRE_LAYOUT_GROUPS_MAX = 16 };

/* Flags that kernels set during a run; 0 at first. */
enum {
    CADRE_LAYOUT_FLAG_FAULT, /* an index that the program computed was out of range */
    CADRE_LAYOUT_FLAG_LARGE, /* a number was beyond its guard's limit, or NaN */
    CADRE_LAYOUT_FLAGS,
};

/* Least bytes of a group of outputs. A group is copied out as soon as its last output is computed;
 * copying smaller groups would cost more in calls than it gains. */
#define CADRE_LAYOUT_GROUP_SIZE_MIN ((size_t)1 << 20)

typedef struct {
    int index;     /* number of the argument or variable */
    size_t offset; /* in the block */
    size_t size_bytes;
} cadre_layout_input_t;

typedef struct {
    cadre_plan_place_t place; /* GRADIENT or RESULT */
    size_t offset;
    size_t size_bytes;
    int ready; /* the step that writes the output; step_count: it is copied there after all steps */
    cadre_dtype_t dtype;
} cadre_layout_output_t;

typedef struct {
    int first; /* outputs first .. first + count - 1 of the layout are one piece of memory */
    int count;
    size_t offset; /* of the piece in the block of device memory */
    size_t size_bytes;
    int ready; /* the step after which all outputs of the group are computed */
} cadre_layout_group_t;

typedef struct {
    cadre_layout_input_t *arguments; /* the arguments that some step or output needs */
    int argument_count;
    cadre_layout_input_t *variables;
    int variable_count;
    cadre_layout_output_t *outputs; /* in the order of `ready` */
    int output_count;
    cadre_layout_group_t groups[CADRE_LAYOUT_GROUPS_MAX]; /* the last one holds the flags, too */
    int group_count;
    size_t seed_offset;
    size_t in_size_bytes; /* of the first part: seed, variables and arguments */
    size_t out_offset;    /* = in_size_bytes */
    size_t out_size_bytes;
    size_t flags_offset; /* int32 [CADRE_LAYOUT_FLAGS] */
    size_t arena_offset;
    size_t size_bytes; /* of the block */
} cadre_layout_t;

void cadre_layout_init(cadre_layout_t *self, const cadre_plan_t *plan);
void cadre_layout_fini(cadre_layout_t *self);

/* Returns the offset in the block of a place of the plan, which must not be a constant. */
size_t cadre_layout_offset(const cadre_layout_t *self, cadre_plan_place_t place);

#endif
