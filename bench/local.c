/*
 * Examples per second of networks that are trained in one process: as a job with a ps and a worker
 * in it (options.local), beside a plain loop over the device with the optimizer applied in place.
 * The job trains with one step a closure, which computes what the loop does, and with STEPS local
 * steps a closure, where each closure takes its steps by itself and pushes how far they led.
 *
 * The CPU time of an example stands beside the rates: neighbours on shared cores slow the one
 * thread of the loop more than the many of the job.
 */
#include <cadre/coordinator.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/mlp.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    ROWS_WIDE = 4096,
    EPOCHS_DIGITS = 200,
    EPOCHS_WIDE = 8,
    REPETITIONS = 5,
    STEPS = 16, /* of a closure, where it has local steps */
};

static const double share = 0.9; /* of the plain loop's rate is the least we want */

typedef struct {
    const cadre_bench_network_t *network;
    cadre_bench_mlp_t *alone;
    cadre_bench_job_t single; /* one step a closure */
    cadre_bench_job_t local;  /* STEPS local steps a closure */
    int epochs;
    double cpu_us[3]; /* of an example in the last run: single, alone, local */
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
    return run(self, train_single, value, &self->cpu_us[0]);
}

static int
run_alone(void *context, double *value)
{
    subject_t *self = context;
    return run(self, train_alone, value, &self->cpu_us[1]);
}

static int
run_local(void *context, double *value)
{
    subject_t *self = context;
    return run(self, train_local, value, &self->cpu_us[2]);
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

/* Adds a rate beside the loop's, and below it the CPU time of an example beside the loop's. */
static void
add_figures(cadre_bench_t *bench, const cadre_bench_network_t *network, const char *steps,
            const double rates[2], const double cpu_us[2])
{
    cadre_bench_figure_t figure = {.section = "local",
                                   .unit = "examples/s",
                                   .value = rates[0],
                                   .ceiling_name = "a plain loop",
                                   .ceiling = rates[1],
                                   .least_ratio = share};
    cadre_bench_report_add(&bench->report, &figure, "%s, batch %d%s", network->name,
                           (int)network->batch, steps);
    figure.unit = "us";
    figure.value = cpu_us[0];
    figure.ceiling = cpu_us[1];
    figure.least_ratio = 0;
    cadre_bench_report_add(&bench->report, &figure, "CPU per example, %s%s", network->name, steps);
}

static int
measure(cadre_bench_t *bench, subject_t *self)
{
    cadre_bench_measure_t measures[] = {
        {run_single, self, 0}, {run_alone, self, 0}, {run_local, self, 0}};
    int status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                             cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    const double loop = measures[1].value;
    const double loop_us = self->cpu_us[1];
    char steps[32];
    snprintf(steps, sizeof(steps), ", %d local steps", STEPS);
    add_figures(bench, self->network, "", (const double[]){measures[0].value, loop},
                (const double[]){self->cpu_us[0], loop_us});
    add_figures(bench, self->network, steps, (const double[]){measures[2].value, loop},
                (const double[]){self->cpu_us[2], loop_us});
    return 0;
}

static int
measure_network(cadre_bench_t *bench, const cadre_bench_network_t *network, int epochs,
                const char *description)
{
    subject_t self = {.network = network, .epochs = epochs};
    int status = cadre_bench_mlp_open(network, description, bench->threads, &self.alone);
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
    cadre_bench_mlp_close(&self.alone);
    return status;
}

int
cadre_bench_local(cadre_bench_t *self)
{
    cadre_auto(cadre_free) char *digits = cadre_bench_mlp_csv(self->digits);
    int status =
        measure_network(self, &cadre_bench_digits,
                        cadre_bench_amount(self, EPOCHS_DIGITS, EPOCHS_DIGITS / 10), digits);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_free) char *wide = NULL;
    status = cadre_bench_mlp_write_rows(self->socket_directory, ROWS_WIDE, &wide);
    if (status == 0) {
        status = measure_network(self, &cadre_bench_wide, cadre_bench_amount(self, EPOCHS_WIDE, 1),
                                 wide);
    }
    cadre_bench_mlp_remove_rows(self->socket_directory);
    return status;
}
