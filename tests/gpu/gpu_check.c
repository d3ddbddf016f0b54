#include "tests/gpu/gpu_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/tensor/bf16.h"

void
gpu_check_that(gpu_check_t *self, bool right, const char *format, ...)
{
    self->checks++;
    if (right) {
        return;
    }
    self->failures++;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "FAILED: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
}

/* ---- cases ---- */

cadre_tensor_t
gpu_random(cadre_dtype_t dtype, const int64_t *shape, int rank, float low, float high)
{
    static uint64_t stream; /* another one each time */
    cadre_tensor_t tensor = {0};
    cadre_assert(cadre_tensor_init(&tensor, dtype, shape, rank) == 0);
    stream++;
    for (int64_t i = 0; i < cadre_tensor_count(&tensor); i++) {
        float number = low + (high - low) * cadre_random_uniform(11, stream, (uint64_t)i);
        if (dtype == CADRE_I32) {
            ((int32_t *)tensor.data)[i] = (int32_t)floorf(number);
        } else if (dtype == CADRE_BF16) {
            (void)cadre_bf16_from_f32(&number, (uint16_t *)tensor.data + i, 1);
        } else {
            ((float *)tensor.data)[i] = number;
        }
    }
    return tensor;
}

cadre_node_t
gpu_argument(gpu_case_t *self, cadre_program_t *program, cadre_tensor_t tensor)
{
    int index = 0;
    while (self->arguments[index].data) {
        index++;
    }
    cadre_assert(index < GPU_CHECK_ARGUMENTS_MAX);
    self->arguments[index] = tensor;
    char name[8];
    snprintf(name, sizeof(name), "a%d", index);
    cadre_dim_t dims[CADRE_PROGRAM_RANK_MAX];
    for (int i = 0; i < tensor.rank; i++) {
        dims[i] = cadre_dim(tensor.shape[i]);
    }
    return cadre_op_arg(program, name, tensor.dtype, dims, tensor.rank);
}

void
gpu_case_init(gpu_case_t *self, cadre_program_t *program)
{
    if (cadre_program_finish(program) < 0) {
        fprintf(stderr, "a case that is no program: %s\n", cadre_error_text());
        abort();
    }
    self->program = program;
    cadre_assert(cadre_program_variable_count(program) <= GPU_CHECK_VARIABLES_MAX);
    for (int i = 0; i < cadre_program_variable_count(program); i++) {
        const cadre_program_variable_t *variable = cadre_program_variable(program, i);
        cadre_tensor_t tensor = gpu_random(CADRE_F32, variable->shape, variable->rank, -0.5F, 0.5F);
        self->variables[i] = tensor.data;
    }
}

void
gpu_case_fini(gpu_case_t *self)
{
    for (int i = 0; i < GPU_CHECK_ARGUMENTS_MAX; i++) {
        cadre_tensor_fini(&self->arguments[i]);
    }
    for (int i = 0; i < GPU_CHECK_VARIABLES_MAX; i++) {
        free(self->variables[i]);
    }
    cadre_program_destroy(&self->program);
    *self = (gpu_case_t){0};
}

int64_t
gpu_variable_count(const cadre_program_t *program, int index)
{
    const cadre_program_variable_t *variable = cadre_program_variable(program, index);
    int64_t count = 1;
    for (int i = 0; i < variable->rank; i++) {
        count *= variable->shape[i];
    }
    return count;
}

int64_t
gpu_push_count(const cadre_program_t *program, int index)
{
    return gpu_variable_count(program, cadre_program_push(program, index)->variable);
}

int
gpu_case_run(const gpu_case_t *self, cadre_slot_t *slot, uint64_t seed, gpu_outcome_t *outcome)
{
    *outcome = (gpu_outcome_t){0};
    for (int i = 0; i < cadre_program_push_count(self->program); i++) {
        size_t size_bytes = (size_t)gpu_push_count(self->program, i) * sizeof(float);
        outcome->gradients[i] = cadre_aligned_alloc(size_bytes + 1);
        memset(outcome->gradients[i], 0xff, size_bytes);
    }
    cadre_slot_run_t run = {.program = self->program,
                            .arguments = self->arguments,
                            .argument_count = cadre_program_argument_count(self->program),
                            .variables = (const void *const *)self->variables,
                            .seed = seed,
                            .gradients = (void *const *)outcome->gradients,
                            .results = outcome->results};
    return cadre_slot_run(slot, &run);
}

void
gpu_outcome_fini(const gpu_case_t *self, gpu_outcome_t *outcome)
{
    for (int i = 0; i < cadre_program_result_count(self->program); i++) {
        cadre_tensor_fini(&outcome->results[i]);
    }
    for (int i = 0; i < cadre_program_push_count(self->program); i++) {
        free(outcome->gradients[i]);
    }
}

/* ---- comparing ---- */

/* The largest of the finite ones. */
static float
largest(const float *numbers, int64_t count)
{
    float result = 0;
    for (int64_t i = 0; i < count; i++) {
        float size = fabsf(numbers[i]);
        result = isfinite(size) && size > result ? size : result;
    }
    return result;
}

int64_t
gpu_check_compare(const float *got, const float *want, int64_t count)
{
    float allowed = fmaxf(GPU_CHECK_TOLERANCE * largest(want, count), GPU_CHECK_TINY);
    for (int64_t i = 0; i < count; i++) {
        bool both_nan = isnan(got[i]) && isnan(want[i]);
        bool close = isfinite(got[i]) && isfinite(want[i]) && fabsf(got[i] - want[i]) <= allowed;
        if (got[i] != want[i] && !both_nan && !close) {
            return i;
        }
    }
    return -1;
}

typedef struct {
    const char *name;
    const char *kind;
    int index;
} place_t;

static void
compare_f32(gpu_check_t *self, const place_t *place, const float *got, const float *want,
            int64_t count)
{
    int64_t at = gpu_check_compare(got, want, count);
    int64_t shown = at < 0 ? 0 : at;
    gpu_check_that(self, at < 0, "%s: %s %d at %lld of %lld: %.9g, the CPU has %.9g", place->name,
                   place->kind, place->index, (long long)at, (long long)count,
                   count ? (double)got[shown] : 0, count ? (double)want[shown] : 0);
}

static void
compare_i32(gpu_check_t *self, const place_t *place, const int32_t *got, const int32_t *want,
            int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (got[i] != want[i]) {
            gpu_check_that(self, false, "%s: %s %d at %lld: %d, the CPU has %d", place->name,
                           place->kind, place->index, (long long)i, got[i], want[i]);
            return;
        }
    }
    gpu_check_that(self, true, "-");
}

static void
compare(gpu_check_t *self, const char *name, const gpu_case_t *one, const gpu_outcome_t *got,
        const gpu_outcome_t *want)
{
    for (int i = 0; i < cadre_program_result_count(one->program); i++) {
        place_t place = {name, "result", i};
        const cadre_tensor_t *tensor = &want->results[i];
        int64_t count = cadre_tensor_count(tensor);
        if (tensor->dtype == CADRE_I32) {
            compare_i32(self, &place, got->results[i].data, tensor->data, count);
        } else if (tensor->dtype == CADRE_BF16) {
            gpu_check_that(self, memcmp(got->results[i].data, tensor->data, (size_t)count * 2) == 0,
                           "%s: result %d has other bits than on the CPU", name, i);
        } else {
            compare_f32(self, &place, got->results[i].data, tensor->data, count);
        }
    }
    for (int i = 0; i < cadre_program_push_count(one->program); i++) {
        place_t place = {name, "gradient", i};
        compare_f32(self, &place, got->gradients[i], want->gradients[i],
                    gpu_push_count(one->program, i));
    }
}

/* The same bits in each run of the device. */
static bool
same(const gpu_case_t *one, const gpu_outcome_t *left, const gpu_outcome_t *right)
{
    for (int i = 0; i < cadre_program_result_count(one->program); i++) {
        if (memcmp(left->results[i].data, right->results[i].data,
                   cadre_tensor_size_bytes(&left->results[i])) != 0) {
            return false;
        }
    }
    for (int i = 0; i < cadre_program_push_count(one->program); i++) {
        if (memcmp(left->gradients[i], right->gradients[i],
                   (size_t)gpu_push_count(one->program, i) * sizeof(float)) != 0) {
            return false;
        }
    }
    return true;
}

static void
run_on_device(gpu_check_t *self, const gpu_case_t *one, const gpu_outcome_t *want, int runs)
{
    const char *name = one->name;
    for (int variant = 0; variant < 2; variant++) {
        cadre_slot_options_t options = {.checks.poison = true, .checks.no_graph = variant == 1};
        cadre_slot_t *slot = NULL;
        int status = cadre_slot_open(self->device, &options, &slot);
        gpu_check_that(self, status == 0, "%s: a slot: %s", name, cadre_error_text());
        gpu_outcome_t first = {0};
        for (int run = 0; run < runs && status == 0; run++) {
            gpu_outcome_t got;
            status = gpu_case_run(one, slot, 5, &got);
            gpu_check_that(self, status == 0, "%s, run %d: %s", name, run, cadre_error_text());
            if (status == 0 && run == 0) {
                compare(self, name, one, &got, want);
                first = got;
                continue;
            }
            gpu_check_that(self, status < 0 || same(one, &got, &first),
                           "%s: run %d has other bits than the first", name, run);
            gpu_outcome_fini(one, &got);
        }
        gpu_outcome_fini(one, &first);
        cadre_slot_close(&slot);
    }
}

void
gpu_check_case(gpu_check_t *self, gpu_case_t *one, int runs)
{
    const char *name = one->name;
    cadre_slot_t *slot = NULL;
    gpu_outcome_t want;
    if (self->cases++ % (self->every > 1 ? self->every : 1) != 0) {
        gpu_case_fini(one);
        return;
    }
    cadre_assert(cadre_slot_open(self->cpu, NULL, &slot) == 0);
    int status = gpu_case_run(one, slot, 5, &want);
    gpu_check_that(self, status == 0, "%s on the CPU: %s", name, cadre_error_text());
    if (status == 0) {
        run_on_device(self, one, &want, runs);
    }
    gpu_outcome_fini(one, &want);
    cadre_slot_close(&slot);
    gpu_case_fini(one);
}
