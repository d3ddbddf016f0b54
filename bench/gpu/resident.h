/*
 * resident - a model that is trained on a device where its variables and batches stay: the program
 * computes the next values of the variables, and they are the variables of the next step. Only the
 * loss comes to the host.
 *
 * Each variable has two buffers on the device: one is read, the other written, in turn.
 *
 * Owner and thread: main.
 */
#ifndef CADRE_BENCH_GPU_RESIDENT_H
#define CADRE_BENCH_GPU_RESIDENT_H

#include "bench/gpu/runner.h"

typedef struct gpu_resident gpu_resident_t;

int gpu_resident_open(const gpu_options_t *options, gpu_resident_t **out);
void gpu_resident_close(gpu_resident_t **self_p);

const char *gpu_resident_device_name(const gpu_resident_t *self);

/* As a runner has them; `context` is a gpu_resident_t. */
int gpu_resident_reset(void *context);
int gpu_resident_train(void *context, int steps, float *losses);

#endif
