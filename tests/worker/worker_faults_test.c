/* A real cadre-worker whose ps die, whose coordinator falls silent, and that is stopped or told to
 * go while it computes. */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <zmq.h>

#include "common/net/monitor.h"
#include "tests/sanitizer.h"
#include "tests/system/process.h"
#include "tests/worker/native_cluster.h"

TestSuite(worker_faults, .timeout = 900);

static const char *const no_arguments[] = {NULL};

static void
schedule(fake_cluster_t *self, uint64_t id, uint64_t attempt, uint64_t function)
{
    cadre_message_t message = fake_closure(id, function);
    message.closure.attempt = attempt;
    fake_tell(self, message);
}

/* --- shards --- */

/* Waits until the worker has made a connection. */
static void
wait_connection(cadre_monitor_t *monitor)
{
    cadre_event_t event = {.kind = CADRE_EVENT_OTHER};
    while (event.kind != CADRE_EVENT_READY) {
        zmq_pollitem_t item = {.socket = cadre_monitor_handle(monitor), .events = ZMQ_POLLIN};
        cr_assert_eq(zmq_poll(&item, 1, FAKE_WAIT_MS), 1, "the worker does not dial");
        cr_assert_eq(cadre_monitor_receive(monitor, &event), 0);
    }
}

/* The process of shard 1, which owes an answer, is killed, and another one listens at the same
 * address. The worker's old connection finds it by itself, with a question for the process before,
 * which is not read until the connection is there that the worker makes when it is told: so the
 * ROUTER holds both. */
static void
replace_ps(fake_cluster_t *self)
{
    cadre_endpoint_t endpoint = *cadre_socket_endpoint(self->data[1]);
    cadre_socket_close(&self->data[1], 0);
    cr_assert_eq(cadre_socket_open_router(self->context, CADRE_PLANE_DATA, &self->data[1]), 0);
    cadre_monitor_t *monitor = NULL;
    cr_assert_eq(cadre_monitor_open(self->context, self->data[1], &monitor), 0);
    int64_t end_ms = cadre_clock_now_ms() + FAKE_WAIT_MS;
    while (cadre_socket_bind(self->data[1], &endpoint) < 0) {
        cr_assert_lt(cadre_clock_now_ms(), end_ms, "%s", cadre_error_text());
        poll(NULL, 0, 10);
    }
    self->incarnations[1] += 1000;
    self->generations[1]++;
    memset(self->values[1], 0, sizeof(self->values[1]));
    memset(self->applied[1], 0, sizeof(self->applied[1]));
    wait_connection(monitor);
    zmq_pollitem_t item = {.socket = cadre_socket_handle(self->data[1]), .events = ZMQ_POLLIN};
    cr_assert_eq(zmq_poll(&item, 1, FAKE_WAIT_MS), 1, "it repeats nothing");
    fake_tell_shard(self, 1);
    wait_connection(monitor);
    cadre_monitor_close(&monitor);
}

Test(worker_faults, F8_a_ps_started_again_at_the_same_address_is_another_one)
{
    fake_cluster_t self;
    char folder[NATIVE_FOLDER_SIZE];
    int64_t soonest_ms = INT64_MAX;
    fake_start_natives(&self, folder, no_arguments);
    for (uint64_t round = 1; round <= 3; round++) {
        self.lose_answers = 1000000;
        uint64_t pushes = self.pushes;
        schedule(&self, round, 1, ADD_ONE);
        FAKE_UNTIL(&self, self.pushes >= pushes + 2);
        replace_ps(&self);
        self.lose_answers = 0;
        FAKE_UNTIL(&self, self.failed == round);
        cr_expect_eq(self.last_reason, CADRE_FAILURE_SHARD);
        cr_expect_float_eq(self.values[1][0], 0, 0, "a push to the process before");
        int64_t begin_ms = cadre_clock_now_ms();
        schedule(&self, round, 2, ADD_ONE);
        FAKE_UNTIL(&self, self.done == round);
        int64_t took_ms = cadre_clock_now_ms() - begin_ms;
        soonest_ms = took_ms < soonest_ms ? took_ms : soonest_ms;
        cr_expect_float_eq(self.values[1][0], 1, 0);
        cr_expect_float_eq(self.values[0][0], (float)round, 0);
    }
    cr_expect_lt(soonest_ms, CADRE_MUTE_MS, "of three rounds, on a busy machine");
    fake_stop_natives(&self, folder);
}

Test(worker_faults, gives_back_what_needs_a_ps_that_is_away_and_goes_on_when_it_is_there)
{
    fake_cluster_t self;
    char folder[NATIVE_FOLDER_SIZE];
    fake_start_natives(&self, folder, no_arguments);
    self.lose_answers = 1000;
    schedule(&self, 1, 1, ADD_ONE);
    FAKE_UNTIL(&self, self.pushes >= 2); /* both shards have it, and say nothing */
    self.lose_answers = 0;
    self.away[1] = true;
    fake_tell_shard(&self, 1);
    FAKE_UNTIL(&self, self.failed == 1);
    cr_expect_eq(self.last_reason, CADRE_FAILURE_SHARD);
    cr_expect_eq(self.last_status, (uint64_t)-CADRE_EUNAVAILABLE);
    cr_expect_str_eq(self.last_text, "ps 1 is away");
    schedule(&self, 2, 1, ADD_ONE);
    FAKE_UNTIL(&self, self.failed == 2);
    cr_expect_not(self.applied[0][2], "no other shard was asked");
    self.away[1] = false; /* as it was */
    fake_tell_shard(&self, 1);
    schedule(&self, 1, 2, ADD_ONE);
    schedule(&self, 2, 2, ADD_ONE);
    FAKE_UNTIL(&self, self.done + self.failed == 4);
    cr_expect_eq(self.done, 2, "%s", self.last_text);
    for (int i = 0; i < FAKE_SHARDS; i++) {
        cr_expect_float_eq(self.values[i][0], 2, 0);
    }
    fake_stop_natives(&self, folder);
}

/* Closures [first, last], 50 with the worker at a time, while shard 1 goes and comes; every fourth
 * time it has begun anew. */
static void
run_through_losses(fake_cluster_t *self, uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id += 50) {
        uint64_t ended = self->done + self->failed;
        for (uint64_t i = 0; i < 50; i++) {
            schedule(self, id + i, 1, ADD_ONE);
        }
        self->away[1] = true;
        fake_tell_shard(self, 1);
        self->away[1] = false;
        self->generations[1] += id % 200 == 1;
        fake_tell_shard(self, 1);
        FAKE_UNTIL(self, self->done + self->failed == ended + 50);
    }
}

Test(worker_faults, holds_no_more_memory_after_many_losses)
{
    fake_cluster_t self;
    char folder[NATIVE_FOLDER_SIZE];
    fake_start_natives(&self, folder, no_arguments);
    run_through_losses(&self, 1, 2000);
    int64_t grown_kib = 0;
    for (uint64_t round = 0; round < 3 && (round == 0 || grown_kib > 2048); round++) {
        /* malloc may take more once, a leak goes on. */
        int64_t before_kib = process_memory_kib(self.process, "VmRSS:");
        run_through_losses(&self, 2001 + 10000 * round, 12000 + 10000 * round);
        grown_kib = process_memory_kib(self.process, "VmRSS:") - before_kib;
    }
    cr_expect_gt(self.failed, 0);
    cr_expect_gt(self.done, 0);
    if (!SANITIZER) {
        cr_expect_leq(grown_kib, 2048);
    }
    fake_stop_natives(&self, folder);
}

/* --- the coordinator --- */

/* Stops the process for longer than its lease is trusted, then lets it go on. */
static void
pause_worker(fake_cluster_t *self, int ms)
{
    kill(self->process, SIGSTOP);
    int state = 0;
    cr_assert_eq(waitpid(self->process, &state, WUNTRACED), self->process);
    cr_assert(WIFSTOPPED(state));
    int64_t end_ms = cadre_clock_now_ms() + ms;
    while (cadre_clock_now_ms() < end_ms) {
        fake_step(self, 20); /* what it had sent before */
    }
    kill(self->process, SIGCONT);
}

Test(worker_faults, stopped_past_its_lease_it_pushes_nothing_before_it_is_welcomed_again)
{
    fake_cluster_t self;
    char folder[NATIVE_FOLDER_SIZE];
    fake_open(&self);
    self.lease_ms = 1000;
    fake_start_natives_on(&self, folder, no_arguments);
    self.lose_answers = 1000000;
    schedule(&self, 1, 1, ADD_ONE); /* is repeated every 200 ms */
    schedule(&self, 2, 1, SLOW);    /* its first push is due while the process is stopped */
    FAKE_UNTIL(&self, self.pushes >= 4);
    self.silent = true;
    uint64_t hellos = self.hellos;
    pause_worker(&self, 1000);
    uint64_t pushes = self.pushes;
    FAKE_UNTIL(&self, self.hellos > hellos + 1);
    cr_expect_eq(self.pushes, pushes);
    self.silent = false;
    self.lose_answers = 0;
    FAKE_UNTIL(&self, self.done + self.failed == 2);
    cr_expect_eq(self.failed, 0, "%s", self.last_text);
    for (int i = 0; i < FAKE_SHARDS; i++) {
        cr_expect_float_eq(self.values[i][0], 2, 0);
    }
    fake_stop_natives(&self, folder);
}

Test(worker_faults, goes_on_by_itself_when_the_coordinator_answers_again)
{
    fake_cluster_t self;
    char folder[NATIVE_FOLDER_SIZE];
    fake_open(&self);
    self.lease_ms = 1000;
    fake_start_natives_on(&self, folder, no_arguments);
    schedule(&self, 1, 1, ADD_ONE);
    FAKE_UNTIL(&self, self.done == 1);
    uint64_t hellos = self.hellos;
    self.silent = true;
    FAKE_UNTIL(&self, self.hellos > hellos);
    self.silent = false;
    hellos = self.hellos;
    FAKE_UNTIL(&self, self.hellos > hellos);
    schedule(&self, 2, 1, ADD_ONE);
    FAKE_UNTIL(&self, self.done == 2);
    fake_stop_natives(&self, folder);
}

Test(worker_faults, leaves_what_waits_for_a_ps_when_the_coordinator_stays_away)
{
    static const char *const soon[] = {"--coordinator-timeout", "1", NULL};
    fake_cluster_t self;
    char folder[NATIVE_FOLDER_SIZE];
    fake_start_natives(&self, folder, soon);
    self.lose_answers = 1000000;
    schedule(&self, 1, 1, ADD_ONE);
    FAKE_UNTIL(&self, self.pushes >= 2);
    cadre_socket_close(&self.control, 0);
    cr_assert_eq(cadre_socket_open_router(self.context, CADRE_PLANE_CONTROL, &self.control), 0);
    int64_t begin_ms = cadre_clock_now_ms();
    cr_expect_eq(fake_wait_exit(&self), 0);
    cr_expect_lt(cadre_clock_now_ms(), begin_ms + 60000, "its slot was not waited for");
    fake_end_natives(&self, folder);
}

/* --- told to go --- */

Test(worker_faults, SIGTERM_while_it_computes_loses_and_doubles_nothing)
{
    fake_cluster_t self;
    char folder[NATIVE_FOLDER_SIZE];
    fake_start_natives(&self, folder, no_arguments);
    for (uint64_t id = 1; id <= 100; id++) {
        schedule(&self, id, 1, SLOW);
    }
    FAKE_UNTIL(&self, self.done >= 2); /* others are in the middle */
    kill(self.process, SIGTERM);
    cr_expect_eq(fake_wait_exit(&self), 143);
    cr_expect(self.left);
    cr_expect_eq(self.done + self.failed, 100, "each is finished or handed back");
    cr_expect_eq(self.last_reason, CADRE_FAILURE_RETURNED);
    cr_expect_lt(self.done, 100);
    for (int i = 0; i < FAKE_SHARDS; i++) {
        cr_expect_float_eq(self.values[i][0], (float)self.done, 0,
                           "what was handed back did not "
                           "run");
    }
    fake_end_natives(&self, folder);
}

Test(worker_faults, DRAIN_lets_it_finish_and_go)
{
    static const char *const steady[] = {"--on-session-end", "wait", NULL};
    fake_cluster_t self;
    char folder[NATIVE_FOLDER_SIZE];
    fake_start_natives(&self, folder, steady); /* it does not come back for all that */
    for (uint64_t id = 1; id <= 100; id++) {
        schedule(&self, id, 1, SLOW);
    }
    FAKE_UNTIL(&self, self.done >= 2);
    fake_tell(&self, (cadre_message_t){.type = CADRE_MESSAGE_DRAIN});
    cr_expect_eq(fake_wait_exit(&self), 0);
    cr_expect(self.left);
    cr_expect_eq(self.done + self.failed, 100);
    cr_expect_lt(self.done, 100, "what no slot had begun is handed back");
    cr_expect_eq(self.last_reason, CADRE_FAILURE_RETURNED);
    cr_expect_float_eq(self.values[0][0], (float)self.done, 0);
    fake_end_natives(&self, folder);
}

static void
expect_exit(uint64_t function, bool again)
{
    static const char *const soon[] = {"--drain-seconds", "1", NULL};
    fake_cluster_t self;
    char folder[NATIVE_FOLDER_SIZE];
    fake_start_natives(&self, folder, again ? no_arguments : soon);
    schedule(&self, 1, 1, function);
    schedule(&self, 2, 1, function);
    schedule(&self, 3, 1, function);
    for (int i = 0; i < 3; i++) {
        fake_step(&self, 50);
    }
    int64_t begin_ms = cadre_clock_now_ms();
    kill(self.process, SIGTERM);
    FAKE_UNTIL(&self, self.failed >= 1); /* the third */
    if (again) {
        kill(self.process, SIGTERM);
    }
    cr_expect_eq(fake_wait_exit(&self), 143);
    int64_t took_ms = cadre_clock_now_ms() - begin_ms;
    if (again) {
        cr_expect_lt(took_ms, 20000); /* less than it would drain for */
    } else {
        cr_expect_geq(took_ms, 1000);
        cr_expect(self.left, "others may run what it had");
    }
    cr_expect_eq(self.done, 0);
    fake_end_natives(&self, folder);
}

Test(worker_faults, SIGTERM_gives_a_closure_that_does_not_end_a_limited_time)
{
    expect_exit(WAITS, false);
}

Test(worker_faults, SIGTERM_does_not_wait_for_a_closure_that_never_ends)
{
    expect_exit(HANGS, false);
}

Test(worker_faults, a_second_SIGTERM_ends_it_at_once)
{
    expect_exit(HANGS, true);
}
