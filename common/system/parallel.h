/*
 * parallel - the same call for every number below a count, on several threads.
 *
 * Thread:  any; returns when every call has.
 *
 * For the same work on many parts of files or memory, on a thread that need not answer messages
 * meanwhile. The threads share the number of the next part, an atomic counter, and the caller's
 * context: each call may write only what belongs to its own number.
 */
#ifndef CADRE_COMMON_SYSTEM_PARALLEL_H
#define CADRE_COMMON_SYSTEM_PARALLEL_H

#include <stddef.h>

enum { CADRE_PARALLEL_THREADS_MAX = 64 };

/* Calls `each` once for every index below `count`, on as many threads as the process may use CPUs
 * (cpu_quota.h), the caller's own among them, and at most CADRE_PARALLEL_THREADS_MAX. Where no
 * thread can be started the others do its work. */
void cadre_parallel_for(size_t count, void (*each)(void *context, size_t index), void *context);

#endif
