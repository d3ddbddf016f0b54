/* A native function for workers that works on the stream that it is given: "clear_half" gives `x`
 * with zeros in its first half, and whether there was a stream; on the CPU it needs none. */
#include <cadre/worker.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const float *x;
    float *y; /* pinned where there is a stream */
    size_t size_bytes;
    void *memory; /* on the device */
    cudaEvent_t done;
} work_t;

/* Enqueues all of it, then waits once. */
static cudaError_t
enqueue(const work_t *work, cudaStream_t stream)
{
    const size_t size_bytes = work->size_bytes;
    cudaError_t error =
        cudaMemcpyAsync(work->memory, work->y, size_bytes, cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess) {
        error = cudaMemsetAsync(work->memory, 0, size_bytes / 2, stream);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpyAsync(work->y, work->memory, size_bytes, cudaMemcpyDeviceToHost, stream);
    }
    if (error == cudaSuccess) {
        error = cudaEventRecord(work->done, stream);
    }
    return error == cudaSuccess ? cudaEventSynchronize(work->done) : error;
}

static cudaError_t
clear_on_stream(work_t *work, cudaStream_t stream)
{
    cudaError_t error = cudaMalloc(&work->memory, work->size_bytes);
    if (error == cudaSuccess) {
        error = cudaEventCreateWithFlags(&work->done, cudaEventDisableTiming);
    }
    if (error == cudaSuccess) {
        error = enqueue(work, stream);
        cudaEventDestroy(work->done);
    }
    cudaFree(work->memory);
    return error;
}

static int
clear(cadre_invocation_t *invocation, work_t *work, int64_t size)
{
    cudaStream_t stream = cadre_invocation_stream(invocation);
    cudaError_t error = cudaSuccess;
    memcpy(work->y, work->x, work->size_bytes);
    if (stream) {
        error = clear_on_stream(work, stream);
    } else {
        memset(work->y, 0, work->size_bytes / 2);
    }
    if (error != cudaSuccess) {
        return cadre_invocation_fail(invocation, CADRE_EDEVICE, "CUDA's error %d", (int)error);
    }
    float has_stream = stream != NULL;
    const cadre_tensor_t y = {.dtype = CADRE_F32, .rank = 1, .shape = {size}, .data = work->y};
    const cadre_tensor_t flag = {.dtype = CADRE_F32, .rank = 0, .data = &has_stream};
    int s = cadre_invocation_set_result(invocation, "y", &y);
    return s ? s : cadre_invocation_set_result(invocation, "has_stream", &flag);
}

/* Memory for the result, which a stream's copies reach. */
static float *
memory_new(size_t size_bytes, bool pinned)
{
    void *memory = NULL;
    if (!pinned) {
        return malloc(size_bytes);
    }
    return cudaMallocHost(&memory, size_bytes) == cudaSuccess ? memory : NULL;
}

static int
clear_half(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *x = cadre_invocation_argument(invocation, "x");
    if (!x || x->dtype != CADRE_F32 || x->rank != 1) {
        return cadre_invocation_fail(invocation, CADRE_EINVALID, "x is no f32 vector");
    }
    work_t work = {.x = x->data, .size_bytes = (size_t)x->shape[0] * sizeof(float)};
    bool pinned = cadre_invocation_stream(invocation) != NULL;
    work.y = memory_new(work.size_bytes, pinned);
    int s = work.y ? clear(invocation, &work, x->shape[0])
                   : cadre_invocation_fail(invocation, CADRE_ENOMEMORY, "no memory");
    pinned ? (void)cudaFreeHost(work.y) : free(work.y);
    return s;
}

int
cadre_native_register(cadre_registry_t *registry)
{
    return cadre_registry_add(registry, "clear_half", clear_half, NULL);
}
