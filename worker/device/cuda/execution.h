/*
 * execution - a plan made ready for the lane: its layout, its constants on the device, an algorithm
 * for each matrix product and for what of the plan runs as part of one, and after its first run the
 * CUDA graph that replays it.
 *
 * The graph holds everything between the copies: one launch instead of one per step. It is recorded
 * after the first run, which has loaded every kernel, and again when the slot's memory has moved.
 *
 * Owner:   the slot that it was prepared on. Thread: the slot's.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_EXECUTION_H
#define CADRE_WORKER_DEVICE_CUDA_EXECUTION_H

#include "worker/device/cuda/lane.h"
#include "worker/device/cuda/layout.h"

typedef struct cadre_execution cadre_execution_t;

/* What it runs in; of the slot. */
typedef struct {
    char *block; /* cadre_execution_size_bytes() bytes or more, on the device */
    cudaEvent_t
        *ready;  /* [CADRE_LAYOUT_GROUPS_MAX]: recorded when that group of outputs is there */
    bool poison; /* fill the arena with NaN first */
} cadre_execution_memory_t;

int cadre_execution_new(cadre_lane_t *lane, const cadre_plan_t *plan, cadre_execution_t **out);
void cadre_execution_destroy(cadre_execution_t **self_p);

const cadre_plan_t *cadre_execution_plan(const cadre_execution_t *self);
const cadre_layout_t *cadre_execution_layout(const cadre_execution_t *self);

/* Of the block: the layout's, and scratch memory behind it. */
size_t cadre_execution_size_bytes(const cadre_execution_t *self);

/* Records the graph, on `stream`, which nothing else uses meanwhile, unless it is there already or
 * the plan has not run yet. */
int cadre_execution_record(cadre_execution_t *self, const cadre_execution_memory_t *memory,
                           cudaStream_t stream);

/* From now on no group of steps runs as one that would lose a NaN (fused.h). The device is not at
 * work on it. */
void cadre_execution_make_plain(cadre_execution_t *self);

/* Enqueues the plan: its graph, if it was recorded for this memory, otherwise its steps. */
int cadre_execution_enqueue(cadre_execution_t *self, const cadre_execution_memory_t *memory,
                            cudaStream_t stream);

#endif
