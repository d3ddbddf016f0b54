/* Second attempts at closures that take much longer than usual. */
#include "coordinator/core/dispatch/backups.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(backups, .timeout = 240);

enum {
    USUAL_MS = 100,
    SLOW_MS = 2 * USUAL_MS, /* slow for certain */
    USUAL_COUNT = 20,       /* closures that ended in the usual time */
};

/* Time passes, everybody is heard, and the core is called as often as it asks for. */
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

static uint32_t
holder(const cadre_closure_t *closure)
{
    return closure->state == CADRE_CLOSURE_IN_FLIGHT ? closure->worker->index : UINT32_MAX;
}

/* A job with so many workers of one slot, where `ended` closures have taken USUAL_MS. */
static fixture_t *
job_after(uint32_t ended, uint32_t workers, uint32_t backup_attempts)
{
    fixture_t *self = cluster(workers);
    self->core.options.backup_attempts = backup_attempts;
    for (uint32_t i = 0; i < ended; i++) {
        cadre_closure_t *closure = fixture_schedule(self, 1);
        fixture_turn(self);
        cadre_task_t worker = fixture_worker(holder(closure));
        attend(self, USUAL_MS);
        fixture_done(self, &worker, closure->id, 1);
        fixture_turn(self);
    }
    self->ended_count = 0;
    fixture_clear(self);
    return self;
}

static fixture_t *
job(uint32_t workers, uint32_t backup_attempts)
{
    return job_after(USUAL_COUNT, workers, backup_attempts);
}

/* Schedules a closure; returns it, and in `*worker` who has it. */
static cadre_closure_t *
begin(fixture_t *self, cadre_task_t *worker)
{
    cadre_closure_t *closure = fixture_schedule(self, 2);
    fixture_turn(self);
    *worker = fixture_worker(holder(closure));
    return closure;
}

Test(backups, an_idle_worker_tries_what_is_slow_and_the_first_report_wins)
{
    for (int first_wins = 0; first_wins < 2; first_wins++) {
        fixture_t *self = job(2, 1);
        cadre_task_t first;
        cadre_closure_t *closure = begin(self, &first);
        cadre_task_t second = fixture_worker(1 - first.index);

        attend(self, USUAL_MS);
        cr_assert_eq(holder(closure), first.index, "it is not slow yet");
        attend(self, SLOW_MS - USUAL_MS);
        cr_assert_eq(holder(closure), second.index);
        cr_assert_eq(closure->attempt, 2);
        cr_assert_eq(fixture_count(self, &first, CADRE_MESSAGE_CANCEL), 0, "it goes on");
        cr_assert(fixture_logged(self, "backup_attempt"));
        cr_assert_eq(self->core.attempts.racing, 1);

        fixture_done(self, first_wins ? &first : &second, closure->id, first_wins ? 1 : 2);
        fixture_turn(self);
        cr_assert_eq(self->ended_count, 1);
        cr_assert_eq(self->ended[0].status, 0);
        cr_assert_eq(fixture_count(self, first_wins ? &second : &first, CADRE_MESSAGE_CANCEL), 1);
        cr_assert_eq(fixture_count(self, first_wins ? &first : &second, CADRE_MESSAGE_CANCEL), 0);
        cr_assert_eq(self->core.attempts.racing, 0);
        cr_assert_eq(self->core.attempts.backups, 1);
        cr_assert_eq(self->core.attempts.backups_won, first_wins ? 0 : 1);
        fixture_destroy(&self);
    }
}

Test(backups, without_the_option_there_are_none)
{
    fixture_t *self = job(2, 0);
    cadre_task_t first;
    const cadre_closure_t *closure = begin(self, &first);
    attend(self, 100 * USUAL_MS);
    cr_assert_eq(holder(closure), first.index);
    cr_assert_eq(closure->attempt, 1);
    fixture_destroy(&self);
}

Test(backups, nothing_is_slow_before_it_is_known_what_is_usual)
{
    fixture_t *self = job_after(4, 2, 1);
    cadre_task_t first;
    const cadre_closure_t *closure = begin(self, &first);
    attend(self, 100 * USUAL_MS);
    cr_assert_eq(closure->attempt, 1);
    fixture_destroy(&self);
}

Test(backups, a_closure_has_two_attempts_at_a_time_at_most)
{
    fixture_t *self = job(3, 3);
    cadre_task_t first;
    const cadre_closure_t *closure = begin(self, &first);
    attend(self, 10 * SLOW_MS);
    cr_assert_eq(closure->attempt, 2);
    cr_assert_eq(self->core.attempts.racing, 1);
    fixture_destroy(&self);
}

Test(backups, there_are_at_most_as_many_at_a_time_as_the_options_say)
{
    fixture_t *self = job(4, 1);
    cadre_task_t workers[2];
    const cadre_closure_t *closures[2];
    for (int i = 0; i < 2; i++) {
        closures[i] = begin(self, &workers[i]);
    }
    attend(self, 5 * SLOW_MS);
    cr_assert_eq(closures[0]->attempt + closures[1]->attempt, 3);
    const int raced = closures[0]->attempt == 2 ? 0 : 1;
    fixture_done(self, &workers[raced], closures[raced]->id, 1);
    attend(self, 50);
    cr_assert_eq(closures[1 - raced]->attempt, 2, "now there is room for it");
    fixture_destroy(&self);
}

Test(backups, a_slow_closure_that_has_not_begun_is_moved)
{
    fixture_t *self = job(1, 1);
    cadre_task_t slow = fixture_worker(0);
    const cadre_closure_t *closures[] = {fixture_schedule(self, 2), fixture_schedule(self, 3)};
    fixture_turn(self);
    cr_assert_eq(holder(closures[1]), 0, "it waits behind the other one");
    attend(self, SLOW_MS);
    cadre_task_t other = fixture_worker(1);
    fixture_hello(self, &other);
    fixture_turn(self);
    attend(self, 50);
    cr_assert_eq(closures[0]->attempt, 2);
    fixture_done(self, &other, closures[0]->id, 2);
    fixture_clear(self);
    attend(self, 50);
    cr_assert_eq(holder(closures[1]), 1);
    cr_assert_eq(self->core.attempts.racing, 0, "nobody else has it");
    cr_assert_eq(fixture_count(self, &slow, CADRE_MESSAGE_CANCEL), 2, "of both");
    cr_assert(fixture_logged(self, "backup_attempt"));
    fixture_destroy(&self);
}

Test(backups, a_worker_that_lags_gets_work_after_all_others)
{
    fixture_t *self = job(3, 1);
    cadre_task_t first;
    cadre_closure_t *closure = begin(self, &first);
    const uint64_t id = closure->id;
    attend(self, SLOW_MS);
    cadre_task_t second = fixture_worker(holder(closure));
    fixture_done(self, &second, id, 2);
    fixture_done(self, &first, id, 1); /* it was told to stop, too late */
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_neq(holder(fixture_schedule(self, 3 + i)), first.index);
        fixture_turn(self);
    }
    const cadre_member_t *lags = self->core.membership.workers[first.index];
    cr_assert(lags->lags);
    cr_assert_eq(lags->in_flight.count, 0, "the others have room");
    cadre_closure_t *last = fixture_schedule(self, 9);
    fixture_turn(self);
    cr_assert_eq(holder(last), first.index, "they have none");
    attend(self, USUAL_MS);
    fixture_done(self, &first, last->id, 1);
    cr_assert(!lags->lags);
    fixture_destroy(&self);
}

Test(backups, the_loss_of_either_worker_leaves_the_other_attempt)
{
    for (int first_dies = 0; first_dies < 2; first_dies++) {
        fixture_t *self = job(2, 1);
        cadre_task_t first;
        cadre_closure_t *closure = begin(self, &first);
        cadre_task_t second = fixture_worker(1 - first.index);
        attend(self, SLOW_MS);
        cr_assert_eq(holder(closure), second.index);
        fixture_gone(self, first_dies ? &first : &second);
        fixture_turn(self);
        cr_assert_eq(self->ended_count, 0);
        fixture_done(self, first_dies ? &second : &first, closure->id, first_dies ? 2 : 1);
        fixture_turn(self);
        cr_assert_eq(self->ended_count, 1);
        cr_assert_eq(self->ended[0].status, 0);
        cr_assert_eq(self->core.attempts.racing, 0);
        fixture_destroy(&self);
    }
}
