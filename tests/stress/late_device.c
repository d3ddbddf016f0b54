#include "tests/stress/late_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/memory.h"
#include "tests/stress/late_inside.h"

enum { WAIT_S = 60, POISON = 0xff /* NaN in every number type */ };

static uint64_t next_seed;
static late_fault_t next_fault;
static late_device_t *opened;

static void
init_buffer(late_buffer_t *self, const void *host, size_t size_bytes)
{
    *self = (late_buffer_t){.host = (char *)(uintptr_t)host, .size_bytes = size_bytes};
    self->device = cadre_aligned_alloc(size_bytes);
    memset(self->device, POISON, size_bytes);
}

static bool
overlaps(const late_buffer_t *buffer, const char *data, size_t size_bytes)
{
    return data < buffer->host + buffer->size_bytes && buffer->host < data + size_bytes;
}

/* --- the device --- */

static int
late_open(const cadre_device_request_t *request, void **device)
{
    void *cpu = NULL;
    int status = cadre_cpu_functions.open(request, &cpu);
    if (status < 0) {
        return status;
    }
    late_device_t *self = cadre_calloc(1, sizeof(*self));
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    self->cpu = cpu;
    cadre_random_init(&self->random, next_seed, 0);
    self->fault = next_fault;
    for (int i = 0; i < LATE_COPIERS; i++) {
        pthread_create(&self->threads[i], NULL, late_copy_all, self);
    }
    pthread_create(&self->threads[LATE_COPIERS], NULL, late_compute_all, self);
    opened = self;
    *device = self;
    return 0;
}

static void
late_close(void *device)
{
    late_device_t *self = device;
    pthread_mutex_lock(&self->lock);
    self->stopping = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
    for (int i = 0; i <= LATE_COPIERS; i++) {
        pthread_join(self->threads[i], NULL);
    }
    if (self->slots || self->pieces) {
        late_complain("a slot or host memory outlives the device");
    }
    uint64_t *hash = NULL;
    for (size_t cursor = 0; (hash = cadre_u64_map_next(&self->contents, &cursor));) {
        free(hash);
    }
    cadre_u64_map_fini(&self->contents);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->changed);
    opened = NULL;
    cadre_cpu_functions.close(self->cpu);
    free(self);
}

static const char *
late_name(const void *device)
{
    (void)device;
    return "late";
}

static void *
late_memory_new(void *device, size_t size_bytes)
{
    late_device_t *self = device;
    late_piece_t *piece = cadre_calloc(1, sizeof(*piece));
    *piece = (late_piece_t){.data = cadre_aligned_alloc(size_bytes), .size_bytes = size_bytes};
    memset(piece->data, POISON, size_bytes);
    pthread_mutex_lock(&self->lock);
    piece->next = self->pieces;
    self->pieces = piece;
    self->counts.pieces++;
    pthread_mutex_unlock(&self->lock);
    return piece->data;
}

/* With the lock: whether some run may still touch these bytes. */
static bool
in_use(const late_device_t *self, const char *data, size_t size_bytes, bool outputs_only)
{
    for (const late_slot_t *slot = self->slots; slot; slot = slot->next) {
        for (int i = 0; slot->state != RUN_NONE && i < slot->output_count; i++) {
            if (slot->outputs[i].state != BUFFER_READY &&
                overlaps(&slot->outputs[i], data, size_bytes)) {
                return true;
            }
        }
        for (int i = 0; slot->state != RUN_NONE && !outputs_only && i < slot->input_count; i++) {
            if (overlaps(&slot->inputs[i], data, size_bytes)) {
                return true;
            }
        }
    }
    return false;
}

static void
late_memory_free(void *device, void *memory)
{
    late_device_t *self = device;
    pthread_mutex_lock(&self->lock);
    late_piece_t **at = &self->pieces;
    while (*at && (*at)->data != memory) {
        at = &(*at)->next;
    }
    late_piece_t *piece = *at;
    if (!piece) {
        late_complain("memory is freed that is not the device's");
    }
    if (in_use(self, piece->data, piece->size_bytes, false)) {
        late_complain("host memory is freed while a run is to copy it");
    }
    *at = piece->next;
    self->counts.pieces--;
    pthread_mutex_unlock(&self->lock);
    free(piece->data);
    free(piece);
}

/* --- slots --- */

static int
late_slot_open(void *device, const cadre_slot_options_t *options, void **slot)
{
    late_device_t *self = device;
    late_slot_t *made = cadre_calloc(1, sizeof(*made));
    made->device = self;
    int status = cadre_cpu_functions.slot_open(self->cpu, options, &made->cpu);
    if (status < 0) {
        free(made);
        return status;
    }
    pthread_mutex_lock(&self->lock);
    made->next = self->slots;
    self->slots = made;
    pthread_mutex_unlock(&self->lock);
    *slot = made;
    return 0;
}

static void
late_slot_close(void *slot)
{
    late_slot_t *self = slot;
    pthread_mutex_lock(&self->device->lock);
    if (self->state != RUN_NONE) {
        late_complain("a slot is closed while it runs");
    }
    late_slot_t **at = &self->device->slots;
    while (*at != self) {
        at = &(*at)->next;
    }
    *at = self->next;
    pthread_mutex_unlock(&self->device->lock);
    cadre_cpu_functions.slot_close(self->cpu);
    free(self);
}

static int
late_prepare(void *slot, const cadre_plan_t *plan, void **prepared)
{
    const late_slot_t *self = slot;
    late_prepared_t *made = cadre_calloc(1, sizeof(*made));
    int status = cadre_cpu_functions.prepare(self->cpu, plan, &made->cpu);
    if (status < 0) {
        free(made);
        return status;
    }
    *prepared = made;
    return 0;
}

static void
late_release(void *slot, void *prepared)
{
    const late_slot_t *self = slot;
    late_prepared_t *made = prepared;
    cadre_cpu_functions.release(self->cpu, made->cpu);
    for (int i = 0; made->variables && i < made->variable_count; i++) {
        free(made->variables[i].device);
    }
    free(made->variables);
    free(made->versions);
    free(made);
}

/* --- runs --- */

/* With the lock: a number stands for one content, whichever slot and variable it is of. */
static void
check_number(late_device_t *self, uint64_t number, uint64_t hash)
{
    uint64_t *known = cadre_u64_map_get(&self->contents, number);
    if (known && *known != hash) {
        late_complain("two contents have the same number");
    }
    if (!known) {
        known = cadre_calloc(1, sizeof(*known));
        *known = hash;
        cadre_u64_map_put(&self->contents, number, known);
    }
}

static size_t
variable_size_bytes(const cadre_program_t *program, int index)
{
    const cadre_program_variable_t *variable = cadre_program_variable(program, index);
    size_t size_bytes = sizeof(float);
    for (int i = 0; i < variable->rank; i++) {
        size_bytes *= (size_t)variable->shape[i];
    }
    return size_bytes;
}

/* A variable as an input: copied, unless its number says that the device has it. */
static late_buffer_t
variable_input(late_slot_t *slot, int index)
{
    late_device_t *device = slot->device;
    const cadre_slot_run_t *run = &slot->run;
    late_buffer_t *kept = &slot->prepared->variables[index];
    uint64_t number = run->versions ? run->versions[index] : 0;
    size_t size_bytes = variable_size_bytes(run->program, index);
    uint64_t hash = late_hash(run->variables[index], size_bytes);
    if (number) {
        check_number(device, number, hash);
    }
    bool same = kept->device && number && number == slot->prepared->versions[index];
    if (!kept->device) {
        init_buffer(kept, NULL, size_bytes);
    }
    slot->prepared->versions[index] = number;
    late_buffer_t input = *kept;
    input.host = (char *)(uintptr_t)run->variables[index];
    input.hash = hash;
    input.kept = true;
    input.state = same ? BUFFER_READY : BUFFER_EMPTY;
    device->counts.copies += !same;
    device->counts.copies_saved += same;
    return input;
}

static void
set_inputs(late_slot_t *self)
{
    const cadre_slot_run_t *run = &self->run;
    int variables = cadre_program_variable_count(run->program);
    late_prepared_t *prepared = self->prepared;
    if (!prepared->variables) {
        prepared->variable_count = variables;
        prepared->variables = cadre_calloc((size_t)variables, sizeof(*prepared->variables));
        prepared->versions = cadre_calloc((size_t)variables, sizeof(*prepared->versions));
    }
    self->input_count = run->argument_count + variables;
    self->inputs = cadre_calloc((size_t)self->input_count, sizeof(*self->inputs));
    for (int i = 0; i < run->argument_count; i++) {
        const cadre_tensor_t *argument = &run->arguments[i];
        init_buffer(&self->inputs[i], argument->data, cadre_tensor_size_bytes(argument));
        self->inputs[i].hash = late_hash(argument->data, self->inputs[i].size_bytes);
    }
    for (int i = 0; i < variables; i++) {
        self->inputs[run->argument_count + i] = variable_input(self, i);
    }
}

static void
set_outputs(late_slot_t *self)
{
    const cadre_slot_run_t *run = &self->run;
    int results = cadre_program_result_count(run->program);
    self->gradient_count = cadre_program_push_count(run->program);
    self->output_count = self->gradient_count + results;
    self->outputs = cadre_calloc((size_t)self->output_count, sizeof(*self->outputs));
    for (int i = 0; i < self->gradient_count; i++) {
        int variable = cadre_program_push(run->program, i)->variable;
        init_buffer(&self->outputs[i], run->gradients[i],
                    variable_size_bytes(run->program, variable));
    }
    for (int i = 0; i < results; i++) {
        init_buffer(&self->outputs[self->gradient_count + i], run->results[i].data,
                    cadre_tensor_size_bytes(&run->results[i]));
    }
    for (int i = 0; i < self->output_count; i++) {
        memset(self->outputs[i].host, POISON, self->outputs[i].size_bytes);
    }
}

static int
late_run(void *slot, void *prepared, const cadre_slot_run_t *run)
{
    late_slot_t *self = slot;
    late_device_t *device = self->device;
    pthread_mutex_lock(&device->lock);
    if (self->state != RUN_NONE) {
        late_complain("a slot has two runs");
    }
    self->run = *run;
    self->prepared = prepared;
    self->status = 0;
    set_inputs(self);
    set_outputs(self);
    device->counts.runs++;
    self->state = RUN_COPIES_IN;
    pthread_cond_broadcast(&device->changed);
    pthread_mutex_unlock(&device->lock);
    return 0;
}

static void
end_run(late_slot_t *self)
{
    for (int i = 0; i < self->input_count; i++) {
        late_check_unchanged(&self->inputs[i]);
        if (!self->inputs[i].kept) {
            free(self->inputs[i].device);
        }
    }
    for (int i = 0; i < self->output_count; i++) {
        free(self->outputs[i].device);
    }
    free(self->inputs);
    free(self->outputs);
    self->inputs = NULL;
    self->outputs = NULL;
    self->input_count = self->output_count = 0;
    self->state = RUN_NONE;
}

static int
late_wait(void *slot)
{
    late_slot_t *self = slot;
    late_device_t *device = self->device;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    if (device->fault == LATE_FAULT_WAIT_EARLY) {
        return 0;
    }
    pthread_mutex_lock(&device->lock);
    while (self->state != RUN_COMPUTED || !late_all_ready(self->outputs, self->output_count)) {
        if (pthread_cond_timedwait(&device->changed, &device->lock, &end) != 0) {
            late_complain("a run does not end");
        }
    }
    end_run(self);
    pthread_mutex_unlock(&device->lock);
    return self->status < 0 ? cadre_fail(self->status, "%s", self->text) : 0;
}

static size_t
late_arena_size_bytes(const void *slot)
{
    const late_slot_t *self = slot;
    return cadre_cpu_functions.arena_size_bytes(self->cpu);
}

static void *
late_stream(void *slot)
{
    (void)slot;
    return NULL;
}

const cadre_device_functions_t late_device_functions = {
    .error_text = cadre_error_text,
    .plan_flags = CADRE_PLAN_REUSE | CADRE_PLAN_CHAINS, /* the CPU's */
    .open = late_open,
    .close = late_close,
    .name = late_name,
    .memory_new = late_memory_new,
    .memory_free = late_memory_free,
    .slot_open = late_slot_open,
    .slot_close = late_slot_close,
    .prepare = late_prepare,
    .release = late_release,
    .run = late_run,
    .wait = late_wait,
    .arena_size_bytes = late_arena_size_bytes,
    .stream = late_stream,
};

/* --- what tests call --- */

void
late_device_plan(uint64_t seed, late_fault_t fault)
{
    next_seed = seed;
    next_fault = fault;
}

void
late_device_expect_ready(const void *memory, size_t size_bytes)
{
    pthread_mutex_lock(&opened->lock);
    if (in_use(opened, memory, size_bytes, true)) {
        late_complain("host memory is read that a run has yet to write");
    }
    pthread_mutex_unlock(&opened->lock);
}

late_counts_t
late_device_counts(void)
{
    pthread_mutex_lock(&opened->lock);
    late_counts_t counts = opened->counts;
    pthread_mutex_unlock(&opened->lock);
    return counts;
}
