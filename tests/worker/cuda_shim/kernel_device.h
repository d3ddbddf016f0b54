/*
 * kernel_device - runs a program by the CUDA kernels on the shim, with the CPU's matmul, to compare
 * it with the CPU device.
 *
 * All memory is poisoned first. Each value has memory of its own of exactly its size, or all have
 * what the plan gives them in one arena: then steps work in place.
 */
#ifndef CADRE_TESTS_WORKER_CUDA_SHIM_KERNEL_DEVICE_H
#define CADRE_TESTS_WORKER_CUDA_SHIM_KERNEL_DEVICE_H

#include <stdbool.h>

#include "tests/worker/cuda_shim/shim/shim.h"
#include "worker/device/device.h"

typedef struct {
    cadre_shim_order_t order;
    uint64_t order_seed;
    bool in_place;
    bool chains;
    bool shifted; /* arguments, gradients and results lie 4 bytes past a multiple of 16 */
} kernel_mode_t;

/* As cadre_slot_run. CADRE_EDATA when a kernel raised
 * the fault, CADRE_EDEVICE when a launch was refused or the shim found one; its text is printed. */
int kernel_device_run(const cadre_slot_run_t *run, const kernel_mode_t *mode);

#endif
