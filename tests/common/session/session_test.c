#include "common/session/session.h"

#include <criterion/criterion.h>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/session/contact.h"
#include "common/wire/codec.h"

TestSuite(session, .timeout = 240);

enum {
    SELF = 7,
    COORDINATOR = 8,
    INDEX = 2,
    HEARTBEAT_MS = 1000,
    LEASE_MS = 10000,
    TRUST_MS = LEASE_MS / 100 * CADRE_LEASE_TRUST_PERCENT,
    AWAY_MS = 60000,
};

/* A session whose owner says at once what it is asked to say. */
typedef struct {
    cadre_session_t *session;
    cadre_outbox_t outbox;
    uint64_t now_ms;
    int counts[CADRE_EFFECT_LEFT + 1]; /* of effects */
    cadre_session_effect_t last;
} member_t;

static void
obey(member_t *self)
{
    cadre_session_effect_t effect;
    while (cadre_session_effect(self->session, &effect)) {
        self->counts[effect.kind]++;
        self->last = effect;
        if (effect.kind == CADRE_EFFECT_HELLO) {
            cadre_message_t message = cadre_session_hello(self->session, self->now_ms);
            cadre_session_say(self->session, &message);
        } else if (effect.kind == CADRE_EFFECT_HEARTBEAT) {
            cadre_message_t message = cadre_session_heartbeat(self->session, self->now_ms);
            cadre_session_say(self->session, &message);
        }
    }
}

static void
open_member(member_t *self, uint64_t away_ms)
{
    *self = (member_t){.now_ms = 50};
    const cadre_session_options_t options = {.task = {CADRE_ROLE_PS, CADRE_INDEX_ANY, SELF},
                                             .build = "1",
                                             .host = "here",
                                             .process = 42,
                                             .away_ms = away_ms};
    self->session = cadre_session_new(&options, &self->outbox);
}

static void
close_member(member_t *self)
{
    cadre_session_destroy(&self->session);
    cadre_outbox_fini(&self->outbox);
}

/* How often an effect has come since the last look. */
static int
happened(member_t *self, cadre_session_effect_kind_t kind)
{
    int count = self->counts[kind];
    self->counts[kind] = 0;
    return count;
}

static uint64_t
tick(member_t *self)
{
    uint64_t due_ms = cadre_session_tick(self->session, self->now_ms);
    obey(self);
    return due_ms;
}

/* Lets the time pass, with a turn whenever one is due; stops before that of the last moment. */
static void
pass(member_t *self, uint64_t ms)
{
    uint64_t until_ms = self->now_ms + ms;
    for (uint64_t due_ms = 0; (due_ms = tick(self)) < until_ms;) {
        cr_assert_gt(due_ms, self->now_ms, "it spins");
        self->now_ms = due_ms;
    }
    self->now_ms = until_ms;
}

static void
connect(member_t *self)
{
    cadre_session_connected(self->session, self->now_ms);
    obey(self);
}

static cadre_session_news_t
hear(member_t *self, cadre_message_t message, uint64_t incarnation)
{
    message.incarnation = incarnation;
    message.epoch = 3;
    cadre_session_news_t news = cadre_session_receive(self->session, &message, self->now_ms);
    if (news == CADRE_NEWS_WELCOME) {
        cadre_session_begin(self->session, &message, self->now_ms);
    }
    obey(self);
    return news;
}

static cadre_message_t
welcome(uint64_t request)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_WELCOME, .request = request};
    message.welcome = (cadre_welcome_message_t){
        .index = INDEX, .heartbeat_ms = HEARTBEAT_MS, .lease_ms = LEASE_MS};
    return message;
}

/* Of the newest HELLO or HEARTBEAT. */
static uint64_t
asked(const member_t *self)
{
    return cadre_session_asked(self->session);
}

static void
acknowledge(member_t *self, uint64_t request)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_ACK, .request = request};
    cr_assert_eq(hear(self, message, COORDINATOR), CADRE_NEWS_MESSAGE);
}

/* A member that was welcomed just now. */
static void
join(member_t *self)
{
    open_member(self, AWAY_MS);
    connect(self);
    cr_assert_eq(hear(self, welcome(asked(self)), COORDINATOR), CADRE_NEWS_WELCOME);
    *self->counts = 0;
    cr_assert_eq(happened(self, CADRE_EFFECT_HEARTBEAT), 1);
}

static cadre_session_state_t
state(const member_t *self)
{
    return cadre_session_state(self->session);
}

static cadre_message_t
stop(const char *reason)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_STOP};
    message.stop.reason = reason;
    return message;
}

/* The newest message that is out; the caller ends it. */
static cadre_message_type_t
said(member_t *self, cadre_message_t *message)
{
    cadre_outbox_entry_t entry = {.header = NULL};
    cadre_outbox_entry_t newer;
    while (cadre_outbox_pop(&self->outbox, &newer)) {
        cadre_outbox_entry_fini(&entry);
        entry = newer;
    }
    cr_assert(entry.header);
    cr_assert_eq(entry.plane, CADRE_PLANE_CONTROL);
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                      cadre_chunk_size_bytes(entry.header), NULL, 0, message),
                 0);
    cadre_outbox_entry_fini(&entry);
    return message->type;
}

/* --- joining --- */

Test(session, says_nothing_before_it_is_connected)
{
    member_t self;
    open_member(&self, AWAY_MS);
    self.now_ms = 10 * AWAY_MS;
    cr_expect_eq(tick(&self), UINT64_MAX);
    cr_expect_eq(cadre_outbox_count(&self.outbox), 0);
    cr_expect_not(cadre_session_is_connected(self.session));
    close_member(&self);
}

Test(session, says_hello_until_it_is_welcomed)
{
    member_t self;
    open_member(&self, 0);
    connect(&self);
    cadre_message_t message;
    cr_assert_eq(said(&self, &message), CADRE_MESSAGE_HELLO);
    cr_expect_eq(message.incarnation, SELF);
    cr_expect_eq(message.epoch, 0);
    cr_expect_eq(message.request, 1);
    cr_expect_eq(message.hello.role, CADRE_ROLE_PS);
    cr_expect_eq(message.hello.index, CADRE_INDEX_ANY);
    cr_expect_eq(message.hello.process, 42);
    cr_expect_eq(message.hello.session, 0);
    cadre_message_fini(&message);
    self.now_ms += CADRE_HELLO_RETRY_MS - 1;
    cr_expect_eq(tick(&self), self.now_ms + 1);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 1, "the first");
    self.now_ms++;
    cr_expect_eq(tick(&self), self.now_ms + CADRE_HELLO_RETRY_MS);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 1);

    cr_expect_eq(hear(&self, welcome(0), COORDINATOR), CADRE_NEWS_WELCOME);
    cr_assert_eq(said(&self, &message), CADRE_MESSAGE_HEARTBEAT);
    cr_expect_eq(message.epoch, 3);
    cr_expect_eq(message.heartbeat.sequence, 1);
    cadre_message_fini(&message);
    cr_expect_eq(state(&self), CADRE_SESSION_MEMBER);
    cr_expect_eq(cadre_session_task(self.session)->index, INDEX);
    cr_expect_eq(cadre_session_coordinator(self.session)->incarnation, COORDINATOR);
    cr_expect_eq(cadre_session_epoch(self.session), 3);
    close_member(&self);
}

Test(session, is_welcomed_again_when_its_owner_cannot_begin_yet)
{
    member_t self;
    open_member(&self, 0);
    connect(&self);
    cadre_message_t message = welcome(asked(&self));
    message.incarnation = COORDINATOR;
    cr_expect_eq(cadre_session_receive(self.session, &message, self.now_ms), CADRE_NEWS_WELCOME);
    cr_expect_eq(state(&self), CADRE_SESSION_HELLO);
    self.now_ms += CADRE_HELLO_RETRY_MS;
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 2);
    close_member(&self);
}

Test(session, sends_heartbeats_as_often_as_it_is_told_or_at_once)
{
    member_t self;
    join(&self);
    self.now_ms += HEARTBEAT_MS - 1;
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HEARTBEAT), 0);
    self.now_ms++;
    cr_expect_eq(tick(&self), self.now_ms + HEARTBEAT_MS);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HEARTBEAT), 1);
    cadre_session_hurry(self.session, self.now_ms);
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HEARTBEAT), 1);
    close_member(&self);
}

Test(session, says_hello_first_on_every_connection)
{
    member_t self;
    join(&self);
    uint64_t rounds = cadre_session_rounds(self.session);
    cadre_session_disconnected(self.session, self.now_ms);
    self.now_ms += 2 * HEARTBEAT_MS;
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HEARTBEAT), 0, "nothing piles up");
    cr_expect_eq(state(&self), CADRE_SESSION_MEMBER, "as far as is known");
    connect(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 1);
    cr_expect_eq(state(&self), CADRE_SESSION_HELLO);
    cr_expect_gt(cadre_session_rounds(self.session), rounds);
    close_member(&self);
}

Test(session, takes_no_welcome_of_an_earlier_joining)
{
    member_t self;
    join(&self);
    cr_expect_eq(hear(&self, (cadre_message_t){.type = CADRE_MESSAGE_UNKNOWN_PEER}, COORDINATOR),
                 CADRE_NEWS_NONE);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 1);
    uint64_t number = asked(&self);
    cr_expect_eq(hear(&self, welcome(0), COORDINATOR), CADRE_NEWS_NONE, "is somebody there?");
    cr_expect_eq(hear(&self, welcome(number - 1), COORDINATOR), CADRE_NEWS_NONE);
    self.now_ms += CADRE_HELLO_RETRY_MS;
    tick(&self);
    cr_expect_gt(asked(&self), number);
    cr_expect_eq(hear(&self, welcome(number), COORDINATOR), CADRE_NEWS_WELCOME,
                 "late, but an answer");
    cr_expect_eq(hear(&self, welcome(number), COORDINATOR), CADRE_NEWS_NONE, "it is a member");
    close_member(&self);
}

/* --- doubts --- */

Test(session, asks_when_another_session_speaks_but_not_at_once)
{
    member_t self;
    join(&self);
    cadre_message_t message = {.type = CADRE_MESSAGE_RESTORE};
    for (uint64_t i = 1; i < CADRE_HELLO_RETRY_MS; i += 100) {
        cr_expect_eq(hear(&self, message, COORDINATOR + 1), CADRE_NEWS_NONE);
        self.now_ms += 100;
    }
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 0, "it may just be late");
    cr_expect_eq(hear(&self, message, COORDINATOR + 1), CADRE_NEWS_NONE);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 1);
    cr_expect_eq(hear(&self, welcome(asked(&self)), COORDINATOR + 1), CADRE_NEWS_WELCOME);
    cr_expect_eq(cadre_session_coordinator(self.session)->incarnation, COORDINATOR + 1);
    close_member(&self);
}

Test(session, asks_which_index_is_its_own)
{
    member_t self;
    join(&self);
    cadre_message_t message = welcome(0);
    message.welcome.index = INDEX + 1;
    cr_expect_eq(hear(&self, message, COORDINATOR), CADRE_NEWS_NONE);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 1);
    message.request = asked(&self);
    cr_expect_eq(hear(&self, message, COORDINATOR), CADRE_NEWS_WELCOME);
    cr_expect_eq(cadre_session_task(self.session)->index, INDEX + 1);
    close_member(&self);
}

/* A coordinator that is frozen answers nothing, and its connection lives. */
Test(session, asks_and_dials_again_when_nothing_is_answered)
{
    member_t self;
    join(&self);
    pass(&self, HEARTBEAT_MS);
    tick(&self);
    uint64_t sent_ms = self.now_ms;
    self.now_ms += 10;
    acknowledge(&self, asked(&self));
    pass(&self, sent_ms + TRUST_MS - self.now_ms);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 0);
    cr_expect_not(cadre_session_is_in_touch(self.session, self.now_ms));
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 1);
    pass(&self, CADRE_MUTE_MS);
    cr_expect_eq(happened(&self, CADRE_EFFECT_REDIAL), 0, "the connection has time to answer");
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_REDIAL), 1);
    pass(&self, CADRE_MUTE_MS);
    cr_expect_eq(happened(&self, CADRE_EFFECT_REDIAL), 0, "once in a while");
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_REDIAL), 1);
    cr_expect_eq(hear(&self, welcome(asked(&self)), COORDINATOR), CADRE_NEWS_WELCOME);
    cr_expect(cadre_session_is_in_touch(self.session, self.now_ms));
    close_member(&self);
}

Test(session, loses_touch_without_a_connection_too)
{
    member_t self;
    join(&self);
    cadre_session_disconnected(self.session, self.now_ms);
    self.now_ms += TRUST_MS;
    tick(&self);
    cr_expect_eq(state(&self), CADRE_SESSION_HELLO);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 0);
    close_member(&self);
}

Test(session, a_steady_exchange_never_loses_touch)
{
    member_t self;
    join(&self);
    for (int i = 0; i < 100; i++) {
        pass(&self, HEARTBEAT_MS);
        tick(&self);
        acknowledge(&self, asked(&self));
    }
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 0);
    cr_expect_eq(cadre_session_contact(self.session).heard_ms, self.now_ms);
    close_member(&self);
}

Test(session, counts_its_own_stall_against_no_connection)
{
    member_t self;
    open_member(&self, 0);
    connect(&self);
    cadre_session_rest(self.session, tick(&self));
    self.now_ms += CADRE_HELLO_RETRY_MS + CADRE_OWN_STALL_MS - 1;
    cr_expect_eq(cadre_session_wake(self.session, self.now_ms), 0, "that is no stall");
    cadre_session_rest(self.session, tick(&self));
    self.now_ms += CADRE_HELLO_RETRY_MS + 10 * CADRE_MUTE_MS;
    cr_expect_eq(cadre_session_wake(self.session, self.now_ms), 10 * CADRE_MUTE_MS);
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_REDIAL), 0, "it could hear nobody");
    pass(&self, CADRE_MUTE_MS);
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_REDIAL), 1);
    close_member(&self);
}

/* --- what comes in --- */

Test(session, hands_on_what_is_of_the_session_and_nothing_else)
{
    member_t self;
    open_member(&self, 0);
    connect(&self);
    cadre_message_t message = {.type = CADRE_MESSAGE_CANCEL};
    cr_expect_eq(hear(&self, message, COORDINATOR), CADRE_NEWS_NONE, "before WELCOME");
    close_member(&self);
    join(&self);
    cr_expect_eq(hear(&self, message, COORDINATOR), CADRE_NEWS_MESSAGE);
    message.type = CADRE_MESSAGE_HEARTBEAT;
    cr_expect_eq(hear(&self, message, COORDINATOR), CADRE_NEWS_MALFORMED);
    close_member(&self);
}

/* --- the end --- */

Test(session, says_goodbye_once_and_falls_silent)
{
    member_t self;
    join(&self);
    cr_expect_eq(hear(&self, stop("done"), COORDINATOR), CADRE_NEWS_NONE);
    cadre_message_t message;
    cr_assert_eq(said(&self, &message), CADRE_MESSAGE_GOODBYE);
    cr_expect_str_eq(message.goodbye.reason, "done");
    cadre_message_fini(&message);
    cr_expect_eq(self.last.kind, CADRE_EFFECT_LEFT);
    cr_expect_eq(self.last.status, 0);
    cr_expect_str_eq(self.last.text, "done");
    cadre_session_leave(self.session, "again");
    cr_expect_not(cadre_session_effect(self.session, &self.last));
    self.now_ms += 10 * LEASE_MS;
    cr_expect_eq(tick(&self), UINT64_MAX);
    connect(&self);
    cr_expect_eq(hear(&self, welcome(asked(&self)), COORDINATOR), CADRE_NEWS_NONE);
    cr_expect_eq(cadre_outbox_count(&self.outbox), 0);
    close_member(&self);
}

Test(session, heeds_a_stop_before_it_is_welcomed_but_not_that_of_another_session_after)
{
    member_t self;
    open_member(&self, 0);
    connect(&self);
    hear(&self, stop("the job ends"), COORDINATOR);
    cr_expect_eq(state(&self), CADRE_SESSION_LEFT);
    close_member(&self);
    join(&self);
    hear(&self, stop("late"), COORDINATOR - 1);
    cr_expect_eq(state(&self), CADRE_SESSION_MEMBER);
    close_member(&self);
}

Test(session, ends_when_it_is_refused_as_long_as_it_is_no_member)
{
    member_t self;
    cadre_message_t message = {.type = CADRE_MESSAGE_REFUSED};
    message.refused = (cadre_refused_message_t){.status = (uint64_t)-CADRE_EPROTOCOL, .text = "x"};
    open_member(&self, 0);
    connect(&self);
    cr_expect_eq(hear(&self, message, COORDINATOR), CADRE_NEWS_NONE);
    cr_expect_eq(self.last.kind, CADRE_EFFECT_REFUSED);
    cr_expect_eq(self.last.status, CADRE_EPROTOCOL);
    cr_expect_str_eq(self.last.text, "x");
    cr_expect_eq(tick(&self), UINT64_MAX);
    close_member(&self);
    join(&self);
    cr_expect_eq(hear(&self, message, COORDINATOR), CADRE_NEWS_NONE);
    cr_expect_eq(state(&self), CADRE_SESSION_MEMBER, "that answers a HELLO of before");
    close_member(&self);
}

Test(session, leaves_a_coordinator_that_was_there_and_stays_away)
{
    member_t self;
    join(&self);
    cadre_session_disconnected(self.session, self.now_ms);
    pass(&self, AWAY_MS);
    cr_expect_neq(state(&self), CADRE_SESSION_LEFT);
    tick(&self);
    cr_expect_eq(self.last.kind, CADRE_EFFECT_LEFT);
    cr_expect_eq(self.last.status, CADRE_ETIMEOUT);
    cr_expect_str_eq(self.last.text, "the coordinator stays away");
    close_member(&self);
}

Test(session, waits_for_a_coordinator_that_was_there_as_long_as_it_takes_when_told_to)
{
    member_t self;
    open_member(&self, 0);
    connect(&self);
    cadre_session_disconnected(self.session, self.now_ms);
    self.now_ms += 1000 * AWAY_MS;
    cr_expect_eq(tick(&self), UINT64_MAX);
    cr_expect_eq(state(&self), CADRE_SESSION_HELLO);
    close_member(&self);
}

Test(session, returns_to_whichever_coordinator_welcomes_it)
{
    member_t self;
    join(&self);
    uint64_t last = asked(&self);
    hear(&self, stop("done"), COORDINATOR);
    cadre_session_return(self.session, self.now_ms);
    cr_expect_eq(cadre_session_coordinator(self.session)->incarnation, 0);
    cr_expect_eq(cadre_session_epoch(self.session), 0);
    cr_expect_eq(hear(&self, welcome(last), COORDINATOR), CADRE_NEWS_NONE, "of the job before");
    self.now_ms += CADRE_HELLO_RETRY_MS;
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 1);
    cr_expect_eq(hear(&self, welcome(asked(&self)), COORDINATOR), CADRE_NEWS_WELCOME);
    close_member(&self);
}

/* --- draining --- */

Test(session, is_heard_while_it_drains_and_leaves_when_its_owner_says_so)
{
    member_t self;
    join(&self);
    cadre_session_drain(self.session, "SIGTERM");
    cr_expect_eq(state(&self), CADRE_SESSION_DRAINING);
    cr_expect_str_eq(cadre_session_reason(self.session), "SIGTERM");
    pass(&self, HEARTBEAT_MS);
    tick(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HEARTBEAT), 1);
    cadre_session_disconnected(self.session, self.now_ms);
    connect(&self);
    cr_expect_eq(happened(&self, CADRE_EFFECT_HELLO), 0, "it joins nothing again");
    cadre_session_leave(self.session, cadre_session_reason(self.session));
    obey(&self);
    cr_expect_str_eq(self.last.text, "SIGTERM");
    close_member(&self);
}

Test(session, is_disowned_once_when_the_coordinator_forgets_it_while_it_drains)
{
    const cadre_message_t unknown = {.type = CADRE_MESSAGE_UNKNOWN_PEER};
    member_t self;
    join(&self);
    cadre_session_drain(self.session, "SIGTERM");
    hear(&self, unknown, COORDINATOR);
    hear(&self, unknown, COORDINATOR);
    cr_expect_eq(happened(&self, CADRE_EFFECT_DISOWNED), 1);
    self.now_ms += 2 * TRUST_MS;
    cr_expect_gt(tick(&self), self.now_ms);
    cr_expect_eq(happened(&self, CADRE_EFFECT_DISOWNED), 0);
    cr_expect(cadre_session_is_disowned(self.session));
    close_member(&self);
    join(&self);
    cadre_session_drain(self.session, "SIGTERM");
    self.now_ms += TRUST_MS;
    cr_expect_gt(tick(&self), self.now_ms, "and does not spin");
    cr_expect_eq(happened(&self, CADRE_EFFECT_DISOWNED), 1);
    close_member(&self);
}

Test(session, leaves_at_once_when_it_is_to_drain_and_no_member)
{
    member_t self;
    open_member(&self, 0);
    connect(&self);
    cadre_session_drain(self.session, "SIGTERM");
    obey(&self);
    cr_expect_eq(self.last.kind, CADRE_EFFECT_LEFT);
    close_member(&self);
}
