/*
 * cuda_status - every call of CUDA and cuBLAS goes through here, so that none fails unseen.
 *
 * Plain functions without state.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_CUDA_STATUS_H
#define CADRE_WORKER_DEVICE_CUDA_CUDA_STATUS_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "common/base/status.h"

/* The status of a failed call, with a text that names it: CADRE_ENOMEMORY when there is no memory
 * left, which breaks nothing, otherwise CADRE_EDEVICE. */
int cadre_cuda_fail(cudaError_t error, const char *call);
int cadre_cublas_fail(cublasStatus_t error, const char *call);

/* Calls, and returns from the function around it when that failed. */
#define CADRE_CUDA_TRY(call)                                                                       \
    do {                                                                                           \
        cudaError_t cuda_error_ = (call);                                                          \
        if (cuda_error_ != cudaSuccess) {                                                          \
            return cadre_cuda_fail(cuda_error_, #call);                                            \
        }                                                                                          \
    } while (0)

#define CADRE_CUBLAS_TRY(call)                                                                     \
    do {                                                                                           \
        cublasStatus_t cublas_error_ = (call);                                                     \
        if (cublas_error_ != CUBLAS_STATUS_SUCCESS) {                                              \
            return cadre_cublas_fail(cublas_error_, #call);                                        \
        }                                                                                          \
    } while (0)

#endif
