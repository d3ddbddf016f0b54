#include "worker/device/cuda/cuda_status.h"

#include <string.h>

/* The function's name out of the text of a call. */
static int
name_length(const char *call)
{
    return (int)strcspn(call, "(");
}

int
cadre_cuda_fail(cudaError_t error, const char *call)
{
    cudaGetLastError(); /* so that the next check does not find this one again */
    int status = error == cudaErrorMemoryAllocation ? CADRE_ENOMEMORY : CADRE_EDEVICE;
    return cadre_fail(status, "%.*s: %s (%s)", name_length(call), call, cudaGetErrorString(error),
                      cudaGetErrorName(error));
}

int
cadre_cublas_fail(cublasStatus_t error, const char *call)
{
    int status = error == CUBLAS_STATUS_ALLOC_FAILED ? CADRE_ENOMEMORY : CADRE_EDEVICE;
    return cadre_fail(status, "%.*s: %s", name_length(call), call, cublasLtGetStatusName(error));
}
