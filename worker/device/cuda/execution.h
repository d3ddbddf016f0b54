/*
 * execution - a plan made ready for a GPU (lane.h): its layout, its constants on the device, an
 * algorithm for each matrix product and each group of steps that runs as one product, and after its
 * first run the CUDA graph that replays the plan.
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

/* The memory and events that a plan runs with; they are the slot's. */
typedef struct {
    char *block; /* cadre_execution_size_bytes() bytes or more, on the device */
    cudaEvent_t
        *ready;  /* [CADRE_LAYOUT_GROUPS_MAX]: recorded when that group of outputs is computed */
    bool poison; /* the arena is filled with NaN first: for tests */
} cadre_execution_memory_t;

int cadre_execution_new(cadre_lane_t *lane, const cadre_plan_t *plan, cadre_execution_t **out);
void cadre_execution_destroy(cadre_execution_t **self_p);

const cadre_plan_t *cadre_execution_plan(const cadre_execution_t *self);
const cadre_layout_t *cadre_execution_layout(const cadre_execution_t *self);

/* Returns the bytes of block that the plan needs: its layout's, and scratch memory behind that. */
size_t cadre_execution_size_bytes(const cadre_execution_t *self);

/* Records the graph by `stream`, which nothing else uses meanwhile. Does nothing if the graph is
 * recorded for this memory already, or the plan has not run yet. */
int cadre_execution_record(cadre_execution_t *self, const cadre_execution_memory_t *memory,
                           cudaStream_t stream);

/* Has the groups whose fused form would lose a NaN (fused.h) run step by step from now on. The
 * device must not be running the plan. */
void cadre_execution_make_plain(cadre_execution_t *self);

/* Enqueues the plan: its graph, if it was recorded for this memory, otherwise its steps. */
int cadre_execution_enqueue(cadre_execution_t *self, const cadre_execution_memory_t *memory,
                            cudaStream_t stream);

#endif
