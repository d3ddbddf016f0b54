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

/* Returns how many bytes this process may use: the least of the machine's memory, the limits of its
 * cgroup and the groups around it (v2 memory.max, v1 memory.limit_in_bytes), and the limit of its
 * address space (ulimit -v). */
uint64_t cadre_memory_size(void);

/* Returns the cgroup's limit alone, read from files under `root` ("" on a real system); UINT64_MAX
 * when there is none. */
uint64_t cadre_memory_limit(const char *root);

#endif
