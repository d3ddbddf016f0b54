/*
 * Random rows of one table on a real ps: pulled, and pushed, checked and applied by sgd. Beside
 * them as many rows of an array, which are found without a search and go nowhere, and the same
 * bytes over a raw ZeroMQ pair.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/raw.h"
#include "bench/shard_client.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/random.h"

enum {
    DIM = 64,
    ROW_SIZE = DIM * (int)sizeof(float),
    TABLE_ROWS = 1000000,
    ROWS = 100000,    /* of a run */
    MADE = 50000,     /* rows of an update that makes them */
    UPDATES = 4,      /* of a run that pushes */
    PULLS = 4,        /* of all rows, in a run that pulls */
    WINDOW = 4,       /* requests */
    HEADER_SIZE = 96, /* of PULL, PUSH, VALUES and APPLIED, about */
    VARIABLE = 1,
    REPETITIONS = 7,
};

typedef struct {
    cadre_bench_shard_client_t *client;
    cadre_bench_raw_t *raw;
    uint64_t *pulled; /* [ROWS], in any order */
    uint64_t *pushed; /* [ROWS], ascending */
    float *array;     /* [TABLE_ROWS, DIM] */
    float *rows;      /* [ROWS, DIM] */
} subject_t;

static void
subject_fini(subject_t *self)
{
    cadre_bench_shard_client_close(&self->client);
    cadre_bench_raw_close(&self->raw);
    free(self->pulled);
    free(self->pushed);
    free(self->array);
    free(self->rows);
}

/* Draws keys out of all: one of each of ROWS equal parts, so that they ascend; and a shuffle of
 * them. */
static void
draw_keys(subject_t *self)
{
    cadre_random_t random;
    cadre_random_init(&random, 1, 1);
    for (size_t i = 0; i < ROWS; i++) {
        self->pushed[i] = i * (TABLE_ROWS / ROWS) + cadre_random_below(&random, TABLE_ROWS / ROWS);
        self->pulled[i] = self->pushed[i];
    }
    for (size_t i = ROWS; i-- > 1;) {
        const size_t other = cadre_random_below(&random, i + 1);
        const uint64_t key = self->pulled[i];
        self->pulled[i] = self->pulled[other];
        self->pulled[other] = key;
    }
}

/* Makes all rows of the table, with keys from 0 on in an order that is not theirs. */
static int
make_rows(subject_t *self)
{
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(MADE, sizeof(*keys));
    int status = cadre_bench_shard_client_create_table(self->client, VARIABLE, DIM);
    for (uint64_t first = 0; first < TABLE_ROWS / MADE && status == 0; first++) {
        for (uint64_t i = 0; i < MADE; i++) {
            keys[i] = i * (TABLE_ROWS / MADE) + first;
        }
        const cadre_bench_rows_t rows = {VARIABLE, DIM, MADE, keys};
        status = cadre_bench_shard_client_push_rows(self->client, &rows, 1, 1);
    }
    return status;
}

static int
subject_init(cadre_bench_t *bench, subject_t *self)
{
    *self = (subject_t){.pulled = cadre_calloc(ROWS, sizeof(uint64_t)),
                        .pushed = cadre_calloc(ROWS, sizeof(uint64_t)),
                        .array = cadre_calloc((size_t)TABLE_ROWS * DIM, sizeof(float)),
                        .rows = cadre_calloc((size_t)ROWS * DIM, sizeof(float))};
    memset(self->array, 0, (size_t)TABLE_ROWS * ROW_SIZE);
    memset(self->rows, 0, (size_t)ROWS * ROW_SIZE);
    draw_keys(self);
    int status = cadre_bench_raw_open(bench, &self->raw);
    if (status < 0) {
        return status;
    }
    status = cadre_bench_shard_client_open(bench, 0, &self->client);
    return status < 0 ? status : make_rows(self);
}

static double
million_rows(int times, double begin)
{
    return (double)times * ROWS / (cadre_bench_now() - begin) * 1e-6;
}

static int
run_pull(void *context, double *value)
{
    const subject_t *self = context;
    const cadre_bench_rows_t rows = {VARIABLE, DIM, ROWS, self->pulled};
    const double begin = cadre_bench_now();
    int status = 0;
    for (int i = 0; i < PULLS && status == 0; i++) {
        status = cadre_bench_shard_client_pull_rows(self->client, &rows, WINDOW);
    }
    *value = million_rows(PULLS, begin);
    return status;
}

static int
run_push(void *context, double *value)
{
    const subject_t *self = context;
    const cadre_bench_rows_t rows = {VARIABLE, DIM, ROWS, self->pushed};
    const double begin = cadre_bench_now();
    int status = cadre_bench_shard_client_push_rows(self->client, &rows, UPDATES, WINDOW);
    *value = million_rows(UPDATES, begin);
    return status;
}

/* Copies rows out of the array. */
static int
run_array_pull(void *context, double *value)
{
    subject_t *self = context;
    const double begin = cadre_bench_now();
    for (int n = 0; n < PULLS; n++) {
        for (size_t i = 0; i < ROWS; i++) {
            memcpy(self->rows + i * DIM, self->array + self->pulled[i] * DIM, ROW_SIZE);
        }
        __asm__ volatile("" : : "r"(self->rows) : "memory"); /* each copy counts */
    }
    *value = million_rows(PULLS, begin);
    return 0;
}

/* Adds to rows of the array. */
static int
run_array_push(void *context, double *value)
{
    subject_t *self = context;
    const double begin = cadre_bench_now();
    for (int n = 0; n < UPDATES; n++) {
        for (size_t i = 0; i < ROWS; i++) {
            float *row = self->array + self->pushed[i] * DIM;
            const float *gradient = self->rows + i * DIM;
            for (size_t j = 0; j < DIM; j++) {
                row[j] -= 0.01F * gradient[j];
            }
        }
    }
    *value = million_rows(UPDATES, begin);
    return 0;
}

/* Exchanges messages of as many bytes. */
static int
run_raw(const subject_t *self, bool push, double *value)
{
    const size_t chunks = (size_t)ROWS * ROW_SIZE / CADRE_CHUNK_SIZE_MAX + 1;
    const size_t in_pull = CADRE_ROWS_SIZE_MAX / CADRE_CHUNK_SIZE_MAX;
    const size_t count = push ? UPDATES : PULLS * ((chunks - 1) / in_pull + 1);
    cadre_bench_exchange_t exchange = {.header_size = HEADER_SIZE,
                                       .reply_header_size = HEADER_SIZE};
    if (push) {
        exchange.chunk_size = CADRE_CHUNK_SIZE_MAX;
        exchange.chunk_count = chunks;
    } else {
        exchange.reply_chunk_size = CADRE_CHUNK_SIZE_MAX;
        exchange.reply_chunk_count = in_pull;
    }
    double seconds = 0;
    int status = cadre_bench_raw_run(self->raw, &exchange, count, WINDOW, &seconds);
    const double bytes =
        (double)count * (double)(push ? chunks : in_pull) * (double)CADRE_CHUNK_SIZE_MAX;
    *value = bytes / ROW_SIZE / seconds * 1e-6;
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

/* Adds a figure beside the raw pair, and beside the array. */
static void
add_figures(cadre_bench_t *bench, const char *name, const cadre_bench_measure_t *measures)
{
    cadre_bench_figure_t figure = {.section = "rows",
                                   .unit = "M rows/s",
                                   .value = measures[0].value,
                                   .ceiling_name = "raw ZeroMQ pair",
                                   .ceiling = measures[1].value};
    cadre_bench_report_add(&bench->report, &figure, "%s", name);
    figure.ceiling_name = "rows of an array";
    figure.ceiling = measures[2].value;
    cadre_bench_report_add(&bench->report, &figure, "%s, to an array", name);
}

int
cadre_bench_rows(cadre_bench_t *self)
{
    cadre_auto(subject_fini) subject_t subject = {.client = NULL};
    int status = subject_init(self, &subject);
    if (status < 0) {
        return status;
    }

    cadre_bench_measure_t measures[] = {
        {run_pull, &subject, 0}, {run_raw_pull, &subject, 0}, {run_array_pull, &subject, 0},
        {run_push, &subject, 0}, {run_raw_push, &subject, 0}, {run_array_push, &subject, 0}};
    status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                         cadre_bench_amount(self, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }
    add_figures(self, "random rows pulled", measures);
    add_figures(self, "random rows pushed and applied", measures + 3);
    return 0;
}
