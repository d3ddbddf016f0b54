#include "worker/device/cuda/cuda_slot.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "worker/device/cuda/cuda_slot_state.h"
#include "worker/device/cuda/indexes.h"

/* ---- opening ---- */

static int
open_parts(cadre_cuda_slot_t *self)
{
    /* Whoever waits sleeps: a slot's thread that spins takes a core from those that copy. */
    unsigned flags = cudaEventDisableTiming | cudaEventBlockingSync;
    CADRE_CUDA_TRY(cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking));
    CADRE_CUDA_TRY(cudaEventCreateWithFlags(&self->in, flags));
    for (int i = 0; i < CADRE_LAYOUT_GROUPS_MAX; i++) {
        CADRE_CUDA_TRY(cudaEventCreateWithFlags(&self->ready[i], flags));
        CADRE_CUDA_TRY(cudaEventCreateWithFlags(&self->out[i], flags));
    }
    return 0;
}

int
cadre_cuda_slot_open(cadre_lane_t *lane, const cadre_slot_options_t *options,
                     cadre_cuda_slot_t **out)
{
    int status = cadre_lane_enter(lane);
    if (status < 0) {
        return status;
    }
    cadre_auto(cadre_cuda_slot_close) cadre_cuda_slot_t *self = cadre_calloc(1, sizeof(*self));
    self->lane = lane;
    self->options = *options;
    status = cadre_lane_note(lane, open_parts(self));
    if (status < 0) {
        return status;
    }
    *out = self;
    self = NULL;
    return 0;
}

static void
destroy_event(cudaEvent_t event)
{
    if (event) {
        cudaEventDestroy(event);
    }
}

/* Failures are of no interest any more. */
void
cadre_cuda_slot_close(cadre_cuda_slot_t **self_p)
{
    cadre_cuda_slot_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cudaSetDevice(self->lane->index);
    destroy_event(self->in);
    for (int i = 0; i < CADRE_LAYOUT_GROUPS_MAX; i++) {
        destroy_event(self->ready[i]);
        destroy_event(self->out[i]);
    }
    if (self->stream) {
        cudaStreamDestroy(self->stream);
    }
    cudaFree(self->block);
    cudaFreeHost(self->slab_in);
    cudaFreeHost(self->slab_out);
    cadre_held_fini(&self->held);
    cadre_cuda_conversion_fini(&self->conversion);
    free(self->direct);
    free(self);
}

size_t
cadre_cuda_slot_size_bytes(const cadre_cuda_slot_t *self)
{
    return self->block_size_bytes + self->conversion.size_bytes;
}

cudaStream_t
cadre_cuda_slot_stream(cadre_cuda_slot_t *self)
{
    cudaSetDevice(self->lane->index); /* for the function that will use it on this thread */
    return self->stream;
}

/* ---- memory ---- */

/* Makes the slot's device memory at least so large; what was kept in it is lost. */
static int
grow_block(cadre_cuda_slot_t *self, size_t size_bytes)
{
    size_t limit = self->options.memory_size_max;
    if (limit > 0 && size_bytes > limit) {
        return cadre_fail(CADRE_ENOMEMORY, "the program needs %zu bytes, the limit is %zu",
                          size_bytes, limit);
    }
    if (size_bytes <= self->block_size_bytes) {
        return 0;
    }
    cadre_held_clear(&self->held);
    CADRE_CUDA_TRY(cudaFree(self->block));
    self->block = NULL;
    self->block_size_bytes = 0;
    void *memory = NULL;
    cudaError_t error = cudaMalloc(&memory, size_bytes);
    if (error != cudaSuccess) {
        int status = cadre_cuda_fail(error, "cudaMalloc");
        return cadre_fail_within(status, "%zu bytes for the program", size_bytes);
    }
    self->block = memory;
    self->block_size_bytes = size_bytes;
    return 0;
}

static int
grow_slab(char **slab, size_t *slab_size_bytes, size_t size_bytes)
{
    if (size_bytes <= *slab_size_bytes) {
        return 0;
    }
    CADRE_CUDA_TRY(cudaFreeHost(*slab));
    *slab = NULL;
    *slab_size_bytes = 0;
    void *memory = NULL;
    CADRE_CUDA_TRY(cudaMallocHost(&memory, size_bytes));
    *slab = memory;
    *slab_size_bytes = size_bytes;
    return 0;
}

static int
reserve(cadre_cuda_slot_t *self, const cadre_execution_t *execution)
{
    const cadre_layout_t *layout = cadre_execution_layout(execution);
    int status = grow_block(self, cadre_execution_size_bytes(execution));
    if (status == 0) {
        status = grow_slab(&self->slab_in, &self->slab_in_size_bytes, layout->in_size_bytes);
    }
    if (status == 0) {
        status = grow_slab(&self->slab_out, &self->slab_out_size_bytes, layout->out_size_bytes);
    }
    if (status == 0 && layout->output_count > self->direct_room) {
        self->direct_room = layout->output_count;
        self->direct = cadre_realloc(self->direct, (size_t)self->direct_room, sizeof(bool));
    }
    return status;
}

int
cadre_cuda_slot_prepare(cadre_cuda_slot_t *self, const cadre_plan_t *plan, cadre_execution_t **out)
{
    cadre_auto(cadre_execution_destroy) cadre_execution_t *execution = NULL;
    int status = cadre_lane_enter(self->lane);
    status = status < 0 ? status : cadre_execution_new(self->lane, plan, &execution);
    status = status < 0 ? status : reserve(self, execution);
    if (status < 0) {
        return cadre_lane_note(self->lane, status);
    }
    *out = execution;
    execution = NULL;
    return 0;
}

void
cadre_cuda_slot_release(cadre_cuda_slot_t *self, cadre_execution_t **execution_p)
{
    cudaSetDevice(self->lane->index);
    cadre_execution_destroy(execution_p);
}

/* ---- running ---- */

static int
compute(cadre_cuda_slot_t *self, const cadre_execution_memory_t *memory)
{
    CADRE_CUDA_TRY(cudaStreamWaitEvent(self->lane->compute, self->in, 0));
    int status = cadre_execution_enqueue(self->execution, memory, self->lane->compute);
    return status < 0 ? status : cadre_cuda_slot_copy_out(self);
}

static int
compute_in_turn(cadre_cuda_slot_t *self, const cadre_execution_memory_t *memory)
{
    pthread_mutex_lock(&self->lane->mutex);
    int status = compute(self, memory);
    pthread_mutex_unlock(&self->lane->mutex);
    return status;
}

static cadre_execution_memory_t
memory_of(cadre_cuda_slot_t *self)
{
    return (cadre_execution_memory_t){
        .block = self->block, .ready = self->ready, .poison = self->options.poison};
}

static int
start(cadre_cuda_slot_t *self)
{
    int status = reserve(self, self->execution);
    status = status < 0 ? status
                        : cadre_cuda_conversion_reserve(&self->conversion,
                                                        cadre_execution_layout(self->execution),
                                                        self->run);
    if (status < 0) {
        return status;
    }
    cadre_execution_memory_t memory = memory_of(self);
    if (!self->options.no_graph) {
        status = cadre_execution_record(self->execution, &memory, self->stream);
    }
    status = status < 0 ? status : cadre_cuda_slot_copy_in(self);
    status = status < 0 ? status : compute_in_turn(self, &memory);
    if (status < 0) {
        cadre_held_clear(&self->held);
    }
    return status;
}

int
cadre_cuda_slot_run(cadre_cuda_slot_t *self, cadre_execution_t *execution,
                    const cadre_slot_run_t *run)
{
    int status = cadre_lane_enter(self->lane);
    if (status == 0 && !run->resident) { /* what is on the device already, the kernels check */
        status = cadre_cuda_check_indexes(cadre_execution_plan(execution), run);
    }
    if (status < 0) {
        return cadre_lane_note(self->lane, status);
    }
    self->execution = execution;
    self->run = run;
    return cadre_lane_note(self->lane, start(self));
}

/* The inputs are still in the block: nothing writes there. */
static int
run_plain(cadre_cuda_slot_t *self)
{
    cadre_execution_make_plain(self->execution);
    cadre_execution_memory_t memory = memory_of(self);
    return compute_in_turn(self, &memory);
}

static int
finish(cadre_cuda_slot_t *self)
{
    int32_t flags[CADRE_LAYOUT_FLAGS] = {0};
    int status = cadre_cuda_slot_take(self, flags);
    if (status == 0 && flags[CADRE_LAYOUT_FLAG_LARGE]) {
        status = run_plain(self);
        status = status < 0 ? status : cadre_cuda_slot_take(self, flags);
    }
    if (status == 0 && flags[CADRE_LAYOUT_FLAG_FAULT]) {
        return cadre_fail(CADRE_EDATA, "an index that the program computes is out of range");
    }
    if (status == 0) {
        cadre_cuda_conversion_report(&self->conversion, self->run);
    }
    return status;
}

int
cadre_cuda_slot_wait(cadre_cuda_slot_t *self)
{
    int status = cadre_lane_enter(self->lane);
    status = status < 0 ? status : finish(self);
    self->execution = NULL;
    self->run = NULL;
    return cadre_lane_note(self->lane, status);
}
