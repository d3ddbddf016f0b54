/*
 * narrow - variables and gradients that are bf16 in host memory, and f32 on the device: they cross
 * as bf16 and are converted there.
 *
 *     [ variables | gradients | a flag for each output ]
 *
 * A block on the device and its twin in pinned memory, beside the slot's; both only grow, and
 * nothing is allocated for runs without bf16.
 *
 * Owner:   a slot. Thread: the slot's. Enqueuing on `compute` and `copy_out` is under the lane's
 *          mutex.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_NARROW_H
#define CADRE_WORKER_DEVICE_CUDA_NARROW_H

#include "worker/device/cuda/lane.h"
#include "worker/device/cuda/layout.h"

/* Zeroed memory is one that has no memory yet. */
typedef struct {
    char *device;
    char *pinned;
    size_t size_bytes;
    cudaEvent_t ready; /* the gradients are there, */
    cudaEvent_t out;   /* and in pinned memory */

    /* of the run in progress */
    size_t *variables; /* [layout->variable_count]: where each begins */
    bool *fresh;       /* [layout->variable_count]: it was put there, and is to be converted */
    size_t *outputs;   /* [layout->output_count] */
    size_t out_begin;  /* of the gradients */
    size_t flags;
    bool has_gradients;
} cadre_narrow_t;

void cadre_narrow_fini(cadre_narrow_t *self);

bool cadre_narrow_is_variable(const cadre_slot_run_t *run, const cadre_layout_input_t *variable);
bool cadre_narrow_is_output(const cadre_slot_run_t *run, const cadre_layout_output_t *output);

/* Finds a place for everything of the run; before the others. CADRE_ENOMEMORY, CADRE_EDEVICE. */
int cadre_narrow_begin(cadre_narrow_t *self, const cadre_layout_t *layout,
                       const cadre_slot_run_t *run);

/* Copies the layout's variable `index` to the device, on `copy_in`. */
int cadre_narrow_put(cadre_narrow_t *self, const cadre_layout_t *layout, int index,
                     const void *data, cudaStream_t copy_in);

/* Converts what was put into the slot's block. */
int cadre_narrow_widen(const cadre_narrow_t *self, const cadre_layout_t *layout, char *block,
                       cudaStream_t compute);

/* Converts the gradients of the slot's block, behind all that `compute` does, and copies them out.
 */
int cadre_narrow_give(const cadre_narrow_t *self, const cadre_lane_t *lane,
                      const cadre_layout_t *layout, const cadre_slot_run_t *run, const char *block);

/* Waits for them, and puts them and what they say where the run wants them. */
int cadre_narrow_take(const cadre_narrow_t *self, const cadre_layout_t *layout,
                      const cadre_slot_run_t *run);

#endif
