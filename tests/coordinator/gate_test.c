#include "coordinator/gate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "common/base/status.h"
#include "common/system/clock.h"

TestSuite(gate, .timeout = 240);

enum { LONG_MS = 120000 };

static cadre_gate_t *
gate(void)
{
    cadre_gate_t *self = NULL;
    cr_assert_eq(cadre_gate_open(&self), 0);
    return self;
}

/* Waits as a call of the API does: until `flag`, or the failure. */
static int
wait_for(cadre_gate_t *self, const bool *flag, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int status = 0;
    cadre_gate_lock(self);
    while (status == 0 && !*flag) {
        status = cadre_gate_wait(self, deadline_ms);
    }
    cadre_gate_unlock(self);
    return status;
}

static bool
was_woken(cadre_gate_t *self)
{
    uint64_t count = 0;
    ssize_t size = read(self->wake_fd, &count, sizeof(count));
    cr_assert(size == sizeof(count) || errno == EAGAIN);
    return size == sizeof(count);
}

Test(gate, a_wait_ends_at_its_deadline_and_not_before)
{
    cadre_gate_t *self = gate();
    const bool never = false;
    int64_t begun_ms = cadre_clock_now_ms();
    cr_assert_eq(wait_for(self, &never, 0), CADRE_ETIMEOUT);
    cr_assert_eq(wait_for(self, &never, 300), CADRE_ETIMEOUT);
    int64_t passed_ms = cadre_clock_now_ms() - begun_ms;
    cr_assert_geq(passed_ms, 300);
    cr_assert_lt(passed_ms, 5000);
    cadre_gate_unref(&self);
    cr_assert_null(self);
}

Test(gate, deadlines_far_away_do_not_overflow)
{
    cr_assert_eq(cadre_gate_deadline_ms(-1), INT64_MAX);
    cr_assert_eq(cadre_gate_deadline_ms(INT64_MIN), INT64_MAX);
    cr_assert_eq(cadre_gate_deadline_ms(INT64_MAX), INT64_MAX);
    cr_assert_gt(cadre_gate_deadline_ms(INT64_MAX / 2), 0);
    int64_t soon_ms = cadre_gate_deadline_ms(1000) - cadre_clock_now_ms();
    cr_assert(soon_ms > 0 && soon_ms <= 1000);
}

Test(gate, an_interruption_ends_every_wait_until_it_is_taken_back)
{
    cadre_gate_t *self = gate();
    const bool never = false;
    atomic_store(&self->interrupted, true);
    cr_assert_eq(wait_for(self, &never, LONG_MS), CADRE_EINTERRUPTED);
    cr_assert_eq(wait_for(self, &never, -1), CADRE_EINTERRUPTED);
    atomic_store(&self->interrupted, false);
    cr_assert_eq(wait_for(self, &never, 10), CADRE_ETIMEOUT);
    cadre_gate_unref(&self);
}

static cadre_gate_t *signalled;

static void
on_signal(int number)
{
    (void)number;
    atomic_store(&signalled->interrupted, true);
}

Test(gate, a_signal_handler_may_interrupt_a_wait_that_has_begun)
{
    cadre_gate_t *self = gate();
    const bool never = false;
    signalled = self;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGALRM, &action, NULL);
    alarm(1);
    int64_t begun_ms = cadre_clock_now_ms();
    cr_assert_eq(wait_for(self, &never, LONG_MS), CADRE_EINTERRUPTED);
    cr_assert_lt(cadre_clock_now_ms() - begun_ms, LONG_MS);
    cadre_gate_unref(&self);
}

Test(gate, a_closed_gate_lets_nobody_wait)
{
    cadre_gate_t *self = gate();
    const bool never = false;
    self->closed = true;
    atomic_store(&self->interrupted, true);
    cr_assert_eq(wait_for(self, &never, -1), CADRE_ECLOSED);
    cadre_gate_unref(&self);
}

Test(gate, the_actor_is_woken_once_when_it_sleeps)
{
    cadre_gate_t *self = gate();
    cadre_gate_lock(self);
    cadre_gate_unlock_and_wake(self);
    cr_assert_not(was_woken(self), "it does not sleep");
    cadre_gate_lock(self);
    self->asleep = true;
    cadre_gate_unlock(self);
    cr_assert_not(was_woken(self), "nothing has changed");
    cadre_gate_lock(self);
    cadre_gate_unlock_and_wake(self);
    cr_assert(was_woken(self));
    cadre_gate_lock(self);
    cadre_gate_unlock_and_wake(self);
    cr_assert_not(was_woken(self));
    cadre_gate_lock(self);
    self->asleep = true;
    cr_assert_eq(cadre_gate_wait(self, cadre_gate_deadline_ms(10)), 0);
    cr_assert(was_woken(self), "before anyone waits for what the core has to send");
    cadre_gate_unlock(self);
    cadre_gate_unref(&self);
}

/* A call that waits for a number to be reached. */
typedef struct {
    cadre_gate_t *gate;
    int number; /* under the lock, like the next two */
    int wanted;
    int looks; /* how often the call has looked again */
    int status;
} patience_t;

static bool
is_reached(const void *context)
{
    const patience_t *self = context;
    return self->number >= self->wanted;
}

static void *
wait_patiently(void *argument)
{
    patience_t *self = argument;
    int64_t deadline_ms = cadre_gate_deadline_ms(LONG_MS);
    cadre_gate_lock(self->gate);
    while (self->status == 0 && !is_reached(self)) {
        cadre_gate_question_t question = {.is_over = is_reached, .context = self};
        self->status = cadre_gate_wait_until(self->gate, deadline_ms, &question);
        self->looks++;
    }
    cadre_gate_unlock(self->gate);
    return NULL;
}

enum { BROADCASTS = 20, LOOK_SOON_MS = 20 };

/* Returns whether the call looks within LOOK_SOON_MS of a broadcast. */
static bool
looks_soon(patience_t *self)
{
    cadre_gate_lock(self->gate);
    int before = self->looks;
    int looks = before;
    cadre_gate_broadcast(self->gate);
    cadre_gate_unlock(self->gate);
    int64_t deadline_ms = cadre_gate_deadline_ms(LOOK_SOON_MS);
    while (looks == before && cadre_clock_now_ms() < deadline_ms) {
        cadre_gate_lock(self->gate);
        looks = self->looks;
        cadre_gate_unlock(self->gate);
    }
    return looks != before;
}

Test(gate, a_broadcast_wakes_no_call_whose_question_is_not_over)
{
    cadre_gate_t *self = gate();
    patience_t patience = {.gate = self, .wanted = 1};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, wait_patiently, &patience), 0);
    /* It looks up by itself every 200 ms, which is twice in that time; more often where the machine
     * is busy and the time is longer. */
    int64_t deadline_ms = cadre_gate_deadline_ms(LONG_MS / 2);
    int soon = BROADCASTS;
    while (soon >= BROADCASTS / 2 && cadre_clock_now_ms() < deadline_ms) {
        soon = 0;
        for (int i = 0; i < BROADCASTS; i++) {
            soon += looks_soon(&patience);
        }
    }
    cr_assert_lt(soon, BROADCASTS / 2);

    cadre_gate_lock(self);
    patience.number = 1;
    cadre_gate_broadcast(self);
    cadre_gate_unlock(self);
    pthread_join(thread, NULL);
    cr_assert_eq(patience.status, 0);
    cr_assert_null(self->questions);
    cadre_gate_unref(&self);
}

static bool
must_not_be_asked(const void *context)
{
    (void)context;
    cr_assert_fail("what the question is about may be gone");
    return false;
}

Test(gate, a_closed_gate_asks_no_question)
{
    cadre_gate_t *self = gate();
    cadre_gate_question_t question = {.is_over = must_not_be_asked};
    self->questions = &question; /* as of a call that waits */
    self->closed = true;
    cadre_gate_broadcast(self);
    self->questions = NULL;
    cadre_gate_unref(&self);
}

enum { ROUNDS = 50 };

typedef struct {
    cadre_gate_t *gate;
    int turn; /* under the lock: whose it is */
    int status[2];
} game_t;

static bool
is_turn_of_second(const void *context)
{
    const game_t *game = context;
    return game->turn == 1;
}

/* The second player has a question, the first looks at each broadcast. */
static int
play(game_t *game, int player)
{
    cadre_gate_question_t question = {.is_over = is_turn_of_second, .context = game};
    int status = 0;
    int64_t deadline_ms = cadre_gate_deadline_ms(LONG_MS);
    for (int round = 0; round < ROUNDS && status == 0; round++) {
        cadre_gate_lock(game->gate);
        while (status == 0 && game->turn != player) {
            status = cadre_gate_wait_until(game->gate, deadline_ms, player == 1 ? &question : NULL);
        }
        game->turn = 1 - player;
        cadre_gate_broadcast(game->gate);
        cadre_gate_unlock_and_wake(game->gate);
    }
    return status;
}

static void *
play_second(void *argument)
{
    game_t *game = argument;
    game->status[1] = play(game, 1);
    cadre_gate_unref(&game->gate);
    return NULL;
}

Test(gate, a_broadcast_reaches_whoever_waits_at_once)
{
    cadre_gate_t *self = gate();
    game_t game = {.gate = cadre_gate_ref(self)};
    pthread_t second;
    int64_t begun_ms = cadre_clock_now_ms();
    cr_assert_eq(pthread_create(&second, NULL, play_second, &game), 0);
    game.status[0] = play(&game, 0);
    pthread_join(second, NULL);
    cr_assert_eq(game.status[0], 0);
    cr_assert_eq(game.status[1], 0);
    /* Without it each of the 100 waits would take until it looks up by itself, 200 ms. */
    cr_assert_lt(cadre_clock_now_ms() - begun_ms, 5000);
    cr_assert_null(game.gate, "the last holder frees it, whoever that is");
    cadre_gate_unref(&self);
}
