#include "worker/worker_actor.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/security.h"
#include "common/system/clock.h"
#include "common/system/log.h"
#include "common/system/poll.h"
#include "common/wire/codec.h"
#include "worker/core/worker_metrics.h"
#include "worker/worker_shell.h"

enum {
    /* Messages taken from one place before the others get their turn. */
    TURN_CONTROL_MAX = 256,
    TURN_DATA_MAX = 64, /* of each shard */
    TURN_PIPE_MAX = 256,

    LOST_LOG_MS = 5000,     /* without a coordinator: says so the first time */
    LOST_REPEAT_MS = 30000, /* and again */

    /* Places in the list that is polled: slots follow, then shards. */
    ITEM_MAIN = 0,
    ITEM_CONTROL,
    ITEM_MONITOR,
    ITEM_READER,
    ITEM_SLOTS,
};

/* --- the control connection --- */

/* A control socket that connects in the background; nothing is left open when it fails. */
static int
dial(const cadre_worker_actor_t *self, cadre_socket_t **socket, cadre_monitor_t **monitor)
{
    char routing_id[CADRE_TASK_TEXT_SIZE];
    cadre_task_text(&self->options.core.task, routing_id);
    int status = cadre_socket_open_dealer(self->context, CADRE_PLANE_CONTROL, routing_id, socket);
    if (status == 0) {
        status = cadre_monitor_open(self->context, *socket, monitor);
    }
    if (status == 0) {
        status = cadre_socket_connect(*socket, &self->options.coordinator);
    }
    if (status < 0) {
        cadre_monitor_close(monitor);
        cadre_socket_close(socket, 0);
    }
    return status;
}

static int
connect_control(cadre_worker_actor_t *self)
{
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_socket_t *socket = NULL;
    int status = dial(self, &socket, &self->monitor);
    if (status == 0 && cadre_security_is_insecure(self->context, &self->options.coordinator)) {
        cadre_log(CADRE_LOG_WARN, "insecure_transport",
                  "why=\"whoever reaches its connections reads along\"");
    }
    if (status == 0) {
        cadre_endpoint_text(&self->options.coordinator, address);
        cadre_peer_init(&self->control, socket, &(cadre_task_t){CADRE_ROLE_COORDINATOR, 0, 0},
                        address);
    }
    return status;
}

static void
lose_connection(cadre_worker_actor_t *self)
{
    self->connected = false;
    self->lost_ms = self->now_ms;
    self->lost_log_ms = self->now_ms + LOST_LOG_MS;
    cadre_peer_drop_waiting(&self->control);
}

/* Another socket in the place of the present one, which stays when there is none to be had. */
static int
replace_connection(cadre_worker_actor_t *self)
{
    cadre_socket_t *socket = NULL;
    cadre_monitor_t *monitor = NULL;
    int status = dial(self, &socket, &monitor);
    if (status == 0) {
        cadre_monitor_close(&self->monitor);
        cadre_socket_close(&self->control.socket, 0);
        self->monitor = monitor;
        self->control.socket = socket;
    }
    return status;
}

void
cadre_worker_dial_again(cadre_worker_actor_t *self)
{
    if (!self->connected) {
        return;
    }
    if (replace_connection(self) < 0) {
        cadre_log(CADRE_LOG_ERROR, "mute", "coordinator=%s why=\"%s\" next=\"keeps asking\"",
                  self->control.address, cadre_error_text());
        return;
    }
    cadre_log(CADRE_LOG_WARN, "mute", "coordinator=%s silent_ms=%d next=\"another connection\"",
              self->control.address, CADRE_MUTE_MS);
    lose_connection(self);
}

/* libzmq gives an address up whose handshake has failed; but keys are added, and others may have
 * had the port of a coordinator that is to come. */
static void
dial_refused(cadre_worker_actor_t *self)
{
    if (self->redial_ms > 0 && self->now_ms >= self->redial_ms) {
        self->redial_ms = 0;
        if (replace_connection(self) < 0) {
            self->redial_ms = self->now_ms + CADRE_REDIAL_MS;
        }
    }
}

/* --- what comes in --- */

static void
take_message(cadre_worker_actor_t *self, const cadre_task_t *from)
{
    cadre_message_t message;
    int status = cadre_message_decode(cadre_chunk_data(self->frames.header),
                                      cadre_chunk_size_bytes(self->frames.header),
                                      self->frames.chunks, self->frames.count, &message);
    if (status < 0) {
        cadre_worker_core_malformed(self->core);
        return;
    }
    bool foreign = from->role == CADRE_ROLE_PS && message.incarnation != from->incarnation;
    if (foreign || cadre_message_authorize(message.type, from->role) < 0) {
        cadre_message_fini(&message);
        cadre_worker_core_malformed(self->core);
        return;
    }
    cadre_worker_core_receive(self->core, from, &message, self->now_ms);
    cadre_worker_obey(self);
}

static void
receive(cadre_worker_actor_t *self, cadre_peer_t *peer, int turn_max)
{
    for (int i = 0; i < turn_max; i++) {
        int status = cadre_socket_receive(peer->socket, &self->frames);
        if (status == CADRE_EAGAIN || status == CADRE_ECLOSED) {
            return;
        }
        if (status < 0) {
            cadre_worker_core_malformed(self->core);
        } else {
            take_message(self, &peer->task);
        }
    }
}

/* Each try to connect ends so: the log has one line now and then. */
static void
tell_failed(cadre_worker_actor_t *self, const cadre_event_t *event)
{
    self->redial_ms = self->now_ms + CADRE_REDIAL_MS;
    if (self->now_ms >= self->failed_log_ms) {
        self->failed_log_ms = self->now_ms + LOST_REPEAT_MS;
        bool guarded = cadre_context_keyring(self->context) != NULL;
        cadre_log(CADRE_LOG_ERROR, "handshake_failed",
                  "coordinator=%s why=\"%s\" next=\"keeps dialling\"", self->control.address,
                  cadre_event_why_failed(event, guarded));
    }
}

static void
watch_connection(cadre_worker_actor_t *self)
{
    cadre_event_t event;
    while (cadre_monitor_receive(self->monitor, &event) == 0) {
        if (event.kind == CADRE_EVENT_READY) {
            self->connected = true;
            self->was_connected = true;
            self->redial_ms = 0; /* libzmq had tried again by itself */
            cadre_log(CADRE_LOG_INFO, "connected", "coordinator=%s", self->control.address);
            cadre_worker_core_connected(self->core, self->now_ms);
        } else if (event.kind == CADRE_EVENT_HANDSHAKE_FAILED) {
            tell_failed(self, &event);
        } else if (event.kind == CADRE_EVENT_DISCONNECTED && self->connected) {
            lose_connection(self);
            cadre_log(self->left ? CADRE_LOG_DEBUG : CADRE_LOG_WARN, "coordinator_lost",
                      "coordinator=%s next=\"keeps dialling\"", self->control.address);
        }
    }
}

/* False for STOP. */
static bool
from_main(cadre_worker_actor_t *self)
{
    cadre_pipe_message_t message;
    while (cadre_pipe_receive(self->main, &message) == 0) {
        if (message.kind == CADRE_PIPE_STOP) {
            return false;
        }
        if (message.kind == CADRE_WORKER_DRAIN) {
            cadre_worker_begin_drain(self, "stopped by a signal");
        }
    }
    return true;
}

static void
from_slots(cadre_worker_actor_t *self)
{
    for (uint32_t i = 0; i < self->options.core.slots; i++) {
        cadre_pipe_message_t message;
        for (int k = 0; k < TURN_PIPE_MAX && (self->items[ITEM_SLOTS + i].revents & ZMQ_POLLIN) &&
                        cadre_pipe_receive(self->options.slots[i], &message) == 0;
             k++) {
            cadre_worker_from_slot(self, i, &message);
        }
    }
}

static void
from_reader(cadre_worker_actor_t *self)
{
    cadre_pipe_message_t message;
    for (int k = 0; k < TURN_PIPE_MAX && (self->items[ITEM_READER].revents & ZMQ_POLLIN) &&
                    cadre_pipe_receive(self->options.reader, &message) == 0;
         k++) {
        cadre_worker_from_reader(self, &message);
    }
}

/* What control brought before may have closed some, or put others in their place: those find
 * nothing, or what the next turn would find. */
static void
from_shards(cadre_worker_actor_t *self, uint32_t polled)
{
    const zmq_pollitem_t *items = self->items + ITEM_SLOTS + self->options.core.slots;
    for (uint32_t i = 0; i < polled && i < self->shard_count; i++) {
        cadre_peer_t *peer = &self->shards[i];
        if (peer->socket && items[i].revents & ZMQ_POLLOUT) {
            cadre_peer_flush(peer);
        }
        if (peer->socket && items[i].revents & ZMQ_POLLIN) {
            receive(self, peer, TURN_DATA_MAX);
        }
    }
}

static void
from_control(cadre_worker_actor_t *self)
{
    if (self->items[ITEM_MONITOR].revents & ZMQ_POLLIN) {
        watch_connection(self);
    }
    if (self->items[ITEM_CONTROL].revents & ZMQ_POLLOUT) {
        cadre_peer_flush(&self->control);
    }
    if (self->items[ITEM_CONTROL].revents & ZMQ_POLLIN) {
        receive(self, &self->control, TURN_CONTROL_MAX);
    }
}

/* --- the loop --- */

static zmq_pollitem_t
item_of(void *socket, bool blocked)
{
    return (zmq_pollitem_t){.socket = socket,
                            .events = (short)(ZMQ_POLLIN | (blocked ? ZMQ_POLLOUT : 0))};
}

/* A shard without a connection is polled as the main pipe, whose events mean nothing there. */
static int
fill_items(cadre_worker_actor_t *self)
{
    uint32_t slots = self->options.core.slots;
    size_t count = (size_t)ITEM_SLOTS + slots + self->shard_count;
    self->items = cadre_realloc(self->items, count, sizeof(*self->items));
    self->items[ITEM_MAIN] = item_of(self->main, false);
    self->items[ITEM_CONTROL] =
        item_of(cadre_socket_handle(self->control.socket), self->control.count > 0);
    self->items[ITEM_MONITOR] = item_of(cadre_monitor_handle(self->monitor), false);
    self->items[ITEM_READER] = item_of(self->options.reader, false);
    for (uint32_t i = 0; i < slots; i++) {
        self->items[ITEM_SLOTS + i] = item_of(self->options.slots[i], false);
    }
    for (uint32_t i = 0; i < self->shard_count; i++) {
        const cadre_peer_t *peer = &self->shards[i];
        void *socket = peer->socket ? cadre_socket_handle(peer->socket) : self->main;
        self->items[ITEM_SLOTS + slots + i] = item_of(socket, peer->count > 0);
    }
    return (int)count;
}

/* When a coordinator that stays away has been waited for long enough. */
static uint64_t
away_due_ms(const cadre_worker_actor_t *self)
{
    bool waits = self->connected || !self->was_connected || self->left || !self->options.away_ms;
    return waits ? UINT64_MAX : self->lost_ms + self->options.away_ms;
}

static void
wait(cadre_worker_actor_t *self)
{
    uint64_t due_ms = self->due_ms < away_due_ms(self) ? self->due_ms : away_due_ms(self);
    if (cadre_context_keyring(self->context) && self->keys_due_ms < due_ms) {
        due_ms = self->keys_due_ms;
    }
    if (self->redial_ms > 0 && self->redial_ms < due_ms) {
        due_ms = self->redial_ms;
    }
    if (!self->connected && self->lost_log_ms < due_ms) {
        due_ms = self->lost_log_ms;
    }
    if (self->stirred && self->ticked_ms + 1 < due_ms) {
        due_ms = self->ticked_ms + 1;
    }
    if (self->draining && !self->left && self->drain_due_ms < due_ms) {
        due_ms = self->drain_due_ms;
    }
    if (self->options.http && self->now_ms + CADRE_HTTP_PUBLISH_MS < due_ms) {
        due_ms = self->now_ms + CADRE_HTTP_PUBLISH_MS;
    }
    uint64_t rest_ms = due_ms > self->now_ms ? due_ms - self->now_ms : 0;
    int count = fill_items(self);
    self->stirred = cadre_poll(self->items, count, rest_ms < INT_MAX ? (long)rest_ms : INT_MAX) > 0;
    self->now_ms = (uint64_t)cadre_clock_now_ms();
}

/* Says once that updates are held back, and once that they go on. */
static void
watch_contact(cadre_worker_actor_t *self)
{
    bool untouched = !cadre_worker_core_in_touch(self->core, self->now_ms);
    if (untouched != self->untouched && !self->left) {
        self->untouched = untouched;
        cadre_log(untouched ? CADRE_LOG_WARN : CADRE_LOG_INFO,
                  untouched ? "unheard" : "heard_again", "coordinator=%s next=\"%s\"",
                  self->control.address,
                  untouched ? "sends no updates before it is welcomed" : "goes on");
    }
}

static void
keep_draining(cadre_worker_actor_t *self)
{
    if (!self->cleared && (self->draining || cadre_worker_core_is_draining(self->core))) {
        self->cleared = true;
        cadre_worker_clear_queue(self);
    }
    if (!self->draining || self->left) {
        return;
    }
    if (!self->connected && self->works_out == 0) {
        cadre_auto(cadre_free) char *reason =
            cadre_asprintf("%s; nobody is there to take reports", self->draining);
        cadre_worker_leave(self, reason);
    } else if (self->now_ms >= self->drain_due_ms) {
        cadre_log(CADRE_LOG_WARN, "drain_over", "closures=%zu next=\"other workers run them\"",
                  self->works_out);
        cadre_auto(cadre_free) char *reason =
            cadre_asprintf("%s; what ran did not end in time", self->draining);
        cadre_worker_core_abandon(self->core, reason);
    }
}

static void
tell_audit(void *context, char level, const char *event, const char *pairs)
{
    (void)context;
    cadre_log_pairs(cadre_log_level_of(level), event, pairs);
}

/* A worker whose coordinator or ps is not trusted any more ends: what it is told may be anybody's.
 */
static void
watch_keys(cadre_worker_actor_t *self)
{
    cadre_keyring_t *keyring = cadre_context_keyring(self->context);
    if (!keyring || self->now_ms < self->keys_due_ms) {
        return;
    }
    self->keys_due_ms = self->now_ms + CADRE_KEYS_LOOK_MS;
    bool trusted = true;
    if (cadre_keyring_look(keyring, (int64_t)self->now_ms, tell_audit, NULL) > 0) {
        trusted = cadre_socket_trusted(self->control.socket);
        for (uint32_t i = 0; i < self->shard_count; i++) {
            const cadre_peer_t *shard = &self->shards[i];
            trusted = trusted && (!shard->socket || cadre_socket_trusted(shard->socket));
        }
    }
    if (!trusted) {
        cadre_pipe_send(self->main, CADRE_WORKER_UNWANTED,
                        cadre_strdup("the key of the coordinator or the ps is withdrawn"));
    }
}

static void
keep_time(cadre_worker_actor_t *self)
{
    self->now_ms = (uint64_t)cadre_clock_now_ms();
    watch_keys(self);
    dial_refused(self);
    if (self->now_ms != self->ticked_ms) {
        self->ticked_ms = self->now_ms;
        self->stirred = false;
        self->due_ms = cadre_worker_core_tick(self->core, self->now_ms);
    }
    if (!self->connected && !self->left && self->now_ms >= self->lost_log_ms) {
        self->lost_log_ms = self->now_ms + LOST_REPEAT_MS;
        cadre_log(CADRE_LOG_WARN, "waiting_for_coordinator",
                  "coordinator=%s seconds=%" PRIu64 " limit_s=%" PRIu64, self->control.address,
                  (self->now_ms - self->lost_ms) / 1000,
                  (uint64_t)(self->was_connected ? self->options.away_ms : 0) / 1000);
    }
    if (self->now_ms >= away_due_ms(self)) {
        cadre_worker_core_abandon(self->core, "the coordinator stays away");
    }
    watch_contact(self);
    keep_draining(self);
}

/* Tells over HTTP how it stands, when that is due. */
static void
publish(cadre_worker_actor_t *self)
{
    cadre_http_server_t *http = self->options.http;
    if (!http) {
        return;
    }
    cadre_http_server_turned(http, 0, (int64_t)self->now_ms);
    bool drains = self->draining || cadre_worker_core_is_draining(self->core);
    self->drained_ms = drains ? self->drained_ms : self->now_ms;
    cadre_worker_figures_t figures = {.connected = self->connected,
                                      .drains = drains,
                                      .drain_ms = self->now_ms - self->drained_ms};
    const char *unready = cadre_worker_unready(self->core, &figures, self->now_ms);
    if (cadre_http_server_is_due(http, unready, (int64_t)self->now_ms)) {
        cadre_metrics_text_t text = {.bytes = NULL};
        cadre_worker_metrics(self->core, &figures, self->now_ms, &text);
        cadre_metrics_text_transport(
            &text, "worker", cadre_security_transport(self->context, &self->options.coordinator));
        cadre_metrics_text_keys(&text, "worker",
                                cadre_keyring_unreadable(cadre_context_keyring(self->context)));
        cadre_http_server_publish(http, &text, unready, (int64_t)self->now_ms);
    }
}

static bool
finished(const cadre_worker_actor_t *self)
{
    return self->left && self->works_out == 0 && self->reads_out == 0 && self->control.count == 0;
}

static void
close_all(cadre_worker_actor_t *self)
{
    cadre_monitor_close(&self->monitor);
    cadre_peer_close(&self->control, self->connected ? CADRE_CLEAN_STOP_LINGER_MS : 0);
    for (uint32_t i = 0; i < self->shard_count; i++) {
        cadre_peer_close(&self->shards[i], 0);
    }
    free(self->shards);
    free(self->items);
    cadre_frames_fini(&self->frames);
    cadre_worker_free_loads(self);
    cadre_worker_core_destroy(&self->core);
}

static void
run(void *pipe, void *argument)
{
    cadre_worker_actor_t *self = argument;
    self->main = pipe;
    self->lost_ms = (uint64_t)cadre_clock_now_ms();
    self->lost_log_ms = self->lost_ms + LOST_LOG_MS;
    bool go_on = true;
    while (go_on) {
        keep_time(self);
        cadre_worker_settle(self);
        publish(self);
        if (finished(self)) {
            break;
        }
        wait(self);
        /* Control before data: heartbeats and news of shards do not wait behind values. */
        uint32_t polled = self->shard_count;
        from_control(self);
        from_slots(self);
        from_reader(self);
        from_shards(self, polled);
        go_on = !(self->items[ITEM_MAIN].revents & ZMQ_POLLIN) || from_main(self);
    }
    close_all(self);
    cadre_pipe_send(pipe, CADRE_WORKER_GONE, NULL);
}

/* --- opening and closing --- */

int
cadre_worker_actor_open(cadre_context_t *context, const cadre_worker_actor_options_t *options,
                        cadre_worker_actor_t **out)
{
    cadre_worker_actor_t *self = cadre_calloc(1, sizeof(*self));
    self->context = context;
    self->options = *options;
    self->core = cadre_worker_core_new(&options->core, (uint64_t)cadre_clock_now_ms());
    self->started_last_p = &self->started;
    int status = connect_control(self);
    if (status == 0) {
        status = cadre_actor_open(context, "network", run, self, &self->actor);
    }
    if (status < 0) {
        close_all(self);
        free(self);
        return status;
    }
    *out = self;
    return 0;
}

void *
cadre_worker_actor_socket(cadre_worker_actor_t *self)
{
    return cadre_actor_socket(self->actor);
}

int
cadre_worker_actor_close(cadre_worker_actor_t **self_p, int timeout_ms)
{
    cadre_worker_actor_t *self = *self_p;
    if (!self) {
        return 0;
    }
    int status = cadre_actor_stop(&self->actor, timeout_ms);
    if (status < 0) {
        return status;
    }
    *self_p = NULL;
    free(self);
    return 0;
}
