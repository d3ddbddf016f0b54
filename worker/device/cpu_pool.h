/*
 * cpu_pool - threads that share the loops of the CPU device.
 *
 * A loop whose iterations do not depend on each other is cut into parts; the calling thread and the
 * pool's take one after the other. Which thread takes which part changes no result, so neither does
 * the number of threads. Slots share the pool: one slot has it at a time; the others run their
 * loops on their own thread meanwhile, which takes longer and gives the same bits.
 *
 * Owner:   the device.
 * Thread:  `run` on any thread.
 */
#ifndef CADRE_WORKER_DEVICE_CPU_POOL_H
#define CADRE_WORKER_DEVICE_CPU_POOL_H

#include <stdint.h>

typedef struct cadre_cpu_pool cadre_cpu_pool_t;

/* Returns a pool in which `threads` threads compute: one less is started, since the caller of
 * cadre_cpu_pool_run computes too. */
cadre_cpu_pool_t *cadre_cpu_pool_new(int threads);
void cadre_cpu_pool_destroy(cadre_cpu_pool_t **self_p);

/* Runs the iterations [begin, end) of a loop. */
typedef void cadre_cpu_part_t(const void *context, int64_t begin, int64_t end);

/* Runs the iterations [0, count) of a loop and returns when all are done. One thread computes for
 * each `grain` iterations, the caller among them; with fewer than two times `grain`, or if `self`
 * is NULL, the caller runs all in one part. Parts are smaller than `grain`, so that a thread that
 * wakes late leaves its share to the others. */
void cadre_cpu_pool_run(cadre_cpu_pool_t *self, int64_t count, int64_t grain,
                        cadre_cpu_part_t *part, const void *context);

#endif
