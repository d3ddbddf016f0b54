#include "ps/shard_actor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/uninitialized.h"
#include "common/net/receiving.h"
#include "common/net/refusals.h"
#include "common/net/security.h"
#include "common/system/clock.h"
#include "common/system/descriptors.h"
#include "common/system/log.h"
#include "common/system/poll.h"
#include "common/wire/codec.h"
#include "ps/core/intake.h"
#include "ps/core/shard_steps.h"
#include "ps/huge_keeper.h"
#include "ps/lane_pool.h"
#include "ps/load_actor.h"

typedef struct {
    void *pipe;
    cadre_socket_t *data;
    cadre_monitor_t *monitor; /* of the data socket */
    int64_t full_ms;          /* when the log may say again that file descriptors have run out */
    cadre_refusals_t refusals;
    bool is_guarded; /* the data socket lets in only peers with keys */
    cadre_actor_t *load;
    uint64_t loads_from; /* loads with a lower number were given up, as the load actor was told */
    size_t loads_out;    /* loads that the load actor has */
    atomic_uint_fast64_t load_steps; /* incremented by the load actor while a load makes progress */
    uint64_t steps_seen;             /* `load_steps` at the last look */
    int64_t steps_ms;                /* when `load_steps` was last seen to change */
    cadre_shard_t *shard;
    cadre_admission_t *admission;
    cadre_lane_pool_t *lanes;
    cadre_lane_pool_t *table_lanes; /* NULL: those lanes are for tables too */
    cadre_huge_keeper_t *huge_keeper;
    cadre_shard_effects_t effects;
    cadre_frames_t frames;
    /* Where a worker in this process calls the shard; NULL: everything comes by sockets. */
    cadre_shortcut_t *shortcut;
    uint64_t incarnation; /* of the ps */
    bool is_called;       /* a thread of the worker has called, and uses no socket */
    void *wake;           /* pipe to this thread, for threads of the worker that have called */
    void *woken;          /* the other end */
    bool is_woken;        /* something is in that pipe */
    bool stopped;
    bool changed;  /* a message came since the counters were sent to the control loop */
    uint64_t told; /* the generation that the control loop was last told */
    uint64_t epoch;
    int64_t count_due_ms; /* when counters that have changed are sent again */
    int64_t looked_ms;    /* when the pipes to the control loop and the load actor were last read */
} shard_actor_t;

/* Frees the object that a pipe message carries, as its kind says. */
void
cadre_shard_actor_free_message(cadre_pipe_message_t *message)
{
    if (message->kind == CADRE_SHARD_QUESTION) {
        cadre_shard_question_note_t *note = message->pointer;
        cadre_message_fini(&note->message);
    } else if (message->kind == CADRE_SHARD_ANSWER) {
        cadre_outbox_entry_fini(message->pointer);
    } else if (message->kind == CADRE_SHARD_SNAPSHOT) {
        cadre_shard_snapshot_t *snapshot = message->pointer;
        cadre_shard_snapshot_destroy(&snapshot);
        message->pointer = NULL;
    }
    cadre_free(&message->pointer);
}

/* Sends an object to the control loop; frees it when the pipe is closed. */
static void
post(shard_actor_t *self, uint32_t kind, void *pointer)
{
    if (cadre_pipe_send(self->pipe, kind, pointer) < 0) {
        cadre_pipe_message_t lost = {kind, pointer};
        cadre_shard_actor_free_message(&lost);
    }
}

/* Returns whether the shard waits for no load, or that load has made progress within
 * CADRE_LOAD_STALL_MS. */
static bool
moves(shard_actor_t *self, int64_t now_ms)
{
    uint64_t steps = atomic_load(&self->load_steps);
    if (self->loads_out == 0 || steps != self->steps_seen) {
        self->steps_seen = steps;
        self->steps_ms = now_ms;
    }
    return now_ms - self->steps_ms < CADRE_LOAD_STALL_MS;
}

/* Sends the counters to the control loop when that is due; at once when the generation has changed,
 * since a HELLO with the generation before would have the coordinator restore the shard. */
static void
post_counts(shard_actor_t *self)
{
    int64_t now_ms = cadre_clock_now_ms();
    uint64_t generation = cadre_shard_generation(self->shard);
    if (!self->changed || (now_ms < self->count_due_ms && generation == self->told)) {
        return;
    }
    cadre_shard_counts_t *counts = cadre_calloc(1, sizeof(*counts));
    memcpy(counts->counters, cadre_shard_counters(self->shard), sizeof(counts->counters));
    counts->generation = generation;
    counts->epoch = self->epoch;
    counts->moves = moves(self, now_ms);
    counts->figures = cadre_shard_figures(self->shard);
    self->told = generation;
    /* Now and then, so here: forgets peers that were silent for long. */
    cadre_admission_tidy(self->admission, (uint64_t)now_ms);
    post(self, CADRE_SHARD_COUNTED, counts);
    self->changed = false;
    self->count_due_ms = now_ms + CADRE_SHARD_COUNT_MS;
}

/* Called in the middle of a long turn: sends the counters as a sign of life. */
static void
on_step(void *context)
{
    shard_actor_t *self = context;
    self->changed = true;
    if (!self->is_called) {
        post_counts(self);
    }
}

/* --- answers --- */

/* Sends an answer on the data socket and frees it. Answers with values count as held by their
 * receiver until they have left (admission.h). An answer that cannot be sent is dropped: its
 * receiver asks again; if it is not connected any more, its reservations are dropped too. */
static void
send_data(shard_actor_t *self, cadre_outbox_entry_t *entry)
{
    char text[CADRE_TASK_TEXT_SIZE];
    cadre_routing_id_t to;
    cadre_task_text(&entry->destination, text);
    int status = cadre_routing_id_set(&to, text, strlen(text));
    if (status == 0) {
        cadre_sending_t *sending =
            entry->chunk_count > 0 ? cadre_admission_sending(self->admission, &entry->destination)
                                   : NULL;
        status = cadre_socket_send_counted(self->data, &to, entry->header, entry->chunks,
                                           entry->chunk_count, sending);
    }
    if (status == CADRE_EUNAVAILABLE) {
        cadre_shard_unreachable(self->shard, &entry->destination);
    }
    if (status < 0) {
        cadre_log(CADRE_LOG_DEBUG, "answer_dropped", "to=%s message=%s why=\"%s\"", text,
                  cadre_message_type_text(entry->type), cadre_status_text(status));
    }
    cadre_outbox_entry_fini(entry);
}

/* Sends the answers of the shard: those of the data plane here, those of the control plane through
 * the control loop. */
static void
send_all(shard_actor_t *self)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(&self->effects.outbox, &entry)) {
        if (entry.plane == CADRE_PLANE_DATA) {
            send_data(self, &entry);
        } else {
            cadre_outbox_entry_t *copy = cadre_calloc(1, sizeof(*copy));
            *copy = entry;
            post(self, CADRE_SHARD_ANSWER, copy);
        }
    }
}

/* --- loads --- */

/* Sends an object to the load actor; frees it when the pipe is closed. */
static void
post_load(shard_actor_t *self, uint32_t kind, void *pointer)
{
    if (cadre_pipe_send(cadre_actor_socket(self->load), kind, pointer) < 0) {
        cadre_pipe_message_t lost = {kind, pointer};
        cadre_load_actor_drop(&lost);
    }
}

/* Hands the loads that the shard asks for to the load actor. Tells it before that loads with a
 * lower number than `loads_from` are given up, when that number has changed. */
static void
order_loads(shard_actor_t *self)
{
    const uint64_t from = self->effects.loads_from;
    cadre_checkpoint_load_t *load = NULL;
    if (from != self->loads_from) {
        uint64_t *copy = cadre_calloc(1, sizeof(*copy));
        *copy = from;
        post_load(self, CADRE_LOAD_FROM, copy);
        self->loads_from = from;
    }
    while ((load = cadre_shard_effects_take_load(&self->effects))) {
        self->loads_out++;
        post_load(self, CADRE_LOAD_LOAD, load);
    }
}

/* --- messages --- */

/* Carries out the effects of the shard. */
static void
carry_out(shard_actor_t *self)
{
    cadre_shard_snapshot_t *snapshot = cadre_shard_effects_take_snapshot(&self->effects);
    if (snapshot) {
        post(self, CADRE_SHARD_SNAPSHOT, snapshot);
    }
    order_loads(self);
    self->changed = true;
    if (cadre_shard_generation(self->shard) != self->told) {
        /* Before the answer, after which the coordinator may ask for a HELLO: the control loop
         * sends it, with the generation that it was told last. */
        post_counts(self);
    }
    send_all(self);
}

/* Has the shard act on a message of this plane, and carries out the effects; where a worker has
 * called, serve_caller does that. */
static void
receive(shard_actor_t *self, cadre_plane_t plane, const cadre_task_t *from,
        cadre_message_t *message)
{
    cadre_shard_tick(self->shard, (uint64_t)cadre_clock_now_ms(), &self->effects.outbox);
    cadre_shard_receive(self->shard, plane, from, message, &self->effects);
    if (!self->is_called) {
        carry_out(self);
    }
}

/* Takes the loads that the load actor has done: the shard answers the requests that waited for
 * them. */
static void
take_loads(shard_actor_t *self)
{
    cadre_pipe_message_t message;
    while (self->loads_out > 0 &&
           cadre_pipe_receive(cadre_actor_socket(self->load), &message) == 0) {
        cadre_checkpoint_load_t *load = message.pointer;
        self->loads_out--;
        cadre_shard_loaded(self->shard, &load, &self->effects.outbox);
        carry_out(self);
    }
}

/* Answers those waiting pulls that admission.h lets go now. */
static void
admit(shard_actor_t *self)
{
    cadre_task_t from;
    const cadre_message_t *waiting = NULL;
    uint64_t now_ms = (uint64_t)cadre_clock_now_ms();
    for (size_t i = 0; cadre_admission_at(self->admission, i, &from, &waiting);) {
        size_t size_bytes = cadre_shard_answer_size(self->shard, waiting);
        switch (cadre_admission_ask(self->admission, &from, size_bytes, now_ms)) {
        case CADRE_ADMISSION_NOW: {
            cadre_message_t message;
            cadre_admission_take(self->admission, i, &message); /* the next pull is at `i` then */
            receive(self, CADRE_PLANE_DATA, &from, &message);
            break;
        }
        /* only this peer has to wait: the next pull may be of another */
        case CADRE_ADMISSION_PEER:
            i++;
            break;
        /* all have to wait: the pulls behind must not overtake */
        case CADRE_ADMISSION_SHARED:
            return;
        }
    }
}

/* Returns whether a pull may be answered at once: no other pull waits, and there is room for its
 * answer. */
static bool
goes_first(shard_actor_t *self, const cadre_task_t *from, const cadre_message_t *message)
{
    cadre_task_t first;
    const cadre_message_t *waiting = NULL;
    return !cadre_admission_at(self->admission, 0, &first, &waiting) &&
           cadre_admission_ask(self->admission, from, cadre_shard_answer_size(self->shard, message),
                               (uint64_t)cadre_clock_now_ms()) == CADRE_ADMISSION_NOW;
}

/* Has the shard act on a message of the data plane. A PULL that may not be answered yet waits for
 * admission; a PULL of a sender that may not pull goes to the shard at once, which drops it. */
static void
receive_data(shard_actor_t *self, const cadre_task_t *from, cadre_message_t *message)
{
    if (message->type != CADRE_MESSAGE_PULL ||
        cadre_message_authorize(message->type, from->role) < 0 || goes_first(self, from, message)) {
        receive(self, CADRE_PLANE_DATA, from, message);
        return;
    }
    cadre_admission_wait(self->admission, from, message);
    if (!self->is_called) {
        admit(self);
    }
}

/* --- a worker in this process --- */

/* Moves what the shard answers this caller on a plane from its outbox to `answers`; the rest
 * stays. */
static void
take_answers(shard_actor_t *self, cadre_plane_t plane, const cadre_task_t *from,
             cadre_outbox_t *answers)
{
    cadre_outbox_t *outbox = &self->effects.outbox;
    for (size_t left = cadre_outbox_count(outbox); left > 0; left--) {
        cadre_outbox_entry_t entry;
        cadre_outbox_pop(outbox, &entry);
        bool is_answer = entry.plane == plane && cadre_task_equal(&entry.destination, from);
        cadre_outbox_push(is_answer ? answers : outbox, &entry);
    }
}

/* Wakes the shard's thread where a call has left something to it: messages to others, pulls that
 * wait for room, reservations to look at, or, when the counters begin to differ from those that the
 * control loop has, to tell it in time. */
static void
wake(shard_actor_t *self, bool had_changed)
{
    bool is_left = !had_changed || cadre_outbox_count(&self->effects.outbox) > 0 ||
                   cadre_admission_count(self->admission) > 0 ||
                   cadre_shard_is_receiving(self->shard);
    if (is_left && !self->is_woken) {
        self->is_woken = true;
        cadre_pipe_send(self->wake, CADRE_PIPE_STOP, NULL);
    }
}

/* Acts on a message of a worker or of the coordinator in this process, on the caller's thread:
 * gives it what the shard answers, and leaves all else to the shard's thread. */
static void
serve_caller(void *context, const cadre_task_t *from, cadre_outbox_entry_t *entry,
             cadre_outbox_t *answers)
{
    shard_actor_t *self = context;
    const bool had_changed = self->changed;
    const cadre_plane_t plane = entry->plane;
    CADRE_UNINITIALIZED cadre_message_t message;
    self->is_called = true;
    if (cadre_message_decode(cadre_chunk_data(entry->header), cadre_chunk_size_bytes(entry->header),
                             entry->chunks, entry->chunk_count, &message) < 0) {
        cadre_shard_malformed(self->shard);
    } else if (plane == CADRE_PLANE_CONTROL) {
        receive(self, plane, from, &message);
    } else {
        receive_data(self, from, &message);
    }

    self->changed = true;
    self->is_called = false;
    cadre_outbox_entry_fini(entry);
    take_answers(self, plane, from, answers);
    wake(self, had_changed);
}

/* --- messages of the control loop --- */

/* Takes messages of the control loop: another session, questions of the coordinator, malformed
 * messages to be counted, probes; anything else means to stop. */
static void
take_orders(shard_actor_t *self)
{
    cadre_pipe_message_t message;
    for (int i = 0; i < CADRE_SHARD_TURN_MESSAGES; i++) {
        if (self->stopped || cadre_pipe_receive(self->pipe, &message) < 0) {
            return;
        }
        if (message.kind == CADRE_SHARD_SESSION) {
            const cadre_shard_session_t *session = message.pointer;
            cadre_shard_begin_session(self->shard, session->index, session->epoch,
                                      session->coordinator, &self->effects);
            /* The coordinator may send a whole partition in one message; strangers may not. */
            cadre_receiving_admit(session->coordinator, CADRE_RECEIVING_DATA_MAX);
            self->epoch = session->epoch;
            self->changed = true;
            order_loads(self);
        } else if (message.kind == CADRE_SHARD_QUESTION) {
            cadre_shard_question_note_t *note = message.pointer;
            receive(self, CADRE_PLANE_CONTROL, &note->from, &note->message);
        } else if (message.kind == CADRE_SHARD_MALFORMED) {
            cadre_shard_malformed(self->shard);
            self->changed = true;
        } else if (message.kind == CADRE_SHARD_PROBE) {
            self->changed = true;
            self->count_due_ms = 0; /* the counters are sent at the end of this turn */
        } else {
            self->stopped = true;
        }
        cadre_shard_actor_free_message(&message);
    }
}

/* Decodes the message that was received: its sender, which must be the task that the connection's
 * key is for, and the message itself. */
static int
decode(shard_actor_t *self, cadre_task_t *from, cadre_message_t *message)
{
    cadre_frames_t *frames = &self->frames;
    int status = cadre_task_parse(frames->from.bytes, frames->from.size, from);
    if (status == 0) {
        status = cadre_peer_key_check(&frames->key, from);
    }
    if (status < 0) {
        return status;
    }
    return cadre_message_decode(cadre_chunk_data(frames->header),
                                cadre_chunk_size_bytes(frames->header), frames->chunks,
                                frames->count, message);
}

/* Takes what has come on the two pipes: questions of the coordinator (from the control loop), and
 * loads that are done. */
static void
look_aside(shard_actor_t *self)
{
    take_orders(self);
    take_loads(self);
    self->looked_ms = cadre_clock_now_ms();
}

/* Takes messages of the data plane. Between two of them it looks at the other pipes if a
 * millisecond has passed: an update may take long, but a look takes system calls, as long as a
 * small message. */
static void
serve(shard_actor_t *self)
{
    look_aside(self);
    for (int i = 0; i < CADRE_SHARD_TURN_MESSAGES; i++) {
        if (cadre_clock_now_ms() != self->looked_ms) {
            look_aside(self);
        }
        if (self->stopped) {
            return;
        }
        cadre_task_t from;
        cadre_message_t message;
        int status = cadre_socket_receive(self->data, &self->frames);
        if (status == CADRE_EAGAIN || status == CADRE_ECLOSED) {
            return;
        }
        if (status == 0) {
            status = decode(self, &from, &message);
        }
        if (status == 0) {
            receive_data(self, &from, &message);
        } else {
            char text[CADRE_ROUTING_ID_TEXT_SIZE];
            cadre_log(CADRE_LOG_DEBUG, "malformed", "from=\"%s\" why=\"%s\"",
                      cadre_routing_id_text(&self->frames.from, text), cadre_error_text());
            cadre_shard_malformed(self->shard);
            self->changed = true;
        }
    }
}

/* Logs how many connections were refused, when that is due. */
static void
tell_refused(shard_actor_t *self)
{
    char pairs[CADRE_REFUSALS_TEXT_SIZE];
    if (cadre_refusals_tell(&self->refusals, cadre_clock_now_ms(), pairs)) {
        cadre_log_pairs(CADRE_LOG_WARN, "connections_refused", pairs);
    }
}

/* Reads the events of the data socket's connections: counts failed handshakes, and logs when a
 * connection was closed for want of file descriptors, at most once in CADRE_DROPPED_LOG_MS. */
static void
watch(shard_actor_t *self)
{
    cadre_event_t event;
    while (cadre_monitor_receive(self->monitor, &event) == 0) {
        int64_t now_ms = cadre_clock_now_ms();
        if (cadre_event_is_strange(&event)) {
            cadre_refusals_add_strange(&self->refusals);
        }
        if (!cadre_event_wants_descriptors(&event) || now_ms < self->full_ms) {
            continue;
        }
        char text[CADRE_DESCRIPTORS_TEXT_SIZE];
        self->full_ms = now_ms + CADRE_DROPPED_LOG_MS;
        cadre_log(CADRE_LOG_ERROR, "descriptors_exhausted",
                  "why=\"%s\" next=\"new connections are closed until others have ended\"",
                  cadre_descriptors_text(text));
    }
}

/* Stops the load actor, which may be reading a slow disk. Waits for it twice as long as the control
 * loop waits for this actor: so it is the control loop that gives up first, and ends the
 * process. */
static int
stop_loads(shard_actor_t *self)
{
    cadre_pipe_message_t message;
    int status = cadre_actor_end(self->load, 2 * CADRE_ACTOR_STOP_MS);
    if (status < 0) {
        return status;
    }
    while (cadre_pipe_receive(cadre_actor_socket(self->load), &message) == 0) {
        cadre_load_actor_drop(&message);
    }
    return cadre_actor_stop(&self->load, CADRE_ACTOR_STOP_MS);
}

/* Returns how long the next turn of the loop may wait for a message, -1 for without end: until the
 * counters are due, until waiting pulls are looked at again, until the shard looks at its
 * reservations, or until encrypted connections are looked at; whichever is first. */
static long
wait_ms(const shard_actor_t *self)
{
    long timeout_ms = -1;
    if (self->changed) {
        int64_t left_ms = self->count_due_ms - cadre_clock_now_ms();
        timeout_ms = left_ms > 0 ? (long)left_ms : 0;
    }

    cadre_task_t from;
    const cadre_message_t *waiting = NULL;
    bool waits = cadre_admission_at(self->admission, 0, &from, &waiting);
    if (waits && timeout_ms != 0) {
        timeout_ms = CADRE_ADMISSION_MS;
    } else if (cadre_shard_is_receiving(self->shard) &&
               (timeout_ms < 0 || timeout_ms > CADRE_SHARD_TICK_MS)) {
        timeout_ms = CADRE_SHARD_TICK_MS;
    }

    if (self->is_guarded && (timeout_ms < 0 || timeout_ms > CADRE_RECEIVING_LOOK_MS)) {
        timeout_ms = CADRE_RECEIVING_LOOK_MS;
    }
    return timeout_ms;
}

/* Waits for messages, while a worker in this process may call; then takes what calls have left to
 * this thread. */
static void
poll_items(shard_actor_t *self, zmq_pollitem_t *items, int count)
{
    const long timeout_ms = wait_ms(self);
    cadre_shortcut_unlock(self->shortcut);
    cadre_poll(items, count, timeout_ms);
    cadre_shortcut_lock(self->shortcut);

    cadre_pipe_message_t message;
    if (self->is_woken && cadre_pipe_receive(self->woken, &message) == 0) {
        self->is_woken = false;
        carry_out(self);
    }
}

/* Runs the thread: waits for messages of the control loop, of workers and of the load actor, has
 * the shard act on them, and sends its answers and counters. At the end frees everything that it
 * was handed. */
static void
run(void *pipe, void *argument)
{
    shard_actor_t *self = argument;
    self->pipe = pipe;
    cadre_shortcut_lock(self->shortcut);
    if (self->shortcut) {
        cadre_shortcut_open(self->shortcut, self->incarnation, serve_caller, self);
    }
    while (!self->stopped) {
        zmq_pollitem_t items[] = {
            {.socket = pipe, .events = ZMQ_POLLIN},
            {.socket = cadre_socket_handle(self->data), .events = ZMQ_POLLIN},
            {.socket = cadre_actor_socket(self->load), .events = ZMQ_POLLIN},
            {.socket = cadre_monitor_handle(self->monitor), .events = ZMQ_POLLIN},
            {.socket = self->woken, .events = ZMQ_POLLIN},
        };
        const int count = (int)CADRE_COUNT_OF(items) - (self->woken ? 0 : 1);
        poll_items(self, items, count);

        watch(self);
        tell_refused(self);
        cadre_shard_tick(self->shard, (uint64_t)cadre_clock_now_ms(), &self->effects.outbox);
        send_all(self);
        serve(self);
        admit(self);
        post_counts(self);
    }
    if (self->shortcut) {
        cadre_shortcut_open(self->shortcut, 0, NULL, NULL);
    }
    cadre_shortcut_unlock(self->shortcut);
    if (stop_loads(self) < 0) {
        return; /* a thread hangs, in a disk perhaps: what it uses is left to it */
    }
    cadre_shard_destroy(&self->shard);
    cadre_admission_destroy(&self->admission);
    cadre_lane_pool_destroy(&self->lanes);
    cadre_lane_pool_destroy(&self->table_lanes);
    cadre_huge_keeper_destroy(&self->huge_keeper);
    cadre_shard_effects_fini(&self->effects);
    cadre_frames_fini(&self->frames);
    cadre_monitor_close(&self->monitor);
    cadre_socket_close(&self->data, 0);
    cadre_pipe_close(&self->wake);
    cadre_pipe_close(&self->woken);
    free(self);
}

/* Makes the shard and what it needs, lanes and load actor among them, and starts the thread last;
 * on failure undoes all of it, and `data` and `monitor` stay the caller's. */
int
cadre_shard_actor_open(cadre_context_t *context, const cadre_shard_actor_options_t *options,
                       cadre_socket_t *data, cadre_monitor_t *monitor, cadre_actor_t **out)
{
    shard_actor_t *self = cadre_calloc(1, sizeof(*self));
    const uint64_t size_bytes_max = options->size_bytes_max;
    self->admission = cadre_admission_new(size_bytes_max / 100 * CADRE_HELD_PERCENT);
    cadre_shard_options_t shard = {.incarnation = options->incarnation,
                                   .size_bytes_max = size_bytes_max,
                                   .admission = self->admission,
                                   .intake_bytes = size_bytes_max / 100 * CADRE_INTAKE_PERCENT,
                                   .step_bytes = size_bytes_max / 100 * CADRE_STEP_PERCENT};
    self->shortcut = options->shortcut;
    self->incarnation = options->incarnation;
    int status = self->shortcut ? cadre_pipe_open(context, &self->wake, &self->woken) : 0;
    if (status == 0) {
        status = cadre_lane_pool_open(options->lanes, &self->lanes);
    }
    if (status == 0 && options->table_lanes > options->lanes) {
        status = cadre_lane_pool_open(options->table_lanes, &self->table_lanes);
    }
    if (status == 0) {
        status = cadre_huge_keeper_open(&self->huge_keeper);
    }
    if (status == 0) {
        status = cadre_load_actor_open(context, options->folders, &self->load_steps, &self->load);
    }
    if (status == 0) {
        shard.lanes = cadre_lane_pool_lanes(self->lanes);
        shard.table_lanes =
            self->table_lanes ? cadre_lane_pool_lanes(self->table_lanes) : shard.lanes;
        shard.huge_source = cadre_huge_keeper_source(self->huge_keeper);
        shard.on_step = on_step;
        shard.step_context = self;
        self->data = data;
        self->monitor = monitor;
        const char *transport = cadre_security_transport(context, cadre_socket_endpoint(data));
        self->is_guarded = strcmp(transport, "curve") == 0;
        /* A guarded socket is checked by a stranger without keys (authenticator.h), which does not
         * count as refused. */
        self->refusals.checked = !self->is_guarded;
        self->shard = cadre_shard_new(&shard);
        status = cadre_actor_open(context, "cadre-shard", run, self, out);
    }
    if (status < 0) {
        cadre_shard_destroy(&self->shard);
        cadre_actor_stop(&self->load, CADRE_ACTOR_STOP_MS);
        cadre_admission_destroy(&self->admission);
        cadre_lane_pool_destroy(&self->lanes);
        cadre_lane_pool_destroy(&self->table_lanes);
        cadre_huge_keeper_destroy(&self->huge_keeper);
        cadre_pipe_close(&self->wake);
        cadre_pipe_close(&self->woken);
        free(self);
    }
    return status;
}
