/*
 * cuda_slot - the place of one closure in progress on the GPU: a block of device memory, two pinned
 * slabs, and the events that tie copying and computing together.
 *
 *     copy_in:   [slab -> block]--in
 *     compute:             wait(in)-[plan]--ready 0 ... ready n
 *     copy_out:                     wait(ready i)-[block -> slab]--out i
 *
 * While one slot computes, another one's values come in and a third one's gradients leave. Nothing
 * is allocated once the largest plan has run.
 *
 * Owner:   device.c's slot. Thread: its slot's.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_CUDA_SLOT_H
#define CADRE_WORKER_DEVICE_CUDA_CUDA_SLOT_H

#include "worker/device/cuda/execution.h"

typedef struct cadre_cuda_slot cadre_cuda_slot_t;

/* As in device_module.h. */
int cadre_cuda_slot_open(cadre_lane_t *lane, const cadre_slot_options_t *options,
                         cadre_cuda_slot_t **out);
void cadre_cuda_slot_close(cadre_cuda_slot_t **self_p);
int cadre_cuda_slot_prepare(cadre_cuda_slot_t *self, const cadre_plan_t *plan,
                            cadre_execution_t **out);
void cadre_cuda_slot_release(cadre_cuda_slot_t *self, cadre_execution_t **execution_p);
int cadre_cuda_slot_run(cadre_cuda_slot_t *self, cadre_execution_t *execution,
                        const cadre_slot_run_t *run);
int cadre_cuda_slot_wait(cadre_cuda_slot_t *self);
size_t cadre_cuda_slot_size_bytes(const cadre_cuda_slot_t *self);
cudaStream_t cadre_cuda_slot_stream(cadre_cuda_slot_t *self);

#endif
