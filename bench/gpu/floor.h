/*
 * floor - the matrix products of a model's steps and nothing else: cublasLt alone on a GPU,
 * OpenBLAS alone on the CPU. No way of training is faster.
 *
 * Owner and thread: main.
 */
#ifndef CADRE_BENCH_GPU_FLOOR_H
#define CADRE_BENCH_GPU_FLOOR_H

#include "bench/gpu/models.h"

typedef struct {
    const cadre_blas_product_t *products;
    const int *repeats;
    int product_count;
    const char *math;
    int index; /* of the GPU */
} gpu_floor_work_t;

typedef struct gpu_floor gpu_floor_t;

/* On a GPU, with 32 MiB of workspace and the first algorithm that the heuristic offers.
 * CADRE_EUNAVAILABLE where this build or this machine has none. */
int gpu_floor_open(const gpu_floor_work_t *work, gpu_floor_t **out);
void gpu_floor_close(gpu_floor_t **self_p);

/* All products `steps` times, enqueued without a pause, and waits once. */
int gpu_floor_run(gpu_floor_t *self, int steps);

#endif
