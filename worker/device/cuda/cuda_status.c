#include "worker/device/cuda/cuda_status.h"

#include <string.h>

/* Returns the length of the function's name at the begin of the text of a call. */
static int
name_length(const char *call)
{
    return (int)strcspn(call, "(");
}

/* Returns the status of a CUDA call that has failed; the error text names it by `call`, its source
 * text. A device without memory left goes on working; any other failure counts as a lost device. */
int
cadre_cuda_fail(cudaError_t error, const char *call)
{
    cudaGetLastError(); /* clears the error, so that the next check does not find it again */
    int status = error == cudaErrorMemoryAllocation ? CADRE_ENOMEMORY : CADRE_EDEVICE;
    return cadre_fail(status, "%.*s: %s (%s)", name_length(call), call, cudaGetErrorString(error),
                      cudaGetErrorName(error));
}

/* Returns the status of a cuBLAS call that has failed; the error text names it by `call`, its
 * source text. */
int
cadre_cublas_fail(cublasStatus_t error, const char *call)
{
    int status = error == CUBLAS_STATUS_ALLOC_FAILED ? CADRE_ENOMEMORY : CADRE_EDEVICE;
    return cadre_fail(status, "%.*s: %s", name_length(call), call, cublasLtGetStatusName(error));
}
