/*
 * peers - plays the coordinator and a worker of one cadre-ps, over real sockets.
 */
#ifndef CADRE_TESTS_PS_PEERS_H
#define CADRE_TESTS_PS_PEERS_H

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/socket.h"
#include "common/system/clock.h"
#include "common/wire/codec.h"
#include "common/wire/task.h"

enum { PATIENCE_MS = 120000 };

typedef struct {
    cadre_context_t *context;
    cadre_socket_t *control; /* the coordinator's ROUTER */
    cadre_socket_t *data;    /* the worker's DEALER */
    cadre_task_t me;         /* the coordinator */
    cadre_task_t worker;
    cadre_routing_id_t ps; /* as the control ROUTER knows it */
    uint64_t epoch;
    uint64_t request;
    pid_t process;
    cadre_frames_t frames;
    char endpoint[CADRE_ENDPOINT_TEXT_SIZE]; /* of the coordinator */
} peers_t;

static inline void
bind_coordinator(peers_t *self, const char *address)
{
    cadre_endpoint_t endpoint;
    cr_assert_eq(cadre_endpoint_parse(address, &endpoint), 0);
    cr_assert_eq(cadre_socket_open_router(self->context, CADRE_PLANE_CONTROL, &self->control), 0);
    int64_t deadline_ms = cadre_clock_now_ms() + PATIENCE_MS;
    int status = 0;
    while ((status = cadre_socket_bind(self->control, &endpoint)) < 0 &&
           cadre_clock_now_ms() < deadline_ms) {
        poll(NULL, 0, 20); /* a socket closed just now may still hold the port */
    }
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    cadre_endpoint_text(cadre_socket_endpoint(self->control), self->endpoint);
}

/* Starts $CADRE_BIN_DIR/cadre-ps with this coordinator and up to two more words. */
static inline void
start_ps(peers_t *self, const char *first, const char *second)
{
    const char *folder = getenv("CADRE_BIN_DIR");
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/cadre-ps", folder ? folder : "build/debug/bin");
    self->process = fork();
    cr_assert_geq(self->process, 0);
    if (self->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("CADRE_CHECKPOINT_DIR", "/", 0); /* unless the test has said otherwise */
        execl(path, path, "--coordinator", self->endpoint, "--log-level", "warn", first, second,
              (char *)NULL);
        _exit(127);
    }
}

static inline peers_t
open_peers(const char *first, const char *second)
{
    peers_t self = {.me = {CADRE_ROLE_COORDINATOR, 0, 77},
                    .worker = {CADRE_ROLE_WORKER, 0, 88},
                    .epoch = 4,
                    .request = 1000};
    cr_assert_eq(cadre_context_open(&self.context), 0);
    bind_coordinator(&self, "tcp://127.0.0.1:*");
    start_ps(&self, first, second);
    return self;
}

/* The next message on `socket`; CADRE_ETIMEOUT when none comes. */
static inline int
receive(peers_t *self, cadre_socket_t *socket, int timeout_ms, cadre_message_t *message)
{
    int64_t deadline_ms = cadre_clock_now_ms() + timeout_ms;
    int status = 0;
    while ((status = cadre_socket_receive(socket, &self->frames)) == CADRE_EAGAIN) {
        int64_t left_ms = deadline_ms - cadre_clock_now_ms();
        if (left_ms <= 0) {
            return CADRE_ETIMEOUT;
        }
        zmq_pollitem_t item = {.socket = cadre_socket_handle(socket), .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, (long)left_ms);
    }
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    status = cadre_message_decode(cadre_chunk_data(self->frames.header),
                                  cadre_chunk_size_bytes(self->frames.header), self->frames.chunks,
                                  self->frames.count, message);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    return 0;
}

static inline void
send_message(peers_t *self, cadre_socket_t *socket, const cadre_routing_id_t *to,
             cadre_message_t *message)
{
    message->epoch = self->epoch;
    message->incarnation = to ? self->me.incarnation : self->worker.incarnation;
    cadre_chunk_t *header = cadre_message_encode(message);
    int status = 0;
    int64_t deadline_ms = cadre_clock_now_ms() + PATIENCE_MS;
    while ((status = cadre_socket_send(socket, to, header, message->chunks,
                                       message->chunk_count)) == CADRE_EAGAIN &&
           cadre_clock_now_ms() < deadline_ms) {
        poll(NULL, 0, 5);
    }
    cr_assert_eq(status, 0);
    cadre_chunk_unref(&header);
    cadre_message_fini(message);
}

/* Waits for a control message of `type`, passing over others. */
static inline void
await_control(peers_t *self, cadre_message_type_t type, cadre_message_t *message)
{
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(receive(self, self->control, PATIENCE_MS, message), 0, "no %s came",
                     cadre_message_type_text(type));
        self->ps = self->frames.from;
        if (message->type == type) {
            return;
        }
        cadre_message_fini(message);
    }
    cr_assert_fail("no %s among 100 messages", cadre_message_type_text(type));
}

static inline void
welcome(peers_t *self)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_WELCOME};
    message.welcome = (cadre_welcome_message_t){.job = "test",
                                                .heartbeat_ms = 100,
                                                .lease_ms = 3000,
                                                .resend_ms = 100,
                                                .shards = 1,
                                                .generation = 1};
    send_message(self, self->control, &self->ps, &message);
}

/* HELLO, WELCOME, and the worker's connection to the address announced. */
static inline void
join(peers_t *self)
{
    cadre_message_t hello;
    await_control(self, CADRE_MESSAGE_HELLO, &hello);
    cr_assert_eq(hello.hello.role, CADRE_ROLE_PS);
    cr_assert_eq(hello.hello.process, (uint64_t)self->process);
    welcome(self);
    char id[CADRE_TASK_TEXT_SIZE];
    cadre_endpoint_t endpoint;
    cr_assert_eq(cadre_endpoint_parse(hello.hello.address, &endpoint), 0);
    cr_assert_eq(cadre_socket_open_dealer(self->context, CADRE_PLANE_DATA,
                                          cadre_task_text(&self->worker, id), &self->data),
                 0);
    cr_assert_eq(cadre_socket_connect(self->data, &endpoint), 0);
    cadre_message_fini(&hello);
}

/* Asks on the control plane; the status in REPLY. */
static inline int
ask_control(peers_t *self, cadre_message_t *message)
{
    cadre_message_t reply;
    uint64_t request = message->request = ++self->request;
    send_message(self, self->control, &self->ps, message);
    await_control(self, CADRE_MESSAGE_REPLY, &reply);
    cr_assert_eq(reply.request, request);
    int status = -(int)reply.reply.status;
    cadre_message_fini(&reply);
    return status;
}

/* Asks on the data plane; the caller ends `answer`. */
static inline void
ask_data(peers_t *self, cadre_message_t *message, cadre_message_t *answer)
{
    uint64_t request = message->request = ++self->request;
    send_message(self, self->data, NULL, message);
    cr_assert_eq(receive(self, self->data, PATIENCE_MS, answer), 0);
    cr_assert_eq(answer->request, request);
}

/* Waits for the process; its exit status, or -1 - signal. */
static inline int
await_exit(peers_t *self)
{
    int64_t deadline_ms = cadre_clock_now_ms() + PATIENCE_MS;
    int status = 0;
    while (waitpid(self->process, &status, WNOHANG) == 0) {
        cr_assert(cadre_clock_now_ms() < deadline_ms, "the process has not ended");
        poll(NULL, 0, 5);
    }
    self->process = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
}

static inline void
close_peers(peers_t *self)
{
    if (self->process > 0) {
        kill(self->process, SIGKILL);
        waitpid(self->process, NULL, 0);
    }
    cadre_frames_fini(&self->frames);
    cadre_socket_close(&self->data, 0);
    cadre_socket_close(&self->control, 0);
    cadre_context_close(&self->context);
}

#endif
