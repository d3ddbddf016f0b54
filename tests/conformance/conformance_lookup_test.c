/* Variables that programs only look up travel by rows, and become what they would by travelling
 * whole, bit for bit: under any optimizer that says so, number of tasks, and consistency; also when
 * tasks are killed. */
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "coordinator/coordinator.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_lookup, .timeout = 900);

/* Rows of the tables, which no number of ps but 1 divides. */
enum { FIRST = 301, SECOND = 97, WIDTH = 4, BATCH = 8, IDS = 3, CLOSURES = 24 };

typedef struct {
    local_cluster_t cluster;
    const cadre_function_t *step;
    cadre_variable_t *tables[3];
} job_t;

typedef struct {
    cadre_optimizer_kind_t optimizer;
    bool is_lazy;
    double average; /* momentum of the running average; 0: none */
    bool is_whole;  /* the program gives a sum of all tables, so that it needs every row */
} kind_t;

static cadre_variable_t *
create(job_t *self, const kind_t *kind, const char *name, int64_t rows, int64_t width)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.initializer = cadre_initializer(CADRE_INITIALIZER_GLOROT_UNIFORM);
    options.optimizer = cadre_optimizer(kind->optimizer);
    options.optimizer.learning_rate = 0.05;
    options.schedule = cadre_schedule(CADRE_SCHEDULE_INVERSE_TIME);
    options.schedule.decay_steps = 5;
    options.schedule.decay_rate = 0.5;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = self->cluster.options.ps;
    options.lazy = kind->is_lazy;
    options.average_momentum = kind->average;
    options.average_overwrite = kind->average > 0 ? 7 : 0;
    cadre_variable_t *variable = NULL;
    OK(cadre_variable_create(self->cluster.coordinator, name, CADRE_F32, (int64_t[]){rows, width},
                             2, &options, &variable));
    return variable;
}

/* Two tables looked up by the same ids, one of them by others too; a bag with padding of a
 * third. */
static const cadre_function_t *
network(job_t *self, const kind_t *kind)
{
    cadre_program_t *p = cadre_program_new("step");
    const cadre_dim_t ids[] = {cadre_dim(BATCH), cadre_dim(IDS)};
    const cadre_dim_t flat[] = {cadre_dim(BATCH * IDS)};
    const cadre_dim_t batch[] = {cadre_dim(BATCH)};
    const cadre_node_t none = {0};
    cadre_node_t first = cadre_op_var(p, "first", (int64_t[]){FIRST, WIDTH}, 2);
    cadre_node_t same = cadre_op_var(p, "same", (int64_t[]){FIRST, WIDTH}, 2);
    cadre_node_t second = cadre_op_var(p, "second", (int64_t[]){SECOND, WIDTH}, 2);
    cadre_node_t index = cadre_op_arg(p, "ids", CADRE_I32, ids, 2);
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, batch, 1);
    cadre_node_t entries = cadre_op_arg(p, "entries", CADRE_I32, flat, 1);
    cadre_node_t offsets = cadre_op_arg(p, "offsets", CADRE_I32, batch, 1);
    cadre_node_t a = cadre_op_sum(p, cadre_op_take(p, first, index), 1);
    cadre_node_t b = cadre_op_sum(p, cadre_op_take(p, same, index), 1);
    cadre_node_t c = cadre_op_embedding(p, first, x);
    cadre_node_t d = cadre_op_bag(p, second, entries, offsets, none, CADRE_BAG_SUM);
    cadre_node_t both = cadre_op_mul(p, cadre_op_add(p, a, c), cadre_op_add(p, b, d));
    cadre_node_t gap = cadre_op_sub(p, cadre_op_sum(p, both, 1), cadre_op_const_f32(p, 1));
    cadre_op_minimize(p, cadre_op_mean_all(p, cadre_op_square(p, gap)));
    if (kind->is_whole) {
        cadre_node_t all = cadre_op_add(p, cadre_op_sum_all(p, first), cadre_op_sum_all(p, second));
        cadre_op_result(p, "all", cadre_op_add(p, all, cadre_op_sum_all(p, same)));
    }
    cadre_function_t *function = NULL;
    OK(cadre_function_register(self->cluster.coordinator, &p, &function));
    return function;
}

static void
job_open(job_t *self, const kind_t *kind, const local_cluster_options_t *options)
{
    local_cluster_options_t all = *options;
    all.coordinator.seed = 4711;
    local_cluster_open(&self->cluster, &all);
    self->tables[0] = create(self, kind, "first", FIRST, WIDTH);
    self->tables[1] = create(self, kind, "same", FIRST, WIDTH);
    self->tables[2] = create(self, kind, "second", SECOND, WIDTH);
    self->step = network(self, kind);
}

/* Ids of closure `number`: mostly small ones, all the same now and then; of the bag a third are
 * padding, and of every fourth closure all. */
static void
schedule(job_t *self, uint64_t number)
{
    int32_t ids[BATCH * IDS];
    int32_t entries[BATCH * IDS];
    int32_t offsets[BATCH];
    float x[BATCH];
    cadre_random_t random;
    cadre_random_init(&random, 17, number);
    for (int i = 0; i < BATCH * IDS; i++) {
        const uint64_t most = cadre_random_below(&random, FIRST) + 1;
        ids[i] = number % 5 == 4 ? 150 : (int32_t)cadre_random_below(&random, most);
        entries[i] = number % 4 == 3 || cadre_random_below(&random, 3) == 0
                         ? -1
                         : (int32_t)cadre_random_below(&random, SECOND);
    }
    for (int i = 0; i < BATCH; i++) {
        offsets[i] = i * IDS;
        x[i] = (float)cadre_random_below(&random, FIRST);
    }
    const cadre_tensor_t tensors[] = {
        {.dtype = CADRE_I32, .rank = 2, .shape = {BATCH, IDS}, .data = ids},
        {.dtype = CADRE_F32, .rank = 1, .shape = {BATCH}, .data = x},
        {.dtype = CADRE_I32, .rank = 1, .shape = {BATCH * IDS}, .data = entries},
        {.dtype = CADRE_I32, .rank = 1, .shape = {BATCH}, .data = offsets}};
    const cadre_argument_t arguments[] = {{"ids", &tensors[0]},
                                          {"x", &tensors[1]},
                                          {"entries", &tensors[2]},
                                          {"offsets", &tensors[3]}};
    cadre_call_t call = cadre_call_tensors(arguments, 4);
    OK(cadre_coordinator_schedule(self->cluster.coordinator, self->step, &call, LOCAL_WAIT_MS,
                                  NULL));
}

static void
join(job_t *self)
{
    OK(cadre_coordinator_join(self->cluster.coordinator, LOCAL_WAIT_MS));
}

typedef struct {
    float first[FIRST * WIDTH];
    float same[FIRST * WIDTH];
    float second[SECOND * WIDTH];
} weights_t;

static void
read_into(cadre_variable_t *variable, float *out, size_t size_bytes)
{
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read(variable, &value, LOCAL_WAIT_MS));
    memcpy(out, value.data, size_bytes);
    cadre_tensor_fini(&value);
}

/* What happens between two closures, by their number. */
typedef void (*disturb_t)(job_t *self, int number);

static void
train(const kind_t *kind, const local_cluster_options_t *options, disturb_t disturb, weights_t *out)
{
    job_t self;
    job_open(&self, kind, options);
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < CLOSURES; i++) {
        schedule(&self, (uint64_t)i);
        if (disturb) {
            disturb(&self, i);
        }
    }
    join(&self);
    read_into(self.tables[0], out->first, sizeof(out->first));
    read_into(self.tables[1], out->same, sizeof(out->same));
    read_into(self.tables[2], out->second, sizeof(out->second));
    local_cluster_close(&self.cluster);
}

static void
expect_equal(const weights_t *actual, const weights_t *expected, const char *what)
{
    for (int i = 0; i < FIRST * WIDTH; i++) {
        cr_assert_eq(actual->first[i], expected->first[i], "%s: first, row %d: %.9g, not %.9g",
                     what, i / WIDTH, actual->first[i], expected->first[i]);
    }
    cr_expect(memcmp(actual, expected, sizeof(*actual)) == 0, "%s", what);
}

/* One closure after the other, or steps of three. */
static local_cluster_options_t
options_of(int ps, int workers, cadre_consistency_t consistency)
{
    local_cluster_options_t options = {.ps = ps, .workers = workers, .slots = 1};
    options.coordinator.consistency = consistency;
    options.coordinator.step_closures = consistency == CADRE_SYNC ? 3 : 0;
    return options;
}

static void
compare_kinds(cadre_optimizer_kind_t optimizer, const local_cluster_options_t *options,
              disturb_t disturb)
{
    weights_t whole;
    weights_t rows;
    for (int i = 0; i < 2; i++) {
        const double average = 0.5 * i;
        train(&(kind_t){.optimizer = optimizer, .average = average, .is_whole = true}, options,
              NULL, &whole);
        train(&(kind_t){.optimizer = optimizer, .average = average}, options, disturb, &rows);
        expect_equal(&rows, &whole, i == 0 ? "by rows" : "by rows, with an average");
    }
}

Test(conformance_lookup, by_rows_sgd_gives_the_weights_that_whole_variables_give)
{
    local_cluster_options_t options = options_of(1, 1, CADRE_BOUNDED);
    compare_kinds(CADRE_OPTIMIZER_SGD, &options, NULL);
    options = options_of(3, 2, CADRE_BOUNDED);
    compare_kinds(CADRE_OPTIMIZER_SGD, &options, NULL);
}

Test(conformance_lookup, by_rows_adagrad_gives_the_weights_that_whole_variables_give)
{
    local_cluster_options_t options = options_of(3, 1, CADRE_BOUNDED);
    compare_kinds(CADRE_OPTIMIZER_ADAGRAD, &options, NULL);
}

/* Their other rows move, too: the shard makes of the rows that came an update of all. */
Test(conformance_lookup, by_rows_optimizers_with_momentum_give_the_weights_that_whole_ones_give)
{
    const local_cluster_options_t options = options_of(3, 1, CADRE_BOUNDED);
    compare_kinds(CADRE_OPTIMIZER_ADAM, &options, NULL);
    compare_kinds(CADRE_OPTIMIZER_ADAMW, &options, NULL);
    compare_kinds(CADRE_OPTIMIZER_NESTEROV, &options, NULL);
    compare_kinds(CADRE_OPTIMIZER_RMSPROP, &options, NULL);
    compare_kinds(CADRE_OPTIMIZER_FTRL, &options, NULL);
    compare_kinds(CADRE_OPTIMIZER_DELAYED_NESTEROV, &options, NULL);
}

Test(conformance_lookup, by_rows_synchronous_steps_give_the_weights_that_whole_variables_give)
{
    local_cluster_options_t options = options_of(3, 2, CADRE_SYNC);
    compare_kinds(CADRE_OPTIMIZER_ADAGRAD, &options, NULL);
    options = options_of(1, 2, CADRE_SYNC);
    compare_kinds(CADRE_OPTIMIZER_SGD, &options, NULL);
    options = options_of(2, 2, CADRE_SYNC);
    compare_kinds(CADRE_OPTIMIZER_ADAM, &options, NULL);
}

/* Between steps, since a ps that is restored replays in the order of closures, and these are then
 * in steps of their own. */
static void
kill_tasks(job_t *self, int number)
{
    if (number == 5) {
        local_cluster_restart(&self->cluster, LOCAL_WORKER, 0);
    } else if (number == 11) {
        join(self);
        local_cluster_restart(&self->cluster, LOCAL_PS, 1);
    }
}

Test(conformance_lookup, killed_tasks_change_no_bit_of_rows)
{
    local_cluster_options_t options = options_of(2, 2, CADRE_SYNC);
    compare_kinds(CADRE_OPTIMIZER_ADAGRAD, &options, kill_tasks);
    compare_kinds(CADRE_OPTIMIZER_ADAM, &options, kill_tasks);
}

/* A native function pulls rows 7, 3 and 7 and pushes them as gradients: of row 7 it is twice the
 * value. */
static void
expect_native_rows(cadre_optimizer_kind_t optimizer)
{
    const kind_t kind = {.optimizer = optimizer};
    const local_cluster_options_t options = options_of(2, 1, CADRE_ASYNC);
    job_t self;
    weights_t before;
    weights_t after;
    job_open(&self, &kind, &options);
    read_into(self.tables[0], before.first, sizeof(before.first));
    cadre_function_t *function = NULL;
    OK(cadre_function_native(self.cluster.coordinator, "touch_rows", &function));
    const cadre_tensor_t name = stage_text("first");
    const cadre_argument_t argument = {"name", &name};
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(self.cluster.coordinator, function, &call, LOCAL_WAIT_MS,
                                  &future));
    cadre_tensor_t rows = {.data = NULL};
    OK(cadre_future_fetch(future, "rows", &rows, LOCAL_WAIT_MS));
    cr_assert_eq(rows.shape[0], 3);
    cr_assert_eq(rows.shape[1], WIDTH);
    static const int64_t ids[] = {7, 3, 7};
    for (int i = 0; i < 3; i++) {
        cr_expect_arr_eq((float *)rows.data + i * WIDTH, &before.first[ids[i] * WIDTH],
                         WIDTH * sizeof(float));
    }
    cadre_tensor_fini(&rows);
    cadre_future_destroy(&future);

    read_into(self.tables[0], after.first, sizeof(after.first));
    const bool is_sgd = optimizer == CADRE_OPTIMIZER_SGD;
    for (int i = 0; i < FIRST * WIDTH; i++) {
        const float times = i / WIDTH == 7 ? 2.0F : (float)(i / WIDTH == 3);
        const float way = 0.05F * (times * before.first[i]);
        const bool moves = after.first[i] != before.first[i];
        cr_assert_eq(moves, times > 0, "row %d", i / WIDTH);
        cr_assert(!is_sgd || after.first[i] == before.first[i] - way, "row %d", i / WIDTH);
    }
    local_cluster_close(&self.cluster);
}

Test(conformance_lookup, native_functions_pull_and_push_rows)
{
    expect_native_rows(CADRE_OPTIMIZER_SGD);
    expect_native_rows(CADRE_OPTIMIZER_ADAM);
}

/* A counter of the status, added up over all tasks. */
static long long
count_of(job_t *self, const char *counter)
{
    cadre_auto(cadre_free) char *text = NULL;
    cadre_auto(cadre_free) char *key = cadre_asprintf("\"%s\":", counter);
    OK(cadre_coordinator_status_json(self->cluster.coordinator, &text));
    long long sum = 0;
    for (const char *at = text; (at = strstr(at, key));) {
        at += strlen(key);
        sum += strtoll(at, NULL, 10);
    }
    return sum;
}

/* Returns the bytes of all gradients on their way. */
static long long
pushed_bytes(const kind_t *kind)
{
    enum { PS = 2 };
    const local_cluster_options_t options = options_of(PS, 1, CADRE_BOUNDED);
    job_t self;
    job_open(&self, kind, &options);
    for (int i = 0; i < CLOSURES; i++) {
        schedule(&self, (uint64_t)i);
    }
    join(&self);
    /* Both ends of each push have counted it. */
    EVENTUALLY(count_of(&self, "applied") == 2 * CLOSURES * PS);
    const long long bytes = count_of(&self, "push_bytes") / 2;
    local_cluster_close(&self.cluster);
    return bytes;
}

Test(conformance_lookup, moves_the_rows_that_are_looked_up_and_no_others)
{
    enum { WHOLE = (2 * FIRST + SECOND) * WIDTH * sizeof(float) };
    static const kind_t kinds[] = {{.optimizer = CADRE_OPTIMIZER_SGD},
                                   {.optimizer = CADRE_OPTIMIZER_ADAM},
                                   {.optimizer = CADRE_OPTIMIZER_SGD, .average = 0.5}};
    const long long whole =
        pushed_bytes(&(kind_t){.optimizer = CADRE_OPTIMIZER_SGD, .is_whole = true});
    cr_expect_eq(whole, (long long)CLOSURES * WHOLE);
    for (size_t i = 0; i < CADRE_COUNT_OF(kinds); i++) {
        const long long rows = pushed_bytes(&kinds[i]);
        cr_expect_lt(rows, whole / 4, "%zu: %lld of %lld", i, rows, whole);
    }
}

/* Rows that nothing looks up stay as they were; those that are learn. */
Test(conformance_lookup, lazy_lets_rows_rest_that_nothing_looks_up)
{
    const kind_t kind = {.optimizer = CADRE_OPTIMIZER_ADAM, .is_lazy = true};
    const local_cluster_options_t options = options_of(2, 1, CADRE_BOUNDED);
    job_t self;
    weights_t before;
    weights_t after;
    job_open(&self, &kind, &options);
    read_into(self.tables[0], before.first, sizeof(before.first));
    schedule(&self, 0);
    schedule(&self, 4); /* Adam's momentum would move the rows of the first closure again */
    join(&self);
    read_into(self.tables[0], after.first, sizeof(after.first));
    int moved = 0;
    for (int row = 0; row < FIRST; row++) {
        moved += memcmp(&before.first[row * WIDTH], &after.first[row * WIDTH],
                        WIDTH * sizeof(float)) != 0;
    }
    cr_expect_geq(moved, 10);
    cr_expect_leq(moved, 2 * BATCH * (IDS + 1));
    local_cluster_close(&self.cluster);
}

Test(conformance_lookup, lazy_goes_with_nothing_that_moves_all_rows)
{
    job_t self;
    const local_cluster_options_t options = options_of(1, 1, CADRE_ASYNC);
    local_cluster_open(&self.cluster, &options);
    cadre_variable_options_t lazy = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    lazy.lazy = 1;
    lazy.average_momentum = 0.9;
    FAILS(cadre_variable_create(self.cluster.coordinator, "v", CADRE_F32, (int64_t[]){4, 2}, 2,
                                &lazy, &variable),
          CADRE_EINVALID, "lazy does not go with average_momentum");
    lazy.average_momentum = 0;
    lazy.delay_compensation = 0.1;
    FAILS(cadre_variable_create(self.cluster.coordinator, "v", CADRE_F32, (int64_t[]){4, 2}, 2,
                                &lazy, &variable),
          CADRE_EINVALID, "delay_compensation");
    local_cluster_close(&self.cluster);
}

Test(conformance_lookup, fails_the_closure_whose_ids_are_out_of_range_and_no_other)
{
    const kind_t kind = {.optimizer = CADRE_OPTIMIZER_SGD};
    const local_cluster_options_t options = options_of(2, 1, CADRE_ASYNC);
    job_t self;
    job_open(&self, &kind, &options);
    cadre_program_t *p = cadre_program_new("read");
    cadre_node_t first = cadre_op_var(p, "first", (int64_t[]){FIRST, WIDTH}, 2);
    const cadre_dim_t dims[] = {cadre_dim(2)};
    cadre_op_result(p, "rows", cadre_op_take(p, first, cadre_op_arg(p, "i", CADRE_I32, dims, 1)));
    cadre_function_t *function = NULL;
    OK(cadre_function_register(self.cluster.coordinator, &p, &function));
    int32_t ids[] = {3, FIRST};
    const cadre_tensor_t tensor = {.dtype = CADRE_I32, .rank = 1, .shape = {2}, .data = ids};
    const cadre_argument_t argument = {"i", &tensor};
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(self.cluster.coordinator, function, &call, LOCAL_WAIT_MS,
                                  &future));
    cr_expect_eq(cadre_future_wait(future, LOCAL_WAIT_MS), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "take: index 301 at 1 is not in 0..300"), "%s",
              cadre_error_text());
    cadre_future_destroy(&future);
    cadre_coordinator_join(self.cluster.coordinator, LOCAL_WAIT_MS); /* tells the failure again */

    ids[1] = 0;
    OK(cadre_coordinator_schedule(self.cluster.coordinator, function, &call, LOCAL_WAIT_MS,
                                  &future));
    OK(cadre_future_wait(future, LOCAL_WAIT_MS));
    cadre_future_destroy(&future);
    local_cluster_close(&self.cluster);
}
