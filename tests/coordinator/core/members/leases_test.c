/* Leases: who is presumed dead, and that the coordinator's own stalls are nobody's silence. */
#include "coordinator/core/members/leases.h"

#include "coordinator/status_json.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(leases, .timeout = 240);

enum { LEASE_MS = 10000 };

/* A turn of a shell that comes when it comes. */
static void
turn(fixture_t *self, bool unread)
{
    self->due_ms = cadre_core_tick(&self->core, self->now_ms, unread);
    fixture_collect(self);
}

/* Ticks as often as the core asks for it, for so long. */
static void
attend(fixture_t *self, uint64_t ms)
{
    uint64_t until_ms = self->now_ms + ms;
    while (self->now_ms < until_ms) {
        self->now_ms = self->due_ms < until_ms ? self->due_ms : until_ms;
        turn(self, false);
    }
}

Test(leases, the_core_asks_to_be_called_every_second)
{
    fixture_t *self = cluster(1);
    turn(self, false);
    cr_assert_leq(self->due_ms, self->now_ms + CADRE_TICK_MS_MAX);
    fixture_destroy(&self);
}

Test(leases, nobody_is_lost_over_a_stall_of_the_coordinator)
{
    fixture_t *self = cluster(3);
    turn(self, false);
    self->now_ms += 12 * 1000;
    turn(self, false);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    cr_assert_eq(self->core.totals.ps_lost, 0);
    cr_assert(fixture_logged(self, "local_pause"));
    fixture_destroy(&self);
}

Test(leases, what_was_silent_before_a_stall_and_after_it_is_lost_a_lease_later)
{
    fixture_t *self = cluster(1);
    turn(self, false);
    attend(self, 6000);
    self->now_ms += 60 * 1000;
    turn(self, false);
    attend(self, LEASE_MS - 6000 - 2 * CADRE_TICK_MS_MAX);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    attend(self, 2 * CADRE_TICK_MS_MAX);
    cr_assert_eq(self->core.totals.workers_lost, 1);
    fixture_destroy(&self);
}

Test(leases, a_stall_is_no_time_that_a_lost_ps_has_to_come_back_in)
{
    fixture_t *self = cluster(0);
    fixture_add_variable(self, "v", 4, 1);
    cadre_task_t ps = fixture_ps(0);
    turn(self, false);
    fixture_gone(self, &ps);
    turn(self, false);
    self->now_ms += 10 * self->core.options.ps_timeout_ms;
    turn(self, false);
    cr_assert_eq(self->core.fatal, 0);
    attend(self, self->core.options.ps_timeout_ms + CADRE_TICK_MS_MAX);
    cr_assert_eq(self->core.fatal, CADRE_EUNAVAILABLE);
    fixture_destroy(&self);
}

Test(leases, being_a_little_late_is_no_stall)
{
    fixture_t *self = cluster(1);
    turn(self, false);
    for (int i = 0; i < 10; i++) {
        self->now_ms = self->due_ms + 500;
        turn(self, false);
    }
    cr_assert(!fixture_logged(self, "local_pause"));
    cr_assert_eq(self->core.totals.workers_lost, 1);
    fixture_destroy(&self);
}

Test(leases, nobody_is_lost_while_input_is_unread_but_for_one_lease_at_most)
{
    fixture_t *self = cluster(1);
    turn(self, false);
    attend(self, LEASE_MS - 1);
    for (int i = 0; i < LEASE_MS / 500; i++) {
        turn(self, true);
        cr_assert_eq(self->core.totals.workers_lost, 0);
        self->now_ms += 500;
    }
    turn(self, true);
    cr_assert_eq(self->core.totals.workers_lost, 1);
    fixture_destroy(&self);
}

Test(leases, input_that_has_been_read_puts_nothing_off)
{
    fixture_t *self = cluster(1);
    turn(self, false);
    attend(self, LEASE_MS - 1);
    turn(self, true);
    self->now_ms += 1;
    turn(self, false);
    cr_assert_eq(self->core.totals.workers_lost, 1);
    fixture_destroy(&self);
}

Test(leases, a_closure_is_not_blamed_for_a_lease_that_ran_out)
{
    fixture_t *self = cluster(1);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    turn(self, false);
    attend(self, LEASE_MS);
    cr_assert_eq(self->core.totals.workers_lost, 1);
    cr_assert_eq(closure->suspicion.deaths, 0);
    fixture_destroy(&self);
}

/* It cannot be told from a death at once: the HELLO of the living comes over another connection. */
Test(leases, a_task_that_dials_anew_because_of_an_own_stall_stays)
{
    fixture_t *self = cluster(2);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    cadre_task_t tasks[] = {fixture_ps(0), fixture_worker(0), fixture_worker(1)};
    turn(self, false);
    self->now_ms += 12 * 1000;
    for (size_t i = 0; i < CADRE_COUNT_OF(tasks); i++) {
        fixture_gone(self, &tasks[i]);
    }
    turn(self, false);
    attend(self, CADRE_MUTE_MS);
    fixture_gone(self, &tasks[1]); /* something could not be sent to it */
    fixture_hello(self, &tasks[0]);
    fixture_hello_as(self, &tasks[1], 0, (cadre_u64s_t){(uint64_t[]){closure->id, 1}, 2});
    turn(self, false);
    cr_assert_eq(self->core.totals.ps_lost, 0);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    cr_assert_eq(self->core.recovery.places[0].state, CADRE_PLACE_READY);
    attend(self, LEASE_MS - CADRE_TICK_MS_MAX);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    attend(self, CADRE_TICK_MS_MAX);
    cr_assert_gt(self->core.totals.workers_lost, 0, "worker 1 has died");
    cr_assert_eq(closure->suspicion.deaths, 0);
    fixture_destroy(&self);
}

/* Whatever is sent to it tells again that its connection has closed, and a busy machine is late now
 * and then. */
Test(leases, a_connection_that_closes_after_an_own_stall_lengthens_the_lease_once)
{
    enum { LATE_MS = LEASE_MS / 10 };
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    uint64_t late_ms = 0;
    turn(self, false);
    self->now_ms += 12 * 1000;
    fixture_gone(self, &worker);
    turn(self, false);
    uint64_t since_ms = self->now_ms;
    while (self->core.totals.workers_lost == 0 && self->now_ms < since_ms + 20 * LEASE_MS) {
        attend(self, 2000);
        self->now_ms = self->due_ms + LATE_MS;
        late_ms += LATE_MS;
        fixture_gone(self, &worker);
        turn(self, false);
    }
    cr_assert_eq(self->core.totals.workers_lost, 1);
    uint64_t listened_ms = self->now_ms - since_ms - late_ms;
    cr_expect_geq(listened_ms, CADRE_MUTE_MS + LEASE_MS - LATE_MS);
    cr_expect_leq(listened_ms, CADRE_MUTE_MS + LEASE_MS + 2000 + CADRE_TICK_MS_MAX);
    fixture_destroy(&self);
}

Test(leases, another_stall_leaves_a_task_as_long_to_come_back_as_it_had)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    turn(self, false);
    self->now_ms += 12 * 1000;
    turn(self, false);
    fixture_gone(self, &worker);
    turn(self, false);
    self->now_ms += 60 * 1000;
    turn(self, false);
    attend(self, CADRE_MUTE_MS + LEASE_MS - 2 * CADRE_TICK_MS_MAX);
    cr_assert_eq(self->core.totals.workers_lost, 0);
    attend(self, 3 * CADRE_TICK_MS_MAX);
    cr_assert_eq(self->core.totals.workers_lost, 1);
    fixture_destroy(&self);
}

Test(leases, a_task_whose_connection_closed_gets_no_new_work_before_it_is_heard_again)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    turn(self, false);
    self->now_ms += 12 * 1000;
    turn(self, false);
    fixture_gone(self, &worker);
    fixture_schedule(self, 1);
    turn(self, false);
    attend(self, 1000);
    cr_expect(self->core.membership.workers[0]->suspect);
    cr_expect_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 0);
    cadre_auto(cadre_free) char *status = cadre_core_status_json(&self->core, self->now_ms);
    cr_expect(strstr(status, "\"suspect\""), "%s", status);
    cr_expect_not(strstr(status, "\"silent_ms\":-"), "%s", status);
    fixture_hello(self, &worker);
    turn(self, false);
    cr_expect_not(self->core.membership.workers[0]->suspect);
    cr_expect_eq(fixture_count(self, &worker, CADRE_MESSAGE_CLOSURE), 1);
    fixture_destroy(&self);
}

/* Tasks dial anew when they hear nothing: then the connection before closes. */
Test(leases, a_closure_is_not_blamed_for_a_connection_that_closes_after_an_own_stall)
{
    static const struct {
        uint64_t stall_ms; /* until the connection closes, read before or after the next turn */
        bool is_turned;
        uint32_t deaths;
    } cases[] = {{500, false, 1}, {LEASE_MS, false, 0}, {LEASE_MS, true, 0}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        fixture_t *self = cluster(1);
        cadre_closure_t *closure = fixture_schedule(self, 1);
        cadre_task_t worker = fixture_worker(0);
        turn(self, false);
        self->now_ms += cases[i].stall_ms;
        if (cases[i].is_turned) {
            turn(self, false);
            self->now_ms += 1;
        }
        fixture_gone(self, &worker);
        turn(self, false);
        attend(self, cases[i].deaths ? 0 : CADRE_MUTE_MS + LEASE_MS + CADRE_TICK_MS_MAX);
        cr_assert_eq(self->core.totals.workers_lost, 1);
        cr_expect_eq(closure->suspicion.deaths, cases[i].deaths, "case %zu", i);
        fixture_destroy(&self);
    }
}

Test(leases, a_new_process_in_the_place_of_a_worker_shows_that_it_died_on_the_same_host_only)
{
    for (int same = 0; same < 2; same++) {
        fixture_t *self = cluster(1);
        cadre_closure_t *closure = fixture_schedule(self, 1);
        turn(self, false);
        if (!same) {
            self->core.membership.workers[0]->host[0] = 'H';
        }
        cadre_task_t other = {CADRE_ROLE_WORKER, 0, 4711};
        self->now_ms += CADRE_SUSPECT_MS; /* a place whose holder is heard is not given away */
        fixture_hello(self, &other);
        cr_assert_eq(self->core.totals.workers_lost, 1);
        cr_assert_eq(closure->suspicion.deaths, same ? 1 : 0);
        fixture_destroy(&self);
    }
}

/* All connections end when a key is withdrawn: who joined under another one is back in a moment. */
Test(leases, a_withdrawn_key_costs_those_who_joined_under_it_their_place_and_nobody_else)
{
    enum { STAYS = 11, WITHDRAWN = 12 };
    uint64_t allowed[] = {99, STAYS};
    fixture_t *self = cluster(2);
    cadre_task_t ps = fixture_ps(0);
    cadre_task_t workers[] = {fixture_worker(0), fixture_worker(1)};
    cadre_core_t *core = &self->core;
    turn(self, false);
    cadre_membership_find(&core->membership, ps.incarnation)->key = STAYS;
    cadre_membership_find(&core->membership, workers[0].incarnation)->key = STAYS;
    cadre_membership_find(&core->membership, workers[1].incarnation)->key = WITHDRAWN;
    cadre_core_keys_withdrawn(core, allowed, CADRE_COUNT_OF(allowed), self->now_ms);
    cr_assert_eq(core->totals.workers_lost, 1);
    cr_assert_null(cadre_membership_find(&core->membership, workers[1].incarnation));
    cadre_core_gone(core, &ps, self->now_ms);
    cadre_core_gone(core, &workers[0], self->now_ms);
    turn(self, false);
    cr_assert_eq(core->totals.workers_lost, 1);
    cr_assert_eq(core->totals.ps_lost, 0);

    attend(self, CADRE_MUTE_MS);
    cadre_core_gone(core, &ps, self->now_ms);
    cr_assert_eq(core->totals.ps_lost, 1, "a connection that closes later tells of a death");
    attend(self, LEASE_MS + 2 * CADRE_TICK_MS_MAX);
    cr_assert_eq(core->totals.workers_lost, 2, "who does not come back is dead");
    fixture_destroy(&self);
}
