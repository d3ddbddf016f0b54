#include "worker/core/worker_runs.h"

#include "tests/worker/core_fixture.h"

TestSuite(worker_runs, .timeout = 240);

Test(worker_runs, waits_for_definitions_and_asks_for_what_is_missing)
{
    fixture_t self;
    fixture_init(&self, 1, 0);
    cadre_worker_core_connected(self.core, self.now_ms);
    fixture_welcome(&self);
    fixture_closure(&self, 1, 1);
    drop_everything(&self);
    fixture_pass(&self, 1);
    cadre_message_t message;
    bool wanted[4] = {false};
    while (take_message(&self, CADRE_MESSAGE_WANT, -1, &message)) {
        wanted[message.want.kind] = true;
        cadre_message_fini(&message);
    }
    cr_expect(wanted[CADRE_WANT_SHARD] && wanted[CADRE_WANT_DEFINITIONS] &&
              wanted[CADRE_WANT_FUNCTION]);
    fixture_pass(&self, 100);
    cr_expect_not(sent(&self, CADRE_MESSAGE_WANT), "not again at once");
    fixture_pass(&self, 1000);
    cr_expect(sent(&self, CADRE_MESSAGE_WANT), "but again");
    fixture_function(&self);
    fixture_variable(&self, 4);
    fixture_shard(&self, 0, FIXTURE_PS, 1);
    cr_expect_null(started(&self));
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    cr_expect_not_null(started(&self));
    fixture_fini(&self);
}

Test(worker_runs, starts_as_many_as_there_are_slots_and_ahead_of_them)
{
    fixture_t self;
    fixture_join(&self, 2, 3);
    for (uint64_t id = 1; id <= 10; id++) {
        fixture_closure(&self, id, 1);
    }
    cadre_run_t *runs[5];
    for (uint64_t i = 0; i < 5; i++) {
        runs[i] = started(&self);
        cr_assert_not_null(runs[i]);
        cr_expect_eq(cadre_run_id(runs[i]), i + 1, "in order of arrival");
    }
    cr_expect_null(started(&self));
    finish(&self, runs[3], 0);
    cadre_run_t *next = started(&self);
    cr_assert_not_null(next);
    cr_expect_eq(cadre_run_id(next), 6);
    cr_expect_null(started(&self));
    fixture_fini(&self);
}

/* The number of the next HEARTBEAT. */
static uint64_t
heartbeat(fixture_t *self)
{
    cadre_message_t message;
    fixture_pass(self, FIXTURE_HEARTBEAT_MS);
    cr_assert(take_message(self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    uint64_t number = message.request;
    cadre_message_fini(&message);
    return number;
}

/* The answer to a HEARTBEAT, with a report that has arrived. */
static void
acknowledge(fixture_t *self, uint64_t number, uint64_t id, uint64_t attempt)
{
    uint64_t items[] = {id, attempt};
    cadre_message_t message = {.type = CADRE_MESSAGE_ACK, .request = number};
    message.ack.reports = (cadre_u64s_t){items, 2};
    fixture_tell(self, message);
}

Test(worker_runs, repeats_a_report_that_the_answer_to_a_later_heartbeat_lacks)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 5, 2);
    uint64_t before = heartbeat(&self);
    finish(&self, started(&self), 0);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_DONE, -1, &message));
    cr_expect_eq(message.closure_done.id, 5);
    cr_expect_eq(message.closure_done.attempt, 2);
    cadre_message_fini(&message);
    acknowledge(&self, before, 1, 1);
    cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_DONE), "that was sent before the report");
    uint64_t after = heartbeat(&self);
    uint64_t later = heartbeat(&self);
    cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_DONE), "nobody has missed it");
    acknowledge(&self, after, 5, 1); /* of another attempt */
    cr_expect(sent(&self, CADRE_MESSAGE_CLOSURE_DONE));
    acknowledge(&self, later, 1, 1);
    cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_DONE), "it was repeated since");
    acknowledge(&self, heartbeat(&self), 5, 2);
    acknowledge(&self, heartbeat(&self), 1, 1);
    cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_DONE));
    fixture_fini(&self);
}

Test(worker_runs, repeats_reports_once_it_is_welcomed_again)
{
    fixture_t self;
    cadre_message_t hello;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 5, 1);
    finish(&self, started(&self), 0);
    drop_everything(&self);
    cadre_worker_core_connected(self.core, self.now_ms);
    cr_assert(take_message(&self, CADRE_MESSAGE_HELLO, -1, &hello));
    cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_DONE));
    fixture_welcome_as(&self, hello.request);
    cadre_message_fini(&hello);
    cr_expect(sent(&self, CADRE_MESSAGE_CLOSURE_DONE));
    fixture_fini(&self);
}

Test(worker_runs, ignores_a_late_copy_of_a_closure_that_was_acknowledged)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 5, 1);
    finish(&self, started(&self), 0);
    fixture_acknowledge(&self, 5, 1);
    drop_everything(&self);
    fixture_closure(&self, 5, 1);
    cr_expect_null(started(&self));
    fixture_closure(&self, 5, 2);
    cr_expect_not_null(started(&self), "another attempt is no copy");
    fixture_fini(&self);
}

Test(worker_runs, runs_a_doubled_closure_once_and_reports_it_again)
{
    fixture_t self;
    fixture_join(&self, 2, 0);
    fixture_closure(&self, 5, 1);
    fixture_closure(&self, 5, 1);
    cadre_run_t *run = started(&self);
    cr_expect_null(started(&self));
    finish(&self, run, 0);
    drop_everything(&self);
    fixture_closure(&self, 5, 1);
    cr_expect(sent(&self, CADRE_MESSAGE_CLOSURE_DONE));
    cr_expect_null(started(&self));
    fixture_fini(&self);
}

Test(worker_runs, reports_under_the_newest_attempt)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 5, 1);
    cadre_run_t *run = started(&self);
    fixture_closure(&self, 5, 3); /* the coordinator had given this worker up */
    drop_everything(&self);
    finish(&self, run, 0);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_DONE, -1, &message));
    cr_expect_eq(message.closure_done.attempt, 3);
    cadre_message_fini(&message);
    fixture_closure(&self, 5, 4); /* and again, before the report arrived */
    cr_expect_not_null(started(&self));
    fixture_fini(&self);
}

Test(worker_runs, reports_why_a_function_failed)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 5, 1);
    finish(&self, started(&self), CADRE_EFUNCTION);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.status, (uint64_t)-CADRE_EFUNCTION);
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_USER);
    cr_expect_str_eq(message.closure_failed.text, "why");
    cadre_message_fini(&message);
    fixture_fini(&self);
}

static void
expect_returned(fixture_t *self, uint64_t id)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.id, id);
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_RETURNED);
    cr_expect_eq(message.closure_failed.status, (uint64_t)-CADRE_ECANCELLED);
    cadre_message_fini(&message);
}

Test(worker_runs, cancels_in_every_state)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1); /* COMPUTING */
    fixture_closure(&self, 2, 1); /* QUEUED, between two others */
    fixture_closure(&self, 3, 1);
    fixture_batch_closure(&self, 4, 9); /* WAITING for dataset 9 */
    cadre_run_t *run = started(&self);
    drop_everything(&self);
    fixture_cancel(&self, 2);
    expect_returned(&self, 2);
    fixture_cancel(&self, 4);
    expect_returned(&self, 4);
    fixture_cancel(&self, 1);
    cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_FAILED), "its slot holds it");
    cr_expect(cadre_closure_call_is_cancelled(&run->call));
    finish(&self, run, CADRE_ECANCELLED);
    expect_returned(&self, 1);
    run = started(&self);
    cr_assert_not_null(run);
    cr_expect_eq(cadre_run_id(run), 3, "the queue is whole");
    finish(&self, run, 0);
    drop_everything(&self);
    fixture_cancel(&self, 3); /* REPORTING: what happened has happened */
    fixture_cancel(&self, 99);
    cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_FAILED));
    fixture_fini(&self);
}

Test(worker_runs, a_cancelled_closure_may_still_end_well)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1);
    cadre_run_t *run = started(&self);
    fixture_cancel(&self, 1);
    finish(&self, run, 0);
    cr_expect(sent(&self, CADRE_MESSAGE_CLOSURE_DONE));
    fixture_fini(&self);
}

/* --- batches --- */

static void
tell_dataset(fixture_t *self, uint64_t id)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_DATASET};
    message.dataset = (cadre_dataset_message_t){.id = id, .name = "data"};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy("{}", 2));
    fixture_tell(self, message);
}

Test(worker_runs, reads_the_batch_before_it_starts_and_forgets_it_afterwards)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    fixture_batch_closure(&self, 1, 9);
    cr_expect_not(happened(&self, CADRE_WORKER_LOAD));
    tell_dataset(&self, 9);
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_OPEN_DATASET, &event));
    cr_expect_eq(event.index, 9);
    cadre_dataset_ready_message_t ready = {.rows = 100, .features = 4, .text = ""};
    cadre_worker_core_dataset_opened(self.core, 9, &ready, self.now_ms);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_DATASET_READY, -1, &message));
    cr_expect(message.dataset_ready.id == 9 && message.dataset_ready.rows == 100);
    cadre_message_fini(&message);
    cr_assert(take_event(&self, CADRE_WORKER_LOAD, &event));
    cr_expect_null(started(&self));
    cadre_worker_core_loaded(self.core, 1, 0, "", self.now_ms);
    cadre_run_t *run = started(&self);
    cr_assert_not_null(run);
    finish(&self, run, 0);
    cr_assert(take_event(&self, CADRE_WORKER_FORGET, &event));
    cr_expect_eq(event.closure, 1);
    fixture_fini(&self);
}

Test(worker_runs, fails_a_closure_whose_batch_cannot_be_read)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    tell_dataset(&self, 9);
    cadre_dataset_ready_message_t ready = {.rows = 100, .text = ""};
    cadre_worker_core_dataset_opened(self.core, 9, &ready, self.now_ms);
    fixture_batch_closure(&self, 1, 9);
    drop_everything(&self);
    cadre_worker_core_loaded(self.core, 1, CADRE_EDATA, "file:3: bad", self.now_ms);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.status, (uint64_t)-CADRE_EDATA);
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_USER);
    cadre_message_fini(&message);
    cadre_worker_core_loaded(self.core, 1, 0, "", self.now_ms); /* late news change nothing */
    cr_expect_null(started(&self));
    fixture_fini(&self);
}

Test(worker_runs, hands_back_a_closure_whose_dataset_could_not_be_opened)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    tell_dataset(&self, 9);
    cadre_dataset_ready_message_t ready = {.status = (uint64_t)-CADRE_ENOTFOUND,
                                           .text = "no such file"};
    cadre_worker_core_dataset_opened(self.core, 9, &ready, self.now_ms);
    drop_everything(&self);
    fixture_batch_closure(&self, 1, 9);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_UNABLE);
    cr_expect_eq(message.closure_failed.status, (uint64_t)-CADRE_ENOTFOUND);
    cr_expect_not_null(strstr(message.closure_failed.text, "data"));
    cadre_message_fini(&message);
    fixture_fini(&self);
}
