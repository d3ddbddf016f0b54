/* cadre-bench-gpu-ps: trains a model by a coordinator in this process, one ps and one worker with a
 * device, all on this host over ipc. A closure is one step; its batch travels with it. As many are
 * in flight as the worker has slots, plus one; for losses one at a time. See runner.h. */
#include <cadre/coordinator.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/gpu/runner.h"
#include "bench/measure.h"
#include "bench/process.h"
#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/program.h"

enum { WAIT_MS = 300000, LEASE_MS = 10000, LEAVE_MS = 5000, LOOK_MS = 20, FLIGHT_MAX = 16 };

typedef struct {
    const gpu_options_t *options;
    gpu_model_t model;
    cadre_program_t *program;
    char folder[32]; /* of the sockets */
    cadre_coordinator_t *coordinator;
    pid_t ps;
    pid_t worker;
    cadre_variable_t *variables[GPU_VARIABLES_MAX];
    cadre_function_t *function;
    cadre_tensor_t batches[GPU_BATCHES][GPU_ARGUMENTS_MAX];
    uint64_t step;
    uint64_t finished;                  /* closures since the start */
    cadre_future_t *flight[FLIGHT_MAX]; /* by step; NULL where none is */
} job_t;

/* ---- opening ---- */

static int
open_coordinator(job_t *self)
{
    snprintf(self->folder, sizeof(self->folder), "/tmp/cadre-bench-XXXXXX");
    if (!mkdtemp(self->folder)) {
        return cadre_fail(CADRE_EIO, "no folder for sockets: %s", self->folder);
    }

    cadre_auto(cadre_free) char *address = cadre_asprintf("ipc://%s/coordinator", self->folder);
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.job = "bench";
    options.address = address;
    options.ps_count = 1;
    options.seed = 1;
    options.lease_ms = LEASE_MS;
    return cadre_coordinator_open(&options, &self->coordinator);
}

static int
start_tasks(job_t *self)
{
    char threads[12];
    char slots[12];
    const gpu_options_t *options = self->options;
    const char *coordinator = cadre_coordinator_address(self->coordinator);
    cadre_auto(cadre_free) char *address = cadre_asprintf("ipc://%s/ps", self->folder);

    snprintf(threads, sizeof(threads), "%d", options->threads);
    snprintf(slots, sizeof(slots), "%d", options->slots);
    const char *const ps[] = {"--index", "0", "--coordinator", coordinator, "--address",
                              address,   NULL};
    const char *const worker[] = {
        "--index", "0",           "--coordinator", coordinator, "--device", options->device,
        "--math",  options->math, "--threads",     threads,     "--slots",  slots,
        NULL};
    int status = cadre_bench_process_start("cadre-ps", ps, options->verbose, &self->ps);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_process_start("cadre-worker", worker, options->verbose, &self->worker);
    if (status < 0) {
        return status;
    }

    return cadre_coordinator_wait_ready(self->coordinator, 1, WAIT_MS);
}

static int
create_variables(job_t *self)
{
    cadre_variable_options_t options = cadre_variable_options();

    options.optimizer.learning_rate = (double)self->model.rate;
    int status = 0;
    for (int i = 0; i < self->model.variable_count; i++) {
        const gpu_variable_t *variable = &self->model.variables[i];
        status =
            cadre_variable_create(self->coordinator, variable->name, CADRE_F32, variable->shape,
                                  variable->rank, &options, &self->variables[i]);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

static void
close_job(job_t *self)
{
    for (int i = 0; i < FLIGHT_MAX; i++) {
        cadre_future_destroy(&self->flight[i]);
    }

    cadre_coordinator_close(&self->coordinator);
    cadre_bench_process_end(&self->worker, LEAVE_MS);
    cadre_bench_process_end(&self->ps, LEAVE_MS);
    for (int i = 0; i < GPU_BATCHES * self->model.argument_count; i++) {
        cadre_tensor_fini(&self->batches[i % GPU_BATCHES][i / GPU_BATCHES]);
    }

    cadre_program_destroy(&self->program);
    rmdir(self->folder);
}

static int reset(void *context);

static int
open_job(job_t *self)
{
    int status =
        gpu_model_make(&self->options->size, GPU_PUSH_GRADIENTS, &self->model, &self->program);
    status = status < 0 ? status : open_coordinator(self);
    status = status < 0 ? status : start_tasks(self);
    status = status < 0 ? status : create_variables(self);
    if (status == 0) {
        status = cadre_function_register(self->coordinator, &self->program, &self->function);
    }

    for (int i = 0; i < GPU_BATCHES * self->model.argument_count; i++) {
        int batch = i % GPU_BATCHES;
        self->batches[batch][i / GPU_BATCHES] = gpu_batch(&self->model, batch, i / GPU_BATCHES);
    }

    if (status < 0) {
        return status;
    }

    return reset(self);
}

/* ---- what a runner does ---- */

static int
reset(void *context)
{
    job_t *self = context;
    int status = 0;

    self->step = 0;
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < self->model.variable_count; i++) {
        const gpu_variable_t *variable = &self->model.variables[i];
        cadre_auto(cadre_free) float *values = gpu_first_values(&self->model, i);
        const cadre_tensor_t tensor = {.dtype = CADRE_F32,
                                       .rank = variable->rank,
                                       .shape = {variable->shape[0], variable->shape[1]},
                                       .data = values};
        status = cadre_variable_assign(self->variables[i], CADRE_VARIABLE_SET, &tensor, WAIT_MS);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

static int
schedule(job_t *self)
{
    cadre_argument_t arguments[GPU_ARGUMENTS_MAX];
    const cadre_tensor_t *batch = self->batches[self->step % GPU_BATCHES];
    for (int i = 0; i < self->model.argument_count; i++) {
        arguments[i] =
            (cadre_argument_t){.name = self->model.arguments[i].name, .tensor = &batch[i]};
    }

    const cadre_call_t call = {.size = sizeof(call),
                               .tensors = arguments,
                               .tensor_count = (size_t)self->model.argument_count};
    cadre_future_t **future = &self->flight[self->step % FLIGHT_MAX];

    self->step++;
    return cadre_coordinator_schedule(self->coordinator, self->function, &call, WAIT_MS, future);
}

/* Waits for the closure of `step`. */
static int
finish(job_t *self, uint64_t step, float *loss)
{
    cadre_future_t **future = &self->flight[step % FLIGHT_MAX];
    cadre_tensor_t value = {.data = NULL};
    int status = cadre_future_fetch(*future, "loss", &value, WAIT_MS);
    if (status == 0) {
        *loss = *(const float *)value.data;
    }

    cadre_tensor_fini(&value);
    cadre_future_destroy(future);
    self->finished++;
    return status;
}

static int
train(void *context, int steps, float *losses)
{
    job_t *self = context;
    const uint64_t begin = self->step;
    const uint64_t flight_max = losses ? 1 : (uint64_t)self->options->slots + 1;
    uint64_t finished = begin;
    int status = 0;
    while (finished < begin + (uint64_t)steps && status == 0) {
        if (self->step < begin + (uint64_t)steps && self->step - finished < flight_max) {
            status = schedule(self);
            continue;
        }
        float loss = 0;
        status = finish(self, finished, &loss);
        if (losses) {
            losses[finished - begin] = loss;
        }
        finished++;
    }

    return status;
}

static int
cpu_seconds(void *context, double *seconds)
{
    const job_t *self = context;
    const pid_t tasks[] = {getpid(), self->ps, self->worker};
    int status = 0;

    *seconds = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(tasks) && status == 0; i++) {
        double part = 0;
        status = cadre_bench_cpu_seconds(tasks[i], &part);
        *seconds += part;
    }

    return status;
}

/* The counter `name` of the worker, by its last report. */
static double
worker_counter(job_t *self, const char *name)
{
    cadre_auto(cadre_free) char *text = NULL;
    double value = 0;

    if (cadre_coordinator_status_json(self->coordinator, &text) < 0) {
        return 0;
    }

    json_t *status = json_loads(text, 0, NULL);
    size_t index;
    json_t *task;
    json_array_foreach(json_object_get(status, "tasks"), index, task)
    {
        json_t *role = json_object_get(task, "role");
        if (json_is_string(role) && strcmp(json_string_value(role), "worker") == 0) {
            value = (double)json_integer_value(
                json_object_get(json_object_get(task, "counters"), name));
        }
    }

    json_decref(status);
    return value;
}

/* Waits until the worker has reported all that it did. */
static void
wait_for_report(job_t *self)
{
    double end = cadre_bench_now() + 2.0 * LEASE_MS / 1000;
    while (worker_counter(self, "finished") < (double)self->finished && cadre_bench_now() < end) {
        poll(NULL, 0, LOOK_MS);
    }
}

/* What the worker has pulled and pushed, and the batches, for each closure since the start:
 * messages' headers are not counted. */
static void
more(void *context)
{
    job_t *self = context;
    double batch = 0;
    for (int i = 0; i < self->model.argument_count; i++) {
        batch += (double)cadre_tensor_size_bytes(&self->batches[0][i]);
    }

    cadre_shard_totals_t totals = {.applied = 0};
    if (cadre_shard_totals(self->coordinator, 0, &totals, WAIT_MS) == 0) {
        printf(", \"staleness_max\": %llu", (unsigned long long)totals.staleness_max);
    }

    wait_for_report(self);
    double closures = worker_counter(self, "finished");
    if (closures > 0) {
        printf(", \"pull_bytes\": %.0f, \"push_bytes\": %.0f, \"batch_bytes\": %.0f",
               worker_counter(self, "pull_bytes") / closures,
               worker_counter(self, "push_bytes") / closures, batch);
        printf(", \"compute_seconds\": %.6f", worker_counter(self, "compute_us") / 1e6 / closures);
    }
}

int
main(int argc, char **argv)
{
    gpu_options_t options;
    job_t job = {.options = &options};
    int status = gpu_options_parse(argc, argv, &options);
    if (status == 0 && options.slots >= FLIGHT_MAX) {
        status = cadre_fail(CADRE_EINVALID, "at most %d slots", FLIGHT_MAX - 1);
    }

    if (status == 0) {
        status = open_job(&job);
        if (status == 0) {
            const gpu_runner_t runner = {.context = &job,
                                         .reset = reset,
                                         .train = train,
                                         .cpu_seconds = cpu_seconds,
                                         .more = more};
            status = gpu_runner_serve(&runner, options.device);
        }

        cadre_auto(cadre_free) char *text = cadre_strdup(cadre_error_text());
        close_job(&job);
        if (status < 0) {
            cadre_fail(status, "%s", text);
        }
    }

    if (status < 0) {
        fprintf(stderr, "%s: %s\n", argv[0], cadre_error_text());
    }

    return status < 0;
}
