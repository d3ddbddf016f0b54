/*
 * Random rows of one table on a real ps, over tcp: pulled, and pushed, checked and applied by sgd.
 * Their keys are uniform, or as frequent as words are (Zipf), of which an update has each once.
 * Beside them the floor of random access: as many rows of an array, which are found without a
 * search, are asked for before they are needed, and go nowhere; and the same bytes over a raw
 * ZeroMQ pair, over tcp too. They are also pushed to a ps that has a lane for each CPU, which is
 * not what it has by itself: what it takes of the CPUs, others lack.
 *
 * And batches of such keys, each batch other ones, pulled as a worker does that keeps rows, beside
 * one that keeps none: while nothing changes them, and where each batch is pushed too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/raw.h"
#include "bench/shard_client.h"
#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/system/cpu_quota.h"
#include "worker/core/row_cache.h"

enum {
    DIM = 64,
    ROW_SIZE = DIM * (int)sizeof(float),
    TABLE_ROWS = 1000000,
    ROWS = 100000, /* of a run */
    MADE = 50000,  /* rows of an update that makes them */
    UPDATES = 12,  /* of a run that pushes: beginning and end, when less is in flight, are a part */
    PULLS = 12,    /* of all rows, in a run that pulls */
    WINDOW = 4,    /* requests */
    HEADER_SIZE = 96, /* of PULL, PUSH, VALUES and APPLIED, about */
    VARIABLE = 1,
    REPETITIONS = 7,
    AHEAD = 16, /* rows of the array that are asked for */
    LINE_SIZE = 64,
    BATCHES = 16,   /* of keys, other ones each, pulled by a worker that keeps rows */
    DRAWS = 20000,  /* of keys in a batch */
    SCATTER = 7919, /* prime: neighbours in rank are no neighbours in the table */
};

#define ZIPF 1.05 /* of rank r: 1 / r^ZIPF */

/* Some of the keys of the table. */
typedef struct {
    const char *name;
    uint64_t *pulled; /* [ROWS], in any order, some of them again */
    uint64_t *pushed; /* [pushed_count], ascending */
    size_t pushed_count;
} key_set_t;

typedef struct {
    cadre_bench_shard_client_t *client;
    cadre_bench_shard_client_t *shared; /* its ps has a lane for each CPU */
    cadre_bench_raw_t *raw;
    key_set_t uniform;
    key_set_t zipf;
    key_set_t batches[BATCHES];
    float *array; /* [TABLE_ROWS, DIM] */
    float *rows;  /* [ROWS, DIM] */
} subject_t;

/* Whose rows are measured. */
typedef struct {
    subject_t *subject;
    const key_set_t *keys;
} measured_t;

static void
subject_fini(subject_t *self)
{
    cadre_bench_shard_client_close(&self->client);
    cadre_bench_shard_client_close(&self->shared);
    cadre_bench_raw_close(&self->raw);
    free(self->uniform.pulled);
    free(self->uniform.pushed);
    for (size_t i = 0; i < BATCHES; i++) {
        free(self->batches[i].pulled);
        free(self->batches[i].pushed);
    }
    free(self->zipf.pulled);
    free(self->zipf.pushed);
    free(self->array);
    free(self->rows);
}

static key_set_t
key_set(const char *name)
{
    return (key_set_t){.name = name,
                       .pulled = cadre_calloc(ROWS, sizeof(uint64_t)),
                       .pushed = cadre_calloc(ROWS, sizeof(uint64_t))};
}

/* Draws keys out of all: one of each of ROWS equal parts, so that they ascend; and a shuffle of
 * them. */
static void
draw_uniform(key_set_t *self)
{
    cadre_random_t random;
    cadre_random_init(&random, 1, 1);
    for (size_t i = 0; i < ROWS; i++) {
        self->pushed[i] = i * (TABLE_ROWS / ROWS) + cadre_random_below(&random, TABLE_ROWS / ROWS);
        self->pulled[i] = self->pushed[i];
    }
    self->pushed_count = ROWS;
    for (size_t i = ROWS; i-- > 1;) {
        const size_t other = cadre_random_below(&random, i + 1);
        const uint64_t key = self->pulled[i];
        self->pulled[i] = self->pulled[other];
        self->pulled[other] = key;
    }
}

static int
compare_keys(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Returns the first rank whose sum is above `number`. */
static size_t
rank_of(const double *sums, double number)
{
    size_t low = 0;
    for (size_t high = TABLE_ROWS - 1; low < high;) {
        const size_t middle = (low + high) / 2;
        if (sums[middle] > number) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Draws keys by Zipf's law. An update has each of them once. */
static void
draw_zipf(key_set_t *self, size_t count, uint64_t stream)
{
    cadre_auto(cadre_free) double *sums = cadre_calloc(TABLE_ROWS, sizeof(*sums));
    double sum = 0;
    for (size_t i = 0; i < TABLE_ROWS; i++) {
        sum += pow((double)(i + 1), -ZIPF);
        sums[i] = sum;
    }
    cadre_random_t random;
    cadre_random_init(&random, 1, stream);
    for (size_t i = 0; i < count; i++) {
        const double share = (double)cadre_random_below(&random, UINT32_MAX) / UINT32_MAX;
        self->pulled[i] = rank_of(sums, share * sum) * SCATTER % TABLE_ROWS;
        self->pushed[i] = self->pulled[i];
    }
    qsort(self->pushed, count, sizeof(*self->pushed), compare_keys);
    self->pushed_count = 1;
    for (size_t i = 1; i < count; i++) {
        if (self->pushed[i] != self->pushed[self->pushed_count - 1]) {
            self->pushed[self->pushed_count++] = self->pushed[i];
        }
    }
}

/* Makes all rows of the table, with keys from 0 on in an order that is not theirs. */
static int
make_rows(cadre_bench_shard_client_t *client)
{
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(MADE, sizeof(*keys));
    double seconds = 0;
    int status = cadre_bench_shard_client_create_table(client, VARIABLE, DIM);
    for (uint64_t first = 0; first < TABLE_ROWS / MADE && status == 0; first++) {
        for (uint64_t i = 0; i < MADE; i++) {
            keys[i] = i * (TABLE_ROWS / MADE) + first;
        }
        const cadre_bench_rows_t rows = {VARIABLE, DIM, MADE, keys};
        status = cadre_bench_shard_client_push_rows(client, &rows, 1, 1, &seconds);
    }
    return status;
}

static int
subject_init(cadre_bench_t *bench, subject_t *self)
{
    *self = (subject_t){.uniform = key_set("random rows"),
                        .zipf = key_set("Zipf rows"),
                        .array = cadre_calloc((size_t)TABLE_ROWS * DIM, sizeof(float)),
                        .rows = cadre_calloc((size_t)ROWS * DIM, sizeof(float))};
    memset(self->array, 0, (size_t)TABLE_ROWS * ROW_SIZE);
    memset(self->rows, 0, (size_t)ROWS * ROW_SIZE);
    draw_uniform(&self->uniform);
    draw_zipf(&self->zipf, ROWS, 2);
    for (size_t i = 0; i < BATCHES; i++) {
        self->batches[i] = key_set("Zipf batches");
        draw_zipf(&self->batches[i], DRAWS, 3 + i);
    }
    int status = cadre_bench_raw_open(bench, true, &self->raw);
    if (status < 0) {
        return status;
    }
    status = cadre_bench_shard_client_open(bench, 0, true, &self->client);
    if (status < 0) {
        return status;
    }
    status = make_rows(self->client);
    if (status < 0) {
        return status;
    }
    const int lanes = cadre_min_int(cadre_cpu_count(), CADRE_LANES_MAX);
    status = cadre_bench_shard_client_open(bench, lanes, true, &self->shared);
    return status < 0 ? status : make_rows(self->shared);
}

static double
million_rows(int times, size_t count, double begin)
{
    return (double)times * (double)count / (cadre_bench_now() - begin) * 1e-6;
}

static int
run_pull(void *context, double *value)
{
    const measured_t *self = context;
    const cadre_bench_rows_t rows = {VARIABLE, DIM, ROWS, self->keys->pulled};
    const double begin = cadre_bench_now();
    int status = cadre_bench_shard_client_pull_rows(self->subject->client, &rows, PULLS, WINDOW);
    *value = million_rows(PULLS, ROWS, begin);
    return status;
}

static int
push_to(cadre_bench_shard_client_t *client, const key_set_t *keys, double *value)
{
    const size_t count = keys->pushed_count;
    const cadre_bench_rows_t rows = {VARIABLE, DIM, count, keys->pushed};
    double seconds = 0;
    int status = cadre_bench_shard_client_push_rows(client, &rows, UPDATES, WINDOW, &seconds);
    *value = (double)UPDATES * (double)count / seconds * 1e-6;
    return status;
}

static int
run_push(void *context, double *value)
{
    const measured_t *self = context;
    return push_to(self->subject->client, self->keys, value);
}

static int
run_push_shared(void *context, double *value)
{
    const measured_t *self = context;
    return push_to(self->subject->shared, self->keys, value);
}

/* Returns the row of the array that stands at `keys[i]`; asks for one that comes later. */
static float *
array_row(subject_t *self, const uint64_t *keys, size_t count, size_t i)
{
    if (i + AHEAD < count) {
        const char *ahead = (const char *)(self->array + keys[i + AHEAD] * DIM);
        for (size_t at = 0; at < ROW_SIZE; at += LINE_SIZE) {
            __builtin_prefetch(ahead + at);
        }
    }
    return self->array + keys[i] * DIM;
}

/* Copies rows out of the array. */
static int
run_array_pull(void *context, double *value)
{
    const measured_t *self = context;
    subject_t *subject = self->subject;
    const double begin = cadre_bench_now();
    for (int n = 0; n < PULLS; n++) {
        for (size_t i = 0; i < ROWS; i++) {
            const float *row = array_row(subject, self->keys->pulled, ROWS, i);
            memcpy(subject->rows + i * DIM, row, ROW_SIZE);
        }
        __asm__ volatile("" : : "r"(subject->rows) : "memory"); /* each copy counts */
    }
    *value = million_rows(PULLS, ROWS, begin);
    return 0;
}

/* Adds to rows of the array. */
static int
run_array_push(void *context, double *value)
{
    const measured_t *self = context;
    const size_t count = self->keys->pushed_count;
    const double begin = cadre_bench_now();
    for (int n = 0; n < UPDATES; n++) {
        for (size_t i = 0; i < count; i++) {
            float *row = array_row(self->subject, self->keys->pushed, count, i);
            const float *gradient = self->subject->rows + i * DIM;
            for (size_t j = 0; j < DIM; j++) {
                row[j] -= 0.01F * gradient[j];
            }
        }
    }
    *value = million_rows(UPDATES, count, begin);
    return 0;
}

/* Exchanges messages of as many bytes. */
static int
run_raw(const measured_t *self, bool push, double *value)
{
    const size_t rows = push ? self->keys->pushed_count : ROWS;
    const size_t chunks = rows * ROW_SIZE / CADRE_CHUNK_SIZE_MAX + 1;
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
    int status = cadre_bench_raw_run(self->subject->raw, &exchange, count, WINDOW, &seconds);
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
add_figures(cadre_bench_t *bench, const key_set_t *keys, const char *what,
            const cadre_bench_measure_t *measures)
{
    cadre_bench_figure_t figure = {.section = "rows",
                                   .unit = "M rows/s",
                                   .value = measures[0].value,
                                   .ceiling_name = "raw ZeroMQ pair",
                                   .ceiling = measures[1].value};
    cadre_bench_report_add(&bench->report, &figure, "%s %s", keys->name, what);
    figure.ceiling_name = "rows of an array, asked for ahead";
    figure.ceiling = measures[2].value;
    cadre_bench_report_add(&bench->report, &figure, "%s %s, to an array", keys->name, what);
}

/* Measures rows of some keys. */
static int
measure(cadre_bench_t *bench, subject_t *subject, const key_set_t *keys)
{
    measured_t measured = {subject, keys};
    cadre_bench_measure_t measures[] = {
        {run_pull, &measured, 0},       {run_raw_pull, &measured, 0},
        {run_array_pull, &measured, 0}, {run_push, &measured, 0},
        {run_raw_push, &measured, 0},   {run_array_push, &measured, 0},
        {run_push_shared, &measured, 0}};
    int status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                             cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }
    add_figures(bench, keys, "pulled", measures);
    add_figures(bench, keys, "pushed and applied", measures + 3);
    const cadre_bench_figure_t figure = {.section = "rows",
                                         .unit = "M rows/s",
                                         .value = measures[6].value,
                                         .ceiling_name = "raw ZeroMQ pair",
                                         .ceiling = measures[4].value};
    cadre_bench_report_add(&bench->report, &figure, "%s pushed, a lane for each CPU", keys->name);
    return 0;
}

/* --- rows that a worker keeps --- */

/* A worker that pulls batches, and may push them. */
typedef struct {
    subject_t *subject;
    cadre_row_cache_t *kept;
    bool trains;
    size_t rows; /* pulled in all */
    size_t size_bytes;
} worker_t;

static int
run_batches(void *context, double *value)
{
    worker_t *self = context;
    const double begin = cadre_bench_now();
    size_t rows = 0;
    double seconds = 0; /* of an update alone */
    int status = 0;
    for (int i = 0; i < BATCHES && status == 0; i++) {
        const key_set_t *batch = &self->subject->batches[i];
        const cadre_bench_rows_t named = {VARIABLE, DIM, batch->pushed_count, batch->pushed};
        status = cadre_bench_shard_client_pull_kept(self->subject->client, &named, self->kept,
                                                    WINDOW, &self->size_bytes);
        rows += batch->pushed_count;
        if (status == 0 && self->trains) {
            status =
                cadre_bench_shard_client_push_rows(self->subject->client, &named, 1, 1, &seconds);
        }
    }
    self->rows += rows;
    *value = million_rows(1, rows, begin);
    return status;
}

static double
bytes_of_row(const worker_t *self)
{
    return (double)self->size_bytes / (double)self->rows;
}

/* Measures batches of rows, pulled with as much memory for rows as a worker has and with none. */
static int
measure_kept(cadre_bench_t *bench, subject_t *subject, bool trains)
{
    const char *what = trains ? "pulled and pushed" : "pulled, unchanged";
    worker_t keeps = {.subject = subject,
                      .kept = cadre_row_cache_new((size_t)CADRE_ROW_CACHE_MIB << 20, false),
                      .trains = trains};
    worker_t forgets = {
        .subject = subject, .kept = cadre_row_cache_new(0, false), .trains = trains};
    cadre_bench_measure_t measures[] = {{run_batches, &keeps, 0}, {run_batches, &forgets, 0}};
    int status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                             cadre_bench_amount(bench, REPETITIONS, 3));
    cadre_row_cache_destroy(&keeps.kept);
    cadre_row_cache_destroy(&forgets.kept);
    if (status < 0) {
        return status;
    }
    cadre_bench_figure_t figure = {.section = "rows",
                                   .unit = "M rows/s",
                                   .value = measures[0].value,
                                   .ceiling_name = "no row kept",
                                   .ceiling = measures[1].value};
    cadre_bench_report_add(&bench->report, &figure, "Zipf batches %s, hot rows kept", what);
    figure.unit = "bytes/row";
    figure.value = bytes_of_row(&keeps);
    figure.ceiling = bytes_of_row(&forgets);
    cadre_bench_report_add(&bench->report, &figure, "Zipf batches %s, on the wire", what);
    return 0;
}

int
cadre_bench_rows(cadre_bench_t *self)
{
    cadre_auto(subject_fini) subject_t subject = {.client = NULL};
    int status = subject_init(self, &subject);
    if (status < 0) {
        return status;
    }
    status = measure(self, &subject, &subject.uniform);
    status = status < 0 ? status : measure(self, &subject, &subject.zipf);
    status = status < 0 ? status : measure_kept(self, &subject, false);
    return status < 0 ? status : measure_kept(self, &subject, true);
}
