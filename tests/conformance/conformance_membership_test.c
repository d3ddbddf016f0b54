/* Workers that join, leave, pause and are replaced: ids F18 to F22 and F25 of docs/conformance.md,
 * with real processes. */
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_membership, .timeout = 900);

typedef struct {
    cadre_coordinator_t *coordinator;
    uint32_t worker;
    int status;
} drain_t;

BOTH_SIZES(conformance_membership, F18_a_worker_is_added_between_closures)
{
    stage_t stage;
    stage_open(&stage, size, size);
    stage_schedule(&stage, "add_one", 50);
    stage_join(&stage);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, size);
    local_cluster_wait_workers(&stage.cluster, size + 1);
    stage_schedule(&stage, "add_one", 50);
    stage_join(&stage);
    stage_expect(&stage, 100);
    stage_expect_applied(&stage, 100);
    stage_close(&stage);
}

Test(conformance_membership, F19_a_worker_is_added_in_the_middle_of_a_closure)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 1, .slots = 1};
    stage_open_with(&stage, &options);
    hold_t first = stage_hold(&stage, "first");
    cr_expect_eq(hold_wait(&first, 1), 0);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 1);
    local_cluster_wait_workers(&stage.cluster, 2);
    hold_t more[4]; /* more than the first worker takes ahead */
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof(name), "more-%d", i);
        more[i] = stage_hold(&stage, name);
    }
    EVENTUALLY(hold_begun(&more[0]) + hold_begun(&more[1]) + hold_begun(&more[2]) +
                   hold_begun(&more[3]) >
               0); /* on the new worker: the other one is not free */
    hold_release(&first);
    for (int i = 0; i < 4; i++) {
        hold_release(&more[i]);
    }
    stage_join(&stage);
    stage_expect(&stage, 5);
    hold_fini(&first);
    for (int i = 0; i < 4; i++) {
        hold_fini(&more[i]);
    }
    stage_close(&stage);
}

BOTH_SIZES(conformance_membership, F20_a_worker_is_replaced_by_a_new_process_with_its_index)
{
    stage_t stage;
    stage_open(&stage, size, size);
    hold_t hold = stage_hold(&stage, "hold");
    int worker = hold_wait(&hold, 1);
    /* The old one is paused, so that only the new one's arrival tells that it is gone. */
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, worker, SIGSTOP);
    pid_t old = stage.cluster.tasks[LOCAL_WORKER][worker];
    stage.cluster.tasks[LOCAL_WORKER][worker] = 0;
    local_cluster_start(&stage.cluster, LOCAL_WORKER, worker);
    stage_schedule(&stage, "add_one", 10);
    hold_wait(&hold, 2);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, 11);
    int end = 0;
    kill(old, SIGCONT); /* what it still sends counts for nothing */
    stage_schedule(&stage, "add_one", 10);
    stage_join(&stage);
    stage_expect(&stage, 21);
    stage_expect_applied(&stage, 21);
    kill(old, SIGKILL);
    waitpid(old, &end, 0);
    hold_fini(&hold);
    stage_close(&stage);
}

BOTH_SIZES(conformance_membership, F21_a_worker_comes_back_under_another_index)
{
    stage_t stage;
    stage_open(&stage, size, size);
    hold_t hold = stage_hold(&stage, "hold");
    int worker = hold_wait(&hold, 1);
    stage_schedule(&stage, "add_one", 10);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, worker, SIGKILL);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 5);
    int other = hold_wait(&hold, 2);
    cr_expect(other == 5 || (size == 2 && other == 1 - worker), "it runs on worker %d", other);
    local_cluster_wait_workers(&stage.cluster, size);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, 11);
    stage_expect_applied(&stage, 11);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_membership, F22_a_worker_is_removed_for_good)
{
    stage_t stage;
    stage_open(&stage, 2, 2);
    hold_t hold = stage_hold(&stage, "hold");
    int worker = hold_wait(&hold, 1);
    stage_schedule(&stage, "add_one", 50);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, worker, SIGKILL);
    cr_expect_eq(hold_wait(&hold, 2), 1 - worker);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, 51);
    stage_expect_applied(&stage, 51);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).workers, 1);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_membership, a_worker_that_is_told_to_leave_finishes_and_goes)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    hold_t hold = stage_hold(&stage, "hold");
    int worker = hold_wait(&hold, 1);
    stage_schedule(&stage, "add_one", 50);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, worker, SIGTERM);
    stage_schedule(&stage, "add_one", 50); /* the other one does them */
    EVENTUALLY(cadre_coordinator_totals(stage.coordinator).finished == 100);
    hold_release(&hold);
    int end = local_cluster_reap(&stage.cluster, LOCAL_WORKER, worker);
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 143, "it ended with %x", (unsigned)end);
    stage_join(&stage);
    stage_expect(&stage, 101);
    stage_expect_applied(&stage, 101);
    cr_expect_eq(hold_begun(&hold), 1, "what it had begun it has finished");
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).workers_lost, 0);
    hold_fini(&hold);
    stage_close(&stage);
}

/* A call in a thread of its own. */
static void *
drain(void *context)
{
    drain_t *self = context;
    self->status = cadre_worker_drain(self->coordinator, self->worker, LOCAL_WAIT_MS);
    return NULL;
}

Test(conformance_membership, a_worker_that_the_coordinator_drains_finishes_and_goes)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    hold_t hold = stage_hold(&stage, "hold");
    int worker = hold_wait(&hold, 1);
    drain_t call = {.coordinator = stage.coordinator, .worker = (uint32_t)worker};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, drain, &call), 0);
    EVENTUALLY(local_cluster_logged(&stage.cluster, "task_drained"));
    stage_schedule(&stage, "add_one", 50); /* the other one does them */
    EVENTUALLY(cadre_coordinator_totals(stage.coordinator).finished == 50);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).workers, 2,
                 "what it runs it finishes");
    hold_release(&hold);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    OK(call.status);
    int end = local_cluster_reap(&stage.cluster, LOCAL_WORKER, worker);
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 0, "it ended with %x", (unsigned)end);
    stage_join(&stage);
    stage_expect(&stage, 51);
    stage_expect_applied(&stage, 51);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).workers_lost, 0);
    cr_expect_eq(cadre_worker_drain(stage.coordinator, (uint32_t)worker, 0), CADRE_ENOTFOUND);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_membership, a_paused_worker_loses_its_lease_and_its_late_pushes_count_for_nothing)
{
    enum { CLOSURES = 200 };
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.lease_ms = 1000;
    stage_open_with(&stage, &options);
    hold_t hold = stage_hold(&stage, "hold");
    int worker = hold_wait(&hold, 1);
    stage_schedule(&stage, "add_one", CLOSURES);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, worker, SIGSTOP);
    cr_expect_eq(hold_wait(&hold, 2), 1 - worker);
    EVENTUALLY(cadre_coordinator_totals(stage.coordinator).workers_lost >= 1);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, CLOSURES + 1);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, worker, SIGCONT);
    local_cluster_wait_workers(&stage.cluster, 2); /* it says HELLO again */
    stage_schedule(&stage, "add_one", CLOSURES);
    stage_join(&stage);
    stage_expect(&stage, 2 * CLOSURES + 1);
    stage_expect_applied(&stage, 2 * CLOSURES + 1);
    hold_fini(&hold);
    stage_close(&stage);
}

/* --- who is there --- */

/* Whether status says that exactly the first `ps` and `workers` tasks are healthy, but for the one
 * of `role` at `index`. */
static bool
all_healthy_but(const stage_t *stage, const char *role, int index)
{
    char *text = NULL;
    OK(cadre_coordinator_status_json(stage->coordinator, &text));
    json_t *status = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const json_t *tasks = json_object_get(status, "tasks");
    const local_cluster_options_t *options = &stage->cluster.options;
    size_t expected = (size_t)(options->ps + options->workers) - (index >= 0);
    bool met = json_array_size(tasks) == expected;
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        const json_t *task = json_array_get(tasks, i);
        const char *its_role = json_string_value(json_object_get(task, "role"));
        const char *state = json_string_value(json_object_get(task, "state"));
        bool it = strcmp(its_role, role) == 0 &&
                  json_integer_value(json_object_get(task, "index")) == index;
        met = met && !it && strcmp(state, "healthy") == 0;
    }
    json_decref(status);
    free(text);
    return met;
}

static void
kill_each(int size, local_role_t role, const char *name)
{
    stage_t stage;
    stage_open(&stage, size, size);
    EVENTUALLY(all_healthy_but(&stage, name, -1));
    for (int i = 0; i < size; i++) {
        local_cluster_signal(&stage.cluster, role, i, SIGKILL);
        EVENTUALLY(all_healthy_but(&stage, name, i));
        local_cluster_start(&stage.cluster, role, i);
        EVENTUALLY(all_healthy_but(&stage, name, -1));
    }
    stage_close(&stage);
}

BOTH_SIZES(conformance_membership, F25_a_worker_that_was_killed_is_the_only_task_that_is_down)
{
    kill_each(size, LOCAL_WORKER, "worker");
}

BOTH_SIZES(conformance_membership, F25_a_ps_that_was_killed_is_the_only_task_that_is_down)
{
    kill_each(size, LOCAL_PS, "ps");
}

BOTH_SIZES(conformance_membership, F25_a_paused_worker_is_told_from_a_healthy_one)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = size, .workers = size};
    options.coordinator.lease_ms = LOCAL_WAIT_MS; /* it must not be lost meanwhile */
    stage_open_with(&stage, &options);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGSTOP);
    EVENTUALLY(!all_healthy_but(&stage, "worker", -1));
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).workers, size, "suspect, not lost");
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGCONT);
    EVENTUALLY(all_healthy_but(&stage, "worker", -1));
    stage_close(&stage);
}
