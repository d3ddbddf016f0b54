/* Closures that run for too long: a second attempt elsewhere, a bound, and names for all of them.
 */
#include "coordinator/core/dispatch/overruns.h"

#include "coordinator/core/dispatch/waiting.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(overruns, .timeout = 240);

enum { DEADLINE_MS = 1000 };

/* Time passes; everybody is heard, and the core is called as often as it asks for. */
static void
attend(fixture_t *self, uint64_t ms)
{
    uint64_t until_ms = self->now_ms + ms;
    while (self->now_ms < until_ms) {
        self->now_ms =
            self->due_ms > self->now_ms && self->due_ms < until_ms ? self->due_ms : until_ms;
        cadre_member_t *member = NULL;
        for (size_t i = 0; (member = cadre_u64_map_next(&self->core.membership.members, &i));) {
            cadre_membership_heard(member, self->now_ms);
        }
        fixture_turn(self);
    }
}

static cadre_closure_t *
schedule(fixture_t *self, uint64_t deadline_ms)
{
    cadre_closure_t *closure = fixture_schedule(self, 1);
    closure->deadline_ms = deadline_ms;
    return closure;
}

static uint32_t
holder(const cadre_closure_t *closure)
{
    const cadre_member_t *member = closure->worker;
    return closure->state == CADRE_CLOSURE_IN_FLIGHT ? member->index : UINT32_MAX;
}

static size_t
count_events(const fixture_t *self, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < self->event_count; i++) {
        count += strcmp(self->events[i].name, name) == 0;
    }
    return count;
}

Test(overruns, what_runs_past_its_deadline_goes_to_another_worker_and_the_first_report_wins)
{
    for (int first_wins = 0; first_wins < 2; first_wins++) {
        fixture_t *self = cluster(2);
        cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
        cadre_closure_t *closure = schedule(self, DEADLINE_MS);
        fixture_turn(self);
        uint32_t first = holder(closure);
        attend(self, DEADLINE_MS - 1);
        cr_assert_eq(holder(closure), first);
        attend(self, 500);
        cr_assert_eq(holder(closure), 1 - first);
        cr_assert_eq(closure->attempt, 2);
        cr_assert_eq(self->core.totals.deadlines_missed, 1);
        cr_assert(fixture_logged(self, "deadline_missed"));
        const cadre_message_t *cancel =
            fixture_sent(self, &workers[first], CADRE_MESSAGE_CANCEL, 0);
        cr_assert(cancel && cancel->cancel.ids.items[0] == closure->id);
        fixture_clear(self);
        fixture_done(self, &workers[first_wins ? first : 1 - first], 1, first_wins ? 1 : 2);
        fixture_turn(self);
        cr_assert_eq(self->ended_count, 1);
        cr_assert_eq(self->ended[0].status, 0);
        cr_assert_eq(fixture_count(self, &workers[1 - first], CADRE_MESSAGE_CANCEL),
                     first_wins ? 1 : 0);
        fixture_destroy(&self);
    }
}

Test(overruns, what_only_waits_behind_others_on_its_worker_does_not_run)
{
    fixture_t *self = cluster(2);
    cadre_closure_t *closures[4];
    for (int i = 0; i < 4; i++) {
        closures[i] = schedule(self, i < 2 ? 0 : DEADLINE_MS);
    }
    fixture_turn(self);
    attend(self, 5 * DEADLINE_MS);
    cr_assert_eq(self->core.totals.deadlines_missed, 0);
    for (int i = 0; i < 2; i++) {
        cadre_task_t worker = fixture_worker((uint32_t)i);
        fixture_done(self, &worker, closures[i]->id, 1);
    }
    attend(self, DEADLINE_MS + 500);
    cr_assert_eq(self->core.totals.deadlines_missed, 2);
    cr_assert_eq(closures[2]->attempt + closures[3]->attempt, 3, "one has nowhere to go then");
    fixture_destroy(&self);
}

Test(overruns, what_waits_behind_slots_that_do_not_stop_goes_elsewhere_at_once)
{
    fixture_t *self = cluster(1);
    cadre_closure_t *closures[2] = {schedule(self, DEADLINE_MS), fixture_schedule(self, 2)};
    fixture_turn(self);
    cr_assert_eq(holder(closures[1]), 0);
    cadre_task_t other = fixture_worker(1);
    fixture_hello(self, &other);
    fixture_turn(self);
    fixture_clear(self);
    attend(self, DEADLINE_MS + 500);
    cr_assert_eq(holder(closures[0]), 1);
    cr_assert_eq(holder(closures[1]), 1);
    cr_assert_eq(self->core.totals.deadlines_missed, 1);
    cadre_task_t slow = fixture_worker(0);
    cr_assert_eq(fixture_count(self, &slow, CADRE_MESSAGE_CANCEL), 2);
    fixture_destroy(&self);
}

Test(overruns, without_another_worker_it_goes_on_and_the_next_one_to_join_gets_it)
{
    fixture_t *self = cluster(1);
    cadre_closure_t *closure = schedule(self, DEADLINE_MS);
    fixture_turn(self);
    attend(self, DEADLINE_MS + 500);
    cr_assert_eq(holder(closure), 0);
    cr_assert_eq(closure->attempt, 1);
    cr_assert_eq(count_events(self, "deadline_missed"), 1);
    cr_assert_eq(self->core.totals.deadlines_missed, 1);
    cadre_task_t other = fixture_worker(1);
    fixture_hello(self, &other);
    attend(self, 400);
    cr_assert_eq(holder(closure), 1, "now there is one");
    cr_assert_eq(self->core.totals.deadlines_missed, 1, "the deadline was counted when it passed");
    cadre_task_t first = fixture_worker(0);
    cr_assert(fixture_sent(self, &first, CADRE_MESSAGE_CANCEL, 0));
    attend(self, 2 * DEADLINE_MS + 500);
    cr_assert_eq(self->ended_count, 1);
    cr_assert_eq(self->ended[0].status, CADRE_ETIMEOUT);
    cr_assert_eq(self->core.totals.deadlines_missed, 3);
    fixture_destroy(&self);
}

Test(overruns, three_deadlines_that_passed_end_it_by_name_with_any_number_of_workers)
{
    for (uint32_t workers = 1; workers <= 4; workers++) {
        fixture_t *self = cluster(workers);
        cadre_closure_t *closure = schedule(self, DEADLINE_MS);
        fixture_turn(self);
        attend(self, 3 * DEADLINE_MS - 1);
        cr_assert_eq(self->ended_count, 0);
        cr_assert_eq(self->core.totals.deadlines_missed, 2);
        cr_assert_eq(closure->attempt, workers < 3 ? workers : 3);
        const cadre_task_t last = closure->worker->task;
        fixture_clear(self);
        attend(self, 1000);
        cr_assert_eq(self->ended_count, 1);
        cr_assert_eq(self->ended[0].status, CADRE_ETIMEOUT);
        cr_assert(strstr(self->ended[0].text,
                         "function work, closure 1: it ran past its deadline of 1000 ms 3 times, "
                         "the last time on worker"),
                  "%s", self->ended[0].text);
        cr_assert_eq(self->core.totals.deadlines_missed, 3);
        cr_assert_eq(self->core.apart.closures.count, 0);
        cr_assert(fixture_sent(self, &last, CADRE_MESSAGE_CANCEL, 0));
        fixture_destroy(&self);
    }
}

Test(overruns, what_goes_on_past_its_deadline_still_ends_well)
{
    for (uint32_t workers = 1; workers <= 2; workers++) {
        fixture_t *self = cluster(workers);
        cadre_closure_t *closure = schedule(self, DEADLINE_MS);
        fixture_turn(self);
        attend(self, 3 * DEADLINE_MS - 1);
        const cadre_task_t last = closure->worker->task;
        fixture_done(self, &last, 1, closure->attempt);
        attend(self, 2 * DEADLINE_MS);
        cr_assert_eq(self->ended_count, 1);
        cr_assert_eq(self->ended[0].status, 0);
        cr_assert_eq(self->core.totals.deadlines_missed, 2);
        cr_assert_eq(self->core.apart.closures.count, 0);
        fixture_destroy(&self);
    }
}

Test(overruns, what_goes_on_past_its_deadline_is_handed_out_again_when_its_worker_is_lost)
{
    fixture_t *self = cluster(1);
    cadre_closure_t *closure = schedule(self, DEADLINE_MS);
    fixture_turn(self);
    attend(self, DEADLINE_MS + 500);
    cadre_task_t first = fixture_worker(0);
    fixture_gone(self, &first);
    cadre_task_t other = fixture_worker(1);
    fixture_hello(self, &other);
    fixture_turn(self);
    cr_assert_eq(holder(closure), 1);
    cr_assert_eq(closure->attempt, 2);
    fixture_destroy(&self);
}

Test(overruns, a_closure_for_one_worker_alone_ends_after_three_deadlines_there)
{
    fixture_t *self = cluster(3);
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    closure->tag = 1;
    closure->deadline_ms = DEADLINE_MS;
    fixture_watch(self, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    fixture_turn(self);
    attend(self, 3 * DEADLINE_MS - 1);
    cr_assert_eq(holder(closure), 1);
    attend(self, 500);
    cr_assert_eq(self->ended_count, 1);
    cr_assert_eq(self->ended[0].status, CADRE_ETIMEOUT);
    fixture_destroy(&self);
}

Test(overruns, a_slot_that_does_not_stop_is_taken_until_a_heartbeat_does_not_name_it)
{
    fixture_t *self = cluster(2);
    cadre_closure_t *closure = schedule(self, DEADLINE_MS);
    fixture_turn(self);
    uint32_t first = holder(closure);
    cadre_task_t slow = fixture_worker(first);
    const cadre_member_t *member = self->core.membership.workers[first];
    attend(self, DEADLINE_MS + 500);
    for (int i = 0; i < 8; i++) {
        fixture_schedule(self, 2);
    }
    fixture_turn(self);
    cr_assert_eq(member->in_flight.count, 0);
    fixture_heartbeat(self, &slow, 1, (cadre_u64s_t){&closure->id, 1});
    fixture_turn(self);
    cr_assert_eq(member->in_flight.count, 0);
    fixture_heartbeat(self, &slow, 2, (cadre_u64s_t){NULL, 0});
    fixture_turn(self);
    cr_assert_eq(member->in_flight.count, 2);
    fixture_destroy(&self);
}

Test(overruns, where_nobody_else_is_left_the_first_one_may_try_again_when_it_has_stopped)
{
    for (uint32_t is_suspect = 0; is_suspect < 2; is_suspect++) {
        fixture_t *self = cluster(2);
        cadre_closure_t *closure = schedule(self, DEADLINE_MS);
        fixture_turn(self);
        uint32_t first = holder(closure);
        cadre_task_t slow = fixture_worker(first);
        cadre_task_t other = fixture_worker(1 - first);
        attend(self, DEADLINE_MS + 500);
        cr_assert_eq(holder(closure), 1 - first);
        closure->suspicion.deaths = 5 * is_suspect; /* then it is tried alone */
        fixture_gone(self, &other);
        cr_assert_eq(cadre_suspicion_is_strong(&closure->suspicion), is_suspect);
        fixture_turn(self);
        cr_assert_eq(holder(closure), UINT32_MAX);
        fixture_heartbeat(self, &slow, 1, (cadre_u64s_t){NULL, 0});
        fixture_turn(self);
        cr_assert_eq(holder(closure), first);
        fixture_destroy(&self);
    }
}

Test(overruns, a_stall_of_the_coordinator_is_no_time_that_a_closure_ran)
{
    fixture_t *self = cluster(2);
    cadre_closure_t *closure = schedule(self, 5 * DEADLINE_MS);
    fixture_turn(self);
    attend(self, 1000);
    uint32_t first = holder(closure);
    self->now_ms += 9000;
    cadre_core_tick(&self->core, self->now_ms, false);
    attend(self, 3000);
    cr_assert_eq(holder(closure), first);
    attend(self, 2000);
    cr_assert_eq(holder(closure), 1 - first);
    fixture_destroy(&self);
}

Test(overruns, a_closure_without_a_deadline_is_named_after_a_minute_and_when_that_has_doubled)
{
    fixture_t *self = cluster(1);
    schedule(self, 0);
    fixture_turn(self);
    attend(self, 59000);
    cr_assert(!fixture_logged(self, "closure_slow"));
    char text[CADRE_WAITING_TEXT_SIZE];
    cr_assert(strstr(cadre_waiting_words(&self->core.waiting, "closures to end", text),
                     "closures to end; closure 1 (work) has run on worker 0 for 5"));
    attend(self, 2000);
    cr_assert(fixture_logged(self, "closure_slow"));
    fixture_clear(self);
    attend(self, 55000);
    cr_assert(!fixture_logged(self, "closure_slow"));
    attend(self, 10000);
    cr_assert(fixture_logged(self, "closure_slow"));
    fixture_destroy(&self);
}
