/* Tables, whose rows come to be at their first update: a closure's update lands once on each row it
 * names, whatever is killed, and rows come back with the number of ps a job is resumed with. */
#include <jansson.h>
#include <string.h>

#include <cadre/catalogue.h>
#include <cadre/inspection.h>
#include <cadre/table.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "coordinator/coordinator.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_tables, .timeout = 900);

/* Ids of a closure, closures, and below which number ids are. */
enum { WIDTH = 4, IDS = 24, CLOSURES = 40, KEYS = 97 };

static const float rate = 0.25F; /* so that every sum is exact */

typedef struct {
    local_cluster_t cluster;
    const cadre_function_t *step;
    cadre_variable_t *table;
    cadre_dtype_t storage; /* of its values; 0: f32 */
    bool is_wide;          /* ids are i64, and keys of 64 bits */
    float rate;            /* what a gradient of 1 takes away */
    int seen[KEYS];        /* how often closures looked up each key */
} job_t;

/* Returns the key of an id that is drawn. Wide ones are beyond 2^53: some differ in their highest
 * bits alone, which are the sign of an i64, and some in their lowest. */
static uint64_t
key_of(bool is_wide, int id)
{
    const uint64_t all = UINT64_C(0x0123456789abcd00);
    return is_wide ? ((uint64_t)id & 3) << 62 | (all + ((uint64_t)id >> 2)) : (uint64_t)id;
}

/* Writes keys as ids of a program, i64 or i32; returns them as a tensor. */
static cadre_tensor_t
ids_of(bool is_wide, const int numbers[IDS], int64_t ids[IDS])
{
    for (int i = 0; i < IDS; i++) {
        const uint64_t key = key_of(is_wide, numbers[i]);
        memcpy(&ids[i], &key, sizeof(key));
        if (!is_wide) {
            ((int32_t *)ids)[i] = numbers[i];
        }
    }
    return (cadre_tensor_t){
        .dtype = is_wide ? CADRE_I64 : CADRE_I32, .rank = 1, .shape = {IDS}, .data = ids};
}

/* Looks rows up and pushes a gradient of 1 for each time that one stands there. */
static const cadre_function_t *
network(job_t *self)
{
    cadre_program_t *p = cadre_program_new("step");
    const cadre_dim_t dims[] = {cadre_dim(IDS)};
    cadre_node_t users = cadre_op_table(p, "users", WIDTH);
    cadre_node_t ids = cadre_op_arg(p, "ids", self->is_wide ? CADRE_I64 : CADRE_I32, dims, 1);
    cadre_op_minimize(p, cadre_op_sum_all(p, cadre_op_take(p, users, ids)));
    cadre_function_t *function = NULL;
    OK(cadre_function_register(self->cluster.coordinator, &p, &function));
    return function;
}

static void
prepare(job_t *self)
{
    cadre_table_options_t options = cadre_table_options();
    options.optimizer.learning_rate = rate;
    options.storage = self->storage;
    OK(cadre_variable_create_table(self->cluster.coordinator, "users", WIDTH, &options,
                                   &self->table));
    self->step = network(self);
}

static void
open_as(job_t *self, const local_cluster_options_t *options)
{
    const uint32_t closures = options->coordinator.step_closures;
    self->rate = closures > 0 ? rate / (float)closures : rate; /* a step applies the mean */
    local_cluster_open(&self->cluster, options);
    prepare(self);
}

static void
job_open(job_t *self, const local_cluster_options_t *options)
{
    memset(self, 0, sizeof(*self));
    open_as(self, options);
}

static void
schedule(job_t *self, int number)
{
    int numbers[IDS];
    int64_t ids[IDS];
    cadre_random_t random;
    cadre_random_init(&random, 23, (uint64_t)number);
    for (int i = 0; i < IDS; i++) {
        numbers[i] = (int)cadre_random_below(&random, cadre_random_below(&random, KEYS) + 1);
        self->seen[numbers[i]]++;
    }
    const cadre_tensor_t tensor = ids_of(self->is_wide, numbers, ids);
    const cadre_argument_t argument = {"ids", &tensor};
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    OK(cadre_coordinator_schedule(self->cluster.coordinator, self->step, &call, LOCAL_WAIT_MS,
                                  NULL));
}

static void
join(job_t *self)
{
    OK(cadre_coordinator_join(self->cluster.coordinator, LOCAL_WAIT_MS));
}

/* Returns how many rows the status has of the table: what the last heartbeats of all ps said. */
static uint64_t
rows_told(const job_t *self)
{
    cadre_auto(cadre_free) char *text = NULL;
    OK(cadre_coordinator_status_json(self->cluster.coordinator, &text));
    json_t *status = json_loads(text, 0, NULL);
    const json_t *table = json_array_get(json_object_get(status, "tables"), 0);
    const uint64_t rows = (uint64_t)json_integer_value(json_object_get(table, "rows"));
    json_decref(status);
    return rows;
}

static void
expect_rows(job_t *self)
{
    uint64_t keys[KEYS];
    uint64_t rows = 0;
    for (int i = 0; i < KEYS; i++) {
        keys[i] = key_of(self->is_wide, i);
        rows += self->seen[i] > 0;
    }
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read_keys(self->table, keys, KEYS, &value, LOCAL_WAIT_MS));
    cr_assert_eq(value.shape[0], KEYS);
    cr_assert_eq(value.shape[1], WIDTH);
    for (int i = 0; i < KEYS * WIDTH; i++) {
        const float wanted = -self->rate * (float)self->seen[i / WIDTH];
        cr_assert_eq(((float *)value.data)[i], wanted, "key %d: %g, not %g", i / WIDTH,
                     ((float *)value.data)[i], wanted);
    }
    cadre_tensor_fini(&value);

    cadre_table_counts_t counts;
    OK(cadre_variable_read_counts(self->table, &counts, LOCAL_WAIT_MS));
    cr_assert_eq(counts.rows, rows, "%llu rows, not %llu", (unsigned long long)counts.rows,
                 (unsigned long long)rows);
    EVENTUALLY(rows_told(self) == rows)
}

static local_cluster_options_t
options_of(int ps, cadre_consistency_t consistency)
{
    local_cluster_options_t options = {.ps = ps, .workers = 2, .slots = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.consistency = consistency;
    options.coordinator.step_closures = consistency == CADRE_SYNC ? 4 : 0;
    return options;
}

static void
train_by(const local_cluster_options_t *options, bool is_wide, bool kills)
{
    job_t self = {.is_wide = is_wide};
    open_as(&self, options);
    for (int i = 0; i < CLOSURES; i++) {
        schedule(&self, i);
        if (kills && i % 10 == 3) {
            local_cluster_restart(&self.cluster, LOCAL_WORKER, i / 10 % 2);
        } else if (kills && i % 10 == 7) {
            local_cluster_restart(&self.cluster, LOCAL_PS, i / 10 % options->ps);
        }
        if (kills && i == CLOSURES / 2) {
            OK(cadre_checkpoint_save(self.cluster.coordinator, NULL, LOCAL_WAIT_MS, NULL));
        }
    }
    join(&self);
    expect_rows(&self);
    local_cluster_close(&self.cluster);
}

static void
train(const local_cluster_options_t *options, bool kills)
{
    train_by(options, false, kills);
}

Test(conformance_tables, T1_an_update_lands_once_on_each_row)
{
    for (int ps = 1; ps <= 3; ps++) {
        local_cluster_options_t options = options_of(ps, CADRE_ASYNC);
        train(&options, false);
    }
}

Test(conformance_tables, T2_synchronous_steps_land_once_on_each_row)
{
    local_cluster_options_t options = options_of(2, CADRE_SYNC);
    train(&options, false);
}

Test(conformance_tables, T3_killed_tasks_lose_no_update_and_double_none)
{
    local_cluster_options_t options = options_of(2, CADRE_ASYNC);
    options.coordinator.recovery = CADRE_RECOVERY_REPLAY;
    train(&options, true);
}

Test(conformance_tables, T8_ids_of_64_bits_are_rows_as_small_ones_are)
{
    for (int ps = 1; ps <= 3; ps++) {
        local_cluster_options_t options = options_of(ps, CADRE_ASYNC);
        train_by(&options, true, false);
    }
    local_cluster_options_t options = options_of(2, CADRE_ASYNC);
    options.coordinator.recovery = CADRE_RECOVERY_REPLAY;
    train_by(&options, true, true);
    options = options_of(2, CADRE_SYNC);
    train_by(&options, true, false);
}

/* Looks up the keys of a batch of rows [a number, key, key], and pushes a gradient of 1 for each
 * time that one stands there; the result "numbers" adds up the first column. */
static const cadre_function_t *
network_over_rows(job_t *self)
{
    cadre_program_t *p = cadre_program_new("visit");
    const cadre_dim_t rows = cadre_dim_symbol("B");
    const cadre_dim_t dims[] = {rows, cadre_dim(1 + 2 * CADRE_KEY_PARTS)};
    const cadre_dim_t parts[] = {rows, cadre_dim(2), cadre_dim(CADRE_KEY_PARTS)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    cadre_node_t keys = cadre_op_slice(p, x, 1, 1, 2 * CADRE_KEY_PARTS);
    cadre_node_t ids = cadre_op_key(p, cadre_op_reshape(p, keys, parts, 3));
    cadre_node_t users = cadre_op_table(p, "users", WIDTH);
    cadre_op_result(p, "numbers", cadre_op_sum_all(p, cadre_op_slice(p, x, 1, 0, 1)));
    cadre_op_minimize(p, cadre_op_sum_all(p, cadre_op_take(p, users, ids)));
    cadre_function_t *function = NULL;
    OK(cadre_function_register(self->cluster.coordinator, &p, &function));
    return function;
}

/* Makes a dataset of `rows` rows of a number and two keys. */
static cadre_dataset_t *
rows_of_keys(job_t *self, int rows)
{
    cadre_auto(cadre_free) float *numbers = cadre_calloc((size_t)rows, sizeof(*numbers));
    cadre_auto(cadre_free) int64_t *keys = cadre_calloc(2 * (size_t)rows, sizeof(*keys));
    for (int i = 0; i < 2 * rows; i++) {
        const int id = i * i % KEYS;
        const uint64_t key = key_of(true, id);
        memcpy(&keys[i], &key, sizeof(key));
        numbers[i / 2] = (float)(i / 2);
        self->seen[id]++;
    }
    const cadre_tensor_t columns[] = {
        cadre_tensor_view(CADRE_F32, numbers, (int64_t[]){rows}, 1),
        cadre_tensor_view(CADRE_I64, keys, (int64_t[]){rows, 2}, 2),
    };
    const cadre_tensor_t y = cadre_tensor_view(CADRE_F32, numbers, (int64_t[]){rows}, 1);
    const cadre_columns_t all = {.columns = columns, .count = 2, .y = &y};
    cadre_dataset_t *dataset = NULL;
    OK(cadre_dataset_from_columns(self->cluster.coordinator, "visits", &all, LOCAL_WAIT_MS,
                                  &dataset));
    return dataset;
}

Test(conformance_tables, T9_keys_of_the_programs_memory_are_rows)
{
    enum { MEMORY_ROWS = 500 };
    local_cluster_options_t options = options_of(2, CADRE_ASYNC);
    job_t self;
    double sum = 0;
    job_open(&self, &options);
    self.is_wide = true;
    cadre_dataset_t *dataset = rows_of_keys(&self, MEMORY_ROWS);
    cr_expect_eq(cadre_dataset_info(dataset).features, 1 + 2 * CADRE_KEY_PARTS);
    OK(cadre_dataset_sum(dataset, network_over_rows(&self), "numbers", 7, LOCAL_WAIT_MS, &sum));
    cr_expect_eq(sum, MEMORY_ROWS * (MEMORY_ROWS - 1) / 2.0);
    expect_rows(&self);

    /* keys alone need one array, and no struct around it */
    const int64_t keys[] = {-1, INT64_MIN, 5};
    const float y_of[] = {0, 0, 0};
    const cadre_tensor_t x = cadre_tensor_view(CADRE_I64, keys, (const int64_t[]){3, 1}, 2);
    const cadre_tensor_t y = cadre_tensor_view(CADRE_F32, y_of, (const int64_t[]){3}, 1);
    OK(cadre_dataset_from_memory(self.cluster.coordinator, "keys", &x, &y, LOCAL_WAIT_MS,
                                 &dataset));
    cr_expect_eq(cadre_dataset_info(dataset).features, CADRE_KEY_PARTS);
    local_cluster_close(&self.cluster);
}

/* Trains ids 0 to IDS - 1 so many times, each by a gradient of 1. */
static void
train_all(job_t *self, int times)
{
    int numbers[IDS];
    int64_t ids[IDS];
    for (int i = 0; i < IDS; i++) {
        numbers[i] = i;
    }
    const cadre_tensor_t tensor = ids_of(false, numbers, ids);
    const cadre_argument_t argument = {"ids", &tensor};
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    for (int i = 0; i < times; i++) {
        OK(cadre_coordinator_schedule(self->cluster.coordinator, self->step, &call, LOCAL_WAIT_MS,
                                      NULL));
    }
    join(self);
}

/* Passes when each number of adagrad's slot is what `times` gradients of 1 make it, and of a key
 * without a row what it begins with. */
static void
expect_accumulator(job_t *self, int64_t width, int times)
{
    enum { ASKED = IDS + 1 }; /* the last one has no row */
    uint64_t keys[ASKED] = {[IDS] = UINT64_MAX};
    for (uint64_t i = 0; i < IDS; i++) {
        keys[i] = IDS - 1 - i;
    }
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read_slot_keys(self->table, "accumulator", keys, ASKED, &value,
                                     LOCAL_WAIT_MS));
    cr_assert(value.rank == 2 && value.shape[0] == ASKED && value.shape[1] == width);
    for (int64_t i = 0; i < ASKED * width; i++) {
        const double wanted = 0.1 + (i / width == IDS ? 0 : times);
        const float got = ((const float *)value.data)[i];
        cr_assert_float_eq(got, wanted, 1e-5, "number %d is %g, not %g", (int)i, (double)got,
                           wanted);
    }
    cadre_tensor_fini(&value);
}

static void
read_slots(bool row_wise)
{
    enum { TIMES = 3 };
    const local_cluster_options_t cluster = options_of(2, CADRE_ASYNC);
    job_t self = {.rate = rate};
    local_cluster_open(&self.cluster, &cluster);
    cadre_table_options_t options = cadre_table_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAGRAD);
    options.row_wise = row_wise;
    OK(cadre_variable_create_table(self.cluster.coordinator, "users", WIDTH, &options,
                                   &self.table));
    self.step = network(&self);
    cr_assert_eq(cadre_variable_slot_count(self.table), 1);
    cr_assert_str_eq(cadre_variable_slot_name(self.table, 0), "accumulator");
    expect_accumulator(&self, row_wise ? 1 : WIDTH, 0);
    train_all(&self, TIMES);
    expect_accumulator(&self, row_wise ? 1 : WIDTH, TIMES);
    OK(cadre_checkpoint_save(self.cluster.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    local_cluster_restart(&self.cluster, LOCAL_PS, 0);
    expect_accumulator(&self, row_wise ? 1 : WIDTH, TIMES);

    const uint64_t key = 1;
    cadre_tensor_t value = {.data = NULL};
    FAILS(cadre_variable_read_slot_keys(self.table, "momentum", &key, 1, &value, LOCAL_WAIT_MS),
          CADRE_ENOTFOUND, "the optimizer of variable users has no slot momentum, it has accumul");
    FAILS(cadre_variable_read_slot_keys(self.table, NULL, &key, 1, &value, LOCAL_WAIT_MS),
          CADRE_ENOTFOUND, "has no slot NULL");
    FAILS(cadre_variable_read_slot_keys(self.table, "accumulator", &key, 0, &value, LOCAL_WAIT_MS),
          CADRE_EINVALID, "no row of variable users");
    FAILS(cadre_variable_read_slot(self.table, "accumulator", &value, NULL, LOCAL_WAIT_MS),
          CADRE_EINVALID, "users is a table");
    local_cluster_close(&self.cluster);
}

Test(conformance_tables, T10_slots_of_the_optimizer_are_read_by_key)
{
    read_slots(false);
}

Test(conformance_tables, T10_slots_of_one_number_for_each_row_are_read_by_key)
{
    read_slots(true);
}

Test(conformance_tables, T4_resumes_with_another_number_of_ps)
{
    static const int numbers[] = {3, 1, 2};
    job_t self;
    local_cluster_options_t options = options_of(2, CADRE_ASYNC);
    job_open(&self, &options);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 10; k++) {
            schedule(&self, i * 10 + k);
        }
        join(&self);
        OK(cadre_checkpoint_save(self.cluster.coordinator, NULL, LOCAL_WAIT_MS, NULL));
        local_cluster_options_t again = options_of(numbers[i], CADRE_ASYNC);
        again.coordinator.resume = CADRE_RESUME_AUTO;
        local_cluster_end_job(&self.cluster);
        local_cluster_begin_job(&self.cluster, &again);
        prepare(&self);
        expect_rows(&self);
    }
    local_cluster_close(&self.cluster);
}

/* Of a chain of checkpoints rows are found wherever they stand, after kills and on other ps. */
Test(conformance_tables, T6_chains_of_checkpoints_give_every_row_back)
{
    job_t self;
    local_cluster_options_t options = options_of(2, CADRE_ASYNC);
    options.coordinator.checkpoint_full_every = 4;
    job_open(&self, &options);
    for (int i = 0; i < 11; i++) {
        for (int k = 0; k < 4; k++) {
            schedule(&self, i * 4 + k);
        }
        if (i % 3 == 1) {
            local_cluster_restart(&self.cluster, LOCAL_PS, i / 3 % 2);
        }
        OK(cadre_checkpoint_save(self.cluster.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    }
    join(&self);
    expect_rows(&self);
    OK(cadre_checkpoint_save(self.cluster.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    local_cluster_options_t again = options_of(3, CADRE_ASYNC);
    again.coordinator.resume = CADRE_RESUME_AUTO;
    local_cluster_end_job(&self.cluster);
    local_cluster_begin_job(&self.cluster, &again);
    prepare(&self);
    expect_rows(&self);
    local_cluster_close(&self.cluster);
}

Test(conformance_tables, T5_assigns_rows_by_key)
{
    job_t self;
    local_cluster_options_t options = options_of(3, CADRE_ASYNC);
    job_open(&self, &options);
    static const uint64_t keys[] = {0x9f3c51aa07e4d211, 42, UINT64_MAX, 42};
    float numbers[4 * WIDTH];
    for (int i = 0; i < 4 * WIDTH; i++) {
        numbers[i] = (float)i;
    }
    const cadre_tensor_t rows = {
        .dtype = CADRE_F32, .rank = 2, .shape = {4, WIDTH}, .data = numbers};
    OK(cadre_variable_assign_keys(self.table, CADRE_VARIABLE_ADD, keys, 4, &rows, LOCAL_WAIT_MS));
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read_keys(self.table, keys, 3, &value, LOCAL_WAIT_MS));
    for (int i = 0; i < 3 * WIDTH; i++) {
        const float more = i / WIDTH == 1 ? numbers[3 * WIDTH + i % WIDTH] : 0;
        cr_assert_eq(((float *)value.data)[i], numbers[i] + more, "number %d", i);
    }
    cadre_tensor_fini(&value);
    cr_assert_eq(cadre_variable_read(self.table, &value, LOCAL_WAIT_MS), CADRE_EINVALID);
    local_cluster_close(&self.cluster);
}

/* --- back to a checkpoint --- */

static void
schedule_some(job_t *self, int from, int count)
{
    for (int i = from; i < from + count; i++) {
        schedule(self, i);
    }
    join(self);
}

Test(conformance_tables, goes_back_to_the_rows_of_a_checkpoint)
{
    job_t self;
    uint64_t saved = 0;
    int then[KEYS];
    local_cluster_options_t options = options_of(2, CADRE_ASYNC);
    job_open(&self, &options);
    schedule_some(&self, 0, 3);
    OK(cadre_checkpoint_save(self.cluster.coordinator, NULL, LOCAL_WAIT_MS, &saved));
    memcpy(then, self.seen, sizeof(then));
    for (int i = 1; i < 3; i++) {
        schedule_some(&self, 10 * i, 10);
        OK(cadre_checkpoint_restore(self.cluster.coordinator, saved, LOCAL_WAIT_MS, NULL));
        memcpy(self.seen, then, sizeof(then));
        expect_rows(&self); /* rows that were made since are gone */
        local_cluster_restart(&self.cluster, LOCAL_PS, i % 2);
        schedule_some(&self, 40 * i, 2);
        expect_rows(&self);
    }
    local_cluster_close(&self.cluster);
}

Test(conformance_tables, gets_back_the_values_of_rows_that_a_checkpoint_holds)
{
    job_t self = {.storage = CADRE_BF16};
    uint64_t saved = 0;
    int then[KEYS];
    const char *const names[] = {"users"};
    local_cluster_options_t options = options_of(2, CADRE_ASYNC);
    open_as(&self, &options);
    schedule_some(&self, 0, 3);
    OK(cadre_checkpoint_save(self.cluster.coordinator, NULL, LOCAL_WAIT_MS, &saved));
    memcpy(then, self.seen, sizeof(then));
    for (int i = 1; i < 3; i++) {
        schedule_some(&self, 10 * i, 10);
        OK(cadre_checkpoint_restore_values(self.cluster.coordinator, saved, i == 1 ? NULL : names,
                                           1, LOCAL_WAIT_MS));
        for (int k = 0; k < KEYS; k++) {
            self.seen[k] = then[k] > 0 ? then[k] : self.seen[k]; /* others stay */
        }
        expect_rows(&self);
    }
    local_cluster_close(&self.cluster);
}

Test(conformance_tables, is_not_read_from_a_checkpoint_as_a_whole)
{
    job_t self;
    uint64_t saved = 0;
    cadre_tensor_t value = {.data = NULL};
    local_cluster_options_t options = options_of(1, CADRE_ASYNC);
    job_open(&self, &options);
    schedule_some(&self, 0, 1);
    OK(cadre_checkpoint_save(self.cluster.coordinator, NULL, LOCAL_WAIT_MS, &saved));
    FAILS(cadre_checkpoint_read(self.cluster.coordinator, saved, "users", NULL, &value),
          CADRE_EINVALID, "users of checkpoint 1 is a table");
    FAILS(cadre_checkpoint_read(self.cluster.coordinator, saved, "users", "momentum", &value),
          CADRE_EINVALID, "cadre checkpoint export");
    cr_expect_null(value.data);
    local_cluster_close(&self.cluster);
}

Test(conformance_tables, an_id_that_is_none_is_named_as_it_was_read)
{
    job_t self;
    float x_of[IDS] = {0};
    cadre_function_t *function = NULL;
    local_cluster_options_t options = options_of(1, CADRE_ASYNC);
    job_open(&self, &options);
    cadre_program_t *p = cadre_program_new("floats");
    const cadre_dim_t dims[] = {cadre_dim(IDS / 2), cadre_dim(2)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    cadre_op_result(p, "rows", cadre_op_embedding(p, cadre_op_table(p, "users", WIDTH), x));
    OK(cadre_function_register(self.cluster.coordinator, &p, &function));
    x_of[7] = 2.5F;
    const cadre_tensor_t tensor = {
        .dtype = CADRE_F32, .rank = 2, .shape = {IDS / 2, 2}, .data = x_of};
    const cadre_argument_t argument = {"x", &tensor};
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    OK(cadre_coordinator_schedule(self.cluster.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    FAILS(cadre_coordinator_join(self.cluster.coordinator, LOCAL_WAIT_MS), CADRE_EDATA,
          "argument x has 2.5 (row 3, column 1, from 0)");
    local_cluster_close(&self.cluster);
}

/* --- by hand --- */

/* (row - 1)^2 of the rows of ids, whose gradient depends on what the rows are. */
static cadre_program_t *
new_lookup(bool is_wide)
{
    cadre_program_t *p = cadre_program_new("lookup");
    const cadre_dim_t dims[] = {cadre_dim(IDS)};
    cadre_node_t ids = cadre_op_arg(p, "ids", is_wide ? CADRE_I64 : CADRE_I32, dims, 1);
    cadre_node_t rows = cadre_op_take(p, cadre_op_table(p, "users", WIDTH), ids);
    cadre_node_t squares = cadre_op_square(p, cadre_op_sub(p, rows, cadre_op_const_f32(p, 1)));
    cadre_op_minimize(p, cadre_op_sum_all(p, squares));
    cadre_op_result(p, "rows", rows);
    return p;
}

/* Runs the lookup by hand and then on a worker, which sees the same rows, and changes them by the
 * gradients that were seen by hand. */
static void
look_up_by_hand(bool is_wide)
{
    job_t self = {.is_wide = is_wide};
    int numbers[IDS];
    int64_t ids[IDS];
    size_t count = 0;
    cadre_function_t *function = NULL;
    cadre_future_t *future = NULL;
    cadre_inspection_t *inspection = NULL;
    cadre_table_counts_t before;
    cadre_table_counts_t counts;
    cadre_tensor_t rows = {0};
    cadre_tensor_t old = {0};
    cadre_tensor_t changed = {0};
    local_cluster_options_t options = options_of(2, CADRE_ASYNC);
    open_as(&self, &options);
    schedule_some(&self, 0, 3);
    for (int i = 0; i < IDS; i++) {
        numbers[i] = (i * 7 + 90) % (KEYS + 9); /* some without a row */
    }
    const cadre_tensor_t tensor = ids_of(is_wide, numbers, ids);
    const cadre_argument_t argument = {"ids", &tensor};
    cadre_inspection_options_t given = cadre_inspection_options();
    given.tensors = &argument;
    given.tensor_count = 1;
    given.coordinator = self.cluster.coordinator;
    cadre_program_t *p = new_lookup(is_wide);
    OK(cadre_variable_read_counts(self.table, &before, LOCAL_WAIT_MS));
    OK(cadre_program_evaluate(p, &given, &inspection));
    OK(cadre_variable_read_counts(self.table, &counts, LOCAL_WAIT_MS));
    cr_expect_eq(counts.rows, before.rows, "evaluating makes no row");

    const uint64_t *keys = cadre_inspection_keys(inspection, "users", &count);
    OK(cadre_variable_read_keys(self.table, keys, count, &old, LOCAL_WAIT_MS));
    OK(cadre_function_register(self.cluster.coordinator, &p, &function));
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    OK(cadre_coordinator_schedule(self.cluster.coordinator, function, &call, LOCAL_WAIT_MS,
                                  &future));
    OK(cadre_future_fetch(future, "rows", &rows, LOCAL_WAIT_MS));
    const cadre_tensor_t *seen = cadre_inspection_result(inspection, "rows");
    cr_expect_eq(memcmp(rows.data, seen->data, cadre_tensor_size_bytes(seen)), 0);

    OK(cadre_variable_read_keys(self.table, keys, count, &changed, LOCAL_WAIT_MS));
    const float *gradient = cadre_inspection_gradient(inspection, "users")->data;
    for (size_t i = 0; i < count * WIDTH; i++) {
        const float wanted = ((const float *)old.data)[i] - rate * gradient[i];
        cr_expect_eq(((const float *)changed.data)[i], wanted, "number %zu", i);
    }
    cadre_tensor_fini(&rows);
    cadre_tensor_fini(&old);
    cadre_tensor_fini(&changed);
    cadre_future_destroy(&future);
    cadre_inspection_destroy(&inspection);
    local_cluster_close(&self.cluster);
}

Test(conformance_tables, T7_a_program_is_evaluated_with_the_rows_that_its_ids_name)
{
    look_up_by_hand(false);
    look_up_by_hand(true);
}
