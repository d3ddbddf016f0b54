/*
 * session - a task's side of its membership in a job: joining, sending heartbeats, leaving.
 *
 * Owner:   the core of a worker or ps. Thread: its owner's.
 *
 *              begin             drain
 *     HELLO ----------> MEMBER ----------> DRAINING
 *       ^                 |                           from any: leave, refuse ---> LEFT
 *       +-- lost, asked --+                                    LEFT: return ---> HELLO
 *
 * A core: messages and the time go in. Effects come out, which the owner takes after every call and
 * carries out: it adds to HELLO and HEARTBEAT what only its role knows. The rules are the same for
 * every role (docs/protocol.md#membership):
 *
 * 1. No message is sent without a connection; each new connection begins with HELLO.
 * 2. HELLOs and HEARTBEATs are numbered, and an answer counts as of the time at which its question
 *    was sent. A WELCOME that answers a HELLO of an earlier joining is ignored.
 * 3. A task asks with HELLO whenever it may be no member any more: the coordinator does not know
 *    it, names another index, has not answered for CADRE_LEASE_TRUST_PERCENT of the lease, or
 *    another coordinator speaks. A task that drains does not ask: it is disowned, and ends without
 *    the coordinator.
 * 4. REFUSED answers HELLO: it ends a task that joins, and means nothing to a member. STOP ends
 *    both.
 */
#ifndef CADRE_COMMON_SESSION_SESSION_H
#define CADRE_COMMON_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/outbox.h"

enum {
    CADRE_HELLO_RETRY_MS = 1000, /* time between HELLOs until a WELCOME comes */
};

typedef struct cadre_session cadre_session_t;

typedef struct {
    cadre_task_t task; /* this task, with the index that it asks for, or CADRE_INDEX_ANY */
    const char *build; /* name of this release; borrowed for the life of the session, like `host` */
    const char *host;
    uint32_t process;
    /* The task leaves when a coordinator that it had joined is away for so long; 0: never. */
    uint64_t away_ms;
} cadre_session_options_t;

typedef enum {
    CADRE_SESSION_HELLO,    /* not a member: no WELCOME yet, or membership was lost */
    CADRE_SESSION_MEMBER,   /* a member */
    CADRE_SESSION_DRAINING, /* a member that finishes its work and takes no new */
    CADRE_SESSION_LEFT,     /* the session is over */
} cadre_session_state_t;

typedef enum {
    /* The owner completes the message of cadre_session_hello, and sends it with cadre_session_say.
     */
    CADRE_EFFECT_HELLO,
    /* The owner completes the message of cadre_session_heartbeat, and sends it with
     * cadre_session_say. */
    CADRE_EFFECT_HEARTBEAT,
    CADRE_EFFECT_REDIAL, /* no answer to HELLO for CADRE_MUTE_MS: replace the control connection,
                               on another socket (common/net/socket.h says why) */
    /* This task drains, and the coordinator does not know it any more: nothing that it reports will
     * be answered. */
    CADRE_EFFECT_DISOWNED,
    CADRE_EFFECT_REFUSED, /* the coordinator does not take this task, now or later, for the reason
                               `text`. `status`: CADRE_EPROTOCOL when the two are of different
                               releases */
    CADRE_EFFECT_LEFT,    /* the session is over; `text` says why. `status`: CADRE_ETIMEOUT when
                               the coordinator stays away, else 0 */
} cadre_session_effect_kind_t;

typedef struct {
    cadre_session_effect_kind_t kind;
    int status;
    char text[CADRE_TEXT_SIZE_MAX + 1];
} cadre_session_effect_t;

/* What a message from the coordinator means for the owner of the session. */
typedef enum {
    CADRE_NEWS_NONE,      /* nothing: the session has dealt with it, or it was late or of another
                             session; what matters is retransmitted */
    CADRE_NEWS_WELCOME,   /* the answer to HELLO: the owner calls cadre_session_begin with it; an
                             owner that cannot begin yet drops it, and is welcomed again */
    CADRE_NEWS_MESSAGE,   /* the message is the owner's to act on. The session has counted an ACK
                             already */
    CADRE_NEWS_MALFORMED, /* a message that a coordinator never sends */
} cadre_session_news_t;

/* What this task knows of its contact with the coordinator. */
typedef struct {
    bool is_connected;
    bool is_member;
    uint64_t lease_ms; /* 0: not known before the first WELCOME */
    uint64_t heard_ms; /* when the newest question that was answered was sent; 0: never */
} cadre_session_contact_t;

/* Returns a session that is not connected yet and puts its messages into `outbox`, borrowed. */
cadre_session_t *cadre_session_new(const cadre_session_options_t *options, cadre_outbox_t *outbox);
void cadre_session_destroy(cadre_session_t **self_p);

/* Takes out the next effect for the owner to carry out; false when there is none. */
bool cadre_session_effect(cadre_session_t *self, cadre_session_effect_t *effect);

/* --- queries --- */

cadre_session_state_t cadre_session_state(const cadre_session_t *self);
bool cadre_session_is_connected(const cadre_session_t *self);
cadre_session_contact_t cadre_session_contact(const cadre_session_t *self);

/* Returns this task; its index is the one that it asked for until the coordinator has chosen one.
 */
const cadre_task_t *cadre_session_task(const cadre_session_t *self);

/* Returns the coordinator of the session; its incarnation is 0 before the first WELCOME. */
const cadre_task_t *cadre_session_coordinator(const cadre_session_t *self);
uint64_t cadre_session_epoch(const cadre_session_t *self);

/* Returns whether the coordinator still counts this task as a member, as far as that can be known
 * here: it has answered a message that was sent less than CADRE_LEASE_TRUST_PERCENT of the lease
 * ago. */
bool cadre_session_is_in_touch(const cadre_session_t *self, uint64_t now_ms);

/* Returns whether the effect DISOWNED has come. */
bool cadre_session_is_disowned(const cadre_session_t *self);

/* Returns why the session drains or is over; "" before. */
const char *cadre_session_reason(const cadre_session_t *self);

/* Returns how many times this task was no member or had no connection, so that messages of the
 * coordinator may have been lost. */
uint64_t cadre_session_rounds(const cadre_session_t *self);

/* Returns the number of the last HELLO or HEARTBEAT that was sent. */
uint64_t cadre_session_asked(const cadre_session_t *self);

/* --- messages to the coordinator --- */

/* Returns an empty message of this type with the sender's fields filled in. */
cadre_message_t cadre_session_message(const cadre_session_t *self, cadre_message_type_t type);

/* Puts the message into the outbox, for the coordinator. */
void cadre_session_say(cadre_session_t *self, cadre_message_t *message);

/* Returns the next HELLO or HEARTBEAT, numbered, with the fields that every role fills in alike. */
cadre_message_t cadre_session_hello(cadre_session_t *self, uint64_t now_ms);
cadre_message_t cadre_session_heartbeat(cadre_session_t *self, uint64_t now_ms);

/* Makes the next tick send a HEARTBEAT, because the coordinator waits for news that it carries. */
void cadre_session_hurry(cadre_session_t *self, uint64_t now_ms);

/* --- events --- */

/* Notes that the control connection came up, again or for the first time. */
void cadre_session_connected(cadre_session_t *self, uint64_t now_ms);

/* Notes that the control connection broke. */
void cadre_session_disconnected(cadre_session_t *self, uint64_t now_ms);

/* Takes in a message from the control connection, which stays the caller's; returns what it means
 * for the caller. */
cadre_session_news_t cadre_session_receive(cadre_session_t *self, const cadre_message_t *message,
                                           uint64_t now_ms);

/* Becomes a member of the session that a WELCOME names; asks for a HEARTBEAT. */
void cadre_session_begin(cadre_session_t *self, const cadre_message_t *welcome, uint64_t now_ms);

/* Asks the coordinator with HELLO whether this task is still a member, and with which index. */
void cadre_session_doubt(cadre_session_t *self, uint64_t now_ms);

/* --- leaving --- */

/* Begins to drain: until cadre_session_leave the owner finishes its work, and the task sends
 * heartbeats but joins no other session. A task that is no member leaves at once. The newest reason
 * counts. */
void cadre_session_drain(cadre_session_t *self, const char *reason);

/* Leaves, with GOODBYE if there is a connection; does nothing after LEFT. */
void cadre_session_leave(cadre_session_t *self, const char *reason);

/* Ends a session that never joined, as if the coordinator had answered HELLO with REFUSED: the
 * coordinator did, or this task cannot work in its job. Sends nothing. */
void cadre_session_refuse(cadre_session_t *self, int status, const char *text);

/* Begins to wait for another session after LEFT, of any coordinator. */
void cadre_session_return(cadre_session_t *self, uint64_t now_ms);

/* --- every turn --- */

/* Begins a turn: returns how long this process itself stood still before it (own stall), 0 for less
 * than CADRE_OWN_STALL_MS. A shell that calls later than it promised by cadre_session_rest has
 * stood still: it could hear nobody meanwhile, so no peer counts as silent in that time. Only
 * contact with the coordinator is not excused: the coordinator may have counted this task's
 * silence. */
uint64_t cadre_session_wake(cadre_session_t *self, uint64_t now_ms);

/* Ends a turn: the shell promises to come again at `due_ms` at the latest. */
void cadre_session_rest(cadre_session_t *self, uint64_t due_ms);

/* Runs the timers. Returns when it must be called again at the latest; UINT64_MAX for never. */
uint64_t cadre_session_tick(cadre_session_t *self, uint64_t now_ms);

#endif
