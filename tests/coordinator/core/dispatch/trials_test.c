/* Closures that may have killed their workers: tried alone, where nobody died of them; poison is
 * found, and what dies with others is not taken for it. */
#include "coordinator/core/dispatch/trials.h"

#include "common/base/random.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(trials, .timeout = 240);

static cadre_task_t
process(uint32_t index, uint64_t life)
{
    return (cadre_task_t){CADRE_ROLE_WORKER, index, 10000 * (index + 1) + life};
}

/* Who has the closure, NULL for nobody. */
static const cadre_member_t *
holder_of(const cadre_closure_t *closure)
{
    return closure->state == CADRE_CLOSURE_IN_FLIGHT ? closure->worker : NULL;
}

/* Lets it die with its workers until it is suspect, one place after the other from `first` on. */
static void
make_suspect(fixture_t *self, cadre_closure_t *closure, uint32_t first)
{
    for (uint32_t i = 0; i < CADRE_SUSPECT_DEATHS; i++) {
        cadre_task_t worker = process(first + i, 0);
        fixture_hello(self, &worker);
        fixture_turn(self);
        cr_assert_eq(holder_of(closure), self->core.membership.workers[first + i]);
        fixture_gone(self, &worker);
    }
    cr_assert(cadre_suspicion_is_strong(&closure->suspicion));
    fixture_clear(self);
}

Test(trials, a_suspect_runs_alone_when_its_worker_has_ended_what_it_had)
{
    fixture_t *self = fixture_new(1);
    fixture_join_ps(self);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    make_suspect(self, closure, 5);
    closure->tag = CADRE_TAG_NONE;
    cadre_task_t worker = fixture_worker(0);
    fixture_hello(self, &worker);
    cadre_member_t *member = self->core.membership.workers[0];
    fixture_schedule(self, 2);
    cadre_members_drain(&self->core.members, member);
    fixture_turn(self);
    cr_assert_null(holder_of(closure), "who drains tries nothing");
    member->draining = false;
    member->drain_asked = false;
    member->trial_closure = 0;
    fixture_turn(self);
    cr_assert_eq(holder_of(closure), member);
    fixture_schedule(self, 3);
    fixture_turn(self);
    cr_assert_eq(member->in_flight.count, 1);
    self->now_ms += CADRE_ALONE_MS;
    cadre_membership_heard(member, self->now_ms);
    cadre_membership_heard(self->core.membership.ps[0], self->now_ms);
    fixture_turn(self);
    cr_assert_eq(member->in_flight.count, 2, "it may only be slow");
    fixture_done(self, &worker, closure->id, closure->attempt);
    cr_assert_eq(self->core.apart.closures.count, 0);
    cr_assert_eq(member->trial_closure, 0);
    fixture_destroy(&self);
}

Test(trials, a_busy_worker_ends_first_what_it_has)
{
    fixture_t *self = fixture_new(1);
    fixture_join_ps(self);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    make_suspect(self, closure, 5);
    self->core.apart.closures.count = 0; /* hides it for a moment */
    cadre_u64_map_fini(&self->core.apart.closures);
    cadre_task_t worker = fixture_worker(0);
    fixture_hello(self, &worker);
    cadre_closure_t *other = fixture_schedule(self, 2);
    fixture_turn(self);
    cr_assert_not_null(holder_of(other));
    cadre_apart_add(&self->core.apart, closure);
    fixture_schedule(self, 3);
    fixture_turn(self);
    cr_assert_null(holder_of(closure));
    cr_assert_eq(self->core.membership.workers[0]->in_flight.count, 1, "the trial comes first");
    fixture_done(self, &worker, other->id, 1);
    fixture_turn(self);
    cr_assert_eq(holder_of(closure), self->core.membership.workers[0]);
    fixture_destroy(&self);
}

/* Ten processes that join, take what is there and die: the healthy one has it in the end. */
/* A replay holds back what comes after an assignment that it repeats: a worker that was kept free
 * for that may be the only one for what the assignment waits for (simulation, seed 23643). */
Test(trials, no_worker_is_kept_free_for_a_suspect_that_may_not_go)
{
    fixture_t *self = fixture_new(1);
    fixture_join_ps(self);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    make_suspect(self, closure, 5);
    self->core.apart.closures.count = 0; /* hides it for a moment */
    cadre_u64_map_fini(&self->core.apart.closures);
    cadre_task_t worker = fixture_worker(0);
    fixture_hello(self, &worker);
    fixture_schedule(self, 2);
    fixture_turn(self);
    cadre_member_t *member = self->core.membership.workers[0];
    cadre_apart_add(&self->core.apart, closure);
    fixture_turn(self);
    cr_assert_eq(member->trial_closure, closure->id, "when it has ended what it has");
    self->core.queue.cancelling = true;
    cr_assert_not(cadre_dispatcher_may_go(&self->core.dispatcher, closure));
    fixture_turn(self);
    cr_expect_eq(member->trial_closure, 0);
    self->core.queue.cancelling = false;
    fixture_turn(self);
    cr_expect_eq(member->trial_closure, closure->id);
    fixture_destroy(&self);
}

Test(trials, newcomers_that_come_and_die_condemn_nothing_while_somebody_is_there_for_long)
{
    fixture_t *self = cluster(1);
    cadre_task_t healthy = fixture_worker(0);
    cadre_member_t *member = self->core.membership.workers[0];
    cadre_closure_t *busy = fixture_schedule(self, 1);
    cadre_closure_t *more = fixture_schedule(self, 2);
    fixture_turn(self);
    cr_assert_eq(member->in_flight.count, 2);
    cadre_closure_t *closure = fixture_schedule(self, 3);
    for (uint32_t i = 0; i < 2 * CADRE_POISON_DEATHS; i++) {
        self->now_ms += 1000;
        cadre_membership_heard(member, self->now_ms);
        cadre_membership_heard(self->core.membership.ps[0], self->now_ms);
        cadre_task_t newcomer = process(1 + i, 0);
        fixture_hello(self, &newcomer);
        fixture_turn(self);
        fixture_gone(self, &newcomer);
        fixture_turn(self);
        fixture_clear(self);
    }
    cr_assert_eq(self->ended_count, 0);
    cr_assert_lt(closure->suspicion.deaths, CADRE_POISON_DEATHS);
    fixture_done(self, &healthy, busy->id, 1);
    fixture_done(self, &healthy, more->id, 1);
    fixture_turn(self);
    cr_assert_eq(holder_of(closure), member);
    fixture_destroy(&self);
}

Test(trials, places_and_hosts_where_nobody_died_of_it_come_first)
{
    cadre_suspicion_t suspicion = {.deaths = 0};
    cadre_death_t death = {.index = 3, .process = 7, .incarnation = 1, .host = "bad"};
    cadre_suspicion_add(&suspicion, &death);
    cr_expect_eq(cadre_suspicion_knows(&suspicion, 3, "other"), 2);
    cr_expect_eq(cadre_suspicion_knows(&suspicion, 4, "bad"), 1);
    cr_expect_eq(cadre_suspicion_knows(&suspicion, 4, "other"), 0);
    cr_expect(!cadre_suspicion_forgive(&suspicion, 2));
    cr_expect(cadre_suspicion_forgive(&suspicion, 1));
    cr_expect_eq(cadre_suspicion_knows(&suspicion, 3, "bad"), 0);
    cr_expect(!cadre_suspicion_forgive(&suspicion, 1), "once");
    cadre_suspicion_fini(&suspicion);
}

Test(trials, a_death_that_is_forgiven_was_not_to_be_expected_either)
{
    cadre_suspicion_t suspicion = {.deaths = 0};
    cadre_death_t death = {.index = 3, .incarnation = 1, .host = "h", .had_ms = 500};
    death.place = (cadre_record_t){.lived_ms = 10000, .deaths = 10};
    cadre_suspicion_add(&suspicion, &death);
    cr_assert_gt(suspicion.expected, 0);
    cr_assert(cadre_suspicion_forgive(&suspicion, 1));
    cr_expect_float_eq(suspicion.expected, 0, 1e-9, "%f", suspicion.expected);
    cadre_suspicion_fini(&suspicion);
}

Test(trials, a_suspect_is_tried_where_nobody_died_of_it)
{
    fixture_t *self = fixture_new(1);
    fixture_join_ps(self);
    cadre_closure_t *closure = fixture_schedule(self, 1);
    make_suspect(self, closure, 5);
    cadre_task_t again = process(5, 1);
    cadre_task_t other = process(9, 0);
    fixture_hello(self, &other);
    fixture_hello(self, &again);
    fixture_turn(self);
    cr_assert_eq(holder_of(closure), self->core.membership.workers[9]);
    fixture_destroy(&self);
}

/* Workers die anyway, every 2 s in each place on the average: what had them for 2 s is to be
 * expected, and what had them for 10 ms is not. */
Test(trials, a_death_is_weighed_against_how_long_workers_live_there)
{
    for (int poison = 0; poison < 2; poison++) {
        cadre_suspicion_t suspicion = {.deaths = 0};
        uint64_t had_ms = poison ? 10 : 2000;
        for (uint64_t i = 0; i < 2 * CADRE_POISON_DEATHS; i++) {
            cadre_death_t death = {
                .incarnation = i + 1,
                .host = "h",
                .had_ms = had_ms,
                .place = {.lived_ms = 100000 + (i + 1) * had_ms, .deaths = 50 + i}};
            cadre_suspicion_add(&suspicion, &death);
            bool proved = poison && i + 1 >= CADRE_POISON_DEATHS;
            cr_assert_eq(cadre_suspicion_is_proved(&suspicion), proved, "death %lu", i);
        }
        cadre_suspicion_fini(&suspicion);
    }
}

/* --- workers that are killed at random --- */

enum { PLACES = 2, CLOSURES = 4, LONG_MS = 3000, STEP_MS = 10 };

typedef struct {
    fixture_t *fixture;
    cadre_random_t random;
    uint64_t lives[PLACES];
    uint64_t kill_ms;
    cadre_closure_t *closures[CLOSURES]; /* NULL: ended */
} storm_t;

static void
kill_worker(storm_t *storm, uint32_t index)
{
    fixture_t *self = storm->fixture;
    cadre_task_t old = process(index, storm->lives[index]++);
    cadre_task_t new = process(index, storm->lives[index]);
    fixture_gone(self, &old);
    fixture_hello(self, &new);
}

static uint64_t
between(storm_t *storm, uint64_t low, uint64_t high)
{
    return low + cadre_random_next_u64(&storm->random) % (high - low + 1);
}

/* One step: workers are heard, one may be killed, closures that ran long enough end, and number 0
 * kills who runs it for `poison_ms`. */
static void
step(storm_t *storm, uint64_t poison_ms)
{
    fixture_t *self = storm->fixture;
    self->now_ms += STEP_MS;
    cadre_membership_heard(self->core.membership.ps[0], self->now_ms);
    for (uint32_t i = 0; i < PLACES; i++) {
        cadre_membership_heard(self->core.membership.workers[i], self->now_ms);
    }
    if (self->now_ms >= storm->kill_ms) {
        kill_worker(storm, (uint32_t)between(storm, 0, PLACES - 1));
        storm->kill_ms = self->now_ms + between(storm, 200, 800);
    }
    for (uint32_t i = 0; i < CLOSURES; i++) {
        cadre_closure_t *closure = storm->closures[i];
        const cadre_member_t *holder = closure ? holder_of(closure) : NULL;
        if (!holder || holder->in_flight.first != closure) {
            continue; /* one slot each */
        }
        uint64_t ran_ms = self->now_ms - closure->begun_ms;
        if (poison_ms && i == 0 && ran_ms >= poison_ms) {
            bool ends = closure->suspicion.deaths + 1 >= CADRE_POISON_DEATHS;
            kill_worker(storm, holder->index);
            if (ends && self->ended_count > 0) {
                return;
            }
        } else if (ran_ms >= LONG_MS) {
            storm->closures[i] = NULL;
            fixture_done(self, &holder->task, closure->id, closure->attempt);
        }
    }
    fixture_turn(self);
    fixture_clear(self);
}

static storm_t
begin_storm(uint64_t seed)
{
    storm_t storm = {.fixture = fixture_new(1)};
    cadre_random_init(&storm.random, seed, 0);
    fixture_join_ps(storm.fixture);
    for (uint32_t i = 0; i < PLACES; i++) {
        cadre_task_t worker = process(i, 0);
        fixture_hello(storm.fixture, &worker);
    }
    for (uint32_t i = 0; i < CLOSURES; i++) {
        storm.closures[i] = fixture_schedule(storm.fixture, i + 1);
    }
    fixture_turn(storm.fixture);
    return storm;
}

Test(trials, long_closures_survive_random_kills)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        storm_t storm = begin_storm(seed);
        fixture_t *self = storm.fixture;
        for (int i = 0; i < 600 * 1000 / STEP_MS && self->ended_count < CLOSURES; i++) {
            step(&storm, 0);
        }
        for (size_t i = 0; i < self->ended_count; i++) {
            cr_assert_eq(self->ended[i].status, 0, "seed %lu: %s", seed, self->ended[i].text);
        }
        fixture_destroy(&storm.fixture);
    }
}

Test(trials, poison_is_found_among_random_kills)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        storm_t storm = begin_storm(seed);
        fixture_t *self = storm.fixture;
        for (int i = 0; i < 120 * 1000 / STEP_MS && self->core.queue.own.error == 0; i++) {
            step(&storm, 20);
        }
        cr_assert_eq(self->core.queue.own.error, CADRE_EPOISON, "seed %lu", seed);
        cr_assert(strstr(self->core.queue.own.error_text, "closure 1:"), "seed %lu: %s", seed,
                  self->core.queue.own.error_text);
        fixture_destroy(&storm.fixture);
    }
}
