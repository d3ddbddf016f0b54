#include "ps/core/ps_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/session/contact.h"
#include "common/wire/codec.h"

typedef enum {
    STATE_HELLO,  /* no WELCOME yet, or told to say HELLO again */
    STATE_MEMBER, /* welcomed */
    STATE_LEFT,   /* GOODBYE is out */
} state_t;

struct cadre_ps_core {
    cadre_ps_options_t options;
    cadre_outbox_t outbox;
    cadre_ps_event_t *events; /* a growing array, taken from the front */
    size_t event_first;
    size_t event_count;
    size_t event_capacity;

    state_t state;
    bool connected;
    uint64_t session; /* incarnation of the coordinator; 0 before the first WELCOME */
    uint64_t epoch;
    uint64_t heartbeat_ms; /* intervals, from WELCOME */
    uint64_t resend_ms;
    uint64_t hello_first; /* number of the first HELLO since it is no member: a WELCOME that answers
                             an earlier one, or none, says nothing of now */
    uint64_t hello_due_ms;
    uint64_t mute_due_ms; /* while in STATE_HELLO and nothing comes */
    uint64_t heartbeat_due_ms;
    uint64_t heartbeat_sequence;
    uint64_t lease_ms;
    cadre_contact_t contact;
    uint64_t progress;    /* how often the shard has answered */
    uint64_t tick_due_ms; /* when the shell was asked to tick again */
    uint64_t counters[CADRE_PS_COUNTER_COUNT];
    uint64_t generation;

    uint64_t checkpoint; /* of the last CLOSE_CUT that has not ended; 0 for none */
    uint64_t ended;      /* the last one that ended: its CLOSE_CUT may still come, late */
    bool is_written;     /* `written` is to be said until CHECKPOINT_END */
    cadre_ps_written_t written;
    uint64_t written_due_ms;
};

cadre_ps_core_t *
cadre_ps_core_new(const cadre_ps_options_t *options)
{
    cadre_ps_core_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    self->heartbeat_ms = CADRE_HEARTBEAT_MS;
    self->resend_ms = CADRE_RESEND_MS;
    self->tick_due_ms = UINT64_MAX;
    return self;
}

void
cadre_ps_core_destroy(cadre_ps_core_t **self_p)
{
    cadre_ps_core_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    for (size_t i = 0; i < self->event_count; i++) {
        cadre_message_fini(&self->events[self->event_first + i].message);
    }
    free(self->events);
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
    if (self->event_count == 0) {
        self->event_first = 0;
    }
    if (self->event_first + self->event_count == self->event_capacity) {
        self->event_capacity = self->event_capacity ? 2 * self->event_capacity : 8;
        self->events = cadre_realloc(self->events, self->event_capacity, sizeof(*self->events));
    }
    self->events[self->event_first + self->event_count++] = *event;
}

bool
cadre_ps_core_event(cadre_ps_core_t *self, cadre_ps_event_t *event)
{
    if (self->event_count == 0) {
        return false;
    }
    *event = self->events[self->event_first++];
    self->event_count--;
    return true;
}

cadre_task_t
cadre_ps_core_coordinator(const cadre_ps_core_t *self)
{
    return (cadre_task_t){CADRE_ROLE_COORDINATOR, 0, self->session};
}

cadre_ps_contact_t
cadre_ps_core_contact(const cadre_ps_core_t *self)
{
    return (cadre_ps_contact_t){.is_member = self->state == STATE_MEMBER,
                                .index = self->options.task.index,
                                .lease_ms = self->lease_ms,
                                .heard_ms = self->contact.heard_ms};
}

/* --- what a ps says --- */

static cadre_message_t
new_message(const cadre_ps_core_t *self, cadre_message_type_t type)
{
    return (cadre_message_t){
        .type = type, .incarnation = self->options.task.incarnation, .epoch = self->epoch};
}

static void
say(cadre_ps_core_t *self, cadre_message_t *message)
{
    cadre_task_t coordinator = cadre_ps_core_coordinator(self);
    cadre_outbox_send(&self->outbox, &coordinator, message);
}

static void
say_hello(cadre_ps_core_t *self, uint64_t now_ms)
{
    cadre_message_t message = new_message(self, CADRE_MESSAGE_HELLO);
    message.hello = (cadre_hello_message_t){.lowest = CADRE_PROTOCOL_LOWEST,
                                            .highest = CADRE_PROTOCOL_VERSION,
                                            .schema = cadre_message_schema_hash(),
                                            .role = CADRE_ROLE_PS,
                                            .index = self->options.task.index,
                                            .build = self->options.build,
                                            .host = self->options.host,
                                            .process = self->options.process,
                                            .address = self->options.address,
                                            .session = self->session,
                                            .generation = self->generation,
                                            .folderless = self->options.folderless};
    message.request = cadre_contact_ask(&self->contact, now_ms);
    say(self, &message);
    self->hello_due_ms = now_ms + CADRE_PS_HELLO_RETRY_MS;
}

static void
say_heartbeat(cadre_ps_core_t *self, uint64_t now_ms)
{
    cadre_message_t message = new_message(self, CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat =
        (cadre_heartbeat_message_t){.sequence = ++self->heartbeat_sequence,
                                    .counters = {self->counters, CADRE_PS_COUNTER_COUNT},
                                    .shard = self->options.task.index,
                                    .generation = self->generation,
                                    .progress = self->progress};
    message.request = cadre_contact_ask(&self->contact, now_ms);
    say(self, &message);
    emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_PROBE});
    self->heartbeat_due_ms = now_ms + self->heartbeat_ms;
}

static void
say_written(cadre_ps_core_t *self, uint64_t now_ms)
{
    const cadre_ps_written_t *written = &self->written;
    cadre_message_t message = new_message(self, CADRE_MESSAGE_SNAPSHOT_WRITTEN);
    message.snapshot_written = (cadre_snapshot_written_message_t){
        .checkpoint = written->checkpoint,
        .status = (uint64_t)-written->status,
        .text = written->text,
        .file = written->file,
        .size_bytes = written->size_bytes,
        .hash = written->hash,
        .counters = {written->counters, CADRE_PS_COUNTER_COUNT},
    };
    say(self, &message);
    self->written_due_ms = now_ms + self->resend_ms;
}

void
cadre_ps_core_leave(cadre_ps_core_t *self, const char *reason)
{
    if (self->state == STATE_LEFT) {
        return;
    }
    if (self->connected) {
        cadre_message_t message = new_message(self, CADRE_MESSAGE_GOODBYE);
        message.goodbye.reason = reason;
        say(self, &message);
    }
    self->state = STATE_LEFT;
    cadre_ps_event_t event = {.kind = CADRE_PS_LEFT};
    snprintf(event.text, sizeof(event.text), "%s", reason);
    emit(self, &event);
}

/* It never was a member: there is nobody to say GOODBYE to. */
static void
be_refused(cadre_ps_core_t *self, const cadre_refused_message_t *refused)
{
    self->state = STATE_LEFT;
    cadre_ps_event_t event = {.kind = CADRE_PS_REFUSED,
                              .status = refused->status ? -(int)refused->status : CADRE_EREFUSED};
    snprintf(event.text, sizeof(event.text), "%s", refused->text);
    emit(self, &event);
}

/* --- session --- */

/* Nothing more is said of the checkpoint under way, and nobody needs its file. */
static void
abandon(cadre_ps_core_t *self)
{
    if (self->checkpoint != 0 && !self->is_written) {
        emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_ABANDON,
                                       .epoch = self->epoch,
                                       .checkpoint = self->checkpoint});
    }
    self->checkpoint = 0;
    self->is_written = false;
}

static void
rejoin(cadre_ps_core_t *self, uint64_t now_ms)
{
    if (self->state == STATE_MEMBER) {
        self->hello_first = self->contact.asked + 1;
    }
    if (self->state != STATE_LEFT) {
        self->state = STATE_HELLO;
        say_hello(self, now_ms);
    }
}

static void
on_welcome(cadre_ps_core_t *self, const cadre_message_t *message, uint64_t now_ms)
{
    const cadre_welcome_message_t *welcome = &message->welcome;
    bool other_shard = welcome->index != self->options.task.index;
    if (self->state == STATE_MEMBER && message->incarnation == self->session && other_shard) {
        rejoin(self, now_ms); /* which of the two is it? */
        return;
    }
    bool is_late = self->contact.answers && message->request < self->hello_first;
    if (self->state != STATE_HELLO || is_late) {
        return;
    }
    /* Another shard of the same session has nothing of this one, not even its generations. */
    if (message->incarnation != self->session || other_shard) {
        abandon(self);
        self->ended = 0;
        self->session = message->incarnation;
        self->generation = 0;
        emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_SESSION,
                                       .index = (uint32_t)welcome->index,
                                       .epoch = message->epoch});
    }
    self->state = STATE_MEMBER;
    self->lease_ms = welcome->lease_ms;
    cadre_contact_answered(&self->contact, message->request);
    self->epoch = message->epoch;
    self->options.task.index = (uint32_t)welcome->index;
    self->heartbeat_ms = welcome->heartbeat_ms ? welcome->heartbeat_ms : 1;
    self->resend_ms = welcome->resend_ms ? welcome->resend_ms : 1;
    say_heartbeat(self, now_ms);
}

void
cadre_ps_core_connected(cadre_ps_core_t *self, uint64_t now_ms)
{
    self->connected = true;
    self->mute_due_ms = now_ms + CADRE_MUTE_MS;
    rejoin(self, now_ms);
}

void
cadre_ps_core_disconnected(cadre_ps_core_t *self)
{
    self->connected = false;
}

void
cadre_ps_core_return(cadre_ps_core_t *self, uint64_t now_ms)
{
    cadre_assert(self->state == STATE_LEFT);
    abandon(self);
    self->session = 0;
    self->epoch = 0;
    self->generation = 0;
    self->state = STATE_HELLO;
    self->hello_due_ms = now_ms + CADRE_PS_HELLO_RETRY_MS;
    self->mute_due_ms = now_ms + CADRE_MUTE_MS;
}

/* --- messages --- */

/* For the shard; a checkpoint's begin and end are noted on the way. */
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

/* For another shard than the one that this ps was told to serve: whoever is right, the coordinator
 * is to hear which one that is, and says it again then. */
static bool
is_astray(const cadre_ps_core_t *self, const cadre_message_t *message)
{
    const uint64_t *shard = cadre_message_shard(message);
    return shard && *shard != self->options.task.index;
}

static void
on_member_message(cadre_ps_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    switch (message->type) {
    case CADRE_MESSAGE_CREATE:
    case CADRE_MESSAGE_SETTLE:
    case CADRE_MESSAGE_SNAPSHOT:
    case CADRE_MESSAGE_CLOSE_CUT:
    case CADRE_MESSAGE_CHECKPOINT_END:
    case CADRE_MESSAGE_RESTORE:
    case CADRE_MESSAGE_COUNT:
    case CADRE_MESSAGE_PROBE:
    case CADRE_MESSAGE_DROP:
    case CADRE_MESSAGE_RETIRE:
        pass_on(self, message, now_ms);
        break;
    case CADRE_MESSAGE_ACK:
        cadre_contact_answered(&self->contact, message->request);
        break;
    case CADRE_MESSAGE_DRAIN:
        cadre_ps_core_leave(self, "drained by the coordinator");
        break;
    case CADRE_MESSAGE_HELLO:
    case CADRE_MESSAGE_WELCOME:
    case CADRE_MESSAGE_REFUSED:
    case CADRE_MESSAGE_UNKNOWN_PEER:
    case CADRE_MESSAGE_STATUS:
    case CADRE_MESSAGE_STATUS_TEXT:
    case CADRE_MESSAGE_HEARTBEAT:
    case CADRE_MESSAGE_STOP:
    case CADRE_MESSAGE_GOODBYE:
    case CADRE_MESSAGE_REPLY:
    case CADRE_MESSAGE_SHARD:
    case CADRE_MESSAGE_VARIABLE:
    case CADRE_MESSAGE_DEFINITIONS:
    case CADRE_MESSAGE_FUNCTION:
    case CADRE_MESSAGE_DATASET:
    case CADRE_MESSAGE_RESOURCE:
    case CADRE_MESSAGE_DATASET_READY:
    case CADRE_MESSAGE_WANT:
    case CADRE_MESSAGE_CLOSURE:
    case CADRE_MESSAGE_CANCEL:
    case CADRE_MESSAGE_CLOSURE_DONE:
    case CADRE_MESSAGE_CLOSURE_FAILED:
    case CADRE_MESSAGE_SNAPSHOT_TAKEN:
    case CADRE_MESSAGE_SNAPSHOT_WRITTEN:
    case CADRE_MESSAGE_PULL:
    case CADRE_MESSAGE_VALUES:
    case CADRE_MESSAGE_PUSH:
    case CADRE_MESSAGE_APPLIED:
    case CADRE_MESSAGE_ASSIGN:
    case CADRE_MESSAGE_PROBED:
    case CADRE_MESSAGE_RESERVE:
    case CADRE_MESSAGE_GRANT:
        cadre_ps_core_malformed(self);
        break;
    }
}

/* STOP is heeded before WELCOME too: the job may be ending. */
static void
receive(cadre_ps_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    bool ours = message->incarnation == self->session && self->state == STATE_MEMBER;
    if (cadre_message_authorize(message->type, CADRE_ROLE_COORDINATOR) < 0) {
        cadre_ps_core_malformed(self);
    } else if (message->type == CADRE_MESSAGE_WELCOME) {
        on_welcome(self, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_UNKNOWN_PEER) {
        rejoin(self, now_ms);
    } else if (message->type == CADRE_MESSAGE_REFUSED && self->state == STATE_HELLO) {
        be_refused(self, &message->refused);
    } else if (message->type == CADRE_MESSAGE_STOP && (ours || self->state == STATE_HELLO)) {
        cadre_ps_core_leave(self, message->stop.reason);
    } else if (ours && is_astray(self, message)) {
        cadre_ps_core_malformed(self);
        rejoin(self, now_ms);
    } else if (ours) {
        on_member_message(self, message, now_ms);
    } else if (self->state == STATE_MEMBER && now_ms >= self->hello_due_ms) {
        rejoin(self, now_ms); /* who is that? A WELCOME that was late may have misled us */
    } /* else of another session, or before WELCOME: it will be said again */
}

void
cadre_ps_core_receive(cadre_ps_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    self->mute_due_ms = now_ms + CADRE_MUTE_MS;
    if (self->state != STATE_LEFT) {
        receive(self, message, now_ms);
    }
    cadre_message_fini(message);
}

void
cadre_ps_core_malformed(cadre_ps_core_t *self)
{
    emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_MALFORMED});
}

/* --- the shard and the store --- */

void
cadre_ps_core_counted(cadre_ps_core_t *self, const uint64_t counters[CADRE_PS_COUNTER_COUNT],
                      uint64_t generation, bool moves)
{
    memcpy(self->counters, counters, sizeof(self->counters));
    self->generation = generation;
    self->progress += moves;
}

void
cadre_ps_core_written(cadre_ps_core_t *self, const cadre_ps_written_t *written, uint64_t now_ms)
{
    if (written->checkpoint != self->checkpoint || self->is_written) {
        return; /* of a checkpoint that has ended */
    }
    self->written = *written;
    self->is_written = true;
    self->written_due_ms = now_ms;
}

/* --- time --- */

static uint64_t
earlier(uint64_t left_ms, uint64_t right_ms)
{
    return left_ms < right_ms ? left_ms : right_ms;
}

/* What this process itself was late by is nobody's silence. */
static void
excuse_stall(cadre_ps_core_t *self, uint64_t now_ms)
{
    if (now_ms > self->tick_due_ms) {
        self->mute_due_ms += now_ms - self->tick_due_ms;
    }
}

static uint64_t
tick_hello(cadre_ps_core_t *self, uint64_t now_ms)
{
    if (now_ms >= self->mute_due_ms) {
        self->mute_due_ms = now_ms + CADRE_MUTE_MS;
        emit(self, &(cadre_ps_event_t){.kind = CADRE_PS_MUTE});
    } else if (now_ms >= self->hello_due_ms) {
        say_hello(self, now_ms);
    }
    return earlier(self->hello_due_ms, self->mute_due_ms);
}

static uint64_t
tick_member(cadre_ps_core_t *self, uint64_t now_ms)
{
    if (now_ms >= self->heartbeat_due_ms) {
        say_heartbeat(self, now_ms);
    }
    if (self->is_written && now_ms >= self->written_due_ms) {
        say_written(self, now_ms);
    }
    uint64_t lost_ms = cadre_contact_lost_ms(&self->contact, self->lease_ms);
    uint64_t due_ms = earlier(self->heartbeat_due_ms, lost_ms);
    return self->is_written ? earlier(due_ms, self->written_due_ms) : due_ms;
}

uint64_t
cadre_ps_core_tick(cadre_ps_core_t *self, uint64_t now_ms)
{
    if (self->state == STATE_LEFT || !self->connected) {
        self->tick_due_ms = UINT64_MAX;
        return UINT64_MAX;
    }
    excuse_stall(self, now_ms);
    bool is_unheard = now_ms >= cadre_contact_lost_ms(&self->contact, self->lease_ms);
    if (self->state == STATE_MEMBER && is_unheard) {
        self->mute_due_ms = now_ms + CADRE_MUTE_MS; /* it may be frozen, or another one is there */
        rejoin(self, now_ms);
    }
    self->tick_due_ms =
        self->state == STATE_HELLO ? tick_hello(self, now_ms) : tick_member(self, now_ms);
    return self->tick_due_ms;
}
