/*
 * Values of variables that are on the device already: not copied again while their version is the
 * same, copied in every other case. A plain program; the fake CUDA counts what is copied.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/gpu/gpu_check.h"
#include "tests/worker/cuda_fake/fake_cuda.h"
#include "worker/device/device_module.h"

enum { SMALL = 3, LARGE = 1 << 19, LARGE_BYTES = LARGE * 4, ROWS_MAX = 1000 };

/* sum(x) + sum(a) + 2 sum(b): a is small, b larger than what is copied at once. */
static cadre_program_t *
make_program(const char *name)
{
    cadre_program_t *p = cadre_program_new(name);
    cadre_dim_t rows = cadre_dim_symbol("B");
    cadre_node_t a = cadre_op_var(p, "a", (int64_t[]){SMALL}, 1);
    cadre_node_t b = cadre_op_var(p, "b", (int64_t[]){LARGE}, 1);
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, &rows, 1);
    cadre_node_t sum = cadre_op_add(p, cadre_op_sum_all(p, x), cadre_op_sum_all(p, a));
    cadre_node_t two = cadre_op_const_f32(p, 2);
    cadre_op_result(p, name, cadre_op_add(p, sum, cadre_op_mul(p, two, cadre_op_sum_all(p, b))));
    cadre_assert(cadre_program_finish(p) == 0);
    return p;
}

typedef struct {
    gpu_check_t check;
    cadre_slot_t *slot;
    cadre_program_t *program;
    float *a;
    float *b;
    bool may_fail;
    int failed; /* runs */
} bench_t;

/* One run whose numbers are as said: what it gives, and how many of b's bytes it copied. */
typedef struct {
    float a;
    float b;
    uint64_t version_a;
    uint64_t version_b;
    int rows;
} numbers_t;

static size_t
run(bench_t *self, const numbers_t *numbers, float *result)
{
    float ones[ROWS_MAX];
    for (int i = 0; i < ROWS_MAX; i++) {
        ones[i] = 1;
    }
    for (int i = 0; i < SMALL; i++) {
        self->a[i] = numbers->a;
    }
    for (int i = 0; i < LARGE; i++) {
        self->b[i] = i == LARGE - 1 ? numbers->b : 0;
    }
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 1, .shape = {numbers->rows}, .data = ones};
    const void *variables[] = {self->a, self->b};
    uint64_t versions[] = {numbers->version_a, numbers->version_b};
    cadre_tensor_t out = {0};
    cadre_slot_run_t one = {.program = self->program,
                            .arguments = &x,
                            .argument_count = 1,
                            .variables = variables,
                            .versions = numbers->version_a ? versions : NULL,
                            .results = &out};
    size_t before = fake_cuda_count().bytes_in;
    int status = cadre_slot_run(self->slot, &one);
    gpu_check_that(&self->check, status == 0 || self->may_fail, "%s", cadre_error_text());
    self->failed += status < 0;
    *result = status == 0 ? *(const float *)out.data : 0;
    cadre_tensor_fini(&out);
    return fake_cuda_count().bytes_in - before;
}

/* The run gives the numbers `a` and `b`, and copies b or does not. */
static void
expect(bench_t *self, const char *what, numbers_t numbers, float a, float b, bool copied)
{
    float result = 0;
    size_t bytes = run(self, &numbers, &result);
    float wanted = (float)numbers.rows + SMALL * a + 2 * b;
    gpu_check_that(&self->check, result == wanted, "%s: %g, not %g", what, (double)result,
                   (double)wanted);
    gpu_check_that(&self->check, (bytes >= LARGE_BYTES) == copied, "%s: %zu bytes copied", what,
                   bytes);
}

static void
check_versions(bench_t *self)
{
    expect(self, "first", (numbers_t){1, 2, 10, 11, 4}, 1, 2, true);
    /* What the host says meanwhile is not looked at: that shows that nothing is copied. */
    expect(self, "both the same", (numbers_t){7, 8, 10, 11, 4}, 1, 2, false);
    expect(self, "the small one is new", (numbers_t){3, 8, 12, 11, 4}, 3, 2, false);
    expect(self, "the large one is new", (numbers_t){7, 4, 12, 13, 4}, 3, 4, true);
    expect(self, "numbers changed places", (numbers_t){5, 6, 13, 12, 4}, 5, 6, true);
    expect(self, "an old number", (numbers_t){1, 2, 10, 11, 4}, 1, 2, true);
    expect(self, "unknown", (numbers_t){5, 6, 10, 0, 4}, 1, 6, true);
    expect(self, "unknown again", (numbers_t){5, 7, 10, 0, 4}, 1, 7, true);
    expect(self, "after unknown", (numbers_t){5, 9, 10, 11, 4}, 1, 9, true);
    expect(self, "none given", (numbers_t){2, 3, 0, 0, 4}, 2, 3, true);
    expect(self, "after none given", (numbers_t){1, 2, 10, 11, 4}, 1, 2, true);
}

/* Another plan, and another program of the same variables, find what the one before left. */
static void
check_plans(bench_t *self)
{
    expect(self, "another batch", (numbers_t){7, 8, 10, 11, 3}, 1, 2, false);
    expect(self, "the first batch", (numbers_t){7, 8, 10, 11, 4}, 1, 2, false);
    expect(self, "in other memory", (numbers_t){1, 2, 10, 11, ROWS_MAX}, 1, 2, true);
    expect(self, "the first batch again", (numbers_t){7, 8, 10, 11, 4}, 1, 2, false);
    cadre_program_t *first = self->program;
    self->program = make_program("again");
    expect(self, "another program", (numbers_t){7, 8, 10, 11, 4}, 1, 2, false);
    cadre_program_destroy(&self->program);
    self->program = first;

    cadre_program_t *p = cadre_program_new("other");
    cadre_node_t b = cadre_op_var(p, "b", (int64_t[]){LARGE}, 1);
    cadre_op_result(p, "sum", cadre_op_sum_all(p, b));
    cadre_assert(cadre_program_finish(p) == 0);
    const void *variables[] = {self->b};
    cadre_tensor_t out = {0};
    cadre_slot_run_t one = {
        .program = p, .variables = variables, .versions = (uint64_t[]){11}, .results = &out};
    self->b[0] = 100;
    cadre_assert(cadre_slot_run(self->slot, &one) == 0);
    gpu_check_that(&self->check, *(const float *)out.data == 108, "b is in another place");
    cadre_tensor_fini(&out);
    cadre_program_destroy(&p);
    expect(self, "after another program", (numbers_t){7, 8, 10, 11, 4}, 7, 8, true);
}

/* A run that could not begin leaves nothing to rely on. */
static void
check_faults(bench_t *self)
{
    fake_cuda_break("cudaGraphInstantiate", 0, cudaErrorMemoryAllocation);
    numbers_t numbers = {1, 2, 20, 21, 5};
    float result = 0;
    self->may_fail = true;
    for (int i = 0; i < 2; i++) {
        (void)run(self, &numbers, &result);
    }
    gpu_check_that(&self->check, self->failed == 1, "%d runs failed", self->failed);
    self->may_fail = false;
    self->failed = 0;
    fake_cuda_break(NULL, 0, 0);
    expect(self, "after a failure", (numbers_t){3, 4, 20, 21, 5}, 3, 4, true);
}

/* With pageable and with pinned memory behind the large variable. */
static void
check_all(bench_t *self, cadre_device_t *device, bool pinned)
{
    cadre_assert(
        cadre_slot_open(device, &(cadre_slot_options_t){.checks.poison = true}, &self->slot) == 0);
    self->program = make_program("sums");
    self->a = cadre_calloc(SMALL, sizeof(float));
    self->b =
        pinned ? cadre_device_memory_new(device, LARGE_BYTES) : cadre_calloc(LARGE, sizeof(float));
    check_versions(self);
    check_plans(self);
    check_faults(self);
    free(self->a);
    if (pinned) {
        cadre_device_memory_free(device, self->b);
    } else {
        free(self->b);
    }
    cadre_program_destroy(&self->program);
    cadre_slot_close(&self->slot);
}

int
main(void)
{
    bench_t self = {0};
    cadre_device_options_t options = {.name = "cuda:0", .threads = 1};
    cadre_device_t *device = NULL;
    cadre_assert(cadre_device_open_functions(cadre_device_module()->functions, &options, &device) ==
                 0);
    for (int pinned = 0; pinned < 2; pinned++) {
        check_all(&self, device, pinned);
    }
    cadre_device_close(&device);
    printf("%d checks, %d failures\n", self.check.checks, self.check.failures);
    return self.check.failures > 0;
}
