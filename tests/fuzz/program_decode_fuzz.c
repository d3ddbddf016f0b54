/*
 * Programs as untrusted bytes: decoding refuses or accepts, never more. What it accepts is encoded
 * to the same bytes again, can be planned, as one over rows of its variables too, and, where it is
 * small, runs within its memory.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/graph/row_program.h"
#include "worker/device/device.h"
#include "worker/device/plan.h"

enum { SYMBOL_VALUE = 2, SIZE_MAX_TO_RUN = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

/* Bytes of all values together, or more than is run here. */
static size_t
total_size(const cadre_plan_t *plan)
{
    size_t total = 0;
    for (int i = 0; i < plan->value_count && total <= SIZE_MAX_TO_RUN; i++) {
        total += plan->values[i].size_bytes;
    }
    return total;
}

/* Zeroed memory of exactly the size of a node's value, so that a sanitizer sees its end. */
static void *
memory_of(const cadre_plan_t *plan, int32_t node)
{
    return cadre_calloc(plan->values[node].size_bytes, 1);
}

/* Of every other program the positions are of all kinds, so that reading at one that is none would
 * leave the memory; of the others they are 0, which most programs run with. */
static void
fill_positions(const cadre_program_t *program, const cadre_tensor_t *tensor)
{
    if (tensor->dtype != CADRE_I32 || cadre_program_hash(program) % 2 == 0) {
        return;
    }
    int32_t *positions = tensor->data;
    for (int64_t i = 0; i < cadre_tensor_count(tensor); i++) {
        positions[i] = (int32_t)(((uint64_t)i * 7 + cadre_program_hash(program) / 2) % 5) - 1;
    }
}

static void
run(const cadre_program_t *program, const cadre_plan_t *plan)
{
    cadre_tensor_t arguments[CADRE_ARGUMENTS_MAX] = {0};
    cadre_tensor_t results[CADRE_RESULTS_MAX] = {0};
    int argument_count = cadre_program_argument_count(program);
    int variable_count = cadre_program_variable_count(program);
    int push_count = cadre_program_push_count(program);
    for (int i = 0; i < argument_count; i++) {
        int32_t node = cadre_program_argument(program, i)->node;
        const cadre_plan_value_t *value = &plan->values[node];
        arguments[i] = (cadre_tensor_t){
            .dtype = value->dtype, .rank = value->rank, .data = memory_of(plan, node)};
        memcpy(arguments[i].shape, value->shape, sizeof(value->shape));
        fill_positions(program, &arguments[i]);
    }
    void **variables = cadre_calloc((size_t)variable_count, sizeof(*variables));
    void **gradients = cadre_calloc((size_t)push_count, sizeof(*gradients));
    for (int i = 0; i < variable_count; i++) {
        variables[i] = memory_of(plan, cadre_program_variable(program, i)->node);
    }
    for (int i = 0; i < push_count; i++) {
        gradients[i] = memory_of(plan, cadre_program_push(program, i)->node);
    }
    cadre_device_t *device = NULL;
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_device_open("cpu", 1, &device) == 0);
    cadre_assert(cadre_slot_open(device, NULL, &slot) == 0);
    cadre_slot_run_t request = {.program = program,
                                .arguments = arguments,
                                .argument_count = argument_count,
                                .variables = (const void *const *)variables,
                                .gradients = gradients,
                                .results = results};
    if (cadre_slot_run(slot, &request) == 0) {
        for (int i = 0; i < cadre_program_result_count(program); i++) {
            cadre_tensor_fini(&results[i]);
        }
    }
    cadre_slot_close(&slot);
    cadre_device_close(&device);
    for (int i = 0; i < argument_count; i++) {
        free(arguments[i].data);
    }
    for (int i = 0; i < variable_count; i++) {
        free(variables[i]);
    }
    for (int i = 0; i < push_count; i++) {
        free(gradients[i]);
    }
    free(variables);
    free(gradients);
}

/* Rewrites the program to one over rows of its variables, which can be planned as well. */
static void
rewrite(const cadre_program_t *program)
{
    bool may[CADRE_PROGRAM_VARIABLES_MAX];
    memset(may, true, sizeof(may));
    cadre_row_program_t *rows = NULL;
    cadre_assert(cadre_row_program_new(program, may, &rows) == 0);
    int64_t symbol_values[CADRE_SYMBOLS_MAX];
    for (int i = 0; i < CADRE_SYMBOLS_MAX; i++) {
        symbol_values[i] = SYMBOL_VALUE;
    }
    cadre_plan_t *plan = NULL;
    if (rows && cadre_plan_new(rows->program, symbol_values, CADRE_PLAN_REUSE, &plan) == 0) {
        cadre_plan_destroy(&plan);
    }
    cadre_row_program_destroy(&rows);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    cadre_program_t *program = NULL;
    if (cadre_program_decode(bytes, size_bytes, &program) < 0) {
        return 0;
    }
    size_t again_size_bytes = 0;
    const uint8_t *again = cadre_program_bytes(program, &again_size_bytes);
    cadre_assert(again_size_bytes == size_bytes && memcmp(again, bytes, size_bytes) == 0);
    int64_t symbol_values[CADRE_SYMBOLS_MAX];
    for (int i = 0; i < CADRE_SYMBOLS_MAX; i++) {
        symbol_values[i] = SYMBOL_VALUE;
    }
    cadre_plan_t *plan = NULL;
    if (cadre_plan_new(program, symbol_values, CADRE_PLAN_REUSE | CADRE_PLAN_CHAINS, &plan) == 0) {
        if (total_size(plan) <= SIZE_MAX_TO_RUN) {
            run(program, plan);
        }
        cadre_plan_destroy(&plan);
    }
    rewrite(program);
    cadre_program_destroy(&program);
    return 0;
}
