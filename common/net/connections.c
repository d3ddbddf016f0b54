#include "common/net/connections.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

/* Returns the local port of a tcp connection; 0 for any other descriptor. */
static uint16_t
local_port(int descriptor)
{
    struct sockaddr_storage own = {0};
    struct sockaddr_storage other = {0};
    socklen_t own_size = sizeof(own);
    socklen_t other_size = sizeof(other);
    if (getsockname(descriptor, (struct sockaddr *)&own, &own_size) < 0 ||
        getpeername(descriptor, (struct sockaddr *)&other, &other_size) < 0) {
        return 0; /* no socket, or a listening one */
    }

    switch (own.ss_family) {
    case AF_INET:
        return ntohs(((const struct sockaddr_in *)&own)->sin_port);
    case AF_INET6:
        return ntohs(((const struct sockaddr_in6 *)&own)->sin6_port);
    default:
        return 0;
    }
}

/* Returns whether a port is one of `ports`; port 0 stands for a descriptor that is no tcp
 * connection. */
static bool
has_port(uint16_t port, const uint16_t *ports, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ports[i] == port && port != 0) {
            return true;
        }
    }
    return false;
}

static int
fail_system(int error)
{
    char reason[256];
    return cadre_fail(CADRE_EIO, "connections cannot be ended: %s",
                      strerror_r(error, reason, sizeof(reason)));
}

static void
close_folder(DIR **folder)
{
    if (*folder) {
        closedir(*folder);
    }
}

/* Shuts the connection of a descriptor down if its local port is one of `ports`. */
static int
end_one(int descriptor, const uint16_t *ports, size_t count)
{
    /* Works on a copy of the descriptor: its owner may close it meanwhile, and the number may then
     * be another connection's. */
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        return errno == EBADF ? 0 : fail_system(errno); /* EBADF: the owner has closed it */
    }
    if (has_port(local_port(copy), ports, count)) {
        shutdown(copy, SHUT_RDWR);
    }

    close(copy);
    return 0;
}

/* Shuts down every tcp connection of this process whose local port is one of `ports`. The
 * connections belong to libzmq, which does not name their descriptors: so all descriptors of the
 * process are looked at. */
int
cadre_connections_end(const uint16_t *ports, size_t count)
{
    cadre_auto(close_folder) DIR *descriptors = opendir("/proc/self/fd");
    if (!descriptors) {
        return fail_system(errno);
    }

    const struct dirent *entry;
    while ((errno = 0, entry = readdir(descriptors))) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        int status = end_one((int)strtol(entry->d_name, NULL, 10), ports, count);
        if (status < 0) {
            return status;
        }
    }

    return errno == 0 ? 0 : fail_system(errno);
}
