/*
 * Examples per second of the shipped network, trained by 1 and 2 workers through a ps, beside the
 * same program, data and optimizer in one process without either.
 */
#include <cadre/coordinator.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/cluster.h"
#include "bench/measure.h"
#include "bench/mlp.h"
#include "common/base/memory.h"

enum {
    EPOCHS_FULL = 40,
    EPOCHS_QUICK = 10,
    REPETITIONS = 5,
    WORKERS_MAX = 2,
};

typedef struct {
    cadre_bench_cluster_t cluster;
    cadre_function_t *step;
    cadre_dataset_t *data;
    uint64_t epoch;
    cadre_bench_mlp_t *alone;
    int epochs;
    double cpu_us[2];   /* per example in the last run: of all tasks; alone */
    const char *digits; /* absolute: workers have folders of their own */
} subject_t;

static int
run_alone(void *context, double *value)
{
    subject_t *self = context;
    int64_t examples = 0;
    double begin = cadre_bench_now();
    int status = cadre_bench_mlp_train(self->alone, self->epochs, &examples);
    double seconds = cadre_bench_now() - begin;
    *value = (double)examples / seconds;
    self->cpu_us[1] = 1e6 * seconds / (double)examples; /* one thread that never waits */
    return status;
}

static int
run_cluster(void *context, double *value)
{
    subject_t *self = context;
    int64_t examples = 0;
    double cpu_before = 0;
    double cpu_after = 0;
    int status = cadre_bench_cluster_cpu_seconds(&self->cluster, &cpu_before);
    if (status < 0) {
        return status;
    }

    double begin = cadre_bench_now();
    status = cadre_bench_mlp_schedule(&cadre_bench_digits, self->data, self->step, &self->epoch,
                                      self->epochs, &examples);
    if (status < 0) {
        return status;
    }

    *value = (double)examples / (cadre_bench_now() - begin);

    status = cadre_bench_cluster_cpu_seconds(&self->cluster, &cpu_after);
    if (status < 0) {
        return status;
    }

    self->cpu_us[0] = 1e6 * (cpu_after - cpu_before) / (double)examples;
    return 0;
}

/* Variables, program and data in the cluster. */
static int
define(subject_t *self)
{
    cadre_coordinator_t *coordinator = self->cluster.coordinator;
    cadre_auto(cadre_free) char *data = cadre_bench_mlp_csv(self->digits);
    int status = cadre_bench_mlp_create(&cadre_bench_digits, false, coordinator);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    status = cadre_bench_mlp_program(&cadre_bench_digits, &program);
    if (status < 0) {
        return status;
    }

    status = cadre_function_register(coordinator, &program, &self->step);
    if (status < 0) {
        return status;
    }

    return cadre_dataset_open(coordinator, "digits", data, CADRE_BENCH_WAIT_MS, &self->data);
}

static void
add_figures(cadre_bench_t *bench, int workers, const cadre_bench_measure_t *measures,
            const double cpu_us[2])
{
    cadre_bench_figure_t figure = {.section = "training",
                                   .unit = "examples/s",
                                   .value = measures[0].value,
                                   .ceiling_name = "one process, no ps",
                                   .ceiling = measures[1].value};
    cadre_bench_report_add(&bench->report, &figure, "%s, workers %d", cadre_bench_digits.name,
                           workers);
    figure.unit = "us";
    figure.value = cpu_us[0];
    figure.ceiling = cpu_us[1];
    cadre_bench_report_add(&bench->report, &figure, "CPU of all tasks per example, workers %d",
                           workers);
}

static int
measure(cadre_bench_t *bench, subject_t *subject, int workers)
{
    cadre_bench_measure_t measures[] = {{run_cluster, subject, 0}, {run_alone, subject, 0}};
    int status = define(subject);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                         cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    add_figures(bench, workers, measures, subject->cpu_us);
    return 0;
}

/* Measures on a cluster that lives for these measurements only. */
static int
measure_cluster(cadre_bench_t *bench, subject_t *subject, int workers)
{
    int status = cadre_bench_cluster_open(bench, workers, &subject->cluster);
    if (status == 0) {
        status = measure(bench, subject, workers);
    }
    cadre_bench_cluster_close(&subject->cluster);
    return status;
}

int
cadre_bench_training(cadre_bench_t *self)
{
    subject_t subject = {.epochs = cadre_bench_amount(self, EPOCHS_FULL, EPOCHS_QUICK)};
    cadre_auto(cadre_free) char *digits = realpath(self->digits, NULL);
    subject.digits = digits ? digits : self->digits;
    cadre_auto(cadre_free) char *data = cadre_bench_mlp_csv(subject.digits);
    int status = cadre_bench_mlp_open(&cadre_bench_digits, data, 1, &subject.alone);
    for (int workers = 1; workers <= WORKERS_MAX && status == 0; workers++) {
        status = measure_cluster(self, &subject, workers);
    }
    cadre_bench_mlp_close(&subject.alone);
    return status;
}
