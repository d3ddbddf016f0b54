/*
 * matmul - one matrix product of a plan, by cublasLt: described and its algorithm chosen when the
 * plan is made ready.
 *
 * cuBLAS thinks in columns. A row-major matrix is its own transpose to it, so the row-major product
 * C = A B is the column-major product C' = B' A', and nothing is moved.
 *
 * Owner:   what was prepared of a plan. Thread: the slot's.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_MATMUL_H
#define CADRE_WORKER_DEVICE_CUDA_MATMUL_H

#include "worker/device/cuda/lane.h"
#include "worker/device/plan.h"

typedef struct cadre_cuda_matmul cadre_cuda_matmul_t;

/* For the plan's step, a MATMUL whose operands are all aligned to 256 bytes. */
int cadre_cuda_matmul_new(const cadre_lane_t *lane, const cadre_plan_t *plan,
                          const cadre_plan_step_t *step, cadre_cuda_matmul_t **out);
void cadre_cuda_matmul_destroy(cadre_cuda_matmul_t **self_p);

/* out = left right, all in device memory; only enqueues. */
int cadre_cuda_matmul_run(const cadre_cuda_matmul_t *self, const void *left, const void *right,
                          void *out, cudaStream_t stream);

#endif
