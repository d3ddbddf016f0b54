/*
 * cuda_slot_state - the inside of cuda_slot, shared by its two files: cuda_slot.c (memory, the run)
 * and slot_copies.c (copies from and to the host).
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_CUDA_SLOT_STATE_H
#define CADRE_WORKER_DEVICE_CUDA_CUDA_SLOT_STATE_H

#include "worker/device/cuda/conversion.h"
#include "worker/device/cuda/cuda_slot.h"
#include "worker/device/cuda/held.h"

struct cadre_cuda_slot {
    cadre_lane_t *lane;
    cadre_slot_options_t options;
    cudaStream_t stream; /* for recording graphs, and for native functions */
    cudaEvent_t in;
    cudaEvent_t ready[CADRE_LAYOUT_GROUPS_MAX];
    cudaEvent_t out[CADRE_LAYOUT_GROUPS_MAX];
    char *block; /* on the device; these three only grow */
    size_t block_size_bytes;
    char *slab_in; /* pinned */
    size_t slab_in_size_bytes;
    char *slab_out; /* pinned; begins at the layout's out_offset */
    size_t slab_out_size_bytes;
    cadre_held_t held;
    cadre_cuda_conversion_t conversion;
    bool *direct; /* [output_count of the run]: copied to its place without the slab */
    int direct_room;

    cadre_execution_t *execution; /* of the run in progress */
    const cadre_slot_run_t *run;
};

/* Enqueues the copies of everything that the run reads, and the event `in` after them. */
int cadre_cuda_slot_copy_in(cadre_cuda_slot_t *self);

/* Enqueues the copies of everything that the run gives, group by group as they become ready. */
int cadre_cuda_slot_copy_out(cadre_cuda_slot_t *self);

/* Waits for these, puts what came by the slab where the caller wants it, and gives what the device
 * says. */
int cadre_cuda_slot_take(cadre_cuda_slot_t *self, int32_t flags[CADRE_LAYOUT_FLAGS]);

#endif
