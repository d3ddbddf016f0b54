/* Groups of closures, and priorities: the ids G and Q15 of docs/conformance.md. */
#include <cadre/completion.h>
#include <cadre/group.h>
#include <signal.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_groups, .timeout = 900);

static cadre_group_t *
make_group(stage_t *stage, cadre_after_error_t after_error)
{
    cadre_group_t *group = NULL;
    cadre_group_options_t options = cadre_group_options();
    options.after_error = after_error;
    OK(cadre_group_create(stage->coordinator, &options, &group));
    return group;
}

/* Schedules `count` calls of a function without arguments. */
static void
schedule_in(stage_t *stage, cadre_group_t *group, const char *name, int count)
{
    cadre_call_t call = cadre_call();
    call.group = group;
    for (int i = 0; i < count; i++) {
        OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, name), &call,
                                      LOCAL_WAIT_MS, NULL));
    }
}

/* Schedules a call that fails with `text`. */
static cadre_future_t *
fail_in(stage_t *stage, cadre_group_t *group, const char *text)
{
    cadre_future_t *future = NULL;
    cadre_tensor_t tensor = stage_text(text);
    cadre_argument_t argument = {"text", &tensor};
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    call.group = group;
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "fail"), &call,
                                  LOCAL_WAIT_MS, &future));
    return future;
}

/* Schedules a call that runs until it is released or cancelled. */
static hold_t
hold_in(stage_t *stage, cadre_group_t *group, const char *name)
{
    hold_t hold = stage_hold_files(stage, name);
    cadre_tensor_t started = stage_text(hold.started);
    cadre_tensor_t release = stage_text(hold.release);
    cadre_argument_t arguments[] = {{"started", &started}, {"release", &release}};
    cadre_call_t call = cadre_call_tensors(arguments, 2);
    call.group = group;
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "hold"), &call,
                                  LOCAL_WAIT_MS, &hold.future));
    return hold;
}

BOTH_CAPACITIES(conformance_groups, G1_a_failure_cancels_its_group_and_nothing_else)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 3, capacity);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_STOPS);
    cadre_group_t *other = make_group(&stage, CADRE_GROUP_STOPS);
    hold_t of_group = hold_in(&stage, group, "of-group");
    hold_t of_other = hold_in(&stage, other, "of-other");
    hold_t of_none = stage_hold(&stage, "of-none");
    hold_wait(&of_group, 1);
    hold_wait(&of_other, 1);
    hold_wait(&of_none, 1);

    cadre_future_t *failing = fail_in(&stage, group, "the soup is cold");
    FAILS(cadre_future_wait(failing, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the soup is cold");
    FAILS(cadre_future_wait(of_group.future, LOCAL_WAIT_MS), CADRE_ECANCELLED, "");
    FAILS(cadre_group_join(group, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the soup is cold");
    OK(cadre_group_join(group, LOCAL_WAIT_MS)); /* once */
    FAILS(cadre_group_join(other, 0), CADRE_ETIMEOUT, "closures of a group");

    hold_release(&of_other);
    hold_release(&of_none);
    OK(cadre_future_wait(of_other.future, LOCAL_WAIT_MS));
    OK(cadre_future_wait(of_none.future, LOCAL_WAIT_MS));
    schedule_in(&stage, group, "add_one", 10); /* it is usable again */
    OK(cadre_group_join(group, LOCAL_WAIT_MS));
    stage_join(&stage);
    stage_expect(&stage, 12);

    cadre_group_totals_t totals = cadre_group_totals(group);
    cr_expect_eq(totals.scheduled, 12);
    cr_expect_eq(totals.finished, 10);
    cr_expect_eq(totals.failed, 1);
    cr_expect_eq(totals.cancelled, 1);
    cadre_future_destroy(&failing);
    hold_fini(&of_group);
    hold_fini(&of_other);
    hold_fini(&of_none);
    cadre_group_destroy(&group);
    cadre_group_destroy(&other);
    stage_close(&stage);
}

Test(conformance_groups, G1_a_failure_outside_of_groups_cancels_nothing_in_one)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_STOPS);
    hold_t hold = hold_in(&stage, group, "held");
    hold_wait(&hold, 1);
    cadre_future_t *failing = fail_in(&stage, NULL, "the soup is cold");
    FAILS(cadre_future_wait(failing, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the soup is cold");
    schedule_in(&stage, group, "add_one", 10);
    hold_release(&hold);
    OK(cadre_group_join(group, LOCAL_WAIT_MS));
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION,
          "the soup is cold");
    stage_expect(&stage, 11);
    cadre_future_destroy(&failing);
    hold_fini(&hold);
    cadre_group_destroy(&group);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_groups, G2_schedule_raises_the_error_of_a_group_that_stops)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 1, capacity);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_STOPS);
    cadre_call_t call = cadre_call();
    const cadre_function_t *function = stage_function(&stage, "add_one");
    cadre_future_t *failing = fail_in(&stage, group, "the soup is cold");
    FAILS(cadre_future_wait(failing, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the soup is cold");
    OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    call.group = group;
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL),
          CADRE_EFUNCTION, "the soup is cold");
    OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    OK(cadre_group_join(group, LOCAL_WAIT_MS));
    stage_join(&stage);
    stage_expect(&stage, 2);
    cadre_future_destroy(&failing);
    cadre_group_destroy(&group);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_groups, G3_a_group_that_goes_on_runs_the_rest_and_counts_failures)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 1, capacity);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_GOES_ON);
    for (int i = 0; i < 5; i++) {
        char text[32];
        snprintf(text, sizeof(text), "failure number %d", i);
        cadre_future_t *future = fail_in(&stage, group, text);
        cadre_future_destroy(&future);
        schedule_in(&stage, group, "add_one", 3);
    }
    FAILS(cadre_group_join(group, LOCAL_WAIT_MS), CADRE_EFUNCTION, "failure number 0");
    cr_expect(strstr(cadre_error_text(), "(and 4 more failed)"), "%s", cadre_error_text());
    OK(cadre_group_join(group, LOCAL_WAIT_MS)); /* once */
    stage_join(&stage);
    stage_expect(&stage, 15);
    cadre_group_totals_t totals = cadre_group_totals(group);
    cr_expect_eq(totals.finished, 15);
    cr_expect_eq(totals.failed, 5);
    cr_expect_eq(totals.cancelled, 0);
    cadre_group_destroy(&group);
    stage_close(&stage);
}

Test(conformance_groups, G4_cancelling_a_group_leaves_others_alone)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_GOES_ON);
    hold_t of_group = hold_in(&stage, group, "of-group");
    hold_t of_none = stage_hold(&stage, "of-none");
    hold_wait(&of_group, 1);
    hold_wait(&of_none, 1);
    OK(cadre_group_cancel(group, LOCAL_WAIT_MS));
    FAILS(cadre_future_wait(of_group.future, 0), CADRE_ECANCELLED, "");
    OK(cadre_group_join(group, LOCAL_WAIT_MS)); /* what was cancelled has not failed */
    FAILS(cadre_future_wait(of_none.future, 0), CADRE_ETIMEOUT, "");
    hold_release(&of_none);
    stage_join(&stage);
    stage_expect(&stage, 1);

    hold_t another = hold_in(&stage, group, "another");
    hold_wait(&another, 1);
    OK(cadre_coordinator_cancel(stage.coordinator, LOCAL_WAIT_MS));
    FAILS(cadre_future_wait(another.future, 0), CADRE_ECANCELLED, "");
    hold_fini(&of_group);
    hold_fini(&of_none);
    hold_fini(&another);
    cadre_group_destroy(&group);
    stage_close(&stage);
}

Test(conformance_groups, G5_who_takes_a_result_of_a_failed_group_fails_in_its_own)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_GOES_ON);
    hold_t hold = stage_hold_files(&stage, "held");
    cadre_tensor_t started = stage_text(hold.started);
    cadre_tensor_t release = stage_text(hold.release);
    cadre_tensor_t text = stage_text("the soup is cold");
    cadre_argument_t arguments[] = {{"started", &started}, {"release", &release}, {"text", &text}};
    cadre_call_t call = cadre_call_tensors(arguments, 3);
    call.group = group;
    OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "fail_when"), &call,
                                  LOCAL_WAIT_MS, &hold.future));

    cadre_future_argument_t argument = {"value", hold.future, NULL};
    cadre_call_t taking = cadre_call();
    taking.futures = &argument;
    taking.future_count = 1;
    OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "echo"), &taking,
                                  LOCAL_WAIT_MS, NULL));
    hold_release(&hold);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION,
          "the soup is cold");
    FAILS(cadre_group_join(group, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the soup is cold");
    hold_fini(&hold);
    cadre_group_destroy(&group);
    stage_close(&stage);
}

BOTH_SIZES(conformance_groups, G6_updates_of_groups_count_once_although_a_worker_dies)
{
    stage_t stage;
    stage_open(&stage, size, size);
    cadre_group_t *groups[2] = {make_group(&stage, CADRE_GROUP_STOPS),
                                make_group(&stage, CADRE_GROUP_GOES_ON)};
    hold_t hold = hold_in(&stage, groups[0], "held");
    schedule_in(&stage, groups[0], "add_one", 50);
    schedule_in(&stage, groups[1], "add_one", 50);
    int worker = hold_wait(&hold, 1);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, worker, SIGKILL);
    local_cluster_start(&stage.cluster, LOCAL_WORKER, worker);
    hold_release(&hold);
    OK(cadre_group_join(groups[0], LOCAL_WAIT_MS));
    OK(cadre_group_join(groups[1], LOCAL_WAIT_MS));
    stage_expect(&stage, 101);
    stage_expect_applied(&stage, 101);
    hold_fini(&hold);
    cadre_group_destroy(&groups[0]);
    cadre_group_destroy(&groups[1]);
    stage_close(&stage);
}

Test(conformance_groups, G7_bad_calls_are_refused_and_a_group_outlives_its_coordinator)
{
    stage_t stage;
    stage_t another;
    stage_open(&stage, 1, 1);
    stage_open(&another, 1, 1);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_STOPS);
    cadre_group_options_t options = cadre_group_options();
    options.after_error = (cadre_after_error_t)7;
    FAILS(cadre_group_create(stage.coordinator, &options, NULL), CADRE_EINVALID, "after_error 7");
    FAILS(cadre_group_join(NULL, 0), CADRE_EINVALID, "no group");
    FAILS(cadre_group_cancel(NULL, 0), CADRE_EINVALID, "no group");
    cadre_call_t call = cadre_call();
    call.group = group;
    FAILS(cadre_coordinator_schedule(another.coordinator, stage_function(&another, "add_one"),
                                     &call, LOCAL_WAIT_MS, NULL),
          CADRE_EINVALID, "no group of this coordinator");
    FAILS(cadre_resource_create(stage.coordinator, "r", stage_function(&stage, "build_place"),
                                &call, NULL),
          CADRE_EINVALID, "tensors only");
    schedule_in(&stage, group, "add_one", 3);
    stage_join(&stage);
    stage_close(&stage);
    stage_close(&another);
    FAILS(cadre_group_join(group, LOCAL_WAIT_MS), CADRE_ECLOSED, "closed");
    cr_expect_eq(cadre_group_totals(group).finished, 3);
    cadre_group_destroy(&group);
    cadre_group_destroy(&group);
}

/* --- priorities --- */

static cadre_future_t *
schedule_with(stage_t *stage, cadre_priority_t priority)
{
    cadre_future_t *future = NULL;
    cadre_call_t call = cadre_call();
    call.priority = priority;
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "add_one"), &call,
                                  LOCAL_WAIT_MS, &future));
    return future;
}

/* Closures get their ids when they are handed out. */
/* A function of "x", numbers, that gives "sum", of all, and "row", each and 1. */
static const cadre_function_t *
register_pairs(stage_t *stage)
{
    cadre_program_t *p = cadre_program_new("pairs");
    cadre_function_t *function = NULL;
    const cadre_dim_t shape[] = {cadre_dim_symbol("B")};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, shape, 1);
    cadre_op_result(p, "sum", cadre_op_sum(p, x, 0));
    cadre_op_result(p, "row", cadre_op_add(p, x, cadre_op_const_f32(p, 1)));
    OK(cadre_function_register(stage->coordinator, &p, &function));
    return function;
}

/* Schedules a call with `size` times the number. */
static cadre_future_t *
pair_in(stage_t *stage, cadre_group_t *group, const cadre_function_t *function, int size,
        float number)
{
    float numbers[4] = {number, number, number, number};
    cadre_future_t *future = NULL;
    cadre_tensor_t x = cadre_tensor_view(CADRE_F32, numbers, (int64_t[]){size}, 1);
    cadre_argument_t argument = {"x", &x};
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    call.group = group;
    OK(cadre_coordinator_schedule(stage->coordinator, function, &call, LOCAL_WAIT_MS, &future));
    return future;
}

Test(conformance_groups, G8_results_of_a_groups_closures_are_summed_and_averaged)
{
    enum { COUNT = 20 };
    stage_t stage;
    stage_open(&stage, 1, 2);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_GOES_ON);
    const cadre_function_t *pairs = register_pairs(&stage);
    cadre_future_t *futures[COUNT + 1] = {NULL};
    for (int i = 0; i < COUNT; i++) {
        futures[i] = pair_in(&stage, group, pairs, 2, (float)i);
    }

    cadre_auto(cadre_tensor_fini) cadre_tensor_t sum = {0};
    cadre_auto(cadre_tensor_fini) cadre_tensor_t mean = {0};
    const cadre_reduction_t reductions[] = {{"sum", CADRE_REDUCTION_SUM, &sum},
                                            {"row", CADRE_REDUCTION_MEAN, &mean},
                                            {NULL, CADRE_REDUCTION_SUM, NULL}};
    OK(cadre_future_reduce_all(futures, COUNT, reductions, 3, LOCAL_WAIT_MS));
    cr_assert(sum.dtype == CADRE_F64 && sum.rank == 0);
    cr_expect_eq(*(const double *)sum.data, 2 * COUNT * (COUNT - 1) / 2);
    cr_assert(mean.dtype == CADRE_F64 && mean.rank == 1 && mean.shape[0] == 2);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(((const double *)mean.data)[i], (COUNT - 1) / 2.0 + 1);
    }

    /* What cannot be joined changes nothing. */
    futures[COUNT] = pair_in(&stage, group, pairs, 3, 1);
    FAILS(cadre_future_reduce_all(futures, COUNT + 1, reductions, 3, LOCAL_WAIT_MS), CADRE_ESHAPE,
          "row has not the same shape for every closure");
    cadre_future_destroy(&futures[COUNT]);
    futures[COUNT] = fail_in(&stage, group, "the soup is cold");
    FAILS(cadre_future_reduce_all(futures, COUNT + 1, reductions, 3, LOCAL_WAIT_MS),
          CADRE_EFUNCTION, "the soup is cold");
    cr_expect_eq(*(const double *)sum.data, 2 * COUNT * (COUNT - 1) / 2, "what was there stays");

    const cadre_reduction_t rows = {"row", CADRE_REDUCTION_ROWS, NULL};
    const cadre_reduction_t unknown = {"column", CADRE_REDUCTION_SUM, NULL};
    FAILS(cadre_future_reduce_all(futures, COUNT, &rows, 1, 0), CADRE_EINVALID, "not 2 of");
    FAILS(cadre_future_reduce_all(futures, COUNT, &unknown, 1, 0), CADRE_ENOTFOUND, "column");
    FAILS(cadre_future_reduce_all(futures, COUNT, reductions, 0, 0), CADRE_EINVALID,
          "0 reductions");
    FAILS(cadre_future_reduce_all(futures, 0, reductions, 1, 0), CADRE_EINVALID, "no closure");
    FAILS(cadre_future_reduce_all((cadre_future_t *[]){NULL}, 1, reductions, 1, 0), CADRE_EINVALID,
          "future 0 of 1");
    FAILS(cadre_group_join(group, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the soup is cold");
    for (int i = 0; i <= COUNT; i++) {
        cadre_future_destroy(&futures[i]);
    }
    cadre_group_destroy(&group);
    stage_close(&stage);
}

Test(conformance_groups, Q15_what_waits_is_handed_out_by_priority)
{
    enum { CLOSURES = 30, HANDED_OUT = 10 };
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1, .slots = 1};
    stage_open_with(&stage, &options);
    hold_t hold = stage_hold(&stage, "held");
    hold_wait(&hold, 1);
    cadre_future_t *low = schedule_with(&stage, CADRE_PRIORITY_LOW);
    cadre_future_t *normal[CLOSURES];
    for (int i = 0; i < CLOSURES; i++) {
        normal[i] = schedule_with(&stage, CADRE_PRIORITY_NORMAL);
    }
    cadre_future_t *high = schedule_with(&stage, CADRE_PRIORITY_HIGH);
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, CLOSURES + 3);
    /* A few were with the worker already. */
    cr_expect_lt(cadre_future_closure_id(high), cadre_future_closure_id(normal[HANDED_OUT]));
    for (int i = 1; i < CLOSURES; i++) {
        cr_expect_lt(cadre_future_closure_id(normal[i - 1]), cadre_future_closure_id(normal[i]));
    }
    cadre_future_destroy(&high);
    cadre_future_destroy(&low);
    for (int i = 0; i < CLOSURES; i++) {
        cadre_future_destroy(&normal[i]);
    }
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_groups, priorities_are_refused_where_the_order_is_the_jobs)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.consistency = CADRE_SYNC;
    stage_open_with(&stage, &options);
    cadre_call_t call = cadre_call();
    call.priority = CADRE_PRIORITY_HIGH;
    FAILS(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "add_one"), &call,
                                     LOCAL_WAIT_MS, NULL),
          CADRE_EINVALID, "run in the order of their calls");
    call.priority = (cadre_priority_t)3;
    FAILS(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "add_one"), &call,
                                     LOCAL_WAIT_MS, NULL),
          CADRE_EINVALID, "priority 3");
    stage_close(&stage);
}

/* --- what hangs --- */

Test(conformance_groups, E12_a_join_that_times_out_names_what_it_waits_for)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 2, .slots = 1};
    stage_open_with(&stage, &options);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_GOES_ON);
    hold_t of_group = hold_in(&stage, group, "of-group");
    const int worker = hold_wait(&of_group, 1);
    hold_t of_none = stage_hold(&stage, "of-none");
    hold_wait(&of_none, 1);
    stage_schedule(&stage, "add_one", 20);

    cadre_auto(cadre_free) char *words =
        cadre_asprintf("closure 1 (function hold) on worker %d for ", worker);
    FAILS(cadre_coordinator_join(stage.coordinator, 50), CADRE_ETIMEOUT, words);
    cr_expect(strstr(cadre_error_text(), "waiting for closures to end"), "%s", cadre_error_text());
    cr_expect(strstr(cadre_error_text(), "closure 2 (function hold) on worker"), "%s",
              cadre_error_text());
    FAILS(cadre_group_join(group, 50), CADRE_ETIMEOUT, words);
    cr_expect(strstr(cadre_error_text(), "1 on 2 workers, 0 wait for one"), "%s",
              cadre_error_text());
    cr_expect_null(strstr(cadre_error_text(), "closure 2"), "it is not of the group: %s",
                   cadre_error_text());

    hold_release(&of_group);
    hold_release(&of_none);
    stage_join(&stage);
    stage_expect(&stage, 22);
    hold_fini(&of_group);
    hold_fini(&of_none);
    cadre_group_destroy(&group);
    stage_close(&stage);
}

Test(conformance_groups, what_waits_for_an_absent_worker_is_named_by_all_that_wait_for_it)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    stage_open_with(&stage, &options);
    cadre_group_t *group = make_group(&stage, CADRE_GROUP_GOES_ON);
    cadre_call_t call = cadre_call();
    call.group = group;
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule_on(stage.coordinator, 5, stage_function(&stage, "add_one"), &call,
                                     LOCAL_WAIT_MS, &future));
    const char *words = "closure (function add_one) waits for worker 5, which is absent";
    FAILS(cadre_group_join(group, 50), CADRE_ETIMEOUT, words);
    FAILS(cadre_future_wait(future, 50), CADRE_ETIMEOUT, words);
    FAILS(cadre_future_fetch(future, NULL, NULL, 50), CADRE_ETIMEOUT, words);
    cadre_completion_t *completion = NULL;
    cadre_future_t *ended = NULL;
    OK(cadre_completion_create(stage.coordinator, &completion));
    OK(cadre_completion_add(completion, future));
    FAILS(cadre_completion_next(completion, &ended, 50), CADRE_ETIMEOUT, words);
    cadre_completion_destroy(&completion);
    cadre_variable_t *variable = NULL;
    const cadre_variable_options_t of_variable = cadre_variable_options();
    OK(cadre_variable_create(stage.coordinator, "old", CADRE_F32, NULL, 0, &of_variable,
                             &variable));
    FAILS(cadre_variable_drop(&variable, 50), CADRE_ETIMEOUT, words);
    OK(cadre_group_cancel(group, LOCAL_WAIT_MS));
    cadre_future_destroy(&future);
    cadre_group_destroy(&group);
    stage_close(&stage);
}
