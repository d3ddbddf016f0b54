/* The module's one symbol, and device_module.h's functions on top of lane and cuda_slot. */
#include <stdint.h>

#include "worker/device/cuda/cuda_slot.h"
#include "worker/device/cuda/lane.h"

/* Opens a GPU as a device. */
static int
cuda_open(const cadre_device_request_t *request, void **device)
{
    cadre_lane_t *lane = NULL;
    int status = cadre_lane_open(request, &lane);
    *device = lane;
    return status;
}

static int
cuda_count(void)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

static void
cuda_close(void *device)
{
    cadre_lane_t *lane = device;
    cadre_lane_close(&lane);
}

static const char *
cuda_name(const void *device)
{
    const cadre_lane_t *lane = device;
    return lane->name;
}

/* Allocates pinned host memory, from and to which the device copies fastest; NULL when there is
 * none. */
static void *
cuda_memory_new(void *device, size_t size_bytes)
{
    cadre_lane_t *lane = device;
    void *memory = NULL;
    int status = cadre_lane_enter(lane);
    if (status < 0 || cudaMallocHost(&memory, size_bytes) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    return memory;
}

static void
cuda_memory_free(void *device, void *memory)
{
    const cadre_lane_t *lane = device;
    cudaSetDevice(lane->index);
    cudaFreeHost(memory);
}

static int
cuda_buffer_new(void *device, size_t size_bytes, void **buffer)
{
    cadre_lane_t *lane = device;
    int status = cadre_lane_enter(lane);
    return status < 0 ? status : cadre_lane_note(lane, cadre_lane_buffer_new(size_bytes, buffer));
}

static void
cuda_buffer_free(void *device, void *buffer)
{
    const cadre_lane_t *lane = device;
    cudaSetDevice(lane->index);
    cudaFree(buffer);
}

static int
cuda_buffer_write(void *device, void *buffer, const void *from, size_t size_bytes)
{
    cadre_lane_t *lane = device;
    int status = cadre_lane_enter(lane);
    return status < 0 ? status
                      : cadre_lane_note(lane, cadre_lane_buffer_write(buffer, from, size_bytes));
}

static int
cuda_buffer_read(void *device, const void *buffer, void *to, size_t size_bytes)
{
    cadre_lane_t *lane = device;
    int status = cadre_lane_enter(lane);
    return status < 0 ? status
                      : cadre_lane_note(lane, cadre_lane_buffer_read(buffer, to, size_bytes));
}

static int
cuda_slot_open(void *device, const cadre_slot_options_t *options, void **slot)
{
    cadre_cuda_slot_t *self = NULL;
    int status = cadre_cuda_slot_open(device, options, &self);
    *slot = self;
    return status;
}

static void
cuda_slot_close(void *slot)
{
    cadre_cuda_slot_t *self = slot;
    cadre_cuda_slot_close(&self);
}

static int
cuda_prepare(void *slot, const cadre_plan_t *plan, void **prepared)
{
    cadre_execution_t *execution = NULL;
    int status = cadre_cuda_slot_prepare(slot, plan, &execution);
    *prepared = execution;
    return status;
}

static void
cuda_release(void *slot, void *prepared)
{
    cadre_execution_t *execution = prepared;
    cadre_cuda_slot_release(slot, &execution);
}

static int
cuda_run(void *slot, void *prepared, const cadre_slot_run_t *run)
{
    return cadre_cuda_slot_run(slot, prepared, run);
}

static int
cuda_wait(void *slot)
{
    return cadre_cuda_slot_wait(slot);
}

static size_t
cuda_arena_size_bytes(const void *slot)
{
    return cadre_cuda_slot_size_bytes(slot);
}

static void *
cuda_stream(void *slot)
{
    return cadre_cuda_slot_stream(slot);
}

/* Returns the module: the functions of the CUDA device, and the build that they are of. */
const cadre_device_module_t *
cadre_device_module(void)
{
    static const cadre_device_functions_t functions = {
        .plan_flags = CADRE_PLAN_REUSE | CADRE_PLAN_CHAINS | CADRE_PLAN_FUSE,
        .error_text = cadre_error_text,
        .open = cuda_open,
        .count = cuda_count,
        .close = cuda_close,
        .name = cuda_name,
        .memory_new = cuda_memory_new,
        .memory_free = cuda_memory_free,
        .buffer_new = cuda_buffer_new,
        .buffer_free = cuda_buffer_free,
        .buffer_write = cuda_buffer_write,
        .buffer_read = cuda_buffer_read,
        .slot_open = cuda_slot_open,
        .slot_close = cuda_slot_close,
        .prepare = cuda_prepare,
        .release = cuda_release,
        .run = cuda_run,
        .wait = cuda_wait,
        .arena_size_bytes = cuda_arena_size_bytes,
        .stream = cuda_stream,
        .dtypes = 1U << CADRE_BF16, /* conversion.h */
    };
    static const cadre_device_module_t module = {
        .abi = CADRE_DEVICE_ABI, .layout = CADRE_DEVICE_LAYOUT, .functions = &functions};
    return &module;
}
