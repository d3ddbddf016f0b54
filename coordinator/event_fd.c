#include "coordinator/event_fd.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/status.h"

enum { RESERVE = 128 }; /* descriptors kept for connections; a quarter of a limit below 512 */

/* Opens an eventfd that is not readable. Fails when it would be one of the descriptors that are
 * kept back for connections. */
int
cadre_event_fd_open(int *fd)
{
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t reserve = limit.rlim_cur / 4 < RESERVE ? limit.rlim_cur / 4 : RESERVE;
    int opened = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (opened < 0) {
        return cadre_fail(CADRE_EIO, "eventfd: %s", strerror(errno));
    }

    if ((rlim_t)opened >= limit.rlim_cur - reserve) { /* the kernel gives the lowest free number */
        close(opened);
        return cadre_fail(CADRE_EIO,
                          "%d descriptors are open, and the last %llu of %llu are kept for "
                          "connections: raise ulimit -n, or use fewer at a time",
                          opened, (unsigned long long)reserve, (unsigned long long)limit.rlim_cur);
    }

    *fd = opened;
    return 0;
}

void
cadre_event_fd_set(int fd)
{
    uint64_t one = 1;
    ssize_t written = fd >= 0 ? write(fd, &one, sizeof(one)) : 0;
    (void)written; /* fails only when the count is full: then it is readable anyway */
}

void
cadre_event_fd_clear(int fd)
{
    uint64_t count = 0;
    ssize_t taken = fd >= 0 ? read(fd, &count, sizeof(count)) : 0;
    (void)taken; /* fails only when there is nothing to read: then it is not readable anyway */
}

void
cadre_event_fd_close(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}
