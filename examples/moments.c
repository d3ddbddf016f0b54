/*
 * moments - mean and variance of all pixels of handwritten digits, by closures that take each
 * other's results:
 *
 *     cadre run --workers 2 -- build/release/bin/examples/moments examples/data/digits.csv.gz
 *
 * A closure per batch gives sums over its rows; others add two of these, and two of those, until
 * one is left. All are scheduled at once: each waits for the two whose futures it names, and
 * nothing in between comes to this program.
 */
#define _XOPEN_SOURCE 700 /* realpath */
#include <cadre/coordinator.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, BATCH = 16, BATCHES_MAX = 1024 };

typedef struct {
    cadre_coordinator_t *coordinator;
    cadre_dataset_t *rows;
    cadre_function_t *measure;
    cadre_function_t *merge;
    cadre_future_t *futures[BATCHES_MAX];
    size_t count;
} example_t;

/* Of a batch "x": the sums of its pixels and of their squares, both f32 [64]. */
static int
define_measure(example_t *self)
{
    cadre_program_t *p = cadre_program_new("measure");
    const cadre_dim_t images[] = {cadre_dim_symbol("B"), cadre_dim(PIXELS)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, images, 2);
    cadre_op_result(p, "sum", cadre_op_sum(p, x, 0));
    cadre_op_result(p, "squares", cadre_op_sum(p, cadre_op_square(p, x), 0));
    int s = cadre_program_finish(p);
    s = s ? s : cadre_function_register(self->coordinator, &p, &self->measure);
    cadre_program_destroy(&p);
    return s;
}

/* The same of two parts together. */
static int
define_merge(example_t *self)
{
    static const char *const results[] = {"sum", "squares"};
    static const char *const arguments[][2] = {{"sum0", "sum1"}, {"squares0", "squares1"}};
    cadre_program_t *p = cadre_program_new("merge");
    const cadre_dim_t pixels[] = {cadre_dim(PIXELS)};
    for (int i = 0; i < 2; i++) {
        cadre_node_t left = cadre_op_arg(p, arguments[i][0], CADRE_F32, pixels, 1);
        cadre_node_t right = cadre_op_arg(p, arguments[i][1], CADRE_F32, pixels, 1);
        cadre_op_result(p, results[i], cadre_op_add(p, left, right));
    }
    int s = cadre_program_finish(p);
    s = s ? s : cadre_function_register(self->coordinator, &p, &self->merge);
    cadre_program_destroy(&p);
    return s;
}

/* A closure for each batch. */
static int
measure(example_t *self)
{
    cadre_batch_t batch;
    int s =
        cadre_dataset_begin(self->rows, 0, 0, BATCH, CADRE_ORDER_OF_FILE, CADRE_LAST_BATCH_SMALLER);
    while (!s && self->count < BATCHES_MAX && cadre_dataset_next(self->rows, &batch)) {
        cadre_call_t call = cadre_call_batch(&batch);
        s = cadre_coordinator_schedule(self->coordinator, self->measure, &call, -1,
                                       &self->futures[self->count]);
        self->count += !s;
    }
    return s;
}

/* A closure for each pair of futures, which are not needed any more once it is scheduled. */
static int
merge(example_t *self)
{
    int s = 0;
    while (!s && self->count > 1) {
        cadre_future_t *left = self->futures[self->count - 1];
        cadre_future_t *right = self->futures[self->count - 2];
        const cadre_future_argument_t parts[] = {{"sum0", left, "sum"},
                                                 {"sum1", right, "sum"},
                                                 {"squares0", left, "squares"},
                                                 {"squares1", right, "squares"}};
        cadre_call_t call = {.size = sizeof(call), .futures = parts, .future_count = 4};
        cadre_future_t *both = NULL;
        s = cadre_coordinator_schedule(self->coordinator, self->merge, &call, -1, &both);
        if (!s) {
            cadre_future_destroy(&self->futures[--self->count]);
            cadre_future_destroy(&self->futures[--self->count]);
            for (size_t i = self->count++; i > 0; i--) { /* to the front: a tree, not a chain */
                self->futures[i] = self->futures[i - 1];
            }
            self->futures[0] = both;
        }
    }
    return s;
}

static int
print_moments(example_t *self)
{
    cadre_tensor_t sum = {.data = NULL};
    cadre_tensor_t squares = {.data = NULL};
    double rows = (double)cadre_dataset_info(self->rows).rows;
    double total = 0;
    double total_squares = 0;
    int s = cadre_future_fetch(self->futures[0], "sum", &sum, -1);
    s = s ? s : cadre_future_fetch(self->futures[0], "squares", &squares, -1);
    for (int i = 0; i < PIXELS && !s; i++) {
        total += (double)((const float *)sum.data)[i];
        total_squares += (double)((const float *)squares.data)[i];
    }
    if (!s) {
        double mean = total / (rows * PIXELS);
        double variance = total_squares / (rows * PIXELS) - mean * mean;
        printf("rows %.0f mean %.3f variance %.3f\n", rows, mean, variance);
    }
    cadre_tensor_fini(&sum);
    cadre_tensor_fini(&squares);
    return s;
}

int
main(int argc, char **argv)
{
    char path[PATH_MAX];
    char text[PATH_MAX + 64];
    if (argc != 2) {
        fprintf(stderr, "usage: moments examples/data/digits.csv.gz\n");
        return 2;
    }
    if (!realpath(argv[1], path)) {
        fprintf(
            stderr,
            "moments: %s: %s; give the path of digits.csv.gz, which Cadre has in examples/data\n",
            argv[1], strerror(errno));
        return 66; /* EX_NOINPUT of sysexits.h */
    }
    example_t self = {.coordinator = NULL};
    snprintf(text, sizeof(text), "{\"format\": \"csv\", \"path\": \"%s\"}", path);
    int s = cadre_coordinator_open(NULL, &self.coordinator);
    s = s ? s : define_measure(&self);
    s = s ? s : define_merge(&self);
    s = s ? s : cadre_dataset_open(self.coordinator, "rows", text, 30000, &self.rows);
    s = s ? s : measure(&self);
    s = s ? s : merge(&self);
    s = s ? s : print_moments(&self);
    if (s) {
        fprintf(stderr, "%s: %s\n", cadre_status_text(s), cadre_error_text());
    }
    while (self.count > 0) {
        cadre_future_destroy(&self.futures[--self.count]);
    }
    cadre_coordinator_close(&self.coordinator);
    return s != 0;
}
