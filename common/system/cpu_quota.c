#include "common/system/cpu_quota.h"

#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/bounds.h"
#include "common/system/cgroup.h"

/* Returns a quota as whole CPUs, rounded down, at least 1; UINT64_MAX for a quota that is none. */
static uint64_t
whole_cpus(long quota_us, long period_us)
{
    if (quota_us <= 0 || period_us <= 0) {
        return UINT64_MAX;
    }
    return quota_us < period_us ? 1 : (uint64_t)(quota_us / period_us);
}

/* Reads the CPU quota of a control group of version 2 from cpu.max: "max 100000" (none) or "150000
 * 100000" (1.5 CPUs). */
static uint64_t
limit_v2(const char *directory)
{
    char line[64];
    if (!cadre_cgroup_line(directory, "cpu.max", line, sizeof(line))) {
        return UINT64_MAX;
    }
    char *end = NULL;
    long quota_us = strtol(line, &end, 10);
    return end == line ? UINT64_MAX : whole_cpus(quota_us, strtol(end, NULL, 10));
}

/* Reads the CPU quota of a control group of version 1, where -1 means none. */
static uint64_t
limit_v1(const char *directory)
{
    char quota[64];
    char period[64];
    if (!cadre_cgroup_line(directory, "cpu.cfs_quota_us", quota, sizeof(quota)) ||
        !cadre_cgroup_line(directory, "cpu.cfs_period_us", period, sizeof(period))) {
        return UINT64_MAX;
    }
    return whole_cpus(strtol(quota, NULL, 10), strtol(period, NULL, 10));
}

/* Returns the CPU quota of this process's control groups in whole CPUs; 0 when there is none. */
int
cadre_cpu_quota(const char *root)
{
    static const char *const mounts_v1[] = {"cpu", "cpu,cpuacct", "cpuacct,cpu", NULL};
    const cadre_cgroup_controller_t cpu = {"cpu", mounts_v1, limit_v1, limit_v2};
    uint64_t smallest = cadre_cgroup_smallest(root, &cpu);
    return smallest > INT_MAX ? 0 : (int)smallest;
}

/* Returns how many CPUs this process may be scheduled on; those online if the machine's affinity
 * mask is larger than cpu_set_t. */
static int
affinity_count(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        return CPU_COUNT(&set);
    }
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Returns how many CPUs this process may use: those that it may be scheduled on, or its quota if
 * that is less; at least 1. */
int
cadre_cpu_count(void)
{
    int count = affinity_count();
    int quota = cadre_cpu_quota("");
    if (quota > 0 && quota < count) {
        count = quota;
    }
    return cadre_max_int(count, 1);
}
