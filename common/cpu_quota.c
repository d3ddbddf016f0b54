#include "common/cpu_quota.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"

/* Reads the first line of a file without its newline into `line`; false when there is none. */
static bool
read_line(const char *path, char *line, size_t size_bytes)
{
    FILE *stream = fopen(path, "re");
    if (!stream) {
        return false;
    }
    bool read = fgets(line, (int)size_bytes, stream) != NULL;
    fclose(stream);
    if (read) {
        line[strcspn(line, "\n")] = '\0';
    }
    return read;
}

static long
whole_cpus(long quota_us, long period_us)
{
    if (quota_us <= 0 || period_us <= 0) {
        return LONG_MAX;
    }
    return quota_us < period_us ? 1 : quota_us / period_us;
}

/* v2: "max 100000" or "150000 100000". */
static long
limit_v2(const char *directory)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/cpu.max", directory);
    char line[64];
    if (!read_line(path, line, sizeof(line))) {
        return LONG_MAX;
    }
    char *end = NULL;
    long quota_us = strtol(line, &end, 10);
    return end == line ? LONG_MAX : whole_cpus(quota_us, strtol(end, NULL, 10));
}

/* v1: a quota of -1 is none. */
static long
limit_v1(const char *directory)
{
    cadre_auto(cadre_free) char *quota = cadre_asprintf("%s/cpu.cfs_quota_us", directory);
    cadre_auto(cadre_free) char *period = cadre_asprintf("%s/cpu.cfs_period_us", directory);
    char quota_line[64];
    char period_line[64];
    if (!read_line(quota, quota_line, sizeof(quota_line)) ||
        !read_line(period, period_line, sizeof(period_line))) {
        return LONG_MAX;
    }
    return whole_cpus(strtol(quota_line, NULL, 10), strtol(period_line, NULL, 10));
}

/* The smallest limit of the group at `path` below `mount` and of the groups around it. In a
 * container that sees the host's path but mounts only its own group, the deeper directories do not
 * exist and the mount itself has the quota. */
static long
smallest_limit(const char *mount, const char *path, long (*limit)(const char *directory))
{
    long smallest = LONG_MAX;
    cadre_auto(cadre_free) char *directory = cadre_asprintf("%s%s", mount, path);
    size_t mount_size = strlen(mount);
    for (;;) {
        long here = limit(directory);
        smallest = here < smallest ? here : smallest;
        char *slash = strrchr(directory + mount_size, '/');
        if (!slash) {
            return smallest;
        }
        *slash = '\0';
    }
}

static bool
has_controller(const char *controllers, const char *wanted)
{
    size_t size = strlen(wanted);
    for (const char *at = controllers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, wanted, size) == 0 && (at[size] == ',' || at[size] == '\0')) {
            return true;
        }
    }
    return false;
}

/* One line of /proc/self/cgroup, "number:controllers:path"; the controllers are empty for v2. */
static long
limit_of_line(const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path || path[1] != '/' || strstr(path, "/..")) {
        return LONG_MAX;
    }
    *path++ = '\0';
    controllers++;
    bool v2 = controllers[0] == '\0';
    if (!v2 && !has_controller(controllers, "cpu")) {
        return LONG_MAX;
    }
    static const char *const mounts_v1[] = {"cpu", "cpu,cpuacct", "cpuacct,cpu"};
    static const char *const mounts_v2[] = {"", "/unified"};
    long smallest = LONG_MAX;
    for (size_t i = 0; i < (v2 ? CADRE_COUNT_OF(mounts_v2) : CADRE_COUNT_OF(mounts_v1)); i++) {
        cadre_auto(cadre_free) char *mount =
            v2 ? cadre_asprintf("%s/sys/fs/cgroup%s", root, mounts_v2[i])
               : cadre_asprintf("%s/sys/fs/cgroup/%s", root, mounts_v1[i]);
        long here = smallest_limit(mount, path, v2 ? limit_v2 : limit_v1);
        smallest = here < smallest ? here : smallest;
    }
    return smallest;
}

int
cadre_cpu_quota(const char *root)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/proc/self/cgroup", root);
    FILE *stream = fopen(path, "re");
    if (!stream) {
        return 0;
    }
    long smallest = LONG_MAX;
    char line[PATH_MAX];
    while (fgets(line, sizeof(line), stream)) {
        line[strcspn(line, "\n")] = '\0';
        long here = limit_of_line(root, line);
        smallest = here < smallest ? here : smallest;
    }
    fclose(stream);
    return smallest > INT_MAX ? 0 : (int)smallest;
}

/* CPUs this process may be scheduled on; those online where the mask is larger than cpu_set_t. */
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

int
cadre_cpu_count(void)
{
    int count = affinity_count();
    int quota = cadre_cpu_quota("");
    if (quota > 0 && quota < count) {
        count = quota;
    }
    return count > 1 ? count : 1;
}
