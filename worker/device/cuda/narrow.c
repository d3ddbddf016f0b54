#include "worker/device/cuda/narrow.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "worker/device/arena.h"
#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/pinned.h"

/* A bf16 for each f32. */
static size_t
narrow_size(size_t size_bytes)
{
    return size_bytes / 2;
}

static size_t
take(size_t *end, size_t size_bytes)
{
    const size_t unit = CADRE_ARENA_ALIGNMENT;
    size_t offset = *end;
    *end = (offset + size_bytes + unit - 1) / unit * unit;
    return offset;
}

static void
drop_memory(cadre_narrow_t *self)
{
    cudaFree(self->device);
    cudaFreeHost(self->pinned);
    self->device = self->pinned = NULL;
    self->size_bytes = 0;
}

void
cadre_narrow_fini(cadre_narrow_t *self)
{
    drop_memory(self);
    if (self->ready) {
        cudaEventDestroy(self->ready);
    }
    if (self->out) {
        cudaEventDestroy(self->out);
    }
    free(self->variables);
    free(self->fresh);
    free(self->outputs);
    *self = (cadre_narrow_t){0};
}

bool
cadre_narrow_is_variable(const cadre_slot_run_t *run, const cadre_layout_input_t *variable)
{
    return run->variable_dtypes && run->variable_dtypes[variable->index] == CADRE_BF16;
}

bool
cadre_narrow_is_output(const cadre_slot_run_t *run, const cadre_layout_output_t *output)
{
    return output->place.kind == CADRE_PLACE_GRADIENT && run->gradient_dtypes &&
           run->gradient_dtypes[output->place.index] == CADRE_BF16;
}

static int
reserve(cadre_narrow_t *self, size_t size_bytes)
{
    unsigned flags = cudaEventDisableTiming | cudaEventBlockingSync;
    if (!self->ready) {
        CADRE_CUDA_TRY(cudaEventCreateWithFlags(&self->ready, flags));
    }
    if (!self->out) {
        CADRE_CUDA_TRY(cudaEventCreateWithFlags(&self->out, flags));
    }
    if (size_bytes <= self->size_bytes) {
        return 0;
    }
    drop_memory(self);
    void *memory = NULL;
    CADRE_CUDA_TRY(cudaMalloc(&memory, size_bytes));
    self->device = memory;
    return cadre_pinned_grow(&self->pinned, &self->size_bytes, size_bytes);
}

int
cadre_narrow_begin(cadre_narrow_t *self, const cadre_layout_t *layout, const cadre_slot_run_t *run)
{
    size_t variables = (size_t)layout->variable_count;
    size_t outputs = (size_t)layout->output_count;
    self->variables = cadre_realloc(self->variables, variables + 1, sizeof(*self->variables));
    self->fresh = cadre_realloc(self->fresh, variables + 1, sizeof(*self->fresh));
    self->outputs = cadre_realloc(self->outputs, outputs + 1, sizeof(*self->outputs));
    size_t end = 0;
    for (size_t i = 0; i < variables; i++) {
        bool narrow = cadre_narrow_is_variable(run, &layout->variables[i]);
        self->variables[i] = take(&end, narrow ? narrow_size(layout->variables[i].size_bytes) : 0);
        self->fresh[i] = false;
    }
    self->has_gradients = false;
    self->out_begin = end;
    for (size_t i = 0; i < outputs; i++) {
        bool narrow = cadre_narrow_is_output(run, &layout->outputs[i]);
        self->outputs[i] = take(&end, narrow ? narrow_size(layout->outputs[i].size_bytes) : 0);
        self->has_gradients = self->has_gradients || narrow;
    }
    self->flags = take(&end, self->has_gradients ? outputs * sizeof(int32_t) : 0);
    return end > 0 ? reserve(self, end) : 0;
}

int
cadre_narrow_put(cadre_narrow_t *self, const cadre_layout_t *layout, int index, const void *data,
                 cudaStream_t copy_in)
{
    size_t size_bytes = narrow_size(layout->variables[index].size_bytes);
    size_t offset = self->variables[index];
    if (size_bytes > 0) {
        memcpy(self->pinned + offset, data, size_bytes);
        CADRE_CUDA_TRY(cudaMemcpyAsync(self->device + offset, self->pinned + offset, size_bytes,
                                       cudaMemcpyHostToDevice, copy_in));
        self->fresh[index] = true;
    }
    return 0;
}

int
cadre_narrow_widen(const cadre_narrow_t *self, const cadre_layout_t *layout, char *block,
                   cudaStream_t compute)
{
    for (int i = 0; i < layout->variable_count; i++) {
        const cadre_layout_input_t *variable = &layout->variables[i];
        if (self->fresh[i] &&
            cadre_cuda_from_bf16((const void *)(self->device + self->variables[i]),
                                 (void *)(block + variable->offset),
                                 (int64_t)(variable->size_bytes / sizeof(float)), compute) < 0) {
            return cadre_fail(CADRE_EDEVICE, "the device refused to convert variables");
        }
    }
    return 0;
}

int
cadre_narrow_give(const cadre_narrow_t *self, const cadre_lane_t *lane,
                  const cadre_layout_t *layout, const cadre_slot_run_t *run, const char *block)
{
    if (!self->has_gradients) {
        return 0;
    }
    size_t count = (size_t)layout->output_count;
    int32_t *flags = (void *)(self->device + self->flags);
    CADRE_CUDA_TRY(cudaMemsetAsync(flags, 0, count * sizeof(*flags), lane->compute));
    for (size_t i = 0; i < count; i++) {
        const cadre_layout_output_t *output = &layout->outputs[i];
        if (cadre_narrow_is_output(run, output) &&
            cadre_cuda_to_bf16(
                (const void *)(block + output->offset), (void *)(self->device + self->outputs[i]),
                (int64_t)(output->size_bytes / sizeof(float)), &flags[i], lane->compute) < 0) {
            return cadre_fail(CADRE_EDEVICE, "the device refused to convert gradients");
        }
    }
    size_t end = self->flags + count * sizeof(*flags);
    CADRE_CUDA_TRY(cudaEventRecord(self->ready, lane->compute));
    CADRE_CUDA_TRY(cudaStreamWaitEvent(lane->copy_out, self->ready, 0));
    CADRE_CUDA_TRY(cudaMemcpyAsync(self->pinned + self->out_begin, self->device + self->out_begin,
                                   end - self->out_begin, cudaMemcpyDeviceToHost, lane->copy_out));
    CADRE_CUDA_TRY(cudaEventRecord(self->out, lane->copy_out));
    return 0;
}

int
cadre_narrow_take(const cadre_narrow_t *self, const cadre_layout_t *layout,
                  const cadre_slot_run_t *run)
{
    if (!self->has_gradients) {
        return 0;
    }
    CADRE_CUDA_TRY(cudaEventSynchronize(self->out));
    const int32_t *flags = (const void *)(self->pinned + self->flags);
    for (int i = 0; i < layout->output_count; i++) {
        const cadre_layout_output_t *output = &layout->outputs[i];
        if (!cadre_narrow_is_output(run, output)) {
            continue;
        }
        memcpy(run->gradients[output->place.index], self->pinned + self->outputs[i],
               narrow_size(output->size_bytes));
        if (flags[i] && run->not_finite) {
            run->not_finite[output->place.index] = true;
        }
    }
    return 0;
}
