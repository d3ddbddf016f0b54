/*
 * The coordinator's actor: the one thread that owns its sockets. A turn receives a batch of
 * messages, gives them to the core under the lock, and sends the core's messages after it has
 * released the lock.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/receiving.h"
#include "common/net/refusals.h"
#include "common/system/clock.h"
#include "common/system/descriptors.h"
#include "common/system/float_mode.h"
#include "common/system/poll.h"
#include "common/wire/codec.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/job_metrics.h"
#include "coordinator/send_queues.h"
#include "coordinator/status_json.h"

enum {
    /* Most messages that are received before the core's answers are sent. */
    TURN_MESSAGES_MAX = 256,
    TURN_DATA_ROOM = 64, /* how many messages of a turn the control socket leaves to data sockets */
    /* Poll items before those of data sockets: pipe, wake_fd, control, monitor (items[0] to
     * [3]). */
    POLL_FIXED = 4,
    RESTING = 2, /* of these, those that end a rest: pipe, wake_fd */
    /* libzmq does not say which peer has disconnected, so the core sends each peer a message to
     * learn which one the ROUTER cannot reach any more. That is done LOOKS times, LOOK_AGAIN_MS
     * apart: the ROUTER forgets the peer only after the event, so the first messages may still seem
     * to be sent. */
    LOOKS = 4,
    LOOK_AGAIN_MS = 30,
    /* How long messages are left unread while the workers in this process have closures. */
    REST_MS = 1,
};

typedef struct {
    cadre_socket_t *socket;
    uint64_t incarnation; /* incarnation of the ps that the socket is connected to */
} data_link_t;

typedef struct {
    cadre_task_t from;
    cadre_message_t message;
} received_t;

typedef struct {
    cadre_task_t task;
    int status; /* CADRE_EUNAVAILABLE, or CADRE_EFULL: it does not read */
} gone_t;

typedef struct {
    cadre_coordinator_t *coordinator;
    void *pipe;
    data_link_t *links; /* [ps_count] */
    uint32_t link_count;
    uint32_t connections; /* how many connections to shards were made so far */
    cadre_frames_t frames;
    received_t received[TURN_MESSAGES_MAX];
    size_t received_count;
    uint64_t malformed;            /* messages that could not be read since the last turn */
    cadre_sender_t malformed_from; /* sender of the last message that could not be read */
    char malformed_text[CADRE_TEXT_SIZE_MAX]; /* why the last of them could not be read */
    cadre_send_queues_t queues;
    gone_t *gone; /* peers that messages could not be sent to since the last turn */
    size_t gone_count;
    uint64_t full_ms; /* when the log may tell again that descriptors have run out */
    cadre_refusals_t refusals;
    uint64_t status_ms;        /* when the next client that asks for the status may be answered */
    uint64_t withdrawals;      /* withdrawals of keys that watch_keys has seen */
    uint64_t told_withdrawals; /* withdrawals of keys that the core knows of */
    bool is_guarded;           /* the control socket is guarded by keys */
    bool hosts;                /* all tasks are in this process */
    cadre_look_t look;         /* before this thread sleeps, where they are */
    bool disconnected;         /* a connection has closed: find out whose it was */
    int looks;                 /* how many more times the core sends each peer a message, to find
                                * who is gone (LOOKS) */
    uint64_t look_ms;          /* when the core next sends each peer a message */
    bool stopped;
} actor_t;

/* --- receiving --- */

/* Decodes the frames that were just received. */
static int
decode(cadre_frames_t *frames, cadre_message_t *message)
{
    return cadre_message_decode(cadre_chunk_data(frames->header),
                                cadre_chunk_size_bytes(frames->header), frames->chunks,
                                frames->count, message);
}

/* Decodes the first fields of a HELLO that could not be decoded whole: it may be of another
 * protocol version, and the core then refuses it with a reason. */
static int
decode_greeting(cadre_frames_t *frames, cadre_message_t *message)
{
    char why[CADRE_TEXT_SIZE_MAX];
    snprintf(why, sizeof(why), "%s", cadre_error_text());
    int status = cadre_message_decode_greeting(cadre_chunk_data(frames->header),
                                               cadre_chunk_size_bytes(frames->header), message);
    return status < 0 ? cadre_fail(CADRE_EMALFORMED, "%s", why) : 0;
}

/* Returns the sender of the frames that were just received, by its connection. */
static cadre_sender_t
sender_of(const actor_t *self, const data_link_t *link, uint32_t shard)
{
    const cadre_routing_id_t *from = &self->frames.from;
    cadre_sender_t sender = {.key = self->frames.key.id};
    if (link) {
        sender.task = (cadre_task_t){CADRE_ROLE_PS, shard, link->incarnation};
    }
    sender.is_named = link || cadre_task_parse(from->bytes, from->size, &sender.task) == 0;
    return sender;
}

/* Decodes the frames that were just received into `slot`, with their sender. */
static int
understand(actor_t *self, const data_link_t *link, const cadre_sender_t *sender, received_t *slot)
{
    int status = decode(&self->frames, &slot->message);
    if (status < 0 && !link) {
        status = decode_greeting(&self->frames, &slot->message);
    }
    if (status < 0) {
        return status;
    }

    slot->message.key = self->frames.key.id;
    slot->from = sender->task;
    if (!sender->is_named) {
        return cadre_task_parse(self->frames.from.bytes, self->frames.from.size, &slot->from);
    }

    return link ? 0 : cadre_peer_key_check(&self->frames.key, &slot->from);
}

/* Receives messages from one socket, good or bad, until it is empty or only `room` places of the
 * turn are left; `link` is NULL for the control socket. */
static void
receive(actor_t *self, cadre_socket_t *socket, const data_link_t *link, uint32_t shard, size_t room)
{
    for (int i = 0; i < TURN_MESSAGES_MAX && self->received_count + room < TURN_MESSAGES_MAX; i++) {
        int status = cadre_socket_receive(socket, &self->frames);
        if (status == CADRE_EAGAIN || status == CADRE_ECLOSED) {
            return;
        }

        received_t *slot = &self->received[self->received_count];
        slot->message = (cadre_message_t){.storage = NULL};
        cadre_sender_t sender = {.is_named = false};
        if (status == 0) {
            sender = sender_of(self, link, shard);
            status = understand(self, link, &sender, slot);
        }

        if (status < 0) {
            cadre_message_fini(&slot->message);
            self->malformed++;
            self->malformed_from = sender;
            snprintf(self->malformed_text, sizeof(self->malformed_text), "%.200s",
                     cadre_error_text());
            continue; /* the sender repeats it, or is fenced off */
        }

        self->received_count++;
    }
}

/* Logs that a connection was closed for want of descriptors, or not even accepted
 * (common/net/accept.c). */
static void
tell_full(actor_t *self)
{
    uint64_t now_ms = (uint64_t)cadre_clock_now_ms();
    if (now_ms < self->full_ms || !self->coordinator->log) {
        return;
    }

    char text[CADRE_DESCRIPTORS_TEXT_SIZE];
    char pairs[CADRE_DESCRIPTORS_TEXT_SIZE + 128];
    snprintf(pairs, sizeof(pairs),
             "why=\"%s\" next=\"new connections are closed until others have ended\"",
             cadre_descriptors_text(text));
    self->full_ms = now_ms + CADRE_DROPPED_LOG_MS;
    self->coordinator->log(self->coordinator->log_context, 'E', "descriptors_exhausted", pairs);
}

/* Logs, now and then, connections that were refused. */
static void
tell_refused(actor_t *self)
{
    char pairs[CADRE_REFUSALS_TEXT_SIZE];
    if (self->coordinator->log &&
        cadre_refusals_tell(&self->refusals, cadre_clock_now_ms(), pairs)) {
        self->coordinator->log(self->coordinator->log_context, 'W', "connections_refused", pairs);
    }
}

/* Closes connections to ps whose key was withdrawn. */
static void
watch_keys(actor_t *self)
{
    const cadre_keyring_t *keyring = cadre_context_keyring(self->coordinator->context);
    if (!keyring || cadre_keyring_withdrawals(keyring) == self->withdrawals) {
        return;
    }

    self->withdrawals = cadre_keyring_withdrawals(keyring);
    for (uint32_t i = 0; i < self->link_count; i++) {
        data_link_t *link = &self->links[i];
        if (link->socket && !cadre_socket_trusted(link->socket)) {
            cadre_socket_close(&link->socket, 0);
        }
    }
}

/* Reads what the monitor of the control socket says: connections that closed, were refused, or
 * found no descriptor. */
static void
watch(actor_t *self)
{
    cadre_event_t event;
    while (cadre_monitor_receive(self->coordinator->monitor, &event) == 0) {
        if (cadre_event_wants_descriptors(&event)) {
            tell_full(self);
        }
        if (cadre_event_is_strange(&event)) {
            cadre_refusals_add_strange(&self->refusals);
        }
        self->disconnected = self->disconnected || event.kind == CADRE_EVENT_DISCONNECTED;
    }
}

/* --- sending --- */

/* Notes a peer that messages could not be sent to; the core hears of it in the next turn. */
static void
note_gone(void *context, const cadre_task_t *task, int status)
{
    actor_t *self = context;
    self->gone = cadre_realloc(self->gone, self->gone_count + 1, sizeof(*self->gone));
    self->gone[self->gone_count++] = (gone_t){*task, status};
}

/* Takes the answers of the ps in this process, `from`, as if they had come on the control
 * socket. */
static void
take_answers(actor_t *self, const cadre_task_t *from, cadre_outbox_t *answers)
{
    cadre_outbox_entry_t answer;
    while (cadre_outbox_pop(answers, &answer)) {
        received_t *slot = &self->received[self->received_count];
        /* without room it is dropped: the question is asked again */
        if (self->received_count < TURN_MESSAGES_MAX &&
            cadre_message_decode(cadre_chunk_data(answer.header),
                                 cadre_chunk_size_bytes(answer.header), answer.chunks,
                                 answer.chunk_count, &slot->message) == 0) {
            slot->from = *from;
            self->received_count++;
        }
        cadre_outbox_entry_fini(&answer);
    }
    cadre_outbox_fini(answers);
}

/* Has the ps in this process end a step by a call, on this thread, which computes as the shard's
 * meanwhile: through sockets the message and its answer would wake four threads, one after the
 * other, while all workers wait. Returns false when the ps is not reached this way. */
static bool
end_step_by_call(actor_t *self, const cadre_outbox_entry_t *entry)
{
    cadre_shortcut_t *shortcut = self->coordinator->shortcut;
    if (!shortcut || entry->type != CADRE_MESSAGE_END_STEP) {
        return false;
    }

    const cadre_task_t me = {.role = CADRE_ROLE_COORDINATOR,
                             .incarnation = self->coordinator->core.options.incarnation};
    cadre_auto(cadre_outbox_fini) cadre_outbox_t questions = {.count = 0};
    cadre_outbox_t answers = {.count = 0};
    cadre_outbox_entry_t question;
    cadre_outbox_repeat(&questions, entry);
    cadre_outbox_pop(&questions, &question);
    const uint64_t mode = cadre_float_mode();
    cadre_flush_subnormals();
    cadre_shortcut_lock(shortcut);
    const bool is_carried = cadre_shortcut_carry(shortcut, &me, &question, &answers);
    cadre_shortcut_unlock(shortcut);
    cadre_float_mode_set(mode);
    cadre_outbox_entry_fini(&question);
    take_answers(self, &entry->destination, &answers);
    return is_carried;
}

/* Sends one message over the socket of its plane: a data message to a ps that has gone is
 * dropped. */
static int
send_entry(void *context, const cadre_outbox_entry_t *entry)
{
    actor_t *self = context;
    const cadre_task_t *to = &entry->destination;
    if (end_step_by_call(self, entry)) {
        return 0;
    }
    if (entry->plane == CADRE_PLANE_DATA) {
        cadre_assert(to->index < self->link_count); /* the shard's, see shard_requests.c */
        const data_link_t *link = &self->links[to->index];
        if (!link->socket || link->incarnation != to->incarnation) {
            return 0; /* the ps is gone: the core sends the request to the next one */
        }
        return cadre_socket_send(link->socket, NULL, entry->header, entry->chunks,
                                 entry->chunk_count);
    }

    char text[CADRE_TASK_TEXT_SIZE];
    cadre_routing_id_t id;

    cadre_task_text(to, text);
    cadre_routing_id_set(&id, text, strlen(text));
    return cadre_socket_send(self->coordinator->control, &id, entry->header, entry->chunks,
                             entry->chunk_count);
}

/* Sends queued messages first, then the new ones of the outbox. Returns when to be back at the
 * latest. */
static uint64_t
send_turn(actor_t *self, cadre_outbox_t *outbox, uint64_t due_ms)
{
    uint64_t now_ms = (uint64_t)cadre_clock_now_ms();
    cadre_send_queues_flush(&self->queues, now_ms);
    cadre_send_queues_put(&self->queues, outbox, now_ms);
    cadre_outbox_fini(outbox);
    uint64_t retry_ms = cadre_send_queues_due_ms(&self->queues);
    return retry_ms < due_ms ? retry_ms : due_ms;
}

/* --- events --- */

/* Connects a shard's link to the ps at `address`. */
static int
open_link(actor_t *self, data_link_t *link, const char *address)
{
    char id[CADRE_TASK_TEXT_SIZE];
    /* Each connection has a routing id of its own: a ROUTER that still holds a connection of the
     * same id ignores a new one for good, and this may be the same ps as before. */
    cadre_task_t me = {CADRE_ROLE_COORDINATOR, ++self->connections,
                       self->coordinator->core.options.incarnation};
    cadre_endpoint_t endpoint;
    int status = cadre_endpoint_parse(address, &endpoint);
    if (status < 0) {
        return status;
    }

    status = cadre_socket_open_dealer(self->coordinator->context, CADRE_PLANE_DATA,
                                      cadre_task_text(&me, id), &link->socket);
    if (status < 0) {
        return status;
    }

    return cadre_socket_connect(link->socket, &endpoint);
}

/* Replaces the connection to the ps that serves a shard. */
static void
connect_shard(actor_t *self, uint32_t shard, const char *address, uint64_t incarnation)
{
    data_link_t *link = &self->links[shard];
    cadre_socket_close(&link->socket, 0);
    link->incarnation = incarnation;
    int status = open_link(self, link, address);
    if (status < 0 && self->coordinator->log) {
        self->coordinator->log(self->coordinator->log_context, 'E', "ps_unreachable",
                               cadre_error_text());
    }
}

/* Carries out the effects of a turn, after the lock was released: connects, logs, gives orders to
 * the store. */
static void
handle_events(actor_t *self, cadre_effect_t *events, size_t count)
{
    cadre_coordinator_t *coordinator = self->coordinator;
    for (size_t i = 0; i < count; i++) {
        cadre_effect_t *event = &events[i];
        switch (event->kind) {
        case CADRE_EFFECT_SHARD_MOVED:
            connect_shard(self, event->shard, event->text, event->incarnation);
            break;
        case CADRE_EFFECT_LOG:
            if (coordinator->log) {
                coordinator->log(coordinator->log_context, event->level, event->name, event->text);
            }
            break;
        case CADRE_EFFECT_STORE: {
            cadre_store_order_t *order = cadre_calloc(1, sizeof(*order));
            *order = event->store;
            cadre_pipe_send(cadre_actor_socket(coordinator->store), CADRE_STORE_ORDER, order);
            break;
        }
        }
    }
}

/* --- the turn --- */

/* Under the lock: makes the core send each peer a message after a disconnect, several times
 * (LOOKS). */
static void
look_who_is_gone(actor_t *self, uint64_t now_ms)
{
    if (self->disconnected) {
        self->disconnected = false;
        self->looks = LOOKS;
        self->look_ms = now_ms;
    }

    if (self->looks > 0 && now_ms >= self->look_ms) {
        cadre_core_probe(&self->coordinator->core);
        self->looks--;
        self->look_ms = now_ms + LOOK_AGAIN_MS;
    }
}

/* Answers a client that asks for the status of the job; all clients together at most every
 * CADRE_STATUS_MS, as the text of a large job takes time during which no message is handled. A
 * client that gets no answer asks again. */
static void
answer_status(actor_t *self, const received_t *received, uint64_t now_ms)
{
    cadre_core_t *core = &self->coordinator->core;
    if (cadre_rights_check(&core->rights, &received->from, &received->message) < 0) {
        const cadre_sender_t sender = {
            .task = received->from, .is_named = true, .key = received->message.key};
        cadre_rights_note_dropped(&core->rights, 1, &sender, cadre_error_text());
        return;
    }

    if (now_ms < self->status_ms) {
        return;
    }

    self->status_ms = now_ms + CADRE_STATUS_MS;
    cadre_auto(cadre_free) char *text = cadre_core_status_json(core, now_ms);
    cadre_message_t answer = cadre_effects_message(&core->effects, CADRE_MESSAGE_STATUS_TEXT);
    answer.request = received->message.request;
    for (size_t at = 0, size = strlen(text); at < size; at += CADRE_CHUNK_SIZE_MAX) {
        size_t left = size - at;
        left = left < CADRE_CHUNK_SIZE_MAX ? left : CADRE_CHUNK_SIZE_MAX;
        cadre_message_add_chunk(&answer, cadre_chunk_new_copy(text + at, left));
    }

    cadre_effects_send(&core->effects, &received->from, &answer);
}

/* Gives one message to the core. A task that this message has made a member may from now on send
 * messages as large as results. */
static void
receive_one(actor_t *self, received_t *received, uint64_t now_ms)
{
    cadre_core_t *core = &self->coordinator->core;
    if (received->message.type == CADRE_MESSAGE_STATUS) {
        answer_status(self, received, now_ms);
        cadre_message_fini(&received->message);
        return;
    }

    bool is_hello = received->message.type == CADRE_MESSAGE_HELLO;
    cadre_core_receive(core, &received->from, &received->message, now_ms);
    if (is_hello && cadre_membership_find(&core->membership, received->from.incarnation)) {
        cadre_receiving_admit(received->from.incarnation, CADRE_RECEIVING_CONTROL_MAX);
    }
}

/* Under the lock: publishes metrics and status over HTTP, when that is due. */
static void
publish(const actor_t *self, uint64_t now_ms)
{
    const cadre_core_t *core = &self->coordinator->core;
    cadre_http_server_t *http = self->coordinator->http;
    char unready[CADRE_HTTP_WORDS_SIZE];

    if (!http) {
        return;
    }

    /* 0: the only actor that publishes, this thread */
    cadre_http_server_turned(http, 0, (int64_t)now_ms);
    cadre_core_unready(core, unready);
    if (cadre_http_server_is_due(http, unready, (int64_t)now_ms)) {
        cadre_metrics_text_t text = {.bytes = NULL};
        cadre_core_metrics(core, now_ms, &text);
        cadre_http_server_publish(http, &text, unready, (int64_t)now_ms);
    }
}

/* Under the lock: tells the core of withdrawn keys. Must come before the core hears of closed
 * connections, which a withdrawal causes. */
static void
tell_keys(actor_t *self, uint64_t now_ms)
{
    cadre_core_t *core = &self->coordinator->core;
    cadre_keyring_t *keyring = cadre_context_keyring(self->coordinator->context);
    cadre_core_note_keys(core, cadre_keyring_unreadable(keyring));
    if (keyring && cadre_keyring_withdrawals(keyring) != self->told_withdrawals) {
        cadre_auto(cadre_free) uint64_t *ids = cadre_calloc(CADRE_ALLOWED_KEYS_MAX, sizeof(*ids));
        self->told_withdrawals = cadre_keyring_withdrawals(keyring);
        size_t count = cadre_keyring_ids(keyring, ids);
        cadre_core_keys_withdrawn(core, ids, count, now_ms);
    }
}

/* Under the lock: gives all received messages and events to the core, runs its tick, and takes its
 * messages and effects. Returns when the core must be called again. */
static uint64_t
turn(actor_t *self, cadre_outbox_t *outbox, cadre_effect_t **events, size_t *event_count)
{
    cadre_core_t *core = &self->coordinator->core;
    uint64_t now_ms = (uint64_t)cadre_clock_now_ms();
    bool unread = self->received_count == TURN_MESSAGES_MAX;

    /* Before the messages: messages of holders of withdrawn keys must not count. */
    tell_keys(self, now_ms);
    for (size_t i = 0; i < self->received_count; i++) {
        receive_one(self, &self->received[i], now_ms);
    }

    if (self->malformed > 0) {
        cadre_rights_note_dropped(&core->rights, self->malformed, &self->malformed_from,
                                  self->malformed_text);
        self->malformed = 0;
    }

    /* After the messages: a peer that has said GOODBYE is not lost. */
    for (size_t i = 0; i < self->gone_count; i++) {
        if (self->gone[i].status == CADRE_EFULL) {
            cadre_core_overrun(core, &self->gone[i].task, now_ms);
        } else {
            cadre_core_gone(core, &self->gone[i].task, now_ms);
        }
    }

    look_who_is_gone(self, now_ms);
    uint64_t due_ms = cadre_core_tick(core, now_ms, unread);
    if (self->looks > 0 && self->look_ms < due_ms) {
        due_ms = self->look_ms;
    }

    /* Sent after the lock is released: a peer that does not read holds up no call. */
    *outbox = cadre_effects_take_outbox(&core->effects);
    *event_count = core->effects.count;
    *events = cadre_calloc(core->effects.count, sizeof(**events));
    for (size_t i = 0; i < *event_count; i++) {
        cadre_effects_take(&core->effects, &(*events)[i]);
    }

    publish(self, now_ms);
    cadre_coordinator_tell_ended(self->coordinator);
    if (cadre_effects_take_progress(&core->effects)) {
        cadre_gate_broadcast(self->coordinator->gate);
    }

    self->received_count = 0;
    self->gone_count = 0;
    return due_ms;
}

/* Receives from all sockets, as `items` says which have input; the sockets of tasks are read in any
 * case. */
static void
receive_all(actor_t *self, const zmq_pollitem_t *items)
{
    if (items[1].revents & ZMQ_POLLIN) {
        uint64_t count = 0;
        ssize_t size = read(self->coordinator->gate->wake_fd, &count, sizeof(count));
        (void)size; /* the count does not matter: the actor is awake now */
    }

    if (items[0].revents & ZMQ_POLLIN) {
        cadre_pipe_message_t message;
        while (cadre_pipe_receive(self->pipe, &message) == 0) {
            self->stopped = self->stopped || message.kind == CADRE_PIPE_STOP;
        }
    }

    if (items[3].revents & ZMQ_POLLIN) {
        watch(self);
    }

    tell_refused(self);
    watch_keys(self);
    /* Control before data: no heartbeat waits behind values. */
    receive(self, self->coordinator->control, NULL, 0, TURN_DATA_ROOM);
    for (uint32_t i = 0; i < self->link_count; i++) {
        if (self->links[i].socket) {
            receive(self, self->links[i].socket, &self->links[i], i, 0);
        }
    }
}

/* Under the lock: returns whether messages may be left unread for REST_MS, so that the reports of
 * many closures are taken in one turn: tasks are in this process, each worker holds more than
 * three quarters of its credit, so that it would get nothing now, and no call waits for whatever
 * comes. */
static bool
may_rest(const actor_t *self)
{
    const cadre_membership_t *members = &self->coordinator->core.membership;
    if (!self->hosts || self->coordinator->gate->waiters > 0) {
        return false;
    }

    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        const cadre_member_t *worker = members->workers[i];
        if (worker && 4 * worker->in_flight.count <= 3 * (size_t)worker->credit) {
            return false;
        }
    }
    return members->worker_count > 0;
}

/* Returns whether what workers report leads to nothing before all of a step have reported: after
 * most messages none is there for a while, and a turn without any takes as long as one with some.
 * In other jobs a busy actor has more input, or new closures, at once. */
static bool
comes_in_steps(const actor_t *self)
{
    const cadre_core_options_t *options = &self->coordinator->core.options;
    return options->consistency == CADRE_SYNC && options->step_closures > 1;
}

/* Waits in poll until there is input, or until `due_ms`. Does not wait where messages were
 * received in this turn (`busy`), as more may be there, or the core has yet to hear of peers
 * that are gone; rests before, where it may (`rests`), unless a call or the owner wakes it. */
static void
wait_for_work(actor_t *self, zmq_pollitem_t *items, uint64_t due_ms, bool busy, bool rests)
{
    uint64_t now_ms = (uint64_t)cadre_clock_now_ms();
    long timeout_ms = due_ms > now_ms ? (long)(due_ms - now_ms) : 0; /* at most CADRE_TICK_MS_MAX */

    timeout_ms = busy || self->gone_count > 0 ? 0 : timeout_ms;
    /* a guarded socket is looked at this often, for connections that hold too much input */
    if (self->is_guarded && timeout_ms > CADRE_RECEIVING_LOOK_MS) {
        timeout_ms = CADRE_RECEIVING_LOOK_MS;
    }

    items[0] = (zmq_pollitem_t){.socket = self->pipe, .events = ZMQ_POLLIN};
    items[1] = (zmq_pollitem_t){.fd = self->coordinator->gate->wake_fd, .events = ZMQ_POLLIN};
    items[2] = (zmq_pollitem_t){.socket = cadre_socket_handle(self->coordinator->control),
                                .events = ZMQ_POLLIN};
    items[3] = (zmq_pollitem_t){.socket = cadre_monitor_handle(self->coordinator->monitor),
                                .events = ZMQ_POLLIN};
    int count = POLL_FIXED;
    for (uint32_t i = 0; i < self->link_count; i++) {
        if (self->links[i].socket) {
            items[count++] = (zmq_pollitem_t){.socket = cadre_socket_handle(self->links[i].socket),
                                              .events = ZMQ_POLLIN};
        }
    }

    if (rests) {
        cadre_poll(items, RESTING, REST_MS);
    }
    cadre_poll_looking(self->hosts ? &self->look : NULL, items, count, timeout_ms);
}

/* Runs the actor's thread: turn after turn until CADRE_PIPE_STOP comes, then closes the sockets. */
void
cadre_coordinator_run(void *pipe, void *argument)
{
    cadre_coordinator_t *coordinator = argument;
    actor_t *self = cadre_calloc(1, sizeof(*self));

    self->coordinator = coordinator;
    self->is_guarded = strcmp(coordinator->transport, "curve") == 0;
    self->hosts = cadre_socket_endpoint(coordinator->control)->kind == CADRE_ENDPOINT_INPROC;
    /* without keys there is no test connection of the authenticator that must not be counted */
    self->refusals.checked = !self->is_guarded;
    self->pipe = pipe;
    self->link_count = coordinator->core.options.ps_count;
    self->links = cadre_calloc(self->link_count, sizeof(*self->links));
    cadre_send_queues_init(&self->queues, send_entry, note_gone, self);
    zmq_pollitem_t *items = cadre_calloc(POLL_FIXED + self->link_count, sizeof(*items));
    while (!self->stopped) {
        cadre_outbox_t outbox;
        cadre_effect_t *events = NULL;
        size_t event_count = 0;

        cadre_gate_lock(coordinator->gate);
        bool busy = self->received_count > 0;
        uint64_t due_ms = turn(self, &outbox, &events, &event_count);
        bool rests = busy && may_rest(self);
        busy = busy && !comes_in_steps(self);
        /* a busy actor does not sleep in poll, and needs no wake-up */
        coordinator->gate->asleep = !busy || rests;
        cadre_gate_unlock(coordinator->gate);
        handle_events(self, events, event_count);
        free(events);
        due_ms = send_turn(self, &outbox, due_ms);
        if (self->received_count > 0) {
            continue; /* answers to calls: a step is over, and closures are to be handed out */
        }
        wait_for_work(self, items, due_ms, busy, rests);
        receive_all(self, items);
    }

    for (uint32_t i = 0; i < self->link_count; i++) {
        cadre_socket_close(&self->links[i].socket, 0);
    }

    for (size_t i = 0; i < self->received_count; i++) {
        cadre_message_fini(&self->received[i].message);
    }

    cadre_monitor_close(&coordinator->monitor);
    cadre_socket_close(&coordinator->control, CADRE_CLEAN_STOP_LINGER_MS);
    cadre_frames_fini(&self->frames);
    cadre_send_queues_fini(&self->queues);
    free(self->gone);
    free(self->links);
    free(items);
    free(self);
}
