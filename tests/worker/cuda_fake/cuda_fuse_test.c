/*
 * Products with epilogues beside the same steps one by one, on the fake CUDA: any layers, whatever
 * of it cuBLAS offers; and numbers that an epilogue would lose. A plain program.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/gpu/gpu_check.h"
#include "tests/sanitizer.h"
#include "tests/worker/cuda_fake/fake_cuda.h"
#include "tests/worker/device/random_layers.h"
#include "worker/device/device_module.h"

enum {
    SEEDS = SANITIZER ? 100 : 300,
    WIDTH = 6,
    RELU = 2,
    MASKS = 128,
    SUMS = 16,
    FACTOR_SUMS = 512 | 256
};

static cadre_device_t *
open_device(void)
{
    cadre_device_options_t options = {.name = "cuda:0", .threads = 1};
    cadre_device_t *device = NULL;
    int status = cadre_device_open_functions(cadre_device_module()->functions, &options, &device);
    cadre_assert(status == 0);
    return device;
}

static cadre_slot_t *
open_slot(cadre_device_t *device, bool no_fusion, bool no_graph)
{
    cadre_slot_options_t options = {
        .checks.poison = true, .checks.no_fusion = no_fusion, .checks.no_graph = no_graph};
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(device, &options, &slot) == 0);
    return slot;
}

static void
make_layers(gpu_case_t *one, uint64_t seed)
{
    static const int64_t all_rows[] = {1, 2, 5, 9, 140};
    int64_t rows = all_rows[seed % 5];
    cadre_program_t *p = cadre_program_new("layers");
    cadre_tensor_t x = gpu_random(CADRE_F32, (int64_t[]){rows, WIDTH}, 2, -1, 1);
    random_layers(p, gpu_argument(one, p, x), rows, WIDTH, seed);
    gpu_case_init(one, p);
}

/* Dense layers 6 - 5 - 4 - 3 over 7 rows, relu in between. */
static void
make_mlp(gpu_case_t *one, bool biased)
{
    cadre_program_t *p = cadre_program_new("mlp");
    cadre_node_t h = gpu_argument(one, p, gpu_random(CADRE_F32, (int64_t[]){7, 6}, 2, -1, 1));
    for (int i = 0; i < 3; i++) {
        char name[8];
        int64_t shape[] = {6 - i, 5 - i};
        snprintf(name, sizeof(name), "w%d", i);
        cadre_node_t weight = cadre_op_var(p, name, shape, 2);
        snprintf(name, sizeof(name), "b%d", i);
        cadre_node_t none = {0};
        h = cadre_op_dense(p, h, weight, biased ? cadre_op_var(p, name, &shape[1], 1) : none);
        h = i < 2 ? cadre_op_relu(p, h) : h;
    }
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, h));
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    gpu_case_init(one, p);
}

/* ---- comparing ---- */

/* Sums of a bias's gradient have another order; all else is the same number. */
static bool
agree(float left, float right)
{
    return left == right || (isnan(left) && isnan(right)) ||
           fabsf(left - right) <= 1e-5F * fmaxf(fabsf(left), fabsf(right)) + 1e-8F;
}

static void
compare(gpu_check_t *self, const gpu_case_t *one, const gpu_outcome_t *left,
        const gpu_outcome_t *right, const char *what)
{
    for (int i = 0; i < cadre_program_push_count(one->program); i++) {
        int64_t bad = 0;
        for (int64_t k = 0; k < gpu_push_count(one->program, i); k++) {
            bad += !agree(left->gradients[i][k], right->gradients[i][k]);
        }
        gpu_check_that(self, bad == 0, "%s: gradient %d: %lld numbers differ", what, i,
                       (long long)bad);
    }
    for (int i = 0; i < cadre_program_result_count(one->program); i++) {
        const float *numbers = left->results[i].data;
        const float *others = right->results[i].data;
        int64_t bad = 0;
        for (int64_t k = 0; k < cadre_tensor_count(&left->results[i]); k++) {
            bad += !agree(numbers[k], others[k]);
        }
        gpu_check_that(self, bad == 0, "%s: result %d: %lld numbers differ", what, i,
                       (long long)bad);
    }
}

/* Runs the case on a slot that fuses, `runs` times, and compares each with `wanted`. */
static void
run_and_compare(gpu_check_t *self, const gpu_case_t *one, cadre_slot_t *slot, int runs,
                const gpu_outcome_t *wanted, const char *what)
{
    for (int run = 0; run < runs; run++) {
        gpu_outcome_t outcome;
        int status = gpu_case_run(one, slot, 5, &outcome);
        gpu_check_that(self, status == 0, "%s: %s", what, cadre_error_text());
        if (status == 0) {
            compare(self, one, &outcome, wanted, what);
        }
        gpu_outcome_fini(one, &outcome);
    }
}

/* Any of that refused by cuBLAS; the first run, the recorded one and those without a graph. */
static void
check_case(gpu_check_t *self, gpu_case_t *one, const char *what)
{
    static const int refused[] = {0, RELU, MASKS, SUMS, FACTOR_SUMS, RELU | SUMS, -1};
    cadre_slot_t *plain = open_slot(self->device, true, true);
    gpu_outcome_t wanted;
    cadre_assert(gpu_case_run(one, plain, 5, &wanted) == 0);
    for (size_t i = 0; i < CADRE_COUNT_OF(refused); i++) {
        char text[64];
        snprintf(text, sizeof(text), "%s without %d", what, refused[i]);
        fake_cublas_refuse(refused[i] & 0xfff & ~1);
        cadre_slot_t *slot = open_slot(self->device, false, i % 2 == 1);
        run_and_compare(self, one, slot, 3, &wanted, text);
        cadre_slot_close(&slot);
    }
    fake_cublas_refuse(0);
    gpu_outcome_fini(one, &wanted);
    cadre_slot_close(&plain);
}

static void
check_layers(gpu_check_t *self)
{
    int64_t passed = fake_limits_passed();
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        gpu_case_t one = {0};
        char what[32];
        make_layers(&one, seed);
        snprintf(what, sizeof(what), "seed %llu", (unsigned long long)seed);
        check_case(self, &one, what);
        gpu_case_fini(&one);
    }
    gpu_check_that(self, fake_limits_passed() == passed, "runs were done again");
}

/* ---- what runs ---- */

static fake_cublas_counts_t
counts_of_a_run(gpu_check_t *self, const gpu_case_t *one, cadre_slot_t *slot)
{
    fake_cublas_counts_t before = fake_cublas_counts();
    gpu_outcome_t outcome;
    int status = gpu_case_run(one, slot, 5, &outcome);
    gpu_check_that(self, status == 0, "%s", cadre_error_text());
    gpu_outcome_fini(one, &outcome);
    fake_cublas_counts_t after = fake_cublas_counts();
    return (fake_cublas_counts_t){.plain = after.plain - before.plain,
                                  .bias = after.bias - before.bias,
                                  .relu = after.relu - before.relu,
                                  .relu_mask = after.relu_mask - before.relu_mask,
                                  .drelu = after.drelu - before.drelu,
                                  .drelu_sum = after.drelu_sum - before.drelu_sum,
                                  .factor_sum = after.factor_sum - before.factor_sum};
}

static void
expect_counts(gpu_check_t *self, bool biased, int refused, fake_cublas_counts_t wanted)
{
    gpu_case_t one = {0};
    make_mlp(&one, biased);
    fake_cublas_refuse(refused);
    cadre_slot_t *slot = open_slot(self->device, false, false);
    fake_cublas_counts_t got = counts_of_a_run(self, &one, slot);
    gpu_check_that(self, memcmp(&got, &wanted, sizeof(got)) == 0,
                   "biased %d, without %d: %lld %lld %lld %lld %lld %lld %lld", biased, refused,
                   (long long)got.plain, (long long)got.bias, (long long)got.relu,
                   (long long)got.relu_mask, (long long)got.drelu, (long long)got.drelu_sum,
                   (long long)got.factor_sum);
    fake_cublas_refuse(0);
    cadre_slot_close(&slot);
    gpu_case_fini(&one);
}

/* Three products forward, two of gradients by activations, three of those by weights. */
static void
check_counts(gpu_check_t *self)
{
    typedef fake_cublas_counts_t counts_t;
    expect_counts(
        self, true, 0,
        (counts_t){.plain = 2, .bias = 1, .relu_mask = 2, .drelu_sum = 2, .factor_sum = 1});
    expect_counts(self, false, 0, (counts_t){.plain = 4, .relu_mask = 2, .drelu = 2});
    expect_counts(self, true, MASKS, (counts_t){.plain = 4, .bias = 1, .relu = 2, .factor_sum = 1});
    expect_counts(self, true, RELU, (counts_t){.plain = 4, .bias = 3, .factor_sum = 1});
    expect_counts(self, true, SUMS,
                  (counts_t){.plain = 2, .bias = 1, .relu_mask = 2, .drelu = 2, .factor_sum = 1});
}

/* ---- numbers that an epilogue would lose ---- */

typedef struct {
    const char *what;
    int variable; /* -1: the argument */
    float number;
    float other; /* in another place of the same row, 0: none */
    bool again;  /* the run is done again step by step */
} strange_t;

static void
check_strange(gpu_check_t *self, const strange_t *strange)
{
    gpu_case_t one = {0};
    make_mlp(&one, true);
    float *numbers =
        strange->variable < 0 ? one.arguments[0].data : one.variables[strange->variable];
    cadre_slot_t *plain = open_slot(self->device, true, true);
    cadre_slot_t *slot = open_slot(self->device, false, false);
    gpu_outcome_t wanted;
    (void)counts_of_a_run(self, &one, slot);
    float before = numbers[1];
    numbers[1] = strange->number;
    numbers[2] = strange->other != 0 ? strange->other : numbers[2];
    cadre_assert(gpu_case_run(&one, plain, 5, &wanted) == 0);
    run_and_compare(self, &one, slot, 2, &wanted, strange->what);
    gpu_outcome_fini(&one, &wanted);
    numbers[1] = before;
    fake_cublas_counts_t counts = counts_of_a_run(self, &one, slot);
    gpu_check_that(self, (counts.relu_mask == 0) == strange->again, "%s: %lld relus afterwards",
                   strange->what, (long long)counts.relu_mask);
    cadre_slot_close(&slot);
    cadre_slot_close(&plain);
    gpu_case_fini(&one);
}

/* Variables are w0 b0 w1 b1 w2 b2. Whatever comes out of it, it is what comes out step by step. */
static void
check_strange_numbers(gpu_check_t *self)
{
    static const strange_t all[] = {
        {"NaN in x", -1, NAN, 0, true},
        {"infinity in x", -1, INFINITY, 0, true},
        {"sums that become NaN", -1, 3e38F, -3e38F, true},
        {"2^30 in x", -1, 0x1p30F, 0, false},
        {"-2^30 in x", -1, -0x1p30F, 0, false},
        {"above 2^30 in x", -1, 0x1.000002p30F, 0, true},
        {"NaN in w0", 0, NAN, 0, true},
        {"infinity in w0", 0, -INFINITY, 0, true},
        {"4096 in w0", 0, 4096, 0, false},
        {"above 4096 in w0", 0, -4096.01F, 0, true},
        {"NaN in b0", 1, NAN, 0, true},
        {"-infinity in b0", 1, -INFINITY, 0, true},
        {"NaN in w1", 2, NAN, 0, true},
        {"NaN in b1", 3, NAN, 0, true},
        {"NaN in w2", 4, NAN, 0, true},
        {"above 4096 in w2", 4, 5000, 0, true},
        {"NaN in b2", 5, NAN, 0, true},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(all); i++) {
        check_strange(self, &all[i]);
    }
}

/* Activations that grow until they overflow, from factors that are all within their limits. */
static void
check_growth(gpu_check_t *self)
{
    enum { LAYERS = 10, SIDE = 4 };
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("deep");
    cadre_node_t h = gpu_argument(&one, p, gpu_random(CADRE_F32, (int64_t[]){3, SIDE}, 2, 0, 1));
    for (int i = 0; i < LAYERS; i++) {
        char name[8];
        snprintf(name, sizeof(name), "w%d", i);
        h = cadre_op_relu(p,
                          cadre_op_matmul(p, h, cadre_op_var(p, name, (int64_t[]){SIDE, SIDE}, 2)));
    }
    cadre_op_result(p, "h", h);
    gpu_case_init(&one, p);
    for (int i = 0; i < LAYERS; i++) {
        for (int k = 0; k < SIDE * SIDE; k++) {
            one.variables[i][k] = i == LAYERS - 1 && k / SIDE % 2 ? -4096 : 4096;
        }
    }
    for (int k = 0; k < SIDE; k++) {
        ((float *)one.arguments[0].data)[k] = 0x1p30F;
    }
    cadre_slot_t *plain = open_slot(self->device, true, true);
    cadre_slot_t *slot = open_slot(self->device, false, false);
    gpu_outcome_t wanted;
    cadre_assert(gpu_case_run(&one, plain, 5, &wanted) == 0);
    run_and_compare(self, &one, slot, 3, &wanted, "overflow");
    gpu_outcome_fini(&one, &wanted);
    cadre_slot_close(&slot);
    cadre_slot_close(&plain);
    gpu_case_fini(&one);
}

int
main(void)
{
    gpu_check_t self = {0};
    self.device = open_device();
    check_counts(&self);
    check_strange_numbers(&self);
    check_growth(&self);
    check_layers(&self);
    cadre_device_close(&self.device);
    fake_cuda_count_t left = fake_cuda_count();
    gpu_check_that(&self, left.objects == 0 && left.device_bytes == 0 && left.pinned_bytes == 0,
                   "%lld objects, %zu and %zu bytes stay", (long long)left.objects,
                   left.device_bytes, left.pinned_bytes);
    printf("%d checks, %d failures\n", self.checks, self.failures);
    return self.failures > 0;
}
