/* Groups: which error they keep, and what a failure of one does to others. */
#include "coordinator/core/closures/closure_group.h"

#include <criterion/criterion.h>
#include <string.h>

#include "coordinator/core/closures/closure_queue.h"

TestSuite(closure_group, .timeout = 240);

typedef struct {
    cadre_closure_queue_t queue;
    cadre_closure_group_t *stops;
    cadre_closure_group_t *goes_on;
} stage_t;

static void
stage_open(stage_t *self)
{
    cadre_closure_queue_init(&self->queue, 100);
    self->stops = cadre_closure_group_new(false);
    self->goes_on = cadre_closure_group_new(true);
}

static void
stage_close(stage_t *self)
{
    cadre_closure_queue_fini(&self->queue);
    cadre_closure_group_unref(&self->stops);
    cadre_closure_group_unref(&self->goes_on);
}

/* A closure of a group (NULL: of none) that takes a result of another (NULL: of none). */
static cadre_closure_t *
put(stage_t *self, cadre_closure_group_t *group, const cadre_closure_t *from)
{
    cadre_closure_t *closure = cadre_closure_new(1);
    closure->group = group ? cadre_closure_group_ref(group) : NULL;
    closure->results = cadre_results_new();
    if (from) {
        cadre_closure_add_argument(closure, "a", NULL, from->results);
    }
    cr_assert_eq(cadre_closure_queue_put(&self->queue, closure), 0);
    return closure;
}

static void
fail(stage_t *self, cadre_closure_t *closure, const char *text)
{
    cadre_closure_queue_finish(&self->queue, closure,
                               &(cadre_closure_end_t){.status = CADRE_EFUNCTION, .text = text});
}

static void
expect_raised(cadre_closure_group_t *group, int status, const char *text)
{
    char raised[CADRE_CLOSURE_ERROR_SIZE] = "";
    cr_expect_eq(cadre_closure_queue_raise_of(group, raised), status);
    cr_expect_str_eq(raised, text);
}

Test(closure_group, keeps_the_first_error_and_counts_the_others)
{
    char text[CADRE_CLOSURE_ERROR_SIZE] = "";
    cadre_closure_group_t *group = cadre_closure_group_new(true);
    cr_expect_eq(cadre_closure_group_take_error(group, text), 0);
    cadre_closure_group_note_error(group, CADRE_EFUNCTION, "one");
    cadre_closure_group_note_error(group, CADRE_EPOISON, "two");
    cr_expect_eq(cadre_closure_group_take_error(group, text), CADRE_EFUNCTION);
    cr_expect_str_eq(text, "one (and 1 more failed)");
    cr_expect_eq(cadre_closure_group_take_error(group, text), 0);
    cadre_closure_group_unref(&group);
}

Test(closure_group, a_failure_in_flight_is_raised_when_the_group_has_nothing_in_flight)
{
    stage_t self;
    stage_open(&self);
    cadre_closure_t *first = put(&self, self.stops, NULL);
    cadre_closure_t *second = put(&self, self.stops, NULL);
    const cadre_closure_t *queued = put(&self, self.stops, NULL);
    cadre_closure_t *other = put(&self, self.goes_on, NULL);
    cadre_closure_t *own = put(&self, NULL, NULL);
    cadre_closure_t *in_flight[] = {first, second, other, own};
    for (size_t i = 0; i < 4; i++) {
        cadre_closure_queue_begin(&self.queue, in_flight[i]);
    }

    fail(&self, first, "cold");
    cr_expect_eq(queued->end_status, CADRE_ECANCELLED);
    cr_expect(cadre_closure_queue_is_cancelled(&self.queue, second));
    cr_expect_not(cadre_closure_queue_is_cancelled(&self.queue, other));
    cr_expect_not(cadre_closure_queue_is_cancelled(&self.queue, own));
    expect_raised(self.stops, CADRE_EAGAIN, "");
    expect_raised(&self.queue.own, 0, "");

    cadre_closure_queue_put_back(&self.queue, second);
    cr_expect_eq(second->state, CADRE_CLOSURE_ENDED);
    cr_expect_not(cadre_closure_queue_is_cancelling(&self.queue));
    expect_raised(self.stops, CADRE_EFUNCTION, "cold");
    cadre_closure_queue_finish(&self.queue, other, &(cadre_closure_end_t){.status = 0});
    cadre_closure_queue_finish(&self.queue, own, &(cadre_closure_end_t){.status = 0});
    stage_close(&self);
}

Test(closure_group, a_failure_goes_on_to_the_groups_of_those_that_take_its_results)
{
    stage_t self;
    stage_open(&self);
    cadre_closure_t *source = put(&self, self.goes_on, NULL);
    const cadre_closure_t *taker = put(&self, self.stops, source);
    const cadre_closure_t *beside = put(&self, self.stops, NULL);
    const cadre_closure_t *last = put(&self, NULL, beside);
    const cadre_closure_t *again = put(&self, self.goes_on, taker);
    cadre_closure_t *alone = put(&self, self.goes_on, NULL);
    cadre_closure_queue_begin(&self.queue, source);

    fail(&self, source, "cold");
    cr_expect_eq(taker->end_status, CADRE_EFUNCTION);
    cr_expect_eq(again->end_status, CADRE_EFUNCTION, "as the first that failed");
    cr_expect_eq(beside->end_status, CADRE_ECANCELLED, "its group has failed");
    cr_expect_eq(last->end_status, CADRE_ECANCELLED, "what it would take is cancelled");
    cr_expect_eq(alone->state, CADRE_CLOSURE_QUEUED);
    expect_raised(self.goes_on, CADRE_EFUNCTION, "cold");
    expect_raised(self.stops, CADRE_EFUNCTION, "cold");
    expect_raised(&self.queue.own, CADRE_ECANCELLED, "cancelled");
    cadre_closure_queue_begin(&self.queue, alone);
    cadre_closure_queue_finish(&self.queue, alone, &(cadre_closure_end_t){.status = 0});
    cr_expect_eq(self.goes_on->totals.failed, 2);
    cr_expect_eq(self.goes_on->totals.finished, 1);
    cr_expect_eq(self.stops->totals.cancelled, 1);
    stage_close(&self);
}

Test(closure_group, a_failure_that_nobody_can_join_is_the_queues)
{
    stage_t self;
    stage_open(&self);
    cadre_closure_queue_report(&self.queue, self.stops, CADRE_EPOISON, "here");
    expect_raised(self.stops, CADRE_EPOISON, "here");
    cadre_closure_group_forsake(self.stops);
    cadre_closure_queue_report(&self.queue, self.stops, CADRE_EPOISON, "there");
    expect_raised(self.stops, 0, "");
    expect_raised(&self.queue.own, CADRE_EPOISON, "there");
    stage_close(&self);
}
