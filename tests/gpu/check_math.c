/* Matrix products in each of the device's ways: how far they are from the CPU's f32. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/gpu/gpu_check.h"

/* Rounding a factor to 10 or 7 bits behind the leading one is off by 2^-12 or 2^-9 in the mean
 * square at most; a product has two, and its sum no more, relative to its size. */
static const struct {
    const char *name;
    double error_max;
} modes[] = {{"f32", 1e-6}, {"tf32", 1e-3}, {"bf16", 8e-3}};

/* A product, its gradients, and the same in a batch. */
static void
make_products(const gpu_check_t *self, gpu_case_t *one)
{
    int64_t size = self->scale ? 512 : 24;
    cadre_program_t *p = cadre_program_new("products");
    cadre_node_t x = gpu_argument(one, p, gpu_random(CADRE_F32, (int64_t[]){size, 200}, 2, -1, 1));
    cadre_node_t y =
        gpu_argument(one, p, gpu_random(CADRE_F32, (int64_t[]){3, 40, size}, 3, -1, 1));
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){200, 136}, 2);
    cadre_node_t product = cadre_op_matmul(p, x, w);
    cadre_op_result(p, "product", product);
    cadre_op_result(p, "batch", cadre_op_matmul_transposed(p, y, 0, y, 1));
    cadre_op_minimize(p, cadre_op_mean_all(p, cadre_op_square(p, product)));
    gpu_case_init(one, p);
}

/* The root of the mean square of the difference, relative to that of `want`. */
static double
distance(const float *got, const float *want, int64_t count)
{
    double off = 0;
    double size = 0;
    for (int64_t i = 0; i < count; i++) {
        double difference = (double)got[i] - (double)want[i];
        off += difference * difference;
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(off / size);
}

/* The largest of the three. */
static double
outcome_distance(const gpu_outcome_t *got, const gpu_outcome_t *want)
{
    double result = distance(got->gradients[0], want->gradients[0], (int64_t)200 * 136);
    for (int i = 0; i < 2; i++) {
        double off = distance(got->results[i].data, want->results[i].data,
                              cadre_tensor_count(&want->results[i]));
        result = off > result || isnan(off) ? off : result;
    }
    return result;
}

static void
run_once(gpu_check_t *self, cadre_device_t *device, const gpu_case_t *one, gpu_outcome_t *outcome)
{
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(device, NULL, &slot) == 0);
    int status = gpu_case_run(one, slot, 1, outcome);
    gpu_check_that(self, status == 0, "products on %s: %s", cadre_device_name(device),
                   cadre_error_text());
    cadre_assert(status == 0);
    cadre_slot_close(&slot);
}

static void
check_mode(gpu_check_t *self, size_t mode, const gpu_case_t *one, const gpu_outcome_t *want)
{
    const char *name = modes[mode].name;
    cadre_device_t *device = NULL;
    int status = self->open_math(name, &device);
    gpu_check_that(self, status == 0, "math %s: %s", name, cadre_error_text());
    if (status < 0) {
        return;
    }
    const char *shown = cadre_device_name(device);
    size_t length = strlen(shown);
    gpu_check_that(self, length > strlen(name) && strcmp(shown + length - strlen(name), name) == 0,
                   "with math %s the device is called %s", name, shown);
    gpu_outcome_t got;
    run_once(self, device, one, &got);
    double off = outcome_distance(&got, want);
    printf("  math %s: %.1e from the CPU's f32\n", name, off);
    gpu_check_that(self, off <= modes[mode].error_max, "math %s: %.1e from the CPU, not %.1e", name,
                   off, modes[mode].error_max);
    gpu_outcome_fini(one, &got);
    cadre_device_close(&device);
}

void
gpu_check_math(gpu_check_t *self)
{
    if (!self->open_math) {
        return; /* a device with one way only */
    }
    gpu_case_t one = {0};
    make_products(self, &one);
    gpu_outcome_t want;
    run_once(self, self->cpu, &one, &want);
    for (size_t mode = 0; mode < CADRE_COUNT_OF(modes); mode++) {
        check_mode(self, mode, &one, &want);
    }
    cadre_device_t *device = NULL;
    gpu_check_that(self, self->open_math("f16", &device) == CADRE_EINVALID,
                   "a device opens with math f16");
    gpu_outcome_fini(&one, &want);
    gpu_case_fini(&one);
}
