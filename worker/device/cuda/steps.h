/*
 * steps - enqueues the steps of a plan, one after the other.
 *
 * Plain functions without state. Thread: any, on a stream of its own or under the lane's mutex.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_STEPS_H
#define CADRE_WORKER_DEVICE_CUDA_STEPS_H

#include "worker/device/cuda/kernels.h"

/* Enqueues a step, any but MATMUL; fails with CADRE_EDEVICE when the launch was refused. */
int cadre_cuda_step(const cadre_cuda_operands_t *operands, void *stream);

#endif
