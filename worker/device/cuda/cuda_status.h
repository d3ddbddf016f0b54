/*
 * cuda_status - macros through which every call of CUDA and cuBLAS goes, so that no failure is
 * lost.
 *
 * Plain functions without state.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_CUDA_STATUS_H
#define CADRE_WORKER_DEVICE_CUDA_CUDA_STATUS_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "common/base/status.h"

/* Return the status of a failed call, with an error text that names the call: CADRE_ENOMEMORY when
 * the device has no memory left, after which it goes on working, otherwise CADRE_EDEVICE. */
int cadre_cuda_fail(cudaError_t error, const char *call);
int cadre_cublas_fail(cublasStatus_t error, const char *call);

/* Makes a call, and returns its status from the enclosing function when it fails. */
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
