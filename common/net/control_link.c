#include "common/net/control_link.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/monitor.h"
#include "common/net/peer.h"
#include "common/system/clock.h"
#include "common/system/log.h"
#include "common/wire/codec.h"

enum {
    WAITING_FIRST_MS = 5000,  /* time without a coordinator after which the log says so */
    WAITING_LAST_MS = 300000, /* longest time between such log lines, which come ever more seldom */
};

struct cadre_control_link {
    cadre_control_link_options_t options;
    cadre_context_t *context;
    cadre_peer_t peer; /* the coordinator */
    cadre_monitor_t *monitor;
    cadre_frames_t frames;

    bool is_up;
    bool was_up; /* there was a connection before */
    uint64_t down_since_ms;
    uint64_t waiting_due_ms; /* when the log next says that there is no coordinator */
    uint64_t waiting_ms;     /* time between two log lines that there is no coordinator */
    /* When to connect again after a failed handshake; UINT64_MAX: none has failed. */
    uint64_t redial_ms;
    uint64_t failed_log_ms; /* when the log may say again that a handshake failed */
};

/* --- connecting --- */

/* Opens a socket under this task's name, with a monitor of its connection, and begins to connect to
 * the coordinator. On failure the caller closes what was opened. */
static int
try_dial(const cadre_control_link_t *self, cadre_socket_t **socket, cadre_monitor_t **monitor)
{
    char id[CADRE_TASK_TEXT_SIZE];
    cadre_task_text(&self->options.task, id);
    int status = cadre_socket_open_dealer(self->context, CADRE_PLANE_CONTROL, id, socket);
    if (status < 0) {
        return status;
    }
    status = cadre_monitor_open(self->context, *socket, monitor);
    if (status < 0) {
        return status;
    }
    return cadre_socket_connect(*socket, &self->options.coordinator);
}

/* Replaces the socket by another one, which connects in the background under the same name. On
 * failure the present socket stays. */
static int
dial(cadre_control_link_t *self)
{
    cadre_socket_t *socket = NULL;
    cadre_monitor_t *monitor = NULL;
    int status = try_dial(self, &socket, &monitor);
    if (status < 0) {
        cadre_monitor_close(&monitor);
        cadre_socket_close(&socket, 0);
        return status;
    }

    char address[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_monitor_close(&self->monitor);
    cadre_peer_close(&self->peer, 0);
    cadre_peer_init(&self->peer, socket, &(cadre_task_t){CADRE_ROLE_COORDINATOR, 0, 0},
                    cadre_endpoint_text(&self->options.coordinator, address));
    self->monitor = monitor;
    return 0;
}

/* Notes that there is no connection: drops the messages that wait for one, and sets the time of the
 * first log line about it. */
static void
begin_waiting(cadre_control_link_t *self, uint64_t now_ms)
{
    self->is_up = false;
    self->down_since_ms = now_ms;
    self->waiting_ms = WAITING_FIRST_MS;
    self->waiting_due_ms = now_ms + self->waiting_ms;
    cadre_peer_drop_waiting(&self->peer);
}

/* Opens a task's link to its coordinator, which connects in the background. */
int
cadre_control_link_open(cadre_context_t *context, const cadre_control_link_options_t *options,
                        cadre_control_link_t **out)
{
    cadre_control_link_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    self->context = context;
    self->redial_ms = UINT64_MAX;
    int status = dial(self);
    if (status < 0) {
        free(self);
        return status;
    }
    begin_waiting(self, (uint64_t)cadre_clock_now_ms());
    *out = self;
    return 0;
}

/* Closes the link. The messages that the socket has may still leave if there is a connection. */
void
cadre_control_link_close(cadre_control_link_t **self_p)
{
    cadre_control_link_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_monitor_close(&self->monitor);
    cadre_peer_close(&self->peer, self->is_up ? CADRE_CLEAN_STOP_LINGER_MS : 0);
    cadre_frames_fini(&self->frames);
    free(self);
}

bool
cadre_control_link_is_up(const cadre_control_link_t *self)
{
    return self->is_up;
}

const char *
cadre_control_link_address(const cadre_control_link_t *self)
{
    return self->peer.address;
}

bool
cadre_control_link_is_trusted(const cadre_control_link_t *self)
{
    return cadre_socket_trusted(self->peer.socket);
}

void *
cadre_control_link_handle(cadre_control_link_t *self)
{
    return cadre_socket_handle(self->peer.socket);
}

void *
cadre_control_link_monitor_handle(cadre_control_link_t *self)
{
    return cadre_monitor_handle(self->monitor);
}

/* --- the connection --- */

/* Returns whether the coordinator is in this process: the socket is then connected when zmq_connect
 * returns, and its monitor never says so. */
static bool
is_direct(const cadre_control_link_t *self)
{
    return self->options.coordinator.kind == CADRE_ENDPOINT_INPROC;
}

/* Notes and logs that there is a connection. */
static cadre_control_link_event_t
go_up(cadre_control_link_t *self)
{
    self->is_up = true;
    self->was_up = true;
    self->redial_ms = UINT64_MAX; /* libzmq has connected again by itself */
    cadre_log(CADRE_LOG_INFO, "connected", "coordinator=%s", self->peer.address);
    return CADRE_LINK_UP;
}

/* Takes the event of a failed handshake: logs it, at most every CADRE_DROPPED_LOG_MS, and has the
 * link connect again later. libzmq would give the address up; but the missing key may be added, or
 * the port may have belonged to another program until the coordinator starts. */
static void
on_failed(cadre_control_link_t *self, const cadre_event_t *event, uint64_t now_ms)
{
    self->redial_ms = now_ms + CADRE_REDIAL_MS;
    if (now_ms < self->failed_log_ms) {
        return;
    }
    self->failed_log_ms = now_ms + CADRE_DROPPED_LOG_MS;
    bool is_guarded = cadre_context_keyring(self->context) != NULL;
    cadre_log(CADRE_LOG_ERROR, "handshake_failed",
              "coordinator=%s why=\"%s\" next=\"keeps connecting\"", self->peer.address,
              cadre_event_why_failed(event, is_guarded));
}

/* Returns the next event of the connection: it is up, it broke, or nothing has changed. */
cadre_control_link_event_t
cadre_control_link_watch(cadre_control_link_t *self, uint64_t now_ms)
{
    cadre_event_t event;
    /* Within the process the monitor reports nothing: the link is up at once. */
    if (is_direct(self) && !self->is_up) {
        return go_up(self);
    }

    while (cadre_monitor_receive(self->monitor, &event) == 0) {
        if (event.kind == CADRE_EVENT_READY) {
            return go_up(self);
        }
        if (event.kind == CADRE_EVENT_HANDSHAKE_FAILED) {
            on_failed(self, &event, now_ms);
        } else if (event.kind == CADRE_EVENT_DISCONNECTED && self->is_up) {
            begin_waiting(self, now_ms);
            return CADRE_LINK_DOWN;
        }
    }
    return CADRE_LINK_SAME;
}

/* Replaces the connection, over which nothing has come for too long (half-open), by another.
 * Returns false if that fails; the present one then stays. */
bool
cadre_control_link_redial(cadre_control_link_t *self, uint64_t now_ms)
{
    if (dial(self) < 0) {
        cadre_log(CADRE_LOG_ERROR, "connect_failed",
                  "coordinator=%s why=\"%s\" next=\"tried again\"", self->peer.address,
                  cadre_error_text());
        return false;
    }
    cadre_log(CADRE_LOG_WARN, "half_open", "coordinator=%s silent_ms=%d next=\"reconnects\"",
              self->peer.address, CADRE_MUTE_MS);
    begin_waiting(self, now_ms);
    return true;
}

/* Logs that there is still no coordinator, the next time after twice the pause. The limit that is
 * logged is 0, none, for a task that has not been connected yet. */
static void
complain(cadre_control_link_t *self, uint64_t now_ms)
{
    cadre_log(CADRE_LOG_WARN, "waiting_for_coordinator",
              "coordinator=%s seconds=%" PRIu64 " limit_s=%" PRIu64, self->peer.address,
              (now_ms - self->down_since_ms) / 1000,
              (self->was_up ? self->options.away_ms : 0) / 1000);
    self->waiting_ms = cadre_min_u64(2 * self->waiting_ms, WAITING_LAST_MS);
    self->waiting_due_ms = now_ms + self->waiting_ms;
}

/* Runs the timers while there is no connection: connects again after a failed handshake, and logs
 * the wait. Returns when to call again at the latest. */
uint64_t
cadre_control_link_tick(cadre_control_link_t *self, uint64_t now_ms)
{
    if (self->is_up) {
        return UINT64_MAX;
    }
    if (is_direct(self)) {
        return now_ms; /* within the process: cadre_control_link_watch is to be called at once */
    }
    if (now_ms >= self->redial_ms) {
        self->redial_ms = dial(self) < 0 ? now_ms + CADRE_REDIAL_MS : UINT64_MAX;
    }
    if (now_ms >= self->waiting_due_ms) {
        complain(self, now_ms);
    }
    return cadre_min_u64(self->redial_ms, self->waiting_due_ms);
}

/* --- messages --- */

/* Takes the next message of the coordinator; CADRE_EAGAIN when there is none. */
int
cadre_control_link_receive(cadre_control_link_t *self, cadre_message_t *message)
{
    int status = cadre_socket_receive(self->peer.socket, &self->frames);
    if (status == CADRE_ECLOSED) { /* the context is being closed: no message will come */
        return CADRE_EAGAIN;
    }
    if (status < 0) {
        return status;
    }
    return cadre_message_decode(cadre_chunk_data(self->frames.header),
                                cadre_chunk_size_bytes(self->frames.header), self->frames.chunks,
                                self->frames.count, message);
}

bool
cadre_control_link_is_full(const cadre_control_link_t *self)
{
    return cadre_peer_is_full(&self->peer);
}

/* Sends the entry, which is taken; drops it when there is no connection, as what matters is sent
 * again. */
void
cadre_control_link_send(cadre_control_link_t *self, cadre_outbox_entry_t *entry)
{
    if (self->is_up) {
        cadre_peer_send(&self->peer, entry);
    } else {
        cadre_outbox_entry_fini(entry);
    }
}

void
cadre_control_link_flush(cadre_control_link_t *self)
{
    cadre_peer_flush(&self->peer);
}
