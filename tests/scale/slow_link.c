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

typedef struct {
    pipe_t up;
    pipe_t down;
} connection_t;

/* All that goes in one direction. */
typedef struct {
    uint64_t free_us; /* when the last byte has left */
    _Atomic uint64_t bytes;
} wire_t;

struct slow_link {
    pthread_t thread;
    _Atomic bool stopped;
    int listener;
    uint64_t bytes_per_second;
    struct sockaddr_un target;
    wire_t up;
    wire_t down;
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
    require(connect(server, (struct sockaddr *)&self->target, sizeof(self->target)) == 0,
            "a connection to who listened");
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

/* Moves what the wire takes now; false when the connection has ended. */
static bool
move(pipe_t *pipe, wire_t *wire, uint64_t bytes_per_second, uint64_t now)
{
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
        wire->free_us += (uint64_t)got * 1000000 / bytes_per_second;
        atomic_fetch_add(&wire->bytes, (uint64_t)got);
    }
    ssize_t put = send(pipe->to, pipe->bytes + pipe->begin, pipe->end - pipe->begin, MSG_NOSIGNAL);
    if (put < 0) {
        return errno == EAGAIN || errno == EINTR;
    }
    pipe->begin += (size_t)put;
    return true;
}

/* What to wait for: room where something is held, bytes where the wire is free. */
static void
watch(const pipe_t *pipe, const wire_t *wire, uint64_t now, struct pollfd *fds)
{
    bool holds = pipe->begin < pipe->end;
    fds[0] = (struct pollfd){.fd = !holds && wire->free_us <= now + AHEAD_US ? pipe->from : -1,
                             .events = POLLIN};
    fds[1] = (struct pollfd){.fd = holds ? pipe->to : -1, .events = POLLOUT};
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
        for (int i = 0; i < self->count; i++) {
            watch(&self->connections[i]->up, &self->up, now, &fds[1 + 4 * i]);
            watch(&self->connections[i]->down, &self->down, now, &fds[3 + 4 * i]);
        }
        bool waits = self->up.free_us > now + AHEAD_US || self->down.free_us > now + AHEAD_US;
        poll(fds, (nfds_t)(1 + 4 * self->count), waits ? 1 : 50);
        take_connection(self);
        now = now_us();
        turn++; /* each turn another connection is the first to be served */
        for (int i = self->count - 1; i >= 0; i--) {
            int number = (i + turn) % self->count;
            connection_t *connection = self->connections[number];
            if (!move(&connection->up, &self->up, self->bytes_per_second, now) ||
                !move(&connection->down, &self->down, self->bytes_per_second, now)) {
                end_connection(self, number);
                break;
            }
        }
    }
    return NULL;
}

slow_link_t *
slow_link_open(const char *path, uint64_t bytes_per_second)
{
    slow_link_t *self = cadre_calloc(1, sizeof(*self));
    self->bytes_per_second = bytes_per_second;
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
    return atomic_load(&self->up.bytes);
}

uint64_t
slow_link_down_bytes(const slow_link_t *self)
{
    return atomic_load(&self->down.bytes);
}
