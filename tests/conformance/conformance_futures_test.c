/* Results of closures as arguments of others: C12 of docs/conformance.md, and what Q, E and F mean
 * for it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_futures, .timeout = 900);

/* A closure that gives ones as "value". */
static cadre_future_t *
give_ones(stage_t *stage)
{
    float values[WIDE_ROWS];
    cadre_tensor_t value = stage_row(values, 1);
    return stage_call(stage, "echo", "value", &value);
}

/* Schedules a call of `function` whose argument `name` is the result "value" of `from`. */
static cadre_future_t *
call_with(stage_t *stage, const char *function, const char *name, const cadre_future_t *from)
{
    cadre_future_t *future = NULL;
    cadre_future_argument_t argument = {name, from, "value"};
    cadre_call_t call = {.size = sizeof(call), .futures = &argument, .future_count = 1};
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, function), &call,
                                  LOCAL_WAIT_MS, &future));
    return future;
}

/* The same with the files of a hold. */
static void
hold_with(stage_t *stage, const char *function, const char *name, const cadre_future_t *from,
          hold_t *hold)
{
    cadre_tensor_t started = stage_text(hold->started);
    cadre_tensor_t release = stage_text(hold->release);
    cadre_argument_t tensors[] = {{"started", &started}, {"release", &release}};
    cadre_future_argument_t argument = {name, from, NULL};
    cadre_call_t call = {.size = sizeof(call),
                         .tensors = tensors,
                         .tensor_count = 2,
                         .futures = &argument,
                         .future_count = 1};
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, function), &call,
                                  LOCAL_WAIT_MS, &hold->future));
}

/* A closure that gives ones as "value" as soon as it is released. */
static hold_t
hold_ones(stage_t *stage, const char *name)
{
    float values[WIDE_ROWS];
    hold_t hold = stage_hold_files(stage, name);
    cadre_tensor_t started = stage_text(hold.started);
    cadre_tensor_t release = stage_text(hold.release);
    cadre_tensor_t value = stage_row(values, 1);
    cadre_argument_t tensors[] = {{"started", &started}, {"release", &release}, {"value", &value}};
    cadre_call_t call = {.size = sizeof(call), .tensors = tensors, .tensor_count = 3};
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "echo_when"), &call,
                                  LOCAL_WAIT_MS, &hold.future));
    return hold;
}

static void
drop(cadre_future_t *future)
{
    cadre_future_destroy(&future);
}

/* A number of the status, added up over all workers where each has it. */
static long long
count_of(stage_t *stage, const char *counter)
{
    cadre_auto(cadre_free) char *text = NULL;
    cadre_auto(cadre_free) char *key = cadre_asprintf("\"%s\":", counter);
    OK(cadre_coordinator_status_json(stage->coordinator, &text));
    long long sum = 0;
    for (const char *at = text; (at = strstr(at, key));) {
        at += strlen(key);
        sum += strtoll(at, NULL, 10);
    }
    return sum;
}

BOTH_CAPACITIES(conformance_futures, C12_a_closure_waits_for_another_and_gets_its_result)
{
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    hold_t hold = hold_ones(&stage, "first");
    hold_wait(&hold, 1);
    cadre_future_t *second = call_with(&stage, "push", "gradient", hold.future);
    stage_schedule(&stage, "add_one", 3); /* others do not wait for it */
    EVENTUALLY(cadre_coordinator_totals(stage.coordinator).finished == 3);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).queued, 1);
    cr_expect_eq(count_of(&stage, "blocked"), 1);
    cr_expect_eq(cadre_future_closure_id(second), 0, "it was not begun");
    FAILS(cadre_coordinator_join(stage.coordinator, 50), CADRE_ETIMEOUT, "closures to end");
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, 4);
    stage_expect_applied(&stage, 4);
    drop(call_with(&stage, "push", "gradient", hold.future)); /* what has ended is there at once */
    stage_join(&stage);
    stage_expect(&stage, 5);
    drop(second);
    hold_fini(&hold);
    stage_close(&stage);
}

/* Who takes a result has it also when its future is dropped, before or after it is there. */
BOTH_CAPACITIES(conformance_futures, C12_a_dropped_future_lives_on_in_those_that_take_it)
{
    enum { PAIRS = 50 };
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    for (int i = 0; i < PAIRS; i++) {
        cadre_future_t *first = give_ones(&stage);
        if (i % 2) {
            OK(cadre_future_wait(first, LOCAL_WAIT_MS));
        }
        cadre_future_t *second = call_with(&stage, "push", "gradient", first);
        drop(first);
        drop(second);
    }
    stage_join(&stage);
    stage_expect(&stage, PAIRS);
    stage_expect_applied(&stage, PAIRS);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_futures, C12_results_go_along_chains)
{
    enum { LINKS = 30 };
    stage_t stage;
    stage_open_capacity(&stage, 1, 3, capacity);
    cadre_future_t *last = give_ones(&stage);
    for (int i = 0; i < LINKS; i++) {
        cadre_future_t *next = call_with(&stage, "echo", "value", last);
        drop(last);
        last = next;
    }
    for (int i = 0; i < 5; i++) {
        drop(call_with(&stage, "push", "gradient", last)); /* one for several */
    }
    stage_join(&stage);
    stage_expect(&stage, 5);
    drop(last);
    stage_close(&stage);
}

/* From a program to a program, beside an argument of its own. */
BOTH_CAPACITIES(conformance_futures, C12_programs_give_and_take_results)
{
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    cadre_dim_t rows = cadre_dim(WIDE_ROWS);
    cadre_program_t *doubles = cadre_program_new("doubles");
    cadre_node_t x = cadre_op_arg(doubles, "x", CADRE_F32, &rows, 1);
    cadre_op_result(doubles, "twice", cadre_op_add(doubles, x, x));
    OK(cadre_program_finish(doubles));
    cadre_program_t *adds = cadre_program_new("adds");
    cadre_node_t wide = cadre_op_var(adds, "wide", (int64_t[]){WIDE_ROWS}, 1);
    cadre_node_t sum = cadre_op_add(adds, cadre_op_arg(adds, "a", CADRE_F32, &rows, 1),
                                    cadre_op_arg(adds, "b", CADRE_F32, &rows, 1));
    cadre_op_push(adds, wide, sum);
    OK(cadre_program_finish(adds));
    cadre_function_t *first = NULL;
    cadre_function_t *second = NULL;
    OK(cadre_function_register(stage.coordinator, &doubles, &first));
    OK(cadre_function_register(stage.coordinator, &adds, &second));
    float values[WIDE_ROWS];
    cadre_tensor_t value = stage_row(values, 1);
    cadre_argument_t x_is = {"x", &value};
    cadre_argument_t a_is = {"a", &value};
    cadre_future_t *twice = NULL;
    OK(cadre_coordinator_schedule(
        stage.coordinator, first,
        &(cadre_call_t){.size = sizeof(cadre_call_t), .tensors = &x_is, .tensor_count = 1},
        LOCAL_WAIT_MS, &twice));
    cadre_future_argument_t b_is = {"b", twice, "twice"};
    cadre_call_t call = {.size = sizeof(call),
                         .tensors = &a_is,
                         .tensor_count = 1,
                         .futures = &b_is,
                         .future_count = 1};
    OK(cadre_coordinator_schedule(stage.coordinator, second, &call, LOCAL_WAIT_MS, NULL));
    stage_join(&stage);
    stage_expect(&stage, 3);
    drop(twice);
    stage_close(&stage);
}

/* A large result goes to a worker once: from the second closure on it is there, and the one that
 * gave it has it from the beginning. */
Test(conformance_futures, C12_a_worker_that_has_a_value_is_not_sent_it_again)
{
    enum { CLOSURES = 6 };
    stage_t stage;
    stage_open_with(&stage, &(local_cluster_options_t){.ps = 1, .workers = 1, .slots = 1});
    cadre_future_t *first = NULL;
    OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "big"), NULL,
                                  LOCAL_WAIT_MS, &first));
    cadre_future_argument_t argument = {"big", first, "big"};
    cadre_call_t call = {.size = sizeof(call), .futures = &argument, .future_count = 1};
    for (int i = 0; i < CLOSURES; i++) {
        OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "add_one"), &call,
                                      LOCAL_WAIT_MS, NULL));
    }
    stage_join(&stage);
    stage_expect(&stage, CLOSURES);
    EVENTUALLY(count_of(&stage, "values_found") == CLOSURES);
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 0); /* another one has nothing */
    for (int i = 0; i < CLOSURES; i++) {
        OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "add_one"), &call,
                                      LOCAL_WAIT_MS, NULL));
    }
    stage_join(&stage);
    stage_expect(&stage, 2 * CLOSURES);
    EVENTUALLY(count_of(&stage, "values_found") == CLOSURES - 1);
    cr_expect_eq(count_of(&stage, "values_missed"), 0);
    drop(first);
    stage_close(&stage);
}

/* --- errors --- */

BOTH_CAPACITIES(conformance_futures, C12_who_takes_from_a_closure_that_fails_fails_with_it)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    hold_t hold = stage_hold_failing(&stage, "no such luck");
    hold_wait(&hold, 1);
    cadre_future_t *second = call_with(&stage, "push", "gradient", hold.future);
    cadre_future_t *third = call_with(&stage, "push", "gradient", second);
    hold_release(&hold);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION,
          "no such luck");
    cr_expect_not(strstr(cadre_error_text(), "more failed"), "%s", cadre_error_text());
    for (int i = 0; i < 2; i++) {
        FAILS(cadre_future_wait(second, 0), CADRE_EFUNCTION, "no such luck");
        FAILS(cadre_future_wait(third, 0), CADRE_EFUNCTION, "function fail_when, closure ");
    }
    cadre_future_argument_t argument = {"gradient", third, NULL};
    cadre_call_t call = {.size = sizeof(call), .futures = &argument, .future_count = 1};
    FAILS(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "push"), &call, 0,
                                     NULL),
          CADRE_EFUNCTION, "argument gradient is of a closure that has failed");
    stage_schedule(&stage, "add_one", 2); /* the queue is clean */
    stage_join(&stage);
    stage_expect(&stage, 2);
    drop(second);
    drop(third);
    hold_fini(&hold);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_futures, C12_cancelling_ends_closures_that_wait_for_others)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    hold_t hold = hold_ones(&stage, "first");
    hold_wait(&hold, 1);
    cadre_future_t *second = call_with(&stage, "push", "gradient", hold.future);
    OK(cadre_coordinator_cancel(stage.coordinator, LOCAL_WAIT_MS));
    FAILS(cadre_future_wait(second, 0), CADRE_ECANCELLED, "cancelled");
    FAILS(cadre_future_wait(hold.future, 0), CADRE_ECANCELLED, "cancelled");
    cadre_future_argument_t argument = {"gradient", hold.future, NULL};
    cadre_call_t call = {.size = sizeof(call), .futures = &argument, .future_count = 1};
    FAILS(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "push"), &call, 0,
                                     NULL),
          CADRE_ECANCELLED, "argument gradient");
    stage_join(&stage);
    stage_expect(&stage, 0);
    drop(second);
    hold_fini(&hold);
    stage_close(&stage);
}

/* A result that a closure does not give: at the call where that is known, else when it has ended.
 */
BOTH_CAPACITIES(conformance_futures, C12_a_result_that_is_not_there_is_an_error)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 1, capacity);
    hold_t hold = hold_ones(&stage, "first");
    hold_wait(&hold, 1);
    cadre_future_argument_t argument = {"gradient", hold.future, "valeu"};
    cadre_call_t call = {.size = sizeof(call), .futures = &argument, .future_count = 1};
    cadre_function_t *function = stage_function(&stage, "push");
    OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    hold_release(&hold);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_ENOTFOUND,
          "function push: argument gradient: closure ");
    cr_expect(strstr(cadre_error_text(), "no result called valeu"), "%s", cadre_error_text());
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_ENOTFOUND,
          "valeu");
    stage_expect(&stage, 0);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_futures, C12_what_is_no_future_is_refused_at_the_call)
{
    stage_t stage;
    stage_t other;
    stage_open(&stage, 1, 1);
    stage_open(&other, 1, 1);
    cadre_function_t *function = stage_function(&stage, "push");
    cadre_future_t *foreign = give_ones(&other);
    cadre_future_t *future = give_ones(&stage);
    cadre_future_argument_t arguments[65];
    cadre_call_t call = {.size = sizeof(call), .futures = arguments, .future_count = 1};
    arguments[0] = (cadre_future_argument_t){"gradient", foreign, NULL};
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_EINVALID,
          "argument gradient");
    arguments[0].future = NULL;
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_EINVALID,
          "argument gradient");
    arguments[0] = (cadre_future_argument_t){"a b", future, NULL};
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_EINVALID,
          "a b");
    arguments[0] = arguments[1] = (cadre_future_argument_t){"gradient", future, NULL};
    call.future_count = 2;
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_EINVALID,
          "argument gradient is there twice");
    char names[65][8];
    for (int i = 0; i < 65; i++) {
        snprintf(names[i], sizeof(names[i]), "a%d", i);
        arguments[i] = (cadre_future_argument_t){names[i], future, "value"};
    }
    call.future_count = 65;
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_ETOOLARGE,
          "64");
    cadre_resource_t *resource = NULL;
    call.future_count = 1;
    FAILS(cadre_resource_create(stage.coordinator, "r", function, &call, &resource), CADRE_EINVALID,
          "tensors only");
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).scheduled, 1);
    call.future_count = 64; /* the limit */
    OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "add_one"), &call,
                                  LOCAL_WAIT_MS, NULL));
    stage_join(&stage);
    stage_expect(&stage, 1);
    drop(foreign);
    drop(future);
    stage_close(&other);
    stage_close(&stage);
}

/* --- failures --- */

/* The worker that has the value dies with the closure that takes it: that runs again, with it. */
BOTH_SIZES(conformance_futures, C12_a_closure_that_is_lost_with_its_worker_gets_its_value_again)
{
    stage_t stage;
    stage_open(&stage, size, size);
    hold_t hold = stage_hold_files(&stage, "second");
    cadre_future_t *first = give_ones(&stage);
    hold_with(&stage, "push_when", "gradient", first, &hold);
    drop(first);
    for (int i = 1; i <= 3; i++) {
        local_cluster_restart(&stage.cluster, LOCAL_WORKER, hold_wait(&hold, i));
    }
    hold_wait(&hold, 4);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, 1);
    stage_expect_applied(&stage, 1);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).workers_lost, 3);
    hold_fini(&hold);
    stage_close(&stage);
}

/* The closure that gives is lost with its worker, and runs again, before the other is begun. */
BOTH_SIZES(conformance_futures, C12_a_closure_that_gives_is_lost_with_its_worker)
{
    stage_t stage;
    stage_open(&stage, size, size);
    hold_t hold = hold_ones(&stage, "first");
    drop(call_with(&stage, "push", "gradient", hold.future));
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, hold_wait(&hold, 1));
    hold_wait(&hold, 2);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, 1);
    hold_fini(&hold);
    stage_close(&stage);
}

/* Closures on both sides of a cut that take results of closures before it: a ps is lost, they run
 * again, and have their values although those that gave them do not run again. */
static void
lose_ps(cadre_recovery_t recovery)
{
    enum { CLOSURES = 40 };
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.recovery = recovery;
    stage_open_with(&stage, &options);
    cadre_future_t *first = give_ones(&stage);
    OK(cadre_future_wait(first, LOCAL_WAIT_MS));
    for (int i = 0; i < CLOSURES; i++) {
        if (i == CLOSURES / 2) {
            uint64_t checkpoint = 0;
            OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, &checkpoint));
        }
        drop(call_with(&stage, "push", "gradient", first));
    }
    drop(first);
    stage_join(&stage);
    for (int i = 0; i < 2; i++) {
        local_cluster_restart(&stage.cluster, LOCAL_PS, i);
        stage_schedule(&stage, "add_one", 1);
        stage_join(&stage);
        stage_expect(&stage, CLOSURES + 1 + i);
    }
    cr_expect_geq(cadre_coordinator_totals(stage.coordinator).replayed, CLOSURES / 2);
    stage_close(&stage);
}

Test(conformance_futures, C12_closures_that_run_again_for_a_ps_have_their_values)
{
    lose_ps(CADRE_RECOVERY_REPLAY);
}

Test(conformance_futures, C12_closures_that_run_again_after_a_rollback_have_their_values)
{
    lose_ps(CADRE_RECOVERY_ROLLBACK);
}
