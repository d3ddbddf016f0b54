#include "worker/device/cuda/lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

/* Gives how cuBLAS multiplies f32 matrices for a math mode: exactly, or with factors rounded to
 * tf32 or bf16. */
static int
find_math(const char *text, cublasComputeType_t *out)
{
    static const struct {
        const char *text;
        cublasComputeType_t type;
    } modes[] = {{"f32", CUBLAS_COMPUTE_32F},
                 {"tf32", CUBLAS_COMPUTE_32F_FAST_TF32},
                 {"bf16", CUBLAS_COMPUTE_32F_FAST_16BF}};
    for (size_t i = 0; i < CADRE_COUNT_OF(modes); i++) {
        if (strcmp(modes[i].text, text) == 0) {
            *out = modes[i].type;
            return 0;
        }
    }
    return cadre_fail(CADRE_EINVALID, "math \"%s\" is none of f32, tf32, bf16", text);
}

/* Selects the GPU of the request for this thread. Fails with CADRE_EUNAVAILABLE for a missing
 * driver or GPU, or a GPU that does not work. */
static int
find_device(const cadre_device_request_t *request)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
        int driver = 0;
        int runtime = 0;
        cudaDriverGetVersion(&driver);
        cudaRuntimeGetVersion(&runtime);
        return cadre_fail(
            CADRE_EUNAVAILABLE,
            "%s (the driver is for CUDA %d.%d, this build %d.%d); nvidia-smi lists the GPUs, "
            "CUDA_VISIBLE_DEVICES hides some",
            cudaGetErrorString(error), driver / 1000, driver % 1000 / 10, runtime / 1000,
            runtime % 1000 / 10);
    }
    if (request->index >= count) {
        return cadre_fail(CADRE_EUNAVAILABLE,
                          "of the GPUs here (%d) the last is cuda:%d; nvidia-smi lists them, "
                          "CUDA_VISIBLE_DEVICES hides some",
                          count, count - 1);
    }
    error = cudaSetDevice(request->index);
    if (error != cudaSuccess) {
        return cadre_fail(CADRE_EUNAVAILABLE, "%s", cudaGetErrorString(error));
    }
    return 0;
}

/* Makes the streams, cuBLAS and its workspace. GPUs before compute capability 8.0 are refused. */
static int
open_parts(cadre_lane_t *self, const cadre_device_request_t *request)
{
    struct cudaDeviceProp properties;
    CADRE_CUDA_TRY(cudaGetDeviceProperties(&properties, request->index));
    if (properties.major < 8) {
        return cadre_fail(CADRE_EUNAVAILABLE, "%s has compute capability %d.%d, 8.0 is needed",
                          properties.name, properties.major, properties.minor);
    }
    snprintf(self->name, sizeof(self->name), "cuda:%d %.64s %s", request->index, properties.name,
             request->math);
    CADRE_CUDA_TRY(cudaStreamCreateWithFlags(&self->copy_in, cudaStreamNonBlocking));
    CADRE_CUDA_TRY(cudaStreamCreateWithFlags(&self->compute, cudaStreamNonBlocking));
    CADRE_CUDA_TRY(cudaStreamCreateWithFlags(&self->copy_out, cudaStreamNonBlocking));
    CADRE_CUBLAS_TRY(cublasLtCreate(&self->cublas));
    CADRE_CUDA_TRY(cudaMalloc(&self->workspace, CADRE_LANE_WORKSPACE_SIZE));
    return 0;
}

/* Opens a GPU. Whatever fails on it counts as CADRE_EUNAVAILABLE: it cannot be used. */
int
cadre_lane_open(const cadre_device_request_t *request, cadre_lane_t **out)
{
    cublasComputeType_t math = CUBLAS_COMPUTE_32F;
    int status = find_math(request->math, &math);
    status = status < 0 ? status : find_device(request);
    if (status < 0) {
        return status;
    }
    cadre_lane_t *self = cadre_calloc(1, sizeof(*self));
    self->index = request->index;
    self->math = math;
    atomic_init(&self->lost, false);
    pthread_mutex_init(&self->mutex, NULL);
    status = open_parts(self, request);
    if (status < 0) {
        cadre_lane_close(&self);
        return status == CADRE_EUNAVAILABLE
                   ? status
                   : cadre_fail_within(CADRE_EUNAVAILABLE, "GPU %d", request->index);
    }
    *out = self;
    return 0;
}

/* Closes the GPU. Ignores failures, as nothing of the lane is used any more. */
void
cadre_lane_close(cadre_lane_t **self_p)
{
    cadre_lane_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cudaSetDevice(self->index);
    cudaFree(self->workspace);
    if (self->cublas) {
        cublasLtDestroy(self->cublas);
    }
    cudaStream_t streams[] = {self->copy_in, self->compute, self->copy_out};
    for (size_t i = 0; i < CADRE_COUNT_OF(streams); i++) {
        if (streams[i]) {
            cudaStreamDestroy(streams[i]);
        }
    }
    pthread_mutex_destroy(&self->mutex);
    free(self);
}

/* Selects the GPU for the calling thread. Fails when an earlier call has lost the device: CUDA
 * cannot use it again in this process. */
int
cadre_lane_enter(const cadre_lane_t *self)
{
    if (atomic_load(&self->lost)) {
        return cadre_fail(CADRE_EDEVICE, "%s failed before", self->name);
    }
    CADRE_CUDA_TRY(cudaSetDevice(self->index));
    return 0;
}

/* Returns `status`; marks the lane as lost if that is CADRE_EDEVICE, so that all further calls fail
 * at once. */
int
cadre_lane_note(cadre_lane_t *self, int status)
{
    if (status == CADRE_EDEVICE) {
        atomic_store(&self->lost, true);
    }
    return status;
}

/* ---- memory ---- */

/* Allocates memory on the GPU that this thread has selected. */
int
cadre_lane_buffer_new(size_t size_bytes, void **buffer)
{
    cudaError_t error = cudaMalloc(buffer, size_bytes);
    if (error != cudaSuccess) {
        int status = cadre_cuda_fail(error, "cudaMalloc");
        return cadre_fail_within(status, "a buffer of %zu bytes", size_bytes);
    }
    return 0;
}

/* Copies from the host to the GPU by way of pinned memory: cudaMemcpy from other memory may return
 * before the data has reached the device, and our streams do not wait for such a copy. */
int
cadre_lane_buffer_write(void *buffer, const void *from, size_t size_bytes)
{
    void *pinned = NULL;
    CADRE_CUDA_TRY(cudaMallocHost(&pinned, size_bytes));
    memcpy(pinned, from, size_bytes);
    cudaError_t error = cudaMemcpy(buffer, pinned, size_bytes, cudaMemcpyHostToDevice);
    cudaFreeHost(pinned);
    return error == cudaSuccess ? 0 : cadre_cuda_fail(error, "cudaMemcpy");
}

int
cadre_lane_buffer_read(const void *buffer, void *to, size_t size_bytes)
{
    CADRE_CUDA_TRY(cudaMemcpy(to, buffer, size_bytes, cudaMemcpyDeviceToHost));
    return 0;
}
