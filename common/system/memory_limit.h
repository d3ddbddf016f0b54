/*
 * memory_limit - how much memory this process may really use.
 *
 * Thread:  any; the functions keep no state.
 *
 * A container sees the host's memory, and is killed at its own limit.
 */
#ifndef CADRE_COMMON_SYSTEM_MEMORY_LIMIT_H
#define CADRE_COMMON_SYSTEM_MEMORY_LIMIT_H

#include <stdint.h>

/* Bytes of the machine's memory, or the smallest limit of this process's cgroup and the groups
 * around it (v2 memory.max, v1 memory.limit_in_bytes) or of its address space (ulimit -v),
 * whichever is least. */
uint64_t cadre_memory_size(void);

/* The cgroup's part alone, for files under `root` ("" on a real system); UINT64_MAX when there is
 * none. */
uint64_t cadre_memory_limit(const char *root);

#endif
