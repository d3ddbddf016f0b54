/* Epochs and evaluations: ids D1, D2, D4, D6 and D7 of docs/conformance.md. D3 is in
 * conformance_coordinator_test.c, D5 in conformance_evaluate_test.c. */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/catalogue.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/conformance/rows.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_data, .timeout = 900);

/* Kills a worker that is at work and waits until another process has its place. */
static void
replace_worker(stage_t *stage, int index)
{
    uint64_t lost = cadre_coordinator_totals(stage->coordinator).workers_lost;
    local_cluster_restart(&stage->cluster, LOCAL_WORKER, index);
    local_cluster_wait_lost(&stage->cluster, lost + 1);
    local_cluster_wait_workers(&stage->cluster, stage->cluster.options.workers);
}

/* Whether a closure was lost with its worker: one that is killed may have nothing to do. */
static bool
has_run_again(const stage_t *stage)
{
    cadre_totals_t totals = cadre_coordinator_totals(stage->coordinator);
    return totals.attempts > totals.finished;
}

/* Schedules one epoch, killing a worker before each `kill_every`th batch; gives how many batches
 * there were. */
static uint64_t
visit_epoch(stage_t *stage, cadre_dataset_t *dataset, uint64_t epoch, uint64_t kill_every)
{
    const cadre_function_t *visit = stage_function(stage, "visit");
    cadre_batch_t batch;
    uint64_t batches = 0;
    OK(cadre_dataset_begin(dataset, epoch, 0, 7, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    while (cadre_dataset_next(dataset, &batch)) {
        cadre_call_t call = cadre_call_batch(&batch);
        OK(cadre_coordinator_schedule(stage->coordinator, visit, &call, LOCAL_WAIT_MS, NULL));
        if (++batches % kill_every == 0) {
            replace_worker(stage, (int)(batches / kill_every) % stage->cluster.options.workers);
        }
    }
    return batches;
}

BOTH_SIZES(conformance_data, D1_every_row_of_an_epoch_is_visited_once_although_workers_die)
{
    enum { EPOCHS = 10, KILL_EVERY = 30 };
    stage_t stage;
    uint64_t closures = 0;
    stage_open_capacity(&stage, size, size, 8); /* so that scheduling is no faster than the work */
    cadre_variable_t *visits = stage_visits(&stage);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, VISIT_ROWS);
    cadre_dataset_t *dataset = stage_open_rows(&stage, path, "rows");
    for (int epoch = 0; epoch < EPOCHS || !has_run_again(&stage); epoch++) {
        closures += visit_epoch(&stage, dataset, (uint64_t)epoch, KILL_EVERY);
        stage_join(&stage);
        stage_expect_visits(visits, VISIT_ROWS, epoch + 1);
    }
    stage_expect_applied(&stage, closures);
    stage_close(&stage);
}

/* Writes a file in which each row of "visits" comes `times` times, far from one another. */
static char *
write_many_rows(const stage_t *stage, int times)
{
    char *path = cadre_asprintf("%s/many.csv", stage->cluster.scratch.path);
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file);
    for (int i = 0; i < times * VISIT_ROWS; i++) {
        fprintf(file, "%d,0,%d\n", i % VISIT_ROWS, i % VISIT_ROWS);
    }
    cr_assert_eq(fclose(file), 0);
    return path;
}

/* Schedules an epoch by batches of 100 rows; kills a worker before each `kill_every`th. */
static uint64_t
visit_streamed(stage_t *stage, cadre_dataset_t *dataset, uint64_t epoch, uint64_t kill_every)
{
    const cadre_function_t *visit = stage_function(stage, "visit");
    cadre_batch_t batch;
    uint64_t batches = 0;
    OK(cadre_dataset_begin(dataset, epoch, 0, 100, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    while (cadre_dataset_next(dataset, &batch)) {
        cadre_call_t call = cadre_call_batch(&batch);
        OK(cadre_coordinator_schedule(stage->coordinator, visit, &call, LOCAL_WAIT_MS, NULL));
        if (++batches % kill_every == 0) {
            replace_worker(stage, (int)(batches / kill_every) % stage->cluster.options.workers);
        }
    }
    return batches;
}

BOTH_SIZES(conformance_data, D7_rows_that_are_streamed_count_once_although_workers_die)
{
    enum { TIMES = 17, EPOCHS = 2, KILL_EVERY = 50 }; /* four blocks, and a shorter one */
    stage_t stage;
    uint64_t closures = 0;
    stage_open_capacity(&stage, size, size, 8);
    cadre_variable_t *visits = stage_visits(&stage);
    cadre_auto(cadre_free) char *path = write_many_rows(&stage, TIMES);
    cadre_auto(cadre_free) char *description = cadre_asprintf(
        "{\"format\": \"csv\", \"path\": \"%s\", \"streaming\": true, \"shuffle_blocks\": 2}",
        path);
    cadre_dataset_t *dataset = NULL;
    OK(cadre_dataset_open(stage.coordinator, "rows", description, LOCAL_WAIT_MS, &dataset));
    for (int epoch = 0; epoch < EPOCHS || !has_run_again(&stage); epoch++) {
        closures += visit_streamed(&stage, dataset, (uint64_t)epoch, KILL_EVERY);
        stage_join(&stage);
        stage_expect_visits(visits, VISIT_ROWS, TIMES * (epoch + 1));
    }
    stage_expect_applied(&stage, closures);
    stage_close(&stage);
}

/* Returns the sum of a counter over the workers that there are. */
static uint64_t
sum_of_counter(const stage_t *stage, const char *name)
{
    cadre_auto(cadre_free) char *text = NULL;
    cadre_auto(cadre_free) char *key = cadre_asprintf("\"%s\":", name);
    uint64_t sum = 0;
    OK(cadre_coordinator_status_json(stage->coordinator, &text));
    for (const char *at = text; (at = strstr(at, key));) {
        at += strlen(key);
        sum += strtoull(at, NULL, 10);
    }
    return sum;
}

/* Waits until the workers have told of so many rows, in heartbeats. */
static void
wait_for_examples(const stage_t *stage, uint64_t examples)
{
    const int64_t deadline_ms = cadre_clock_now_ms() + LOCAL_WAIT_MS;
    while (sum_of_counter(stage, "examples") < examples) {
        cr_assert_lt(cadre_clock_now_ms(), deadline_ms, "%" PRIu64 " rows are not told",
                     examples - sum_of_counter(stage, "examples"));
        (void)poll(NULL, 0, 20);
    }
}

/* Trains epochs of the data until one has read few blocks: where a worker was given less of the
 * machine than the other, that takes over some of its ranges. Returns how many epochs it took. */
static int
train_until_few_blocks(stage_t *stage, cadre_dataset_t *dataset, int first_epoch, uint64_t most)
{
    enum { EPOCHS_MAX = 40 };
    const uint64_t rows = (uint64_t)cadre_dataset_info(dataset).rows;
    uint64_t blocks = UINT64_MAX;
    int epoch = 0;
    while (blocks > most) {
        cr_assert_lt(epoch, EPOCHS_MAX, "%" PRIu64 " blocks, not %" PRIu64, blocks, most);
        const uint64_t before = sum_of_counter(stage, "blocks_read");
        const uint64_t examples = sum_of_counter(stage, "examples");
        OK(cadre_dataset_train(dataset, stage_function(stage, "visit"),
                               (uint64_t)(first_epoch + epoch++), 1, 100, LOCAL_WAIT_MS));
        wait_for_examples(stage, examples + rows);
        blocks = sum_of_counter(stage, "blocks_read") - before;
        cr_expect_gt(blocks, 0);
    }
    return epoch;
}

/* Of 41 blocks, of which a worker has memory for 20. The four ranges are in windows of two blocks,
 * three of which are of two ranges: 47 where each range is read by one worker; 82 or more where
 * each worker reads all. */
Test(conformance_data, D7_the_blocks_of_streamed_rows_are_read_by_one_worker_each)
{
    enum { TIMES = 165, MOST = 60, KILL_EVERY = 500 };
    stage_t stage;
    stage_open(&stage, 1, 2);
    cadre_variable_t *visits = stage_visits(&stage);
    cadre_auto(cadre_free) char *path = write_many_rows(&stage, TIMES);
    cadre_auto(cadre_free) char *description =
        cadre_asprintf("{\"format\": \"csv\", \"path\": \"%s\", \"streaming\": true, "
                       "\"shuffle_blocks\": 8, \"ranges\": 4, \"memory_mib\": 1}",
                       path);
    cadre_dataset_t *dataset = NULL;
    OK(cadre_dataset_open(stage.coordinator, "rows", description, LOCAL_WAIT_MS, &dataset));
    int epochs = train_until_few_blocks(&stage, dataset, 0, MOST);
    stage_expect_visits(visits, VISIT_ROWS, TIMES * epochs);

    visit_streamed(&stage, dataset, (uint64_t)epochs++, KILL_EVERY);
    stage_join(&stage);
    stage_expect_visits(visits, VISIT_ROWS, TIMES * epochs);
    epochs += train_until_few_blocks(&stage, dataset, epochs, MOST);
    stage_expect_visits(visits, VISIT_ROWS, TIMES * epochs);
    stage_close(&stage);
}

Test(conformance_data, D7_an_epoch_of_ranges_begins_at_a_multiple_of_the_batch)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, VISIT_ROWS);
    cadre_auto(cadre_free) char *description = cadre_asprintf(
        "{\"format\": \"csv\", \"path\": \"%s\", \"streaming\": true, \"ranges\": 3}", path);
    cadre_dataset_t *dataset = NULL;
    cadre_batch_t batch;
    OK(cadre_dataset_open(stage.coordinator, "rows", description, LOCAL_WAIT_MS, &dataset));
    FAILS(cadre_dataset_begin(dataset, 0, 8, 7, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER),
          CADRE_EINVALID, "in turn from 3 ranges");
    OK(cadre_dataset_begin(dataset, 0, 8, 7, CADRE_ORDER_OF_FILE, CADRE_LAST_BATCH_SMALLER));
    cr_assert(cadre_dataset_next(dataset, &batch));
    cr_expect_eq(batch.first, 8, "in the file's own order as it is");
    bool seen[VISIT_ROWS] = {false};
    int64_t last = 0;
    OK(cadre_dataset_begin(dataset, 0, 0, 7, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    while (cadre_dataset_next(dataset, &batch)) {
        cr_expect(batch.first == 0 || batch.first != last, "the next one is of another range");
        last = batch.first + batch.count;
        for (int64_t i = batch.first; i < last; i++) {
            cr_assert_not(seen[i]);
            seen[i] = true;
        }
    }
    for (int i = 0; i < VISIT_ROWS; i++) {
        cr_assert(seen[i]);
    }
    stage_close(&stage);
}

Test(conformance_data, D7_a_bad_description_is_refused_at_once_and_leaves_its_name_free)
{
    static const struct {
        const char *description;
        const char *words;
    } bad[] = {{"{\"format\": \"nope\", \"path\": \"x\"}", "dataset rows: key \"format\""},
               {"{\"format\": \"csv\", \"path\": \"x\", \"skip\": 1}", "\"skip\""},
               {"no object", "dataset rows"}};
    stage_t stage;
    size_t count = 9;
    cadre_dataset_t *dataset = NULL;
    stage_open(&stage, 1, 1);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGSTOP); /* it is not asked */
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        FAILS(cadre_dataset_open(stage.coordinator, "rows", bad[i].description, -1, &dataset),
              CADRE_EINVALID, bad[i].words);
    }
    FAILS(cadre_dataset_open(stage.coordinator, "rows", NULL, -1, &dataset), CADRE_EINVALID,
          "rows");
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGCONT);
    OK(cadre_dataset_list(stage.coordinator, NULL, &count));
    cr_expect_eq(count, 0);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, VISIT_ROWS);
    stage_open_rows(&stage, path, "rows");
    stage_close(&stage);
}

Test(conformance_data, D7_after_a_timeout_the_same_call_goes_on_and_another_takes_the_name)
{
    enum { SOON_MS = 300 };
    stage_t stage;
    size_t count = 9;
    cadre_dataset_t *dataset = NULL;
    cadre_dataset_t *other = NULL;
    stage_open(&stage, 1, 1);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, VISIT_ROWS);
    const char *missing = "{\"format\": \"csv\", \"path\": \"/nowhere/at/all.csv\"}";
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGSTOP);
    FAILS(rows_open(stage.coordinator, path, "late", SOON_MS, &dataset), CADRE_ETIMEOUT, "late");
    OK(cadre_dataset_list(stage.coordinator, NULL, &count));
    cr_expect_eq(count, 0);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGCONT);
    OK(rows_open(stage.coordinator, path, "late", LOCAL_WAIT_MS, &dataset));
    FAILS(rows_open(stage.coordinator, path, "late", LOCAL_WAIT_MS, &other), CADRE_EEXISTS, "late");

    /* what a worker has said is in the text; it is decided later, in case that others can */
    deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
    do {
        cr_assert(again(deadline), "a worker says something in time");
        FAILS(cadre_dataset_open(stage.coordinator, "rows", missing, SOON_MS, &other),
              CADRE_ETIMEOUT, "rows");
    } while (!strstr(cadre_error_text(), "a worker says: /nowhere/at/all.csv"));
    other = stage_open_rows(&stage, path, "rows");
    cr_expect_eq(cadre_dataset_info(other).rows, VISIT_ROWS);

    const float x_of[4] = {1, 2, 3, 4};
    const int32_t y_of[2] = {0, 1};
    const cadre_tensor_t x = cadre_tensor_view(CADRE_F32, x_of, (const int64_t[]){2, 2}, 2);
    const cadre_tensor_t y = cadre_tensor_view(CADRE_I32, y_of, (const int64_t[]){2}, 1);
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGSTOP);
    FAILS(cadre_dataset_from_memory(stage.coordinator, "small", &x, &y, SOON_MS, &other),
          CADRE_ETIMEOUT, "small");
    local_cluster_signal(&stage.cluster, LOCAL_WORKER, 0, SIGCONT);
    OK(cadre_dataset_from_memory(stage.coordinator, "small", &x, &y, LOCAL_WAIT_MS, &other));
    OK(cadre_dataset_list(stage.coordinator, NULL, &count));
    cr_expect_eq(count, 3);
    stage_close(&stage);
}

/* A program whose result "numbers" counts those of "x". */
static const cadre_function_t *
register_count(stage_t *stage)
{
    cadre_program_t *p = cadre_program_new("count");
    cadre_function_t *function = NULL;
    const cadre_dim_t shape[] = {cadre_dim_symbol("B"), cadre_dim(2)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, shape, 2);
    cadre_op_result(p, "numbers", cadre_op_sum_all(p, cadre_op_eq(p, x, x)));
    cadre_op_result(p, "x", x);
    OK(cadre_function_register(stage->coordinator, &p, &function));
    return function;
}

Test(conformance_data, one_call_trains_for_epochs_and_one_adds_up_a_result)
{
    stage_t stage;
    double sum = 0;
    stage_open(&stage, 1, 2);
    cadre_variable_t *visits = stage_visits(&stage);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, VISIT_ROWS);
    cadre_dataset_t *dataset = stage_open_rows(&stage, path, "rows");
    const cadre_function_t *count = register_count(&stage);
    OK(cadre_dataset_train(dataset, stage_function(&stage, "visit"), 0, 3, 7, LOCAL_WAIT_MS));
    stage_expect_visits(visits, VISIT_ROWS, 3);
    OK(cadre_dataset_train(dataset, stage_function(&stage, "visit"), 3, 0, 7, LOCAL_WAIT_MS));
    stage_expect_visits(visits, VISIT_ROWS, 3);
    OK(cadre_dataset_sum(dataset, count, "numbers", 1, LOCAL_WAIT_MS, &sum));
    cr_expect_eq(sum, 2 * VISIT_ROWS, "more batches than are waited for at a time");
    OK(cadre_dataset_sum(dataset, count, NULL, 7, LOCAL_WAIT_MS, NULL));
    FAILS(cadre_dataset_sum(dataset, count, "x", 7, LOCAL_WAIT_MS, &sum), CADRE_ESHAPE, "[7,2]");
    FAILS(cadre_dataset_sum(dataset, count, "y", 7, LOCAL_WAIT_MS, &sum), CADRE_ENOTFOUND, "y");
    FAILS(cadre_dataset_train(dataset, NULL, 0, 1, 7, LOCAL_WAIT_MS), CADRE_EINVALID, "function");
    FAILS(cadre_dataset_train(dataset, count, 0, 1, 0, LOCAL_WAIT_MS), CADRE_EINVALID, "batch");
    stage_close(&stage);
}

/* A program whose results say something of the columns of "x", which are [row, 0]. */
static const cadre_function_t *
register_columns(stage_t *stage)
{
    cadre_program_t *p = cadre_program_new("columns");
    cadre_function_t *function = NULL;
    const cadre_dim_t shape[] = {cadre_dim_symbol("B"), cadre_dim(2)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, shape, 2);
    cadre_op_result(p, "mean", cadre_op_mean(p, x, 0));
    cadre_op_result(p, "sum", cadre_op_sum(p, x, 0));
    cadre_op_result(p, "first", cadre_op_mean_all(p, cadre_op_slice(p, x, 1, 0, 1)));
    cadre_op_result(p, "largest", cadre_op_argmax(p, x, 1)); /* i32 [B] */
    cadre_op_result(p, "numbers", cadre_op_add(p, x, cadre_op_const_f32(p, 0)));
    OK(cadre_function_register(stage->coordinator, &p, &function));
    return function;
}

Test(conformance_data, several_results_are_summed_averaged_and_collected_in_one_pass)
{
    enum { UNEVEN = 7 }; /* the last batch is smaller, and counts for less in a mean */
    const double total = VISIT_ROWS * (VISIT_ROWS - 1) / 2.0;
    stage_t stage;
    stage_open(&stage, 1, 2);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, VISIT_ROWS);
    cadre_dataset_t *dataset = stage_open_rows(&stage, path, "rows");
    const cadre_function_t *columns = register_columns(&stage);
    cr_assert_neq(VISIT_ROWS % UNEVEN, 0);

    OK(cadre_dataset_begin(dataset, 0, 5, 3, CADRE_ORDER_OF_FILE, CADRE_LAST_BATCH_SMALLER));
    cadre_auto(cadre_tensor_fini) cadre_tensor_t mean = {0};
    cadre_auto(cadre_tensor_fini) cadre_tensor_t sum = {0};
    const cadre_reduction_t reductions[] = {{"mean", CADRE_REDUCTION_MEAN, &mean},
                                            {"sum", CADRE_REDUCTION_SUM, &sum},
                                            {"first", CADRE_REDUCTION_SUM, NULL}};
    OK(cadre_dataset_reduce(dataset, columns, reductions, 3, UNEVEN, LOCAL_WAIT_MS));
    OK(cadre_dataset_reduce(dataset, columns, reductions, 3, UNEVEN, LOCAL_WAIT_MS)); /* again */
    cr_assert(mean.dtype == CADRE_F64 && mean.rank == 1 && mean.shape[0] == 2);
    const double *means = mean.data;
    const double *sums = sum.data;
    cr_expect_float_eq(means[0], (VISIT_ROWS - 1) / 2.0, 1e-4);
    cr_expect_eq(sums[0], total);
    cr_expect(means[1] == 0 && sums[1] == 0);

    double first = 0;
    OK(cadre_dataset_mean(dataset, columns, "first", UNEVEN, LOCAL_WAIT_MS, &first));
    cr_expect_float_eq(first, (VISIT_ROWS - 1) / 2.0, 1e-4);
    cadre_batch_t batch;
    cr_assert(cadre_dataset_next(dataset, &batch));
    cr_expect_eq(batch.first, 5, "the place in the rows is as it was");

    const cadre_reduction_t uneven = {"largest", CADRE_REDUCTION_SUM, &sum};
    FAILS(cadre_dataset_reduce(dataset, columns, &uneven, 1, UNEVEN, LOCAL_WAIT_MS), CADRE_ESHAPE,
          "largest has not the same shape for every batch");
    cr_expect_eq(*(double *)sum.data, total, "what was there stays");

    cadre_auto(cadre_tensor_fini) cadre_tensor_t rows = {0};
    const cadre_reduction_t collected[] = {{"numbers", CADRE_REDUCTION_ROWS, &rows},
                                           {"largest", CADRE_REDUCTION_ROWS, NULL}};
    OK(cadre_dataset_reduce(dataset, columns, collected, 2, UNEVEN, LOCAL_WAIT_MS));
    cr_assert(rows.dtype == CADRE_F64 && rows.rank == 2 && rows.shape[0] == VISIT_ROWS);
    for (int64_t i = 0; i < VISIT_ROWS; i++) {
        cr_expect_eq(((const double *)rows.data)[2 * i], (double)i, "in the order of the file");
    }
    const cadre_reduction_t no_rows = {"sum", CADRE_REDUCTION_ROWS, NULL};
    FAILS(cadre_dataset_reduce(dataset, columns, &no_rows, 1, UNEVEN, LOCAL_WAIT_MS), CADRE_ESHAPE,
          "sum has no entry for each row");
    const cadre_reduction_t scalar = {"first", CADRE_REDUCTION_ROWS, NULL};
    FAILS(cadre_dataset_reduce(dataset, columns, &scalar, 1, UNEVEN, LOCAL_WAIT_MS), CADRE_ESHAPE,
          "first has no entry for each row");

    FAILS(cadre_dataset_reduce(dataset, columns, reductions, 0, 7, LOCAL_WAIT_MS), CADRE_EINVALID,
          "0 reductions, 1 to 64");
    FAILS(cadre_dataset_reduce(dataset, columns, reductions, 65, 7, LOCAL_WAIT_MS), CADRE_EINVALID,
          "65 reductions");
    FAILS(cadre_dataset_reduce(dataset, columns, reductions, 1, 0, LOCAL_WAIT_MS), CADRE_EINVALID,
          "batch size 0");
    const cadre_reduction_t wrong = {"mean", (cadre_reduction_kind_t)3, &mean};
    FAILS(cadre_dataset_reduce(dataset, columns, &wrong, 1, 7, LOCAL_WAIT_MS), CADRE_EINVALID,
          "cadre_reduction_kind_t");
    FAILS(cadre_dataset_mean(dataset, columns, "mean", 7, LOCAL_WAIT_MS, &first), CADRE_ESHAPE,
          "[2]");
    stage_close(&stage);
}

/* How many batches, and rows in them, one epoch of `dataset` gives from row `first` on. */
static uint64_t
count_batches(cadre_dataset_t *dataset, int64_t first, int64_t batch_size, bool drop_last,
              int64_t *rows)
{
    cadre_batch_t batch;
    uint64_t batches = 0;
    *rows = 0;
    OK(cadre_dataset_begin(dataset, 0, first, batch_size, CADRE_ORDER_SHUFFLED,
                           drop_last ? CADRE_LAST_BATCH_DROPPED : CADRE_LAST_BATCH_SMALLER));
    for (; cadre_dataset_next(dataset, &batch); batches++) {
        *rows += batch.count;
    }
    cr_expect_not(cadre_dataset_next(dataset, &batch), "the end stays the end");
    return batches;
}

Test(conformance_data, D2_an_epoch_ends_where_its_rows_do)
{
    enum { ROWS = 100 };
    static const struct {
        int64_t first;
        int64_t batch_size;
        bool drop_last;
        uint64_t batches;
        int64_t rows;
    } cases[] = {{0, 7, false, 15, 100},  {0, 7, true, 14, 98},   {0, 100, false, 1, 100},
                 {0, 101, false, 1, 100}, {0, 101, true, 0, 0},   {99, 7, false, 1, 1},
                 {99, 7, true, 0, 0},     {100, 7, false, 0, 0},  {0, 1, false, 100, 100},
                 {1, 50, false, 2, 99},   {1, 1000, false, 1, 99}};
    stage_t stage;
    stage_open(&stage, 1, 2);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, ROWS);
    cadre_dataset_t *dataset = stage_open_rows(&stage, path, "rows");
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        int64_t rows = 0;
        uint64_t batches =
            count_batches(dataset, cases[i].first, cases[i].batch_size, cases[i].drop_last, &rows);
        cr_expect(batches == cases[i].batches && rows == cases[i].rows,
                  "case %zu: %d batches of %d rows", i, (int)batches, (int)rows);
    }
    stage_close(&stage);
}

/* More workers than batches, a last batch of one row, a second dataset that ends earlier: the epoch
 * of each ends without an error, and what was handed out has been done. */
Test(conformance_data, D2_rows_that_run_out_unevenly_are_no_error)
{
    enum { LONG = 22, BATCH = 7, SHORT = 10 };
    stage_t stage;
    stage_open(&stage, 2, 4);
    cadre_variable_t *visits = stage_visits(&stage);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, LONG);
    cadre_dataset_t *first = stage_open_rows(&stage, path, "long");
    cadre_auto(cadre_free) char *other = stage_write_rows(&stage, SHORT);
    cadre_dataset_t *second = stage_open_rows(&stage, other, "short");
    const cadre_function_t *visit = stage_function(&stage, "visit");
    cadre_batch_t batches[2];
    bool both = true;
    uint64_t closures = 0;
    OK(cadre_dataset_begin(first, 0, 0, BATCH, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    OK(cadre_dataset_begin(second, 0, 0, BATCH, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    while (cadre_dataset_next(first, &batches[0])) {
        both = both && cadre_dataset_next(second, &batches[1]);
        cadre_call_t call = {.size = sizeof(call), .batches = batches, .batch_count = both ? 2 : 1};
        OK(cadre_coordinator_schedule(stage.coordinator, visit, &call, LOCAL_WAIT_MS, NULL));
        closures++;
    }
    stage_join(&stage);
    cr_expect_not(both, "the second ended before the first");
    cr_expect_eq(closures, 4);
    stage_expect_visits(visits, LONG, 1);
    stage_close(&stage);
}

/* --- evaluation --- */

typedef struct {
    cadre_coordinator_t *coordinator;
    cadre_dataset_t *dataset;
    const cadre_function_t *function;
    cadre_tensor_t loss;    /* the mean over the rows, */
    cadre_tensor_t correct; /* and the sum */
    int status;
    atomic_bool done;
} evaluating_t;

static void *
run_evaluation(void *argument)
{
    evaluating_t *self = argument;
    const cadre_reduction_t reductions[] = {{"loss", CADRE_REDUCTION_MEAN, &self->loss},
                                            {"correct", CADRE_REDUCTION_SUM, &self->correct}};
    self->status = cadre_dataset_reduce(self->dataset, self->function, reductions, 2, 1, -1);
    atomic_store(&self->done, true);
    return NULL;
}

/* Waits until `count` more closures have ended; false when the evaluation has. */
static bool
await_closures(evaluating_t *self, uint64_t count)
{
    uint64_t before = cadre_coordinator_totals(self->coordinator).finished;
    EVENTUALLY(atomic_load(&self->done) ||
               cadre_coordinator_totals(self->coordinator).finished >= before + count);
    return !atomic_load(&self->done);
}

/* The sum of all row numbers tells whether each row counted, and none twice. */
BOTH_SIZES(conformance_data, D4_each_test_row_counts_once_although_workers_die)
{
    enum { ROUNDS = 3, LOST = 4 };
    stage_t stage;
    stage_open(&stage, 1, size);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, VISIT_ROWS);
    evaluating_t evaluating = {
        .coordinator = stage.coordinator,
        .dataset = stage_open_rows(&stage, path, "rows"),
        .function = stage_function(&stage, "tally"),
    };
    for (int round = 0;
         round < ROUNDS || cadre_coordinator_totals(stage.coordinator).workers_lost < LOST ||
         !has_run_again(&stage);
         round++) {
        pthread_t thread;
        atomic_store(&evaluating.done, false);
        cr_assert_eq(pthread_create(&thread, NULL, run_evaluation, &evaluating), 0);
        for (int i = 0; await_closures(&evaluating, VISIT_ROWS / 4); i++) {
            replace_worker(&stage, i % size);
        }
        pthread_join(thread, NULL);
        cr_assert_eq(evaluating.status, 0);
        double sum = *(double *)evaluating.correct.data;
        cr_assert_float_eq(sum, VISIT_ROWS * (VISIT_ROWS - 1) / 2.0, 1e-3, "%g", sum);
        cr_assert_float_eq(*(double *)evaluating.loss.data, 1, 1e-9);
    }
    cadre_tensor_fini(&evaluating.loss);
    cadre_tensor_fini(&evaluating.correct);
    stage_close(&stage);
}

/* --- rows of the program's memory --- */

/* Makes a dataset of `rows` rows "i, 0" with the label i, as rows_write writes them to a file. */
static cadre_dataset_t *
open_memory(stage_t *stage, const char *name, int rows)
{
    cadre_auto(cadre_free) float *x = cadre_calloc(2 * (size_t)rows, sizeof(*x));
    cadre_auto(cadre_free) int32_t *y = cadre_calloc((size_t)rows, sizeof(*y));
    for (int i = 0; i < rows; i++) {
        x[2 * i] = (float)i;
        y[i] = i;
    }
    const cadre_tensor_t features = cadre_tensor_view(CADRE_F32, x, (int64_t[]){rows, 2}, 2);
    const cadre_tensor_t labels = cadre_tensor_view(CADRE_I32, y, (int64_t[]){rows}, 1);
    cadre_dataset_t *dataset = NULL;
    OK(cadre_dataset_from_memory(stage->coordinator, name, &features, &labels, LOCAL_WAIT_MS,
                                 &dataset));
    return dataset;
}

BOTH_SIZES(conformance_data, D6_rows_from_memory_are_visited_once_although_workers_die)
{
    enum { KILL_EVERY = 30 };
    stage_t stage;
    int epochs = 0;
    uint64_t closures = 0;
    stage_open_capacity(&stage, size, size, 8);
    cadre_variable_t *visits = stage_visits(&stage);
    cadre_dataset_t *dataset = open_memory(&stage, "rows", VISIT_ROWS);
    cadre_dataset_info_t info = cadre_dataset_info(dataset);
    cr_expect(info.rows == VISIT_ROWS && info.features == 2 && info.label == CADRE_I32);
    cr_expect_eq(info.classes, VISIT_ROWS);
    for (; epochs < 3 || !has_run_again(&stage); epochs++) {
        closures += visit_epoch(&stage, dataset, (uint64_t)epochs, KILL_EVERY);
        stage_join(&stage);
        stage_expect_visits(visits, VISIT_ROWS, epochs + 1);
    }
    stage_expect_applied(&stage, closures);

    const cadre_function_t *visit = stage_function(&stage, "visit");
    OK(cadre_dataset_train(dataset, visit, 0, 2, 7, LOCAL_WAIT_MS));
    stage_expect_visits(visits, VISIT_ROWS, epochs + 2);
    stage_close(&stage);
}

Test(conformance_data, D6_rows_from_memory_in_several_pieces_are_those_of_the_program)
{
    enum { ROWS = 1 << 20 }; /* 12 MiB: three pieces, and rows that lie in two chunks */
    stage_t stage;
    double sum = 0;
    double rows = 0;
    stage_open(&stage, 1, 2);
    cadre_dataset_t *dataset = open_memory(&stage, "rows", ROWS);
    const cadre_function_t *columns = register_columns(&stage);
    cr_expect_eq(cadre_dataset_info(dataset).rows, ROWS);
    OK(cadre_dataset_mean(dataset, columns, "first", 1 << 16, LOCAL_WAIT_MS, &sum));
    cr_expect_float_eq(sum, (ROWS - 1) / 2.0, 0.1);
    OK(cadre_dataset_sum(dataset, register_count(&stage), "numbers", 1 << 16, LOCAL_WAIT_MS,
                         &rows));
    cr_expect_eq(rows, 2 * ROWS);
    stage_close(&stage);
}

Test(conformance_data, D6_rows_that_are_no_dataset_are_refused_with_their_place)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    float numbers[] = {1, 2, 3, 0.0F / 0.0F};
    int32_t classes[] = {0, -7};
    cadre_tensor_t x = cadre_tensor_view(CADRE_F32, numbers, (int64_t[]){2, 2}, 2);
    cadre_tensor_t y = cadre_tensor_view(CADRE_I32, classes, (int64_t[]){2}, 1);
    cadre_tensor_t flat = cadre_tensor_view(CADRE_F32, numbers, (int64_t[]){2}, 1);
#define REFUSED(x, y, status, text)                                                                \
    FAILS(cadre_dataset_from_memory(stage.coordinator, "d", x, y, LOCAL_WAIT_MS, NULL), status,    \
          text)
    REFUSED(&x, &y, CADRE_EDATA, "dataset d: row 1: feature 1 is");
    numbers[3] = 4;
    REFUSED(&x, &y, CADRE_EDATA, "dataset d: row 1: label -7 is no class");
    REFUSED(&flat, &y, CADRE_EINVALID, "x must be [rows, features], f32 or for keys i64");
    x.dtype = CADRE_F64;
    REFUSED(&x, &y, CADRE_EINVALID, "x must be [rows, features], f32 or for keys i64");
    x.dtype = CADRE_F32;
    REFUSED(&x, &x, CADRE_EINVALID, "y must be [rows]");
    REFUSED(NULL, &y, CADRE_EINVALID, "x must be");
    y.shape[0] = 1;
    REFUSED(&x, &y, CADRE_EINVALID, "y has 1 rows, and column 0 2");
    const int64_t many = (CADRE_MEMORY_ROWS_SIZE_MAX / 4 / 3) + 1;
    cadre_tensor_t large = {0};
    cadre_tensor_t labels = {0};
    OK(cadre_tensor_init(&large, CADRE_F32, (int64_t[]){many, 2}, 2));
    OK(cadre_tensor_init(&labels, CADRE_F32, &many, 1));
    REFUSED(&large, &labels, CADRE_ETOOLARGE, "write them to a file");
    cadre_tensor_fini(&large);
    cadre_tensor_fini(&labels);
#undef REFUSED

    y.shape[0] = 2;
    cadre_tensor_t columns[] = {x, x};
    cadre_columns_t all = {.columns = columns, .count = 2, .y = &y};
#define REFUSED(columns, status, text)                                                             \
    FAILS(cadre_dataset_from_columns(stage.coordinator, "d", columns, LOCAL_WAIT_MS, NULL),        \
          status, text)
    float broken[] = {1, 2, 3, 0.0F / 0.0F};
    columns[1].data = broken;
    REFUSED(&all, CADRE_EDATA, "dataset d: row 1: feature 3 is");
    columns[1].dtype = CADRE_F64;
    REFUSED(&all, CADRE_EINVALID, "column 1 must be [rows] or [rows, numbers]");
    columns[1].dtype = CADRE_F32;
    columns[1].shape[0] = 1;
    REFUSED(&all, CADRE_EINVALID, "y has 2 rows, and column 1 1");
    all.count = 0;
    REFUSED(&all, CADRE_EINVALID, "there is no column");
    REFUSED(NULL, CADRE_EINVALID, "there is no column");
#undef REFUSED

    /* the name stays free, and a good one takes it */
    cadre_dataset_t *dataset = open_memory(&stage, "d", 3);
    cr_expect_eq(cadre_dataset_info(dataset).rows, 3);
    stage_close(&stage);
}
