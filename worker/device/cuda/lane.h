/*
 * lane - one GPU as the slots of a worker share it: a stream for each direction of copying, one for
 * computing, and cuBLAS with its workspace.
 *
 * Owner:   the module's device.
 * Thread:  any slot's. What a run enqueues behind its values is enqueued under `mutex`, so that
 * runs leave the device in the order in which they are computed: a gradient would otherwise wait on
 * copy_out behind those of a run that is computed later. Nothing waits for the device while it
 * holds the mutex.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_LANE_H
#define CADRE_WORKER_DEVICE_CUDA_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "worker/device/cuda/cuda_status.h"
#include "worker/device/device_module.h"

#define CADRE_LANE_WORKSPACE_SIZE ((size_t)32 << 20) /* what cuBLAS gets: its advice for Hopper */

enum { CADRE_LANE_NAME_SIZE = 128 };

typedef struct {
    int index; /* of the GPU */
    char name[CADRE_LANE_NAME_SIZE];
    cudaStream_t copy_in;
    cudaStream_t compute;
    cudaStream_t copy_out;
    cublasLtHandle_t cublas;
    void *workspace; /* CADRE_LANE_WORKSPACE_SIZE bytes on the device */
    cublasComputeType_t math;
    pthread_mutex_t mutex;
    atomic_bool lost; /* some call failed: nothing more is tried. Only ever goes to true, so a late
                         look is harmless */
} cadre_lane_t;

/* CADRE_EUNAVAILABLE when there is no such GPU, or the driver does not fit, with the reason;
 * CADRE_EINVALID for a math mode that is none. */
int cadre_lane_open(const cadre_device_request_t *request, cadre_lane_t **out);
void cadre_lane_close(cadre_lane_t **self_p);

/* Makes the GPU that of the calling thread. CADRE_EDEVICE when the lane is lost. */
int cadre_lane_enter(const cadre_lane_t *self);

/* Memory on the GPU of the calling thread. Reading and writing have ended when they return. */
int cadre_lane_buffer_new(size_t size_bytes, void **buffer);
int cadre_lane_buffer_write(void *buffer, const void *from, size_t size_bytes);
int cadre_lane_buffer_read(const void *buffer, void *to, size_t size_bytes);

/* Passes a status on; CADRE_EDEVICE loses the lane. */
int cadre_lane_note(cadre_lane_t *self, int status);

#endif
