/*
 * accept - refuses a connection that would take one of the last descriptors or is one too many of
 * its address, and ends one that brings more of a message than may come.
 *
 * Owner:   the programs that listen, cadre and cadre-ps. It is no part of a library: a library must
 *          not decide about the connections of the program that uses it.
 * Thread:  any; ZeroMQ's I/O threads. close is called by all, also in a process that was just
 *          forked: it takes no lock.
 *
 * When no descriptor is left, libzmq 4.3.4 ends the process on an ipc address, and on tcp tries to
 * accept again without end; no option changes that. Its listener cannot be stopped either:
 * zmq_unbind closes the connections that it has accepted. So this file defines accept4, recv and
 * close: the loader finds a program's own functions before those of the C library. accept4 closes a
 * connection whose descriptor belongs to the reserve (descriptors.h), or that is too many of one
 * address (greetings.h), and fails with ENFILE or ECONNABORTED, which libzmq handles on both
 * transports and reports to its monitor. recv follows the bytes of accepted connections
 * (receiving.h), and fails with ECONNRESET to end one. close counts connections out.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/net/greetings.h"
#include "common/net/receiving.h"
#include "common/system/clock.h"
#include "common/system/descriptors.h"

int cadre_accept4(int listener, void *address, void *size, int flags) __asm__("accept4")
    __attribute__((visibility("default")));

static cadre_greetings_t greetings = {.lock = PTHREAD_MUTEX_INITIALIZER};
/* For each descriptor, the place that cadre_greetings_enter gave to its connection; 0: none. */
static atomic_int places[CADRE_RECEIVING_DESCRIPTORS_MAX];

/* Counts an accepted connection by its address; false when the address has too many. */
static bool
enter(int accepted)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    if (getpeername(accepted, (struct sockaddr *)&address, &size) < 0) {
        return true; /* the peer has gone already */
    }

    int place =
        cadre_greetings_enter(&greetings, (const struct sockaddr *)&address, cadre_clock_now_us());
    if (place < 0) {
        cadre_greetings_refuse();
        return false;
    }

    atomic_store(&places[accepted], place);
    return true;
}

/* Stands in for the C library's accept4: closes an accepted connection whose descriptor belongs to
 * the reserve, or that is one too many of its address, and fails. EMFILE becomes ENFILE, which
 * libzmq handles on every transport. */
int
cadre_accept4(int listener, void *address, void *size, int flags)
{
    int accepted = (int)syscall(SYS_accept4, listener, address, size, flags);
    if (accepted < 0) {
        errno = errno == EMFILE ? ENFILE : errno;
        return -1;
    }

    bool is_reserved =
        cadre_descriptors_is_reserved(accepted) || !cadre_receiving_accepted(listener, accepted);
    if (is_reserved || !enter(accepted)) {
        syscall(SYS_close, accepted);
        errno = is_reserved ? ENFILE : ECONNABORTED;
        return -1;
    }

    return accepted;
}

int cadre_close(int descriptor) __asm__("close") __attribute__((visibility("default")));

int
cadre_close(int descriptor)
{
    if (descriptor >= 0 && descriptor < CADRE_RECEIVING_DESCRIPTORS_MAX) {
        cadre_greetings_leave(&greetings, atomic_exchange(&places[descriptor], 0));
    }
    return (int)syscall(SYS_close, descriptor);
}

ssize_t cadre_recv(int descriptor, void *bytes, size_t size_bytes, int flags) __asm__("recv")
    __attribute__((visibility("default")));

/* Stands in for the C library's recv: fails, which ends the connection, when a peer brings more of
 * a message than it may. */
ssize_t
cadre_recv(int descriptor, void *bytes, size_t size_bytes, int flags)
{
    ssize_t size = (ssize_t)syscall(SYS_recvfrom, descriptor, bytes, size_bytes, flags, NULL, NULL);
    if (size > 0 && !(flags & MSG_PEEK) && !cadre_receiving_read(descriptor, bytes, (size_t)size)) {
        errno = ECONNRESET;
        return -1;
    }
    return size;
}
