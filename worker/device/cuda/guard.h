/*
 * guard - which numbers are looked at before a product whose epilogue would lose a NaN: so that
 * none can arise there.
 *
 * Sums of products cannot overflow, and so cannot become NaN, while the factors stay below some
 * limit. What comes from outside is looked at on the device; what such a product gives has a bound
 * that follows from its factors', so that activations are rarely looked at. A number beyond its
 * limit, or a NaN, sets a flag, and the run is done again without epilogues.
 *
 * Owner:   what was prepared of a plan. Thread: never changes once made.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_GUARD_H
#define CADRE_WORKER_DEVICE_CUDA_GUARD_H

#include "worker/device/cuda/fused.h"

typedef struct {
    int fusion;    /* before this group runs, */
    int32_t value; /* the numbers of this root */
    float limit;   /* must not be larger than this */
} cadre_cuda_guard_t;

/* For the groups of the plan as `fused` runs them; in their order. `guards`, which the caller
 * frees, may be NULL when there are none. */
int cadre_cuda_guards_new(const cadre_plan_t *plan, const cadre_cuda_fused_t *fused,
                          cadre_cuda_guard_t **guards);

#endif
