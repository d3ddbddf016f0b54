/*
 * Synchronous steps while ps and workers are killed at random: the weights must be those, bit for
 * bit, of the same closures on a cluster of another shape that is left alone.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "tests/chaos/chaos.h"
#include "tests/system/local_cluster.h"
#include "tests/system/process.h"

enum {
    INPUTS = 12,
    HIDDEN = 9,
    OUTPUTS = 5,
    ROWS = 6,
    STEP_CLOSURES = 4,
    PS = 2,
    WORKERS = 3,
    QUEUE = 64,   /* closures ahead, so that faults find them at every stage */
    GAP_MS = 100, /* between two kills, at most */
    CHECKPOINT_MS = 500,
    CLOSURES_MAX = 1000000,
};

typedef struct {
    local_cluster_t cluster;
    cadre_function_t *step;
    cadre_variable_t *first;
    cadre_variable_t *second;
    uint64_t scheduled;
    uint64_t wanted; /* closures to schedule; fewer when `ends` comes before */
    _Atomic bool ends;
} job_t;

typedef struct {
    float first[INPUTS * HIDDEN];
    float second[HIDDEN * OUTPUTS];
} weights_t;

/* --- the job --- */

static void
must(int status)
{
    require(status == 0, cadre_error_text());
}

static cadre_variable_t *
create(job_t *self, const char *name, int64_t rows, int64_t columns)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.initializer = cadre_initializer(CADRE_INITIALIZER_GLOROT_UNIFORM);
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = self->cluster.options.ps;
    cadre_variable_t *variable = NULL;
    must(cadre_variable_create(self->cluster.coordinator, name, CADRE_F32,
                               (int64_t[]){rows, columns}, 2, &options, &variable));
    return variable;
}

static cadre_function_t *
register_step(job_t *self)
{
    cadre_program_t *program = cadre_program_new("step");
    const cadre_dim_t inputs[] = {cadre_dim(ROWS), cadre_dim(INPUTS)};
    const cadre_dim_t outputs[] = {cadre_dim(ROWS), cadre_dim(OUTPUTS)};
    cadre_node_t x = cadre_op_arg(program, "x", CADRE_F32, inputs, 2);
    cadre_node_t y = cadre_op_arg(program, "y", CADRE_F32, outputs, 2);
    cadre_node_t first = cadre_op_var(program, "first", (int64_t[]){INPUTS, HIDDEN}, 2);
    cadre_node_t second = cadre_op_var(program, "second", (int64_t[]){HIDDEN, OUTPUTS}, 2);
    cadre_node_t hidden = cadre_op_tanh(program, cadre_op_matmul(program, x, first));
    hidden = cadre_op_dropout(program, hidden, 0.25f, 3);
    cadre_op_minimize(program, cadre_op_mse(program, cadre_op_matmul(program, hidden, second), y));
    cadre_function_t *function = NULL;
    must(cadre_function_register(self->cluster.coordinator, &program, &function));
    return function;
}

static void
job_open(job_t *self, int ps, int workers)
{
    local_cluster_options_t options = {.ps = ps, .workers = workers};
    options.coordinator.seed = 4711;
    options.coordinator.consistency = CADRE_SYNC;
    options.coordinator.step_closures = STEP_CLOSURES;
    options.coordinator.queue_capacity = QUEUE;
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.checkpoint_every_ms = CHECKPOINT_MS;
    local_cluster_open(&self->cluster, &options);
    self->first = create(self, "first", INPUTS, HIDDEN);
    self->second = create(self, "second", HIDDEN, OUTPUTS);
    self->step = register_step(self);
}

static void
schedule(job_t *self, uint64_t number)
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
    must(cadre_coordinator_schedule(self->cluster.coordinator, self->step, &call, LOCAL_WAIT_MS,
                                    NULL));
}

static void *
run_job(void *argument)
{
    job_t *self = argument;
    while (self->scheduled < self->wanted && !atomic_load(&self->ends)) {
        schedule(self, self->scheduled++);
    }
    must(cadre_coordinator_join(self->cluster.coordinator, LOCAL_WAIT_MS));
    return NULL;
}

static void
read_into(cadre_variable_t *variable, float *out, size_t size_bytes)
{
    cadre_tensor_t value = {.data = NULL};
    must(cadre_variable_read(variable, &value, LOCAL_WAIT_MS));
    memcpy(out, value.data, size_bytes);
    cadre_tensor_fini(&value);
}

static void
job_close(job_t *self, weights_t *weights)
{
    read_into(self->first, weights->first, sizeof(weights->first));
    read_into(self->second, weights->second, sizeof(weights->second));
    local_cluster_close(&self->cluster);
}

/* --- the test --- */

typedef struct {
    uint64_t closures;
    uint64_t ps_lost;
    uint64_t workers_lost;
    uint64_t replayed;
} outcome_t;

/* Trains until so many ps and workers were killed, and gives the weights. */
static outcome_t
train_under_fire(chaos_run_t *run, weights_t *weights)
{
    job_t job = {.wanted = CLOSURES_MAX};
    pthread_t thread;
    job_open(&job, PS, WORKERS);
    require(pthread_create(&thread, NULL, run_job, &job) == 0, "a thread");
    for (int i = 0; i < run->count; i++) {
        poll(NULL, 0, chaos_draw(run, GAP_MS));
        const int task = chaos_draw(run, PS + WORKERS);
        local_cluster_restart(&job.cluster, task < PS ? LOCAL_PS : LOCAL_WORKER,
                              task < PS ? task : task - PS);
    }
    atomic_store(&job.ends, true);
    pthread_join(thread, NULL);

    const cadre_totals_t totals = cadre_coordinator_totals(job.cluster.coordinator);
    const outcome_t outcome = {.closures = job.scheduled,
                               .ps_lost = totals.ps_lost,
                               .workers_lost = totals.workers_lost,
                               .replayed = totals.replayed};
    job_close(&job, weights);
    return outcome;
}

static void
train_alone(uint64_t closures, weights_t *weights)
{
    job_t job = {.wanted = closures};
    job_open(&job, 1, 1);
    run_job(&job);
    job_close(&job, weights);
}

void
chaos_sync_kill(chaos_run_t *run)
{
    weights_t actual;
    weights_t expected;
    const outcome_t outcome = train_under_fire(run, &actual);
    train_alone(outcome.closures, &expected);
    require(memcmp(&actual, &expected, sizeof(actual)) == 0, "weights that are equal bit for bit");
    chaos_say(run,
              "%d kills (%" PRIu64 " ps and %" PRIu64 " workers lost): %" PRIu64
              " closures in steps of %d, %" PRIu64
              " run again; weights equal bit for bit to those of 1 ps and 1 worker left alone",
              run->count, outcome.ps_lost, outcome.workers_lost, outcome.closures, STEP_CLOSURES,
              outcome.replayed);
    chaos_number(run, "replayed", (double)outcome.replayed);
}
