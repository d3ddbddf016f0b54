/* Ranges of a streamed dataset, through the core: who gets which batches. */
#include "coordinator/core/dispatch/range_owners.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(range_owners, .timeout = 240);

enum { RANGES = 4, WORKERS_MAX = 3, CLOSURES_MAX = 4000 };

/* A cluster of workers of one slot that read a dataset of four ranges, and what each has of it. */
typedef struct {
    fixture_t *core;
    uint32_t workers;
    uint32_t scheduled;
    uint32_t ranges[CLOSURES_MAX + 1];        /* by id: the range of the closure */
    uint32_t given[WORKERS_MAX][RANGES];      /* closures that a worker was given of a range */
    uint64_t held[WORKERS_MAX][CLOSURES_MAX]; /* ids that a worker has, the oldest first */
    size_t held_count[WORKERS_MAX];
    uint32_t ended;
} job_t;

static void
join_worker(job_t *self, uint32_t index)
{
    cadre_task_t task = fixture_worker(index);
    cadre_member_t *member = cadre_membership_find(&self->core->core.membership, task.incarnation);
    cr_assert_not_null(member);
    cadre_id_set_put(&member->abilities.admitted, 1);
}

static job_t *
job_new(uint32_t workers)
{
    job_t *self = cadre_calloc(1, sizeof(*self));
    self->core = fixture_new_cluster(1, workers);
    self->workers = workers;
    cadre_dataset_t *dataset = NULL;
    cr_assert_eq(cadre_catalogue_add_dataset(&self->core->core.catalogue, "train",
                                             "{\"format\": \"csv\", \"path\": \"a\", "
                                             "\"streaming\": true, \"ranges\": 4}",
                                             &dataset),
                 0);
    cr_assert_eq(dataset->ranges, RANGES);
    for (uint32_t i = 0; i < workers; i++) {
        join_worker(self, i);
    }
    return self;
}

static void
job_destroy(job_t **self_p)
{
    fixture_destroy(&(*self_p)->core);
    cadre_free(self_p);
}

/* Schedules the next batch, of the range whose turn it is. */
static void
schedule_as(job_t *self, cadre_priority_t priority)
{
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self->core)->id);
    closure->priority = priority;
    closure->variables = self->scheduled;
    closure->batches = cadre_calloc(4, sizeof(uint64_t));
    closure->batches[0] = 1;
    closure->batches[2] = self->scheduled;
    closure->batches[3] = 1;
    closure->batch_items = 4;
    closure->ranges = RANGES;
    closure->range = 1 + self->scheduled % RANGES;
    self->scheduled++;
    self->ranges[self->scheduled] = closure->range - 1; /* its id, as ids are given in this order */
    fixture_watch(self->core, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core->core.queue, closure), 0);
}

static void
schedule(job_t *self)
{
    schedule_as(self, CADRE_PRIORITY_NORMAL);
}

/* Lets a turn pass, and takes note of who was given what. */
static void
turn(job_t *self)
{
    fixture_turn(self->core);
    for (uint32_t i = 0; i < self->workers; i++) {
        cadre_task_t task = fixture_worker(i);
        for (size_t k = 0; k < fixture_count(self->core, &task, CADRE_MESSAGE_CLOSURE); k++) {
            const cadre_closure_message_t *closure =
                &fixture_sent(self->core, &task, CADRE_MESSAGE_CLOSURE, k)->closure;
            /* the position tells which closure it is: its id must tell the same */
            cr_assert_eq(closure->batches.items[2] + 1, closure->id);
            self->given[i][self->ranges[closure->id]]++;
            self->held[i][self->held_count[i]++] = closure->id;
        }
    }
    fixture_clear(self->core);
}

/* A worker ends its oldest closure, if it has one; returns whether it had. */
static bool
end_one(job_t *self, uint32_t worker)
{
    if (self->held_count[worker] == 0) {
        return false;
    }
    cadre_task_t task = fixture_worker(worker);
    const cadre_closure_t *closure =
        cadre_begun_find(&self->core->core.begun, self->held[worker][0]);
    fixture_done_in(self->core, &task, self->held[worker][0], closure->attempt, 100000);
    self->held_count[worker]--;
    memmove(self->held[worker], self->held[worker] + 1,
            self->held_count[worker] * sizeof(uint64_t));
    self->ended++;
    return true;
}

static uint32_t
ranges_of(const job_t *self, uint32_t worker)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RANGES; i++) {
        count += self->given[worker][i] > 0;
    }
    return count;
}

/* Two workers end about as many closures as each other, but not in turn. Returns whether both had
 * one when they were to end it. */
static bool
end_out_of_step(job_t *self, int turn)
{
    bool has = turn % 5 == 2 || end_one(self, 0);
    has = (turn % 5 != 4 || end_one(self, 0)) && has;
    return (turn % 7 == 3 || end_one(self, 1)) && has;
}

/* Each of two workers was given two ranges, and none of the other's. */
static void
expect_shares(const job_t *self)
{
    cr_expect_eq(ranges_of(self, 0), 2);
    cr_expect_eq(ranges_of(self, 1), 2);
    for (uint32_t i = 0; i < RANGES; i++) {
        cr_expect(self->given[0][i] == 0 || self->given[1][i] == 0, "range %u", i);
    }
}

Test(range_owners, a_worker_gets_the_batches_of_its_share_of_the_ranges)
{
    job_t *self = job_new(2);
    for (int i = 0; i < 400; i++) {
        schedule(self);
    }
    for (int i = 0; i < 150; i++) {
        turn(self);
        cr_assert(end_out_of_step(self, i));
    }
    expect_shares(self);
    for (uint32_t i = 0; i < RANGES; i++) {
        cr_expect_gt(self->given[0][i] + self->given[1][i], 60, "range %u", i);
    }
    job_destroy(&self);
}

Test(range_owners, one_worker_gets_all_in_the_order_of_the_queue)
{
    job_t *self = job_new(1);
    for (int i = 0; i < 50; i++) {
        schedule(self);
    }
    for (uint64_t i = 1; i <= 50; i++) {
        turn(self);
        cr_assert_eq(self->held[0][0], i);
        cr_assert(end_one(self, 0));
    }
    job_destroy(&self);
}

/* One in three has no share of its own: it is given one of somebody who has two. */
Test(range_owners, a_worker_without_a_range_gets_one_of_another)
{
    job_t *self = job_new(3);
    for (int i = 0; i < 900; i++) {
        schedule(self);
    }
    for (int i = 0; i < 200; i++) {
        turn(self);
        cr_assert(end_one(self, 0) && end_one(self, 1) && end_one(self, 2), "none is idle");
    }
    job_destroy(&self);
}

/* The owner of two ranges does nothing: the other runs ahead with its own as far as it may, and
 * then does those as well. Only what the first one has been given is left. */
Test(range_owners, a_worker_does_not_wait_for_a_slow_one)
{
    job_t *self = job_new(2);
    for (int i = 0; i < 400; i++) {
        schedule(self);
    }
    turn(self);
    const size_t stuck = self->held_count[0];
    cr_assert_gt(stuck, 0);
    for (size_t i = 0; i < 400 - stuck; i++) {
        turn(self);
        cr_assert(end_one(self, 1), "after %zu", i);
        cr_assert_eq(self->held_count[0], stuck);
    }
    cr_expect_eq(ranges_of(self, 1), RANGES);
    job_destroy(&self);
}

Test(range_owners, the_ranges_of_a_lost_worker_go_to_the_others)
{
    job_t *self = job_new(2);
    for (int i = 0; i < 40; i++) {
        schedule(self);
    }
    turn(self);
    cadre_task_t lost = fixture_worker(0);
    fixture_gone(self->core, &lost);
    self->held_count[0] = 0;
    for (int i = 0; i < 40; i++) {
        turn(self);
        cr_assert(end_one(self, 1));
    }
    cr_expect_eq(self->ended, 40);
    cr_expect_eq(ranges_of(self, 1), RANGES);
    job_destroy(&self);
}

/* Little is queued at a time, as in a synchronous step of two: ranges stay. */
Test(range_owners, of_a_short_queue_each_gets_its_own)
{
    job_t *self = job_new(2);
    for (uint32_t i = 0; i < 40; i++) {
        schedule(self);
        schedule(self);
        turn(self);
        cr_assert_eq(self->held_count[0] + self->held_count[1], 2, "nothing waits");
        while (end_one(self, i % 2) || end_one(self, 1 - i % 2)) {
        }
    }
    expect_shares(self);
    job_destroy(&self);
}

Test(range_owners, a_high_batch_passes_those_that_have_an_id)
{
    job_t *self = job_new(1);
    for (int i = 0; i < 100; i++) {
        schedule(self);
    }
    turn(self);
    const size_t numbered = self->core->core.queue.lanes.begun;
    cr_assert_gt(numbered, 0);
    schedule_as(self, CADRE_PRIORITY_HIGH);
    cr_assert(end_one(self, 0));

    fixture_turn(self->core);
    cadre_task_t task = fixture_worker(0);
    cr_assert_geq(fixture_count(self->core, &task, CADRE_MESSAGE_CLOSURE), 1);
    cr_expect_eq(
        fixture_sent(self->core, &task, CADRE_MESSAGE_CLOSURE, 0)->closure.batches.items[2], 100);
    job_destroy(&self);
}

Test(range_owners, a_pause_does_not_wait_for_those_that_only_have_an_id)
{
    job_t *self = job_new(1);
    for (int i = 0; i < 100; i++) {
        schedule(self);
    }
    turn(self);
    cadre_pause_t *pause = &self->core->core.pause;
    cadre_pause_begin(pause);
    cr_expect_not(cadre_pause_is_still(pause));
    while (end_one(self, 0)) {
    }
    turn(self);
    cr_expect_eq(self->held_count[0], 0);
    cr_expect(cadre_pause_is_still(pause));

    cadre_pause_end(pause);
    turn(self);
    cr_expect_gt(self->held_count[0], 0);
    job_destroy(&self);
}
