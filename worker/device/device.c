#include "worker/device/device.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/memory.h"
#include "common/status.h"
#include "worker/device/cpu.h"
#include "worker/device/element.h"
#include "worker/device/plan.h"

enum { PLANS_DEFAULT = 8 };

static const size_t memory_size_default = (size_t)16 << 30;

struct cadre_device {
    int threads;
};

/* A plan and what it was made for. */
typedef struct {
    uint64_t program_hash;
    int64_t symbol_values[CADRE_SYMBOLS_MAX];
    uint64_t used_at; /* the slot's run count when it was last used */
    cadre_plan_t *plan;
} entry_t;

struct cadre_slot {
    cadre_slot_options_t options;
    entry_t *entries;
    int entry_count;
    uint64_t run_count;
    char *arena;
    size_t arena_size_bytes;
};

int
cadre_device_open(const char *name, int threads, cadre_device_t **out)
{
    if (strcmp(name, "cpu") != 0) {
        return cadre_fail(CADRE_ENOTFOUND, "no device \"%s\"; there is \"cpu\"", name);
    }
    if (threads < 1) {
        return cadre_fail(CADRE_EINVALID, "a device needs at least one thread, not %d", threads);
    }
    cadre_device_t *self = cadre_calloc(1, sizeof(*self));
    self->threads = threads;
    cadre_cpu_set_threads(threads);
    *out = self;
    return 0;
}

void
cadre_device_close(cadre_device_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

const char *
cadre_device_name(const cadre_device_t *self)
{
    cadre_assert(self->threads > 0);
    return "cpu";
}

int
cadre_slot_open(cadre_device_t *device, const cadre_slot_options_t *options, cadre_slot_t **out)
{
    cadre_assert(device->threads > 0);
    cadre_slot_t *self = cadre_calloc(1, sizeof(*self));
    if (options) {
        self->options = *options;
    }
    if (self->options.memory_size_max == 0) {
        self->options.memory_size_max = memory_size_default;
    }
    if (self->options.plans_max < 1) {
        self->options.plans_max = PLANS_DEFAULT;
    }
    self->entries = cadre_calloc((size_t)self->options.plans_max, sizeof(*self->entries));
    *out = self;
    return 0;
}

void
cadre_slot_close(cadre_slot_t **self_p)
{
    cadre_slot_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    for (int i = 0; i < self->entry_count; i++) {
        cadre_plan_destroy(&self->entries[i].plan);
    }
    free(self->entries);
    free(self->arena);
    free(self);
}

size_t
cadre_slot_arena_size_bytes(const cadre_slot_t *self)
{
    return self->arena_size_bytes;
}

static entry_t *
find_entry(cadre_slot_t *self, uint64_t hash, const int64_t *symbol_values)
{
    for (int i = 0; i < self->entry_count; i++) {
        entry_t *entry = &self->entries[i];
        if (entry->program_hash == hash &&
            memcmp(entry->symbol_values, symbol_values, sizeof(entry->symbol_values)) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* A place for one more plan: a new one, or that of the plan unused for longest. */
static entry_t *
free_entry(cadre_slot_t *self)
{
    if (self->entry_count < self->options.plans_max) {
        return &self->entries[self->entry_count++];
    }
    entry_t *oldest = &self->entries[0];
    for (int i = 1; i < self->entry_count; i++) {
        if (self->entries[i].used_at < oldest->used_at) {
            oldest = &self->entries[i];
        }
    }
    cadre_plan_destroy(&oldest->plan);
    return oldest;
}

/* Room for the plan's arena; it only grows, and its content is of no value between runs. */
static int
reserve(cadre_slot_t *self, size_t size_bytes)
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
    /* A multiple of the alignment, as arena.h promises. */
    self->arena = aligned_alloc(64, size_bytes);
    if (!self->arena) {
        return cadre_fail(CADRE_ENOMEMORY, "no %zu bytes for the program", size_bytes);
    }
    self->arena_size_bytes = size_bytes;
    return 0;
}

static int
find_plan(cadre_slot_t *self, const cadre_slot_run_t *run, const cadre_plan_t **out)
{
    int64_t symbol_values[CADRE_SYMBOLS_MAX] = {0};
    int status = cadre_program_bind(run->program, run->arguments, run->argument_count,
                                    CADRE_REAL_DTYPE, symbol_values);
    if (status < 0) {
        return status;
    }
    self->run_count++;
    uint64_t hash = cadre_program_hash(run->program);
    entry_t *entry = find_entry(self, hash, symbol_values);
    if (!entry) {
        cadre_plan_t *plan = NULL;
        status = cadre_plan_new(run->program, symbol_values, !self->options.no_reuse, &plan);
        if (status < 0) {
            return cadre_fail_within(status, "%s", cadre_program_name(run->program));
        }
        entry = free_entry(self);
        entry->program_hash = hash;
        entry->plan = plan;
        memcpy(entry->symbol_values, symbol_values, sizeof(symbol_values));
    }
    entry->used_at = self->run_count;
    *out = entry->plan;
    return reserve(self, entry->plan->arena_size_bytes);
}

static void *
place_data(const cadre_slot_t *self, const cadre_plan_t *plan, const cadre_slot_run_t *run,
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

static void *
value_data(const cadre_slot_t *self, const cadre_plan_t *plan, const cadre_slot_run_t *run,
           int32_t value)
{
    return place_data(self, plan, run, plan->values[plan->values[value].root].place);
}

static int
run_steps(const cadre_slot_t *self, const cadre_plan_t *plan, const cadre_slot_run_t *run)
{
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_step_t *step = &plan->steps[at];
        cadre_operands_t operands;
        operands.step = step;
        operands.seed = run->seed;
        operands.out = &plan->values[step->output];
        operands.out_data = value_data(self, plan, run, step->output);
        for (int i = 0; i < step->input_count; i++) {
            operands.inputs[i] = &plan->values[step->inputs[i]];
            operands.data[i] = value_data(self, plan, run, step->inputs[i]);
        }
        int status = cadre_cpu_step(&operands);
        if (status < 0) {
            return cadre_fail_within(status, "%s", cadre_program_name(run->program));
        }
    }
    for (int i = 0; i < plan->copy_count; i++) {
        const cadre_plan_copy_t *copy = &plan->copies[i];
        memcpy(place_data(self, plan, run, copy->to), value_data(self, plan, run, copy->value),
               plan->values[copy->value].size_bytes);
    }
    return 0;
}

static void
drop_results(const cadre_slot_run_t *run, int count)
{
    for (int i = 0; i < count; i++) {
        cadre_tensor_fini(&run->results[i]);
    }
}

static int
make_results(const cadre_plan_t *plan, const cadre_slot_run_t *run)
{
    for (int i = 0; i < plan->result_count; i++) {
        const cadre_plan_value_t *value = &plan->values[plan->results[i]];
        cadre_dtype_t dtype = value->dtype == CADRE_F32 ? CADRE_REAL_DTYPE : value->dtype;
        int status = cadre_tensor_init(&run->results[i], dtype, value->shape, value->rank);
        if (status < 0) {
            drop_results(run, i);
            return status;
        }
    }
    return 0;
}

int
cadre_slot_run(cadre_slot_t *self, const cadre_slot_run_t *run)
{
    const cadre_plan_t *plan = NULL;
    int status = find_plan(self, run, &plan);
    if (status < 0) {
        return status;
    }
    status = make_results(plan, run);
    if (status < 0) {
        return status;
    }
    if (self->options.poison && self->arena) {
        memset(self->arena, 0xff, self->arena_size_bytes); /* NaN in every number type */
    }
    status = run_steps(self, plan, run);
    if (status < 0) {
        drop_results(run, plan->result_count);
    }
    return status;
}
