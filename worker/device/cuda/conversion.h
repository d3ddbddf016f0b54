/*
 * conversion - variables and gradients that are bf16 on the host, and f32 in a slot's block.
 *
 * Both are converted on the device, on the stream that copies them, so only half the bytes cross
 * the bus. The bf16 form of values has memory of its own on the device, where a value is at half
 * the offset that its f32 form has in the slot's block.
 *
 * Owner: a slot. Thread: the slot's.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_CONVERSION_H
#define CADRE_WORKER_DEVICE_CUDA_CONVERSION_H

#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/layout.h"
#include "worker/device/device.h"

/* Zeroed memory is a conversion that has no memory on the device yet. */
typedef struct {
    char *block;         /* device memory for the bf16 forms and the flags; it only grows */
    size_t size_bytes;   /* of `block` */
    int32_t *flags;      /* [flag_count], pinned host memory: 1 where a gradient is not finite */
    int flag_room;       /* how many flags there is memory for */
    int flag_count;      /* pushes of the run in progress; 0: none of them is bf16 */
    size_t flags_offset; /* of the flags on the device, in `block` */
} cadre_cuda_conversion_t;

void cadre_cuda_conversion_fini(cadre_cuda_conversion_t *self);

/* Makes room for the variables and gradients that the run has in bf16, if any. */
int cadre_cuda_conversion_reserve(cadre_cuda_conversion_t *self, const cadre_layout_t *layout,
                                  const cadre_slot_run_t *run);

/* Returns whether the run has this variable, or this gradient, in bf16. */
bool cadre_cuda_conversion_has_variable(const cadre_slot_run_t *run,
                                        const cadre_layout_input_t *input);
bool cadre_cuda_conversion_has_gradient(const cadre_slot_run_t *run,
                                        const cadre_layout_output_t *output);

/* Enqueues the copy of a variable in bf16, from pinned memory, and its conversion into its place of
 * `block`. */
int cadre_cuda_conversion_copy_in(const cadre_cuda_conversion_t *self, const void *data,
                                  const cadre_layout_input_t *input, char *block,
                                  cudaStream_t stream);

/* Enqueue what frames the copies out of a run's gradients: before them, the flags on the device are
 * set to 0; after them, the flags are copied to the host. Nothing for a run without bf16
 * gradients. */
int cadre_cuda_conversion_begin_out(const cadre_cuda_conversion_t *self, cudaStream_t stream);
int cadre_cuda_conversion_end_out(const cadre_cuda_conversion_t *self, cudaStream_t stream);

/* Enqueues the conversion of a gradient in `block` to bf16, and its copy to pinned memory. */
int cadre_cuda_conversion_copy_out(const cadre_cuda_conversion_t *self,
                                   const cadre_layout_output_t *output, const char *block, void *to,
                                   cudaStream_t stream);

/* Sets run->not_finite where a flag says so; called when the copies out are done. */
void cadre_cuda_conversion_report(const cadre_cuda_conversion_t *self, const cadre_slot_run_t *run);

#endif
