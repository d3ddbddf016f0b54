#include "common/system/descriptors.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/base/bounds.h"

/* Raises the soft limit of open files to the hard one; if that is refused, the limit stays. */
void
cadre_descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

uint64_t
cadre_descriptors_limit(void)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

/* Returns how many descriptors the process has open, 0 if that cannot be found out. */
uint64_t
cadre_descriptors_open(void)
{
    uint64_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory)) {
        count++; /* with "." and "..", and the directory's own */
    }
    if (directory) {
        closedir(directory);
    }
    return count > 3 ? count - 3 : 0;
}

uint64_t
cadre_descriptors_reserve(void)
{
    return cadre_min_u64(cadre_descriptors_limit() / 4, CADRE_DESCRIPTORS_RESERVE);
}

bool
cadre_descriptors_is_reserved(int descriptor)
{
    return (uint64_t)descriptor >= cadre_descriptors_limit() - cadre_descriptors_reserve();
}

/* Writes what the limit of open files is and how to raise it into `text`; returns `text`. */
const char *
cadre_descriptors_text(char text[CADRE_DESCRIPTORS_TEXT_SIZE])
{
    uint64_t limit = cadre_descriptors_limit();
    snprintf(text, CADRE_DESCRIPTORS_TEXT_SIZE,
             "RLIMIT_NOFILE, the limit of open files, is %" PRIu64
             ": raise it, as with `ulimit -n %" PRIu64 "`",
             limit, 2 * limit);
    return text;
}
