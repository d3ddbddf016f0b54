/*
 * cpu_quota - how many CPUs this process may really use.
 *
 * Thread:  any.
 *
 * Math libraries obey the affinity mask but not the quota of a container: with more threads than
 * quota the kernel stops all of them for most of each period.
 */
#ifndef CADRE_COMMON_SYSTEM_CPU_QUOTA_H
#define CADRE_COMMON_SYSTEM_CPU_QUOTA_H

/* Returns how many CPUs this process may use: those in the affinity mask, or the smallest quota of
 * its cgroup and the groups around it (v2 cpu.max, v1 cpu.cfs_quota_us / cpu.cfs_period_us),
 * rounded down, whichever is less; at least 1. Files that are missing or cannot be understood
 * set no limit. */
int cadre_cpu_count(void);

/* Returns the quota alone, read from files under `root` ("" on a real system): rounded down, at
 * least 1; 0 when there is none. */
int cadre_cpu_quota(const char *root);

#endif
