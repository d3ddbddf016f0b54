/*
 * scratch - bytes of scratch memory that the steps of an op need, each computed beside its kernels;
 * and the parts of ops that lie in different files.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_SCRATCH_CUH
#define CADRE_WORKER_DEVICE_CUDA_SCRATCH_CUH

#include "worker/device/cuda/kernels.h"

size_t cadre_cuda_reduce_scratch(const cadre_cuda_operands_t *operands);

/* Returns the scratch bytes of SCATTER, and of BAG_GRAD for the table's gradient. */
size_t cadre_cuda_segments_scratch(const cadre_cuda_operands_t *operands);

/* Enqueues BAG_GRAD for the gradient of weights. */
int cadre_cuda_bag_weights_grad(const cadre_cuda_operands_t *operands, void *stream);

#endif
