/*
 * narrow - variables and gradients that are bf16 on the host, and f32 in a slot's block.
 *
 * What arrives is widened, and what leaves is narrowed, in memory of their own on the device, by
 * the stream that copies: half the bytes cross the bus. A place of the block has its narrow twin at
 * half its offset.
 *
 * Owner: a slot. Thread: the slot's.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_NARROW_H
#define CADRE_WORKER_DEVICE_CUDA_NARROW_H

#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/layout.h"
#include "worker/device/device.h"

/* Zeroed memory is an empty one. */
typedef struct {
    char *block; /* on the device; both only grow */
    size_t size_bytes;
    int32_t *flags; /* pinned; [flag_count] */
    int flag_room;
    int flag_count;      /* pushes of the run in progress; 0: none of them is narrow */
    size_t flags_offset; /* of their twin on the device */
} cadre_cuda_narrow_t;

void cadre_cuda_narrow_fini(cadre_cuda_narrow_t *self);

/* Room for what the run has in bf16, if anything. */
int cadre_cuda_narrow_reserve(cadre_cuda_narrow_t *self, const cadre_layout_t *layout,
                              const cadre_slot_run_t *run);

bool cadre_cuda_narrow_variable(const cadre_slot_run_t *run, const cadre_layout_input_t *input);
bool cadre_cuda_narrow_gradient(const cadre_slot_run_t *run, const cadre_layout_output_t *output);

/* Enqueues the copy of a narrow variable, from pinned memory, into its place of `block`. */
int cadre_cuda_narrow_in(const cadre_cuda_narrow_t *self, const void *data,
                         const cadre_layout_input_t *input, char *block, cudaStream_t stream);

/* Before the first narrow gradient of a run, and after the last one, on their stream. */
int cadre_cuda_narrow_begin_out(const cadre_cuda_narrow_t *self, cudaStream_t stream);
int cadre_cuda_narrow_end_out(const cadre_cuda_narrow_t *self, cudaStream_t stream);

/* Enqueues the copy of a narrow gradient from its place in `block` to pinned memory. */
int cadre_cuda_narrow_out(const cadre_cuda_narrow_t *self, const cadre_layout_output_t *output,
                          const char *block, void *to, cudaStream_t stream);

/* When all of that has happened: tells run->not_finite. */
void cadre_cuda_narrow_tell(const cadre_cuda_narrow_t *self, const cadre_slot_run_t *run);

#endif
