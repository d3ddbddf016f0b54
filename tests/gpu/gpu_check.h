/*
 * gpu_check - a device beside the CPU: the same programs on both, numbers compared.
 *
 * Plain functions, no test framework: a framework with a process per test would pay for a context
 * on the GPU each time. The same checks run on the fake CUDA of tests/worker/cuda_fake, so that
 * they are themselves tested where there is no GPU.
 *
 * Owner and thread: main.
 */
#ifndef CADRE_TESTS_GPU_GPU_CHECK_H
#define CADRE_TESTS_GPU_GPU_CHECK_H

#include <stdbool.h>

#include "worker/device/device.h"

enum { GPU_CHECK_ARGUMENTS_MAX = 8, GPU_CHECK_VARIABLES_MAX = 16, GPU_CHECK_OUTPUTS_MAX = 32 };

/* What two orders of summing f32 may differ by, relative to the largest number of a tensor: the
 * gradient of a mean is tiny as a whole. */
#define GPU_CHECK_TOLERANCE 1e-4F
/* What may stand where a tensor ought to be all zeros. */
#define GPU_CHECK_TINY 1e-20F

typedef struct {
    cadre_device_t *device;
    cadre_device_t *cpu;
    const char *name; /* of the device, for another process; NULL when it is this one's alone */
    /* Opens the device once more, multiplying in that way; NULL when it has one. */
    int (*open_math)(const char *math, cadre_device_t **out);
    int scale; /* 1: sizes for a device, 0: smaller ones for a fake */
    int every; /* one in so many cases is run; 0 is 1 */
    int cases;
    int checks;
    int failures;
} gpu_check_t;

/* Counts a check, and says what is wrong unless `right`. */
void gpu_check_that(gpu_check_t *self, bool right, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The first of `count` numbers that is not near the wanted one, -1 if all are. A NaN is near a NaN
 * only, an infinity near itself only. */
int64_t gpu_check_compare(const float *got, const float *want, int64_t count);

/* One program with everything that it is run on. */
typedef struct {
    char name[96];
    cadre_program_t *program; /* finished; ended with the case */
    cadre_tensor_t arguments[GPU_CHECK_ARGUMENTS_MAX];
    float *variables[GPU_CHECK_VARIABLES_MAX]; /* one each, of random numbers */
} gpu_case_t;

/* What came out of a run. */
typedef struct {
    cadre_tensor_t results[GPU_CHECK_OUTPUTS_MAX];
    float *gradients[GPU_CHECK_OUTPUTS_MAX];
} gpu_outcome_t;

/* Finishes `program`, which the case owns from then on, and makes up its variables. */
void gpu_case_init(gpu_case_t *self, cadre_program_t *program);
void gpu_case_fini(gpu_case_t *self);

/* A tensor of random numbers in low..high (i32: low to below high), which the caller frees. */
cadre_tensor_t gpu_random(cadre_dtype_t dtype, const int64_t *shape, int rank, float low,
                          float high);

/* Adds the next argument, named "a0", "a1" and so on, of random numbers as above. Before init. */
cadre_node_t gpu_argument(gpu_case_t *self, cadre_program_t *program, cadre_tensor_t tensor);

/* Elements of variable `index`, and of the one that push `index` goes to. */
int64_t gpu_variable_count(const cadre_program_t *program, int index);
int64_t gpu_push_count(const cadre_program_t *program, int index);

int gpu_case_run(const gpu_case_t *self, cadre_slot_t *slot, uint64_t seed, gpu_outcome_t *outcome);
void gpu_outcome_fini(const gpu_case_t *self, gpu_outcome_t *outcome);

/* Runs the case on both devices, on the device `runs` times, and compares everything. Ends it. */
void gpu_check_case(gpu_check_t *self, gpu_case_t *one, int runs);

/* ---- the checks ---- */

void gpu_check_compares(gpu_check_t *self); /* the comparison itself: what it must find */
void gpu_check_ops(gpu_check_t *self);
void gpu_check_fuse(gpu_check_t *self); /* what is part of a product */
void gpu_check_bf16(gpu_check_t *self); /* inside programs */
void gpu_check_wire(gpu_check_t *self); /* bf16 on the host, f32 in programs */
void gpu_check_models(gpu_check_t *self);
void gpu_check_memory(gpu_check_t *self); /* nothing grows; several slots; many plans */
void gpu_check_math(gpu_check_t *self);   /* f32, tf32, bf16 */
void gpu_check_errors(gpu_check_t *self); /* out of memory, indexes out of range */
void gpu_check_killed(gpu_check_t *self); /* a process that dies in the middle of a run */

/* The process that is killed: runs until a failure, and says "ready" on stdout after some runs. */
int gpu_check_hold(cadre_device_t *device);

#endif
