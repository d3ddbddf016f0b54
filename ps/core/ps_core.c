#include "ps/core/ps_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/queue.h"
#include "common/base/status.h"

struct cadre_ps_core {
    cadre_ps_options_t options;
    cadre_outbox_t outbox;
    cadre_queue_t events; /* of cadre_ps_event_t */
    cadre_session_t *session;

    uint64_t progress; /* how often the shard has answered */
    uint64_t counters[CADRE_PS_COUNTER_COUNT];
    uint64_t generation;
    cadre_tables_told_t tables;

    uint64_t resend_ms;  /* from WELCOME */
    uint64_t checkpoint; /* checkpoint of the last CLOSE_CUT, until it ends; 0: none */
    uint64_t ended;      /* the last checkpoint that ended: its CLOSE_CUT may still come, late */
    bool is_written;     /* `written` is sent again and again until CHECKPOINT_END */
    cadre_ps_written_t written;
    uint64_t written_due_ms; /* when SNAPSHOT_WRITTEN is sent next */
};

/* Returns a core without a connection. */
cadre_ps_core_t *
cadre_ps_core_new(const cadre_ps_options_t *options)
{
    cadre_ps_core_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    self->resend_ms = CADRE_RESEND_MS;
    cadre_queue_init(&self->events, sizeof(cadre_ps_event_t));
    self->session = cadre_session_new(&options->session, &self->outbox);
    return self;
}

/* Frees the core, with messages of events that the shell has not taken. */
void
cadre_ps_core_destroy(cadre_ps_core_t **self_p)
{
    cadre_ps_core_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;

    cadre_ps_event_t event;
    while (cadre_queue_pop(&self->events, &event)) {
        cadre_message_fini(&event.message);
    }
    cadre_queue_fini(&self->events);
    cadre_session_destroy(&self->session);
    cadre_outbox_fini(&self->outbox);
    free(self);
}

cadre_outbox_t *
cadre_ps_core_outbox(cadre_ps_core_t *self)
{
    return &self->outbox;
}

static void
emit(cadre_ps_core_t *self, const cadre_ps_event_t *event)
{
    cadre_queue_push(&self->events, event);
}

bool
cadre_ps_core_event(cadre_ps_core_t *self, cadre_ps_event_t *event)
{
    return cadre_queue_pop(&self->events, event);
}

cadre_task_t
cadre_ps_core_coordinator(const cadre_ps_core_t *self)
{
    return *cadre_session_coordinator(self->session);
}

cadre_session_contact_t
cadre_ps_core_contact(const cadre_ps_core_t *self)
{
    return cadre_session_contact(self->session);
}

/* Returns the index of the shard that this ps was told to serve; CADRE_INDEX_ANY before that. */
static uint32_t
index_of(const cadre_ps_core_t *self)
{
    return cadre_session_task(self->session)->index;
}

/* --- messages to the coordinator --- */

/* Sends HELLO: where workers reach this ps, and which generation its shard has, so that the
 * coordinator can tell whether the shard must be restored. */
static void
say_hello(cadre_ps_core_t *self, uint64_t now_ms)
{
    cadre_message_t message = cadre_session_hello(self->session, now_ms);
    message.hello.address = self->options.address;
    message.hello.generation = self->generation;
    message.hello.folderless = self->options.folderless;
    cadre_session_say(self->session, &message);
}

/* Sends a HEARTBEAT with the counters that are known, and has the shard asked for newer ones. */
static void
say_heartbeat(cadre_ps_core_t *self, uint64_t now_ms)
{
    cadre_message_t message = cadre_session_heartbeat(self->session, now_ms);
    message.heartbeat.counters = (cadre_u64s_t){self->counters, CADRE_PS_COUNTER_COUNT};
    message.heartbeat.shard = index_of(self);
    message.heartbeat.generation = self->generation;
    message.heartbeat.progress = self->progress;
    message.heartbeat.tables = (cadre_u64s_t){self->tables.items, self->tables.count};
    cadre_session_say(self->session, &message);
    emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_PROBE});
}

/* Tells the coordinator what became of the snapshot; it is sent again after `resend_ms`, unless the
 * checkpoint has ended by then. */
static void
say_written(cadre_ps_core_t *self, uint64_t now_ms)
{
    const cadre_ps_written_t *written = &self->written;
    cadre_message_t message = cadre_session_message(self->session, CADRE_MESSAGE_SNAPSHOT_WRITTEN);
    message.snapshot_written = (cadre_snapshot_written_message_t){
        .checkpoint = written->checkpoint,
        .status = (uint64_t)-written->status,
        .text = written->text,
        .file = written->file,
        .size_bytes = written->size_bytes,
        .hash = written->hash,
        .counters = {written->counters, CADRE_PS_COUNTER_COUNT},
        .step = written->step,
    };
    cadre_session_say(self->session, &message);
    self->written_due_ms = now_ms + self->resend_ms;
}

/* Tells the shell that this ps is refused or out of the session, and why. */
static void
end(cadre_ps_core_t *self, cadre_ps_event_kind_t kind, const cadre_session_effect_t *effect)
{
    cadre_ps_event_t event = {.kind = kind, .status = effect->status};
    memcpy(event.text, effect->text, sizeof(event.text));
    emit(self, &event);
}

/* Carries out the effects of the session; called after every input to it. */
static void
obey(cadre_ps_core_t *self, uint64_t now_ms)
{
    cadre_session_effect_t effect;
    while (cadre_session_effect(self->session, &effect)) {
        switch (effect.kind) {
        case CADRE_EFFECT_HELLO:
            say_hello(self, now_ms);
            break;
        case CADRE_EFFECT_HEARTBEAT:
            say_heartbeat(self, now_ms);
            break;
        case CADRE_EFFECT_REDIAL:
            emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_REDIAL});
            break;
        case CADRE_EFFECT_DISOWNED:
            break; /* only tasks that drain are disowned, and a ps does not */
        case CADRE_EFFECT_REFUSED:
            end(self, CADRE_PS_REFUSED, &effect);
            break;
        case CADRE_EFFECT_LEFT:
            end(self, CADRE_PS_LEFT, &effect);
            break;
        }
    }
}

/* --- session --- */

/* Gives up the checkpoint under way: its writing stops, and SNAPSHOT_WRITTEN is sent no more. */
static void
abandon(cadre_ps_core_t *self)
{
    if (self->checkpoint != 0 && !self->is_written) {
        emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_ABANDON,
                                       .epoch = cadre_session_epoch(self->session),
                                       .checkpoint = self->checkpoint});
    }
    self->checkpoint = 0;
    self->is_written = false;
}

/* Acts on WELCOME: begins a session of the shard when the coordinator is another one, or gives this
 * ps another shard; else the session goes on. */
static void
on_welcome(cadre_ps_core_t *self, const cadre_message_t *message, uint64_t now_ms)
{
    const cadre_welcome_message_t *welcome = &message->welcome;
    bool other_shard = welcome->index != index_of(self);
    /* A ps that gets another shard begins from nothing, as in another session: generations of one
     * shard mean nothing for another. */
    if (message->incarnation != cadre_ps_core_coordinator(self).incarnation || other_shard) {
        abandon(self);
        self->ended = 0;
        self->generation = 0;
        emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_SESSION,
                                       .index = (uint32_t)welcome->index,
                                       .epoch = message->epoch});
    }
    /* 0 would repeat without a pause. */
    self->resend_ms = welcome->resend_ms ? welcome->resend_ms : 1;
    cadre_session_begin(self->session, message, now_ms);
}

void
cadre_ps_core_connected(cadre_ps_core_t *self, uint64_t now_ms)
{
    cadre_session_connected(self->session, now_ms);
    obey(self, now_ms);
}

void
cadre_ps_core_disconnected(cadre_ps_core_t *self, uint64_t now_ms)
{
    cadre_session_disconnected(self->session, now_ms);
}

void
cadre_ps_core_leave(cadre_ps_core_t *self, const char *reason, uint64_t now_ms)
{
    cadre_session_leave(self->session, reason);
    obey(self, now_ms);
}

void
cadre_ps_core_return(cadre_ps_core_t *self, uint64_t now_ms)
{
    abandon(self);
    self->generation = 0;
    cadre_session_return(self->session, now_ms);
}

/* --- messages of the coordinator --- */

/* Hands a message to the shard, as an event. Notes on the way that a checkpoint begins or has
 * ended; a repeated CLOSE_CUT of a snapshot that is written gets SNAPSHOT_WRITTEN at once. */
static void
pass_on(cadre_ps_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    if (message->type == CADRE_MESSAGE_CLOSE_CUT &&
        message->close_cut.checkpoint > self->checkpoint &&
        message->close_cut.checkpoint > self->ended) {
        abandon(self);
        self->checkpoint = message->close_cut.checkpoint;
    } else if (message->type == CADRE_MESSAGE_CLOSE_CUT && self->is_written &&
               message->close_cut.checkpoint == self->checkpoint) {
        say_written(self, now_ms);
    } else if (message->type == CADRE_MESSAGE_CHECKPOINT_END &&
               message->checkpoint_end.checkpoint > self->ended) {
        self->ended = message->checkpoint_end.checkpoint;
        if (self->ended >= self->checkpoint) {
            abandon(self);
        }
    }
    emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_MESSAGE, .message = *message});
    *message = (cadre_message_t){.type = message->type};
}

/* Returns whether a message is for another shard than this ps was told to serve. Coordinator and ps
 * then disagree; a HELLO settles that, since the coordinator answers it with the shard's index. */
static bool
is_astray(const cadre_ps_core_t *self, const cadre_message_t *message)
{
    const uint64_t *shard = cadre_message_shard(message);
    return shard && *shard != index_of(self);
}

/* Acts on a message that the session does not take itself: hands on what is for the shard, and
 * leaves on DRAIN. A message that does not belong on the control plane is malformed. */
static void
on_message(cadre_ps_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    if (is_astray(self, message)) {
        cadre_ps_core_malformed(self);
        cadre_session_doubt(self->session, now_ms); /* sends HELLO: its answer names the shard */
        return;
    }
    switch ((cadre_for_ps_t)message->type) {
    case CADRE_FOR_PS_CREATE:
    case CADRE_FOR_PS_SETTLE:
    case CADRE_FOR_PS_SNAPSHOT:
    case CADRE_FOR_PS_CLOSE_CUT:
    case CADRE_FOR_PS_CHECKPOINT_END:
    case CADRE_FOR_PS_RESTORE:
    case CADRE_FOR_PS_COUNT:
    case CADRE_FOR_PS_PROBE:
    case CADRE_FOR_PS_DROP:
    case CADRE_FOR_PS_RETIRE:
    case CADRE_FOR_PS_END_STEP:
        pass_on(self, message, now_ms);
        return;
    case CADRE_FOR_PS_ACK:
        return; /* the session has noted it */
    case CADRE_FOR_PS_DRAIN:
        cadre_session_leave(self->session, "drained by the coordinator");
        return;
    case CADRE_FOR_PS_WELCOME: /* messages that the session has taken already */
    case CADRE_FOR_PS_REFUSED:
    case CADRE_FOR_PS_UNKNOWN_PEER:
    case CADRE_FOR_PS_STOP:
    case CADRE_FOR_PS_PULL: /* messages that only come to the shard, on the data plane */
    case CADRE_FOR_PS_PUSH:
    case CADRE_FOR_PS_ASSIGN:
    case CADRE_FOR_PS_RESERVE:
    case CADRE_FOR_PS_NONE:
        break;
    }
    cadre_ps_core_malformed(self);
}

/* Gives a message to the session first, which takes what concerns membership, and acts on what is
 * left of it. */
void
cadre_ps_core_receive(cadre_ps_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    switch (cadre_session_receive(self->session, message, now_ms)) {
    case CADRE_NEWS_NONE:
        break;
    case CADRE_NEWS_WELCOME:
        on_welcome(self, message, now_ms);
        break;
    case CADRE_NEWS_MESSAGE:
        on_message(self, message, now_ms);
        break;
    case CADRE_NEWS_MALFORMED:
        cadre_ps_core_malformed(self);
        break;
    }
    cadre_message_fini(message);
    obey(self, now_ms);
}

void
cadre_ps_core_malformed(cadre_ps_core_t *self)
{
    emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_MALFORMED});
}

/* --- answers of the shard and of the store --- */

void
cadre_ps_core_counted(cadre_ps_core_t *self, const uint64_t counters[CADRE_PS_COUNTER_COUNT],
                      uint64_t generation, bool moves)
{
    memcpy(self->counters, counters, sizeof(self->counters));
    self->generation = generation;
    self->progress += moves;
}

void
cadre_ps_core_told(cadre_ps_core_t *self, const cadre_tables_told_t *tables)
{
    self->tables = *tables;
}

/* Notes what became of the snapshot, which the next tick sends. */
void
cadre_ps_core_written(cadre_ps_core_t *self, const cadre_ps_written_t *written, uint64_t now_ms)
{
    if (written->checkpoint != self->checkpoint || self->is_written) {
        return; /* the checkpoint of this snapshot has ended */
    }
    self->written = *written;
    self->is_written = true;
    self->written_due_ms = now_ms;
}

/* --- time --- */

/* Sends SNAPSHOT_WRITTEN if that is due; returns when it is due next, UINT64_MAX for never. */
static uint64_t
tick_written(cadre_ps_core_t *self, uint64_t now_ms)
{
    bool is_member = cadre_session_state(self->session) == CADRE_SESSION_MEMBER;
    if (!self->is_written || !is_member || !cadre_session_is_connected(self->session)) {
        return UINT64_MAX;
    }
    if (now_ms >= self->written_due_ms) {
        say_written(self, now_ms);
    }
    return self->written_due_ms;
}

/* Runs the timers of the session and of SNAPSHOT_WRITTEN, and tells the session until when this
 * process means to wait, so that it notices an own stall. */
uint64_t
cadre_ps_core_tick(cadre_ps_core_t *self, uint64_t now_ms)
{
    cadre_session_wake(self->session, now_ms);
    uint64_t due_ms = cadre_session_tick(self->session, now_ms);
    obey(self, now_ms);
    due_ms = cadre_min_u64(due_ms, tick_written(self, now_ms));
    cadre_session_rest(self->session, due_ms);
    return due_ms;
}
