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

/* What is done with the product's numbers before they are written. */
typedef struct {
    cublasLtEpilogue_t kind;
    int64_t
        mask_row_bits; /* from row to row of the mask that the epilogue writes or reads; 0: none */
} cadre_cuda_epilogue_t;

/* The operands of a product, all in device memory, aligned to 256 bytes. */
typedef struct {
    const void *left;
    const void *right;
    void *out;
    const void *mask; /* written by epilogues with AUX, read by those with DRELU */
    const void *bias; /* added to each row; epilogues with BGRAD write the sum of rows there */
} cadre_cuda_factors_t;

/* Prepares a MATMUL step of the plan. With an `epilogue` (else NULL) the matrices must not be
 * empty, and the call fails with CADRE_ENOTFOUND when cuBLAS offers no such product. */
int cadre_cuda_matmul_new(const cadre_lane_t *lane, const cadre_plan_t *plan,
                          const cadre_plan_step_t *step, const cadre_cuda_epilogue_t *epilogue,
                          cadre_cuda_matmul_t **out);
void cadre_cuda_matmul_destroy(cadre_cuda_matmul_t **self_p);

/* Enqueues out = left right with the epilogue. */
int cadre_cuda_matmul_run(const cadre_cuda_matmul_t *self, const cadre_cuda_factors_t *factors,
                          cudaStream_t stream);

#endif
