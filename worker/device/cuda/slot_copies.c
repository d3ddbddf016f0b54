/*
 * slot_copies - what a run needs on its way to the device, and what comes of it on its way back.
 *
 * By pinned memory: the caller's own where it is pinned, else a slab that is filled while what
 * stands in it already is copied.
 */
#include <string.h>

#include "common/base/assert.h"
#include "worker/device/cuda/cuda_slot_state.h"

/* Copies begin before all of the slab is filled, in pieces of this size. */
#define PIECE_SIZE ((size_t)1 << 20)

/* ---- copying in ---- */

/* What of the slab is filled, and what of that is on its way. */
typedef struct {
    size_t filled;
    size_t sent;
} progress_t;

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

/* Whether the device reaches this host memory itself (cadre_device_memory_new). */
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

/* Straight from where it is: pinned memory, or the device's own. */
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

static int
put_argument(cadre_cuda_slot_t *self, progress_t *progress, const cadre_layout_input_t *input)
{
    const void *data = self->run->arguments[input->index].data;
    return self->run->resident ? put_directly(self, progress, input, data)
                               : put(self, progress, input->offset, data, input->size_bytes);
}

static int
put_bf16(cadre_cuda_slot_t *self, progress_t *progress, const cadre_layout_input_t *input)
{
    const void *data = self->run->variables[input->index];
    int status = send(self, progress, progress->filled);
    progress->filled = progress->sent = input->offset + input->size_bytes;
    if (!is_pinned(data)) {
        data = memcpy(self->slab_in + input->offset, data, input->size_bytes / 2);
    }
    return status < 0 ? status
                      : cadre_cuda_conversion_copy_in(&self->conversion, data, input, self->block,
                                                      self->lane->copy_in);
}

static int
put_variable(cadre_cuda_slot_t *self, progress_t *progress, const cadre_layout_input_t *input)
{
    const void *data = self->run->variables[input->index];
    uint64_t version = self->run->versions ? self->run->versions[input->index] : 0;
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

int
cadre_cuda_slot_copy_in(cadre_cuda_slot_t *self)
{
    const cadre_layout_t *layout = cadre_execution_layout(self->execution);
    progress_t progress = {0};
    int status =
        put(self, &progress, layout->seed_offset, &self->run->seed, sizeof(self->run->seed));
    for (int i = 0; i < layout->variable_count && status == 0; i++) {
        status = put_variable(self, &progress, &layout->variables[i]);
    }
    for (int i = 0; i < layout->argument_count && status == 0; i++) {
        status = put_argument(self, &progress, &layout->arguments[i]);
    }
    status = status < 0 ? status : send(self, &progress, progress.filled);
    if (status < 0) {
        return status;
    }
    cadre_held_set(&self->held, layout, self->run->versions);
    CADRE_CUDA_TRY(cudaEventRecord(self->in, self->lane->copy_in));
    return 0;
}

/* ---- copying out ---- */

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

static int
copy_to_slab(cadre_cuda_slot_t *self, size_t begin, size_t end)
{
    size_t base = cadre_execution_layout(self->execution)->out_offset;
    return end > begin ? enqueue_copy_out(self, self->slab_out + (begin - base), begin, end - begin,
                                          cudaMemcpyDeviceToHost)
                       : 0;
}

/* To where the caller wants it, or to its place in the slab. */
static int
copy_bf16_out(cadre_cuda_slot_t *self, const cadre_layout_output_t *output, void *to, bool direct)
{
    size_t base = cadre_execution_layout(self->execution)->out_offset;
    return cadre_cuda_conversion_copy_out(&self->conversion, output, self->block,
                                          direct ? to : self->slab_out + (output->offset - base),
                                          self->lane->copy_out);
}

/* Outputs that go by the slab lie side by side and are copied as one. */
static int
copy_group(cadre_cuda_slot_t *self, const cadre_layout_group_t *group)
{
    const cadre_layout_t *layout = cadre_execution_layout(self->execution);
    size_t begin = group->offset;
    int status = 0;
    for (int i = group->first; i < group->first + group->count && status == 0; i++) {
        const cadre_layout_output_t *output = &layout->outputs[i];
        void *to = destination(self->run, output->place);
        bool stays = self->run->resident && output->place.kind == CADRE_PLACE_GRADIENT;
        bool is_bf16 = cadre_cuda_conversion_has_gradient(self->run, output);
        self->direct[i] = stays || ((is_bf16 || output->size_bytes >= PIECE_SIZE) && is_pinned(to));
        if (self->direct[i] || is_bf16) {
            status = copy_to_slab(self, begin, output->offset);
            begin = output->offset + output->size_bytes;
        }
        if (status == 0 && is_bf16) {
            status = copy_bf16_out(self, output, to, self->direct[i]);
        } else if (status == 0 && self->direct[i]) {
            status = enqueue_copy_out(self, to, output->offset, output->size_bytes,
                                      stays ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost);
        }
    }
    return status < 0 ? status : copy_to_slab(self, begin, group->offset + group->size_bytes);
}

int
cadre_cuda_slot_copy_out(cadre_cuda_slot_t *self)
{
    const cadre_layout_t *layout = cadre_execution_layout(self->execution);
    int status = cadre_cuda_conversion_begin_out(&self->conversion, self->lane->copy_out);
    for (int i = 0; i < layout->group_count && status == 0; i++) {
        CADRE_CUDA_TRY(cudaStreamWaitEvent(self->lane->copy_out, self->ready[i], 0));
        status = copy_group(self, &layout->groups[i]);
        if (status == 0 && i == layout->group_count - 1) {
            status = cadre_cuda_conversion_end_out(&self->conversion, self->lane->copy_out);
        }
        if (status < 0) {
            return status;
        }
        CADRE_CUDA_TRY(cudaEventRecord(self->out[i], self->lane->copy_out));
    }
    return status;
}

int
cadre_cuda_slot_take(cadre_cuda_slot_t *self, int32_t flags[CADRE_LAYOUT_FLAGS])
{
    const cadre_layout_t *layout = cadre_execution_layout(self->execution);
    for (int i = 0; i < layout->group_count; i++) {
        const cadre_layout_group_t *group = &layout->groups[i];
        CADRE_CUDA_TRY(cudaEventSynchronize(self->out[i]));
        for (int k = group->first; k < group->first + group->count; k++) {
            const cadre_layout_output_t *output = &layout->outputs[k];
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
