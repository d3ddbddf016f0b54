#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/device/blas.h"
#include "worker/device/cpu.h"
#include "worker/device/cpu_trial.h"
#include "worker/device/device_module.h"

enum { ALIGNMENT = 64, NAME_SIZE = 40 };

static const size_t memory_size_default = (size_t)16 << 30;

typedef struct {
    cadre_cpu_pool_t *pool;
    char name[NAME_SIZE]; /* "cpu SkylakeX" */
} cpu_t;

typedef struct {
    cadre_slot_options_t options;
    cadre_cpu_pool_t *pool; /* the device's */
    char *arena;
    size_t arena_size_bytes;
} cpu_slot_t;

/* Opens the CPU as a device: loads OpenBLAS, sets its threads, multiplies once to see that it gets
 * its memory, and starts the threads that share loops. */
static int
cpu_open(const cadre_device_request_t *request, void **device)
{
    int status = cadre_blas_load();
    if (status < 0) {
        return status;
    }

    cadre_blas_set_threads(request->threads);
    status = cadre_cpu_trial(CADRE_BLAS_TRIAL_MS);
    if (status < 0) {
        return status;
    }
    cpu_t *self = cadre_calloc(1, sizeof(*self));
    self->pool = cadre_cpu_pool_new(request->threads);
    snprintf(self->name, sizeof(self->name), "cpu %s", cadre_blas_kernels());
    *device = self;
    return 0;
}

static void
cpu_close(void *device)
{
    cpu_t *self = device;
    cadre_cpu_pool_destroy(&self->pool);
    free(self);
}

static const char *
cpu_name(const void *device)
{
    const cpu_t *self = device;
    return self->name;
}

static void *
cpu_memory_new(void *device, size_t size_bytes)
{
    (void)device;
    return cadre_aligned_alloc(size_bytes);
}

static void
cpu_memory_free(void *device, void *memory)
{
    (void)device;
    free(memory);
}

/* Allocates memory of the device, which for the CPU is host memory. */
static int
cpu_buffer_new(void *device, size_t size_bytes, void **buffer)
{
    *buffer = cpu_memory_new(device, size_bytes);
    return 0;
}

static int
cpu_buffer_write(void *device, void *buffer, const void *from, size_t size_bytes)
{
    (void)device;
    memcpy(buffer, from, size_bytes);
    return 0;
}

static int
cpu_buffer_read(void *device, const void *buffer, void *to, size_t size_bytes)
{
    (void)device;
    memcpy(to, buffer, size_bytes);
    return 0;
}

/* Opens a slot, whose arena is allocated when the first plan is prepared. */
static int
cpu_slot_open(void *device, const cadre_slot_options_t *options, void **slot)
{
    cpu_slot_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    self->pool = ((cpu_t *)device)->pool;
    if (self->options.memory_size_max == 0) {
        self->options.memory_size_max = memory_size_default;
    }
    *slot = self;
    return 0;
}

static void
cpu_slot_close(void *slot)
{
    cpu_slot_t *self = slot;
    free(self->arena);
    free(self);
}

static size_t
cpu_arena_size_bytes(const void *slot)
{
    const cpu_slot_t *self = slot;
    return self->arena_size_bytes;
}

static void *
cpu_stream(void *slot)
{
    (void)slot;
    return NULL;
}

/* Makes room for `size_bytes` of arena and scratch memory. The room only grows; its content means
 * nothing between runs, so it is freed before a larger one is allocated. */
static int
reserve(cpu_slot_t *self, size_t size_bytes)
{
    if (size_bytes > self->options.memory_size_max) {
        return cadre_fail(CADRE_ENOMEMORY, "the program needs %zu bytes, the limit is %zu",
                          size_bytes, self->options.memory_size_max);
    }
    if (size_bytes <= self->arena_size_bytes) {
        return 0;
    }
    free(self->arena);
    self->arena_size_bytes = 0;
    self->arena = aligned_alloc(ALIGNMENT, size_bytes);
    if (!self->arena) {
        return cadre_fail(CADRE_ENOMEMORY, "no %zu bytes for the program", size_bytes);
    }
    self->arena_size_bytes = size_bytes;
    return 0;
}

/* Returns the bytes of the plan's arena (a multiple of the alignment, as arena.h promises) and of
 * the scratch memory of the step that needs most. */
static size_t
needed_size(const cadre_plan_t *plan)
{
    size_t scratch_size = 0;
    for (int at = 0; at < plan->step_count; at++) {
        size_t size_bytes = cadre_cpu_scratch_size_bytes(plan, &plan->steps[at]);
        scratch_size = size_bytes > scratch_size ? size_bytes : scratch_size;
    }
    return plan->arena_size_bytes + (scratch_size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Prepares a plan: reserves its memory. The CPU runs the plan as it is. */
static int
cpu_prepare(void *slot, const cadre_plan_t *plan, void **prepared)
{
    int status = reserve(slot, needed_size(plan));
    if (status == 0) {
        *prepared = (void *)(uintptr_t)plan;
    }
    return status;
}

static void
cpu_release(void *slot, void *prepared)
{
    (void)slot;
    (void)prepared;
}

/* Returns the memory of a place in a run: the caller's for arguments, variables, gradients and
 * results, the plan's for constants, the slot's arena for the rest. */
static void *
place_data(const cpu_slot_t *self, const cadre_plan_t *plan, const cadre_slot_run_t *run,
           cadre_plan_place_t place)
{
    switch (place.kind) {
    case CADRE_PLACE_ARGUMENT:
        return run->arguments[place.index].data;
    case CADRE_PLACE_VARIABLE: /* read only: no step has one as its output */
        return (void *)(uintptr_t)run->variables[place.index];
    case CADRE_PLACE_CONSTANT:
        return plan->constants[place.index];
    case CADRE_PLACE_ARENA:
        return self->arena + place.offset;
    case CADRE_PLACE_GRADIENT:
        return run->gradients[place.index];
    case CADRE_PLACE_RESULT:
        return run->results[place.index].data;
    case CADRE_PLACE_NONE:
        break;
    }
    cadre_assert(false);
    return NULL;
}

/* Returns the memory of a value in a run: that of its root, the value whose memory it shares. */
static void *
value_data(const cpu_slot_t *self, const cadre_plan_t *plan, const cadre_slot_run_t *run,
           int32_t value)
{
    return place_data(self, plan, run, plan->values[plan->values[value].root].place);
}

/* Runs the steps of a plan in order, each on the values where the plan has placed them; then copies
 * outputs that have another place. */
static int
run_steps(const cpu_slot_t *self, const cadre_plan_t *plan, const cadre_slot_run_t *run)
{
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_step_t *step = &plan->steps[at];
        cadre_operands_t operands;
        operands.step = step;
        operands.chain = step->op == CADRE_STEP_CHAIN ? &plan->chains[step->chain] : NULL;
        operands.seed = run->seed;
        operands.scratch = self->arena ? self->arena + plan->arena_size_bytes : NULL;
        operands.pool = self->pool;
        operands.out = &plan->values[step->output];
        operands.out_data = value_data(self, plan, run, step->output);
        for (int i = 0; i < step->input_count; i++) {
            operands.inputs[i] = &plan->values[step->inputs[i]];
            operands.data[i] = value_data(self, plan, run, step->inputs[i]);
        }
        int status = cadre_cpu_step(&operands);
        if (status < 0) {
            return status;
        }
    }
    for (int i = 0; i < plan->copy_count; i++) {
        const cadre_plan_copy_t *copy = &plan->copies[i];
        memcpy(place_data(self, plan, run, copy->to), value_data(self, plan, run, copy->value),
               plan->values[copy->value].size_bytes);
    }
    return 0;
}

/* Runs a prepared plan on the calling thread. */
static int
cpu_run(void *slot, void *prepared, const cadre_slot_run_t *run)
{
    cpu_slot_t *self = slot;
    const cadre_plan_t *plan = prepared;
    /* Reserve again, as cpu_prepare did: growing for a larger plan may have failed since then,
     * and left no memory. */
    int status = reserve(self, needed_size(plan));
    if (status < 0) {
        return status;
    }
    if (self->options.checks.poison && self->arena) {
        memset(self->arena, 0xff, self->arena_size_bytes); /* NaN in every number type */
    }
    return run_steps(self, plan, run);
}

/* Ends a run, which cpu_run has done already. */
static int
cpu_wait(void *slot)
{
    (void)slot;
    return 0;
}

const cadre_device_functions_t cadre_cpu_functions = {
    .error_text = cadre_error_text,
    .plan_flags = CADRE_PLAN_REUSE | CADRE_PLAN_CHAINS,
    .open = cpu_open,
    .close = cpu_close,
    .name = cpu_name,
    .memory_new = cpu_memory_new,
    .memory_free = cpu_memory_free,
    .buffer_new = cpu_buffer_new,
    .buffer_free = cpu_memory_free,
    .buffer_write = cpu_buffer_write,
    .buffer_read = cpu_buffer_read,
    .slot_open = cpu_slot_open,
    .slot_close = cpu_slot_close,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .run = cpu_run,
    .wait = cpu_wait,
    .arena_size_bytes = cpu_arena_size_bytes,
    .stream = cpu_stream,
};
