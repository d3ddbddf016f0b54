/*
 * Examples per second of plain loops that train the networks of the section local in several
 * threads of this process at once, each by itself: no values or gradients are exchanged. That is
 * the most that any way to train by so many workers can reach on this machine, and what
 * beside_tensorflow.py holds the rates of both sides against.
 *
 * Each loop has a device of one thread. Beside them stands one loop alone, times their number:
 * what is missing there is what the machine's processors take from each other.
 */
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/mlp.h"
#include "common/base/memory.h"

enum { REPETITIONS = 5 };

typedef struct {
    cadre_bench_mlp_t **loops;
    int count;
    int epochs;
    double cpu_us; /* of an example, of all loops in the last run */
} subject_t;

/* Trains all loops at once; the rate is that from the start to the end of the last. */
static int
run_all(void *context, double *value)
{
    subject_t *self = context;
    double cpu_before = 0;
    double cpu_after = 0;
    int status = cadre_bench_cpu_seconds(getpid(), &cpu_before);
    if (status < 0) {
        return status;
    }

    int64_t examples = 0;
    double begin = cadre_bench_now();
    status = cadre_bench_mlp_train_all(self->loops, self->count, self->epochs, &examples);
    if (status < 0) {
        return status;
    }

    *value = (double)examples / (cadre_bench_now() - begin);
    status = cadre_bench_cpu_seconds(getpid(), &cpu_after);
    self->cpu_us = 1e6 * (cpu_after - cpu_before) / (double)examples;
    return status;
}

/* Trains one loop alone; the rate is as many times its own as there are loops. */
static int
run_one(void *context, double *value)
{
    subject_t *self = context;
    int64_t examples = 0;
    double begin = cadre_bench_now();
    int status = cadre_bench_mlp_train(self->loops[0], self->epochs, &examples);
    *value = self->count * (double)examples / (cadre_bench_now() - begin);
    return status;
}

static int
measure(cadre_bench_t *bench, const cadre_bench_network_t *network, subject_t *self)
{
    cadre_bench_measure_t measures[] = {{run_all, self, 0}, {run_one, self, 0}};
    int status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                             cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    cadre_bench_figure_t figure = {.section = "loops",
                                   .unit = "examples/s",
                                   .value = measures[0].value,
                                   .ceiling_name = "one alone, times loops",
                                   .ceiling = measures[1].value};
    cadre_bench_report_add(&bench->report, &figure, "%s, loops %d", network->name, self->count);
    figure = (cadre_bench_figure_t){.section = "loops", .unit = "us", .value = self->cpu_us};
    cadre_bench_report_add(&bench->report, &figure, "CPU per example, %s", network->name);
    return 0;
}

static int
measure_network(cadre_bench_t *bench, const cadre_bench_network_t *network, int epochs,
                const char *description)
{
    subject_t self = {.count = bench->threads, .epochs = epochs};
    self.loops = cadre_calloc((size_t)self.count, sizeof(cadre_bench_mlp_t *));
    int status = 0;
    for (int i = 0; i < self.count && status == 0; i++) {
        status = cadre_bench_mlp_open(network, description, 1, &self.loops[i]);
    }
    if (status == 0) {
        status = measure(bench, network, &self);
    }

    for (int i = 0; i < self.count; i++) {
        cadre_bench_mlp_close(&self.loops[i]);
    }
    free(self.loops);
    return status;
}

int
cadre_bench_loops(cadre_bench_t *self)
{
    const cadre_bench_epochs_t epochs = {.digits = 200, .wide = 4};
    return cadre_bench_mlp_each(self, &epochs, measure_network);
}
