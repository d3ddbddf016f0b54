/* Workers that die: ids F of docs/conformance.md, with real processes. Workers that come and go
 * are in conformance_membership_test.c, ps in conformance_ps_test.c, the coordinator in
 * conformance_coordinator_test.c. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

enum { DOWN_MS = 2000 }; /* of a worker that comes back */

TestSuite(conformance_failures, .timeout = 900);

static int
entry_count(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    cr_assert(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        count += entry->d_name[0] != '.';
    }
    closedir(folder);
    return count;
}

static int
thread_count(void)
{
    return entry_count("/proc/self/task");
}

Test(conformance_failures, F1_closing_the_coordinator_ends_its_threads)
{
    stage_t stage;
    int before = thread_count();
    for (int round = 0; round < 3; round++) {
        stage_open(&stage, 2, 2);
        cr_expect_gt(thread_count(), before);
        stage_schedule(&stage, "add_one", 10);
        stage_join(&stage);
        stage_close(&stage);
        EVENTUALLY(thread_count() == before); /* libzmq's are joined, the kernel takes a moment */
    }
}

BOTH_SIZES(conformance_failures, F2_an_idle_worker_is_killed_and_started_again)
{
    stage_t stage;
    stage_open(&stage, size, size);
    stage_schedule(&stage, "add_one", 2);
    stage_join(&stage);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGKILL);
    local_cluster_wait_lost(&stage.cluster, 1);
    for (deadline_t deadline = deadline_in(DOWN_MS); again(deadline);) {
        cr_assert_eq(cadre_coordinator_totals(stage.coordinator).workers, size - 1);
    }
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 0);
    stage_schedule(&stage, "add_one", 2);
    stage_join(&stage);
    stage_expect(&stage, 4);
    stage_expect_applied(&stage, 4);
    stage_close(&stage);
}

/* A closure that is in progress on a worker, and others behind it; the worker dies. */
static void
kill_in_the_middle(int size, bool push_first)
{
    enum { OTHERS = 100 };
    stage_t stage;
    stage_open(&stage, size, size);
    hold_t hold = stage_hold(&stage, "hold");
    if (push_first) {
        stage_schedule(&stage, "add_one", OTHERS);
    }
    int worker = hold_wait(&hold, 1);
    if (!push_first) {
        stage_schedule(&stage, "add_one", OTHERS);
    }
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, worker);
    hold_wait(&hold, 2);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, OTHERS + 1);
    stage_expect_applied(&stage, OTHERS + 1);
    cadre_totals_t totals = cadre_coordinator_totals(stage.coordinator);
    cr_expect_eq(totals.finished, OTHERS + 1);
    cr_expect_geq(totals.attempts, OTHERS + 2);
    cr_expect_eq(totals.workers_lost, 1);
    hold_fini(&hold);
    stage_close(&stage);
}

BOTH_SIZES(conformance_failures, F3_a_worker_is_killed_in_the_middle_of_a_closure)
{
    kill_in_the_middle(size, true);
    kill_in_the_middle(size, false);
}

/* A closure of several steps whose worker dies between two of them: what the first attempt got in
 * stays and is not applied again. */
Test(conformance_failures, F3_a_worker_is_killed_between_the_steps_of_a_closure)
{
    enum { STEPS = 400 };
    stage_t stage;
    stage_open(&stage, 2, 1);
    int64_t number = STEPS;
    cadre_tensor_t steps = {.dtype = CADRE_I64, .rank = 0, .data = &number};
    cadre_argument_t arguments[] = {{"steps", &steps}};
    cadre_call_t call = {
        .size = sizeof(call), .tensors = arguments, .tensor_count = 1, .steps = STEPS};
    for (int i = 0; i < 3; i++) {
        OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "add_steps"), &call,
                                      LOCAL_WAIT_MS, NULL));
    }
    cadre_shard_totals_t totals;
    do {
        OK(cadre_shard_totals(stage.coordinator, 0, &totals, LOCAL_WAIT_MS));
    } while (totals.applied < STEPS / 4);
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 0);
    stage_join(&stage);
    stage_expect(&stage, 3 * STEPS);
    stage_expect_applied(&stage, 3 * STEPS);
    OK(cadre_shard_totals(stage.coordinator, 0, &totals, LOCAL_WAIT_MS));
    cr_expect_gt(totals.duplicate, 0, "the second attempt pushed what the first had");
    stage_close(&stage);
}

static void
schedule_failing(stage_t *stage, const char *text)
{
    cadre_tensor_t argument = stage_text(text);
    cadre_future_t *future = stage_call(stage, "fail", "text", &argument);
    cadre_future_destroy(&future);
}

BOTH_SIZES(conformance_failures, F4_a_worker_dies_while_a_user_error_is_on_its_way)
{
    stage_t stage;
    stage_open(&stage, size, size);
    hold_t hold = stage_hold(&stage, "long");
    int worker = hold_wait(&hold, 1);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, worker, SIGKILL);
    schedule_failing(&stage, "the soup is cold");
    if (size == 1) { /* nobody else can run it */
        local_cluster_start(&stage.cluster, LOCAL_WORKER, worker);
    }
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION,
          "the soup is cold");
    FAILS(cadre_future_wait(hold.future, LOCAL_WAIT_MS), CADRE_ECANCELLED, "");
    stage_schedule(&stage, "add_one", 10); /* while the worker is away */
    if (size > 1) {
        local_cluster_start(&stage.cluster, LOCAL_WORKER, worker);
    }
    stage_schedule(&stage, "add_one", 10); /* and while it comes back */
    stage_join(&stage);
    local_cluster_wait_workers(&stage.cluster, size);
    stage_expect(&stage, 20);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_failures, F6_a_closure_that_kills_its_workers_fails_and_names_the_last)
{
    enum { ATTEMPTS = 10 };
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "die"), NULL,
                                  LOCAL_WAIT_MS, &future));
    for (int i = 0; i < ATTEMPTS; i++) {
        int end = local_cluster_reap(&stage.cluster, LOCAL_WORKER, 0);
        cr_assert(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
        local_cluster_start(&stage.cluster, LOCAL_WORKER, 0);
    }
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EPOISON, "worker 0");
    cr_expect(strstr(cadre_error_text(), "function die"), "%s", cadre_error_text());
    stage_schedule(&stage, "add_one", 3);
    stage_join(&stage);
    stage_expect(&stage, 3);
    cadre_future_destroy(&future);
    cr_expect(local_cluster_logged(&stage.cluster, "worker_lost task=\"worker 0\""));
    stage_close(&stage);
}

Test(conformance_failures, F9_both_workers_are_killed_and_started_again)
{
    stage_t stage;
    stage_open(&stage, 2, 2);
    stage_schedule(&stage, "add_one", 300);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGKILL);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 1, SIGKILL);
    stage_schedule(&stage, "add_one", 300);
    local_cluster_wait_workers(&stage.cluster, 0);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 0);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 1);
    stage_join(&stage);
    stage_expect(&stage, 600);
    stage_expect_applied(&stage, 600);
    stage_close(&stage);
}

BOTH_SIZES(conformance_failures, F10_the_same_worker_is_killed_twice)
{
    stage_t stage;
    stage_open(&stage, size, size);
    hold_t hold = stage_hold(&stage, "hold");
    for (int round = 1; round <= 2; round++) {
        int worker = hold_wait(&hold, round);
        stage_schedule(&stage, "add_one", 50);
        local_cluster_restart(&stage.cluster, LOCAL_WORKER, worker);
        local_cluster_wait_lost(&stage.cluster, (uint64_t)round);
    }
    hold_wait(&hold, 3);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, 101);
    stage_expect_applied(&stage, 101);
    hold_fini(&hold);
    stage_close(&stage);
}

BOTH_SIZES(conformance_failures, F12_a_fetched_value_stays_after_its_worker_has_died)
{
    stage_t stage;
    stage_open(&stage, size, size);
    float number = 7;
    cadre_tensor_t value = {.dtype = CADRE_F32, .rank = 0, .data = &number};
    cadre_argument_t arguments[] = {{"value", &value}};
    cadre_call_t call = cadre_call_tensors(arguments, 1);
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule_on(stage.coordinator, (uint32_t)size - 1,
                                     stage_function(&stage, "echo"), &call, LOCAL_WAIT_MS,
                                     &future));
    OK(cadre_future_wait(future, LOCAL_WAIT_MS));
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, size - 1, SIGKILL); /* who computed it */
    local_cluster_wait_lost(&stage.cluster, 1);
    for (int i = 0; i < 2; i++) {
        cadre_tensor_t back = {.data = NULL};
        OK(cadre_future_fetch(future, "value", &back, LOCAL_WAIT_MS));
        cr_expect_float_eq(*(const float *)back.data, 7, 0);
        cadre_tensor_fini(&back);
    }
    cadre_future_destroy(&future);
    stage_close(&stage);
}

BOTH_SIZES(conformance_failures, F13_variables_are_read_while_a_worker_is_down)
{
    stage_t stage;
    stage_open(&stage, size, size);
    stage_schedule(&stage, "add_one", 5);
    stage_join(&stage);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGKILL);
    stage_expect(&stage, 5);
    local_cluster_wait_workers(&stage.cluster, size - 1);
    stage_expect(&stage, 5);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 0);
    for (int i = 0; i < 100; i++) {
        stage_expect(&stage, 5);
    }
    local_cluster_wait_workers(&stage.cluster, size);
    stage_close(&stage);
}

BOTH_SIZES(conformance_failures, F14_earlier_failures_leave_nothing_behind)
{
    enum { ROUNDS = 5, FEW = 2 /* connections that are just ending */ };
    stage_t stage;
    int descriptors = 0;
    stage_open(&stage, size, size);
    for (int round = 1; round <= ROUNDS; round++) {
        hold_t hold = stage_hold(&stage, round % 2 ? "odd" : "even");
        int worker = hold_wait(&hold, 1);
        local_cluster_restart(&stage.cluster, LOCAL_WORKER, worker);
        schedule_failing(&stage, "again");
        FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION, "again");
        local_cluster_wait_workers(&stage.cluster, size);
        stage_schedule(&stage, "add_one", 20);
        stage_join(&stage);
        stage_expect(&stage, 20.0 * round);
        remove(hold.started);
        hold_fini(&hold);
        cadre_totals_t totals = cadre_coordinator_totals(stage.coordinator);
        cr_expect_eq(totals.queued + totals.in_flight, 0);
        descriptors = round == 1 ? entry_count("/proc/self/fd") : descriptors;
        EVENTUALLY(entry_count("/proc/self/fd") <= descriptors + FEW);
    }
    stage_close(&stage);
}

Test(conformance_failures, F16_join_does_not_fail_because_a_worker_is_dead)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 1, SIGKILL);
    stage_schedule(&stage, "add_one", 200);
    stage_join(&stage);
    stage_expect(&stage, 200);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGKILL);
    stage_schedule(&stage, "add_one", 3);
    FAILS(cadre_coordinator_join(stage.coordinator, 300), CADRE_ETIMEOUT, "");
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 1);
    stage_join(&stage);
    stage_expect(&stage, 203);
    stage_expect_applied(&stage, 203);
    stage_close(&stage);
}

/* --- many closures --- */

Test(conformance_failures, F23_five_thousand_closures_and_workers_that_die)
{
    enum { CLOSURES = 5000, KILLS = 6 };
    stage_t stage;
    stage_open(&stage, 2, 2);
    const cadre_function_t *function = stage_function(&stage, "add_one");
    uint64_t lost = 0;
    for (int i = 0; i < CLOSURES; i++) {
        OK(cadre_coordinator_schedule(stage.coordinator, function, NULL, LOCAL_WAIT_MS, NULL));
        if (i % (CLOSURES / KILLS) == CLOSURES / KILLS / 2) {
            EVENTUALLY(cadre_coordinator_totals(stage.coordinator).finished > (uint64_t)i * 9 / 10);
            local_cluster_restart(&stage.cluster, LOCAL_WORKER, (int)(lost % 2));
            lost++;
        }
    }
    stage_join(&stage);
    stage_expect(&stage, CLOSURES);
    stage_expect_applied(&stage, CLOSURES);
    cadre_totals_t totals = cadre_coordinator_totals(stage.coordinator);
    cr_expect_eq(totals.finished, CLOSURES);
    cr_expect_eq(totals.scheduled, CLOSURES);
    local_cluster_wait_workers(&stage.cluster, 2);
    stage_close(&stage);
}

Test(conformance_failures, F23_five_thousand_closures_without_a_failure)
{
    enum { CLOSURES = 5000 };
    stage_t stage;
    stage_open(&stage, 2, 2);
    stage_schedule(&stage, "add_one", CLOSURES);
    stage_join(&stage);
    stage_expect(&stage, CLOSURES);
    stage_expect_applied(&stage, CLOSURES);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).attempts, CLOSURES);
    stage_close(&stage);
}

/* --- the end, and who is not waited for --- */

Test(conformance_failures, F26_every_task_ends_with_the_job)
{
    stage_t stage;
    stage_open(&stage, 3, 3);
    hold_t hold = stage_hold(&stage, "hold");
    hold_wait(&hold, 1); /* also the one that is busy */
    hold_fini(&hold);
    stage_close(&stage); /* looks at each one's exit status */
}
