/*
 * runner - what the programs of bench/gpu have in common: their command line, and the commands that
 * bench/gpu/run gives them on stdin, one per line, each answered by one JSON object.
 *
 *     losses N   N steps from the first values: {"losses": [...]}
 *     steps N    N more steps: {"seconds": S, "cpu_seconds": S, ...}
 *
 * Owner and thread: main.
 */
#ifndef CADRE_BENCH_GPU_RUNNER_H
#define CADRE_BENCH_GPU_RUNNER_H

#include "bench/gpu/models.h"

enum { GPU_LOSSES_MAX = 1000, GPU_STEPS_MAX = 1000000 };

typedef struct {
    gpu_size_t size;
    const char *device;
    const char *math;
    const char *dump; /* a folder to write the model into, or NULL */
    int threads;
    int slots; /* closures at a time */
    bool verbose;
} gpu_options_t;

/* --model mlp|dlrm, --batch N, --width N, --rows N, --device D, --math M, --threads N, --slots N,
 * --dump DIR, --verbose. CADRE_EINVALID. */
int gpu_options_parse(int argc, char **argv, gpu_options_t *options);

/* What a way of training does; each returns 0 or a status. */
typedef struct {
    void *context;
    int (*reset)(void *context);                           /* to the first values; or NULL */
    int (*train)(void *context, int steps, float *losses); /* `losses` may be NULL */
    /* Of all its processes; NULL when there is only this one. */
    int (*cpu_seconds)(void *context, double *seconds);
    void (*more)(void *context); /* prints more, as `, "name": value`; or NULL */
} gpu_runner_t;

/* Prints {"ready": NAME}, then serves commands until stdin ends. */
int gpu_runner_serve(const gpu_runner_t *self, const char *name);

#endif
