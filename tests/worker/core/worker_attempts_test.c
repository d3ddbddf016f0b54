/* A closure that comes again while a shard is restored: which attempt is run, and which reported.
 */
#include <malloc.h>

#include "tests/sanitizer.h"
#include "tests/worker/recovery_fixture.h"

TestSuite(worker_attempts, .timeout = 240);

/* --- a later attempt --- */

/* A run that has pushed, a shard that was restored since, and attempt 2 behind it. */
static cadre_run_t *
begin_stale(fixture_t *self)
{
    cadre_run_t *run = begin(self);
    push_well(self, run);
    fixture_shard(self, 1, NEW_PS, 2);
    fixture_closure(self, 1, 2);
    cr_expect_null(started(self), "its place is taken");
    cr_expect(cadre_closure_call_is_cancelled(&run->call), "nobody wants what it does");
    return run;
}

/* The run of closure 1 may not push, and hands this attempt back. */
static void
expect_refused(fixture_t *self, cadre_run_t *run, uint64_t attempt)
{
    drop_everything(self);
    push(self, run);
    expect_ended(self, CADRE_WORKER_PUSHED, CADRE_EUNAVAILABLE);
    finish_failed(self, run);
    expect_failed(self, 1, attempt, CADRE_FAILURE_SHARD);
}

Test(worker_attempts, runs_the_later_attempt_afresh_when_a_stale_run_has_ended)
{
    const int statuses[] = {0, CADRE_ECANCELLED};
    for (size_t i = 0; i < 2; i++) {
        fixture_t self;
        cadre_run_t *run = begin_stale(&self);
        fixture_closure(&self, 1, 2); /* doubled */
        drop_everything(&self);
        finish(&self, run, statuses[i]);
        run = started(&self);
        cr_assert_not_null(run);
        cr_expect_not(sent(&self, CADRE_MESSAGE_CLOSURE_DONE), "what was done is lost");
        cr_expect_not(cadre_closure_call_is_cancelled(&run->call));
        push_well(&self, run);
        finish(&self, run, 0);
        expect_done(&self, 1, 2);
        fixture_fini(&self);
    }
}

Test(worker_attempts, runs_the_latest_of_several_attempts)
{
    fixture_t self;
    cadre_run_t *run = begin_stale(&self);
    fixture_shard(&self, 1, NEW_PS + 1, 3);
    fixture_closure(&self, 1, 3);
    fixture_closure(&self, 1, 2); /* late */
    finish(&self, run, CADRE_ECANCELLED);
    run = started(&self);
    cr_assert_not_null(run);
    finish(&self, run, 0);
    expect_done(&self, 1, 3);
    fixture_fini(&self);
}

Test(worker_attempts, a_restore_while_it_waits_is_one_that_the_later_attempt_began_before)
{
    fixture_t self;
    cadre_run_t *run = begin_stale(&self);
    fixture_shard(&self, 1, NEW_PS + 1, 3);
    finish(&self, run, CADRE_ECANCELLED);
    run = started(&self);
    cr_assert_not_null(run);
    expect_refused(&self, run, 2);
    fixture_fini(&self);
}

Test(worker_attempts, a_run_that_is_not_known_to_be_stale_goes_on_under_its_own_number)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    push_well(&self, run);
    fixture_closure(&self, 1, 2); /* and the news of a restored shard may have been lost */
    cr_expect_not(cadre_closure_call_is_cancelled(&run->call));
    drop_everything(&self);
    finish(&self, run, 0);
    expect_done(&self, 1, 1);
    cr_expect_null(started(&self));
    fixture_closure(&self, 1, 2); /* that was not what the coordinator wanted */
    cr_expect_not_null(started(&self));
    fixture_fini(&self);
}

/* An attempt whose sender knew of shards up to this sum of generations. */
static void
closure_knowing(fixture_t *self, uint64_t id, uint64_t attempt, uint64_t generations)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    message.closure = (cadre_closure_message_t){.id = id,
                                                .attempt = attempt,
                                                .function = 1,
                                                .steps = 1,
                                                .variables = 1,
                                                .generations = generations};
    fixture_tell(self, message);
}

Test(worker_attempts, wait_for_news_of_a_shard_that_got_lost)
{
    fixture_t self;
    cadre_message_t message;
    fixture_join(&self, 1, 0);
    closure_knowing(&self, 1, 1, 3);
    cr_expect_null(started(&self), "it would push to a process that was replaced");
    drop_everything(&self);
    fixture_pass(&self, 1000);
    cr_assert(take_message(&self, CADRE_MESSAGE_WANT, -1, &message));
    cr_expect_eq(message.want.kind, CADRE_WANT_SHARD);
    cadre_message_fini(&message);
    fixture_shard(&self, 1, NEW_PS, 2);
    cadre_run_t *run = started(&self);
    cr_assert_not_null(run);
    expect_refused(&self, run, 1); /* there is no telling whether this is the news that it meant */
    closure_knowing(&self, 1, 2, 3);
    run = started(&self);
    cr_assert_not_null(run);
    push_well(&self, run);
    finish(&self, run, 0);
    expect_done(&self, 1, 2);
    fixture_fini(&self);
}

Test(worker_attempts, overtaken_by_news_of_a_shard_do_not_touch_it)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_shard(&self, 1, NEW_PS, 2);
    closure_knowing(&self, 1, 1, 2); /* handed out before shard 1 began anew */
    cadre_run_t *run = started(&self);
    cr_assert_not_null(run);
    expect_refused(&self, run, 1);
    fixture_fini(&self);
}

Test(worker_attempts, overtaken_by_news_are_none_that_a_run_becomes)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_closure(&self, 1, 1);
    cadre_run_t *run = started(&self);
    cr_assert_not_null(run);
    fixture_shard(&self, 1, NEW_PS, 2);
    closure_knowing(&self, 1, 2, 2);
    expect_refused(&self, run, 2);
    fixture_fini(&self);
}

Test(worker_attempts, that_know_of_a_lost_shard_do_not_become_a_run_that_does_not)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    closure_knowing(&self, 1, 1, 2);
    cadre_run_t *run = started(&self);
    cr_assert_not_null(run);
    closure_knowing(&self, 1, 2, 3);
    drop_everything(&self);
    push_well(&self, run); /* to the shards that it knows */
    finish(&self, run, 0);
    expect_done(&self, 1, 1);
    fixture_fini(&self);
}

Test(worker_attempts, runs_the_later_attempt_when_the_one_before_fails)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    push_well(&self, run);
    fixture_closure(&self, 1, 2);
    drop_everything(&self);
    finish(&self, run, CADRE_EFUNCTION);
    run = started(&self);
    cr_assert_not_null(run);
    finish(&self, run, CADRE_EFUNCTION);
    expect_failed(&self, 1, 2, CADRE_FAILURE_USER);
    fixture_fini(&self);
}

Test(worker_attempts, cancels_the_later_attempt_too)
{
    fixture_t self;
    cadre_run_t *run = begin_stale(&self);
    fixture_cancel(&self, 1);
    drop_everything(&self);
    finish(&self, run, CADRE_ECANCELLED);
    expect_failed(&self, 1, 2, CADRE_FAILURE_RETURNED);
    cr_expect_null(started(&self));
    fixture_fini(&self);
}

Test(worker_attempts, hands_the_later_attempt_back_when_it_drains)
{
    fixture_t self;
    cadre_run_t *run = begin_stale(&self);
    cadre_worker_core_drain(self.core, "SIGTERM", self.now_ms);
    drop_everything(&self);
    finish(&self, run, CADRE_ECANCELLED);
    expect_failed(&self, 1, 2, CADRE_FAILURE_RETURNED);
    fixture_fini(&self);
}

Test(worker_attempts, forgets_the_later_attempt_of_a_session_that_is_over)
{
    fixture_t self;
    cadre_run_t *run = begin_stale(&self);
    cadre_message_t stop = {.type = CADRE_MESSAGE_STOP};
    stop.stop.reason = "done";
    fixture_tell(&self, stop);
    drop_everything(&self);
    finish(&self, run, CADRE_ECANCELLED);
    cr_expect_null(started(&self));
    fixture_fini(&self);
}

/* --- memory --- */

/* A pull that shard 0 answers and shard 1 does not. */
static void
pull_half(fixture_t *self, cadre_run_t *run)
{
    const float values[] = {5, 6};
    uint64_t ids[2];
    pull(self, run);
    requests(self, CADRE_MESSAGE_PULL, ids);
    answer_pull(self, 0, ids[0], cadre_run_id(run), values);
}

/* Closure `id` pulls, loses shard 1 before it is answered, and is reported; every third one meets
 * its second attempt on the way, every fifth loss is for good. */
static void
lose_one(fixture_t *self, uint64_t id, uint64_t *generation)
{
    fixture_closure(self, id, 1);
    cadre_run_t *run = started(self);
    pull_half(self, run);
    fixture_shard_away(self, 1, *generation);
    *generation += id % 5 == 0;
    fixture_shard(self, 1, FIXTURE_PS + *generation, *generation);
    uint64_t attempt = 1 + (id % 3 == 0);
    if (attempt == 2) {
        fixture_closure(self, id, attempt);
    }
    finish_failed(self, run);
    if (attempt == 2) {
        run = started(self);
        pull_half(self, run);
        fixture_cancel(self, id);
        fixture_shard_away(self, 1, *generation);
        fixture_shard(self, 1, FIXTURE_PS + *generation, *generation);
        finish_failed(self, run);
    }
    fixture_acknowledge(self, id, attempt);
    drop_everything(self);
}

Test(worker_attempts, holds_nothing_of_closures_and_shards_that_are_gone)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    uint64_t generation = 1;
    size_t before = 0;
    uint64_t last = SANITIZER ? 10000 : 100000;
    for (uint64_t id = 1; id <= last; id++) {
        lose_one(&self, id, &generation);
        before = id == 2000 ? mallinfo2().uordblks : before;
    }
    cr_expect_eq(generation, last / 5 + 1);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    cr_expect_eq(message.heartbeat.held.count, 0);
    cadre_message_fini(&message);
    cr_expect_leq(mallinfo2().uordblks, before + 65536, "it has grown");
    fixture_fini(&self);
}
