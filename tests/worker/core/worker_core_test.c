#include "worker/core/worker_core.h"

#include "tests/worker/core_fixture.h"

TestSuite(worker_core, .timeout = 240);

Test(worker_core, tells_what_it_can_do_and_learns_its_index)
{
    fixture_t self;
    fixture_init(&self, 2, 0);
    cadre_worker_core_connected(self.core, self.now_ms);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_HELLO, -1, &message));
    cr_expect_eq(message.hello.role, CADRE_ROLE_WORKER);
    cr_expect_eq(message.hello.slots, 2);
    cr_expect_str_eq(message.hello.devices, "cpu");
    cr_expect_eq(message.incarnation, 77);
    cadre_message_fini(&message);
    fixture_welcome(&self);
    cr_expect(happened(&self, CADRE_WORKER_RESET));
    cr_expect(sent(&self, CADRE_MESSAGE_HEARTBEAT));
    cr_expect_eq(cadre_worker_core_task(self.core)->index, 3);
    fixture_fini(&self);
}

Test(worker_core, says_in_which_round_it_takes_what_it_is_told)
{
    fixture_t self;
    cadre_message_t message;
    fixture_init(&self, 1, 0);
    cadre_worker_core_connected(self.core, self.now_ms);
    cr_assert(take_message(&self, CADRE_MESSAGE_HELLO, -1, &message));
    uint64_t round = message.hello.round;
    cadre_message_fini(&message);
    fixture_pass(&self, CADRE_HELLO_RETRY_MS);
    cr_assert(take_message(&self, CADRE_MESSAGE_HELLO, -1, &message));
    cr_expect_eq(message.hello.round, round, "the same question");
    cadre_message_fini(&message);
    fixture_welcome(&self);
    fixture_tell(&self, (cadre_message_t){.type = CADRE_MESSAGE_UNKNOWN_PEER});
    cr_assert(take_message(&self, CADRE_MESSAGE_HELLO, -1, &message));
    cr_expect_gt(message.hello.round, round);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

Test(worker_core, says_what_it_holds_when_it_must_introduce_itself_again)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 7, 1);
    drop_everything(&self);
    fixture_tell(&self, (cadre_message_t){.type = CADRE_MESSAGE_UNKNOWN_PEER});
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_HELLO, -1, &message));
    cr_expect_eq(message.hello.session, FIXTURE_SESSION);
    cr_assert_eq(message.hello.held.count, 1);
    cr_expect_eq(message.hello.held.items[0], 7);
    cadre_message_fini(&message);
    fixture_closure(&self, 8, 1); /* before WELCOME: it will be sent again */
    fixture_welcome(&self);
    cr_expect_not(happened(&self, CADRE_WORKER_RESET), "the same session goes on");
    fixture_fini(&self);
}

Test(worker_core, drops_what_another_coordinator_knows_nothing_of)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1);
    fixture_closure(&self, 2, 1);
    cadre_run_t *run = started(&self);
    cr_assert_not_null(run);
    drop_everything(&self);
    fixture_tell(&self, (cadre_message_t){.type = CADRE_MESSAGE_UNKNOWN_PEER});
    self.session++;
    fixture_welcome(&self);
    cr_expect_not(happened(&self, CADRE_WORKER_RESET), "a slot still holds a run");
    cr_expect(cadre_closure_call_is_cancelled(&run->call));
    finish(&self, run, CADRE_ECANCELLED);
    cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_FAILED), "nobody to report it to");
    fixture_welcome(&self);
    cr_expect(happened(&self, CADRE_WORKER_RESET));
    cr_expect_null(started(&self), "closure 2 was the other session's");
    fixture_fini(&self);
}

Test(worker_core, does_not_wait_for_the_shards_of_a_session_that_is_over)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1);
    cadre_run_t *run = started(&self);
    const cadre_wanted_t w = {
        .variable = cadre_directory_variable(cadre_worker_core_directory(self.core), 1)};
    cadre_worker_core_pull(self.core, run, &w, 1, self.now_ms);
    drop_everything(&self);
    fixture_tell(&self, (cadre_message_t){.type = CADRE_MESSAGE_UNKNOWN_PEER});
    self.session++;
    fixture_welcome(&self);
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_VALUES, &event), "or the slot would wait for ever");
    cr_expect_eq(event.status, CADRE_ECANCELLED);
    cadre_worker_core_pull(self.core, run, &w, 1, self.now_ms);
    cr_assert(take_event(&self, CADRE_WORKER_VALUES, &event));
    cr_expect_eq(event.status, CADRE_ECANCELLED);
    finish(&self, run, CADRE_ECANCELLED);
    fixture_welcome(&self);
    cr_expect(happened(&self, CADRE_WORKER_RESET));
    fixture_fini(&self);
}

Test(worker_core, takes_the_first_closures_of_another_session_though_their_ids_are_known)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1);
    finish(&self, started(&self), 0);
    fixture_acknowledge(&self, 1, 1);
    fixture_tell(&self, (cadre_message_t){.type = CADRE_MESSAGE_UNKNOWN_PEER});
    self.session++;
    fixture_welcome(&self);
    fixture_shard(&self, 0, FIXTURE_PS, 1);
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    fixture_variable(&self, 4);
    fixture_function(&self);
    drop_everything(&self);
    fixture_closure(&self, 1, 1);
    cr_expect_not_null(started(&self));
    fixture_fini(&self);
}

/* A name that was dropped may mean another variable to it. */
Test(worker_core, begins_no_closure_before_it_has_heard_of_the_drops_before_it)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    message.closure =
        (cadre_closure_message_t){.id = 1,
                                  .attempt = 1,
                                  .function = 1,
                                  .steps = 1,
                                  .variables = 1,
                                  .generations = self.generations[0] + self.generations[1],
                                  .drops = 1};
    fixture_tell(&self, message);
    cr_expect_null(started(&self));

    message = (cadre_message_t){.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = 1, .name = "", .last = 1, .drop = 1};
    fixture_tell(&self, message);
    cr_expect_not_null(started(&self));
    fixture_fini(&self);
}

Test(worker_core, leaves_when_it_is_told_to_stop)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1);
    cadre_run_t *run = started(&self);
    cadre_message_t stop = {.type = CADRE_MESSAGE_STOP};
    stop.stop.reason = "done";
    fixture_tell(&self, stop);
    cr_expect(sent(&self, CADRE_MESSAGE_GOODBYE));
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_LEFT, &event));
    cr_expect_str_eq(event.text, "done");
    cr_expect(cadre_closure_call_is_cancelled(&run->call));
    cr_expect_eq(cadre_worker_core_tick(self.core, self.now_ms), UINT64_MAX);
    fixture_fini(&self);
}

Test(worker_core, drains_by_handing_back_what_waits_and_finishing_what_runs)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1);
    fixture_closure(&self, 2, 1);
    cadre_run_t *run = started(&self);
    drop_everything(&self);
    cadre_worker_core_drain(self.core, "SIGTERM", self.now_ms);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.id, 2);
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_RETURNED);
    cadre_message_fini(&message);
    fixture_closure(&self, 3, 1); /* was on its way */
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.id, 3);
    cadre_message_fini(&message);
    finish(&self, run, 0);
    cr_expect(sent(&self, CADRE_MESSAGE_CLOSURE_DONE));
    fixture_pass(&self, 1);
    cr_expect_not(sent(&self, CADRE_MESSAGE_GOODBYE), "its reports may be lost");
    for (uint64_t id = 1; id <= 3; id++) {
        fixture_acknowledge(&self, id, 1);
    }
    fixture_pass(&self, 1);
    cr_expect(sent(&self, CADRE_MESSAGE_GOODBYE));
    cr_expect(happened(&self, CADRE_WORKER_LEFT));
    fixture_fini(&self);
}

Test(worker_core, leaves_a_coordinator_that_has_forgotten_it_while_it_drained)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1);
    cadre_run_t *run = started(&self);
    cadre_worker_core_drain(self.core, "SIGTERM", self.now_ms);
    fixture_tell(&self, (cadre_message_t){.type = CADRE_MESSAGE_UNKNOWN_PEER});
    fixture_pass(&self, 1);
    cr_expect_not(happened(&self, CADRE_WORKER_LEFT), "the slot is still busy");
    finish(&self, run, 0);
    fixture_pass(&self, 1);
    cr_expect(happened(&self, CADRE_WORKER_LEFT), "no ACK will ever come");
    fixture_fini(&self);
}

Test(worker_core, counts_messages_that_a_coordinator_or_shard_may_not_send)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    cadre_message_t message = {.type = CADRE_MESSAGE_GOODBYE};
    fixture_tell(&self, message);
    message = (cadre_message_t){.type = CADRE_MESSAGE_STOP};
    fixture_deliver(&self, CADRE_ROLE_PS, 0, &message);
    message = (cadre_message_t){.type = CADRE_MESSAGE_APPLIED, .incarnation = 7};
    fixture_deliver(&self, CADRE_ROLE_PS, 2, &message); /* there is no shard 2 */
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    cr_assert(take_message(&self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    cr_expect_eq(message.heartbeat.counters.items[CADRE_WORKER_COUNTER_malformed], 3);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

Test(worker_core, leaves_a_job_with_more_ps_than_it_has_descriptors_for)
{
    for (uint64_t shards = FIXTURE_SHARDS_MAX; shards <= FIXTURE_SHARDS_MAX + 1; shards++) {
        fixture_t self;
        cadre_worker_event_t event = {.kind = CADRE_WORKER_RESET};
        bool refused = false;
        fixture_init(&self, 1, 0);
        self.shard_count = shards;
        cadre_worker_core_connected(self.core, self.now_ms);
        fixture_welcome(&self);
        while (!refused && cadre_worker_core_event(self.core, &event)) {
            refused = event.kind == CADRE_WORKER_REFUSED;
        }
        cr_expect_eq(refused, shards > FIXTURE_SHARDS_MAX);
        if (refused) {
            cr_expect_eq(event.status, CADRE_ECONFIG);
            cr_expect_str_eq(event.text, "the job has 21 ps, and this worker descriptors for 20: "
                                         "RLIMIT_NOFILE is 80");
        }
        fixture_fini(&self);
    }
}
