#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/stress/late_inside.h"

enum { YIELDS_MAX = 16 };

/* --- what both files use --- */

_Noreturn void
late_complain(const char *what)
{
    fprintf(stderr, "late_device: %s\n", what);
    abort();
}

uint64_t
late_hash(const void *bytes, size_t size_bytes)
{
    const unsigned char *at = bytes;
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    }
    return hash | 1; /* never NULL as a pointer */
}

void
late_check_unchanged(const late_buffer_t *input)
{
    if (late_hash(input->host, input->size_bytes) != input->hash) {
        late_complain("host memory has changed while a run was to read it");
    }
}

bool
late_all_ready(const late_buffer_t *buffers, int count)
{
    for (int i = 0; i < count; i++) {
        if (buffers[i].state != BUFFER_READY) {
            return false;
        }
    }
    return true;
}

/* --- threads --- */

static bool
inputs_ready(const late_slot_t *slot)
{
    return late_all_ready(slot->inputs, slot->input_count);
}

/* A copy that may happen now, any of them; NULL when there is none. */
static late_buffer_t *
choose_copy(late_device_t *self, late_slot_t **of, bool *out)
{
    late_buffer_t *chosen = NULL;
    uint64_t seen = 0;
    for (late_slot_t *slot = self->slots; slot; slot = slot->next) {
        bool outputs = slot->state == RUN_COMPUTED ||
                       (self->fault == LATE_FAULT_COPY_OUT_EARLY && slot->state != RUN_NONE);
        for (int i = 0; slot->state != RUN_NONE && i < slot->input_count + slot->output_count;
             i++) {
            bool is_output = i >= slot->input_count;
            late_buffer_t *buffer =
                is_output ? &slot->outputs[i - slot->input_count] : &slot->inputs[i];
            if (buffer->state == BUFFER_EMPTY && (!is_output || outputs) &&
                cadre_random_below(&self->random, ++seen) == 0) {
                chosen = buffer;
                *of = slot;
                *out = is_output;
            }
        }
    }
    return chosen;
}

/* Lets others go first. */
static void
be_late(late_device_t *self)
{
    uint64_t yields = cadre_random_below(&self->random, YIELDS_MAX);
    pthread_mutex_unlock(&self->lock);
    for (uint64_t i = 0; i < yields; i++) {
        sched_yield();
    }
    pthread_mutex_lock(&self->lock);
}

static void
copy(late_device_t *self, const late_slot_t *slot, late_buffer_t *buffer, bool out)
{
    buffer->state = BUFFER_MOVING;
    if (out && slot->state != RUN_COMPUTED) {
        late_complain("an output is copied that is not computed yet");
    }
    pthread_mutex_unlock(&self->lock);
    if (out) {
        memcpy(buffer->host, buffer->device, buffer->size_bytes);
    } else {
        late_check_unchanged(buffer);
        memcpy(buffer->device, buffer->host, buffer->size_bytes);
    }
    pthread_mutex_lock(&self->lock);
    buffer->state = BUFFER_READY;
    pthread_cond_broadcast(&self->changed);
}

void *
late_copy_all(void *argument)
{
    late_device_t *self = argument;
    pthread_mutex_lock(&self->lock);
    while (!self->stopping) {
        late_slot_t *slot = NULL;
        bool out = false;
        be_late(self);
        late_buffer_t *buffer = choose_copy(self, &slot, &out);
        if (buffer) {
            copy(self, slot, buffer, out);
        } else if (!self->stopping) {
            pthread_cond_wait(&self->changed, &self->lock);
        }
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* The CPU's run of what lies on the device. */
static int
compute(const late_slot_t *slot)
{
    cadre_slot_run_t run = slot->run;
    int results = slot->output_count - slot->gradient_count;
    int variables = slot->input_count - run.argument_count;
    cadre_tensor_t *arguments = cadre_calloc((size_t)run.argument_count, sizeof(*arguments));
    const void **values = cadre_calloc((size_t)variables, sizeof(*values));
    void **gradients = cadre_calloc((size_t)slot->gradient_count, sizeof(*gradients));
    cadre_tensor_t *tensors = cadre_calloc((size_t)results, sizeof(*tensors));
    for (int i = 0; i < run.argument_count; i++) {
        arguments[i] = run.arguments[i];
        arguments[i].data = slot->inputs[i].device;
    }
    for (int i = 0; i < variables; i++) {
        values[i] = slot->inputs[run.argument_count + i].device;
    }
    for (int i = 0; i < slot->gradient_count; i++) {
        gradients[i] = slot->outputs[i].device;
    }
    for (int i = 0; i < results; i++) {
        tensors[i] = run.results[i];
        tensors[i].data = slot->outputs[slot->gradient_count + i].device;
    }
    run.arguments = arguments;
    run.variables = values;
    run.gradients = gradients;
    run.results = tensors;
    int status = cadre_cpu_functions.run(slot->cpu, slot->prepared->cpu, &run);
    free(arguments);
    free((void *)values);
    free((void *)gradients);
    free(tensors);
    return status;
}

static late_slot_t *
choose_run(late_device_t *self)
{
    late_slot_t *chosen = NULL;
    uint64_t seen = 0;
    for (late_slot_t *slot = self->slots; slot; slot = slot->next) {
        if (slot->state == RUN_COPIES_IN &&
            (inputs_ready(slot) || self->fault == LATE_FAULT_COMPUTE_EARLY) &&
            cadre_random_below(&self->random, ++seen) == 0) {
            chosen = slot;
        }
    }
    return chosen;
}

void *
late_compute_all(void *argument)
{
    late_device_t *self = argument;
    pthread_mutex_lock(&self->lock);
    while (!self->stopping) {
        be_late(self);
        late_slot_t *slot = choose_run(self);
        if (!slot) {
            if (!self->stopping) {
                pthread_cond_wait(&self->changed, &self->lock);
            }
            continue;
        }
        if (!inputs_ready(slot)) {
            late_complain("a run computes with an input that is not there yet");
        }
        slot->state = RUN_COMPUTES;
        pthread_mutex_unlock(&self->lock);
        int status = compute(slot);
        pthread_mutex_lock(&self->lock);
        slot->status = status;
        if (status < 0) {
            snprintf(slot->text, sizeof(slot->text), "%s", cadre_error_text());
        }
        slot->state = RUN_COMPUTED;
        pthread_cond_broadcast(&self->changed);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}
