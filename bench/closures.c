/*
 * What a closure costs that does nothing: closures per second when many are scheduled, and the time
 * from schedule to the end of the future with one in flight. The ceilings are 64-byte messages over
 * a raw ZeroMQ pair on the same transport: a closure is at least one message there and one back.
 */
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/cluster.h"
#include "bench/measure.h"
#include "bench/raw.h"
#include "common/base/memory.h"

enum {
    CLOSURES_FULL = 100000,
    CLOSURES_QUICK = 20000,
    LATENCIES_FULL = 2000,
    LATENCIES_QUICK = 300,
    REPETITIONS = 5,
    WINDOW = 256,
    TARGET = 50000, /* closures per second to 2 workers on two cores */
};

typedef struct {
    cadre_bench_cluster_t cluster;
    cadre_function_t *noop;
    cadre_bench_raw_t *raw;
    int closures;
    int latencies;
    double *times; /* [latencies] */
    double p99[2]; /* of the last run: closure, raw */
    double cpu_us; /* of all tasks per closure, in the last run */
} subject_t;

static const cadre_bench_exchange_t round_trip = {.header_size = CADRE_BENCH_MESSAGE_SIZE,
                                                  .reply_header_size = CADRE_BENCH_MESSAGE_SIZE};
static const cadre_bench_exchange_t one_way = {.header_size = CADRE_BENCH_MESSAGE_SIZE};

/* --- rates --- */

static int
run_closures(void *context, double *value)
{
    subject_t *self = context;
    double seconds = 0;
    double cpu_before = 0;
    double cpu_after = 0;
    int status = cadre_bench_cluster_cpu_seconds(&self->cluster, &cpu_before);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_cluster_run(&self->cluster, self->noop, self->closures, &seconds);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_cluster_cpu_seconds(&self->cluster, &cpu_after);
    if (status < 0) {
        return status;
    }

    *value = self->closures / seconds;
    self->cpu_us = 1e6 * (cpu_after - cpu_before) / self->closures;
    return 0;
}

static int
run_raw(const subject_t *self, const cadre_bench_exchange_t *exchange, double *value)
{
    double seconds = 0;
    int status = cadre_bench_raw_run(self->raw, exchange, (size_t)self->closures, WINDOW, &seconds);
    *value = self->closures / seconds;
    return status;
}

static int
run_round_trips(void *context, double *value)
{
    return run_raw(context, &round_trip, value);
}

static int
run_one_way(void *context, double *value)
{
    return run_raw(context, &one_way, value);
}

/* --- latencies: the value is the median, in microseconds --- */

static void
summarise(subject_t *self, double *value, double *p99)
{
    *value = 1e6 * cadre_bench_quantile(self->times, (size_t)self->latencies, 0.5);
    *p99 = 1e6 * cadre_bench_quantile(self->times, (size_t)self->latencies, 0.99);
}

static int
run_closure_latency(void *context, double *value)
{
    subject_t *self = context;
    int status = 0;
    for (int i = 0; i < self->latencies && status == 0; i++) {
        cadre_future_t *future = NULL;
        double begin = cadre_bench_now();
        status = cadre_coordinator_schedule(self->cluster.coordinator, self->noop, NULL,
                                            CADRE_BENCH_WAIT_MS, &future);
        if (status == 0) {
            status = cadre_future_wait(future, CADRE_BENCH_WAIT_MS);
        }
        self->times[i] = cadre_bench_now() - begin;
        cadre_future_destroy(&future);
    }

    summarise(self, value, &self->p99[0]);
    return status;
}

static int
run_raw_latency(void *context, double *value)
{
    subject_t *self = context;
    int status = 0;
    for (int i = 0; i < self->latencies && status == 0; i++) {
        status = cadre_bench_raw_run(self->raw, &round_trip, 1, 1, &self->times[i]);
    }
    summarise(self, value, &self->p99[1]);
    return status;
}

/* --- the section --- */

static void
add_rates(cadre_bench_t *bench, int workers, const cadre_bench_measure_t *measures, double cpu_us)
{
    cadre_bench_figure_t figure = {.section = "closures",
                                   .unit = "/s",
                                   .value = measures[0].value,
                                   .ceiling_name = "raw round trips, 64 bytes, 256 in flight",
                                   .ceiling = measures[1].value,
                                   .least_value = workers == 2 ? TARGET : 0};
    cadre_bench_report_add(&bench->report, &figure, "no-op closures, workers %d", workers);
    figure = (cadre_bench_figure_t){.section = "closures",
                                    .unit = "/s",
                                    .value = measures[1].value,
                                    .ceiling_name = "raw messages one way, 64 bytes",
                                    .ceiling = measures[2].value};
    cadre_bench_report_add(&bench->report, &figure, "raw round trips beside workers %d", workers);
    figure = (cadre_bench_figure_t){.section = "closures", .unit = "us", .value = cpu_us};
    cadre_bench_report_add(&bench->report, &figure, "CPU of all tasks per closure, workers %d",
                           workers);
}

static void
add_latencies(cadre_bench_t *bench, int workers, const cadre_bench_measure_t *measures,
              const double p99[2])
{
    cadre_bench_figure_t figure = {.section = "closures",
                                   .unit = "us",
                                   .value = measures[0].value,
                                   .ceiling_name = "a raw round trip, 64 bytes",
                                   .ceiling = measures[1].value};
    cadre_bench_report_add(&bench->report, &figure, "closure latency p50, workers %d", workers);
    figure.value = p99[0];
    figure.ceiling = p99[1];
    cadre_bench_report_add(&bench->report, &figure, "closure latency p99, workers %d", workers);
}

static int
measure(cadre_bench_t *bench, subject_t *subject, int workers)
{
    cadre_bench_measure_t rates[] = {
        {run_closures, subject, 0}, {run_round_trips, subject, 0}, {run_one_way, subject, 0}};
    cadre_bench_measure_t latencies[] = {{run_closure_latency, subject, 0},
                                         {run_raw_latency, subject, 0}};
    int repetitions = cadre_bench_amount(bench, REPETITIONS, 3);
    int status = cadre_function_native(subject->cluster.coordinator, "noop", &subject->noop);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_measure_in_turn(rates, CADRE_COUNT_OF(rates), repetitions);
    if (status < 0) {
        return status;
    }

    add_rates(bench, workers, rates, subject->cpu_us);

    status = cadre_bench_measure_in_turn(latencies, CADRE_COUNT_OF(latencies), repetitions);
    if (status < 0) {
        return status;
    }

    add_latencies(bench, workers, latencies, subject->p99);
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
cadre_bench_closures(cadre_bench_t *self)
{
    subject_t subject = {
        .closures = cadre_bench_amount(self, CLOSURES_FULL, CLOSURES_QUICK),
        .latencies = cadre_bench_amount(self, LATENCIES_FULL, LATENCIES_QUICK),
    };
    subject.times = cadre_calloc((size_t)subject.latencies, sizeof(double));
    int status = cadre_bench_raw_open(self, false, &subject.raw);
    for (int workers = 1; workers <= CADRE_BENCH_WORKERS_MAX && status == 0; workers *= 2) {
        status = measure_cluster(self, &subject, workers);
    }

    cadre_bench_raw_close(&subject.raw);
    free(subject.times);
    return status;
}
