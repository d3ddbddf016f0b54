/* A worker that the coordinator does not hear any more. */
#include "tests/worker/core_fixture.h"

TestSuite(worker_contact, .timeout = 240);

enum { TRUST_MS = 8000 }; /* of the lease of the fixture */

/* The number of the newest question of that type that is out, 0 without one. */
static uint64_t
asked(fixture_t *self, cadre_message_type_t type)
{
    cadre_message_t message;
    uint64_t number = 0;
    while (take_message(self, type, -1, &message)) {
        number = message.request;
        cadre_message_fini(&message);
    }
    return number;
}

static void
answer(fixture_t *self, uint64_t number)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_ACK, .request = number};
    fixture_tell(self, message);
}

/* Joins, with a run that has pulled nothing yet, and the coordinator has answered at `now_ms`. */
static cadre_run_t *
begin_heard(fixture_t *self)
{
    cadre_run_t *run = begin(self);
    fixture_pass(self, FIXTURE_HEARTBEAT_MS);
    uint64_t number = asked(self, CADRE_MESSAGE_HEARTBEAT);
    cr_assert_neq(number, 0);
    answer(self, number);
    return run;
}

static bool
pushed(fixture_t *self)
{
    cadre_message_t message;
    bool out = take_message(self, CADRE_MESSAGE_PUSH, 0, &message);
    if (out) {
        cadre_message_fini(&message);
    }
    return out;
}

Test(worker_contact, pushes_as_long_as_the_coordinator_may_believe_in_it)
{
    fixture_t self;
    cadre_run_t *run = begin_heard(&self);
    fixture_pass(&self, TRUST_MS - 1);
    cr_expect(cadre_worker_core_in_touch(self.core, self.now_ms));
    push(&self, run);
    cr_expect(pushed(&self));
    fixture_fini(&self);
}

Test(worker_contact, holds_pushes_back_until_it_is_welcomed_again)
{
    fixture_t self;
    cadre_run_t *run = begin_heard(&self);
    drop_everything(&self);
    self.now_ms += TRUST_MS; /* and no tick: the slot is faster */
    push(&self, run);
    cr_expect_not(pushed(&self));
    fixture_pass(&self, 0);
    uint64_t number = asked(&self, CADRE_MESSAGE_HELLO);
    cr_assert_neq(number, 0, "it introduces itself again");
    fixture_pass(&self, 5 * CADRE_PROBE_MS);
    cr_expect_not(pushed(&self));
    cr_expect_not(happened(&self, CADRE_WORKER_PUSHED));
    fixture_welcome_as(&self, number);
    cr_expect(cadre_worker_core_in_touch(self.core, self.now_ms));
    fixture_pass(&self, 1);
    cr_expect(pushed(&self), "and goes on");
    fixture_fini(&self);
}

Test(worker_contact, does_not_repeat_a_push_that_is_out)
{
    fixture_t self;
    cadre_run_t *run = begin_heard(&self);
    push(&self, run);
    cr_expect(pushed(&self));
    fixture_pass(&self, TRUST_MS);
    cr_expect_not(pushed(&self));
    fixture_fini(&self);
}

Test(worker_contact, does_not_send_what_waited_for_credit)
{
    fixture_t self;
    fixture_init(&self, 2, 0);
    cadre_worker_core_connected(self.core, self.now_ms);
    fixture_welcome(&self);
    fixture_shard(&self, 0, FIXTURE_PS, 1);
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    fixture_variable(&self, 2 * (40 << 20) / sizeof(float)); /* two are over the credit */
    fixture_function(&self);
    fixture_closure(&self, 1, 1);
    fixture_closure(&self, 2, 1);
    cadre_run_t *first = started(&self);
    cadre_run_t *second = started(&self);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    answer(&self, asked(&self, CADRE_MESSAGE_HEARTBEAT));
    pull(&self, first);
    pull(&self, second);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 0, &message));
    uint64_t request = message.request;
    cadre_message_fini(&message);
    self.now_ms += TRUST_MS;
    cadre_message_t refusal = {.type = CADRE_MESSAGE_VALUES, .request = request};
    refusal.values = (cadre_values_message_t){.status = (uint64_t)-CADRE_ENOTFOUND, .text = "no"};
    fixture_deliver(&self, CADRE_ROLE_PS, 0, &refusal);
    cr_expect_not(take_message(&self, CADRE_MESSAGE_PULL, 0, &message));
    fixture_fini(&self);
}

Test(worker_contact, an_answer_counts_from_its_question)
{
    fixture_t self;
    cadre_run_t *run = begin_heard(&self);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    uint64_t number = asked(&self, CADRE_MESSAGE_HEARTBEAT);
    self.now_ms += TRUST_MS; /* the process was stopped, with the answer in its socket */
    answer(&self, number);
    push(&self, run);
    cr_expect_not(pushed(&self));
    fixture_fini(&self);
}

Test(worker_contact, one_that_drains_leaves_its_closures_to_others)
{
    fixture_t self;
    cadre_run_t *run = begin_heard(&self);
    cadre_worker_core_drain(self.core, "SIGTERM", self.now_ms);
    push(&self, run);
    drop_everything(&self);
    fixture_pass(&self, TRUST_MS);
    cr_expect(cadre_closure_call_is_cancelled(&run->call));
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_PUSHED, &event), "its slot does not wait");
    cr_expect_eq(event.status, CADRE_ECANCELLED);
    cr_expect_gt(cadre_worker_core_tick(self.core, self.now_ms), self.now_ms);
    finish(&self, run, CADRE_ECANCELLED);
    fixture_pass(&self, 1);
    cr_expect(happened(&self, CADRE_WORKER_LEFT));
    fixture_fini(&self);
}

/* --- leaving --- */

Test(worker_contact, leaves_at_once_what_does_not_end)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    fixture_closure(&self, 2, 1); /* QUEUED */
    push(&self, run);
    cadre_worker_core_drain(self.core, "SIGTERM", self.now_ms);
    drop_everything(&self);
    cadre_worker_core_abandon(self.core, "it did not end", self.now_ms);
    cr_expect(sent(&self, CADRE_MESSAGE_GOODBYE));
    cr_expect(cadre_closure_call_is_cancelled(&run->call));
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_PUSHED, &event));
    cr_assert(take_event(&self, CADRE_WORKER_LEFT, &event));
    cr_expect_str_eq(event.text, "it did not end");
    finish(&self, run, 0);
    cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_DONE), "GOODBYE was the last word");
    cadre_worker_core_abandon(self.core, "twice", self.now_ms);
    cr_expect_not(happened(&self, CADRE_WORKER_LEFT));
    fixture_fini(&self);
}

Test(worker_contact, told_to_drain_before_it_is_welcomed_again_cancels_what_runs)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    push(&self, run);
    cadre_worker_core_connected(self.core, self.now_ms);
    drop_everything(&self);
    cadre_worker_core_drain(self.core, "SIGTERM", self.now_ms);
    cr_expect(cadre_closure_call_is_cancelled(&run->call));
    cr_expect(happened(&self, CADRE_WORKER_PUSHED), "or its slot would wait for ever");
    fixture_fini(&self);
}

/* --- another connection --- */

Test(worker_contact, wants_another_connection_when_nobody_answers_HELLO)
{
    fixture_t self;
    fixture_init(&self, 1, 0);
    cadre_worker_core_connected(self.core, self.now_ms);
    fixture_pass(&self, CADRE_MUTE_MS);
    cr_expect(happened(&self, CADRE_WORKER_REDIAL));
    cadre_worker_core_disconnected(self.core, self.now_ms);
    drop_everything(&self);
    fixture_pass(&self, CADRE_MUTE_MS);
    cr_expect_not(sent(&self, CADRE_MESSAGE_HELLO), "there is none");
    fixture_fini(&self);
}
