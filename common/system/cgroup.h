/*
 * cgroup - the limits of this process's control groups, version 1 and 2.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_SYSTEM_CGROUP_H
#define CADRE_COMMON_SYSTEM_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the limit that the files in a group's directory set; UINT64_MAX when they set none, are
 * missing or cannot be understood. */
typedef uint64_t (*cadre_cgroup_limit_t)(const char *directory);

/* A cgroup controller (cpu, memory), and how its limit is read. */
typedef struct {
    const char *name;             /* of the controller in /proc/self/cgroup */
    const char *const *mounts_v1; /* below /sys/fs/cgroup, NULL-ended */
    cadre_cgroup_limit_t limit_v1;
    cadre_cgroup_limit_t limit_v2;
} cadre_cgroup_controller_t;

/* Returns the smallest limit of this process's group and of the groups around it, of both versions,
 * read from files under `root` ("" on a real system); UINT64_MAX when there is none. */
uint64_t cadre_cgroup_smallest(const char *root, const cadre_cgroup_controller_t *controller);

/* Reads the first line of the file DIRECTORY/NAME without its newline into `line`; false when there
 * is none. */
bool cadre_cgroup_line(const char *directory, const char *name, char *line, size_t size_bytes);

#endif
