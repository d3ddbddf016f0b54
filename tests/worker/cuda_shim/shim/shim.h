/*
 * shim - runs CUDA kernels on the CPU, for tests on machines without a GPU.
 *
 * Kernels are written in CUDA C++ and compiled by nvcc; for the tests g++ compiles the same files
 * with this header in place of CUDA's. Each thread of a block is a fiber: it runs until it waits at
 * a barrier or in a warp operation, and then another one runs. In which order is a choice of the
 * test, and a kernel without a fault gives the same bits in each. What a GPU leaves undefined is
 * made to show: shared memory is filled with NaN when a block begins, and a barrier that not all
 * threads of a block reach, or a warp operation that not all lanes of its mask reach, ends the
 * launch with a fault. That a thread returned early is no excuse here, unlike on new GPUs.
 *
 * Not shown: races between blocks of one launch that meet in global memory, and whatever depends on
 * threads running at the same time between two barriers.
 *
 * shim.c is C; the part below for C++ gives the words of CUDA to kernels.
 *
 * Owner:   the process: one launch at a time.
 * Thread:  one.
 */
#ifndef CADRE_TESTS_WORKER_CUDA_SHIM_SHIM_SHIM_H
#define CADRE_TESTS_WORKER_CUDA_SHIM_SHIM_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CADRE_SHIM_WARP = 32,
    CADRE_SHIM_BLOCK_MAX = 1024, /* threads of one block, as on every GPU */
};

typedef struct {
    unsigned x;
    unsigned y;
    unsigned z;
} cadre_shim_index_t;

/* Which thread, and which block, runs next. */
typedef enum {
    CADRE_SHIM_FORWARD,  /* the lowest index that can run */
    CADRE_SHIM_BACKWARD, /* the highest */
    CADRE_SHIM_RANDOM,   /* any, by the seed */
} cadre_shim_order_t;

/* For the launches from now on. */
void cadre_shim_set_order(cadre_shim_order_t order, uint64_t seed);

typedef void cadre_shim_body_t(const void *context);

/* Runs `body(context)` once per thread of each block; it sees its place in the variables below.
 * Returns 0, or -1 after a fault: the launch is given up, and no later one runs until the fault is
 * taken. */
int cadre_shim_run(cadre_shim_index_t grid, cadre_shim_index_t block, cadre_shim_body_t *body,
                   const void *context);

/* What was wrong since the last call, naming file and line, or NULL. Valid until the next launch.
 */
const char *cadre_shim_take_fault(void);

/* Launches so far, and threads that waited at a barrier or in a warp operation: a test of a
 * cooperating kernel shows with it that it did cooperate. */
uint64_t cadre_shim_launches(void);
uint64_t cadre_shim_waits(void);

/* Of the running thread. Constant between two waits. */
extern cadre_shim_index_t cadre_shim_thread_index;
extern cadre_shim_index_t cadre_shim_block_index;
extern cadre_shim_index_t cadre_shim_block_size;

/* ---- for the running thread; `file` and `line` say where it waits ---- */

/* Until all threads of the block are there. The environment's CADRE_SHIM_NO_BARRIER names one, as
 * "sort.cu:95", at which none waits: what runs its kernel must fail then. */
void cadre_shim_block_barrier(const char *file, int line);

/* Until all lanes of `mask` are there, each with a value. Gives their values by lane, valid until
 * the thread's next wait. */
const uint64_t *cadre_shim_collect(const char *file, int line, uint32_t mask, uint64_t value);

/* Makes known an array that the threads of a block share, and fills it as each block's beginning
 * will. Always true. */
bool cadre_shim_shared(void *array, size_t size_bytes);

/* Ends the launch: a lane asks for what no lane gives. Does not return. */
void cadre_shim_fail(const char *file, int line, const char *what);

#ifdef __cplusplus
}

#include "tests/worker/cuda_shim/shim/shim_language.h"
#endif

#endif
