/* Errors of closures: the ids E of docs/conformance.md, and Q where it shows through the API. */
#include <pthread.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_errors, .timeout = 900);

/* One worker that runs one closure at a time, in order. */
static void
open_single(stage_t *stage, size_t capacity)
{
    local_cluster_options_t options = {.ps = 1, .workers = 1, .slots = 1};
    options.coordinator.queue_capacity = capacity;
    stage_open_with(stage, &options);
}

/* A closure that fails with `text`. */
static cadre_future_t *
call_failing(stage_t *stage, const char *text)
{
    cadre_tensor_t argument = stage_text(text);
    return stage_call(stage, "fail", "text", &argument);
}

static void
schedule_failing(stage_t *stage, const char *text)
{
    cadre_future_t *future = call_failing(stage, text);
    cadre_future_destroy(&future);
}

/* How many updates have been applied; they may be fewer than were scheduled, after a failure. */
static void
expect_usable(stage_t *stage)
{
    cadre_tensor_t before = {.data = NULL};
    OK(cadre_variable_read(stage->wide, &before, LOCAL_WAIT_MS));
    stage_schedule(stage, "add_one", 10);
    stage_join(stage);
    stage_expect(stage, 10.0 + (double)*(const float *)before.data);
    cadre_tensor_fini(&before);
}

BOTH_CAPACITIES(conformance_errors, E1_join_raises_the_closures_own_error_with_its_text)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    schedule_failing(&stage, "the soup is cold");
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION,
          "the soup is cold");
    stage_join(&stage); /* once */
    expect_usable(&stage);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_errors, E2_schedule_itself_eventually_raises_it)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    const cadre_function_t *function = stage_function(&stage, "add_one");
    schedule_failing(&stage, "the soup is cold");
    int status = 0;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); status == 0;) {
        cr_assert(again(deadline), "schedule raises");
        status = cadre_coordinator_schedule(stage.coordinator, function, NULL, LOCAL_WAIT_MS, NULL);
    }
    cr_expect_eq(status, CADRE_EFUNCTION);
    cr_expect(strstr(cadre_error_text(), "the soup is cold"));
    stage_join(&stage);
    expect_usable(&stage);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_errors, E3_many_failures_are_one_raise)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    const cadre_function_t *function = stage_function(&stage, "fail");
    cadre_tensor_t text = stage_text("one of many");
    cadre_argument_t arguments[] = {{"text", &text}};
    cadre_call_t call = cadre_call_tensors(arguments, 1);
    int raised = 0;
    for (int i = 0; i < 200 && raised == 0; i++) {
        raised =
            cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL);
    }
    if (raised == 0) {
        raised = cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS);
    }
    cr_expect_eq(raised, CADRE_EFUNCTION);
    cr_expect(strstr(cadre_error_text(), "one of many"));
    cadre_auto(cadre_free) char *words = cadre_strdup(cadre_error_text());
    uint64_t failed = cadre_coordinator_totals(stage.coordinator).failed;
    cadre_auto(cadre_free) char *others =
        cadre_asprintf("(and %llu more failed)", (unsigned long long)failed - 1);
    cr_expect(failed == 1 || strstr(words, others), "%s: not %s", words, others);
    stage_join(&stage);
    bool done = false;
    OK(cadre_coordinator_is_done(stage.coordinator, &done));
    cr_expect(done);
    expect_usable(&stage);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_errors, E4_a_new_error_is_reported_again)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    for (int round = 0; round < 3; round++) {
        schedule_failing(&stage, round == 1 ? "the second" : "the others");
        FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION,
              round == 1 ? "the second" : "the others");
        expect_usable(&stage);
    }
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_errors, E5_fetch_on_the_failed_future_fails_the_same_every_time)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 1, capacity);
    cadre_future_t *future = call_failing(&stage, "the soup is cold");
    cadre_tensor_t value = {.data = NULL};
    FAILS(cadre_future_fetch(future, NULL, &value, LOCAL_WAIT_MS), CADRE_EFUNCTION,
          "the soup is cold");
    cadre_auto(cadre_free) char *first = cadre_strdup(cadre_error_text());
    FAILS(cadre_future_wait(future, LOCAL_WAIT_MS), CADRE_EFUNCTION, first);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION, first);
    FAILS(cadre_future_fetch(future, NULL, &value, 0), CADRE_EFUNCTION, first);
    FAILS(cadre_future_wait_all(&future, 1, 0), CADRE_EFUNCTION, first);
    cadre_future_destroy(&future);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_errors, E8_a_long_closure_is_cancelled_when_another_fails)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    hold_t hold = stage_hold(&stage, "long");
    hold_wait(&hold, 1);
    schedule_failing(&stage, "the soup is cold");
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION,
          "the soup is cold");
    FAILS(cadre_future_wait(hold.future, LOCAL_WAIT_MS), CADRE_ECANCELLED, "");
    stage_expect(&stage, 0);
    expect_usable(&stage);
    cr_expect_eq(hold_begun(&hold), 1, "it is not run again");
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_errors, E10_the_error_names_function_closure_attempt_and_worker)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_future_t *future = call_failing(&stage, "the soup is cold");
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION,
          "function fail");
    cr_expect(strstr(cadre_error_text(), "attempt 1"), "%s", cadre_error_text());
    cr_expect(strstr(cadre_error_text(), "worker 0"), "%s", cadre_error_text());
    cadre_auto(cadre_free) char *closure =
        cadre_asprintf("closure %llu", (unsigned long long)cadre_future_closure_id(future));
    cr_expect(strstr(cadre_error_text(), closure), "%s", cadre_error_text());
    cadre_future_destroy(&future);
    stage_close(&stage);
}

Test(conformance_errors, E11_the_end_of_a_dataset_is_no_error)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_auto(cadre_free) char *path = scratch_path(&stage.cluster.scratch, "rows.csv");
    FILE *file = fopen(path, "we");
    cr_assert(file);
    fputs("1,2,0\n3,4,1\n5,6,0\n", file);
    fclose(file);
    cadre_auto(cadre_free) char *description =
        cadre_asprintf("{\"format\": \"csv\", \"path\": \"%s\"}", path);
    cadre_dataset_t *dataset = NULL;
    OK(cadre_dataset_open(stage.coordinator, "rows", description, LOCAL_WAIT_MS, &dataset));
    const cadre_function_t *function = stage_function(&stage, "add_batch");
    cadre_batch_t batch;
    cadre_call_t call = cadre_call_batch(&batch);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        OK(cadre_dataset_begin(dataset, epoch, 0, 2, CADRE_ORDER_SHUFFLED,
                               CADRE_LAST_BATCH_SMALLER));
        for (int64_t count = 2; count > 0; count--) {
            cr_expect(cadre_dataset_next(dataset, &batch));
            cr_expect_eq(batch.count, count);
            OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
        }
        cr_expect_not(cadre_dataset_next(dataset, &batch));
        cr_expect_not(cadre_dataset_next(dataset, &batch));
        stage_join(&stage);
    }
    stage_expect(&stage, 2 * (1 + 2 + 3 + 4 + 5 + 6)); /* every row of both epochs */
    stage_close(&stage);
}

/* --- what a function may do wrong --- */

Test(conformance_errors, a_bad_push_fails_its_closure_and_changes_nothing)
{
    static const struct {
        const char *function;
        int status;
        const char *text;
    } bad[] = {
        {"push_nan", CADRE_ENOTFINITE, "wide"},
        {"push_shape", CADRE_ESHAPE, "wide"},
        {"push_name", CADRE_ENOTFOUND, "nowhere"},
        {"no_such_function", CADRE_ENOTFOUND, "no_such_function"},
    };
    stage_t stage;
    stage_open(&stage, 2, 1);
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        stage_schedule(&stage, bad[i].function, 1);
        FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), bad[i].status, bad[i].text);
        stage_expect(&stage, 0);
    }
    stage_expect_applied(&stage, 0);
    expect_usable(&stage);
    stage_close(&stage);
}

/* Counts without their arrays, arrays with holes. */
Test(conformance_errors, what_is_NULL_where_something_must_be_is_refused)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    const cadre_function_t *function = stage_function(&stage, "add_one");
    const cadre_tensor_t empty = {.dtype = CADRE_F32, .rank = 1, .shape = {3}};
    const cadre_argument_t no_tensor = {"a", NULL};
    const cadre_argument_t no_name = {NULL, &empty};
    const cadre_argument_t no_data = {"a", &empty};
    const cadre_resource_t *no_resource = NULL;
    const struct {
        cadre_call_t call;
        const char *text;
    } bad[] = {
        {{.batch_count = 1}, "1 batches in NULL"},
        {{.tensor_count = 2}, "2 tensors in NULL"},
        {{.future_count = 3}, "3 futures in NULL"},
        {{.resource_count = 4}, "4 resources in NULL"},
        {{.tensors = &no_tensor, .tensor_count = 1}, "argument a has no tensor"},
        {{.tensors = &no_name, .tensor_count = 1}, "argument name"},
        {{.tensors = &no_data, .tensor_count = 1}, "tensor 0 has no data"},
        {{.resources = &no_resource, .resource_count = 1}, "resource 0"},
    };
    cadre_call_t call = cadre_call();
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        call = bad[i].call;
        call.size = sizeof(call);
        FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL),
              CADRE_EINVALID, bad[i].text);
    }
    call = cadre_call();
    call.tensor_count = 2;
    cadre_resource_t *resource = NULL;
    FAILS(cadre_resource_create(stage.coordinator, "r", function, &call, &resource), CADRE_EINVALID,
          "2 tensors in NULL");
    call = (cadre_call_t){.steps = 1};
    FAILS(cadre_coordinator_schedule(stage.coordinator, function, &call, 0, NULL), CADRE_EINVALID,
          "size is 0");
    cadre_variable_t *variable = NULL;
    FAILS(cadre_variable_create(stage.coordinator, "v", CADRE_F32, NULL, 2, NULL, &variable),
          CADRE_EINVALID, "rank 2, but no dimensions");
    cadre_variable_options_t options = cadre_variable_options();
    options.partitioner = CADRE_PARTITION_GIVEN;
    options.part_count = 1;
    FAILS(cadre_variable_create(stage.coordinator, "v", CADRE_F32, (int64_t[]){4}, 1, &options,
                                &variable),
          CADRE_EINVALID, "parts");
    FAILS(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, NULL, 0), CADRE_EINVALID,
          "no value");
    FAILS(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &empty, 0), CADRE_EINVALID,
          "no value");
    cadre_future_t *no_future = NULL;
    FAILS(cadre_future_wait_all(NULL, 1, 0), CADRE_EINVALID, "future 0 of 1");
    FAILS(cadre_future_wait_all(&no_future, 1, 0), CADRE_EINVALID, "future 0 of 1");
    OK(cadre_future_wait_all(NULL, 0, 0));
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).scheduled, 0);
    expect_usable(&stage);
    stage_close(&stage);
}

/* --- the queue, through the API --- */

enum { BEHIND_MAX = 500 };

/* Schedules until the queue is full or BEHIND_MAX closures stand behind those that run; gives how
 * many. Of a full queue the last two are in it, not ahead on a worker. */
static int
schedule_behind(stage_t *stage, cadre_future_t *behind[BEHIND_MAX])
{
    const cadre_function_t *function = stage_function(stage, "add_one");
    int count = 0;
    while (count < BEHIND_MAX && cadre_coordinator_schedule(stage->coordinator, function, NULL, 50,
                                                            &behind[count]) == 0) {
        count++;
    }
    cr_assert_geq(count, 2);
    return count;
}

/* What a worker had ahead may have run; what was queued has not. Gives how many ran. */
static int
expect_cancelled(cadre_future_t *behind[BEHIND_MAX], int count)
{
    enum { AHEAD_MAX = 256 }; /* more than a worker of one slot is ever given */
    int ran = 0;
    for (int i = 0; i < count; i++) {
        int status = cadre_future_wait(behind[i], LOCAL_WAIT_MS);
        cr_expect(status == CADRE_ECANCELLED || (status == 0 && i < AHEAD_MAX && i < count - 2),
                  "closure %d of %d: %s", i, count, cadre_status_name(status));
        ran += status == 0;
        cadre_future_destroy(&behind[i]);
    }
    return ran;
}

BOTH_CAPACITIES(conformance_errors, Q4_join_waits_for_the_failing_closure_then_raises)
{
    stage_t stage;
    open_single(&stage, capacity);
    hold_t hold = stage_hold_failing(&stage, "late");
    hold_wait(&hold, 1); /* it is in flight, and will fail */
    FAILS(cadre_coordinator_join(stage.coordinator, 50), CADRE_ETIMEOUT, "");
    bool done = true;
    OK(cadre_coordinator_is_done(stage.coordinator, &done));
    cr_expect_not(done);
    hold_release(&hold);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION, "late");
    OK(cadre_coordinator_is_done(stage.coordinator, &done));
    cr_expect(done);
    hold_fini(&hold);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_errors, Q7_done_raises_the_error_once)
{
    stage_t stage;
    open_single(&stage, capacity);
    schedule_failing(&stage, "asked for");
    int status = 0;
    bool done = false;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); status == 0;) {
        cr_assert(again(deadline), "done raises");
        status = cadre_coordinator_is_done(stage.coordinator, &done);
        cr_assert(status < 0 || !done, "not done before it has raised");
    }
    cr_expect_eq(status, CADRE_EFUNCTION);
    OK(cadre_coordinator_is_done(stage.coordinator, &done));
    cr_expect(done);
    stage_close(&stage);
}

/* Two closures in flight, of which the first has failed and the second has not ended. */
static void
fail_first_of_two(stage_t *stage, size_t capacity, hold_t *first, hold_t *second)
{
    stage_open_capacity(stage, 1, 2, capacity);
    *first = stage_hold_failing(stage, "the-first");
    *second = stage_hold_failing(stage, "the-second");
    hold_wait(first, 1);
    hold_wait(second, 1);
    hold_release(first);
    FAILS(cadre_future_wait(first->future, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the-first");
}

BOTH_CAPACITIES(conformance_errors, Q8_join_raises_the_first_error_once_the_others_have_ended)
{
    stage_t stage;
    cadre_future_t *behind[BEHIND_MAX];
    local_cluster_options_t options = {.ps = 1, .workers = 2, .slots = 1};
    options.coordinator.queue_capacity = capacity;
    stage_open_with(&stage, &options);
    hold_t first = stage_hold_failing(&stage, "the-first");
    hold_t second = stage_hold_failing(&stage, "the-second");
    hold_wait(&first, 1);
    hold_wait(&second, 1);
    int count = schedule_behind(&stage, behind);
    hold_release(&first);
    FAILS(cadre_future_wait(first.future, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the-first");
    FAILS(cadre_coordinator_join(stage.coordinator, 50), CADRE_ETIMEOUT,
          ""); /* the second still runs */
    hold_release(&second);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION, "the-first");
    stage_join(&stage); /* no cancellation is raised, nor the second's own failure */
    stage_expect(&stage, expect_cancelled(behind, count));
    expect_usable(&stage);
    hold_fini(&first);
    hold_fini(&second);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_errors, Q9_schedule_raises_the_first_error_once_the_others_have_ended)
{
    stage_t stage;
    hold_t first;
    hold_t second;
    fail_first_of_two(&stage, capacity, &first, &second);
    const cadre_function_t *add_one = stage_function(&stage, "add_one");
    FAILS(cadre_coordinator_schedule(stage.coordinator, add_one, NULL, 50, NULL), CADRE_ETIMEOUT,
          "");
    hold_release(&second);
    FAILS(cadre_coordinator_schedule(stage.coordinator, add_one, NULL, LOCAL_WAIT_MS, NULL),
          CADRE_EFUNCTION, "the-first");
    stage_join(&stage);
    stage_expect(&stage, 0); /* what was being put has not run */
    expect_usable(&stage);
    hold_fini(&first);
    hold_fini(&second);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_errors,
                Q14_what_is_queued_is_cancelled_and_cancellations_are_not_raised)
{
    stage_t stage;
    cadre_future_t *behind[BEHIND_MAX];
    open_single(&stage, capacity);
    hold_t failing = stage_hold_failing(&stage, "the only one");
    hold_wait(&failing, 1);
    int count = schedule_behind(&stage, behind);
    hold_release(&failing);
    int ran = expect_cancelled(behind, count); /* without a call that raises */
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFUNCTION,
          "the only one");
    stage_join(&stage);
    stage_expect(&stage, ran);
    hold_fini(&failing);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_errors, cancel_ends_everything_and_the_coordinator_is_usable)
{
    stage_t stage;
    open_single(&stage, capacity);
    hold_t held = stage_hold(&stage, "held");
    hold_wait(&held, 1);
    hold_t queued = stage_hold(&stage, "queued");
    OK(cadre_coordinator_cancel(stage.coordinator, LOCAL_WAIT_MS));
    FAILS(cadre_future_wait(held.future, LOCAL_WAIT_MS), CADRE_ECANCELLED, "");
    FAILS(cadre_future_wait(queued.future, LOCAL_WAIT_MS), CADRE_ECANCELLED, "");
    stage_join(&stage);
    expect_usable(&stage);
    hold_fini(&held);
    hold_fini(&queued);
    stage_close(&stage);
}

Test(conformance_errors, a_full_queue_blocks_until_its_deadline)
{
    stage_t stage;
    open_single(&stage, 2);
    const cadre_function_t *function = stage_function(&stage, "add_one");
    hold_t hold = stage_hold(&stage, "gate");
    hold_wait(&hold, 1);
    int status = 0;
    uint64_t scheduled = 0;
    while (status == 0 && scheduled < 1000) { /* those that the worker holds ahead, then two */
        status = cadre_coordinator_schedule(stage.coordinator, function, NULL, 100, NULL);
        scheduled += status == 0;
    }
    cr_expect_eq(status, CADRE_ETIMEOUT, "%s", cadre_error_text());
    hold_release(&hold);
    stage_join(&stage);
    stage_expect(&stage, (double)scheduled + 1);
    hold_fini(&hold);
    stage_close(&stage);
}

static void *
schedule_many(void *argument)
{
    stage_t *stage = argument;
    cadre_function_t *function = NULL;
    int status = cadre_function_native(stage->coordinator, "add_one", &function);
    for (int i = 0; status == 0 && i < 50; i++) {
        status =
            cadre_coordinator_schedule(stage->coordinator, function, NULL, LOCAL_WAIT_MS, NULL);
    }
    return (void *)(intptr_t)status;
}

BOTH_CAPACITIES(conformance_errors, Q11_ten_threads_schedule_at_once)
{
    enum { THREADS = 10 };
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, schedule_many, &stage), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *status = NULL;
        pthread_join(threads[i], &status);
        cr_expect_eq((intptr_t)status, 0);
    }
    stage_join(&stage);
    stage_expect(&stage, THREADS * 50);
    stage_expect_applied(&stage, THREADS * 50);
    stage_close(&stage);
}
