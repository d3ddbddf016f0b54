/*
 * lane - one GPU as the slots of a worker share it: a stream for each direction of copying, one for
 * computing, and cuBLAS with its workspace.
 *
 * Owner:   the module's device.
 * Thread:  any slot's. A run enqueues its steps and copies out under `mutex`, so that copies out
 * are in
 *          the order in which runs are computed: a gradient would otherwise wait on `copy_out`
 * behind
 *          gradients of a run that is computed later. No thread waits for the device while it holds
 *          the mutex.
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
    atomic_bool
        lost; /* a call failed with CADRE_EDEVICE: all further ones fail at once. It only goes
                         from false to true, so a late look is harmless */
} cadre_lane_t;

/* Opens a GPU. Fails with CADRE_EUNAVAILABLE, and the reason, when there is no such GPU or the
 * driver does not fit; with CADRE_EINVALID for an unknown math mode. */
int cadre_lane_open(const cadre_device_request_t *request, cadre_lane_t **out);
void cadre_lane_close(cadre_lane_t **self_p);

/* Selects the GPU for the calling thread. Fails with CADRE_EDEVICE when the lane is lost. */
int cadre_lane_enter(const cadre_lane_t *self);

/* Allocate, write and read memory on the GPU that the calling thread has selected. Copies are
 * complete when the functions return. */
int cadre_lane_buffer_new(size_t size_bytes, void **buffer);
int cadre_lane_buffer_write(void *buffer, const void *from, size_t size_bytes);
int cadre_lane_buffer_read(const void *buffer, void *to, size_t size_bytes);

/* Returns `status`; marks the lane as lost if that is CADRE_EDEVICE. */
int cadre_lane_note(cadre_lane_t *self, int status);

#endif
