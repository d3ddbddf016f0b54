/*
 * What one operation costs on the CPU device: nanoseconds for an element of the input beside a
 * plain loop with the math library's functions, and matrix products beside OpenBLAS called alone.
 */
#include <cadre/program.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "bench/op_cases.h"
#include "bench/op_loops.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/graph/program.h"
#include "worker/device/blas.h"
#include "worker/device/device.h"

enum {
    ROWS = CADRE_BENCH_ROWS,
    COLUMNS = CADRE_BENCH_COLUMNS,
    RUNS = 128,
    REPETITIONS = 9,
    INPUTS = 6, /* x, y, z, row, column, windows */
};

/* As they come in a network of two hidden layers, and one that fills the caches. */
static const cadre_blas_product_t products[] = {
    {128, 512, 784, false, false}, {128, 512, 512, false, false},    {128, 10, 512, false, false},
    {512, 10, 128, true, false},   {128, 512, 10, false, true},      {784, 512, 128, true, false},
    {128, 512, 512, false, true},  {1024, 1024, 1024, false, false},
};

typedef struct {
    cadre_bench_arrays_t arrays;
    float *memory[INPUTS];
    int32_t *labels;
    cadre_bench_loop_t *loop;
    const cadre_blas_product_t *product;
    cadre_slot_t *slot;
    cadre_slot_run_t run;
    int runs;
    int threads;
    double elements;
} subject_t;

static void
fill(float *values, int64_t count, float least, float most, uint64_t stream)
{
    for (int64_t i = 0; i < count; i++) {
        values[i] = least + (most - least) * cadre_random_uniform(1, stream, (uint64_t)i);
    }
}

static void
subject_init(subject_t *self)
{
    enum { ROOM = 1280 * 1024 }; /* elements of the largest matrix */
    for (int i = 0; i < INPUTS; i++) {
        self->memory[i] = cadre_aligned_alloc(ROOM * sizeof(float));
        fill(self->memory[i], ROOM, i == 1 ? 0.01F : -4, 4, (uint64_t)i);
    }

    self->labels = cadre_calloc(ROWS, sizeof(*self->labels));
    for (int i = 0; i < ROWS; i++) {
        self->labels[i] = i % CADRE_BENCH_CLASSES;
    }

    self->arrays = (cadre_bench_arrays_t){
        .rows = ROWS,
        .x = self->memory[0],
        .y = self->memory[1],
        .z = self->memory[2],
        .row = self->memory[3],
        .column = self->memory[4],
        .windows = self->memory[5],
        .labels = self->labels,
        .out = cadre_aligned_alloc(ROOM * sizeof(float)),
        .whole = cadre_aligned_alloc((size_t)ROWS * COLUMNS * sizeof(int32_t))};
}

static void
subject_fini(subject_t *self)
{
    for (int i = 0; i < INPUTS; i++) {
        free(self->memory[i]);
    }
    free(self->labels);
    free(self->arrays.out);
    free(self->arrays.whole);
}

/* ---- both sides ---- */

static int
run_loop(void *context, double *value)
{
    const subject_t *self = context;
    double begin = cadre_bench_now();
    for (int i = 0; i < self->runs; i++) {
        self->loop(&self->arrays);
    }
    *value = 1e9 * (cadre_bench_now() - begin) / self->runs / self->elements;
    return 0;
}

static int
run_device(void *context, double *value)
{
    const subject_t *self = context;
    int status = 0;
    double begin = cadre_bench_now();
    for (int i = 0; i < self->runs && status == 0; i++) {
        status = cadre_slot_run(self->slot, &self->run);
    }
    *value = 1e9 * (cadre_bench_now() - begin) / self->runs / self->elements;
    return status;
}

/* In 10^9 operations per second, as `run_blas`. */
static int
run_matmul(void *context, double *value)
{
    const subject_t *self = context;
    double ns = 0;
    int status = run_device(context, &ns);
    *value = 2 * self->product->inner / ns;
    return status;
}

static int
run_blas(void *context, double *value)
{
    const subject_t *self = context;
    int before = cadre_blas_set_threads(self->threads);
    double begin = cadre_bench_now();

    for (int i = 0; i < self->runs; i++) {
        cadre_blas_multiply(self->product, self->arrays.x, self->arrays.y, self->arrays.out);
    }

    *value =
        2e-9 * self->product->inner * self->elements * self->runs / (cadre_bench_now() - begin);
    cadre_blas_set_threads(before);
    return 0;
}

/* Runs `program`, whose variables are x, y, z, row, column, windows as far as it has them, and out.
 */
static int
measure(cadre_bench_t *bench, subject_t *self, cadre_program_t *program,
        cadre_bench_measure_t measures[2])
{
    int status = cadre_program_finish(program);
    if (status < 0) {
        return status;
    }

    const void *variables[INPUTS + 1];
    int count = cadre_program_variable_count(program);
    for (int i = 0; i < count; i++) {
        const char *name = cadre_program_variable(program, i)->name;
        variables[i] = name[0] == 'x'   ? self->arrays.x
                       : name[0] == 'y' ? self->arrays.y
                       : name[0] == 'z' ? self->arrays.z
                       : name[0] == 'r' ? self->arrays.row
                       : name[0] == 'w' ? self->arrays.windows
                                        : self->arrays.column;
    }

    void *gradients[1] = {self->arrays.out};
    cadre_tensor_t labels = {.dtype = CADRE_I32, .rank = 1, .shape = {ROWS}, .data = self->labels};
    self->run = (cadre_slot_run_t){.program = program,
                                   .arguments = &labels,
                                   .argument_count = cadre_program_argument_count(program),
                                   .variables = variables,
                                   .gradients = gradients};
    return cadre_bench_measure_in_turn(measures, 2, cadre_bench_amount(bench, REPETITIONS, 3));
}

static int
measure_case(cadre_bench_t *bench, subject_t *self, const cadre_bench_op_t *test)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new(test->name);
    const int64_t matrix[] = {ROWS, test->columns};
    const int64_t column[] = {ROWS, 1};
    const cadre_bench_place_t at = {.p = p,
                                    .x = cadre_op_var(p, "x", matrix, 2),
                                    .y = cadre_op_var(p, "y", matrix, 2),
                                    .z = cadre_op_var(p, "z", matrix, 2),
                                    .row = cadre_op_var(p, "row", matrix + 1, 1),
                                    .column = cadre_op_var(p, "column", column, 2)};

    cadre_op_push(p, cadre_op_var(p, "out", test->shape, test->rank), test->build(&at));
    self->arrays.columns = test->columns;
    self->elements = (double)ROWS * test->columns;
    self->runs = cadre_bench_amount(bench, RUNS, RUNS / 16) * (COLUMNS / test->columns);
    self->loop = test->loop;
    cadre_bench_measure_t measures[] = {{run_device, self, 0}, {run_loop, self, 0}};
    int status = measure(bench, self, p, measures);
    if (status < 0) {
        return status;
    }

    const cadre_bench_figure_t figure = {.section = "ops",
                                         .unit = "ns/element",
                                         .value = measures[0].value,
                                         .ceiling_name = "a plain loop (lower is better)",
                                         .ceiling = measures[1].value};
    cadre_bench_report_add(&bench->report, &figure, "%s", test->name);
    return 0;
}

static int
measure_product(cadre_bench_t *bench, subject_t *self, const cadre_blas_product_t *product)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("matmul");
    const int64_t left[] = {product->m, product->inner, product->m};
    const int64_t right[] = {product->inner, product->n, product->inner};
    const int64_t out[] = {product->m, product->n};
    cadre_node_t node = cadre_op_matmul_transposed(
        p, cadre_op_var(p, "x", left + product->transpose_left, 2), product->transpose_left,
        cadre_op_var(p, "y", right + product->transpose_right, 2), product->transpose_right);

    cadre_op_push(p, cadre_op_var(p, "out", out, 2), node);
    self->elements = (double)product->m * product->n;
    double full = 1e9 / (self->elements * product->inner); /* 50 ms, or 10 */
    self->runs = 1 + (int)(full * cadre_bench_amount(bench, 5, 1));
    self->product = product;
    cadre_bench_measure_t measures[] = {{run_matmul, self, 0}, {run_blas, self, 0}};
    int status = measure(bench, self, p, measures);
    if (status < 0) {
        return status;
    }

    const cadre_bench_figure_t figure = {.section = "ops",
                                         .unit = "GFLOP/s",
                                         .value = measures[0].value,
                                         .ceiling_name = "OpenBLAS alone",
                                         .ceiling = measures[1].value};
    cadre_bench_report_add(&bench->report, &figure, "matmul%s%s [%d,%d,%d]",
                           product->transpose_left ? ", left transposed" : "",
                           product->transpose_right ? ", right transposed" : "", product->m,
                           product->n, product->inner);
    return 0;
}

int
cadre_bench_ops(cadre_bench_t *self)
{
    cadre_device_t *device = NULL;
    subject_t subject = {.threads = self->threads};
    int status = cadre_device_open("cpu", self->threads, &device);
    if (status < 0) {
        return status;
    }

    subject_init(&subject);
    status = cadre_slot_open(device, NULL, &subject.slot);
    for (size_t i = 0; i < cadre_bench_op_count && status == 0; i++) {
        status = measure_case(self, &subject, &cadre_bench_ops_list[i]);
    }

    for (size_t i = 0; i < CADRE_COUNT_OF(products) && status == 0; i++) {
        status = measure_product(self, &subject, &products[i]);
    }

    cadre_slot_close(&subject.slot);
    cadre_device_close(&device);
    subject_fini(&subject);
    return status;
}
