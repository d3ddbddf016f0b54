/*
 * run_program - runs a program on a fresh slot, for the tests of this folder.
 */
#ifndef CADRE_TESTS_WORKER_DEVICE_RUN_PROGRAM_H
#define CADRE_TESTS_WORKER_DEVICE_RUN_PROGRAM_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "worker/device/device.h"

enum { RUN_VARIABLES_MAX = 16 };

/* A device with one slot. */
typedef struct {
    cadre_device_t *device;
    cadre_slot_t *slot;
} runner_t;

static inline runner_t
runner_open(const cadre_slot_options_t *options)
{
    runner_t runner = {0};
    cr_assert_eq(cadre_device_open("cpu", 1, &runner.device), 0);
    cr_assert_eq(cadre_slot_open(runner.device, options, &runner.slot), 0);
    return runner;
}

static inline void
runner_close(runner_t *runner)
{
    cadre_slot_close(&runner->slot);
    cadre_device_close(&runner->device);
}

/* A tensor with numbers of a random stream in -1 to 1, those of bf16 cut to its bits and those of
 * f64 with bits that f32 has not; for i32 in 0 to 3, for i64 up to 2^60 with either sign. */
static inline cadre_tensor_t
random_tensor(cadre_dtype_t dtype, const int64_t *shape, int rank, uint64_t stream)
{
    cadre_tensor_t tensor = {0};
    cr_assert_eq(cadre_tensor_init(&tensor, dtype, shape, rank), 0);
    int64_t count = cadre_tensor_count(&tensor);
    for (int64_t i = 0; i < count; i++) {
        float value = cadre_random_uniform(3, stream, (uint64_t)i);
        float number = 2 * value - 1;
        if (dtype == CADRE_F32) {
            ((float *)tensor.data)[i] = number;
        } else if (dtype == CADRE_BF16) {
            uint32_t word = 0;
            memcpy(&word, &number, sizeof(word));
            ((uint16_t *)tensor.data)[i] = (uint16_t)(word >> 16);
        } else if (dtype == CADRE_F64) {
            ((double *)tensor.data)[i] = (double)number * (1 + 0x1p-40);
        } else if (dtype == CADRE_I64) {
            ((int64_t *)tensor.data)[i] = (int64_t)((double)number * 0x1p60) + i;
        } else {
            ((int32_t *)tensor.data)[i] = (int32_t)(value * 4);
        }
    }
    return tensor;
}

/* Finishes `p`, runs it once with `arguments` in poisoned memory, without variables, and gives its
 * only result; `p` is destroyed. */
static inline int
try_once(cadre_program_t *p, const cadre_tensor_t *arguments, cadre_tensor_t *result)
{
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    cadre_slot_options_t options = {.checks.poison = true};
    runner_t runner = runner_open(&options);
    cadre_slot_run_t run = {.program = p,
                            .arguments = arguments,
                            .argument_count = cadre_program_argument_count(p),
                            .seed = 9,
                            .results = result};
    int status = cadre_slot_run(runner.slot, &run);
    runner_close(&runner);
    cadre_program_destroy(&p);
    return status;
}

static inline cadre_tensor_t
run_once(cadre_program_t *p, cadre_node_t node, const cadre_tensor_t *arguments)
{
    cadre_tensor_t result = {0};
    cadre_op_result(p, "result", node);
    cr_assert_eq(try_once(p, arguments, &result), 0, "%s", cadre_error_text());
    return result;
}

/* An argument of the tensor's own type and shape. */
static inline cadre_node_t
arg_like(cadre_program_t *p, const char *name, const cadre_tensor_t *tensor)
{
    cadre_dim_t dims[CADRE_PROGRAM_RANK_MAX];
    for (int i = 0; i < tensor->rank; i++) {
        dims[i] = cadre_dim(tensor->shape[i]);
    }
    return cadre_op_arg(p, name, tensor->dtype, dims, tensor->rank);
}

static inline float
f32_at(const cadre_tensor_t *tensor, int64_t index)
{
    return ((const float *)tensor->data)[index];
}

/* Of a tensor of bf16. */
static inline float
bf16_at(const cadre_tensor_t *tensor, int64_t index)
{
    uint32_t word = (uint32_t)((const uint16_t *)tensor->data)[index] << 16;
    float number = 0;
    memcpy(&number, &word, sizeof(number));
    return number;
}

static inline double
f64_at(const cadre_tensor_t *tensor, int64_t index)
{
    return ((const double *)tensor->data)[index];
}

static inline int64_t
i64_at(const cadre_tensor_t *tensor, int64_t index)
{
    return ((const int64_t *)tensor->data)[index];
}

static inline int32_t
i32_at(const cadre_tensor_t *tensor, int64_t index)
{
    return ((const int32_t *)tensor->data)[index];
}

#endif
