/*
 * Examples per second of plain loops that train the networks of the section local in several
 * threads of this process at once, each by itself: no values or gradients are exchanged. That is
 * the most that any way to train by so many workers can reach on this machine, and what
 * beside_tensorflow.py holds the rates of both sides against.
 *
 * Each loop has a device of one thread. Beside them stands one loop alone, times their number:
 * what is missing there is what the machine's processors take from each other.
 */
#include <pthread.h>
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
    EPOCHS_WIDE = 4,
    REPETITIONS = 5,
};

/* A loop, and the thread that runs it. */
typedef struct {
    cadre_bench_mlp_t *mlp;
    pthread_t thread;
    int epochs;
    int status;
    int64_t examples;
} loop_t;

typedef struct {
    loop_t *loops;
    int count;
    double cpu_us; /* of an example, of all loops in the last run */
} subject_t;

static void *
train(void *context)
{
    loop_t *self = context;
    self->status = cadre_bench_mlp_train(self->mlp, self->epochs, &self->examples);
    return NULL;
}

/* Trains all loops at once; the rate is that from the start to the end of the last. */
static int
run_all(void *context, double *value)
{
    subject_t *self = context;
    double cpu_before = 0;
    double cpu_after = 0;
    int status = cadre_bench_cpu_seconds(getpid(), &cpu_before);
    int64_t examples = 0;

    double begin = cadre_bench_now();
    int started = 1; /* the first loop is this thread's */
    while (started < self->count &&
           pthread_create(&self->loops[started].thread, NULL, train, &self->loops[started]) == 0) {
        started++;
    }
    train(&self->loops[0]);
    for (int i = 0; i < started; i++) {
        if (i > 0) {
            pthread_join(self->loops[i].thread, NULL);
        }
        status = status < 0 ? status : self->loops[i].status;
        examples += self->loops[i].examples;
    }
    *value = (double)examples / (cadre_bench_now() - begin);

    status = status < 0 ? status : cadre_bench_cpu_seconds(getpid(), &cpu_after);
    self->cpu_us = 1e6 * (cpu_after - cpu_before) / (double)examples;
    return started == self->count ? status : cadre_fail(CADRE_EIO, "a thread cannot be started");
}

/* Trains one loop alone; the rate is as many times its own as there are loops. */
static int
run_one(void *context, double *value)
{
    subject_t *self = context;
    double begin = cadre_bench_now();
    train(&self->loops[0]);
    *value = self->count * (double)self->loops[0].examples / (cadre_bench_now() - begin);
    return self->loops[0].status;
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
    subject_t self = {.count = bench->threads};
    self.loops = cadre_calloc((size_t)self.count, sizeof(*self.loops));
    int status = 0;
    for (int i = 0; i < self.count && status == 0; i++) {
        self.loops[i].epochs = epochs;
        status = cadre_bench_mlp_open(network, description, 1, &self.loops[i].mlp);
    }
    if (status == 0) {
        status = measure(bench, network, &self);
    }

    for (int i = 0; i < self.count; i++) {
        cadre_bench_mlp_close(&self.loops[i].mlp);
    }
    free(self.loops);
    return status;
}

int
cadre_bench_loops(cadre_bench_t *self)
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
