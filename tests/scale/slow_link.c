#include "tests/scale/slow_link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/system/scratch.h"

enum {
    CONNECTIONS_MAX = 64,
    PIECE = 16 << 10,
    AHEAD_US = 2000, /* what the wire may be ahead of the clock: a sleep is that inexact */
    BACKLOG = 16,
};

/* One direction of a connection: what was read and not yet written. */
typedef struct {
    int from;
    int to;
    size_t begin;
    size_t end;
    uint8_t bytes[PIECE];
} pipe_t;

/* What takes bytes in one direction, one after the other. */
typedef struct {
    uint64_t free_us; /* when the last byte has left */
} wire_t;

typedef struct {
    pipe_t up;
    pipe_t down;
    wire_t own_up; /* unless all connections share one */
    wire_t own_down;
} connection_t;

struct slow_link {
    pthread_t thread;
    _Atomic bool stopped;
    int listener;
    uint64_t bytes_per_second;
    struct sockaddr_un target;
    bool is_shared; /* by all connections */
    wire_t up;
    wire_t down;
    _Atomic uint64_t up_bytes;
    _Atomic uint64_t down_bytes;
    connection_t *connections[CONNECTIONS_MAX];
    int count;
};

static uint64_t
now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static int
open_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    require(fd >= 0, "a socket");
    return fd;
}

static void
take_connection(slow_link_t *self)
{
    int client = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) {
        return;
    }
    require(self->count < CONNECTIONS_MAX, "at most 64 connections over a link");
    int server = open_socket();
    if (connect(server, (struct sockaddr *)&self->target, sizeof(self->target)) < 0) {
        /* who listened does not yet, or no more: the client sees that, and tries again */
        close(server);
        close(client);
        return;
    }
    connection_t *connection = cadre_calloc(1, sizeof(*connection));
    connection->up.from = connection->down.to = client;
    connection->up.to = connection->down.from = server;
    self->connections[self->count++] = connection;
}

static void
end_connection(slow_link_t *self, int number)
{
    connection_t *connection = self->connections[number];
    close(connection->up.from);
    close(connection->up.to);
    free(connection);
    self->connections[number] = self->connections[--self->count];
}

static wire_t *
up_wire(slow_link_t *self, connection_t *connection)
{
    return self->is_shared ? &self->up : &connection->own_up;
}

static wire_t *
down_wire(slow_link_t *self, connection_t *connection)
{
    return self->is_shared ? &self->down : &connection->own_down;
}

/* Moves what the wire takes now, and adds it to `bytes`; false when the connection has ended. */
static bool
move(const slow_link_t *self, pipe_t *pipe, wire_t *wire, _Atomic uint64_t *bytes)
{
    uint64_t now = now_us();
    if (pipe->begin == pipe->end) {
        pipe->begin = pipe->end = 0;
        if (wire->free_us > now + AHEAD_US) {
            return true;
        }
        ssize_t got = read(pipe->from, pipe->bytes, PIECE);
        if (got <= 0) {
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        }
        pipe->end = (size_t)got;
        wire->free_us = wire->free_us > now ? wire->free_us : now;
        wire->free_us += (uint64_t)got * 1000000 / self->bytes_per_second;
        atomic_fetch_add(bytes, (uint64_t)got);
    }
    ssize_t put = send(pipe->to, pipe->bytes + pipe->begin, pipe->end - pipe->begin, MSG_NOSIGNAL);
    if (put < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    pipe->begin += (size_t)put;
    return true;
}

/* Says what to wait for: room where something is held, bytes where the wire is free. True where the
 * wire is not free. */
static bool
watch(const pipe_t *pipe, const wire_t *wire, uint64_t now, struct pollfd *fds)
{
    bool holds = pipe->begin < pipe->end;
    fds[0] = (struct pollfd){.fd = !holds && wire->free_us <= now + AHEAD_US ? pipe->from : -1,
                             .events = POLLIN};
    fds[1] = (struct pollfd){.fd = holds ? pipe->to : -1, .events = POLLOUT};
    return wire->free_us > now + AHEAD_US;
}

static void *
run(void *argument)
{
    slow_link_t *self = argument;
    int turn = 0;
    while (!atomic_load(&self->stopped)) {
        struct pollfd fds[1 + 4 * CONNECTIONS_MAX];
        uint64_t now = now_us();
        fds[0] = (struct pollfd){.fd = self->listener, .events = POLLIN};
        bool waits = false;
        for (int i = 0; i < self->count; i++) {
            connection_t *connection = self->connections[i];
            waits |= watch(&connection->up, up_wire(self, connection), now, &fds[1 + 4 * i]);
            waits |= watch(&connection->down, down_wire(self, connection), now, &fds[3 + 4 * i]);
        }
        poll(fds, (nfds_t)(1 + 4 * self->count), waits ? 1 : 50);
        take_connection(self);
        turn++; /* each turn another connection is the first to be served */
        for (int i = self->count - 1; i >= 0; i--) {
            int number = (i + turn) % self->count;
            connection_t *connection = self->connections[number];
            wire_t *up = up_wire(self, connection);
            wire_t *down = down_wire(self, connection);
            if (!move(self, &connection->up, up, &self->up_bytes) ||
                !move(self, &connection->down, down, &self->down_bytes)) {
                end_connection(self, number);
                break;
            }
        }
    }
    return NULL;
}

static slow_link_t *
open_link(const char *path, uint64_t bytes_per_second, bool is_shared)
{
    slow_link_t *self = cadre_calloc(1, sizeof(*self));
    self->bytes_per_second = bytes_per_second;
    self->is_shared = is_shared;
    self->target = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(self->target.sun_path, sizeof(self->target.sun_path), "%s.own", path);
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    require(strlen(path) + 5 < sizeof(own.sun_path), "a shorter path");
    memcpy(own.sun_path, path, strlen(path) + 1);
    require(rename(path, self->target.sun_path) == 0, "somebody who listens there");
    self->listener = open_socket();
    require(bind(self->listener, (struct sockaddr *)&own, sizeof(own)) == 0 &&
                listen(self->listener, BACKLOG) == 0,
            "a place to listen");
    require(pthread_create(&self->thread, NULL, run, self) == 0, "a thread");
    return self;
}

slow_link_t *
slow_link_open(const char *path, uint64_t bytes_per_second)
{
    return open_link(path, bytes_per_second, true);
}

slow_link_t *
slow_link_open_each(const char *path, uint64_t bytes_per_second)
{
    return open_link(path, bytes_per_second, false);
}

void
slow_link_close(slow_link_t **self_p)
{
    slow_link_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    atomic_store(&self->stopped, true);
    pthread_join(self->thread, NULL);
    while (self->count > 0) {
        end_connection(self, 0);
    }
    close(self->listener);
    free(self);
}

uint64_t
slow_link_up_bytes(const slow_link_t *self)
{
    return atomic_load(&self->up_bytes);
}

uint64_t
slow_link_down_bytes(const slow_link_t *self)
{
    return atomic_load(&self->down_bytes);
}
