/*
 * compare - a program on the CPU device and by the CUDA kernels, in several orders of threads.
 */
#ifndef CADRE_TESTS_WORKER_CUDA_SHIM_COMPARE_H
#define CADRE_TESTS_WORKER_CUDA_SHIM_COMPARE_H

#include <math.h>
#include <string.h>

#include "common/graph/program_data.h"
#include "tests/sanitizer.h"
#include "tests/worker/cuda_shim/kernel_device.h"
#include "tests/worker/device/run_program.h"

/* With a sanitizer every second mode: it looks at memory, not at orders. */
enum { COMPARE_SEED = 9, COMPARE_STEP = SANITIZER ? 2 : 1 };

static const kernel_mode_t compare_modes[] = {
    {.order = CADRE_SHIM_FORWARD},
    {.order = CADRE_SHIM_BACKWARD, .in_place = true},
    {.order = CADRE_SHIM_RANDOM, .order_seed = 1, .shifted = true},
    {.order = CADRE_SHIM_RANDOM, .order_seed = 2, .in_place = true, .shifted = true},
    {.order = CADRE_SHIM_FORWARD, .in_place = true, .chains = true},
    {.order = CADRE_SHIM_RANDOM, .order_seed = 3, .chains = true, .shifted = true},
};

static inline void
compare_near(const cadre_tensor_t *got, const cadre_tensor_t *wanted, double tolerance)
{
    cr_assert_eq(got->dtype, wanted->dtype);
    cr_assert_eq(cadre_tensor_size_bytes(got), cadre_tensor_size_bytes(wanted));
    if (tolerance == 0) {
        cr_assert_eq(memcmp(got->data, wanted->data, cadre_tensor_size_bytes(wanted)), 0);
        return;
    }
    for (int64_t i = 0; i < cadre_tensor_count(wanted); i++) {
        double a = wanted->dtype == CADRE_F64 ? f64_at(got, i) : (double)f32_at(got, i);
        double b = wanted->dtype == CADRE_F64 ? f64_at(wanted, i) : (double)f32_at(wanted, i);
        bool same = (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tolerance * fmax(1, fabs(b));
        cr_assert(same, "at %d: %.9g, not %.9g", (int)i, a, b);
    }
}

/* Runs `p`, whose only result is `node`, on both; `p` is destroyed. Results are within `tolerance`
 * (relative above 1) of the CPU's, or its very bits when that is 0; those of the kernels have the
 * same bits in each order, as chains and one by one. Gives the CPU's status, which the kernels
 * share. */
static inline int
compare(cadre_program_t *p, cadre_node_t node, const cadre_tensor_t *arguments, double tolerance)
{
    cadre_op_result(p, "result", node);
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    cadre_tensor_t wanted = {0};
    cadre_tensor_t first = {0};
    cadre_slot_options_t options = {.checks.poison = true};
    cadre_slot_run_t run = {.program = p,
                            .arguments = arguments,
                            .argument_count = cadre_program_argument_count(p),
                            .seed = COMPARE_SEED,
                            .results = &wanted};
    runner_t runner = runner_open(&options);
    int status = cadre_slot_run(runner.slot, &run);
    runner_close(&runner);
    for (size_t i = 0; i < CADRE_COUNT_OF(compare_modes); i += COMPARE_STEP) {
        cadre_tensor_t got = {0};
        run.results = &got;
        cr_assert_eq(kernel_device_run(&run, &compare_modes[i]), status, "mode %d", (int)i);
        if (status < 0) {
            continue;
        }
        compare_near(&got, &wanted, tolerance);
        if (i == 0) {
            first = got;
            continue;
        }
        cr_assert_eq(memcmp(got.data, first.data, cadre_tensor_size_bytes(&got)), 0, "mode %d",
                     (int)i);
        cadre_tensor_fini(&got);
    }
    if (status == 0) {
        cadre_tensor_fini(&wanted);
        cadre_tensor_fini(&first);
    }
    cadre_program_destroy(&p);
    return status;
}

#endif
