/* What stays on workers: resources, values of each worker, several datasets in one call; C1, C7,
 * C10, C17, C18, E6, E7, E9, F5 and Q12 of docs/conformance.md. */
#include <cadre/group.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_values, .timeout = 900);

static cadre_resource_t *
create(stage_t *stage, const char *name, const char *function, const cadre_call_t *call)
{
    cadre_resource_t *resource = NULL;
    OK(cadre_resource_create(stage->coordinator, name, stage_function(stage, function), call,
                             &resource));
    return resource;
}

/* A resource that "build" makes, whose files are those of a hold. */
static cadre_resource_t *
create_held(stage_t *stage, const char *name, hold_t *hold)
{
    *hold = stage_hold_files(stage, name);
    cadre_tensor_t started = stage_text(hold->started);
    cadre_tensor_t release = stage_text(hold->release);
    cadre_argument_t arguments[] = {{"started", &started}, {"release", &release}};
    return create(
        stage, name, "build",
        &(cadre_call_t){.size = sizeof(cadre_call_t), .tensors = arguments, .tensor_count = 2});
}

/* Schedules a call of `function` that uses `resource`. */
static cadre_future_t *
use(stage_t *stage, const char *function, const cadre_resource_t *resource)
{
    cadre_future_t *future = NULL;
    cadre_call_t call = {.size = sizeof(call), .resources = &resource, .resource_count = 1};
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, function), &call,
                                  LOCAL_WAIT_MS, &future));
    return future;
}

static void
use_often(stage_t *stage, const char *function, const cadre_resource_t *resource, int count)
{
    for (int i = 0; i < count; i++) {
        cadre_future_t *future = use(stage, function, resource);
        cadre_future_destroy(&future);
    }
}

static int64_t
fetch_number(cadre_future_t *future, const char *name)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {.data = NULL};
    OK(cadre_future_fetch(future, name, &value, LOCAL_WAIT_MS));
    cr_assert(value.dtype == CADRE_I64 && cadre_tensor_count(&value) == 1);
    return *(const int64_t *)value.data;
}

BOTH_CAPACITIES(conformance_values, C1_a_function_learns_its_workers_index_and_their_count)
{
    enum { WORKERS = 3 };
    stage_t stage;
    stage_open_capacity(&stage, 1, WORKERS, capacity);
    cadre_resource_t *place = create(&stage, "place", "build_place", NULL);
    cr_expect_str_eq(cadre_resource_name(place), "place");
    int seen = 0;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); seen != (1 << WORKERS) - 1;) {
        cr_assert(again(deadline), "in time on each worker, seen: %d", seen);
        cadre_future_t *future = use(&stage, "tell_place", place);
        int64_t index = fetch_number(future, "index");
        cr_assert(index >= 0 && index < WORKERS);
        cr_expect_eq(fetch_number(future, "built_index"), index, "where it was built");
        cr_expect_eq(fetch_number(future, "count"), WORKERS);
        cr_expect_eq(fetch_number(future, "built_count"), WORKERS);
        seen |= 1 << index;
        cadre_future_destroy(&future);
    }
    stage_close(&stage);
}

/* Each worker counts the closures that it has run in a value of its own; then each is asked. */
BOTH_CAPACITIES(conformance_values, C7_values_live_and_change_on_their_workers)
{
    enum { WORKERS = 5, CLOSURES = 10 };
    stage_t stage;
    stage_open_capacity(&stage, 1, WORKERS, capacity);
    const cadre_resource_t *counter = create(&stage, "counter", "build_counter", NULL);
    cadre_call_t call = {.size = sizeof(call), .resources = &counter, .resource_count = 1};
    int64_t ran[WORKERS] = {0};
    cadre_future_t *futures[CLOSURES];
    for (int i = 0; i < CLOSURES; i++) {
        futures[i] = use(&stage, "count_up", counter);
    }
    for (int i = 0; i < CLOSURES; i++) {
        int64_t index = fetch_number(futures[i], "index");
        cr_assert(index >= 0 && index < WORKERS);
        ran[index]++;
        cadre_future_destroy(&futures[i]);
    }
    int64_t sum = 0;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        cadre_future_t *future = NULL;
        OK(cadre_coordinator_schedule_on(stage.coordinator, worker,
                                         stage_function(&stage, "tell_counter"), &call,
                                         LOCAL_WAIT_MS, &future));
        int64_t count = fetch_number(future, "count");
        cr_expect_eq(count, ran[worker], "worker %u counted %d, not %d", worker, (int)count,
                     (int)ran[worker]);
        sum += count;
        cadre_future_destroy(&future);
    }
    cr_expect_eq(sum, CLOSURES);
    stage_close(&stage);
}

/* Those for worker 1 run there alone and first, and nobody but their futures waits for them. */
BOTH_CAPACITIES(conformance_values, Q12_work_for_one_worker_goes_to_no_other)
{
    enum { CLOSURES = 20 };
    stage_t stage;
    stage_open_with(&stage,
                    &(local_cluster_options_t){
                        .ps = 1, .workers = 2, .coordinator = {.queue_capacity = capacity}});
    const cadre_resource_t *counter = create(&stage, "counter", "build_counter", NULL);
    cadre_call_t call = {.size = sizeof(call), .resources = &counter, .resource_count = 1};
    const cadre_function_t *count_up = stage_function(&stage, "count_up");
    for (int i = 0; i < CLOSURES; i++) {
        cadre_future_t *future = NULL;
        OK(cadre_coordinator_schedule_on(stage.coordinator, 1, count_up, &call, LOCAL_WAIT_MS,
                                         &future));
        cr_expect_eq(fetch_number(future, "index"), 1);
        cadre_future_destroy(&future);
    }
    cadre_future_t *absent = NULL; /* there is no worker 2 yet */
    OK(cadre_coordinator_schedule_on(stage.coordinator, 2, count_up, &call, LOCAL_WAIT_MS,
                                     &absent));
    use_often(&stage, "count_up", counter, CLOSURES);
    stage_join(&stage);
    bool done = false;
    OK(cadre_coordinator_is_done(stage.coordinator, &done));
    cr_expect(done);
    FAILS(cadre_future_wait(absent, 0), CADRE_ETIMEOUT, "");
    local_cluster_start(&stage.cluster, LOCAL_WORKER, 2);
    cr_expect_eq(fetch_number(absent, "index"), 2);
    cadre_future_destroy(&absent);
    FAILS(cadre_coordinator_schedule_on(stage.coordinator, 4096, count_up, &call, 0, NULL),
          CADRE_EINVALID, "worker 4096 is not in 0..4095");
    stage_close(&stage);
}

/* Each worker runs a loop of its own, of several updates. */
BOTH_CAPACITIES(conformance_values, C17_a_closure_on_each_worker_runs_once_on_each)
{
    enum { WORKERS = 3, STEPS = 4 };
    stage_t stage;
    stage_open_capacity(&stage, 2, WORKERS, capacity);
    const cadre_resource_t *counter = create(&stage, "counter", "build_counter", NULL);
    cadre_call_t call = {.size = sizeof(call), .resources = &counter, .resource_count = 1};
    cadre_each_t each = {.count = 0};
    OK(cadre_coordinator_schedule_on_each(stage.coordinator, stage_function(&stage, "count_up"),
                                          &call, LOCAL_WAIT_MS, &each));
    cr_assert_eq(each.count, WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        cr_expect_eq(each.workers[i], i);
        cr_expect_eq(fetch_number(each.futures[i], "index"), i);
    }
    cadre_each_fini(&each);
    cadre_each_fini(&each);

    int64_t steps = STEPS;
    cadre_tensor_t tensor = {.dtype = CADRE_I64, .data = &steps};
    cadre_argument_t argument = {"steps", &tensor};
    cadre_group_t *group = NULL;
    OK(cadre_group_create(stage.coordinator, NULL, &group));
    call = cadre_call_tensors(&argument, 1);
    call.steps = STEPS;
    call.group = group;
    OK(cadre_coordinator_schedule_on_each(stage.coordinator, stage_function(&stage, "add_steps"),
                                          &call, LOCAL_WAIT_MS, NULL));
    OK(cadre_group_join(group, LOCAL_WAIT_MS));
    stage_expect(&stage, WORKERS * STEPS);
    call.sequence = 1;
    FAILS(cadre_coordinator_schedule_on_each(stage.coordinator, stage_function(&stage, "add_steps"),
                                             &call, LOCAL_WAIT_MS, NULL),
          CADRE_EINVALID, "sequence number 1");
    cadre_group_destroy(&group);
    stage_close(&stage);
}

/* It takes results of futures, and the closure of a worker that is lost runs on its successor. */
Test(conformance_values, C18_closures_on_each_worker_outlive_it)
{
    stage_t stage;
    stage_open(&stage, 1, 2);
    hold_t hold = stage_hold_files(&stage, "held");
    cadre_tensor_t started = stage_text(hold.started);
    cadre_tensor_t release = stage_text(hold.release);
    cadre_argument_t arguments[] = {{"started", &started}, {"release", &release}};
    float values[WIDE_ROWS];
    cadre_tensor_t ones = stage_row(values, 1);
    cadre_future_t *giving = stage_call(&stage, "echo", "value", &ones);
    cadre_future_argument_t gradient = {"gradient", giving, "value"};
    cadre_call_t call = cadre_call_tensors(arguments, 2);
    call.futures = &gradient;
    call.future_count = 1;
    cadre_each_t each = {.count = 0};
    OK(cadre_coordinator_schedule_on_each(stage.coordinator, stage_function(&stage, "push_when"),
                                          &call, LOCAL_WAIT_MS, &each));
    cr_assert_eq(each.count, 2);
    hold_wait(&hold, 2);
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 1);
    hold_wait(&hold, 3);
    hold_release(&hold);
    OK(cadre_future_wait_all(each.futures, each.count, LOCAL_WAIT_MS));
    stage_join(&stage);
    stage_expect(&stage, 2);
    stage_expect_applied(&stage, 2);
    cadre_each_fini(&each);
    cadre_future_destroy(&giving);
    hold_fini(&hold);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_values, C7_results_of_resources_stay_on_their_workers)
{
    stage_t stage;
    stage_open_capacity(&stage, 2, 5, capacity);
    cadre_resource_t *ones = create(&stage, "ones", "build", NULL);
    use_often(&stage, "push_built", ones, 10);
    stage_join(&stage);
    stage_expect(&stage, 10);
    stage_expect_applied(&stage, 10);
    stage_close(&stage);
}

/* What a program's closure gets as an argument was a result of the resource's function. */
BOTH_CAPACITIES(conformance_values, C7_values_of_workers_are_arguments_of_programs)
{
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    cadre_resource_t *ones = create(&stage, "ones", "build", NULL);
    cadre_program_t *program = cadre_program_new("add_ones");
    cadre_dim_t rows = cadre_dim(WIDE_ROWS);
    cadre_node_t wide = cadre_op_var(program, "wide", (int64_t[]){WIDE_ROWS}, 1);
    cadre_op_push(program, wide, cadre_op_arg(program, "ones.value", CADRE_F32, &rows, 1));
    OK(cadre_program_finish(program));
    cadre_function_t *function = NULL;
    OK(cadre_function_register(stage.coordinator, &program, &function));
    const cadre_resource_t *resources[] = {ones};
    cadre_call_t call = {.size = sizeof(call), .resources = resources, .resource_count = 1};
    for (int i = 0; i < 10; i++) {
        OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    }
    stage_join(&stage);
    stage_expect(&stage, 10);
    OK(cadre_coordinator_schedule(stage.coordinator, function, NULL, LOCAL_WAIT_MS, NULL));
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EINVALID, "ones.value");
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_values, C10_several_datasets_feed_one_call)
{
    enum { FEW = 5, MANY = 20 };
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    cadre_auto(cadre_free) char *few_path = stage_write_rows(&stage, FEW);
    cadre_auto(cadre_free) char *many_path = stage_write_rows(&stage, MANY);
    cadre_dataset_t *few = stage_open_rows(&stage, few_path, "few");
    cadre_dataset_t *many = stage_open_rows(&stage, many_path, "many");
    const cadre_function_t *function = stage_function(&stage, "add_batches");
    cadre_batch_t batches[3];
    OK(cadre_dataset_begin(few, 0, 0, 1, CADRE_ORDER_OF_FILE, CADRE_LAST_BATCH_SMALLER));
    OK(cadre_dataset_begin(many, 0, 0, 4, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    while (cadre_dataset_next(few, &batches[0])) {
        cr_assert(cadre_dataset_next(many, &batches[1]));
        batches[2] = batches[0]; /* the same twice */
        cadre_call_t call = {
            .size = sizeof(call), .batches = batches, .batch_count = CADRE_COUNT_OF(batches)};
        OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    }
    stage_join(&stage);
    stage_expect(&stage, 2 * FEW * (FEW - 1) / 2 + MANY * (MANY - 1) / 2);
    stage_close(&stage);
}

static cadre_resource_t *
create_broken(stage_t *stage)
{
    cadre_tensor_t text = stage_text("no such thing");
    cadre_argument_t arguments[] = {{"text", &text}};
    return create(
        stage, "broken", "fail",
        &(cadre_call_t){.size = sizeof(cadre_call_t), .tensors = arguments, .tensor_count = 1});
}

BOTH_CAPACITIES(conformance_values, E6_a_resource_that_is_not_built_fails_who_uses_it)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    cadre_resource_t *broken = create_broken(&stage);
    cadre_future_t *future = use(&stage, "add_one", broken);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EINVALID,
          "resource broken");
    cr_expect(strstr(cadre_error_text(), "no such thing"), "why: %s", cadre_error_text());
    cr_expect(strstr(cadre_error_text(), "function fail"), "%s", cadre_error_text());
    cr_expect(strstr(cadre_error_text(), "on worker "), "%s", cadre_error_text());
    cadre_tensor_t value = {.data = NULL};
    for (int i = 0; i < 2; i++) {
        FAILS(cadre_future_fetch(future, NULL, &value, LOCAL_WAIT_MS), CADRE_EINVALID,
              "resource broken");
    }
    cadre_future_destroy(&future);
    stage_schedule(&stage, "add_one", 4); /* the queue is clean again */
    stage_join(&stage);
    use_often(&stage, "add_one", broken, 1);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EINVALID,
          "resource broken");
    stage_expect(&stage, 4);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_values, E7_a_broken_resource_that_nobody_uses_is_not_heard_of)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    create_broken(&stage);
    cadre_resource_t *pushes = create(&stage, "pushes", "add_one", NULL);
    cadre_resource_t *ones = create(&stage, "ones", "build", NULL);
    use_often(&stage, "push_built", ones, 6);
    stage_join(&stage);
    stage_expect(&stage, 6);
    stage_expect_applied(&stage, 6);
    use_often(&stage, "add_one", pushes, 1);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EINVALID,
          "pushes nothing");
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_values, E9_resources_survive_a_cancellation)
{
    enum { WORKERS = 2 };
    stage_t stage;
    hold_t build;
    stage_open_capacity(&stage, 1, WORKERS, capacity);
    cadre_resource_t *ones = create_held(&stage, "ones", &build);
    hold_wait(&build, WORKERS);
    OK(cadre_coordinator_cancel(stage.coordinator, LOCAL_WAIT_MS)); /* while they are built */
    hold_release(&build);
    use_often(&stage, "push_built", ones, 8);
    stage_join(&stage);
    cadre_future_t *future = use(&stage, "fail", ones); /* it has no text: fails, and cancels */
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EINVALID,
          "no argument text");
    cadre_future_destroy(&future);
    hold_t hold = stage_hold(&stage, "cancelled");
    hold_wait(&hold, 1);
    OK(cadre_coordinator_cancel(stage.coordinator, LOCAL_WAIT_MS));
    use_often(&stage, "push_built", ones, 8);
    stage_join(&stage);
    stage_expect(&stage, 16);
    cr_expect_eq(hold_begun(&build), WORKERS, "built once on each worker");
    hold_fini(&hold);
    hold_fini(&build);
    stage_close(&stage);
}

/* The worker of the newest build dies, again and again; the builds that came to an end count. */
BOTH_SIZES(conformance_values, F5_a_worker_dies_while_its_resources_are_rebuilt)
{
    enum { CLOSURES = 20, DEATHS = CADRE_POISON_DEATHS - 1 };
    stage_t stage;
    hold_t build;
    stage_open(&stage, size, size);
    cadre_resource_t *ones = create_held(&stage, "ones", &build);
    int begun = size;
    hold_wait(&build, begun);
    use_often(&stage, "push_built", ones, CLOSURES);
    for (int i = 0; i < DEATHS; i++) {
        local_cluster_restart(&stage.cluster, LOCAL_WORKER, 0);
        hold_wait(&build, ++begun);
    }
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).finished, 0,
                 "nothing runs without it");
    hold_release(&build);
    stage_join(&stage);
    stage_expect(&stage, CLOSURES);
    unlink(build.release);
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 0);
    hold_wait(&build, ++begun);
    use_often(&stage, "push_built", ones, CLOSURES);
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 0);
    hold_wait(&build, ++begun);
    hold_release(&build);
    stage_join(&stage);
    stage_expect(&stage, 2 * CLOSURES);
    stage_expect_applied(&stage, 2 * CLOSURES);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).workers_lost, DEATHS + 2);
    hold_fini(&build);
    stage_close(&stage);
}

static bool
status_says(stage_t *stage, const char *part)
{
    cadre_auto(cadre_free) char *text = NULL;
    OK(cadre_coordinator_status_json(stage->coordinator, &text));
    return strstr(text, part);
}

/* A resource whose build aborts that often in a row. */
static cadre_resource_t *
create_deadly(stage_t *stage, const char *name, int64_t deaths, hold_t *hold)
{
    *hold = stage_hold_files(stage, name);
    cadre_tensor_t started = stage_text(hold->started);
    cadre_tensor_t count = {.dtype = CADRE_I64, .data = &deaths};
    cadre_argument_t arguments[] = {{"started", &started}, {"deaths", &count}};
    return create(
        stage, name, "build",
        &(cadre_call_t){.size = sizeof(cadre_call_t), .tensors = arguments, .tensor_count = 2});
}

/* Worker 0 dies by itself, and is there again. */
static void
die_and_restart(stage_t *stage)
{
    int end = local_cluster_reap(&stage->cluster, LOCAL_WORKER, 0);
    cr_assert(WIFSIGNALED(end) && WTERMSIG(end) == SIGABRT);
    local_cluster_start(&stage->cluster, LOCAL_WORKER, 0);
}

BOTH_SIZES(conformance_values, a_resource_that_kills_its_workers_fails_in_the_end)
{
    stage_t stage;
    hold_t builds;
    stage_open(&stage, 1, 1); /* "size" is of the resources: the deadly one, and one beside it */
    cadre_resource_t *deadly = create_deadly(&stage, "deadly", 1000, &builds);
    cadre_resource_t *ones = size > 1 ? create(&stage, "ones", "build", NULL) : NULL;
    use_often(&stage, "add_one", deadly, 1);
    for (int i = 0; i < CADRE_POISON_DEATHS; i++) {
        die_and_restart(&stage);
    }
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EPOISON,
          "resource deadly: 10 workers died while they built it by function build");
    cr_expect_eq(hold_begun(&builds), CADRE_POISON_DEATHS);
    cr_expect(status_says(&stage, "\"error\":\"resource deadly: 10 workers"));
    stage_schedule(&stage, "add_one", 4); /* the job goes on without it */
    use_often(&stage, "push_built", ones, ones ? 3 : 0);
    stage_join(&stage);
    use_often(&stage, "add_one", deadly, 1);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EPOISON,
          "resource deadly");
    stage_expect(&stage, ones ? 7 : 4);
    hold_fini(&builds);
    stage_close(&stage);
}

Test(conformance_values, a_resource_that_kills_two_workers_is_built_by_the_third)
{
    stage_t stage;
    hold_t builds;
    stage_open(&stage, 1, 1);
    cadre_resource_t *ones = create_deadly(&stage, "ones", 2, &builds);
    use_often(&stage, "push_built", ones, 5);
    die_and_restart(&stage);
    die_and_restart(&stage);
    stage_join(&stage);
    stage_expect(&stage, 5);
    cr_expect_eq(hold_begun(&builds), 3);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).workers_lost, 2);
    hold_fini(&builds);
    stage_close(&stage);
}

/* One that never ends costs its slot, and those who name it; not those who name another. */
Test(conformance_values, a_build_that_hangs_keeps_nobody_from_other_resources)
{
    stage_t stage;
    hold_t hang;
    stage_open_with(&stage, &(local_cluster_options_t){.ps = 1, .workers = 1, .slots = 2});
    cadre_resource_t *hanging = create_held(&stage, "hanging", &hang);
    hold_wait(&hang, 1);
    cadre_resource_t *ones = create(&stage, "ones", "build", NULL);
    cadre_future_t *waits = use(&stage, "add_one", hanging);
    for (int i = 0; i < 5; i++) {
        cadre_future_t *future = use(&stage, "tell_ones", ones);
        cr_expect_eq(fetch_number(future, "count"), WIDE_ROWS);
        cadre_future_destroy(&future);
    }
    hold_release(&hang);
    cadre_future_destroy(&waits);
    stage_join(&stage);
    stage_expect(&stage, 1);
    hold_fini(&hang);
    stage_close(&stage);
}

/* Nothing of a resource is lost to sight: who builds it, who has it, who must build it again. */
Test(conformance_values, the_status_tells_of_resources_and_of_workers_that_have_them)
{
    stage_t stage;
    hold_t build;
    stage_open(&stage, 1, 2);
    cr_expect(status_says(&stage, "\"resources\":[]"));
    create_held(&stage, "ones", &build);
    hold_wait(&build, 2);
    cr_expect(status_says(&stage, "\"resources\":[{\"name\":\"ones\",\"function\":\"build\","
                                  "\"ready\":0,\"workers\":2}]"));
    hold_release(&build);
    EVENTUALLY(status_says(&stage, "\"ready\":2,\"workers\":2}"));
    unlink(build.release);
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 1);
    hold_wait(&build, 3);
    cr_expect(status_says(&stage, "\"ready\":1,\"workers\":2}"));
    hold_release(&build);
    EVENTUALLY(status_says(&stage, "\"ready\":2,\"workers\":2}"));
    hold_fini(&build);
    stage_close(&stage);
}

/* Who builds is waited for by those only that use what is built. */
Test(conformance_values, closures_without_the_resource_run_while_it_is_built)
{
    stage_t stage;
    hold_t build;
    stage_open_with(&stage, &(local_cluster_options_t){.ps = 1, .workers = 1, .slots = 2});
    cadre_resource_t *ones = create_held(&stage, "ones", &build);
    hold_wait(&build, 1);
    stage_schedule(&stage, "add_one", 5);
    stage_join(&stage);
    use_often(&stage, "push_built", ones, 5);
    hold_release(&build);
    stage_join(&stage);
    stage_expect(&stage, 10);
    hold_fini(&build);
    stage_close(&stage);
}

Test(conformance_values, what_is_no_resource_is_refused_at_the_call)
{
    stage_t stage;
    stage_t other;
    stage_open(&stage, 1, 1);
    stage_open(&other, 1, 1);
    const cadre_function_t *function = stage_function(&stage, "build");
    const cadre_resource_t *foreign = create(&other, "ones", "build", NULL);
    cadre_resource_t *resource = NULL;
    FAILS(cadre_resource_create(stage.coordinator, "a b", function, NULL, &resource),
          CADRE_EINVALID, "resource");
    FAILS(cadre_resource_create(stage.coordinator, "ones", NULL, NULL, &resource), CADRE_EINVALID,
          "no function");
    cadre_call_t call = {.size = sizeof(call), .steps = 2};
    FAILS(cadre_resource_create(stage.coordinator, "ones", function, &call, &resource),
          CADRE_EINVALID, "tensors only");
    OK(cadre_resource_create(stage.coordinator, "ones", function, NULL, &resource));
    FAILS(cadre_resource_create(stage.coordinator, "ones", function, NULL, &resource),
          CADRE_EEXISTS, "ones");
    const cadre_resource_t *many[17];
    for (size_t i = 0; i < CADRE_COUNT_OF(many); i++) {
        many[i] = resource;
    }
    call = (cadre_call_t){
        .size = sizeof(cadre_call_t), .resources = many, .resource_count = CADRE_COUNT_OF(many)};
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_ETOOLARGE,
          "16");
    call = (cadre_call_t){.size = sizeof(cadre_call_t), .resources = &foreign, .resource_count = 1};
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_EINVALID,
          "resource 0");
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).scheduled, 0);
    stage_close(&other);
    stage_close(&stage);
}

static int
schedule(stage_t *stage, const cadre_call_t *call)
{
    return cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "add_one"), call, 0,
                                      NULL);
}

/* Which results a resource has is known to workers: all names that begin with its own are taken. */
Test(conformance_values, an_argument_that_could_be_of_a_resource_is_refused_at_the_call)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    const cadre_resource_t *ones = create(&stage, "ones", "build", NULL);
    const cadre_resource_t *inner = create(&stage, "ones.value", "build", NULL);
    cadre_tensor_t text = stage_text("text");
    cadre_future_t *future = stage_call(&stage, "echo", "value", &text);
    cadre_argument_t tensor = {"ones.value", &text};
    cadre_future_argument_t other = {"ones.value", future, NULL};
    cadre_call_t call = {.size = sizeof(call),
                         .tensors = &tensor,
                         .tensor_count = 1,
                         .resources = &ones,
                         .resource_count = 1};
    FAILS(schedule(&stage, &call), CADRE_EINVALID,
          "argument ones.value could be a result of resource ones");
    call = (cadre_call_t){.size = sizeof(cadre_call_t),
                          .futures = &other,
                          .future_count = 1,
                          .resources = &ones,
                          .resource_count = 1};
    FAILS(schedule(&stage, &call), CADRE_EINVALID,
          "argument ones.value could be a result of resource ones");
    for (int i = 0; i < 2; i++) {
        const cadre_resource_t *both[] = {i ? inner : ones, i ? ones : inner};
        call = (cadre_call_t){.size = sizeof(cadre_call_t), .resources = both, .resource_count = 2};
        FAILS(schedule(&stage, &call), CADRE_EINVALID, "resources ones and ones.value");
    }
    call = (cadre_call_t){.size = sizeof(cadre_call_t),
                          .tensors = &tensor,
                          .tensor_count = 1,
                          .resources = &inner,
                          .resource_count = 1};
    OK(schedule(&stage, &call)); /* the name of the resource itself is no argument */
    tensor.name = "ones_value";
    call.resources = &ones;
    OK(schedule(&stage, &call));
    const cadre_resource_t *twice[] = {ones, ones};
    call = (cadre_call_t){.size = sizeof(cadre_call_t), .resources = twice, .resource_count = 2};
    OK(schedule(&stage, &call));
    stage_join(&stage);
    stage_expect(&stage, 3);
    cadre_future_destroy(&future);
    stage_close(&stage);
}

Test(conformance_values, an_argument_called_like_a_column_is_refused_at_the_call)
{
    static const char *const columns[] = {"x", "y", "x1", "y1"};
    static const char *const others[] = {"x2", "x0", "x11", "z"};
    float number = 1;
    cadre_tensor_t tensor = {.dtype = CADRE_F32, .data = &number};
    cadre_batch_t batches[2];
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, 4);
    cadre_dataset_t *rows = stage_open_rows(&stage, path, "rows");
    OK(cadre_dataset_begin(rows, 0, 0, 1, CADRE_ORDER_OF_FILE, CADRE_LAST_BATCH_SMALLER));
    cr_assert(cadre_dataset_next(rows, &batches[0]) && cadre_dataset_next(rows, &batches[1]));
    for (size_t i = 0; i < 4; i++) {
        cadre_argument_t argument = {columns[i], &tensor};
        cadre_call_t call = {.size = sizeof(call),
                             .batches = batches,
                             .batch_count = 2,
                             .tensors = &argument,
                             .tensor_count = 1};
        cadre_auto(cadre_free) char *text =
            cadre_asprintf("argument %s is there twice: batch %zu", columns[i], i / 2);
        FAILS(schedule(&stage, &call), CADRE_EINVALID, text);
        argument.name = others[i];
        OK(schedule(&stage, &call));
    }
    stage_join(&stage);
    stage_expect(&stage, 4);
    stage_close(&stage);
}

/* What a native function keeps on a slot is there at its next call, and ends with the worker. */
Test(conformance_values, native_functions_keep_state_on_slots_until_the_worker_exits)
{
    enum { CALLS = 5 };
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 1, .slots = 1};
    stage_open_with(&stage, &options);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/exits", stage.cluster.scratch.path);
    cadre_tensor_t text = stage_text(path);
    for (int i = 0; i < CALLS; i++) {
        cadre_future_t *future = stage_call(&stage, "remember", "path", &text);
        cadre_future_destroy(&future);
    }
    stage_join(&stage);
    cr_expect_neq(access(path, F_OK), 0, "nothing has ended yet");
    local_cluster_end_job(&stage.cluster);
    cadre_auto(cadre_free) char *lines = file_text(path);
    cr_expect_str_eq(lines, "slot 5\nworker\n");
    local_cluster_begin_job(&stage.cluster, &options);
    local_cluster_close(&stage.cluster);
}
