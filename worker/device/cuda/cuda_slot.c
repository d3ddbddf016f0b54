#include "worker/device/cuda/cuda_slot.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "worker/device/cuda/conversion.h"
#include "worker/device/cuda/held.h"
#include "worker/device/cuda/indexes.h"

/* The slab is copied to the device in pieces of this size, so copying begins before it is full. */
#define PIECE_SIZE ((size_t)1 << 20)

struct cadre_cuda_slot {
    cadre_lane_t *lane;
    cadre_slot_options_t options;
    cudaStream_t stream; /* for recording graphs, and for native functions */
    cudaEvent_t in;
    cudaEvent_t ready[CADRE_LAYOUT_GROUPS_MAX];
    cudaEvent_t out[CADRE_LAYOUT_GROUPS_MAX];
    char *block; /* the slot's device memory; block and slabs only grow */
    size_t block_size_bytes;
    char *slab_in; /* pinned host memory for what is copied in, at the layout's offsets */
    size_t slab_in_size_bytes;
    char *slab_out; /* pinned host memory for what is copied out, from the layout's out_offset on */
    size_t slab_out_size_bytes;
    cadre_held_t held;
    cadre_cuda_conversion_t conversion;
    bool *direct; /* [output_count of the run]: the output is copied to the caller's memory, not to
                     the slab */
    int direct_room;

    cadre_execution_t *execution; /* of the run in progress */
    const cadre_slot_run_t *run;
};

/* ---- opening ---- */

/* Makes the slot's stream and events. */
static int
open_parts(cadre_cuda_slot_t *self)
{
    /* A thread that waits for an event sleeps: spinning would take a core from threads that
     * copy. */
    unsigned flags = cudaEventDisableTiming | cudaEventBlockingSync;
    CADRE_CUDA_TRY(cudaStreamCreateWithFlags(&self->stream, cudaStreamNonBlocking));
    CADRE_CUDA_TRY(cudaEventCreateWithFlags(&self->in, flags));
    for (int i = 0; i < CADRE_LAYOUT_GROUPS_MAX; i++) {
        CADRE_CUDA_TRY(cudaEventCreateWithFlags(&self->ready[i], flags));
        CADRE_CUDA_TRY(cudaEventCreateWithFlags(&self->out[i], flags));
    }
    return 0;
}

/* Opens a slot on a GPU; its memory is allocated when the first plan is prepared. */
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

/* Destroys an event, unless it was never made. */
static void
destroy_event(cudaEvent_t event)
{
    if (event) {
        cudaEventDestroy(event);
    }
}

/* Frees the slot. Ignores failures, as nothing of the slot is used any more. */
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

/* Returns the slot's stream for a native function, and selects the GPU for its thread. */
cudaStream_t
cadre_cuda_slot_stream(cadre_cuda_slot_t *self)
{
    cudaSetDevice(self->lane->index); /* the function uses the stream on this thread */
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

/* Makes a slab of pinned host memory at least so large; what was in it is lost. */
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

/* Makes room for a plan: device memory, and pinned host memory for what is copied in and out. */
static int
reserve(cadre_cuda_slot_t *self, const cadre_execution_t *execution)
{
    const cadre_layout_t *layout = cadre_execution_layout(execution);
    int status = grow_block(self, cadre_execution_size_bytes(execution));
    if (status < 0) {
        return status;
    }

    status = grow_slab(&self->slab_in, &self->slab_in_size_bytes, layout->in_size_bytes);
    if (status < 0) {
        return status;
    }

    status = grow_slab(&self->slab_out, &self->slab_out_size_bytes, layout->out_size_bytes);
    if (status < 0) {
        return status;
    }

    if (layout->output_count > self->direct_room) {
        self->direct_room = layout->output_count;
        self->direct = cadre_realloc(self->direct, (size_t)self->direct_room, sizeof(bool));
    }
    return 0;
}

/* Makes a plan ready for this slot, with its memory. */
int
cadre_cuda_slot_prepare(cadre_cuda_slot_t *self, const cadre_plan_t *plan, cadre_execution_t **out)
{
    cadre_auto(cadre_execution_destroy) cadre_execution_t *execution = NULL;
    int status = cadre_lane_enter(self->lane);
    if (status < 0) {
        return cadre_lane_note(self->lane, status);
    }

    status = cadre_execution_new(self->lane, plan, &execution);
    if (status < 0) {
        return cadre_lane_note(self->lane, status);
    }

    status = reserve(self, execution);
    if (status < 0) {
        return cadre_lane_note(self->lane, status);
    }

    *out = execution;
    execution = NULL;
    return 0;
}

/* Frees what was prepared of a plan. */
void
cadre_cuda_slot_release(cadre_cuda_slot_t *self, cadre_execution_t **execution_p)
{
    cudaSetDevice(self->lane->index);
    cadre_execution_destroy(execution_p);
}

/* ---- copying in ---- */

/* How far the slab is filled, and how far it has been sent (copies enqueued), as offsets. */
typedef struct {
    size_t filled;
    size_t sent;
} progress_t;

/* Enqueues the copy of what was collected in the slab, up to offset `end`, to the device. */
static int
send(cadre_cuda_slot_t *self, progress_t *progress, size_t end)
{
    if (end > progress->sent) {
        CADRE_CUDA_TRY(cudaMemcpyAsync(self->block + progress->sent, self->slab_in + progress->sent,
                                       end - progress->sent, cudaMemcpyHostToDevice,
                                       self->lane->copy_in));
        progress->sent = end;
    }
    return 0;
}

/* Collects an input in the slab, and enqueues copies of full pieces while later ones are filled. */
static int
put(cadre_cuda_slot_t *self, progress_t *progress, size_t offset, const void *data,
    size_t size_bytes)
{
    cadre_assert(self->slab_in || size_bytes == 0);
    for (size_t done = 0; done < size_bytes;) {
        size_t left = size_bytes - done;
        size_t count = left < PIECE_SIZE ? left : PIECE_SIZE;
        memcpy(self->slab_in + offset + done, (const char *)data + done, count);
        done += count;
        progress->filled = offset + done;
        if (progress->filled - progress->sent >= PIECE_SIZE) {
            int status = send(self, progress, progress->filled);
            if (status < 0) {
                return status;
            }
        }
    }
    return 0;
}

/* Returns whether the device can copy from this host memory by itself (cadre_device_memory_new). */
static bool
is_pinned(const void *memory)
{
    struct cudaPointerAttributes attributes;
    bool known = cudaPointerGetAttributes(&attributes, memory) == cudaSuccess;
    if (!known) {
        cudaGetLastError();
    }
    return known && attributes.type == cudaMemoryTypeHost;
}

/* Enqueues a copy of an input from the caller's memory, which is pinned or on the device. What the
 * slab has before it goes first, since copies run in the order of offsets. */
static int
put_directly(cadre_cuda_slot_t *self, progress_t *progress, const cadre_layout_input_t *input,
             const void *data)
{
    int status = send(self, progress, progress->filled);
    if (status < 0) {
        return status;
    }
    CADRE_CUDA_TRY(
        cudaMemcpyAsync(self->block + input->offset, data, input->size_bytes,
                        self->run->resident ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice,
                        self->lane->copy_in));
    progress->filled = progress->sent = input->offset + input->size_bytes;
    return 0;
}

/* Copies an argument in: from the device for a resident run (its inputs are there), else by the
 * slab. */
static int
put_argument(cadre_cuda_slot_t *self, progress_t *progress, const cadre_layout_input_t *input)
{
    const void *data = self->run->arguments[input->index].data;
    return self->run->resident ? put_directly(self, progress, input, data)
                               : put(self, progress, input->offset, data, input->size_bytes);
}

/* Copies a bf16 variable in: first what was collected before it is sent, since it goes to other
 * memory of the device and is converted there. */
static int
put_bf16(cadre_cuda_slot_t *self, progress_t *progress, const cadre_layout_input_t *input)
{
    const void *data = self->run->variables[input->index];
    int status = send(self, progress, progress->filled);
    if (status < 0) {
        return status;
    }

    progress->filled = progress->sent = input->offset + input->size_bytes;
    if (!is_pinned(data)) {
        data = memcpy(self->slab_in + input->offset, data, input->size_bytes / 2);
    }
    return cadre_cuda_conversion_copy_in(&self->conversion, data, input, self->block,
                                         self->lane->copy_in);
}

/* Copies a variable in, unless the device holds the same content already. Large values in pinned
 * memory are copied from there; others go by the slab. */
static int
put_variable(cadre_cuda_slot_t *self, progress_t *progress, const cadre_layout_input_t *input)
{
    const void *data = self->run->variables[input->index];
    uint64_t version = self->run->versions ? self->run->versions[input->index] : 0;
    /* The values are in their place already: send what was collected before, and skip the place. */
    if (cadre_held_has(&self->held, input, version)) {
        int status = send(self, progress, progress->filled);
        progress->filled = progress->sent = input->offset + input->size_bytes;
        return status;
    }
    if (cadre_cuda_conversion_has_variable(self->run, input)) {
        return put_bf16(self, progress, input);
    }
    bool directly = self->run->resident || (input->size_bytes >= PIECE_SIZE && is_pinned(data));
    return directly ? put_directly(self, progress, input, data)
                    : put(self, progress, input->offset, data, input->size_bytes);
}

/* Enqueues the copies of everything that the run reads, and the event `in` after them. Copies are
 * made from pinned memory: the caller's, where it is pinned, else a slab, whose first pieces are
 * copied while later ones are still being filled. */
static int
copy_in(cadre_cuda_slot_t *self)
{
    const cadre_layout_t *layout = cadre_execution_layout(self->execution);
    progress_t progress = {0};
    int status =
        put(self, &progress, layout->seed_offset, &self->run->seed, sizeof(self->run->seed));
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < layout->variable_count; i++) {
        status = put_variable(self, &progress, &layout->variables[i]);
        if (status < 0) {
            return status;
        }
    }

    for (int i = 0; i < layout->argument_count; i++) {
        status = put_argument(self, &progress, &layout->arguments[i]);
        if (status < 0) {
            return status;
        }
    }

    status = send(self, &progress, progress.filled);
    if (status < 0) {
        return status;
    }

    cadre_held_set(&self->held, layout, self->run->versions);
    CADRE_CUDA_TRY(cudaEventRecord(self->in, self->lane->copy_in));
    return 0;
}

/* ---- copying out ---- */

/* Returns the caller's memory for an output: a gradient or a result. */
static void *
destination(const cadre_slot_run_t *run, cadre_plan_place_t place)
{
    return place.kind == CADRE_PLACE_GRADIENT ? run->gradients[place.index]
                                              : run->results[place.index].data;
}

/* Enqueues a copy out of the slot's block of device memory, and does not wait for it. */
static int
enqueue_copy_out(cadre_cuda_slot_t *self, void *to, size_t offset, size_t size_bytes,
                 enum cudaMemcpyKind kind)
{
    if (size_bytes > 0) {
        CADRE_CUDA_TRY(
            cudaMemcpyAsync(to, self->block + offset, size_bytes, kind, self->lane->copy_out));
    }
    return 0;
}

/* Enqueues the copy of the outputs between two offsets to the slab, as one. */
static int
copy_to_slab(cadre_cuda_slot_t *self, size_t begin, size_t end)
{
    size_t base = cadre_execution_layout(self->execution)->out_offset;
    return end > begin ? enqueue_copy_out(self, self->slab_out + (begin - base), begin, end - begin,
                                          cudaMemcpyDeviceToHost)
                       : 0;
}

/* Enqueues the conversion of an output to bf16 and its copy: to the caller's memory `to` if
 * `direct`, else to the slab. */
static int
copy_bf16_out(cadre_cuda_slot_t *self, const cadre_layout_output_t *output, void *to, bool direct)
{
    size_t base = cadre_execution_layout(self->execution)->out_offset;
    return cadre_cuda_conversion_copy_out(&self->conversion, output, self->block,
                                          direct ? to : self->slab_out + (output->offset - base),
                                          self->lane->copy_out);
}

/* Enqueues the copies of a group of outputs that is ready. A large output in pinned memory, and a
 * gradient of a resident run, goes straight to the caller; bf16 gradients are converted; the others
 * go to the slab, consecutive ones as one copy. */
static int
copy_group(cadre_cuda_slot_t *self, const cadre_layout_group_t *group)
{
    const cadre_layout_t *layout = cadre_execution_layout(self->execution);
    size_t begin = group->offset;
    for (int i = group->first; i < group->first + group->count; i++) {
        const cadre_layout_output_t *output = &layout->outputs[i];
        void *to = destination(self->run, output->place);
        bool stays = self->run->resident && output->place.kind == CADRE_PLACE_GRADIENT;
        bool is_bf16 = cadre_cuda_conversion_has_gradient(self->run, output);
        self->direct[i] = stays || ((is_bf16 || output->size_bytes >= PIECE_SIZE) && is_pinned(to));
        if (!self->direct[i] && !is_bf16) {
            continue;
        }

        int status = copy_to_slab(self, begin, output->offset);
        if (status < 0) {
            return status;
        }

        begin = output->offset + output->size_bytes;
        if (is_bf16) {
            status = copy_bf16_out(self, output, to, self->direct[i]);
        } else {
            status = enqueue_copy_out(self, to, output->offset, output->size_bytes,
                                      stays ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost);
        }
        if (status < 0) {
            return status;
        }
    }

    return copy_to_slab(self, begin, group->offset + group->size_bytes);
}

/* Enqueues the copies of everything that the run gives, group by group as they become ready. */
static int
copy_out(cadre_cuda_slot_t *self)
{
    const cadre_layout_t *layout = cadre_execution_layout(self->execution);
    int status = cadre_cuda_conversion_begin_out(&self->conversion, self->lane->copy_out);
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < layout->group_count; i++) {
        CADRE_CUDA_TRY(cudaStreamWaitEvent(self->lane->copy_out, self->ready[i], 0));
        status = copy_group(self, &layout->groups[i]);
        if (status < 0) {
            return status;
        }

        if (i == layout->group_count - 1) {
            status = cadre_cuda_conversion_end_out(&self->conversion, self->lane->copy_out);
            if (status < 0) {
                return status;
            }
        }
        CADRE_CUDA_TRY(cudaEventRecord(self->out[i], self->lane->copy_out));
    }
    return 0;
}

/* Waits for the copies out, copies the outputs that went to the slab to the caller's memory (others
 * are there already: `direct`), and gives the flags that the device has set. */
static int
take(cadre_cuda_slot_t *self, int32_t flags[CADRE_LAYOUT_FLAGS])
{
    const cadre_layout_t *layout = cadre_execution_layout(self->execution);
    for (int i = 0; i < layout->group_count; i++) {
        const cadre_layout_group_t *group = &layout->groups[i];
        CADRE_CUDA_TRY(cudaEventSynchronize(self->out[i]));
        for (int k = group->first; k < group->first + group->count; k++) {
            const cadre_layout_output_t *output = &layout->outputs[k];
            /* A gradient in bf16 has half the bytes of its f32 form. */
            size_t shrink = cadre_cuda_conversion_has_gradient(self->run, output) ? 2 : 1;
            if (!self->direct[k] && output->size_bytes > 0) {
                memcpy(destination(self->run, output->place),
                       self->slab_out + (output->offset - layout->out_offset),
                       output->size_bytes / shrink);
            }
        }
    }
    memcpy(flags, self->slab_out + (layout->flags_offset - layout->out_offset),
           CADRE_LAYOUT_FLAGS * sizeof(*flags));
    return 0;
}

/* ---- running ---- */

/* Enqueues the plan on the stream for computing, after the copies in, and then the copies out. */
static int
compute(cadre_cuda_slot_t *self, const cadre_execution_memory_t *memory)
{
    CADRE_CUDA_TRY(cudaStreamWaitEvent(self->lane->compute, self->in, 0));
    int status = cadre_execution_enqueue(self->execution, memory, self->lane->compute);
    if (status < 0) {
        return status;
    }

    return copy_out(self);
}

/* Enqueues a run as a whole, without another slot's between: copies out are then in the order in
 * which runs are computed. */
static int
compute_in_turn(cadre_cuda_slot_t *self, const cadre_execution_memory_t *memory)
{
    pthread_mutex_lock(&self->lane->mutex);
    int status = compute(self, memory);
    pthread_mutex_unlock(&self->lane->mutex);
    return status;
}

/* Returns the memory and events that the slot's plans run with. */
static cadre_execution_memory_t
memory_of(cadre_cuda_slot_t *self)
{
    return (cadre_execution_memory_t){
        .block = self->block, .ready = self->ready, .poison = self->options.checks.poison};
}

/* Enqueues a run: the graph is recorded first if it may be, then copies in, computing, copies
 * out. */
static int
enqueue(cadre_cuda_slot_t *self)
{
    cadre_execution_memory_t memory = memory_of(self);
    if (!self->options.checks.no_graph) {
        int status = cadre_execution_record(self->execution, &memory, self->stream);
        if (status < 0) {
            return status;
        }
    }

    int status = copy_in(self);
    if (status < 0) {
        return status;
    }

    return compute_in_turn(self, &memory);
}

/* Makes room for the run and enqueues it. */
static int
start(cadre_cuda_slot_t *self)
{
    int status = reserve(self, self->execution);
    if (status < 0) {
        return status;
    }

    status = cadre_cuda_conversion_reserve(&self->conversion,
                                           cadre_execution_layout(self->execution), self->run);
    if (status < 0) {
        return status;
    }

    status = enqueue(self);
    if (status < 0) { /* which values are in the block is unknown */
        cadre_held_clear(&self->held);
    }
    return status;
}

/* Starts a run, after checking the indexes among its arguments; cadre_cuda_slot_wait ends it. */
int
cadre_cuda_slot_run(cadre_cuda_slot_t *self, cadre_execution_t *execution,
                    const cadre_slot_run_t *run)
{
    int status = cadre_lane_enter(self->lane);
    if (status < 0) {
        return cadre_lane_note(self->lane, status);
    }

    if (!run->resident) { /* indexes in device memory are checked by the kernels only */
        status = cadre_cuda_check_indexes(cadre_execution_plan(execution), run);
        if (status < 0) {
            return cadre_lane_note(self->lane, status);
        }
    }

    self->execution = execution;
    self->run = run;
    return cadre_lane_note(self->lane, start(self));
}

/* Runs the plan once more without the epilogues that may lose a NaN. Its inputs are still in the
 * block, since no step writes there. */
static int
run_plain(cadre_cuda_slot_t *self)
{
    cadre_execution_make_plain(self->execution);
    cadre_execution_memory_t memory = memory_of(self);
    return compute_in_turn(self, &memory);
}

/* Waits for the run and takes its outputs. When a number was NaN or too large for a fused epilogue,
 * runs the plan again without these; fails when an index that the program computed was out of
 * range. */
static int
finish(cadre_cuda_slot_t *self)
{
    int32_t flags[CADRE_LAYOUT_FLAGS] = {0};
    int status = take(self, flags);
    if (status < 0) {
        return status;
    }

    if (flags[CADRE_LAYOUT_FLAG_LARGE]) {
        status = run_plain(self);
        if (status < 0) {
            return status;
        }

        status = take(self, flags);
        if (status < 0) {
            return status;
        }
    }

    if (flags[CADRE_LAYOUT_FLAG_FAULT]) {
        return cadre_cuda_refuse_computed(flags[CADRE_LAYOUT_FLAG_FAULT]);
    }

    cadre_cuda_conversion_report(&self->conversion, self->run);
    return 0;
}

/* Waits for the run that was started, and returns its status. */
int
cadre_cuda_slot_wait(cadre_cuda_slot_t *self)
{
    int status = cadre_lane_enter(self->lane);
    if (status == 0) {
        status = finish(self);
    }

    self->execution = NULL;
    self->run = NULL;
    return cadre_lane_note(self->lane, status);
}
