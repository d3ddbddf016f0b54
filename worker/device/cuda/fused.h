/*
 * fused - runs a group of a plan's steps as one matrix product with an epilogue, as far as cuBLAS
 * offers such a product: when the plan is made ready cuBLAS is asked for one that covers the whole
 * group, then for less and less of it.
 *
 * cuBLAS's relu turns NaN into 0, and so does its mask with a gradient: a group that has either
 * must not be given a NaN (guard.h).
 *
 * Owner:   what was prepared of a plan. Thread: the slot's.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_FUSED_H
#define CADRE_WORKER_DEVICE_CUDA_FUSED_H

#include <stdbool.h>

#include "worker/device/cuda/matmul.h"

typedef struct {
    cadre_cuda_matmul_t *matmul; /* NULL: the group runs step by step */
    int32_t output;              /* the value that the product writes */
    int32_t bias;                /* the value that is added to each row, or that gets the sum of
                                    rows; -1: none */
    bool writes_mask;
    bool reads_mask;
    bool loses_nan; /* the epilogue would turn a NaN into 0 */
    int done;       /* how many steps of the group, from the first on, the product replaces */
} cadre_cuda_fused_t;

/* Finds how cuBLASLt computes the group: algorithm and epilogue. `masked`: an earlier group of the
 * plan runs fused and writes the mask that this group reads; without it this group cannot run
 * fused. Returns 0, with `matmul` NULL, when cuBLASLt offers nothing: the group then runs step by
 * step. */
int cadre_cuda_fused_init(cadre_cuda_fused_t *self, const cadre_lane_t *lane,
                          const cadre_plan_t *plan, const cadre_plan_fusion_t *fusion, bool masked);
void cadre_cuda_fused_fini(cadre_cuda_fused_t *self);

#endif
