#include "common/system/memory_limit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/bounds.h"
#include "common/system/cgroup.h"

/* Reads a limit in bytes from a file of a control group; UINT64_MAX when it says "max", cannot be
 * read or is 0. */
static uint64_t
read_bytes(const char *directory, const char *name)
{
    char line[64];
    if (!cadre_cgroup_line(directory, name, line, sizeof(line)) || line[0] < '0' || line[0] > '9') {
        return UINT64_MAX;
    }
    errno = 0;
    char *end = NULL;
    unsigned long long bytes = strtoull(line, &end, 10);
    return errno || *end || bytes == 0 ? UINT64_MAX : bytes;
}

static uint64_t
limit_v2(const char *directory)
{
    return read_bytes(directory, "memory.max");
}

/* Reads the memory limit of a control group of version 1. Without a limit the file has the largest
 * number of whole pages, which is far above any machine's memory. */
static uint64_t
limit_v1(const char *directory)
{
    uint64_t bytes = read_bytes(directory, "memory.limit_in_bytes");
    return bytes >= (uint64_t)1 << 62 ? UINT64_MAX : bytes;
}

uint64_t
cadre_memory_limit(const char *root)
{
    static const char *const mounts_v1[] = {"memory", NULL};
    const cadre_cgroup_controller_t memory = {"memory", mounts_v1, limit_v1, limit_v2};
    return cadre_cgroup_smallest(root, &memory);
}

/* Returns how many bytes this process may use: the least of the machine's memory, the limits of its
 * control groups, and the limit of its address space. */
uint64_t
cadre_memory_size(void)
{
    uint64_t size = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    size = cadre_min_u64(size, cadre_memory_limit(""));
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        size = cadre_min_u64(size, space.rlim_cur);
    }
    return size;
}
