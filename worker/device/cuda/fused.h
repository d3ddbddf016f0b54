/*
 * fused - a group of a plan's steps run as one matrix product with an epilogue, as far as cuBLAS
 * offers it: asked when the plan is made ready, for less and less of the group.
 *
 * cuBLAS's relu turns NaN into 0, and so does its mask with a gradient: a group that has either
 * must not meet one (guard.h).
 *
 * Owner:   what was prepared of a plan. Thread: the slot's.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_FUSED_H
#define CADRE_WORKER_DEVICE_CUDA_FUSED_H

#include <stdbool.h>

#include "worker/device/cuda/matmul.h"

typedef struct {
    cadre_cuda_matmul_t *matmul; /* NULL: the group runs step by step */
    int32_t output;              /* the value that it writes */
    int32_t bias;                /* the value that it adds or whose numbers it sums up, or -1 */
    bool writes_mask;
    bool reads_mask;
    bool loses_nan;
    int done; /* steps of the group, from its first one, that need not run any more */
} cadre_cuda_fused_t;

/* `masked`: the mask that the group reads is written. */
int cadre_cuda_fused_init(cadre_cuda_fused_t *self, const cadre_lane_t *lane,
                          const cadre_plan_t *plan, const cadre_plan_fusion_t *fusion, bool masked);
void cadre_cuda_fused_fini(cadre_cuda_fused_t *self);

#endif
