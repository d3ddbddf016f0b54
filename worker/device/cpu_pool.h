/*
 * cpu_pool - threads that share the loops of the CPU device.
 *
 * A loop whose iterations do not depend on each other is cut into parts; the calling thread and the
 * pool's take one after the other. Which thread takes which part changes no result, so neither does
 * the number of threads. Slots share the pool: one of them has it at a time, the others do their
 * loops alone meanwhile, which costs time but no bits.
 *
 * Owner:   the device.
 * Thread:  `run` on any thread.
 */
#ifndef CADRE_WORKER_DEVICE_CPU_POOL_H
#define CADRE_WORKER_DEVICE_CPU_POOL_H

#include <stdint.h>

typedef struct cadre_cpu_pool cadre_cpu_pool_t;

/* For `threads` threads in all: one less is started, because the caller of `run` works too. */
cadre_cpu_pool_t *cadre_cpu_pool_new(int threads);
void cadre_cpu_pool_destroy(cadre_cpu_pool_t **self_p);

/* The iterations [begin, end) of a loop. */
typedef void cadre_cpu_part_t(const void *context, int64_t begin, int64_t end);

/* Runs the iterations [0, count) and returns when all are done. A thread is woken for each `grain`
 * of them beyond the first; below two such the caller does it all in one part, as it does if `self`
 * is NULL. Parts are smaller, so that a thread that comes late leaves its share to the others. */
void cadre_cpu_pool_run(cadre_cpu_pool_t *self, int64_t count, int64_t grain,
                        cadre_cpu_part_t *part, const void *context);

#endif
