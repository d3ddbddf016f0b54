#include "common/session/session.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/session/contact.h"
#include "common/wire/codec.h"

struct cadre_session {
    /* Options; .task.index becomes the index that the coordinator has chosen. */
    cadre_session_options_t options;
    cadre_outbox_t *outbox;
    cadre_session_state_t state;
    unsigned effects; /* effects that are due, bits 1 << kind: each at most once */

    cadre_task_t coordinator;
    uint64_t epoch;
    uint64_t heartbeat_ms; /* interval of heartbeats, from WELCOME */
    uint64_t lease_ms;
    cadre_contact_t contact;
    uint64_t hello_first; /* number of the first HELLO of this joining */
    uint64_t rounds;
    uint64_t heartbeat_sequence;
    bool disowned;
    int status; /* status with which the session ended */
    char reason[CADRE_TEXT_SIZE_MAX + 1];

    bool connected;
    bool was_connected; /* there was a connection before */
    uint64_t away_since_ms;
    uint64_t hello_due_ms;
    /* In HELLO: when the connection is replaced because nothing comes over it. */
    uint64_t mute_due_ms;
    uint64_t heartbeat_due_ms;
    /* When the shell promised to call again (cadre_session_rest); UINT64_MAX: no promise yet. */
    uint64_t promised_ms;
};

/* Returns a session that is not connected yet; its messages go into `outbox`, which is borrowed. */
cadre_session_t *
cadre_session_new(const cadre_session_options_t *options, cadre_outbox_t *outbox)
{
    cadre_session_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    self->outbox = outbox;
    self->coordinator.role = CADRE_ROLE_COORDINATOR;
    self->heartbeat_ms = CADRE_HEARTBEAT_MS;
    self->promised_ms = UINT64_MAX;
    return self;
}

void
cadre_session_destroy(cadre_session_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

/* Makes an effect due for the owner; one that is due already is not repeated. */
static void
emit(cadre_session_t *self, cadre_session_effect_kind_t kind)
{
    self->effects |= 1U << kind;
}

/* Takes out the next effect for the owner to carry out, in the order of their kinds; false when
 * none is due. */
bool
cadre_session_effect(cadre_session_t *self, cadre_session_effect_t *effect)
{
    if (self->effects == 0) {
        return false;
    }
    unsigned kind = 0;
    while (!(self->effects >> kind & 1)) {
        kind++;
    }
    self->effects &= ~(1U << kind);

    effect->kind = (cadre_session_effect_kind_t)kind;
    effect->status = self->status;
    snprintf(effect->text, sizeof(effect->text), "%s", self->reason);
    return true;
}

/* --- queries --- */

/* Returns whether this task is a member, draining or not. */
static bool
is_joined(const cadre_session_t *self)
{
    return self->state == CADRE_SESSION_MEMBER || self->state == CADRE_SESSION_DRAINING;
}

cadre_session_state_t
cadre_session_state(const cadre_session_t *self)
{
    return self->state;
}

bool
cadre_session_is_connected(const cadre_session_t *self)
{
    return self->connected;
}

cadre_session_contact_t
cadre_session_contact(const cadre_session_t *self)
{
    return (cadre_session_contact_t){.is_connected = self->connected,
                                     .is_member = is_joined(self),
                                     .lease_ms = self->lease_ms,
                                     .heard_ms = self->contact.heard_ms};
}

const cadre_task_t *
cadre_session_task(const cadre_session_t *self)
{
    return &self->options.task;
}

const cadre_task_t *
cadre_session_coordinator(const cadre_session_t *self)
{
    return &self->coordinator;
}

uint64_t
cadre_session_epoch(const cadre_session_t *self)
{
    return self->epoch;
}

/* Returns when contact with the coordinator counts as lost, unless an answer comes before. */
static uint64_t
lost_ms(const cadre_session_t *self)
{
    return cadre_contact_lost_ms(&self->contact, self->lease_ms);
}

bool
cadre_session_is_in_touch(const cadre_session_t *self, uint64_t now_ms)
{
    return now_ms < lost_ms(self);
}

bool
cadre_session_is_disowned(const cadre_session_t *self)
{
    return self->disowned;
}

const char *
cadre_session_reason(const cadre_session_t *self)
{
    return self->reason;
}

uint64_t
cadre_session_rounds(const cadre_session_t *self)
{
    return self->rounds;
}

uint64_t
cadre_session_asked(const cadre_session_t *self)
{
    return self->contact.asked;
}

/* --- messages to the coordinator --- */

cadre_message_t
cadre_session_message(const cadre_session_t *self, cadre_message_type_t type)
{
    return (cadre_message_t){
        .type = type, .incarnation = self->options.task.incarnation, .epoch = self->epoch};
}

void
cadre_session_say(cadre_session_t *self, cadre_message_t *message)
{
    cadre_outbox_send(self->outbox, &self->coordinator, message);
}

/* Returns the next HELLO, numbered, with the fields that every role fills in alike. `session` names
 * the coordinator that this task joined last; 0: none. */
cadre_message_t
cadre_session_hello(cadre_session_t *self, uint64_t now_ms)
{
    cadre_message_t message = cadre_session_message(self, CADRE_MESSAGE_HELLO);
    message.hello = (cadre_hello_message_t){.lowest = CADRE_PROTOCOL_LOWEST,
                                            .highest = CADRE_PROTOCOL_VERSION,
                                            .schema = cadre_message_schema_hash(),
                                            .role = self->options.task.role,
                                            .index = self->options.task.index,
                                            .build = self->options.build,
                                            .host = self->options.host,
                                            .process = self->options.process,
                                            .session = self->coordinator.incarnation};
    message.request = cadre_contact_ask(&self->contact, now_ms);
    return message;
}

cadre_message_t
cadre_session_heartbeat(cadre_session_t *self, uint64_t now_ms)
{
    cadre_message_t message = cadre_session_message(self, CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat.sequence = ++self->heartbeat_sequence;
    message.request = cadre_contact_ask(&self->contact, now_ms);
    return message;
}

/* Emits the effect HELLO, if there is a connection, and sets the time of the next one. */
static void
say_hello(cadre_session_t *self, uint64_t now_ms)
{
    if (self->connected) {
        emit(self, CADRE_EFFECT_HELLO);
        self->hello_due_ms = now_ms + CADRE_HELLO_RETRY_MS;
    }
}

/* Emits the effect HEARTBEAT, and sets the time of the next one. */
static void
say_heartbeat(cadre_session_t *self, uint64_t now_ms)
{
    emit(self, CADRE_EFFECT_HEARTBEAT);
    self->heartbeat_due_ms = now_ms + self->heartbeat_ms;
}

void
cadre_session_hurry(cadre_session_t *self, uint64_t now_ms)
{
    self->heartbeat_due_ms = now_ms;
}

/* --- joining --- */

/* Goes back to HELLO, to join again: a WELCOME counts only if it answers a HELLO from now on. */
static void
begin_joining(cadre_session_t *self)
{
    self->state = CADRE_SESSION_HELLO;
    self->hello_first = self->contact.asked + 1;
    self->rounds++;
}

/* Asks with HELLO whether this task is still a member. Until the answer comes it is none; a task
 * that drains does not ask. */
void
cadre_session_doubt(cadre_session_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_SESSION_MEMBER) {
        begin_joining(self);
    }
    if (self->state == CADRE_SESSION_HELLO) {
        say_hello(self, now_ms);
    }
}

/* Notes that the control connection came up; each new connection begins with HELLO. */
void
cadre_session_connected(cadre_session_t *self, uint64_t now_ms)
{
    self->connected = true;
    self->was_connected = true;
    self->mute_due_ms = now_ms + CADRE_MUTE_MS;
    self->rounds++;
    cadre_session_doubt(self, now_ms);
}

void
cadre_session_disconnected(cadre_session_t *self, uint64_t now_ms)
{
    self->connected = false;
    self->away_since_ms = now_ms;
}

/* Becomes a member of the session that a WELCOME names, and sends a HEARTBEAT at once. */
void
cadre_session_begin(cadre_session_t *self, const cadre_message_t *welcome, uint64_t now_ms)
{
    cadre_assert(self->state == CADRE_SESSION_HELLO);
    self->state = CADRE_SESSION_MEMBER;
    self->coordinator.incarnation = welcome->incarnation;
    self->epoch = welcome->epoch;
    self->options.task.index = (uint32_t)welcome->welcome.index;
    self->lease_ms = welcome->welcome.lease_ms;
    /* From a message: an interval of 0 would be a busy loop. */
    self->heartbeat_ms = welcome->welcome.heartbeat_ms ? welcome->welcome.heartbeat_ms : 1;

    cadre_contact_answered(&self->contact, welcome->request);
    say_heartbeat(self, now_ms);
}

/* --- leaving --- */

/* Ends the session with a status and a reason, which the effect carries; drops effects that are
 * due. */
static void
end(cadre_session_t *self, cadre_session_effect_kind_t effect, int status, const char *reason)
{
    self->state = CADRE_SESSION_LEFT;
    self->status = status;
    if (reason != self->reason) { /* `reason` may be self->reason, the one for draining */
        snprintf(self->reason, sizeof(self->reason), "%s", reason);
    }
    self->effects = 0; /* no message is sent after the end */
    emit(self, effect);
}

/* Leaves the session, and tells the coordinator with GOODBYE if there is a connection. */
void
cadre_session_leave(cadre_session_t *self, const char *reason)
{
    if (self->state == CADRE_SESSION_LEFT) {
        return;
    }
    if (self->connected) {
        cadre_message_t message = cadre_session_message(self, CADRE_MESSAGE_GOODBYE);
        message.goodbye.reason = reason;
        cadre_session_say(self, &message);
    }
    end(self, CADRE_EFFECT_LEFT, 0, reason);
}

/* Begins to drain: the task stays a member until its owner has finished its work. A task that is no
 * member leaves at once. */
void
cadre_session_drain(cadre_session_t *self, const char *reason)
{
    if (self->state == CADRE_SESSION_HELLO) {
        cadre_session_leave(self, reason);
    } else if (self->state != CADRE_SESSION_LEFT) {
        self->state = CADRE_SESSION_DRAINING;
        snprintf(self->reason, sizeof(self->reason), "%s", reason);
    }
}

/* Ends the session because the coordinator refuses this task, or this task cannot work in its job.
 * Sends no GOODBYE: the task has not joined. */
void
cadre_session_refuse(cadre_session_t *self, int status, const char *text)
{
    end(self, CADRE_EFFECT_REFUSED, status, text);
}

/* Joins again after the session has ended, as if new: knows no coordinator. Unless a new connection
 * comes up before, the first HELLO waits for a retry interval: a coordinator whose job is ending
 * answers each HELLO with STOP, which must not become a loop without a pause. */
void
cadre_session_return(cadre_session_t *self, uint64_t now_ms)
{
    cadre_assert(self->state == CADRE_SESSION_LEFT);
    begin_joining(self);
    self->coordinator.incarnation = 0;
    self->epoch = 0;
    self->disowned = false;
    self->reason[0] = '\0';
    self->hello_due_ms = now_ms + CADRE_HELLO_RETRY_MS;
    self->mute_due_ms = now_ms + CADRE_MUTE_MS;
}

/* Tells the owner, once, that the coordinator knows this draining task no more: no report will be
 * answered. */
static void
disown(cadre_session_t *self)
{
    if (!self->disowned) {
        self->disowned = true;
        emit(self, CADRE_EFFECT_DISOWNED);
    }
}

/* --- messages --- */

/* Takes a WELCOME. It counts for a task that is joining, if it answers a HELLO of this joining. A
 * member that is given another index asks again. */
static cadre_session_news_t
on_welcome(cadre_session_t *self, const cadre_message_t *message, uint64_t now_ms)
{
    bool is_other = message->welcome.index != self->options.task.index;
    if (self->state == CADRE_SESSION_MEMBER &&
        message->incarnation == self->coordinator.incarnation && is_other) {
        cadre_session_doubt(self, now_ms); /* asks which of the two indexes counts */
        return CADRE_NEWS_NONE;
    }

    /* Whether it is late is known only of a coordinator that repeats the numbers of questions. */
    bool is_late = self->contact.answers && message->request < self->hello_first;
    if (self->state != CADRE_SESSION_HELLO || is_late) {
        return CADRE_NEWS_NONE;
    }
    return CADRE_NEWS_WELCOME;
}

/* Takes the coordinator's word that it does not know this task: joins again, but for a task that
 * drains, which ends without the coordinator. */
static void
on_unknown(cadre_session_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_SESSION_DRAINING) {
        disown(self);
    } else {
        cadre_session_doubt(self, now_ms);
    }
}

/* Takes the answer that the coordinator does not take this task. It means nothing to a member: it
 * answers a HELLO of before. */
static void
on_refused(cadre_session_t *self, const cadre_refused_message_t *refused)
{
    if (self->state == CADRE_SESSION_HELLO) {
        cadre_session_refuse(self, refused->status ? -(int)refused->status : CADRE_EREFUSED,
                             refused->text);
    }
}

/* Takes a message of another session. It may just be late; or this task has joined the wrong
 * session by a late WELCOME: so a member asks with HELLO, at most once in a retry interval. */
static void
on_stranger(cadre_session_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_SESSION_MEMBER && now_ms >= self->hello_due_ms) {
        cadre_session_doubt(self, now_ms);
    }
}

/* Takes in a message from the control connection, which stays the caller's; returns what the caller
 * has to do with it. */
cadre_session_news_t
cadre_session_receive(cadre_session_t *self, const cadre_message_t *message, uint64_t now_ms)
{
    self->mute_due_ms = now_ms + CADRE_MUTE_MS; /* the connection is alive, whatever came */
    if (self->state == CADRE_SESSION_LEFT) {
        return CADRE_NEWS_NONE;
    }
    if (cadre_message_authorize(message->type, CADRE_ROLE_COORDINATOR) < 0) {
        return CADRE_NEWS_MALFORMED;
    }
    bool is_ours = is_joined(self) && message->incarnation == self->coordinator.incarnation;

    if (message->type == CADRE_MESSAGE_WELCOME) {
        return on_welcome(self, message, now_ms);
    }
    if (message->type == CADRE_MESSAGE_UNKNOWN_PEER) {
        on_unknown(self, now_ms);
        return CADRE_NEWS_NONE;
    }
    if (message->type == CADRE_MESSAGE_REFUSED) {
        on_refused(self, &message->refused);
        return CADRE_NEWS_NONE;
    }
    if (message->type == CADRE_MESSAGE_STOP && (is_ours || self->state == CADRE_SESSION_HELLO)) {
        /* Even before WELCOME: the job may be ending. */
        cadre_session_leave(self, message->stop.reason);
        return CADRE_NEWS_NONE;
    }
    if (!is_ours) {
        on_stranger(self, now_ms);
        return CADRE_NEWS_NONE;
    }
    if (message->type == CADRE_MESSAGE_ACK) {
        cadre_contact_answered(&self->contact, message->request);
    }
    return CADRE_NEWS_MESSAGE;
}

/* --- every turn --- */

/* Begins a turn: returns for how long this process stood still beyond the time at which its shell
 * had promised to come; 0 for a short while. The connection does not count as silent in that time.
 */
uint64_t
cadre_session_wake(cadre_session_t *self, uint64_t now_ms)
{
    uint64_t late_ms = now_ms > self->promised_ms ? now_ms - self->promised_ms : 0;
    if (late_ms < CADRE_OWN_STALL_MS) {
        return 0;
    }
    self->mute_due_ms += late_ms;
    return late_ms;
}

void
cadre_session_rest(cadre_session_t *self, uint64_t due_ms)
{
    self->promised_ms = due_ms;
}

/* Returns when the task gives up a coordinator that it has lost; UINT64_MAX for never. */
static uint64_t
away_due_ms(const cadre_session_t *self)
{
    bool waits = self->connected || !self->was_connected || self->options.away_ms == 0;
    return waits ? UINT64_MAX : self->away_since_ms + self->options.away_ms;
}

/* Acts on lost contact with the coordinator, which gives this task's work to others soon, or has
 * done so. A task that drains accepts that; any other asks with HELLO whether it is still a member.
 */
static void
lose_touch(cadre_session_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_SESSION_DRAINING) {
        disown(self);
    } else {
        /* If no answer comes by then the connection is replaced: another coordinator may have taken
         * the place of the one that it leads to. Not at once: a coordinator that only stands still
         * will answer. */
        self->mute_due_ms = now_ms + CADRE_MUTE_MS;
        cadre_session_doubt(self, now_ms);
    }
}

/* Runs the timers of a task that is joining: repeats HELLO, and has the connection replaced when
 * nothing comes over it. Returns when it is due again. */
static uint64_t
tick_hello(cadre_session_t *self, uint64_t now_ms)
{
    if (now_ms >= self->mute_due_ms) {
        self->mute_due_ms = now_ms + CADRE_MUTE_MS;
        emit(self, CADRE_EFFECT_REDIAL);
    } else if (now_ms >= self->hello_due_ms) {
        say_hello(self, now_ms);
    }
    /* hello_due_ms may lie in the past after a REDIAL: then the owner calls again at once. */
    return cadre_min_u64(self->hello_due_ms, self->mute_due_ms);
}

/* Runs the timers of a connected task; returns when it is due again. */
static uint64_t
tick_connected(cadre_session_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_SESSION_HELLO) {
        return tick_hello(self, now_ms);
    }
    if (now_ms >= self->heartbeat_due_ms) {
        say_heartbeat(self, now_ms);
    }
    return self->heartbeat_due_ms;
}

/* Runs the timers. Returns when it must be called again at the latest; UINT64_MAX for never. */
uint64_t
cadre_session_tick(cadre_session_t *self, uint64_t now_ms)
{
    if (self->state == CADRE_SESSION_LEFT) {
        return UINT64_MAX;
    }
    if (now_ms >= away_due_ms(self)) {
        end(self, CADRE_EFFECT_LEFT, CADRE_ETIMEOUT, "the coordinator stays away");
        return UINT64_MAX;
    }
    /* A disowned task has no contact to lose any more. */
    if (is_joined(self) && !self->disowned && !cadre_session_is_in_touch(self, now_ms)) {
        lose_touch(self, now_ms);
    }

    uint64_t due_ms = self->connected ? tick_connected(self, now_ms) : away_due_ms(self);
    return is_joined(self) && !self->disowned ? cadre_min_u64(due_ms, lost_ms(self)) : due_ms;
}
