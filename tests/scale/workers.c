/*
 * workers ADDRESS FIRST COUNT SLOTS - many light workers in one process and thread.
 *
 * Each is a worker core (worker/core/worker_core.h) behind a control connection of its own, so the
 * coordinator sees what real workers would say. A closure ends as soon as it begins and pushes
 * nothing. Ends with 0 when every worker has been dismissed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/context.h"
#include "common/net/monitor.h"
#include "common/net/socket.h"
#include "common/system/clock.h"
#include "common/wire/codec.h"
#include "tests/system/scratch.h"
#include "worker/core/worker_core.h"

enum { EVENTS_MAX = 64 };

typedef struct {
    cadre_task_t task;
    cadre_worker_core_t *core;
    cadre_socket_t *socket;
    uint64_t due_ms;
    bool left;
} worker_t;

typedef struct {
    cadre_context_t *context;
    cadre_endpoint_t coordinator;
    cadre_frames_t frames;
    worker_t *workers;
    int count;
    int left;
    int epoll;
    uint64_t now_ms;
} workers_t;

static void
check(int status, const char *what)
{
    require(status >= 0, status < 0 && cadre_error_text()[0] ? cadre_error_text() : what);
}

/* Opens the connection; libzmq's descriptor tells by edges that looking pays. */
static void
dial(workers_t *self, worker_t *worker)
{
    char id[CADRE_TASK_TEXT_SIZE];
    cadre_socket_close(&worker->socket, 0);
    check(cadre_socket_open_dealer(self->context, CADRE_PLANE_CONTROL,
                                   cadre_task_text(&worker->task, id), &worker->socket),
          "a socket");
    check(cadre_socket_connect(worker->socket, &self->coordinator), "a connection");
    int fd = -1;
    size_t size = sizeof(fd);
    check(zmq_getsockopt(cadre_socket_handle(worker->socket), ZMQ_FD, &fd, &size), "a descriptor");
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)(worker - self->workers)};
    check(epoll_ctl(self->epoll, EPOLL_CTL_ADD, fd, &event), "epoll");
    cadre_worker_core_connected(worker->core, self->now_ms);
}

static void
on_event(workers_t *self, worker_t *worker, cadre_worker_event_t *event)
{
    switch (event->kind) {
    case CADRE_WORKER_START:
        cadre_worker_core_finish(worker->core, event->run,
                                 &(cadre_run_outcome_t){.text = "", .compute_us = 1}, self->now_ms);
        break;
    case CADRE_WORKER_REDIAL:
        dial(self, worker);
        break;
    case CADRE_WORKER_REFUSED:
    case CADRE_WORKER_LEFT:
        self->left += !worker->left;
        worker->left = true;
        break;
    case CADRE_WORKER_RELEASE:
        cadre_holding_destroy(&event->holding);
        break;
    case CADRE_WORKER_SHARD_MOVED:
    case CADRE_WORKER_REACHABILITY:
    case CADRE_WORKER_OPEN_DATASET:
    case CADRE_WORKER_LOAD:
    case CADRE_WORKER_VALUES:
    case CADRE_WORKER_PUSHED:
    case CADRE_WORKER_FORGET:
    case CADRE_WORKER_LACKS:
    case CADRE_WORKER_RESET:
        break;
    }
}

static void
obey(workers_t *self, worker_t *worker)
{
    cadre_worker_event_t event;
    while (cadre_worker_core_event(worker->core, &event)) {
        on_event(self, worker, &event);
    }
}

/* False when a message does not fit; it stays in front. */
static bool
flush(worker_t *worker)
{
    cadre_outbox_t *outbox = cadre_worker_core_outbox(worker->core);
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(outbox, &entry)) {
        int status = entry.plane == CADRE_PLANE_CONTROL
                         ? cadre_socket_send(worker->socket, NULL, entry.header, entry.chunks,
                                             entry.chunk_count)
                         : 0;
        if (status == CADRE_EAGAIN) {
            cadre_outbox_push_front(outbox, &entry);
            return false;
        }
        cadre_outbox_entry_fini(&entry);
    }
    return true;
}

/* Receives what is there; whether there was anything. */
static bool
receive(workers_t *self, worker_t *worker)
{
    bool some = false;
    while (cadre_socket_receive(worker->socket, &self->frames) == 0) {
        cadre_message_t message;
        int status = cadre_message_decode(cadre_chunk_data(self->frames.header),
                                          cadre_chunk_size_bytes(self->frames.header),
                                          self->frames.chunks, self->frames.count, &message);
        check(status, "a message");
        cadre_task_t from = {CADRE_ROLE_COORDINATOR, 0, message.incarnation};
        cadre_worker_core_receive(worker->core, &from, &message, self->now_ms);
        obey(self, worker);
        some = true;
    }
    return some;
}

/* The socket is looked at once more after the last send, which may have swallowed its signal. */
static void
serve(workers_t *self, worker_t *worker)
{
    bool again;
    do {
        worker->due_ms = cadre_worker_core_tick(worker->core, self->now_ms);
        obey(self, worker);
        bool fits = flush(worker);
        again = receive(self, worker) && fits;
    } while (again);
    if (cadre_outbox_count(cadre_worker_core_outbox(worker->core)) > 0) {
        worker->due_ms = self->now_ms + 1;
    }
}

static void
turn(workers_t *self)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t due_ms = UINT64_MAX;
    for (int i = 0; i < self->count; i++) {
        due_ms = self->workers[i].due_ms < due_ms ? self->workers[i].due_ms : due_ms;
    }
    uint64_t rest_ms = due_ms > self->now_ms ? due_ms - self->now_ms : 0;
    int count = epoll_wait(self->epoll, events, EVENTS_MAX, rest_ms < 1000 ? (int)rest_ms : 1000);
    self->now_ms = (uint64_t)cadre_clock_now_ms();
    for (int i = 0; i < count; i++) {
        serve(self, &self->workers[events[i].data.u32]);
    }
    for (int i = 0; i < self->count; i++) {
        if (self->workers[i].due_ms <= self->now_ms) {
            serve(self, &self->workers[i]);
        }
    }
}

static void
start(workers_t *self, int i, int first, int slots)
{
    worker_t *worker = &self->workers[i];
    uint64_t incarnation = 0;
    require(getrandom(&incarnation, sizeof(incarnation), 0) == (ssize_t)sizeof(incarnation),
            "a random number");
    worker->task = (cadre_task_t){CADRE_ROLE_WORKER, (uint32_t)(first + i), incarnation};
    cadre_worker_options_t options = {.session = {.task = worker->task,
                                                  .build = "scale",
                                                  .host = "scale",
                                                  .process = (uint32_t)getpid()},
                                      .devices = "cpu",
                                      .slots = (uint32_t)slots};
    worker->core = cadre_worker_core_new(&options, self->now_ms);
    dial(self, worker);
}

/* What the experiment says, which knows what it means. */
static int
number(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

int
main(int argc, char **argv)
{
    require(argc == 5, "usage: scale_workers ADDRESS FIRST COUNT SLOTS");
    workers_t self = {.count = number(argv[3]), .epoll = epoll_create1(EPOLL_CLOEXEC)};
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    check(cadre_endpoint_parse(argv[1], &self.coordinator), "an address");
    check(cadre_context_open(&self.context), "a context");
    self.workers = cadre_calloc((size_t)self.count, sizeof(*self.workers));
    self.now_ms = (uint64_t)cadre_clock_now_ms();
    for (int i = 0; i < self.count; i++) {
        start(&self, i, number(argv[2]), number(argv[4]));
    }
    while (self.left < self.count) {
        turn(&self);
    }
    for (int i = 0; i < self.count; i++) {
        cadre_socket_close(&self.workers[i].socket, CADRE_CLEAN_STOP_LINGER_MS);
        cadre_worker_core_destroy(&self.workers[i].core);
    }
    cadre_frames_fini(&self.frames);
    cadre_context_close(&self.context);
    close(self.epoll);
    free(self.workers);
    return 0;
}
