/* The comparison itself: gradients that are wrong are found, however small they are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "tests/gpu/gpu_check.h"

/* The gradient times `factor`, at one place alone or everywhere. */
static void
check_scaled(gpu_check_t *self, const float *want, int64_t count, float factor, bool found)
{
    float *got = cadre_aligned_alloc((size_t)count * sizeof(float));
    int64_t top = 0;
    for (int64_t i = 0; i < count; i++) {
        got[i] = want[i] * factor;
        top = fabsf(want[i]) > fabsf(want[top]) ? i : top;
    }
    gpu_check_that(self, (gpu_check_compare(got, want, count) >= 0) == found,
                   "a gradient of %lld times %g is %s", (long long)count, (double)factor,
                   found ? "not found" : "called wrong");
    memcpy(got, want, (size_t)count * sizeof(float));
    got[top] = want[top] * factor;
    gpu_check_that(self, gpu_check_compare(got, want, count) == (found ? top : -1),
                   "an element of %lld times %g is %s", (long long)count, (double)factor,
                   found ? "not found" : "called wrong");
    free(got);
}

/* The gradient of a mean of squares, of which each element is some 1 / count. */
static void
check_gradient(gpu_check_t *self, const int64_t shape[2])
{
    gpu_case_t one = {0};
    cadre_slot_t *slot = NULL;
    gpu_outcome_t outcome;
    cadre_program_t *p = cadre_program_new("mean");
    cadre_node_t gradient;
    cadre_node_t x = gpu_argument(&one, p, gpu_random(CADRE_F32, shape, 2, -1, 1));
    cadre_op_gradient(p, cadre_op_mean_all(p, cadre_op_square(p, x)), &x, 1, &gradient);
    cadre_op_result(p, "g", gradient);
    gpu_case_init(&one, p);
    cadre_assert(cadre_slot_open(self->cpu, NULL, &slot) == 0);
    cadre_assert(gpu_case_run(&one, slot, 1, &outcome) == 0);
    const float *want = outcome.results[0].data;
    static const float wrong[] = {0, 0.99F, 1.01F, -1, NAN, INFINITY};
    for (size_t i = 0; i < CADRE_COUNT_OF(wrong); i++) {
        check_scaled(self, want, shape[0] * shape[1], wrong[i], true);
    }
    check_scaled(self, want, shape[0] * shape[1], 1, false);
    check_scaled(self, want, shape[0] * shape[1], 1 + 1e-6F, false);
    gpu_outcome_fini(&one, &outcome);
    cadre_slot_close(&slot);
    gpu_case_fini(&one);
}

void
gpu_check_compares(gpu_check_t *self)
{
    check_gradient(self, (int64_t[]){64, 256});
    check_gradient(self, (int64_t[]){1, 4097});
    static const float special[] = {NAN, INFINITY, -INFINITY, 1};
    static const float other[] = {NAN, INFINITY, INFINITY, 1};
    static const float zeros[] = {0, 0};
    static const float small[] = {0, 1e-9F};
    gpu_check_that(self, gpu_check_compare(special, special, 4) == -1, "NaN is not like itself");
    gpu_check_that(self, gpu_check_compare(other, special, 4) == 2, "an infinity has no sign");
    gpu_check_that(self, gpu_check_compare(zeros, zeros, 2) == -1, "zeros are not like zeros");
    gpu_check_that(self, gpu_check_compare(small, zeros, 2) == 1, "1e-9 is like zero");
}
