#include "worker/worker_process.h"

#include <signal.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/actor.h"
#include "common/net/security.h"
#include "common/net/socket.h"
#include "common/system/clock.h"
#include "common/system/poll.h"
#include "worker/worker_actor.h"
#include "worker/worker_threads.h"

enum {
    STUCK_CHECK_MS = 500, /* how often to look whether closures still run after the session's end */
    STUCK_LOG_MS = 5000,  /* how long after the session's end the log says that closures still
                             run */
};

typedef struct {
    const cadre_worker_flags_t *flags;
    cadre_context_t *context;
    cadre_worker_threads_t *threads;
    int signals;    /* descriptor from which signals are read */
    int status;     /* to exit with */
    bool signalled; /* the worker drains because of a signal, or because its device is lost */
    bool dismissed; /* the worker has left because it was told to drain */
    bool session_ended;
    int64_t session_ended_ms;
    bool network_ended; /* the network thread has ended */
} process_t;

/* --- starting --- */

/* Opens the context and its security, and starts the threads of one session. */
static int
start(process_t *self, cadre_device_t *device, const cadre_registry_t *registry,
      const cadre_worker_outputs_t *outputs)
{
    const cadre_worker_flags_t *flags = self->flags;
    int status = cadre_context_open(&self->context);
    if (status < 0) {
        return status;
    }

    status = cadre_security_apply(&flags->security, CADRE_KEY_WORKER, self->context);
    if (status < 0) {
        return status;
    }

    const cadre_worker_threads_options_t options = {
        .coordinator = flags->cluster.coordinator,
        .index = flags->cluster.index,
        .slots = flags->slots,
        .row_cache_bytes = (size_t)flags->row_cache_mib << 20,
        .device = device,
        .registry = registry,
        .data_dir = flags->data_dir,
        /* A coordinator on ipc is the same user, or root; one on tcp may be anybody who took its
         * place, and so names files in data_dir only. */
        .confined = flags->cluster.coordinator.kind == CADRE_ENDPOINT_TCP,
        .away_ms = flags->wait ? 0 : 1000 * (uint64_t)flags->away_seconds,
        .drain_ms = 1000 * (uint64_t)flags->drain_seconds,
        .shard_ms = 1000 * (uint64_t)flags->shard_seconds,
        .trace = outputs->trace,
        .http = outputs->http};
    return cadre_worker_threads_open(self->context, &options, &self->threads);
}

/* --- waiting --- */

/* Acts on a signal: the first one drains the worker. A second one, or one when the session is over
 * already, ends the process at once. */
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
    cadre_pipe_send(cadre_worker_threads_socket(self->threads), CADRE_WORKER_ACTOR_DRAIN, NULL);
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
    self->session_ended_ms = cadre_clock_now_ms(); /* logs again after STUCK_LOG_MS */
}

/* Returns when the network thread has ended: it does so once the session is over and no slot holds
 * a closure any more. */
static void
wait_for_end(process_t *self)
{
    void *socket = cadre_worker_threads_socket(self->threads);
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
    if (cadre_worker_threads_close(&self->threads) < 0) {
        cadre_log(CADRE_LOG_ERROR, "stop_failed", "reason=\"%s\"", cadre_error_text());
        _exit(self->status);
    }
    cadre_context_close(&self->context);
}

/* Checks, for --check, that keys and address can be used: opens a connection to the coordinator
 * without waiting for an answer. */
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

/* Serves one session; returns the status to exit with, or -1 when the process goes on to another
 * session. */
int
cadre_worker_process_serve(const cadre_worker_flags_t *flags, cadre_device_t *device,
                           const cadre_registry_t *registry, const cadre_worker_outputs_t *outputs,
                           int signals)
{
    process_t self = {.flags = flags, .signals = signals};
    int started = start(&self, device, registry, outputs);
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
