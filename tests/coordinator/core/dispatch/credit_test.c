/* How many closures a worker is given at once, and when its reports are acknowledged. */
#include "tests/coordinator/core_fixture.h"

TestSuite(credit, .timeout = 240);

static const cadre_u64s_t nothing = {NULL, 0};

/* A worker that ends `per_ms` closures each ms for 50 ms; its credit then. */
static uint32_t
credit_after(fixture_t *self, const cadre_task_t *worker, uint32_t rounds, uint32_t slots)
{
    cadre_member_t *member = cadre_membership_find(&self->core.membership, worker->incarnation);
    member->slots = slots;
    uint64_t id = self->core.begun.next_id;
    for (uint32_t round = 0; round < rounds; round++) {
        self->now_ms += 51;
        while (self->core.queue.lanes.common < 990) {
            fixture_schedule(self, 1);
        }
        fixture_turn(self);
        for (; id < self->core.begun.next_id; id++) {
            fixture_done(self, worker, id, 1);
        }
        fixture_clear(self);
        self->ended_count = 0;
    }
    return member->credit;
}

Test(credit, the_credit_of_a_fast_worker_grows_to_its_limit_and_shrinks_again)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    /* One report per closure and 50 ms: the credit is what it ended in 10 ms, and twice its slots.
     */
    cr_assert_leq(credit_after(self, &worker, 20, 1), 4);
    cadre_member_t *member = self->core.membership.workers[0];
    for (int i = 0; i < 20; i++) {
        member->ended += 100000;
        self->now_ms += 51;
        fixture_schedule(self, 1);
        fixture_turn(self);
    }
    cr_assert_eq(member->credit, 512);
    for (int i = 0; i < 20; i++) {
        fixture_done(self, &worker, self->core.begun.next_id - 1, 1);
        fixture_schedule(self, 1);
        self->now_ms += 2000;
        fixture_heartbeat(self, &worker, 100 + (uint64_t)i, nothing);
        fixture_turn(self);
    }
    cr_assert_eq(member->credit, 2);
    fixture_destroy(&self);
}

/* All that `worker` was sent since the record was cleared has ended, each after `took_us`; how many
 * there were. `runs`: in how many rows of successive ids. */
static size_t
end_all_sent(fixture_t *self, const cadre_task_t *worker, uint64_t took_us, size_t *runs)
{
    size_t count = fixture_count(self, worker, CADRE_MESSAGE_CLOSURE);
    uint64_t last = 0;
    *runs = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t id = fixture_sent(self, worker, CADRE_MESSAGE_CLOSURE, i)->closure.id;
        *runs += id != last + 1;
        last = id;
        fixture_done_in(self, worker, id, 1, took_us);
    }
    return count;
}

Test(credit, a_long_queue_of_short_closures_is_handed_out_in_batches_that_shrink)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    size_t most = 0;
    size_t runs = 0;
    for (uint32_t i = 1; i <= 900; i++) {
        fixture_schedule(self, i);
    }
    for (size_t left = 900; left > 0;) {
        self->now_ms += 51;
        fixture_clear(self);
        fixture_turn(self);
        size_t counts[2];
        for (size_t i = 0; i < 2; i++) {
            size_t rows = 0;
            counts[i] = end_all_sent(self, &workers[i], 150, &rows);
            most = counts[i] > most ? counts[i] : most;
            runs += rows;
            left -= counts[i];
        }
        cr_assert_gt(counts[0] + counts[1], 0);
        size_t apart = counts[0] > counts[1] ? counts[0] - counts[1] : counts[1] - counts[0];
        cr_assert(left > 0 || apart <= 1, "they end together: %zu and %zu", counts[0], counts[1]);
    }
    cr_assert_eq(most, 64, "twice what is handed out in a row");
    cr_assert_lt(runs, 60, "%zu rows of 900 closures", runs);
    fixture_destroy(&self);
}

/* The most closures that one worker of two is handed while no more than two wait for each of them.
 * */
static size_t
most_of_a_short_queue(uint64_t took_us)
{
    fixture_t *self = cluster(2);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    size_t most = 0;
    for (int round = 0; round < 300; round++) {
        self->now_ms += 51;
        for (uint32_t i = 1; i <= 4; i++) {
            fixture_schedule(self, i);
        }
        fixture_clear(self);
        fixture_turn(self);
        for (size_t i = 0; i < 2; i++) {
            size_t rows = 0;
            size_t count = end_all_sent(self, &workers[i], took_us, &rows);
            most = count > most ? count : most;
        }
    }
    fixture_destroy(&self);
    return most;
}

Test(credit, closures_that_end_at_once_share_a_message_while_others_are_idle)
{
    cr_assert_eq(most_of_a_short_queue(5), 4);
    cr_assert_eq(most_of_a_short_queue(1000), 2);
}

Test(credit, reports_are_acknowledged_with_the_next_closures_or_heartbeat)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_schedule(self, 2);
    fixture_turn(self);
    fixture_clear(self);
    fixture_done(self, &worker, 1, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_ACK), 0, "it runs another one");
    fixture_schedule(self, 3);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_ACK), 1);
    fixture_clear(self);
    fixture_done(self, &worker, 2, 1);
    fixture_heartbeat(self, &worker, 1, (cadre_u64s_t){(const uint64_t[]){3, 1}, 2});
    fixture_turn(self);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_ACK, 0)->ack.reports.count, 2);
    fixture_clear(self);
    fixture_done(self, &worker, 3, 1);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_ACK), 1, "it has nothing else to do");
    fixture_destroy(&self);
}

Test(credit, a_worker_of_many_slots_has_credit_for_all_of_them)
{
    fixture_t *self = cluster(1);
    cadre_member_t *member = self->core.membership.workers[0];
    member->slots = CADRE_SLOTS_MAX;
    for (int i = 0; i < 5; i++) {
        self->now_ms += 51;
        fixture_schedule(self, 1);
        fixture_turn(self);
        cr_assert_geq(member->credit, 2 * CADRE_SLOTS_MAX);
    }
    fixture_destroy(&self);
}
