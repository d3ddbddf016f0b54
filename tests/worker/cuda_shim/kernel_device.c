#include "tests/worker/cuda_shim/kernel_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"
#include "worker/device/blas.h"
#include "worker/device/cpu.h"
#include "worker/device/cuda/indexes.h"
#include "worker/device/cuda/steps.h"

enum { SHIFT = 4, ALIGNMENT = 256 };

/* Memory of its own, poisoned. */
typedef struct {
    char *block;
    char *data;
} memory_t;

typedef struct {
    const cadre_slot_run_t *run;
    const kernel_mode_t *mode;
    cadre_plan_t *plan;
    memory_t *values; /* of roots */
    memory_t arena;
    uint64_t seed;
    int32_t fault;
} machine_t;

/* `shift`: bytes by which the memory is off its alignment. */
static memory_t
memory_new(size_t size_bytes, size_t shift)
{
    memory_t memory = {0};
    int status =
        posix_memalign((void **)&memory.block, ALIGNMENT, size_bytes + shift + (size_bytes == 0));
    cadre_assert(status == 0);
    memory.data = memory.block + shift;
    memset(memory.data, 0xff, size_bytes);
    return memory;
}

static bool
is_outside(cadre_plan_place_kind_t kind)
{
    return kind == CADRE_PLACE_ARGUMENT || kind == CADRE_PLACE_VARIABLE ||
           kind == CADRE_PLACE_GRADIENT || kind == CADRE_PLACE_RESULT;
}

static void
place_values(machine_t *self)
{
    const cadre_plan_t *plan = self->plan;
    self->arena = memory_new(plan->arena_size_bytes, 0);
    self->values = cadre_calloc((size_t)plan->value_count, sizeof(*self->values));
    for (int32_t i = 0; i < plan->value_count; i++) {
        const cadre_plan_value_t *value = &plan->values[i];
        const cadre_plan_place_t *place = &value->place;
        if (value->root != i || place->kind == CADRE_PLACE_NONE) {
            continue;
        }
        if (place->kind == CADRE_PLACE_ARENA && self->mode->in_place) {
            self->values[i].data = self->arena.data + place->offset;
            continue;
        }
        bool shifted = self->mode->shifted && is_outside(place->kind);
        size_t width = cadre_dtype_size(value->dtype);
        self->values[i] = memory_new(value->size_bytes, shifted ? cadre_max_u64(width, SHIFT) : 0);
        const void *from =
            place->kind == CADRE_PLACE_ARGUMENT   ? self->run->arguments[place->index].data
            : place->kind == CADRE_PLACE_VARIABLE ? self->run->variables[place->index]
            : place->kind == CADRE_PLACE_CONSTANT ? plan->constants[place->index]
                                                  : NULL;
        if (from) {
            memcpy(self->values[i].data, from, value->size_bytes);
        }
    }
}

static void
free_values(machine_t *self)
{
    for (int32_t i = 0; i < self->plan->value_count; i++) {
        free(self->values[i].block);
    }
    free(self->values);
    free(self->arena.block);
}

/* The host side's on a GPU; it has no kernel of ours. */
static int
multiply_on_cpu(const cadre_cuda_operands_t *operands)
{
    cadre_operands_t step = {.step = operands->step,
                             .out = operands->out,
                             .out_data = operands->out_data,
                             .scratch = operands->scratch};
    memcpy(step.inputs, operands->inputs, sizeof(step.inputs));
    memcpy(step.data, operands->data, sizeof(step.data));
    return cadre_cpu_step(&step);
}

static int
run_step(machine_t *self, const cadre_plan_step_t *step)
{
    const cadre_plan_t *plan = self->plan;
    cadre_cuda_operands_t operands = {.step = step,
                                      .out = &plan->values[step->output],
                                      .seed = &self->seed,
                                      .fault = &self->fault};
    if (step->op == CADRE_STEP_CHAIN) {
        operands.chain = &plan->chains[step->chain];
    }
    operands.out_data = self->values[operands.out->root].data;
    for (int i = 0; i < step->input_count; i++) {
        operands.inputs[i] = &plan->values[step->inputs[i]];
        operands.data[i] = self->values[operands.inputs[i]->root].data;
    }
    size_t scratch_size =
        cadre_cuda_scratch_size_bytes(&operands) + cadre_cpu_scratch_size_bytes(plan, step);
    memory_t scratch = memory_new(scratch_size, 0);
    operands.scratch = scratch.data;
    int status =
        step->op == CADRE_OP_MATMUL ? multiply_on_cpu(&operands) : cadre_cuda_step(&operands, NULL);
    free(scratch.block);
    if (status == 0 && self->fault) {
        return cadre_cuda_refuse_computed(self->fault);
    }
    return status;
}

static int
copy_outputs(const machine_t *self)
{
    const cadre_plan_t *plan = self->plan;
    for (int i = 0; i < cadre_program_push_count(self->run->program); i++) {
        int32_t node = cadre_program_push(self->run->program, i)->node;
        memcpy(self->run->gradients[i], self->values[plan->values[node].root].data,
               plan->values[node].size_bytes);
    }
    for (int i = 0; i < plan->result_count; i++) {
        const cadre_plan_value_t *value = &plan->values[plan->results[i]];
        int status =
            cadre_tensor_init(&self->run->results[i], value->dtype, value->shape, value->rank);
        if (status < 0) {
            return status;
        }
        memcpy(self->run->results[i].data, self->values[value->root].data, value->size_bytes);
    }
    return 0;
}

int
kernel_device_run(const cadre_slot_run_t *run, const kernel_mode_t *mode)
{
    int64_t symbol_values[CADRE_SYMBOLS_MAX] = {0};
    machine_t self = {.run = run, .mode = mode, .seed = run->seed};
    int status = cadre_program_bind(run->program, run->arguments, run->argument_count, CADRE_F32,
                                    symbol_values);
    const int rows_symbol = cadre_program_rows_symbol(run->program);
    if (rows_symbol >= 0) {
        symbol_values[rows_symbol] = run->rows;
    }
    status = status < 0 ? status : cadre_blas_load();
    if (status < 0) {
        return status;
    }
    unsigned flags =
        (mode->in_place ? CADRE_PLAN_REUSE : 0) | (mode->chains ? CADRE_PLAN_CHAINS : 0);
    status = cadre_plan_new(run->program, symbol_values, flags, &self.plan);
    if (status < 0) {
        return status;
    }
    place_values(&self);
    cadre_shim_set_order(mode->order, mode->order_seed);
    for (int i = 0; i < self.plan->step_count && status == 0; i++) {
        status = run_step(&self, &self.plan->steps[i]);
    }
    const char *fault = cadre_shim_take_fault();
    if (fault) {
        (void)fprintf(stderr, "shim: %s\n", fault);
    }
    status = status < 0 ? status : copy_outputs(&self);
    free_values(&self);
    cadre_plan_destroy(&self.plan);
    return status;
}
