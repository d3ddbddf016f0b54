#include "common/connections.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* The local port of a tcp connection; 0 for everything else. */
static uint16_t
local_port(int descriptor)
{
    struct sockaddr_storage own = {0};
    struct sockaddr_storage other = {0};
    socklen_t own_size = sizeof(own);
    socklen_t other_size = sizeof(other);
    if (getsockname(descriptor, (struct sockaddr *)&own, &own_size) < 0 ||
        getpeername(descriptor, (struct sockaddr *)&other, &other_size) < 0) {
        return 0; /* no socket, or one that listens */
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

size_t
cadre_connections_end(const uint16_t *ports, size_t count)
{
    size_t ended = 0;
    DIR *descriptors = opendir("/proc/self/fd");
    const struct dirent *entry;
    while (descriptors && (entry = readdir(descriptors))) {
        /* A copy: the number may be another connection's by the time that this one is ended. */
        int copy = entry->d_name[0] == '.'
                       ? -1
                       : fcntl((int)strtol(entry->d_name, NULL, 10), F_DUPFD_CLOEXEC, 0);
        if (copy >= 0 && has_port(local_port(copy), ports, count)) {
            ended += shutdown(copy, SHUT_RDWR) == 0;
        }
        if (copy >= 0) {
            close(copy);
        }
    }
    if (descriptors) {
        closedir(descriptors);
    }
    return ended;
}
