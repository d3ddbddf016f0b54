/*
 * pinned - host memory that the device reaches itself.
 *
 * Plain functions without state.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_PINNED_H
#define CADRE_WORKER_DEVICE_CUDA_PINNED_H

#include <stdbool.h>
#include <stddef.h>

/* Makes *memory, of *memory_size_bytes, at least so large; its content is lost when it grows.
 * CADRE_ENOMEMORY, CADRE_EDEVICE. */
int cadre_pinned_grow(char **memory, size_t *memory_size_bytes, size_t size_bytes);

/* Whether it is such memory, of whoever (cadre_device_memory_new). */
bool cadre_pinned_is(const void *memory);

#endif
