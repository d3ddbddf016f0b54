#include "worker/device/cuda/conversion.h"

#include "worker/device/arena.h"
#include "worker/device/cuda/kernels.h"

void
cadre_cuda_conversion_fini(cadre_cuda_conversion_t *self)
{
    cudaFree(self->block);
    cudaFreeHost(self->flags);
    *self = (cadre_cuda_conversion_t){0};
}

bool
cadre_cuda_conversion_has_variable(const cadre_slot_run_t *run, const cadre_layout_input_t *input)
{
    return run->variable_dtypes && run->variable_dtypes[input->index] == CADRE_BF16;
}

bool
cadre_cuda_conversion_has_gradient(const cadre_slot_run_t *run, const cadre_layout_output_t *output)
{
    return output->place.kind == CADRE_PLACE_GRADIENT && run->gradient_dtypes &&
           run->gradient_dtypes[output->place.index] == CADRE_BF16;
}

/* Makes the device memory at least so large, and the pinned memory large enough for the run's
 * flags. What was in memory that is replaced is lost. */
static int
grow(cadre_cuda_conversion_t *self, size_t size_bytes)
{
    if (size_bytes > self->size_bytes) {
        void *memory = NULL;
        CADRE_CUDA_TRY(cudaFree(self->block));
        self->block = NULL;
        self->size_bytes = 0;
        CADRE_CUDA_TRY(cudaMalloc(&memory, size_bytes));
        self->block = memory;
        self->size_bytes = size_bytes;
    }
    if (self->flag_count > self->flag_room) {
        void *memory = NULL;
        CADRE_CUDA_TRY(cudaFreeHost(self->flags));
        self->flags = NULL;
        self->flag_room = 0;
        CADRE_CUDA_TRY(cudaMallocHost(&memory, (size_t)self->flag_count * sizeof(int32_t)));
        self->flags = memory;
        self->flag_room = self->flag_count;
    }
    return 0;
}

/* Makes room for the variables and gradients that the run has in bf16. Every value has half the
 * offset of its f32 form; the flags come behind all of them. */
int
cadre_cuda_conversion_reserve(cadre_cuda_conversion_t *self, const cadre_layout_t *layout,
                              const cadre_slot_run_t *run)
{
    bool any = false;
    self->flag_count = 0;
    for (int i = 0; i < layout->variable_count; i++) {
        any = any || cadre_cuda_conversion_has_variable(run, &layout->variables[i]);
    }
    for (int i = 0; i < layout->output_count; i++) {
        if (cadre_cuda_conversion_has_gradient(run, &layout->outputs[i])) {
            self->flag_count = cadre_program_push_count(run->program);
        }
    }
    if (!any && self->flag_count == 0) {
        return 0;
    }
    self->flags_offset = cadre_arena_round((layout->out_offset + layout->out_size_bytes) / 2);
    return grow(self, self->flags_offset + (size_t)self->flag_count * sizeof(int32_t));
}

/* Returns how many f32 numbers have so many bytes. */
static int64_t
count_of(size_t size_bytes)
{
    return (int64_t)(size_bytes / cadre_dtype_size(CADRE_F32));
}

/* Returns where the bf16 form of the f32 numbers at `offset` of the slot's block is kept. */
static uint16_t *
words_of(const cadre_cuda_conversion_t *self, size_t offset)
{
    return (uint16_t *)(void *)(self->block + offset / 2);
}

/* Returns the flags on the device: one for each push, 1 where its gradient is not finite. */
static int32_t *
device_flags(const cadre_cuda_conversion_t *self)
{
    return (int32_t *)(void *)(self->block + self->flags_offset);
}

/* Enqueues the copy of a bf16 variable to the device and its conversion to f32 in `block`. */
int
cadre_cuda_conversion_copy_in(const cadre_cuda_conversion_t *self, const void *data,
                              const cadre_layout_input_t *input, char *block, cudaStream_t stream)
{
    uint16_t *words = words_of(self, input->offset);
    CADRE_CUDA_TRY(
        cudaMemcpyAsync(words, data, input->size_bytes / 2, cudaMemcpyHostToDevice, stream));
    return cadre_cuda_from_bf16(words, (float *)(void *)(block + input->offset),
                                count_of(input->size_bytes), stream) < 0
               ? cadre_fail(CADRE_EDEVICE, "the device refused to convert a variable from bf16")
               : 0;
}

/* Enqueues setting the flags on the device to 0, before gradients are converted. */
int
cadre_cuda_conversion_begin_out(const cadre_cuda_conversion_t *self, cudaStream_t stream)
{
    if (self->flag_count > 0) {
        CADRE_CUDA_TRY(cudaMemsetAsync(device_flags(self), 0,
                                       (size_t)self->flag_count * sizeof(int32_t), stream));
    }
    return 0;
}

/* Enqueues the conversion of a gradient to bf16 and its copy to `to`, pinned memory. */
int
cadre_cuda_conversion_copy_out(const cadre_cuda_conversion_t *self,
                               const cadre_layout_output_t *output, const char *block, void *to,
                               cudaStream_t stream)
{
    uint16_t *words = words_of(self, output->offset);
    const float *numbers = (const float *)(const void *)(block + output->offset);
    if (cadre_cuda_to_bf16(numbers, words, count_of(output->size_bytes),
                           &device_flags(self)[output->place.index], stream) < 0) {
        return cadre_fail(CADRE_EDEVICE, "the device refused to convert a gradient to bf16");
    }
    CADRE_CUDA_TRY(
        cudaMemcpyAsync(to, words, output->size_bytes / 2, cudaMemcpyDeviceToHost, stream));
    return 0;
}

/* Enqueues the copy of the flags to the host, after the gradients. */
int
cadre_cuda_conversion_end_out(const cadre_cuda_conversion_t *self, cudaStream_t stream)
{
    if (self->flag_count > 0) {
        CADRE_CUDA_TRY(cudaMemcpyAsync(self->flags, device_flags(self),
                                       (size_t)self->flag_count * sizeof(int32_t),
                                       cudaMemcpyDeviceToHost, stream));
    }
    return 0;
}

/* Tells the run which of its bf16 gradients are not finite. */
void
cadre_cuda_conversion_report(const cadre_cuda_conversion_t *self, const cadre_slot_run_t *run)
{
    for (int i = 0; i < self->flag_count; i++) {
        if (self->flags[i] != 0) {
            run->not_finite[i] = true;
        }
    }
}
