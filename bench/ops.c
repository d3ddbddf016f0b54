/*
 * What one operation costs on the CPU device: nanoseconds for an element of the input beside a
 * plain loop with the math library's functions, and matrix products beside OpenBLAS called alone.
 */
#include <cadre/program.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/blas.h"
#include "bench/measure.h"
#include "bench/op_loops.h"
#include "common/graph/program.h"
#include "common/memory.h"
#include "common/random.h"
#include "worker/device/device.h"

enum {
    ROWS = 256, /* a matrix is 512 KiB: three are in a second-level cache, none in the first */
    COLUMNS = 512,
    CLASSES = 10,
    RUNS = 128,
    REPETITIONS = 9,
    INPUTS = 5, /* x, y, z, row, column */
};

/* What an operation is built from. Its result is pushed as a gradient, which the device writes
 * where it is wanted: nothing is allocated or copied. */
typedef struct {
    cadre_program_t *p;
    cadre_node_t x;
    cadre_node_t y; /* above 0 */
    cadre_node_t z;
    cadre_node_t row;
    cadre_node_t column; /* [rows, 1] */
} place_t;

typedef cadre_node_t build_t(const place_t *at);

#define MAP1(name, function)                                                                       \
    static cadre_node_t build_##name(const place_t *at)                                            \
    {                                                                                              \
        return function;                                                                           \
    }
MAP1(neg, cadre_neg(at->p, at->x))
MAP1(exp, cadre_exp(at->p, at->x))
MAP1(log, cadre_logarithm(at->p, at->y))
MAP1(sqrt, cadre_sqrt(at->p, at->y))
MAP1(rsqrt, cadre_rsqrt(at->p, at->y))
MAP1(recip, cadre_recip(at->p, at->x))
MAP1(square, cadre_square(at->p, at->x))
MAP1(abs, cadre_abs(at->p, at->x))
MAP1(sign, cadre_sign(at->p, at->x))
MAP1(step, cadre_step(at->p, at->x))
MAP1(relu, cadre_relu(at->p, at->x))
MAP1(sigmoid, cadre_sigmoid(at->p, at->x))
MAP1(tanh, cadre_tanh(at->p, at->x))
MAP1(gelu, cadre_gelu(at->p, at->x))
MAP1(dgelu, cadre_dgelu(at->p, at->x))
MAP1(softplus, cadre_softplus(at->p, at->x))
MAP1(add, cadre_add(at->p, at->x, at->y))
MAP1(add_row, cadre_add(at->p, at->x, at->row))
MAP1(add_column, cadre_add(at->p, at->x, at->column))
MAP1(div, cadre_div(at->p, at->x, at->y))
MAP1(max, cadre_max(at->p, at->x, at->y))
MAP1(gt, cadre_gt(at->p, at->x, at->y))
MAP1(where, cadre_where(at->p, at->x, at->y, at->z))
MAP1(cast, cadre_cast(at->p, cadre_cast(at->p, at->x, CADRE_I32), CADRE_F32))
MAP1(bias_relu, cadre_relu(at->p, cadre_add(at->p, at->x, at->row)))
MAP1(tanh_gradient,
     cadre_mul(at->p, at->y,
               cadre_sub(at->p, cadre_const_f32(at->p, 1), cadre_square(at->p, at->x))))
MAP1(sum_rows, cadre_sum(at->p, at->x, 1))
MAP1(sum_columns, cadre_sum(at->p, at->x, 0))
MAP1(sum_all, cadre_sum_all(at->p, at->x))
MAP1(largest, cadre_reduce_max(at->p, at->x, 1))
MAP1(softmax, cadre_softmax(at->p, at->x))
MAP1(log_softmax, cadre_log_softmax(at->p, at->x))
MAP1(transpose, cadre_transpose(at->p, at->x, (const int[]){1, 0}))
MAP1(slice, cadre_slice(at->p, at->x, 1, 0, COLUMNS / 2))
MAP1(concat, cadre_concat(at->p, (const cadre_node_t[]){at->x, at->y}, 2, 1))
#undef MAP1

static cadre_node_t
build_xent(const place_t *at)
{
    cadre_node_t labels =
        cadre_arg(at->p, "labels", CADRE_I32, (const cadre_dim_t[]){cadre_dim(ROWS)}, 1);
    return cadre_xent(at->p, at->x, labels);
}

typedef struct {
    const char *name;
    build_t *build;
    cadre_bench_loop_t *loop;
    int columns; /* of the matrices */
    int rank;    /* of the result */
    int64_t shape[2];
} case_t;

#define MATRIX(name)                                                                               \
    {                                                                                              \
#name, build_##name, cadre_bench_loop_##name, COLUMNS, 2,                                  \
        {                                                                                          \
            ROWS, COLUMNS                                                                          \
        }                                                                                          \
    }
#define NARROW(text, name)                                                                         \
    {                                                                                              \
        text, build_##name, cadre_bench_loop_##name, CLASSES, 2,                                   \
        {                                                                                          \
            ROWS, CLASSES                                                                          \
        }                                                                                          \
    }
static const case_t cases[] = {
    MATRIX(neg),
    MATRIX(exp),
    MATRIX(log),
    MATRIX(sqrt),
    MATRIX(rsqrt),
    MATRIX(recip),
    MATRIX(square),
    MATRIX(abs),
    MATRIX(sign),
    MATRIX(step),
    MATRIX(relu),
    MATRIX(sigmoid),
    MATRIX(tanh),
    MATRIX(gelu),
    MATRIX(dgelu),
    MATRIX(softplus),
    MATRIX(add),
    MATRIX(add_row),
    MATRIX(add_column),
    NARROW("add_row, 10 columns", add_row),
    NARROW("add_column, 10 columns", add_column),
    MATRIX(div),
    MATRIX(max),
    MATRIX(gt),
    MATRIX(where),
    MATRIX(cast),
    MATRIX(bias_relu),
    MATRIX(tanh_gradient),
    {"sum over columns", build_sum_rows, cadre_bench_loop_sum_rows, COLUMNS, 1, {ROWS}},
    {"sum over rows", build_sum_columns, cadre_bench_loop_sum_columns, COLUMNS, 1, {COLUMNS}},
    {"sum of all", build_sum_all, cadre_bench_loop_sum_all, COLUMNS, 0, {0}},
    {"max over columns", build_largest, cadre_bench_loop_largest, COLUMNS, 1, {ROWS}},
    MATRIX(softmax),
    NARROW("softmax, 10 columns", softmax),
    MATRIX(log_softmax),
    {"xent", build_xent, cadre_bench_loop_xent, COLUMNS, 1, {ROWS}},
    {"xent, 10 columns", build_xent, cadre_bench_loop_xent, CLASSES, 1, {ROWS}},
    {"transpose", build_transpose, cadre_bench_loop_transpose, COLUMNS, 2, {COLUMNS, ROWS}},
    {"slice", build_slice, cadre_bench_loop_slice, COLUMNS, 2, {ROWS, COLUMNS / 2}},
    {"concat", build_concat, cadre_bench_loop_concat, COLUMNS, 2, {ROWS, 2 * COLUMNS}},
};
#undef MATRIX
#undef NARROW

/* As they come in a network of two hidden layers, and one that fills the caches. */
static const cadre_bench_product_t products[] = {
    {128, 512, 784, false, false}, {128, 512, 512, false, false},    {128, 10, 512, false, false},
    {512, 10, 128, true, false},   {128, 512, 10, false, true},      {784, 512, 128, true, false},
    {128, 512, 512, false, true},  {1024, 1024, 1024, false, false},
};

typedef struct {
    cadre_bench_arrays_t arrays;
    float *memory[INPUTS];
    int32_t *labels;
    cadre_bench_loop_t *loop;
    const cadre_bench_product_t *product;
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
    enum { ROOM = 1024 * 1024 }; /* elements of the largest matrix */
    for (int i = 0; i < INPUTS; i++) {
        self->memory[i] = cadre_aligned_alloc(ROOM * sizeof(float));
        fill(self->memory[i], ROOM, i == 1 ? 0.01F : -4, 4, (uint64_t)i);
    }
    self->labels = cadre_calloc(ROWS, sizeof(*self->labels));
    for (int i = 0; i < ROWS; i++) {
        self->labels[i] = i % CLASSES;
    }
    self->arrays = (cadre_bench_arrays_t){.rows = ROWS,
                                          .x = self->memory[0],
                                          .y = self->memory[1],
                                          .z = self->memory[2],
                                          .row = self->memory[3],
                                          .column = self->memory[4],
                                          .labels = self->labels,
                                          .out = cadre_aligned_alloc(ROOM * sizeof(float))};
}

static void
subject_fini(subject_t *self)
{
    for (int i = 0; i < INPUTS; i++) {
        free(self->memory[i]);
    }
    free(self->labels);
    free(self->arrays.out);
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
    int before = cadre_bench_blas_set_threads(self->threads);
    double begin = cadre_bench_now();
    for (int i = 0; i < self->runs; i++) {
        cadre_bench_blas_multiply(self->product, self->arrays.x, self->arrays.y, self->arrays.out);
    }
    *value =
        2e-9 * self->product->inner * self->elements * self->runs / (cadre_bench_now() - begin);
    cadre_bench_blas_set_threads(before);
    return 0;
}

/* Runs `program`, whose variables are x, y, z, row, column as far as it has them, and out. */
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
measure_case(cadre_bench_t *bench, subject_t *self, const case_t *test)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new(test->name);
    const int64_t matrix[] = {ROWS, test->columns};
    const int64_t column[] = {ROWS, 1};
    const place_t at = {.p = p,
                        .x = cadre_var(p, "x", matrix, 2),
                        .y = cadre_var(p, "y", matrix, 2),
                        .z = cadre_var(p, "z", matrix, 2),
                        .row = cadre_var(p, "row", matrix + 1, 1),
                        .column = cadre_var(p, "column", column, 2)};
    cadre_push(p, cadre_var(p, "out", test->shape, test->rank), test->build(&at));
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
measure_product(cadre_bench_t *bench, subject_t *self, const cadre_bench_product_t *product)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("matmul");
    const int64_t left[] = {product->m, product->inner, product->m};
    const int64_t right[] = {product->inner, product->n, product->inner};
    const int64_t out[] = {product->m, product->n};
    cadre_node_t node = cadre_matmul_transposed(
        p, cadre_var(p, "x", left + product->transpose_left, 2), product->transpose_left,
        cadre_var(p, "y", right + product->transpose_right, 2), product->transpose_right);
    cadre_push(p, cadre_var(p, "out", out, 2), node);
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
    for (size_t i = 0; i < CADRE_COUNT_OF(cases) && status == 0; i++) {
        status = measure_case(self, &subject, &cases[i]);
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(products) && status == 0; i++) {
        status = measure_product(self, &subject, &products[i]);
    }
    cadre_slot_close(&subject.slot);
    cadre_device_close(&device);
    subject_fini(&subject);
    return status;
}
