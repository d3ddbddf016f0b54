#include "worker/worker_process.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/actor.h"
#include "common/net/security.h"
#include "common/net/socket.h"
#include "common/system/clock.h"
#include "common/system/descriptors.h"
#include "common/system/poll.h"
#include "worker/slot/reader_actor.h"
#include "worker/slot/slot_actor.h"
#include "worker/worker_actor.h"

enum {
    DESCRIPTORS_OWN = 16, /* file descriptors that a session opens beside those to ps */
    AHEAD = 64,           /* runs that may wait for a slot in the work queue */
    STUCK_CHECK_MS = 500, /* how often to look whether closures still run after the session's end */
    STUCK_LOG_MS = 5000,  /* after so long the log says that they do */
    HOST_NAME_SIZE = 256, /* for gethostname */
    STOP_MS = 5000,       /* how long to wait for a thread that has nothing left to do */
};

typedef struct {
    const cadre_worker_flags_t *flags;
    cadre_trace_t *trace;      /* or NULL */
    cadre_http_server_t *http; /* or NULL */
    cadre_context_t *context;
    cadre_work_queue_t *queue;
    cadre_slot_actor_t **slots; /* [flags->slots] */
    void **pipes;               /* [flags->slots] */
    cadre_reader_actor_t *reader;
    cadre_worker_actor_t *network;
    char host[HOST_NAME_SIZE];                         /* borrowed by the core */
    char descriptors_why[CADRE_DESCRIPTORS_TEXT_SIZE]; /* borrowed by the core */
    int signals;                                       /* descriptor from which signals are read */
    int status;                                        /* to exit with */
    bool signalled; /* the worker drains because of a signal, or because its device is lost */
    bool dismissed; /* the worker has left because it was told to drain */
    bool session_ended;
    int64_t session_ended_ms;
    bool network_ended; /* the network thread has ended */
} process_t;

/* --- starting --- */

static int
start_slots(process_t *self, cadre_device_t *device, const cadre_registry_t *registry)
{
    self->queue = cadre_work_queue_new();
    self->slots = cadre_calloc(self->flags->slots, sizeof(cadre_slot_actor_t *));
    self->pipes = cadre_calloc(self->flags->slots, sizeof(void *));
    for (uint32_t i = 0; i < self->flags->slots; i++) {
        const cadre_slot_actor_options_t options = {.queue = self->queue,
                                                    .device = device,
                                                    .registry = registry,
                                                    .lane = cadre_trace_lane(self->trace, i)};
        int status = cadre_slot_actor_open(self->context, &options, &self->slots[i]);
        if (status < 0) {
            return status;
        }
        self->pipes[i] = cadre_slot_actor_socket(self->slots[i]);
    }
    return 0;
}

/* Returns for how many ps there are file descriptors: two for each, of those that this process does
 * not use by now and will not need for files and the coordinator. */
static uint32_t
count_room(process_t *self)
{
    uint64_t taken = cadre_descriptors_open() + DESCRIPTORS_OWN + cadre_descriptors_reserve();
    uint64_t limit = cadre_descriptors_limit();
    uint64_t room = limit > taken ? (limit - taken) / 2 : 1;
    cadre_descriptors_text(self->descriptors_why);
    return (uint32_t)(room < CADRE_SHARDS_MAX ? room : CADRE_SHARDS_MAX);
}

static int
start_network(process_t *self, cadre_device_t *device, const cadre_registry_t *registry)
{
    gethostname(self->host, sizeof(self->host) - 1);
    cadre_worker_actor_options_t options = {
        .core = {.session = {.task = {CADRE_ROLE_WORKER, self->flags->cluster.index, 0},
                             .build = CADRE_VERSION,
                             .host = self->host,
                             .process = (uint32_t)getpid(),
                             .away_ms = self->flags->wait
                                            ? 0
                                            : 1000 * (uint64_t)self->flags->away_seconds},
                 .devices = cadre_device_name(device),
                 .slots = self->flags->slots,
                 .ahead = AHEAD,
                 .shards_max = count_room(self),
                 .shards_why = self->descriptors_why,
                 .shard_timeout_ms = 1000 * (uint64_t)self->flags->shard_seconds,
                 .observes = self->http != NULL,
                 .registry = registry},
        .coordinator = self->flags->cluster.coordinator,
        .drain_ms = 1000 * (uint64_t)self->flags->drain_seconds,
        .http = self->http,
        .queue = self->queue,
        .slots = self->pipes,
        .reader = cadre_reader_actor_socket(self->reader)};
    uint64_t incarnation = 0;
    /* 0 is that of nobody. */
    while (incarnation == 0) {
        if (getrandom(&incarnation, sizeof(incarnation), 0) != (ssize_t)sizeof(incarnation)) {
            incarnation = 0;
        }
    }
    options.core.session.task.incarnation = incarnation;
    return cadre_worker_actor_open(self->context, &options, &self->network);
}

static int
start(process_t *self, cadre_device_t *device, const cadre_registry_t *registry)
{
    /* On ipc it is the same user, or root; on tcp it may be anybody who has its place. */
    bool on_tcp = self->flags->cluster.coordinator.kind == CADRE_ENDPOINT_TCP;
    int status = cadre_context_open(&self->context);
    if (status == 0) {
        status = cadre_security_apply(&self->flags->security, CADRE_KEY_WORKER, self->context);
    }
    if (status == 0) {
        status = start_slots(self, device, registry);
    }
    if (status == 0) {
        status =
            cadre_reader_actor_open(self->context, self->flags->data_dir, on_tcp, &self->reader);
    }
    return status < 0 ? status : start_network(self, device, registry);
}

/* --- waiting --- */

static void
on_signal(process_t *self)
{
    uint8_t number = 0;
    if (read(self->signals, &number, 1) != 1) {
        return;
    }
    int status = number == SIGINT ? CADRE_WORKER_EXIT_INTERRUPTED : CADRE_WORKER_EXIT_TERMINATED;
    if (self->signalled || self->session_ended) {
        cadre_log(CADRE_LOG_WARN, "killed", "signal=%d", number);
        _exit(status);
    }
    self->signalled = true;
    self->status = status;
    cadre_log(CADRE_LOG_INFO, "draining", "signal=%d next=\"finish what runs, then leave\"",
              number);
    cadre_pipe_send(cadre_worker_actor_socket(self->network), CADRE_WORKER_ACTOR_DRAIN, NULL);
}

/* Notes that the device is lost; the worker drains by itself. */
static void
on_device_lost(process_t *self, const char *text)
{
    cadre_log(CADRE_LOG_ERROR, "device_lost", "reason=\"%s\" next=\"leaves and exits with %d\"",
              text, CADRE_WORKER_EXIT_DEVICE);
    self->status = self->signalled ? self->status : CADRE_WORKER_EXIT_DEVICE;
    self->signalled = true;
}

/* Acts on what the worker's actor says about the session and the device. */
static void
on_message(process_t *self, const cadre_pipe_message_t *message)
{
    cadre_auto(cadre_free) char *text = message->pointer;
    switch (message->kind) {
    case CADRE_WORKER_ACTOR_HAS_LEFT:
    case CADRE_WORKER_ACTOR_DISMISSED:
        self->dismissed = message->kind == CADRE_WORKER_ACTOR_DISMISSED;
        cadre_log(CADRE_LOG_INFO, "left", "reason=\"%s\"", text);
        self->session_ended = true;
        self->session_ended_ms = cadre_clock_now_ms();
        break;
    case CADRE_WORKER_ACTOR_MISMATCH:
    case CADRE_WORKER_ACTOR_UNWANTED:
        cadre_log(CADRE_LOG_ERROR, "refused", "why=\"%s\" next=exit", text);
        _exit(message->kind == CADRE_WORKER_ACTOR_MISMATCH ? CADRE_WORKER_EXIT_PROTOCOL
                                                           : CADRE_WORKER_EXIT_UNAVAILABLE);
    case CADRE_WORKER_ACTOR_DEVICE_LOST:
        on_device_lost(self, text);
        break;
    case CADRE_WORKER_ACTOR_GONE:
        self->network_ended = true;
        break;
    default:
        break;
    }
}

/* Returns whether the process serves another session. */
static bool
comes_again(const process_t *self)
{
    return self->flags->wait && !self->signalled && !self->dismissed;
}

/* Looks after closures that still run when the session has ended. A process that is to exit waits a
 * moment only; one that is to serve again waits as long as it takes, and logs that. */
static void
check_stuck(process_t *self)
{
    if (!self->session_ended || cadre_clock_now_ms() < self->session_ended_ms + STUCK_LOG_MS) {
        return;
    }
    bool again = comes_again(self);
    cadre_log(CADRE_LOG_WARN, "closures_still_running", "next=\"%s\"",
              again ? "waits for them" : "exits without them");
    if (!again) {
        _exit(self->status);
    }
    self->session_ended_ms = cadre_clock_now_ms();
}

/* Returns when the network thread has ended: it does so once the session is over and no slot holds
 * a closure any more. */
static void
wait_for_end(process_t *self)
{
    void *socket = cadre_worker_actor_socket(self->network);
    while (!self->network_ended) {
        zmq_pollitem_t items[] = {{.socket = socket, .events = ZMQ_POLLIN},
                                  {.fd = self->signals, .events = ZMQ_POLLIN}};
        /* Nothing is due before the session ends: only a message or signal ends the wait. */
        cadre_poll(items, 2, self->session_ended ? STUCK_CHECK_MS : -1);

        cadre_pipe_message_t message;
        while (cadre_pipe_receive(socket, &message) == 0) {
            on_message(self, &message);
        }
        if (items[1].revents & ZMQ_POLLIN) {
            on_signal(self);
        }
        check_stuck(self);
    }
}

/* --- ending --- */

/* Stops all threads, none of which has anything left to do. */
static void
stop(process_t *self)
{
    int status = cadre_worker_actor_close(&self->network, STOP_MS);
    if (self->queue) {
        cadre_work_queue_close(self->queue);
    }
    for (uint32_t i = 0; self->slots && i < self->flags->slots && status == 0; i++) {
        status = cadre_slot_actor_close(&self->slots[i], STOP_MS);
    }
    status = status < 0 ? status : cadre_reader_actor_close(&self->reader, STOP_MS);
    if (status < 0) {
        cadre_log(CADRE_LOG_ERROR, "stop_failed", "reason=\"%s\"", cadre_error_text());
        _exit(self->status);
    }
    free(self->slots);
    free(self->pipes);
    cadre_work_queue_destroy(&self->queue);
    cadre_context_close(&self->context);
}

int
cadre_worker_process_check(const cadre_worker_flags_t *flags)
{
    cadre_context_t *context = NULL;
    cadre_socket_t *socket = NULL;
    int status = cadre_context_open(&context);
    if (status == 0) {
        status = cadre_security_apply(&flags->security, CADRE_KEY_WORKER, context);
    }
    if (status == 0) {
        status = cadre_socket_open_dealer(context, CADRE_PLANE_CONTROL, "check", &socket);
    }
    if (status == 0) {
        status = cadre_socket_connect(socket, &flags->cluster.coordinator);
    }
    cadre_socket_close(&socket, 0);
    cadre_context_close(&context);
    return status;
}

int
cadre_worker_process_serve(const cadre_worker_flags_t *flags, cadre_device_t *device,
                           const cadre_registry_t *registry, const cadre_worker_outputs_t *outputs,
                           int signals)
{
    process_t self = {
        .flags = flags, .trace = outputs->trace, .http = outputs->http, .signals = signals};
    int started = start(&self, device, registry);
    if (started < 0) {
        cadre_log(CADRE_LOG_ERROR, "start_failed", "reason=\"%s\"", cadre_error_text());
        self.status = started == CADRE_ECONFIG ? CADRE_WORKER_EXIT_CONFIG : CADRE_WORKER_EXIT_IO;
        stop(&self);
        return self.status;
    }
    wait_for_end(&self);
    stop(&self);
    return comes_again(&self) ? -1 : self.status;
}
