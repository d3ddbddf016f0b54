/*
 * Examples per second of networks that are trained in one process: as a job with a ps and a worker
 * in it (options.local), beside a plain loop over the device with the optimizer applied in place.
 *
 * The CPU time of an example stands beside the rates: neighbours on shared cores slow the one
 * thread of the loop more than the many of the job.
 */
#include <cadre/coordinator.h>
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
};

static const double share = 0.9; /* of the plain loop's rate is the least we want */

typedef struct {
    const cadre_bench_network_t *network;
    cadre_bench_mlp_t *alone;
    cadre_coordinator_t *coordinator;
    cadre_function_t *step;
    cadre_dataset_t *data;
    uint64_t epoch;
    int epochs;
    double cpu_us[2]; /* of an example in the last run: as a job; in the loop */
} subject_t;

static int
train_alone(subject_t *self, int64_t *examples)
{
    return cadre_bench_mlp_train(self->alone, self->epochs, examples);
}

static int
train_local(subject_t *self, int64_t *examples)
{
    return cadre_bench_mlp_schedule(self->network, self->data, self->step, &self->epoch,
                                    self->epochs, examples);
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
run_local(void *context, double *value)
{
    subject_t *self = context;
    return run(self, train_local, value, &self->cpu_us[0]);
}

static int
run_alone(void *context, double *value)
{
    subject_t *self = context;
    return run(self, train_alone, value, &self->cpu_us[1]);
}

/* Opens the job, with variables, program and data. */
static int
open_job(subject_t *self, const char *description)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.local = true;
    options.seed = 1;
    int status = cadre_coordinator_open(&options, &self->coordinator);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_mlp_create(self->network, self->coordinator);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    status = cadre_bench_mlp_program(self->network, &program);
    if (status < 0) {
        return status;
    }

    status = cadre_function_register(self->coordinator, &program, &self->step);
    if (status < 0) {
        return status;
    }

    return cadre_dataset_open(self->coordinator, "rows", description, CADRE_BENCH_WAIT_MS,
                              &self->data);
}

static int
measure(cadre_bench_t *bench, subject_t *self)
{
    cadre_bench_measure_t measures[] = {{run_local, self, 0}, {run_alone, self, 0}};
    int status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                             cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    cadre_bench_figure_t figure = {.section = "local",
                                   .unit = "examples/s",
                                   .value = measures[0].value,
                                   .ceiling_name = "a plain loop",
                                   .ceiling = measures[1].value,
                                   .least_ratio = share};
    cadre_bench_report_add(&bench->report, &figure, "%s, batch %d", self->network->name,
                           (int)self->network->batch);
    figure.unit = "us";
    figure.value = self->cpu_us[0];
    figure.ceiling = self->cpu_us[1];
    figure.least_ratio = 0;
    cadre_bench_report_add(&bench->report, &figure, "CPU per example, %s", self->network->name);
    return 0;
}

static int
measure_network(cadre_bench_t *bench, const cadre_bench_network_t *network, int epochs,
                const char *description)
{
    subject_t self = {.network = network, .epochs = epochs};
    int status = cadre_bench_mlp_open(network, description, bench->threads, &self.alone);
    if (status == 0) {
        status = open_job(&self, description);
    }
    if (status == 0) {
        status = measure(bench, &self);
    }
    cadre_coordinator_close(&self.coordinator);
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
