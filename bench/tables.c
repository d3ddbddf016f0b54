/*
 * Tables of sparse rows in memory: what a row takes, how long the longest update takes while a
 * table grows, and rows read and updated per second, beside as many rows of an array, which are
 * found without a search.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/checkpoint/disk.h"
#include "ps/core/table/table.h"
#include "ps/huge_keeper.h"

enum {
    DIM = 64, /* unless told otherwise */
    ROWS_FULL = 8000000,
    ROWS_QUICK = 800000,
    KEYS = 256, /* of an update while the table grows */
    BATCH = 4096,
    BATCHES = 64,
    REPETITIONS = 7,
    LONG_MS = 10, /* an update that takes longer is counted */
};

typedef struct {
    cadre_chunk_pool_t *pool;
    cadre_huge_keeper_t *huge_keeper;
    cadre_table_t *table;
    uint64_t rows;
    size_t dim;
    uint64_t *keys; /* BATCHES * BATCH; each batch ascends */
    float *gradient;
    float *values;
    float *array;
} subject_t;

static void
subject_fini(subject_t *self)
{
    cadre_table_close(&self->table);
    cadre_chunk_pool_destroy(&self->pool);
    cadre_huge_keeper_destroy(&self->huge_keeper);
    free(self->keys);
    free(self->gradient);
    free(self->values);
    free(self->array);
}

static int
subject_init(subject_t *self, const cadre_bench_t *bench)
{
    *self = (subject_t){.rows = bench->table_rows, .dim = bench->table_dim};
    if (self->rows == 0) {
        self->rows = (uint64_t)cadre_bench_amount(bench, ROWS_FULL, ROWS_QUICK);
    }
    if (self->dim == 0) {
        self->dim = DIM;
    }
    cadre_table_spec_t spec = cadre_table_spec((uint32_t)self->dim);
    int status = cadre_optimizer_spec_parse(&spec.optimizer, "adagrad");
    if (status < 0) {
        return status;
    }
    status = cadre_initializer_spec_parse(&spec.initializer, "uniform");
    if (status < 0) {
        return status;
    }
    spec.row_wise = true;
    status = cadre_huge_keeper_open(&self->huge_keeper);
    if (status < 0) {
        return status;
    }
    const cadre_huge_source_t huge_source = cadre_huge_keeper_source(self->huge_keeper);
    self->pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX);
    cadre_chunk_pool_set_huge_source(self->pool, &huge_source);
    self->keys = cadre_calloc((size_t)BATCHES * BATCH, sizeof(*self->keys));
    self->gradient = cadre_calloc(BATCH * self->dim, sizeof(float));
    self->values = cadre_calloc(BATCH * self->dim, sizeof(float));
    for (size_t i = 0; i < BATCH * self->dim; i++) {
        self->gradient[i] = (float)(i % 100) * 1e-3F;
    }
    return cadre_table_open(&self->table, &spec, self->pool);
}

/* What this thread had until now, or between two moments. */
typedef struct {
    double seconds;
    double cpu;     /* seconds that it ran */
    double waiting; /* seconds that it could have run, but others had the CPU */
    long switches;  /* how often the CPU was taken from it */
} moment_t;

/* How long updates took while the table grew. */
typedef struct {
    moment_t longest;
    double longest_cpu; /* CPU time, which does not count what others did meanwhile */
    double longest_own; /* time without waits for a CPU that others had */
    double long_count;  /* updates above LONG_MS */
    double long_own_count;
    double all;
} growth_t;

/* Returns what this thread had until now. `statistics` is /proc/thread-self/schedstat, open; -1:
 * the system has none, and nothing is known of waiting. */
static moment_t
moment_now(int statistics)
{
    char text[64] = "";
    unsigned long long ran = 0;
    unsigned long long waited = 0;
    ssize_t size = pread(statistics, text, sizeof(text) - 1, 0);
    if (size <= 0 || sscanf(text, "%llu %llu", &ran, &waited) != 2) {
        waited = 0;
    }
    struct rusage usage = {.ru_nivcsw = 0};
    getrusage(RUSAGE_THREAD, &usage);
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    return (moment_t){.seconds = cadre_bench_now(),
                      .cpu = (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec,
                      .waiting = 1e-9 * (double)waited,
                      .switches = usage.ru_nivcsw};
}

/* Counts an update that began at one moment and ended at another. */
static void
count_update(growth_t *growth, const moment_t *begin, const moment_t *end)
{
    const moment_t update = {.seconds = end->seconds - begin->seconds,
                             .cpu = end->cpu - begin->cpu,
                             .waiting = end->waiting - begin->waiting,
                             .switches = end->switches - begin->switches};
    if (update.seconds > growth->longest.seconds) {
        growth->longest = update;
    }
    growth->longest_cpu = fmax(growth->longest_cpu, update.cpu);
    growth->long_count += update.seconds > LONG_MS * 1e-3;
    const double own = update.seconds - update.waiting;
    growth->longest_own = fmax(growth->longest_own, own);
    growth->long_own_count += own > LONG_MS * 1e-3;
    growth->all += update.seconds;
}

/* Makes all rows, with keys from 0 on. */
static int
grow(subject_t *self, growth_t *growth)
{
    uint64_t keys[KEYS];
    *growth = (growth_t){.all = 0};
    cadre_auto(cadre_disk_close) int statistics =
        open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    for (uint64_t first = 0; first < self->rows; first += KEYS) {
        for (uint64_t i = 0; i < KEYS; i++) {
            keys[i] = first + i;
        }
        const moment_t begin = moment_now(statistics);
        int status = cadre_table_check(
            self->table,
            &(cadre_table_update_t){.count = KEYS, .keys = keys, .numbers = self->gradient});
        if (status < 0) {
            return status;
        }
        cadre_table_push(self->table, &(cadre_table_update_t){
                                          .count = KEYS, .keys = keys, .numbers = self->gradient});
        const moment_t end = moment_now(statistics);
        count_update(growth, &begin, &end);
    }
    return 0;
}

/* Draws batches of different keys, one out of each of BATCH equal parts, so that they ascend. */
static void
draw_keys(subject_t *self)
{
    cadre_random_t random;
    cadre_random_init(&random, 1, 1);
    const uint64_t part = self->rows / BATCH;
    for (size_t i = 0; i < (size_t)BATCHES * BATCH; i++) {
        self->keys[i] = i % BATCH * part + cadre_random_below(&random, part);
    }
}

static int
run_pull(void *context, double *value)
{
    subject_t *self = context;
    double begin = cadre_bench_now();
    for (size_t i = 0; i < BATCHES; i++) {
        cadre_table_pull(self->table, CADRE_F32, BATCH, self->keys + i * BATCH, self->values);
    }
    *value = (double)BATCHES * BATCH / (cadre_bench_now() - begin) * 1e-6;
    return 0;
}

static int
run_push(void *context, double *value)
{
    subject_t *self = context;
    double begin = cadre_bench_now();
    for (size_t i = 0; i < BATCHES; i++) {
        const uint64_t *keys = self->keys + i * BATCH;
        int status = cadre_table_check(
            self->table,
            &(cadre_table_update_t){.count = BATCH, .keys = keys, .numbers = self->gradient});
        if (status < 0) {
            return status;
        }
        cadre_table_push(self->table, &(cadre_table_update_t){
                                          .count = BATCH, .keys = keys, .numbers = self->gradient});
    }
    *value = (double)BATCHES * BATCH / (cadre_bench_now() - begin) * 1e-6;
    return 0;
}

/* Copies rows out of one array, in which the key is the position. */
static int
run_array_pull(void *context, double *value)
{
    subject_t *self = context;
    const size_t dim = self->dim;
    double begin = cadre_bench_now();
    for (size_t i = 0; i < (size_t)BATCHES * BATCH; i++) {
        memcpy(self->values + i % BATCH * dim, self->array + self->keys[i] * dim,
               dim * sizeof(float));
    }
    *value = (double)BATCHES * BATCH / (cadre_bench_now() - begin) * 1e-6;
    return 0;
}

/* Adds the gradient to rows of one array. */
static int
run_array_push(void *context, double *value)
{
    subject_t *self = context;
    const size_t dim = self->dim;
    double begin = cadre_bench_now();
    for (size_t i = 0; i < (size_t)BATCHES * BATCH; i++) {
        float *row = self->array + self->keys[i] * dim;
        const float *gradient = self->gradient + i % BATCH * dim;
        for (size_t j = 0; j < dim; j++) {
            row[j] -= 1e-3F * gradient[j];
        }
    }
    *value = (double)BATCHES * BATCH / (cadre_bench_now() - begin) * 1e-6;
    return 0;
}

static void
report_growth(cadre_bench_t *bench, const subject_t *subject, const growth_t *growth)
{
    const cadre_table_figures_t figures = cadre_table_figures(subject->table);
    const double payload = sizeof(uint64_t) + (double)(subject->dim + 1) * sizeof(float);
    const double millions = (double)subject->rows * 1e-6;
    cadre_bench_figure_t figure = {
        .section = "tables", .unit = "ms", .value = growth->longest.seconds * 1e3};
    cadre_bench_report_add(&bench->report, &figure, "longest update, growing to %.1f M rows",
                           millions);
    figure.value = growth->longest.cpu * 1e3;
    cadre_bench_report_add(&bench->report, &figure, "of these, its own CPU time");
    figure.value = growth->longest.waiting * 1e3;
    cadre_bench_report_add(&bench->report, &figure,
                           "of these, others had the CPU (switched %ld times)",
                           growth->longest.switches);
    figure.value = growth->longest_own * 1e3;
    cadre_bench_report_add(&bench->report, &figure, "longest update, but for such waits");
    figure.value = growth->longest_cpu * 1e3;
    cadre_bench_report_add(&bench->report, &figure, "longest update, CPU time");
    figure.unit = "updates";
    figure.value = growth->long_count;
    cadre_bench_report_add(&bench->report, &figure, "above %d ms, of %.0f", LONG_MS,
                           ceil((double)subject->rows / KEYS));
    figure.value = growth->long_own_count;
    cadre_bench_report_add(&bench->report, &figure, "above %d ms, but for such waits", LONG_MS);
    figure.unit = "M rows/s";
    figure.value = millions / growth->all;
    cadre_bench_report_add(&bench->report, &figure, "rows made, %d in an update", KEYS);
    figure.unit = "bytes";
    figure.value = (double)figures.size_bytes / (double)figures.rows;
    figure.ceiling_name = "key, values and slots";
    figure.ceiling = payload;
    cadre_bench_report_add(&bench->report, &figure, "a row of %zu, row-wise adagrad", subject->dim);
}

static int
report_rates(cadre_bench_t *bench, subject_t *subject)
{
    cadre_bench_measure_t measures[] = {{run_array_pull, subject, 0},
                                        {run_pull, subject, 0},
                                        {run_array_push, subject, 0},
                                        {run_push, subject, 0}};
    int status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                             cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    cadre_bench_figure_t figure = {.section = "tables",
                                   .unit = "M rows/s",
                                   .value = measures[1].value,
                                   .ceiling_name = "rows of an array",
                                   .ceiling = measures[0].value};
    cadre_bench_report_add(&bench->report, &figure, "random rows read");
    figure.value = measures[3].value;
    figure.ceiling = measures[2].value;
    cadre_bench_report_add(&bench->report, &figure, "random rows checked and updated");
    return 0;
}

int
cadre_bench_tables(cadre_bench_t *self)
{
    cadre_auto(subject_fini) subject_t subject = {.pool = NULL};
    int status = subject_init(&subject, self);
    if (status < 0) {
        return status;
    }

    growth_t growth;
    status = grow(&subject, &growth);
    if (status < 0) {
        return status;
    }

    report_growth(self, &subject, &growth);
    draw_keys(&subject);
    subject.array = cadre_calloc(subject.rows * subject.dim, sizeof(float));
    memset(subject.array, 0, subject.rows * subject.dim * sizeof(float));
    return report_rates(self, &subject);
}
