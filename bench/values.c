/*
 * How fast values move between a worker and a real ps: pulls, and pushes that are checked, applied
 * by sgd and answered. Beside each size the same frames over a raw ZeroMQ pair with the same
 * window, and a memcpy of the same bytes. Sizes and rates are those of f32, also where a variable
 * travels as bf16 in half the bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/raw.h"
#include "bench/shard_client.h"
#include "common/base/limits.h"
#include "common/base/memory.h"

enum {
    WINDOW_MAX = 64,  /* requests, where they are small */
    HEADER_SIZE = 80, /* of PULL, PUSH, VALUES and APPLIED, about */
    REPETITIONS = 7,
    COUNT_MAX = 20000, /* requests of one run */
    COUNT_MIN = 4,
};

static const struct {
    const char *name;
    size_t size_bytes;
    double least_push_ratio;
    bool bf16;
} sizes[] = {
    {"4 KB", 4 << 10, 0, false},   {"64 KB", 64 << 10, 0, false},
    {"1 MB", 1 << 20, 0.5, false}, {"1 MB as bf16", 1 << 20, 0, true},
    {"16 MB", 16 << 20, 0, false}, {"16 MB as bf16", 16 << 20, 0, true},
    {"64 MB", 64 << 20, 0, false}, {"64 MB as bf16", 64 << 20, 0, true},
};

typedef struct {
    cadre_bench_shard_client_t *client;
    cadre_bench_raw_t *raw;
    uint64_t variable;
    size_t size_bytes;
    size_t wire_size_bytes;
    size_t count;
    size_t window;
    char *from; /* for memcpy */
    char *to;
} subject_t;

static double
gb_per_second(const subject_t *self, double seconds)
{
    return (double)self->count * (double)self->size_bytes / seconds * 1e-9;
}

static int
run_pull(void *context, double *value)
{
    const subject_t *self = context;
    double begin = cadre_bench_now();
    int status =
        cadre_bench_shard_client_pull(self->client, self->variable, self->count, self->window);
    *value = gb_per_second(self, cadre_bench_now() - begin);
    return status;
}

static int
run_push(void *context, double *value)
{
    const subject_t *self = context;
    double begin = cadre_bench_now();
    int status =
        cadre_bench_shard_client_push(self->client, self->variable, self->count, self->window);
    *value = gb_per_second(self, cadre_bench_now() - begin);
    return status;
}

static int
run_raw(const subject_t *self, bool push, double *value)
{
    size_t chunk_count = (self->size_bytes - 1) / CADRE_CHUNK_SIZE_MAX + 1;
    size_t chunk_size = self->wire_size_bytes / chunk_count;
    cadre_bench_exchange_t exchange = {.header_size = HEADER_SIZE,
                                       .reply_header_size = HEADER_SIZE};
    if (push) {
        exchange.chunk_size = chunk_size;
        exchange.chunk_count = chunk_count;
    } else {
        exchange.reply_chunk_size = chunk_size;
        exchange.reply_chunk_count = chunk_count;
    }

    double seconds = 0;
    int status = cadre_bench_raw_run(self->raw, &exchange, self->count, self->window, &seconds);

    *value = gb_per_second(self, seconds);
    return status;
}

static int
run_raw_pull(void *context, double *value)
{
    return run_raw(context, false, value);
}

static int
run_raw_push(void *context, double *value)
{
    return run_raw(context, true, value);
}

static int
run_memcpy(void *context, double *value)
{
    const subject_t *self = context;
    double begin = cadre_bench_now();
    for (size_t i = 0; i < self->count; i++) {
        memcpy(self->to, self->from, self->size_bytes);
        __asm__ volatile("" : : "r"(self->to) : "memory"); /* each copy counts */
    }
    *value = gb_per_second(self, cadre_bench_now() - begin);
    return 0;
}

static void
add_figures(cadre_bench_t *bench, size_t number, const cadre_bench_measure_t *measures)
{
    cadre_bench_figure_t figure = {.section = "values", .unit = "GB/s"};
    figure.value = measures[0].value;
    figure.ceiling_name = "raw ZeroMQ pair";
    figure.ceiling = measures[1].value;
    cadre_bench_report_add(&bench->report, &figure, "pull %s", sizes[number].name);
    figure.value = measures[2].value;
    figure.ceiling = measures[3].value;
    figure.least_ratio = sizes[number].least_push_ratio;
    cadre_bench_report_add(&bench->report, &figure, "push and apply %s", sizes[number].name);
    figure.least_ratio = 0;
    figure.ceiling_name = "memcpy";
    figure.ceiling = measures[4].value;
    cadre_bench_report_add(&bench->report, &figure, "push and apply %s, to memcpy",
                           sizes[number].name);
}

static size_t
clamp(size_t value, size_t least, size_t most)
{
    return value < least ? least : value > most ? most : value;
}

static int
measure(cadre_bench_t *bench, subject_t *subject, size_t number)
{
    size_t bytes = (size_t)cadre_bench_amount(bench, 512, 64) << 20;
    subject->variable = number + 1;
    subject->size_bytes = sizes[number].size_bytes;
    subject->wire_size_bytes = subject->size_bytes / (sizes[number].bf16 ? 2 : 1);
    subject->count = clamp(bytes / subject->size_bytes, COUNT_MIN, COUNT_MAX);
    subject->window =
        clamp((size_t)CADRE_IN_FLIGHT_SIZE_MAX / subject->wire_size_bytes, 1, WINDOW_MAX);
    cadre_bench_measure_t measures[] = {{run_pull, subject, 0},
                                        {run_raw_pull, subject, 0},
                                        {run_push, subject, 0},
                                        {run_raw_push, subject, 0},
                                        {run_memcpy, subject, 0}};
    int status =
        cadre_bench_shard_client_create(subject->client, subject->variable, subject->size_bytes,
                                        CADRE_OPTIMIZER_SGD, sizes[number].bf16);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                         cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    add_figures(bench, number, measures);
    return 0;
}

int
cadre_bench_values(cadre_bench_t *self)
{
    const size_t largest = sizes[CADRE_COUNT_OF(sizes) - 1].size_bytes;
    subject_t subject = {.from = cadre_calloc(largest, 1), .to = cadre_calloc(largest, 1)};

    memset(subject.from, 1, largest);
    int status = cadre_bench_raw_open(self, false, &subject.raw);
    if (status == 0) {
        status = cadre_bench_shard_client_open(self, 0, false, &subject.client);
    }

    for (size_t i = 0; i < CADRE_COUNT_OF(sizes) && status == 0; i++) {
        status = measure(self, &subject, i);
    }

    cadre_bench_shard_client_close(&subject.client);
    cadre_bench_raw_close(&subject.raw);
    free(subject.from);
    free(subject.to);
    return status;
}
