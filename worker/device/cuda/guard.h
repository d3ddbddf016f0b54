/*
 * guard - which numbers are checked before a product whose epilogue would lose a NaN, so that no
 * NaN can arise in that product.
 *
 * Sums of products cannot overflow, and so cannot become NaN, while the factors stay below some
 * limit. Values from outside (variables, arguments) are checked on the device; the output of such a
 * product has a bound that follows from the bounds of its factors, so that activations are rarely
 * checked. A number beyond its limit, or a NaN, sets a flag, and the plan runs again without these
 * epilogues.
 *
 * Owner:   what was prepared of a plan. Thread: never changes once made.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_GUARD_H
#define CADRE_WORKER_DEVICE_CUDA_GUARD_H

#include "worker/device/cuda/fused.h"

typedef struct {
    int fusion;    /* index of the group before which the check runs */
    int32_t value; /* the root whose numbers are checked */
    float limit;   /* the largest absolute value that they may have */
} cadre_cuda_guard_t;

/* Finds the guards of the plan's groups, in the order of the groups, given their fused forms;
 * returns how many there are. The caller frees `guards`, which is NULL when there are none. */
int cadre_cuda_guards_new(const cadre_plan_t *plan, const cadre_cuda_fused_t *fused,
                          cadre_cuda_guard_t **guards);

#endif
