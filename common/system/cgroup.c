#include "common/system/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"

/* Reads the first line of the file DIRECTORY/NAME, without its newline; false when there is none.
 */
bool
cadre_cgroup_line(const char *directory, const char *name, char *line, size_t size_bytes)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", directory, name);
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

/* Returns the smallest limit of the group at `path` below `mount` and of the groups around it. A
 * container may see the host's path but mount only its own group: then the deeper directories do
 * not exist, and the mount itself has the limit. */
static uint64_t
smallest_below(const char *mount, const char *path, cadre_cgroup_limit_t limit)
{
    uint64_t smallest = UINT64_MAX;
    cadre_auto(cadre_free) char *directory = cadre_asprintf("%s%s", mount, path);
    size_t mount_size = strlen(mount);
    for (;;) {
        uint64_t here = limit(directory);
        smallest = cadre_min_u64(smallest, here);
        char *slash = strrchr(directory + mount_size, '/');
        if (!slash) {
            return smallest;
        }
        *slash = '\0';
    }
}

/* Returns whether a list of controllers, separated by commas, has this one. */
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

/* Returns the limit for one line of /proc/self/cgroup, "number:controllers:path", where the
 * controllers are empty for v2; UINT64_MAX when the line is not for this controller. */
static uint64_t
limit_of_line(const char *root, const cadre_cgroup_controller_t *controller, char *line)
{
    /* Version 2 is mounted alone, or beside version 1 in a folder of its own. */
    static const char *const mounts_v2[] = {"", "unified", NULL};
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    /* "/..": a group outside of those that this process can see, whose files it cannot read. */
    if (!path || path[1] != '/' || strstr(path, "/..")) {
        return UINT64_MAX;
    }

    *path++ = '\0';
    controllers++;
    bool v2 = controllers[0] == '\0';
    if (!v2 && !has_controller(controllers, controller->name)) {
        return UINT64_MAX;
    }

    uint64_t smallest = UINT64_MAX;
    for (const char *const *mount = v2 ? mounts_v2 : controller->mounts_v1; *mount; mount++) {
        cadre_auto(cadre_free) char *place =
            cadre_asprintf("%s/sys/fs/cgroup%s%s", root, **mount ? "/" : "", *mount);
        uint64_t here =
            smallest_below(place, path, v2 ? controller->limit_v2 : controller->limit_v1);
        smallest = cadre_min_u64(smallest, here);
    }

    return smallest;
}

/* Returns the smallest limit of this process's control group and the groups around it, of versions
 * 1 and 2; UINT64_MAX when there is none. */
uint64_t
cadre_cgroup_smallest(const char *root, const cadre_cgroup_controller_t *controller)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/proc/self/cgroup", root);
    FILE *stream = fopen(path, "re");
    if (!stream) {
        return UINT64_MAX;
    }

    uint64_t smallest = UINT64_MAX;
    char line[PATH_MAX];
    while (fgets(line, sizeof(line), stream)) {
        line[strcspn(line, "\n")] = '\0';
        uint64_t here = limit_of_line(root, controller, line);
        smallest = cadre_min_u64(smallest, here);
    }

    fclose(stream);
    return smallest;
}
