/* Synchronous steps and bounded staleness with real processes: what a job computes does not depend
 * on how many tasks there are, nor on which of them are killed. */
#include <signal.h>
#include <string.h>

#include "common/base/random.h"
#include "common/system/clock.h"
#include "coordinator/coordinator.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_sync, .timeout = 900);

enum { INPUTS = 12, OUTPUTS = 5, ROWS = 6, HIDDEN = 9, CLOSURES = 60 };

typedef struct {
    local_cluster_t cluster;
    const cadre_function_t *step;
    const cadre_function_t *look;
    cadre_variable_t *first;
    cadre_variable_t *second;
} job_t;

static cadre_variable_t *
create(job_t *self, const char *name, int64_t rows, int64_t columns)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.initializer = cadre_initializer(CADRE_INITIALIZER_GLOROT_UNIFORM);
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    options.optimizer.learning_rate = 0.01;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = self->cluster.options.ps;
    cadre_variable_t *variable = NULL;
    OK(cadre_variable_create(self->cluster.coordinator, name, CADRE_F32, (int64_t[]){rows, columns},
                             2, &options, &variable));
    return variable;
}

/* The error of a small network on rows that are arguments, with dropout; `trains`: and its
 * gradient. */
static const cadre_function_t *
network(job_t *self, const char *name, bool trains)
{
    cadre_program_t *program = cadre_program_new(name);
    const cadre_dim_t inputs[] = {cadre_dim(ROWS), cadre_dim(INPUTS)};
    const cadre_dim_t outputs[] = {cadre_dim(ROWS), cadre_dim(OUTPUTS)};
    cadre_node_t x = cadre_op_arg(program, "x", CADRE_F32, inputs, 2);
    cadre_node_t y = cadre_op_arg(program, "y", CADRE_F32, outputs, 2);
    cadre_node_t first = cadre_op_var(program, "first", (int64_t[]){INPUTS, HIDDEN}, 2);
    cadre_node_t second = cadre_op_var(program, "second", (int64_t[]){HIDDEN, OUTPUTS}, 2);
    cadre_node_t hidden = cadre_op_tanh(program, cadre_op_matmul(program, x, first));
    if (trains) {
        hidden = cadre_op_dropout(program, hidden, 0.25f, 3);
    }
    cadre_node_t loss = cadre_op_mse(program, cadre_op_matmul(program, hidden, second), y);
    cadre_op_result(program, "loss", loss);
    if (trains) {
        cadre_op_minimize(program, loss);
    }
    cadre_function_t *function = NULL;
    OK(cadre_function_register(self->cluster.coordinator, &program, &function));
    return function;
}

static void
job_open(job_t *self, const local_cluster_options_t *options)
{
    local_cluster_options_t all = *options;
    all.coordinator.seed = 4711;
    local_cluster_open(&self->cluster, &all);
    self->first = create(self, "first", INPUTS, HIDDEN);
    self->second = create(self, "second", HIDDEN, OUTPUTS);
    self->step = network(self, "step", true);
    self->look = network(self, "look", false);
}

static void
schedule(job_t *self, const cadre_function_t *function, uint64_t number, cadre_future_t **future)
{
    float x[ROWS * INPUTS];
    float y[ROWS * OUTPUTS];
    cadre_random_fill_normal(99, 2 * number, 0, ROWS * INPUTS, x);
    cadre_random_fill_normal(99, 2 * number + 1, 0, ROWS * OUTPUTS, y);
    const cadre_tensor_t tensors[] = {
        {.dtype = CADRE_F32, .rank = 2, .shape = {ROWS, INPUTS}, .data = x},
        {.dtype = CADRE_F32, .rank = 2, .shape = {ROWS, OUTPUTS}, .data = y}};
    const cadre_argument_t arguments[] = {{"x", &tensors[0]}, {"y", &tensors[1]}};
    cadre_call_t call = cadre_call_tensors(arguments, 2);
    OK(cadre_coordinator_schedule(self->cluster.coordinator, function, &call, LOCAL_WAIT_MS,
                                  future));
}

static void
join(job_t *self)
{
    OK(cadre_coordinator_join(self->cluster.coordinator, LOCAL_WAIT_MS));
}

typedef struct {
    float first[INPUTS * HIDDEN];
    float second[HIDDEN * OUTPUTS];
    double losses[CLOSURES / 10];
} weights_t;

static void
read_into(const cadre_variable_t *variable, float *out, size_t size_bytes)
{
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read((cadre_variable_t *)(uintptr_t)variable, &value, LOCAL_WAIT_MS));
    memcpy(out, value.data, size_bytes);
    cadre_tensor_fini(&value);
}

/* What happens between two closures, by their number. */
typedef void (*disturb_t)(job_t *self, int number);

/* Trains, looks at the loss now and then, and gives the weights. */
static void
train(const local_cluster_options_t *options, disturb_t disturb, weights_t *out)
{
    job_t self;
    job_open(&self, options);
    memset(out, 0, sizeof(*out));
    cadre_future_t *looks[CLOSURES / 10] = {NULL};
    for (int i = 0; i < CLOSURES; i++) {
        schedule(&self, self.step, (uint64_t)i, NULL);
        if (i % 10 == 9) {
            schedule(&self, self.look, 7, &looks[i / 10]);
        }
        if (disturb) {
            disturb(&self, i);
        }
    }
    join(&self);
    for (int i = 0; i < CLOSURES / 10; i++) {
        OK(cadre_future_fetch_number(looks[i], "loss", &out->losses[i], LOCAL_WAIT_MS));
        cadre_future_destroy(&looks[i]);
    }
    read_into(self.first, out->first, sizeof(out->first));
    read_into(self.second, out->second, sizeof(out->second));
    local_cluster_close(&self.cluster);
}

static local_cluster_options_t
options_of(int ps, int workers, cadre_consistency_t consistency, uint32_t number)
{
    local_cluster_options_t options = {.ps = ps, .workers = workers};
    options.coordinator.consistency = consistency;
    options.coordinator.step_closures = consistency == CADRE_SYNC ? number : 0;
    options.coordinator.staleness_bound = consistency == CADRE_BOUNDED ? number : 0;
    return options;
}

static void
expect_equal(const weights_t *actual, const weights_t *expected, const char *what)
{
    cr_expect(memcmp(actual, expected, sizeof(*actual)) == 0, "%s: loss %.9g instead of %.9g", what,
              actual->losses[CLOSURES / 10 - 1], expected->losses[CLOSURES / 10 - 1]);
}

Test(conformance_sync, weights_are_the_same_for_any_number_of_workers_and_ps)
{
    static const int shapes[][2] = {{1, 2}, {1, 4}, {2, 1}, {2, 4}, {3, 2}};
    weights_t expected;
    weights_t actual;
    local_cluster_options_t options = options_of(1, 1, CADRE_SYNC, 4);
    train(&options, NULL, &expected);
    cr_expect_gt(expected.losses[0], expected.losses[CLOSURES / 10 - 1], "it learns");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        options = options_of(shapes[i][0], shapes[i][1], CADRE_SYNC, 4);
        train(&options, NULL, &actual);
        expect_equal(&actual, &expected, "another number of tasks");
    }
}

Test(conformance_sync, steps_of_one_closure_equal_one_closure_after_the_other)
{
    weights_t expected;
    weights_t actual;
    local_cluster_options_t options = options_of(2, 2, CADRE_SYNC, 1);
    train(&options, NULL, &expected);
    options = options_of(1, 3, CADRE_SYNC, 1);
    train(&options, NULL, &actual);
    expect_equal(&actual, &expected, "other tasks");
    options = options_of(1, 1, CADRE_BOUNDED, 0);
    train(&options, NULL, &actual);
    expect_equal(&actual, &expected, "one after the other");
}

static void
kill_workers(job_t *self, int number)
{
    if (number % 20 == 10) {
        local_cluster_restart(&self->cluster, LOCAL_WORKER, number / 20 % 2);
    }
}

Test(conformance_sync, killed_workers_change_no_bit)
{
    weights_t expected;
    weights_t actual;
    local_cluster_options_t options = options_of(2, 2, CADRE_SYNC, 4);
    train(&options, NULL, &expected);
    train(&options, kill_workers, &actual);
    expect_equal(&actual, &expected, "with workers killed");
}

static void
kill_ps(job_t *self, int number)
{
    if (number == 25 || number == 45) {
        join(self);
        local_cluster_restart(&self->cluster, LOCAL_PS, number == 25 ? 0 : 1);
    }
}

static void
pause_at_the_same_places(job_t *self, int number)
{
    if (number == 25 || number == 45) {
        join(self);
    }
}

Test(conformance_sync, killed_ps_change_no_bit)
{
    weights_t expected;
    weights_t actual;
    local_cluster_options_t options = options_of(2, 2, CADRE_SYNC, 4);
    train(&options, pause_at_the_same_places, &expected);
    train(&options, kill_ps, &actual);
    expect_equal(&actual, &expected, "with ps killed");
}

/* A host: a worker and the shard beside it. */
static void
kill_host(job_t *self, int number)
{
    if (number == 25 || number == 45) {
        int host = number == 25 ? 1 : 0;
        local_cluster_signal(&self->cluster, LOCAL_WORKER, host, SIGKILL);
        local_cluster_signal(&self->cluster, LOCAL_PS, host, SIGKILL);
        local_cluster_start(&self->cluster, LOCAL_PS, host);
        local_cluster_start(&self->cluster, LOCAL_WORKER, host);
    }
}

Test(conformance_sync, S3_a_killed_host_of_multi_worker_changes_no_bit)
{
    weights_t expected;
    weights_t actual;
    local_cluster_options_t options = options_of(3, 3, CADRE_ASYNC, 0);
    options.coordinator.strategy = CADRE_STRATEGY_MULTI_WORKER;
    options.coordinator.step_closures = 3;
    train(&options, NULL, &expected);
    train(&options, kill_host, &actual);
    expect_equal(&actual, &expected, "with hosts killed");
    options = options_of(1, 2, CADRE_SYNC, 3);
    train(&options, NULL, &actual);
    expect_equal(&actual, &expected, "the consistency that it means, on other tasks");
}

Test(conformance_sync, a_bound_of_nothing_runs_closures_one_after_the_other)
{
    weights_t expected;
    weights_t actual;
    local_cluster_options_t options = options_of(1, 1, CADRE_BOUNDED, 0);
    train(&options, NULL, &expected);
    options = options_of(2, 3, CADRE_BOUNDED, 0);
    train(&options, NULL, &actual);
    expect_equal(&actual, &expected, "other tasks");
}

/* Whether a checkpoint is ready to be cut, and is not. */
static bool
waits_for_a_step(const job_t *self)
{
    cadre_coordinator_t *coordinator = self->cluster.coordinator;
    cadre_gate_lock(coordinator->gate);
    const cadre_checkpoint_t *checkpoint = &coordinator->core.checkpoint;
    bool waits = checkpoint->state == CADRE_CHECKPOINT_OPENING && checkpoint->draft;
    cadre_gate_unlock(coordinator->gate);
    return waits;
}

/* A checkpoint waits until no step is in the middle; what the program does meanwhile does not. */
Test(conformance_sync, variables_are_created_and_assigned_while_a_checkpoint_waits_for_a_step)
{
    job_t self;
    local_cluster_options_t options = options_of(2, 2, CADRE_SYNC, 4);
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.checkpoint_every_ms = 50;
    job_open(&self, &options);
    for (uint64_t i = 0; i < 3; i++) {
        schedule(&self, self.step, i, NULL);
    }
    EVENTUALLY(waits_for_a_step(&self));
    cadre_variable_t *late = create(&self, "late", 3, 2);
    float values[6] = {1, 2, 3, 4, 5, 6};
    const cadre_tensor_t tensor = {.dtype = CADRE_F32, .rank = 2, .shape = {3, 2}, .data = values};
    OK(cadre_variable_assign(late, CADRE_VARIABLE_SET, &tensor, LOCAL_WAIT_MS));
    const uint64_t before = cadre_coordinator_totals(self.cluster.coordinator).checkpoints;
    join(&self);
    EVENTUALLY(cadre_coordinator_totals(self.cluster.coordinator).checkpoints > before);
    local_cluster_close(&self.cluster);
}

/* A step followed the other at once, and no checkpoint came between: a long epoch had none. */
Test(conformance_sync, checkpoints_are_cut_while_closures_are_queued)
{
    job_t self;
    local_cluster_options_t options = options_of(2, 2, CADRE_SYNC, 4);
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.checkpoint_every_ms = 50;
    options.coordinator.queue_capacity = 64;
    job_open(&self, &options);
    uint64_t number = 0;
    while (number < 1000) { /* more than the queue holds: from here on it is not empty */
        schedule(&self, self.step, number++, NULL);
    }
    const uint64_t before = cadre_coordinator_totals(self.cluster.coordinator).checkpoints;
    const deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
    while (cadre_coordinator_totals(self.cluster.coordinator).checkpoints < before + 2) {
        /* no wait here, in which the queue would run empty */
        cr_assert_lt(cadre_clock_now_ms(), deadline.end_ms, "after %d closures", (int)number);
        schedule(&self, self.step, number++, NULL);
    }
    local_cluster_close(&self.cluster);
}

Test(conformance_sync, recovery_that_loses_updates_is_refused)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    cadre_coordinator_t *coordinator = NULL;
    options.consistency = CADRE_SYNC;
    options.recovery = CADRE_RECOVERY_RELAXED;
    FAILS(cadre_coordinator_open(&options, &coordinator), CADRE_ECONFIG, "recovery relaxed");
    options.recovery = CADRE_RECOVERY_REPLAY;
    options.step_closures = 100000;
    FAILS(cadre_coordinator_open(&options, &coordinator), CADRE_ECONFIG, "step_closures");
}

/* It would wait for the step to end, which waits for it. */
Test(conformance_sync, a_closure_that_takes_a_result_of_its_step_begins_the_next)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 1, .workers = 2};
    options.coordinator.consistency = CADRE_SYNC;
    options.coordinator.step_closures = 4;
    float values[WIDE_ROWS];
    stage_open_with(&stage, &options);
    cadre_tensor_t ones = stage_row(values, 1);
    cadre_tensor_t name = stage_text("other");
    const int64_t shape[] = {WIDE_ROWS};
    OK(cadre_variable_create(stage.coordinator, "other", CADRE_F32, shape, 1, NULL, NULL));
    cadre_future_t *giving = stage_call(&stage, "add_named", "name", &name);
    cadre_future_argument_t argument = {"gradient", giving, "value"};
    cadre_call_t call = cadre_call();
    call.futures = &argument;
    call.future_count = 1;
    OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "push"), &call,
                                  LOCAL_WAIT_MS, NULL));
    stage_join(&stage);
    cadre_future_destroy(&giving);
    giving = stage_call(&stage, "push", "gradient", &ones);
    OK(cadre_future_wait(giving, LOCAL_WAIT_MS));
    cadre_future_destroy(&giving);
    stage_close(&stage);
}
