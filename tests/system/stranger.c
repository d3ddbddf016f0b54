#include "tests/system/stranger.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/net/receiving.h"
#include "tests/system/scratch.h"

enum { COMMAND = 4 }; /* flags of a frame that holds a short command */

_Static_assert(sizeof(STRANGER_GREETING) - 1 == CADRE_GREETING_SIZE, "a whole greeting");

int
stranger_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fd >= 0, "a socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        return fd;
    }

    close(fd);
    return -1;
}

bool
stranger_send(int fd, const void *bytes, size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes;) {
        ssize_t sent = send(fd, (const char *)bytes + at, size_bytes - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += (size_t)sent;
    }
    return true;
}

static bool
read_all(int fd, uint8_t *bytes, size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes;) {
        ssize_t size = recv(fd, bytes + at, size_bytes - at, 0);
        if (size <= 0) {
            return false;
        }
        at += (size_t)size;
    }
    return true;
}

bool
stranger_await_ready(int fd)
{
    uint8_t greeting[CADRE_GREETING_SIZE];
    uint8_t head[2]; /* flags and size */
    uint8_t ready[CADRE_READY_SIZE_MAX];
    return read_all(fd, greeting, sizeof(greeting)) && read_all(fd, head, sizeof(head)) &&
           head[0] == COMMAND && read_all(fd, ready, head[1]);
}
