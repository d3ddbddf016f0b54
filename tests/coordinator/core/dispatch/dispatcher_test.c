/* The dispatcher, through the core: closures to workers, and what becomes of their reports. */
#include "coordinator/core/dispatch/dispatcher.h"

#include "coordinator/core/shards/windows.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(dispatcher, .timeout = 240);

static const cadre_u64s_t nothing = {NULL, 0};

/* The ids of the closures that were sent to `worker`, which must be these. */
static void
assert_sent(const fixture_t *self, const cadre_task_t *worker, const uint64_t *ids, size_t count)
{
    cr_assert_eq(fixture_count(self, worker, CADRE_MESSAGE_CLOSURE), count,
                 "%zu sent where %zu were expected",
                 fixture_count(self, worker, CADRE_MESSAGE_CLOSURE), count);
    for (size_t i = 0; i < count; i++) {
        uint64_t id = fixture_sent(self, worker, CADRE_MESSAGE_CLOSURE, i)->closure.id;
        cr_assert_eq(id, ids[i], "position %zu: %lu where %lu was expected", i, (unsigned long)id,
                     (unsigned long)ids[i]);
    }
}

#define ASSERT_SENT(self, worker, ...)                                                             \
    assert_sent(self, worker, (const uint64_t[]){__VA_ARGS__},                                     \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static uint64_t
attempt_sent(const fixture_t *self, const cadre_task_t *worker, uint64_t id)
{
    for (size_t i = 0; i < fixture_count(self, worker, CADRE_MESSAGE_CLOSURE); i++) {
        const cadre_closure_message_t *closure =
            &fixture_sent(self, worker, CADRE_MESSAGE_CLOSURE, i)->closure;
        if (closure->id == id) {
            return closure->attempt;
        }
    }
    return 0;
}

Test(dispatcher, ids_are_given_at_the_first_dispatch_and_ascend_by_steps)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1)->steps = 3;
    fixture_schedule(self, 2);
    fixture_turn(self);
    ASSERT_SENT(self, &worker, 1, 4);
    cr_assert_eq(self->core.begun.next_id, 5);
    cr_assert_eq(self->core.begun.total, 2);
    const cadre_closure_message_t *first =
        &fixture_sent(self, NULL, CADRE_MESSAGE_CLOSURE, 0)->closure;
    cr_assert_eq(first->steps, 3);
    cr_assert_eq(first->attempt, 1);
    cr_assert_eq(first->variables, 1);
    fixture_destroy(&self);
}

Test(dispatcher, a_worker_holds_twice_its_slots_and_gets_more_as_it_reports)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    for (uint32_t i = 1; i <= 5; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    ASSERT_SENT(self, &worker, 1, 2);
    fixture_clear(self);
    fixture_done(self, &worker, 1, 1);
    fixture_turn(self);
    ASSERT_SENT(self, &worker, 3);
    fixture_destroy(&self);
}

Test(dispatcher, work_is_spread_over_workers_in_turn)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    for (uint32_t i = 1; i <= 4; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    ASSERT_SENT(self, &workers[0], 1, 3);
    ASSERT_SENT(self, &workers[1], 2, 4);
    fixture_destroy(&self);
}

Test(dispatcher, closures_of_a_lost_worker_run_again_first_in_old_order_with_their_ids)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    for (uint32_t i = 1; i <= 7; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    ASSERT_SENT(self, &workers[0], 1, 3);
    fixture_clear(self);
    fixture_gone(self, &workers[0]);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0, "the other has no credit");
    fixture_done(self, &workers[1], 2, 1);
    fixture_done(self, &workers[1], 4, 1);
    fixture_turn(self);
    ASSERT_SENT(self, &workers[1], 1, 3);
    cr_assert_eq(attempt_sent(self, &workers[1], 1), 2);
    cr_assert_eq(attempt_sent(self, &workers[1], 3), 2);
    cr_assert_eq(fixture_sent(self, &workers[1], CADRE_MESSAGE_CLOSURE, 1)->closure.variables, 3);
    cr_assert_eq(self->core.totals.workers_lost, 1);
    cr_assert_eq(self->core.totals.attempts, 6);
    cr_assert_eq(self->core.begun.total, 4);
    fixture_clear(self);
    fixture_done(self, &workers[1], 1, 2);
    fixture_done(self, &workers[1], 3, 2);
    fixture_turn(self);
    ASSERT_SENT(self, &workers[1], 5, 6);
    fixture_destroy(&self);
}

Test(dispatcher, a_worker_whose_lease_ran_out_is_lost_and_a_suspect_one_gets_nothing_new)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    cadre_task_t ps = fixture_ps(0);
    for (uint32_t i = 1; i <= 2; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    fixture_clear(self);
    uint64_t two[] = {2};
    for (uint64_t i = 1; i <= 3; i++) {
        self->now_ms += 1000;
        fixture_heartbeat(self, &workers[1], i, (cadre_u64s_t){two, 1});
        fixture_heartbeat(self, &ps, i, nothing);
    }
    fixture_schedule(self, 3);
    fixture_turn(self);
    ASSERT_SENT(self, &workers[1], 3);
    cr_assert(self->core.membership.workers[0]->suspect);
    fixture_clear(self);
    for (uint64_t i = 4; i <= 10; i++) {
        self->now_ms += 1000;
        fixture_heartbeat(self, &workers[1], i, (cadre_u64s_t){two, 1});
        fixture_heartbeat(self, &ps, i, nothing);
    }
    fixture_done(self, &workers[1], 2, 1);
    fixture_turn(self);
    cr_assert_null(self->core.membership.workers[0]);
    cr_assert(fixture_logged(self, "worker_lost"));
    cr_assert_eq(attempt_sent(self, &workers[1], 1), 2);
    fixture_destroy(&self);
}

Test(dispatcher, the_first_report_wins_also_a_late_one_of_an_old_attempt)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 9);
    fixture_turn(self);
    fixture_gone(self, &workers[0]);
    fixture_turn(self);
    cr_assert_eq(attempt_sent(self, &workers[1], 1), 2);
    fixture_clear(self);
    /* The first worker was only cut off. */
    fixture_hello_as(self, &workers[0], 0, (cadre_u64s_t){(uint64_t[]){1}, 1});
    const cadre_message_t *told = NULL;
    fixture_turn(self);
    told = fixture_sent(self, &workers[0], CADRE_MESSAGE_CANCEL, 0);
    cr_assert_not_null(told, "what runs elsewhere now is cancelled");
    cr_assert_eq(told->cancel.ids.items[0], 1);
    fixture_clear(self);
    fixture_done(self, &workers[0], 1, 1);
    fixture_turn(self);
    cr_assert_eq(self->ended_count, 1);
    cr_assert_eq(self->ended[0].number, 9);
    cr_assert_eq(self->ended[0].status, 0);
    told = fixture_sent(self, &workers[1], CADRE_MESSAGE_CANCEL, 0);
    cr_assert_not_null(told, "the second attempt is no longer wanted");
    cr_assert_eq(told->cancel.ids.items[0], 1);
    cr_assert_not_null(fixture_sent(self, &workers[0], CADRE_MESSAGE_ACK, 0));
    fixture_clear(self);
    fixture_done(self, &workers[1], 1, 2);
    fixture_turn(self);
    cr_assert_eq(self->ended_count, 1, "the second report changes nothing");
    told = fixture_sent(self, &workers[1], CADRE_MESSAGE_ACK, 0);
    cr_assert_not_null(told, "and is acknowledged");
    cr_assert_eq(told->ack.reports.count, 2);
    cr_assert_eq(told->ack.reports.items[0], 1);
    cr_assert_eq(told->ack.reports.items[1], 2);
    cr_assert_eq(self->core.totals.finished, 1);
    cr_assert_eq(self->core.begun.closures.count, 0);
    fixture_destroy(&self);
}

Test(dispatcher, only_who_was_given_an_attempt_may_report_it)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_done(self, &workers[1], 1, 1);
    fixture_failed(self, &workers[1], 1, 1, CADRE_FAILURE_USER, "no");
    fixture_done(self, &workers[0], 1, 2);
    cr_assert_eq(self->ended_count, 0);
    cr_assert_eq(self->core.totals.reports_refused, 3);
    fixture_turn(self);
    cr_assert(fixture_logged(self, "report_refused"));
    cr_assert(fixture_sent(self, &workers[1], CADRE_MESSAGE_ACK, 0), "it would say it for ever");
    fixture_done(self, &workers[0], 1, 1);
    cr_assert_eq(self->ended_count, 1);
    cr_assert_eq(self->ended[0].status, 0);
    fixture_destroy(&self);
}

Test(dispatcher, attempts_before_the_last_sixteen_are_forgotten)
{
    fixture_t *self = cluster(1);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    for (uint64_t i = 1; i <= CADRE_HANDED_MAX + 1; i++) {
        cadre_closure_hand_to(closure, 100 + i);
    }
    cr_assert(!cadre_closure_was_handed_to(closure, 0, 0));
    cr_assert(!cadre_closure_was_handed_to(closure, 1, 101));
    for (uint64_t i = 2; i <= CADRE_HANDED_MAX + 1; i++) {
        cr_assert(cadre_closure_was_handed_to(closure, i, 100 + i), "attempt %lu", i);
        cr_assert(!cadre_closure_was_handed_to(closure, i, 101 + i));
    }
    cr_assert(!cadre_closure_was_handed_to(closure, CADRE_HANDED_MAX + 2, 0));
    fixture_destroy(&self);
}

Test(dispatcher, a_report_may_come_while_the_closure_is_queued_again)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_gone(self, &worker);
    fixture_turn(self);
    cr_assert_eq(self->core.queue.lanes.common, 1);
    fixture_clear(self);
    fixture_hello_as(self, &worker, 0, (cadre_u64s_t){(uint64_t[]){1}, 1});
    fixture_done(self, &worker, 1, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CANCEL), 0);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 0);
    cr_assert_eq(self->ended_count, 1);
    cr_assert_eq(self->core.queue.lanes.common, 0);
    cr_assert(cadre_closure_queue_done(&self->core.queue));
    fixture_destroy(&self);
}

Test(dispatcher, a_failure_of_an_attempt_that_no_longer_counts_is_only_acknowledged)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_gone(self, &workers[0]);
    fixture_turn(self);
    fixture_hello(self, &workers[0]);
    fixture_turn(self);
    fixture_clear(self);
    fixture_failed(self, &workers[0], 1, 1, CADRE_FAILURE_USER, "late");
    fixture_failed(self, &workers[1], 1, 1, CADRE_FAILURE_USER, "of an attempt it never had");
    fixture_failed(self, &workers[1], 1, 3, CADRE_FAILURE_USER, "of the future");
    fixture_done(self, &workers[1], 1, 3);
    fixture_done(self, &workers[1], 99, 1);
    fixture_turn(self);
    cr_assert_eq(self->ended_count, 0);
    cr_assert_eq(fixture_sent(self, &workers[0], CADRE_MESSAGE_ACK, 0)->ack.reports.count, 2);
    cr_assert_eq(fixture_sent(self, &workers[1], CADRE_MESSAGE_ACK, 0)->ack.reports.count, 8);
    fixture_destroy(&self);
}

Test(dispatcher, a_user_error_names_function_closure_attempt_and_worker_and_is_not_retried)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    char text[CADRE_CLOSURE_ERROR_SIZE];
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_schedule(self, 3);
    fixture_turn(self);
    fixture_clear(self);
    fixture_failed(self, &worker, 1, 1, CADRE_FAILURE_USER, "line 3: no number");
    fixture_turn(self);
    cr_assert_eq(self->ended_count, 2, "the failed one and the one that waited");
    const cadre_message_t *cancel = fixture_sent(self, &worker, CADRE_MESSAGE_CANCEL, 0);
    cr_assert_not_null(cancel);
    cr_assert_eq(cancel->cancel.ids.count, 1);
    cr_assert_eq(cancel->cancel.ids.items[0], 2);
    cr_assert_eq(cadre_closure_queue_raise(&self->core.queue, text), CADRE_EAGAIN);
    fixture_failed(self, &worker, 2, 1, CADRE_FAILURE_RETURNED, "cancelled");
    cr_assert_eq(cadre_closure_queue_raise(&self->core.queue, text), CADRE_EFUNCTION);
    cr_assert_str_eq(text, "function work, closure 1, attempt 1, worker 0: line 3: no number");
    cr_assert_eq(self->core.totals.failed, 1);
    cr_assert_eq(self->core.begun.closures.count, 0);
    fixture_destroy(&self);
}

Test(dispatcher, an_error_without_a_text_is_told_by_its_status)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_failed(self, &worker, 1, 1, CADRE_FAILURE_USER, "");
    cr_assert_eq(self->ended_count, 1);
    cr_assert(strstr(self->ended[0].text, cadre_status_text(CADRE_EFUNCTION)));
    fixture_destroy(&self);
}

Test(dispatcher, what_is_being_cancelled_is_told_again_until_it_has_ended)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    for (uint32_t i = 1; i <= 3; i++) {
        fixture_schedule(self, i);
    }
    fixture_turn(self);
    fixture_clear(self);
    fixture_cancel(self);
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &workers[0], CADRE_MESSAGE_CANCEL, 0)->cancel.ids.count, 2);
    cr_assert_eq(fixture_sent(self, &workers[1], CADRE_MESSAGE_CANCEL, 0)->cancel.ids.count, 1);
    cr_assert_leq(self->due_ms, self->now_ms + 1000);
    fixture_clear(self);
    self->now_ms += 999;
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CANCEL), 0);
    self->now_ms += 1;
    fixture_failed(self, &workers[1], 2, 1, CADRE_FAILURE_RETURNED, "cancelled");
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &workers[0], CADRE_MESSAGE_CANCEL), 1);
    cr_assert_eq(fixture_count(self, &workers[1], CADRE_MESSAGE_CANCEL), 0);
    fixture_done(self, &workers[0], 1, 1);
    fixture_gone(self, &workers[0]);
    cr_assert_eq(self->ended_count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(self->ended[i].status, self->ended[i].number == 1 ? 0 : CADRE_ECANCELLED);
    }
    cr_assert_not(cadre_closure_queue_is_cancelling(&self->core.queue));
    fixture_schedule(self, 4);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &workers[1], CADRE_MESSAGE_CLOSURE), 1);
    fixture_destroy(&self);
}

Test(dispatcher, a_closure_that_is_cancelled_while_queued_again_leaves_no_trace)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_gone(self, &worker);
    fixture_cancel(self);
    cr_assert_eq(self->ended_count, 1);
    cr_assert_eq(self->ended[0].status, CADRE_ECANCELLED);
    cr_assert_eq(self->core.begun.closures.count, 0);
    fixture_hello(self, &worker);
    fixture_done(self, &worker, 1, 1);
    fixture_turn(self);
    cr_assert_eq(self->ended_count, 1);
    fixture_destroy(&self);
}

Test(dispatcher, a_closure_that_takes_down_too_many_workers_fails_as_poison)
{
    fixture_t *self = fixture_new(1);
    fixture_join_ps(self);
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_schedule(self, 3);
    for (uint32_t i = 0; i < CADRE_POISON_DEATHS; i++) {
        cr_assert_eq(self->ended_count, 0, "after %u workers", i);
        cadre_task_t worker = {CADRE_ROLE_WORKER, 0, 5000 + i};
        fixture_hello(self, &worker);
        fixture_turn(self);
        if (i < CADRE_SUSPECT_DEATHS) {
            ASSERT_SENT(self, &worker, 1, 2);
        } else {
            ASSERT_SENT(self, &worker, 1);
        }
        fixture_gone(self, &worker);
        fixture_clear(self);
    }
    cr_assert_eq(self->ended_count, 3);
    for (size_t i = 0; i < 3; i++) {
        bool poison = self->ended[i].number == 1;
        cr_assert_eq(self->ended[i].status, poison ? CADRE_EPOISON : CADRE_ECANCELLED,
                     "2 was sent too, but with one slot it cannot have run");
        cr_assert(!poison || strstr(self->ended[i].text, "closure 1: 10 attempts died"));
        cr_assert(!poison ||
                      strstr(self->ended[i].text, ": worker 0 (process 4711, the last of 10)"),
                  "%s", self->ended[i].text);
    }
    cr_assert_eq(self->core.begun.closures.count, 0);
    cr_assert_eq(self->core.apart.closures.count, 0);
    fixture_destroy(&self);
}

Test(dispatcher, a_worker_that_was_only_cut_off_does_not_accuse_what_it_has)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_turn(self);
    for (int i = 0; i < CADRE_POISON_DEATHS + 2; i++) {
        fixture_gone(self, &worker);
        fixture_hello_as(self, &worker, 0, (cadre_u64s_t){(uint64_t[]){1}, 1});
        fixture_turn(self);
        fixture_clear(self);
    }
    cr_assert_eq(self->ended_count, 0);
    fixture_done(self, &worker, 1, 1);
    cr_assert_eq(self->ended_count, 1);
    fixture_destroy(&self);
}

Test(dispatcher, a_worker_that_leaves_does_not_accuse_what_it_had)
{
    fixture_t *self = fixture_new(1);
    fixture_join_ps(self);
    fixture_schedule(self, 1);
    for (uint32_t i = 0; i < CADRE_POISON_DEATHS + 2; i++) {
        cadre_task_t worker = {CADRE_ROLE_WORKER, 0, 5000 + i};
        fixture_hello(self, &worker);
        fixture_turn(self);
        ASSERT_SENT(self, &worker, 1);
        fixture_clear(self);
        cadre_message_t goodbye = fixture_message(&worker, CADRE_MESSAGE_GOODBYE);
        goodbye.goodbye.reason = "SIGTERM";
        fixture_say(self, &worker, &goodbye);
    }
    cr_assert_eq(self->ended_count, 0);
    cr_assert_eq(self->core.queue.lanes.common, 1);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    fixture_destroy(&self);
}

Test(dispatcher, a_worker_that_drains_gets_nothing_more)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_CLOSURE_FAILED);
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_clear(self);
    message.closure_failed = (cadre_closure_failed_message_t){.id = 1,
                                                              .attempt = 1,
                                                              .reason = CADRE_FAILURE_RETURNED,
                                                              .status = (uint64_t)-CADRE_ECLOSED,
                                                              .text = "SIGTERM"};
    fixture_say(self, &worker, &message);
    self->now_ms += 2999;
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0);
    cr_assert_eq(self->core.queue.lanes.common, 1);
    fixture_destroy(&self);
}

Test(dispatcher, a_worker_that_could_not_do_its_work_gets_nothing_for_a_while)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 1);
    fixture_turn(self);
    fixture_clear(self);
    self->core.dispatcher.turn = 0;
    fixture_failed(self, &workers[0], 1, 1, CADRE_FAILURE_DEVICE, "out of memory");
    fixture_turn(self);
    cr_assert_eq(attempt_sent(self, &workers[1], 1), 2);
    fixture_clear(self);
    fixture_failed(self, &workers[1], 1, 2, CADRE_FAILURE_SHARD, "ps 0 is away");
    self->now_ms += 999;
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0);
    self->now_ms += 1;
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1);
    cr_assert_eq(self->ended_count, 0);
    fixture_destroy(&self);
}

Test(dispatcher, a_closure_for_which_devices_fail_ends_after_so_many_attempts)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    for (uint64_t attempt = 1; attempt <= CADRE_DEVICE_TRIES_MAX; attempt++) {
        cr_assert_eq(self->ended_count, 0);
        fixture_turn(self);
        fixture_failed(self, &worker, 1, attempt, CADRE_FAILURE_DEVICE, "out of memory");
        self->now_ms += 1000;
    }
    cr_assert_eq(self->ended_count, 1);
    cr_assert(strstr(self->ended[0].text, "attempt 10, worker 0: out of memory"));
    fixture_destroy(&self);
}

Test(dispatcher, what_a_heartbeat_lacks_is_sent_again_after_three_seconds)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    fixture_clear(self);
    self->now_ms += 2999;
    fixture_heartbeat(self, &worker, 1, (cadre_u64s_t){(uint64_t[]){2}, 1});
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 0);
    self->now_ms += 1;
    fixture_heartbeat(self, &worker, 2, (cadre_u64s_t){(uint64_t[]){777, 2}, 2});
    fixture_turn(self);
    ASSERT_SENT(self, &worker, 1);
    cr_assert_eq(attempt_sent(self, &worker, 1), 1, "it is no new attempt");
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CANCEL), 0,
                 "a heartbeat cancels nothing");
    fixture_clear(self);
    self->now_ms += 1000;
    fixture_heartbeat(self, &worker, 3, nothing);
    fixture_turn(self);
    ASSERT_SENT(self, &worker, 2);
    fixture_clear(self);
    self->now_ms += 5000;
    fixture_heartbeat(self, &worker, 3, nothing);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 0,
                 "a heartbeat that comes twice is dropped");
    fixture_destroy(&self);
}

Test(dispatcher, a_worker_that_reconnects_gets_what_it_lacks_at_once_and_drops_what_has_ended)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    fixture_clear(self);
    fixture_hello_as(self, &worker, 0, (cadre_u64s_t){(uint64_t[]){9, 2}, 2});
    fixture_turn(self);
    ASSERT_SENT(self, &worker, 1);
    cr_assert_eq(attempt_sent(self, &worker, 1), 1);
    const cadre_message_t *cancel = fixture_sent(self, &worker, CADRE_MESSAGE_CANCEL, 0);
    cr_assert_eq(cancel->cancel.ids.count, 1);
    cr_assert_eq(cancel->cancel.ids.items[0], 9);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_WELCOME), 1);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    fixture_destroy(&self);
}

Test(dispatcher, reports_are_acknowledged_in_messages_of_a_bounded_size)
{
    enum { REPORTS = CADRE_HELD_MAX / 2 };
    static const size_t counts[] = {REPORTS - 1, REPORTS, REPORTS + 1};
    for (size_t k = 0; k < 3; k++) {
        fixture_t *self = cluster(1);
        cadre_task_t worker = fixture_worker(0);
        for (uint64_t i = 0; i < counts[k]; i++) {
            fixture_done(self, &worker, 1000 + i, 1);
        }
        fixture_turn(self);
        size_t messages = fixture_count(self, &worker, CADRE_MESSAGE_ACK);
        cr_assert_eq(messages, counts[k] > REPORTS ? 2 : 1);
        size_t items = 0;
        for (size_t i = 0; i < messages; i++) {
            items += fixture_sent(self, &worker, CADRE_MESSAGE_ACK, i)->ack.reports.count;
        }
        cr_assert_eq(items, 2 * counts[k]);
        fixture_clear(self);
        fixture_turn(self);
        cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_ACK), 0);
        fixture_destroy(&self);
    }
}

Test(dispatcher, a_tagged_closure_goes_to_its_worker_first)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    fixture_schedule(self, 1);
    cadre_closure_t *closure = cadre_closure_new(1);
    closure->tag = 1;
    closure->variables = 2;
    fixture_watch(self, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    self->core.dispatcher.turn = 1;
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &workers[1], CADRE_MESSAGE_CLOSURE, 0)->closure.variables, 2);
    cr_assert_eq(fixture_sent(self, &workers[0], CADRE_MESSAGE_CLOSURE, 0)->closure.variables, 1);
    fixture_destroy(&self);
}

/* --- the shards' windows --- */

/* Whether the log says that the window is full, for this reason. */
static bool
told_full(const fixture_t *self, const char *reason)
{
    for (size_t i = 0; i < self->event_count; i++) {
        const cadre_effect_t *event = &self->events[i];
        if (event->kind == CADRE_EFFECT_LOG && strcmp(event->name, "window_full") == 0) {
            return strstr(event->text, reason);
        }
    }
    return false;
}

Test(dispatcher, nothing_new_is_begun_beyond_the_window_of_the_shards)
{
    enum { ROOM = CADRE_APPLIED_WINDOW_MAX - CADRE_STEPS_MAX };
    static const struct {
        uint64_t span;
        bool goes;
    } cases[] = {{ROOM - 1, true}, {ROOM, true}, {ROOM + 1, false}};
    for (size_t i = 0; i < 3; i++) {
        fixture_t *self = cluster(1);
        self->core.windows.pending = 1; /* as long as the shards have not moved on */
        self->core.begun.next_id = self->core.windows.settled + cases[i].span;
        fixture_schedule(self, 1);
        fixture_turn(self);
        cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), cases[i].goes ? 1 : 0);
        fixture_destroy(&self);
    }
}

Test(dispatcher, shards_are_told_to_settle_below_the_oldest_closure_that_has_not_ended)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t ps[] = {fixture_ps(0), fixture_ps(1)};
    cadre_task_t worker = fixture_worker(0);
    fixture_join_ps(self);
    fixture_hello(self, &worker);
    self->core.begun.next_id = CADRE_APPLIED_WINDOW_MAX / 4 + 10;
    fixture_schedule(self, 1);
    fixture_turn(self);
    uint64_t oldest = fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 0)->closure.id;
    self->core.begun.next_id = 1 + CADRE_APPLIED_WINDOW_MAX / 2 - 1;
    fixture_clear(self);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_SETTLE), 0);
    self->core.begun.next_id++;
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_SETTLE), 2);
    cr_assert_eq(fixture_sent(self, &ps[0], CADRE_MESSAGE_SETTLE, 0)->settle.base, oldest);
    cr_assert_eq(fixture_sent(self, &ps[1], CADRE_MESSAGE_SETTLE, 0)->settle.base, oldest);
    cr_assert_eq(fixture_sent(self, &ps[1], CADRE_MESSAGE_SETTLE, 0)->settle.generation,
                 self->core.recovery.places[1].generation);
    cr_assert_eq(self->core.windows.settled, 1, "not before both have it");
    fixture_reply(self, &ps[0], fixture_sent(self, &ps[0], CADRE_MESSAGE_SETTLE, 0));
    cr_assert_eq(self->core.windows.settled, 1);
    fixture_reply(self, &ps[1], fixture_sent(self, &ps[1], CADRE_MESSAGE_SETTLE, 0));
    cr_assert_eq(self->core.windows.settled, oldest);
    fixture_clear(self);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_SETTLE), 0);
    fixture_destroy(&self);
}

Test(dispatcher, who_keeps_the_window_full_is_named_now_and_then)
{
    fixture_t *self = cluster(1);
    fixture_schedule(self, 1);
    fixture_turn(self);
    self->core.options.lease_ms = 10000000;
    self->core.begun.next_id = self->core.windows.settled + CADRE_APPLIED_WINDOW_MAX;
    fixture_clear(self);
    fixture_turn(self);
    cr_assert(!fixture_logged(self, "window_full"), "nothing waits for it");
    fixture_schedule(self, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0);
    cr_assert(told_full(self, "closure 1 (function work) on worker 0 for 0 s"));
    cr_assert_leq(self->due_ms, self->now_ms + CADRE_WINDOW_REPORT_MS);
    fixture_clear(self);
    self->now_ms += CADRE_WINDOW_REPORT_MS - 1;
    fixture_turn(self);
    cr_assert(!fixture_logged(self, "window_full"));
    self->core.replay.holds = true;
    self->now_ms++;
    fixture_turn(self);
    cr_assert(!fixture_logged(self, "window_full"), "it is not the window alone");
    self->core.replay.holds = false;
    fixture_turn(self);
    cr_assert(fixture_logged(self, "window_full"));
    fixture_destroy(&self);
}

Test(dispatcher, shards_that_do_not_settle_are_told_of_when_the_window_is_full)
{
    fixture_t *self = cluster(1);
    self->core.windows.pending = 1;
    self->core.begun.next_id = self->core.windows.settled + CADRE_APPLIED_WINDOW_MAX;
    fixture_schedule(self, 1);
    fixture_turn(self);
    cr_assert(told_full(self, "1 shards to answer SETTLE"));
    fixture_destroy(&self);
}

Test(dispatcher, an_old_closure_that_has_not_ended_keeps_the_shards_where_they_are)
{
    fixture_t *self = cluster(1);
    fixture_schedule(self, 1);
    fixture_turn(self);
    self->core.begun.next_id = CADRE_APPLIED_WINDOW_MAX / 2 + 10;
    fixture_clear(self);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_SETTLE), 0);
    fixture_destroy(&self);
}

Test(dispatcher, in_a_pause_only_what_was_begun_is_handed_out)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_turn(self);
    ASSERT_SENT(self, &worker, 1);
    cadre_pause_begin(&self->core.pause);
    cadre_pause_begin(&self->core.pause);
    cr_assert_not(cadre_pause_is_still(&self->core.pause), "one is in flight");
    fixture_schedule(self, 2);
    fixture_clear(self);
    fixture_gone(self, &worker);
    cadre_task_t next = fixture_worker(1);
    fixture_hello(self, &next);
    fixture_turn(self);
    ASSERT_SENT(self, &next, 1);
    fixture_clear(self);
    fixture_done(self, &next, 1, 2);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0);
    cr_assert(cadre_pause_is_still(&self->core.pause));
    cadre_pause_end(&self->core.pause);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 0, "another call pauses");
    cadre_pause_end(&self->core.pause);
    fixture_turn(self);
    ASSERT_SENT(self, &next, 2);
    fixture_destroy(&self);
}
