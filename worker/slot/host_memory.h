/*
 * host_memory - memory on the host that a device copies from and to fastest, kept and used again.
 *
 * On CUDA it is pinned, which takes a while to make and is why it is kept. When the device has none
 * left, pageable memory takes its place: slower to copy, no less right.
 *
 * Owner:   one slot. Thread: the slot's; chunks made here may be dropped on any, before the device
 *          is closed.
 */
#ifndef CADRE_WORKER_SLOT_HOST_MEMORY_H
#define CADRE_WORKER_SLOT_HOST_MEMORY_H

#include <stdbool.h>

#include "common/tensor/chunk.h"
#include "worker/device/device.h"

/* Zeroed memory is an empty one; `device` may be set before the first use, NULL for pageable
 * memory. */
typedef struct {
    cadre_device_t *device;
    void *data;
    size_t capacity;
    bool is_pageable; /* `data` is plain memory, not the device's pinned one */
} cadre_host_memory_t;

/* Makes room for `size_bytes`, aligned to 64. Returns true when the memory was replaced for that:
 * its content is lost, and pointers into it dangle. */
bool cadre_host_memory_reserve(cadre_host_memory_t *self, size_t size_bytes);

/* Frees the memory; the struct can be used again. */
void cadre_host_memory_fini(cadre_host_memory_t *self);

/* Returns a chunk whose memory is the device's pinned one, or pageable where there is none left. */
cadre_chunk_t *cadre_host_memory_chunk(cadre_device_t *device, size_t size_bytes);

#endif
