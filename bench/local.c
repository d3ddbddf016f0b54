/*
 * Examples per second of networks that are trained in one process: as a job with a ps and a worker
 * in it (options.local), beside plain loops over the device, which have no ps. The job trains with
 * one step a closure, which computes what a loop does, and with STEPS local steps a closure, where
 * each closure takes its steps by itself and pushes how far they led.
 *
 * Two programs without a ps stand beside it. One is a loop that applies the optimizer in place: one
 * thread, where the job has several slots. The other has as many loops at once as the job has
 * slots, each on a thread of its own, and like compares with like: they train one set of weights,
 * asynchronously as the job does. Each takes every other batch of an epoch, computes the gradient
 * of the newest weights, and applies it under a mutex into a set of weights that none of them reads
 * (bench/weights.h). So nobody copies weights, none change while a batch is computed, no gradient
 * is lost, and a loop waits only while another applies. Every loop's device has as many threads as
 * a slot's.
 *
 * The CPU time of an example stands beside the rates: neighbours on shared cores slow one thread
 * more than many.
 */
#include <cadre/coordinator.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/mlp.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    REPETITIONS = 5,
    STEPS = 16, /* of a closure, where it has local steps */
};

static const double share = 0.9; /* of the rate without a ps is the least we want */

/* What is measured, in turn. */
enum { SINGLE, ALONE, LOCAL, TEAM, WAYS };

typedef struct {
    const cadre_bench_network_t *network;
    cadre_bench_mlp_t *alone;
    cadre_bench_mlp_t *team[CADRE_LOCAL_SLOTS];
    cadre_bench_job_t single; /* one step a closure */
    cadre_bench_job_t local;  /* STEPS local steps a closure */
    int epochs;
    double cpu_us[WAYS]; /* of an example in the last run */
} subject_t;

static int
train_alone(subject_t *self, int64_t *examples)
{
    return cadre_bench_mlp_train(self->alone, self->epochs, examples);
}

static int
train_single(subject_t *self, int64_t *examples)
{
    cadre_bench_job_t *job = &self->single;
    return cadre_bench_mlp_schedule(self->network, job->data, job->function, &job->epoch,
                                    self->epochs, examples);
}

static int
train_local(subject_t *self, int64_t *examples)
{
    return cadre_bench_mlp_schedule_local(self->network, &self->local, self->epochs, examples);
}

static int
train_team(subject_t *self, int64_t *examples)
{
    return cadre_bench_mlp_train_all(self->team, CADRE_LOCAL_SLOTS, self->epochs, examples);
}

/* Trains once, and takes the rate and the CPU time of an example. */
static int
run(subject_t *self, int (*train)(subject_t *, int64_t *), double *rate, double *cpu_us)
{
    int64_t examples = 0;
    double cpu_before = 0;
    double cpu_after = 0;
    int status = cadre_bench_cpu_seconds(getpid(), &cpu_before);
    if (status < 0) {
        return status;
    }

    double begin = cadre_bench_now();
    status = train(self, &examples);
    if (status < 0) {
        return status;
    }

    *rate = (double)examples / (cadre_bench_now() - begin);
    status = cadre_bench_cpu_seconds(getpid(), &cpu_after);
    *cpu_us = 1e6 * (cpu_after - cpu_before) / (double)examples;
    return status;
}

static int
run_single(void *context, double *value)
{
    subject_t *self = context;
    return run(self, train_single, value, &self->cpu_us[SINGLE]);
}

static int
run_alone(void *context, double *value)
{
    subject_t *self = context;
    return run(self, train_alone, value, &self->cpu_us[ALONE]);
}

static int
run_local(void *context, double *value)
{
    subject_t *self = context;
    return run(self, train_local, value, &self->cpu_us[LOCAL]);
}

static int
run_team(void *context, double *value)
{
    subject_t *self = context;
    return run(self, train_team, value, &self->cpu_us[TEAM]);
}

/* Opens a job of so many steps a closure, with variables, program and data. */
static int
open_job(const subject_t *self, const char *description, int steps, cadre_bench_job_t *job)
{
    job->steps = steps;
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.local = true;
    options.seed = 1;
    int status = cadre_coordinator_open(&options, &job->coordinator);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_mlp_create(self->network, steps > 1, job->coordinator);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    status = steps > 1 ? cadre_bench_mlp_local_program(self->network, steps, &program)
                       : cadre_bench_mlp_program(self->network, &program);
    if (status < 0) {
        return status;
    }

    status = cadre_function_register(job->coordinator, &program, &job->function);
    if (status < 0) {
        return status;
    }

    return cadre_dataset_open(job->coordinator, "rows", description, CADRE_BENCH_WAIT_MS,
                              &job->data);
}

/* Adds a job's rate beside that of a program without a ps, and below it the CPU time of an example
 * beside the program's. `job` and `without` are of those measured. */
static void
add_figures(cadre_bench_t *bench, const subject_t *self, const cadre_bench_measure_t *measures,
            int job, int without)
{
    char what[32];
    snprintf(what, sizeof(what), job == LOCAL ? "%d local steps" : "batch %d",
             job == LOCAL ? STEPS : (int)self->network->batch);
    cadre_bench_figure_t figure = {.section = "local",
                                   .unit = "examples/s",
                                   .value = measures[job].value,
                                   .ceiling_name =
                                       without == TEAM ? "a loop for each slot" : "a plain loop",
                                   .ceiling = measures[without].value,
                                   .least_ratio = share};
    cadre_bench_report_add(&bench->report, &figure, "%s, %s", self->network->name, what);
    figure.unit = "us";
    figure.value = self->cpu_us[job];
    figure.ceiling = self->cpu_us[without];
    figure.least_ratio = 0;
    cadre_bench_report_add(&bench->report, &figure, "CPU, %s, %s", self->network->name, what);
}

static int
measure(cadre_bench_t *bench, subject_t *self)
{
    cadre_bench_measure_t measures[WAYS] = {[SINGLE] = {run_single, self, 0},
                                            [ALONE] = {run_alone, self, 0},
                                            [LOCAL] = {run_local, self, 0},
                                            [TEAM] = {run_team, self, 0}};
    int status =
        cadre_bench_measure_in_turn(measures, WAYS, cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    add_figures(bench, self, measures, SINGLE, ALONE);
    add_figures(bench, self, measures, SINGLE, TEAM);
    add_figures(bench, self, measures, LOCAL, ALONE);
    add_figures(bench, self, measures, LOCAL, TEAM);
    return 0;
}

static int
measure_network(cadre_bench_t *bench, const cadre_bench_network_t *network, int epochs,
                const char *description)
{
    subject_t self = {.network = network, .epochs = epochs};
    const int threads = bench->threads > CADRE_LOCAL_SLOTS ? bench->threads / CADRE_LOCAL_SLOTS : 1;
    int status = cadre_bench_mlp_open(network, description, threads, &self.alone);
    if (status == 0) {
        status =
            cadre_bench_mlp_open_team(network, description, threads, CADRE_LOCAL_SLOTS, self.team);
    }
    if (status == 0) {
        status = open_job(&self, description, 1, &self.single);
    }
    if (status == 0) {
        status = open_job(&self, description, STEPS, &self.local);
    }
    if (status == 0) {
        status = measure(bench, &self);
    }
    cadre_coordinator_close(&self.single.coordinator);
    cadre_coordinator_close(&self.local.coordinator);
    for (int i = 0; i < CADRE_LOCAL_SLOTS; i++) {
        cadre_bench_mlp_close(&self.team[i]);
    }
    cadre_bench_mlp_close(&self.alone);
    return status;
}

int
cadre_bench_local(cadre_bench_t *self)
{
    const cadre_bench_epochs_t epochs = {.digits = 200, .wide = 8};
    return cadre_bench_mlp_each(self, &epochs, measure_network);
}
