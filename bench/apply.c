/*
 * How fast a ps applies gradients that are in memory already: GB of gradient per second through the
 * checks and the apply of one partition, beside a plain loop over arrays of the same size.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/apply_loops.h"
#include "bench/bench.h"
#include "bench/measure.h"
#include "common/base/memory.h"
#include "ps/core/partition.h"

enum {
    COLUMNS = 1024, /* a row is 4 KiB, a chunk 256 rows */
    MIB_ROWS = (1 << 20) / (COLUMNS * (int)sizeof(float)),
    MIB_FULL = 64,
    MIB_QUICK = 16,
    REPETITIONS = 7,
    PASSES = 4,
    ARRAYS = 4, /* of the plain loop: gradient, value, two moments */
};

typedef struct {
    cadre_optimizer_kind_t kind;
    cadre_chunk_pool_t *pool;
    cadre_partition_t *partition;
    cadre_chunk_t **gradient;
    size_t chunk_count;
    bool check; /* as the shard does before it applies */
    float *arrays[ARRAYS];
    size_t elements;
} subject_t;

static double
gb_per_second(const subject_t *self, double seconds)
{
    return PASSES * (double)(self->elements * sizeof(float)) / seconds * 1e-9;
}

static int
run_partition(void *context, double *value)
{
    subject_t *self = context;
    int status = 0;
    double begin = cadre_bench_now();

    for (int pass = 0; pass < PASSES && status == 0; pass++) {
        if (self->check) {
            status =
                cadre_partition_check_gradient(self->partition, self->gradient, self->chunk_count);
        }
        cadre_partition_apply(self->partition, self->gradient);
    }

    *value = gb_per_second(self, cadre_bench_now() - begin);
    return status;
}

static int
run_checked(void *context, double *value)
{
    subject_t *self = context;
    self->check = true;
    int status = run_partition(self, value);
    self->check = false;
    return status;
}

static int
run_loop(void *context, double *value)
{
    subject_t *self = context;
    double begin = cadre_bench_now();

    for (int pass = 0; pass < PASSES; pass++) {
        if (self->kind == CADRE_OPTIMIZER_SGD) {
            cadre_bench_loop_sgd(self->elements, self->arrays[0], self->arrays[1], 1e-3F);
        } else {
            cadre_bench_loop_adam(self->elements, self->arrays[0], self->arrays[1],
                                  self->arrays + 2, 1e-3F);
        }
    }

    *value = gb_per_second(self, cadre_bench_now() - begin);
    return 0;
}

static void
fill(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(i % 1000) * 1e-6F;
    }
}

static int
subject_init(subject_t *self, cadre_optimizer_kind_t kind, int64_t rows)
{
    *self = (subject_t){.kind = kind, .elements = (size_t)rows * COLUMNS};
    cadre_partition_spec_t spec = {
        .variable = 1, .dtype = CADRE_F32, .rank = 2, .shape = {rows, COLUMNS}, .rows = rows};
    int status = cadre_initializer_spec_parse(&spec.initializer, "uniform");
    if (status < 0) {
        return status;
    }

    status = cadre_optimizer_spec_parse(&spec.optimizer, cadre_optimizer_kind_text(kind));
    if (status < 0) {
        return status;
    }

    self->pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX);
    status = cadre_partition_open(&self->partition, &spec, self->pool);
    if (status < 0) {
        return status;
    }

    const cadre_chunk_layout_t *layout = cadre_partition_layout(self->partition);
    self->chunk_count = layout->count;
    self->gradient = cadre_calloc(layout->count, sizeof(cadre_chunk_t *));
    for (size_t k = 0; k < layout->count; k++) {
        self->gradient[k] = cadre_chunk_new(cadre_chunk_layout_size(layout, k));
        fill(cadre_chunk_data(self->gradient[k]),
             cadre_chunk_size_bytes(self->gradient[k]) / sizeof(float));
    }

    for (int i = 0; i < ARRAYS; i++) {
        self->arrays[i] = cadre_aligned_alloc(self->elements * sizeof(float));
        fill(self->arrays[i], self->elements);
    }

    return 0;
}

static void
subject_fini(subject_t *self)
{
    for (size_t k = 0; k < self->chunk_count; k++) {
        cadre_chunk_unref(&self->gradient[k]);
    }
    for (int i = 0; i < ARRAYS; i++) {
        free(self->arrays[i]);
    }
    free(self->gradient);
    cadre_partition_close(&self->partition);
    cadre_chunk_pool_destroy(&self->pool);
}

static int
measure(cadre_bench_t *bench, cadre_optimizer_kind_t kind)
{
    int mib = cadre_bench_amount(bench, MIB_FULL, MIB_QUICK);
    cadre_auto(subject_fini) subject_t subject = {.pool = NULL};
    cadre_bench_measure_t measures[] = {
        {run_loop, &subject, 0}, {run_partition, &subject, 0}, {run_checked, &subject, 0}};
    int status = subject_init(&subject, kind, (int64_t)mib * MIB_ROWS);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                         cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    cadre_bench_figure_t figure = {.section = "apply",
                                   .unit = "GB/s",
                                   .value = measures[1].value,
                                   .ceiling_name = "a plain loop",
                                   .ceiling = measures[0].value};
    cadre_bench_report_add(&bench->report, &figure, "%s", cadre_optimizer_kind_text(kind));
    figure.value = measures[2].value;
    cadre_bench_report_add(&bench->report, &figure, "%s, checked first",
                           cadre_optimizer_kind_text(kind));
    return 0;
}

int
cadre_bench_apply(cadre_bench_t *self)
{
    int status = measure(self, CADRE_OPTIMIZER_SGD);
    if (status < 0) {
        return status;
    }
    return measure(self, CADRE_OPTIMIZER_ADAM);
}
