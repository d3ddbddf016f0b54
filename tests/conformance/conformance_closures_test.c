/* Closures, futures, data: the ids C of docs/conformance.md. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"
#include "tests/full.h"
#include "tests/sanitizer.h"
#include "tests/system/process.h"

TestSuite(conformance_closures, .timeout = 900);

BOTH_CAPACITIES(conformance_closures,
                C2_a_second_coordinator_on_the_address_is_refused_and_told_of_the_first)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 1, capacity);
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.address = stage.cluster.address;
    cadre_coordinator_t *second = NULL;
    char process[32];
    snprintf(process, sizeof(process), "process %d", (int)getpid());
    FAILS(cadre_coordinator_open(&options, &second), CADRE_EEXISTS, process);
    cr_assert_null(second);
    stage_schedule(&stage, "add_one", 3); /* the first one is none the worse for it */
    stage_join(&stage);
    stage_expect(&stage, 3);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_closures, C3_several_results_come_back_by_name)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 1, capacity);
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "results"), NULL,
                                  LOCAL_WAIT_MS, &future));
    cadre_tensor_t text = {.data = NULL};
    cadre_tensor_t half = {.data = NULL};
    cadre_tensor_t whole = {.data = NULL};
    cadre_tensor_t first = {.data = NULL};
    OK(cadre_future_fetch(future, "text", &text, LOCAL_WAIT_MS));
    OK(cadre_future_fetch(future, "half", &half, LOCAL_WAIT_MS));
    OK(cadre_future_fetch(future, "whole", &whole, LOCAL_WAIT_MS));
    OK(cadre_future_fetch(future, NULL, &first, LOCAL_WAIT_MS));
    cr_expect_eq(text.dtype, CADRE_U8);
    cr_expect_str_eq(text.data, "several");
    cr_expect_eq(half.rank, 0);
    cr_expect_float_eq(*(const float *)half.data, 0.5f, 0);
    cr_expect_eq(whole.dtype, CADRE_I64);
    cr_expect_eq(whole.shape[0], 3);
    cr_expect_eq(((const int64_t *)whole.data)[2], INT64_C(1) << 40);
    cr_expect_eq(first.dtype, CADRE_I64, "without a name: the first");
    FAILS(cadre_future_fetch(future, "missing", &first, LOCAL_WAIT_MS), CADRE_ENOTFOUND, "missing");
    cadre_tensor_fini(&text);
    cadre_tensor_fini(&half);
    cadre_tensor_fini(&whole);
    cadre_tensor_fini(&first);
    cadre_future_destroy(&future);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_closures, C4_a_list_of_futures_is_fetched)
{
    enum { COUNT = 40 };
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity);
    cadre_future_t *futures[COUNT];
    for (int i = 0; i < COUNT; i++) {
        float number = (float)i;
        cadre_tensor_t value = {.dtype = CADRE_F32, .rank = 0, .data = &number};
        futures[i] = stage_call(&stage, "echo", "value", &value);
    }
    OK(cadre_future_wait_all(futures, COUNT, LOCAL_WAIT_MS));
    for (int i = 0; i < COUNT; i++) {
        cadre_tensor_t value = {.data = NULL};
        OK(cadre_future_fetch(futures[i], "value", &value, 0));
        cr_expect_float_eq(*(const float *)value.data, (float)i, 0);
        cadre_tensor_fini(&value);
        cadre_future_destroy(&futures[i]);
    }
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_closures, C5_data_feeds_a_function_and_the_variable_shows_every_update)
{
    enum { ROWS = 101, BATCH = 4 };
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, ROWS);
    cadre_dataset_t *dataset = stage_open_rows(&stage, path, "rows");
    cr_assert_eq(cadre_dataset_info(dataset).rows, ROWS);
    const cadre_function_t *function = stage_function(&stage, "add_batch");
    cadre_batch_t batch;
    uint64_t batches = 0;
    OK(cadre_dataset_begin(dataset, 0, 0, BATCH, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    while (cadre_dataset_next(dataset, &batch)) {
        cadre_call_t call = cadre_call_batch(&batch);
        OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
        batches++;
    }
    stage_join(&stage);
    stage_expect(&stage, ROWS * (ROWS - 1) / 2.0);
    cr_expect_eq(batches, (ROWS + BATCH - 1) / BATCH);
    stage_expect_applied(&stage, batches);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_closures, C6_join_counts_exactly_and_may_be_repeated)
{
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    cadre_tensor_t two = {.dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS}};
    float twos[WIDE_ROWS];
    for (int i = 0; i < WIDE_ROWS; i++) {
        twos[i] = 2;
    }
    two.data = twos;
    bool done = false;
    stage_join(&stage);
    OK(cadre_coordinator_is_done(stage.coordinator, &done));
    cr_expect(done, "nothing was scheduled");
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < 5; i++) {
            cadre_future_t *future = stage_call(&stage, "push", "gradient", &two);
            cadre_future_destroy(&future);
        }
        stage_join(&stage);
        stage_join(&stage);
        OK(cadre_coordinator_is_done(stage.coordinator, &done));
        cr_expect(done);
        stage_expect(&stage, 10.0 * round);
        stage_expect_applied(&stage, 5 * (uint64_t)round);
    }
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_closures, C8_what_is_no_registered_function_is_refused_at_the_call)
{
    stage_t stage;
    stage_t other;
    stage_open_capacity(&stage, 1, 1, capacity);
    stage_open_capacity(&other, 1, 1, capacity);
    const cadre_function_t *foreign = stage_function(&other, "noop");
    FAILS(cadre_coordinator_schedule(stage.coordinator, NULL, NULL, 0, NULL), CADRE_EINVALID,
          "no function");
    FAILS(cadre_coordinator_schedule(stage.coordinator, foreign, NULL, 0, NULL), CADRE_EINVALID,
          "no function");
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).scheduled, 0);
    stage_join(&stage);
    stage_close(&other);
    stage_close(&stage);
}

enum { ORDER_ROWS = 50 };

/* The labels of one epoch in the order in which they are handed out. */
static void
epoch_order(stage_t *stage, cadre_dataset_t *dataset, uint64_t epoch, int32_t order[ORDER_ROWS])
{
    cadre_future_t *futures[ORDER_ROWS];
    size_t count = 0;
    int64_t at = 0;
    cadre_batch_t batch;
    OK(cadre_dataset_begin(dataset, epoch, 0, 7, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    while (cadre_dataset_next(dataset, &batch)) {
        cadre_call_t call = cadre_call_batch(&batch);
        OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "labels"), &call,
                                      LOCAL_WAIT_MS, &futures[count]));
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        cadre_tensor_t labels = {.data = NULL};
        OK(cadre_future_fetch(futures[i], "labels", &labels, LOCAL_WAIT_MS));
        cr_assert_eq(labels.dtype, CADRE_I32);
        cr_assert_leq(at + cadre_tensor_count(&labels), ORDER_ROWS);
        memcpy(order + at, labels.data, cadre_tensor_size_bytes(&labels));
        at += cadre_tensor_count(&labels);
        cadre_tensor_fini(&labels);
        cadre_future_destroy(&futures[i]);
    }
    cr_assert_eq(at, ORDER_ROWS);
}

/* Two epochs of a job with this seed. */
static void
orders_of_seed(uint64_t seed, size_t capacity, int32_t epochs[2][ORDER_ROWS])
{
    stage_t stage;
    stage_open_with(
        &stage,
        &(local_cluster_options_t){
            .ps = 1, .workers = 2, .coordinator = {.seed = seed, .queue_capacity = capacity}});
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, ORDER_ROWS);
    cadre_dataset_t *dataset = stage_open_rows(&stage, path, "rows");
    epoch_order(&stage, dataset, 0, epochs[0]);
    epoch_order(&stage, dataset, 1, epochs[1]);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_closures, C9_a_shuffle_follows_seed_and_epoch)
{
    int32_t first[2][ORDER_ROWS];
    int32_t same[2][ORDER_ROWS];
    int32_t other[2][ORDER_ROWS];
    orders_of_seed(7, capacity, first);
    orders_of_seed(7, capacity, same);
    orders_of_seed(8, capacity, other);
    cr_expect_arr_eq(first, same, sizeof(first));
    cr_expect_arr_neq(first[0], first[1], sizeof(first[0]));
    cr_expect_arr_neq(first[0], other[0], sizeof(first[0]));
    cr_expect_arr_neq(first[1], other[1], sizeof(first[1]));
    orders_of_seed(0, capacity, same); /* each chooses one */
    orders_of_seed(0, capacity, other);
    cr_expect_arr_neq(same[0], other[0], sizeof(same[0]));
    cr_expect_arr_neq(same[1], other[1], sizeof(same[1]));
    bool seen[ORDER_ROWS] = {false};
    for (int i = 0; i < ORDER_ROWS; i++) {
        seen[first[0][i]] = true;
    }
    for (int i = 0; i < ORDER_ROWS; i++) {
        cr_expect(seen[i], "row %d is visited", i);
    }
}

static void
drop_futures(stage_t *stage, int count)
{
    const cadre_function_t *function = stage_function(stage, "results");
    for (int i = 0; i < count; i++) {
        cadre_future_t *future = NULL;
        OK(cadre_coordinator_schedule(stage->coordinator, function, NULL, LOCAL_WAIT_MS, &future));
        if (i % 16 == 0) {
            OK(cadre_future_wait(future, LOCAL_WAIT_MS));
        }
        cadre_future_destroy(&future);
    }
    stage_join(stage);
}

static void
begin_epochs(cadre_dataset_t *dataset, int count)
{
    cadre_batch_t batch;
    for (int i = 0; i < count; i++) {
        OK(cadre_dataset_begin(dataset, (uint64_t)i, 0, 1, CADRE_ORDER_SHUFFLED,
                               CADRE_LAST_BATCH_SMALLER));
        cr_assert(cadre_dataset_next(dataset, &batch));
    }
}

/* A million of each, or in the short form as many as show it: malloc gives 32 bytes or more, so one
 * allocation kept for each would be 6 MiB. With a queue of two, where each closure waits for one
 * before, or with a sanitizer, fewer. */
BOTH_CAPACITIES(conformance_closures, C11_dropped_futures_and_iterators_leak_nothing)
{
    enum { WARM_UP = 3000, SHORT = 200000, MILLION = 1000000, SOME = 50000, GROWTH_MAX_KIB = 4096 };
    const int many = test_is_full() ? MILLION : SHORT;
    const int epochs = SANITIZER ? SOME : many;
    const int count = SANITIZER || capacity ? SOME : many;
    /* Without it malloc keeps up to 16 MiB of small freed pieces for each thread before it joins
     * them, because aligned ones do not fit into pieces of another alignment. */
    setenv("GLIBC_TUNABLES", "glibc.malloc.mxfast=0", 1);
    stage_t stage;
    stage_open_capacity(&stage, 1, 2, capacity ? capacity : 1000);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, 10);
    cadre_dataset_t *dataset = stage_open_rows(&stage, path, "rows");
    drop_futures(&stage, WARM_UP);
    begin_epochs(dataset, WARM_UP);
    pid_t pids[] = {getpid(), stage.cluster.tasks[LOCAL_WORKER][0],
                    stage.cluster.tasks[LOCAL_WORKER][1]};
    int64_t before[3];
    for (int i = 0; i < 3; i++) {
        before[i] = process_memory_kib(pids[i], "VmRSS:");
    }
    drop_futures(&stage, count);
    begin_epochs(dataset, epochs);
    for (int i = 0; i < 3; i++) {
        int64_t grown = process_memory_kib(pids[i], "VmRSS:") - before[i];
        cr_expect(SANITIZER || grown < GROWTH_MAX_KIB, "process %d grew by %d KiB", i, (int)grown);
    }
    stage_close(&stage);
}

/* By how many KiB the most memory that this process ever held grows while one "big" is run. */
static int64_t
growth_of_big(stage_t *stage, bool dropped)
{
    cadre_future_t *future = NULL;
    int64_t before = process_memory_kib(getpid(), "VmHWM:");
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "big"), NULL,
                                  LOCAL_WAIT_MS, &future));
    if (dropped) {
        cadre_future_destroy(&future);
    }
    local_cluster_start(&stage->cluster, LOCAL_WORKER, 0);
    stage_join(stage);
    cadre_future_destroy(&future);
    local_cluster_signal(&stage->cluster, LOCAL_WORKER, 0, SIGTERM);
    local_cluster_reap(&stage->cluster, LOCAL_WORKER, 0);
    return process_memory_kib(getpid(), "VmHWM:") - before;
}

BOTH_CAPACITIES(conformance_closures, C13_the_value_of_a_dropped_future_is_not_sent_back)
{
    stage_t stage;
    stage_open_capacity(&stage, 1, 0, capacity);
    int64_t dropped = growth_of_big(&stage, true);
    int64_t kept = growth_of_big(&stage, false);
    cr_expect_lt(dropped, BIG_BYTES / 1024 / 4, "%d KiB", (int)dropped);
    cr_expect_gt(kept, BIG_BYTES / 1024 * 3 / 4, "%d KiB", (int)kept);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).finished, 2);
    stage_close(&stage);
}

Test(conformance_closures, a_descriptor_polls_readable_when_its_closure_has_ended)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    hold_t hold = stage_hold(&stage, "hold");
    int fd = -1;
    uint64_t count = 0;
    OK(cadre_future_fd(hold.future, &fd));
    hold_wait(&hold, 1);
    cr_expect_lt(read(fd, &count, sizeof(count)), 0, "it does not poll while the closure runs");
    FAILS(cadre_future_wait(hold.future, 0), CADRE_ETIMEOUT, "");
    hold_release(&hold);
    OK(cadre_future_wait(hold.future, LOCAL_WAIT_MS));
    cr_expect_eq(read(fd, &count, sizeof(count)), (ssize_t)sizeof(count));
    cr_expect_neq(cadre_future_closure_id(hold.future), 0);
    hold_fini(&hold);
    stage_close(&stage);
}

BOTH_CAPACITIES(conformance_closures, each_step_of_a_closure_counts_once_on_every_shard)
{
    enum { CLOSURES = 20, STEPS = 5 };
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, capacity);
    int64_t number = STEPS;
    cadre_tensor_t steps = {.dtype = CADRE_I64, .rank = 0, .data = &number};
    cadre_argument_t arguments[] = {{"steps", &steps}};
    cadre_call_t call = {
        .size = sizeof(call), .tensors = arguments, .tensor_count = 1, .steps = STEPS};
    const cadre_function_t *function = stage_function(&stage, "add_steps");
    for (int i = 0; i < CLOSURES; i++) {
        OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    }
    stage_join(&stage);
    stage_expect(&stage, CLOSURES * STEPS);
    stage_expect_applied(&stage, CLOSURES * STEPS);
    call.steps = STEPS - 1;
    OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_EFULL, "add_steps");
    stage_close(&stage);
}

/* The first element of "wide" as a closure on a worker sees it. */
static float
pulled(stage_t *stage)
{
    cadre_future_t *future = NULL;
    cadre_tensor_t wide = {.data = NULL};
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "read"), NULL,
                                  LOCAL_WAIT_MS, &future));
    OK(cadre_future_fetch(future, "wide", &wide, LOCAL_WAIT_MS));
    float value = *(const float *)wide.data;
    for (int i = 0; i < WIDE_ROWS; i++) {
        cr_expect_float_eq(((const float *)wide.data)[i], value, 0);
    }
    cadre_tensor_fini(&wide);
    cadre_future_destroy(&future);
    return value;
}

Test(conformance_closures, a_closure_pulls_what_was_pushed_and_assigned_before)
{
    stage_t stage;
    stage_open(&stage, 2, 1);
    float fives[WIDE_ROWS];
    cadre_tensor_t value = {.dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS}, .data = fives};
    for (int i = 0; i < WIDE_ROWS; i++) {
        fives[i] = 5;
    }
    cr_expect_float_eq(pulled(&stage), 0, 0);
    for (int round = 1; round <= 3; round++) {
        stage_schedule(&stage, "add_one", 3);
        stage_join(&stage);
        cr_expect_float_eq(pulled(&stage), 3.0f * (float)round, 0);
        cr_expect_float_eq(pulled(&stage), 3.0f * (float)round, 0, "it has not changed");
    }
    OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    cr_expect_float_eq(pulled(&stage), 5, 0);
    stage_close(&stage);
}
