/* Lost ps: ids F7, F8, F11, F15, F17, F23 and F25 of docs/conformance.md, and Q with one that is
 * lost while the queue is full. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_ps, .timeout = 900);

/* A ps that is killed while nothing runs: what it held comes back, and what it applied is counted
 * once. */
BOTH_SIZES(conformance_ps, F8_a_ps_that_comes_back_on_its_address_is_a_new_one)
{
    stage_t stage;
    stage_open(&stage, size, size);
    stage_schedule(&stage, "add_one", 20);
    stage_join(&stage);
    for (int round = 1; round <= 3; round++) {
        local_cluster_restart(&stage.cluster, LOCAL_PS, size - 1); /* at once, on its address */
        stage_schedule(&stage, "add_one", 20);
        stage_join(&stage);
        stage_expect(&stage, 20 + 20.0 * round);
        stage_expect_applied(&stage, 20 + 20 * (uint64_t)round);
        cr_expect_eq(cadre_coordinator_totals(stage.coordinator).ps_lost, (uint64_t)round);
    }
    stage_close(&stage);
}

/* Reads, assignments and closures wait for it, and none of them fails. */
BOTH_SIZES(conformance_ps, F15_a_lost_ps_is_recovered_and_nothing_is_raised)
{
    stage_t stage;
    stage_open(&stage, size, size);
    stage_schedule(&stage, "add_one", 50);
    hold_t hold = stage_hold(&stage, "hold");
    hold_wait(&hold, 1);
    local_cluster_signal(&stage.cluster, LOCAL_PS, 0, SIGKILL);
    stage_schedule(&stage, "add_one", 50);
    FAILS(cadre_coordinator_join(stage.coordinator, 300), CADRE_ETIMEOUT, "");
    local_cluster_start(&stage.cluster, LOCAL_PS, 0);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, 101);
    stage_expect_applied(&stage, 101);
    cadre_totals_t totals = cadre_coordinator_totals(stage.coordinator);
    cr_expect_eq(totals.finished, 101, "a closure that ran again is no other closure");
    cr_expect_eq(totals.ps_lost, 1);
    hold_fini(&hold);
    stage_close(&stage);
}

/* `cadre-ps` without --index, as docs/job-file.md has it started by hand. */
BOTH_SIZES(conformance_ps, F8_one_that_left_its_index_open_is_assigned_and_read_also_when_it_is_new)
{
    stage_t stage;
    float values[WIDE_ROWS];
    cadre_tensor_t ones = stage_row(values, 1);
    local_cluster_options_t options = {.ps = size, .workers = size, .open_indexes = true};
    stage_open_with(&stage, &options);
    for (int round = 1; round <= 2; round++) {
        OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_ADD, &ones, LOCAL_WAIT_MS));
        stage_schedule(&stage, "add_one", 10);
        stage_join(&stage);
        stage_expect(&stage, 11.0 * round);
        local_cluster_restart(&stage.cluster, LOCAL_PS, 0); /* sooner than the loss is known */
    }
    stage_expect(&stage, 22);
    stage_close(&stage);
}

static void
open_impatient(stage_t *stage, int size, const char *checkpoints)
{
    local_cluster_options_t options = {.ps = size, .workers = size};
    options.coordinator.ps_timeout_ms = 500;
    options.coordinator.checkpoint_dir = checkpoints;
    stage_open_with(stage, &options);
}

/* Ends the cluster of a job that has failed: its tasks leave, but for the one that is lost. */
BOTH_SIZES(conformance_ps, F7_a_ps_that_stays_away_ends_the_job_and_is_named)
{
    char name[16];
    stage_t stage;
    open_impatient(&stage, size, NULL);
    stage_schedule(&stage, "add_one", 20);
    stage_join(&stage);
    snprintf(name, sizeof(name), "ps %d", size - 1);
    local_cluster_signal(&stage.cluster, LOCAL_PS, size - 1, SIGKILL);
    stage_schedule(&stage, "add_one", 20);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EUNAVAILABLE, name);
    cadre_tensor_t wide = {.data = NULL};
    FAILS(cadre_variable_read(stage.wide, &wide, LOCAL_WAIT_MS), CADRE_EUNAVAILABLE, name);
    stage_close(&stage);
}

/* The ps is there again, but what it misses needs a worker: others may wait for one for ever. */
Test(conformance_ps, a_variable_is_not_waited_for_where_no_worker_runs_what_a_shard_misses)
{
    stage_t stage;
    cadre_variable_t *late = NULL;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.ps_timeout_ms = 10000; /* in which the ps has to start, on a busy machine */
    stage_open_with(&stage, &options);
    stage_schedule(&stage, "add_one", 20);
    stage_join(&stage);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGKILL);
    local_cluster_wait_lost(&stage.cluster, 1);
    local_cluster_restart(&stage.cluster, LOCAL_PS, 0);
    EVENTUALLY(cadre_coordinator_totals(stage.coordinator).ps_restored == 1);
    FAILS(
        cadre_variable_create(stage.coordinator, "late", CADRE_F32, (int64_t[]){1}, 1, NULL, &late),
        CADRE_ETIMEOUT, "--ps-timeout");
    stage_close(&stage);
}

/* The worker's closure is on its way back into the queue when the ps goes too. */
BOTH_SIZES(conformance_ps, F11_a_ps_dies_while_a_worker_is_being_recovered)
{
    stage_t stage;
    stage_open(&stage, size, size);
    hold_t hold = stage_hold(&stage, "hold");
    int worker = hold_wait(&hold, 1);
    stage_schedule(&stage, "add_one", 100);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, worker, SIGKILL);
    local_cluster_signal(&stage.cluster, LOCAL_PS, 0, SIGKILL);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, worker);
    stage_schedule(&stage, "add_one", 100);
    local_cluster_start(&stage.cluster, LOCAL_PS, 0);
    hold_wait(&hold, 2);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, 201);
    stage_expect_applied(&stage, 201);
    hold_fini(&hold);
    stage_close(&stage);
}

static void
kill_everything(stage_t *stage)
{
    for (int role = 0; role < LOCAL_ROLE_COUNT; role++) {
        for (int i = 0; i < stage->cluster.options.ps; i++) {
            local_cluster_signal(&stage->cluster, (local_role_t)role, i, SIGKILL);
        }
    }
    for (int role = 0; role < LOCAL_ROLE_COUNT; role++) {
        for (int i = 0; i < stage->cluster.options.ps; i++) {
            local_cluster_start(&stage->cluster, (local_role_t)role, i);
        }
    }
}

/* Every task but the coordinator, twice, the second time while the first is being made up for. With
 * the coordinator too: D3 in conformance_coordinator_test.c. */
BOTH_SIZES(conformance_ps, F17_all_tasks_are_killed_and_started_again)
{
    stage_t stage;
    stage_open(&stage, size, size);
    stage_schedule(&stage, "add_one", 300);
    kill_everything(&stage);
    stage_schedule(&stage, "add_one", 300);
    kill_everything(&stage);
    stage_schedule(&stage, "add_one", 300);
    stage_join(&stage);
    stage_expect(&stage, 900);
    stage_expect_applied(&stage, 900);
    stage_close(&stage);
}

/* An assignment between closures is repeated at its place. */
BOTH_SIZES(conformance_ps, F17_an_assignment_keeps_its_place_among_the_closures)
{
    stage_t stage;
    stage_open(&stage, size, size);
    float fives[WIDE_ROWS];
    for (int i = 0; i < WIDE_ROWS; i++) {
        fives[i] = 5;
    }
    cadre_tensor_t five = {.dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS}, .data = fives};
    stage_schedule(&stage, "add_one", 40);
    stage_join(&stage);
    OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &five, LOCAL_WAIT_MS));
    stage_schedule(&stage, "add_one", 40);
    stage_join(&stage);
    OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SUBTRACT, &five, LOCAL_WAIT_MS));
    for (int i = 0; i < size; i++) {
        local_cluster_restart(&stage.cluster, LOCAL_PS, i);
    }
    stage_expect(&stage, 40); /* a read waits until all of it has been made up for */
    stage_schedule(&stage, "add_one", 1);
    stage_join(&stage);
    stage_expect(&stage, 41);
    stage_close(&stage);
}

/* --- many closures --- */

static void
five_thousand(const char *checkpoints, cadre_recovery_t recovery)
{
    enum { CLOSURES = 5000, KILLS = 6 };
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.checkpoint_dir = checkpoints;
    options.coordinator.checkpoint_every_ms = checkpoints ? 50 : 0;
    options.coordinator.recovery = recovery;
    stage_open_with(&stage, &options);
    const cadre_function_t *function = stage_function(&stage, "add_one");
    int killed = 0;
    for (int i = 0; i < CLOSURES; i++) {
        OK(cadre_coordinator_schedule(stage.coordinator, function, NULL, LOCAL_WAIT_MS, NULL));
        if (i % (CLOSURES / KILLS) == CLOSURES / KILLS / 2) {
            EVENTUALLY(cadre_coordinator_totals(stage.coordinator).finished > (uint64_t)i * 9 / 10);
            local_cluster_restart(&stage.cluster, LOCAL_PS, killed++ % 2);
        }
    }
    stage_join(&stage);
    stage_expect(&stage, CLOSURES);
    stage_expect_applied(&stage, CLOSURES);
    cadre_totals_t totals = cadre_coordinator_totals(stage.coordinator);
    cr_expect_eq(totals.finished, CLOSURES);
    cr_expect_eq(totals.scheduled, CLOSURES);
    cr_expect_eq(totals.ps_lost, (uint64_t)killed);
    stage_close(&stage);
}

Test(conformance_ps, F23_five_thousand_closures_and_ps_that_die_before_a_checkpoint)
{
    five_thousand(NULL, CADRE_RECOVERY_REPLAY);
}

Test(conformance_ps, F23_five_thousand_closures_and_ps_that_die_between_checkpoints)
{
    five_thousand(local_checkpoints, CADRE_RECOVERY_REPLAY);
}

Test(conformance_ps, F23_five_thousand_closures_and_ps_that_die_with_all_rolled_back)
{
    five_thousand(local_checkpoints, CADRE_RECOVERY_ROLLBACK);
}

/* --- the queue --- */

/* The queue is full, nothing can run without the ps, and callers wait to schedule: when it is back
 * everything goes on. With the worker lost as well nothing of it depends on one that waits. */
static void
lose_with_a_full_queue(size_t capacity, bool worker_too)
{
    enum { CLOSURES = 2 * CADRE_ASIDE_MAX }; /* more than wait beside the queue for a shard */
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    const cadre_function_t *function = stage_function(&stage, "add_one");
    stage_schedule(&stage, "add_one", 100);
    local_cluster_signal(&stage.cluster, LOCAL_PS, 1, SIGKILL);
    if (worker_too) {
        local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGKILL);
    }
    int scheduled = 100;
    int status = 0;
    while (status == 0 && scheduled < CLOSURES) {
        status = cadre_coordinator_schedule(stage.coordinator, function, NULL, 200, NULL);
        scheduled += status == 0;
    }
    cr_expect_eq(status, capacity ? CADRE_ETIMEOUT : 0, "a queue of %zu", capacity);
    local_cluster_start(&stage.cluster, LOCAL_PS, 1);
    if (worker_too) {
        local_cluster_start(&stage.cluster, LOCAL_WORKER, 0);
    }
    stage_schedule(&stage, "add_one", CLOSURES - scheduled);
    stage_join(&stage);
    stage_expect(&stage, CLOSURES);
    stage_expect_applied(&stage, CLOSURES);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_ps, Q_a_ps_is_lost_while_the_queue_is_full)
{
    lose_with_a_full_queue(capacity, false);
}

BOTH_CAPACITIES(conformance_ps, Q_a_ps_and_a_worker_are_lost_while_the_queue_is_full)
{
    lose_with_a_full_queue(capacity, true);
}

/* An error while the ps is away is raised once, and the queue is clean afterwards. */
BOTH_CAPACITIES(conformance_ps, Q8_an_error_is_raised_although_a_ps_is_away)
{
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    hold_t hold = stage_hold_failing(&stage, "meanwhile");
    hold_wait(&hold, 1);
    local_cluster_signal(&stage.cluster, LOCAL_PS, 1, SIGKILL);
    stage_schedule(&stage, "add_one", 2);
    hold_release(&hold);
    FAILS(cadre_future_wait(hold.future, LOCAL_WAIT_MS), CADRE_EFUNCTION, "meanwhile");
    local_cluster_start(&stage.cluster, LOCAL_PS, 1);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION, "meanwhile");
    stage_join(&stage);
    stage_schedule(&stage, "add_one", 5);
    stage_join(&stage);
    hold_fini(&hold);
    stage_close(&stage);
}
