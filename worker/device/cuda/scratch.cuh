/*
 * scratch - bytes of scratch memory that the steps of an op need; each beside its kernels.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_SCRATCH_CUH
#define CADRE_WORKER_DEVICE_CUDA_SCRATCH_CUH

#include "worker/device/cuda/kernels.h"

size_t cadre_cuda_reduce_scratch(const cadre_cuda_operands_t *operands);

#endif
