/*
 * shim_kernels - small kernels, right and wrong ones, for the shim's own tests.
 */
#ifndef CADRE_TESTS_WORKER_CUDA_SHIM_SHIM_KERNELS_H
#define CADRE_TESTS_WORKER_CUDA_SHIM_SHIM_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each launches one kernel on `blocks` blocks of `threads` threads and gives the launch's status.
 */

/* out[thread] = order in which the threads began, counted over all blocks. */
int shim_kernel_order(int *out, int blocks, int threads);

/* out[block * threads + i] = threads - 1 - i, through shared memory. Without its barrier some see
 * poison, whatever the order. */
int shim_kernel_reverse(int *out, int blocks, int threads, int with_barrier);

/* Shared memory as a block finds it: out[block] = 1 when it is all poison. */
int shim_kernel_finds_poison(int *out, int blocks, int threads);

/* out[thread] = sum of the lane numbers of its warp, by each of three shuffles. */
int shim_kernel_sum_xor(int *out, int blocks, int threads);
int shim_kernel_sum_down(int *out, int blocks, int threads);
int shim_kernel_rank_in_match(const int *key, int *out, int blocks, int threads);

/* out[0] = sum of all thread numbers. */
int shim_kernel_atomic_sum(int *out, int blocks, int threads);

/* Faults. */
int shim_kernel_some_skip_barrier(int *out, int blocks, int threads);
int shim_kernel_different_barriers(int *out, int blocks, int threads);
int shim_kernel_some_skip_shuffle(int *out, int blocks, int threads);
int shim_kernel_foreign_mask(int *out, int blocks, int threads);

#ifdef __cplusplus
}
#endif
#endif
