#include "worker/core/closure_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/split.h"
#include "common/wire/tensor_list.h"

/* Whether every dataset is named by a number that one can have. */
static bool
names_datasets(const cadre_closure_message_t *closure)
{
    for (size_t i = 0; i < closure->batches.count; i += 4) {
        if (closure->batches.items[i] > UINT32_MAX) {
            return false;
        }
    }
    return true;
}

bool
cadre_run_accepts(const cadre_closure_message_t *closure)
{
    return names_datasets(closure) && closure->id < CADRE_BUILD_IDS &&
           closure->batches.count % 4 == 0 && closure->values.count % 4 == 0 &&
           closure->values.count / 4 <= closure->names.count;
}

cadre_run_t *
cadre_run_new(cadre_message_t *message, uint64_t now_ms)
{
    cadre_run_t *self = cadre_calloc(1, sizeof(*self));
    self->message = *message;
    *message = (cadre_message_t){0};
    atomic_init(&self->cancelled, false);
    self->attempt = self->message.closure.attempt;
    self->totals.arrived_ms = now_ms;
    return self;
}

void
cadre_run_destroy(cadre_run_t **self_p)
{
    cadre_run_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_run_end_parts(self);
    uint64_t *versions = NULL;
    for (size_t cursor = 0; (versions = cadre_u64_map_next(&self->pulled, &cursor));) {
        free(versions);
    }
    cadre_u64_map_fini(&self->pulled);
    free((void *)self->holdings);
    for (size_t i = 0; self->values && i < cadre_run_value_count(self); i++) {
        cadre_kept_value_unref(&self->values[i]);
    }
    free(self->values);
    cadre_outbox_entry_fini(&self->report);
    cadre_message_fini(&self->newer);
    cadre_message_fini(&self->message);
    free(self);
}

uint64_t
cadre_run_id(const cadre_run_t *self)
{
    return self->message.closure.id;
}

const cadre_holding_t *
cadre_run_holding(const cadre_run_t *self, const char *resource)
{
    for (size_t i = 0; self->holdings && i < self->message.closure.resources.count; i++) {
        if (strcmp(self->holdings[i]->name, resource) == 0) {
            return self->holdings[i];
        }
    }
    return NULL;
}

const cadre_tensor_t *
cadre_run_resource_value(const cadre_run_t *self, const char *argument)
{
    const cadre_tensor_t *found = NULL;
    for (size_t i = 0; self->holdings && i < self->message.closure.resources.count && !found; i++) {
        found = cadre_holding_value(self->holdings[i], argument);
    }
    return found;
}

size_t
cadre_run_value_count(const cadre_run_t *self)
{
    return self->message.closure.values.count / 4;
}

/* A copy of a value that is here. */
static int
copy_value(const cadre_kept_value_t *value, cadre_tensor_t *out)
{
    const cadre_message_t message = {.chunks = value->tensor.chunks,
                                     .chunk_count = value->tensor.chunk_count};
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    int status = cadre_tensor_list_decode(cadre_tensor_list_items(&value->tensor), &message,
                                          SIZE_MAX, &tensors, &count);
    if (status == 0) {
        *out = tensors[0];
        tensors[0] = (cadre_tensor_t){.data = NULL};
        cadre_tensors_fini(&tensors, count);
    }
    return status;
}

/* Puts the values that are here between those that were told. */
static int
insert_values(const cadre_run_t *self, cadre_tensor_t **tensors, size_t *count)
{
    size_t names = self->message.closure.names.count;
    size_t values = cadre_run_value_count(self);
    cadre_tensor_t *all = cadre_calloc(names, sizeof(*all));
    size_t told = 0;
    int status = 0;
    for (size_t i = 0; i < names && status == 0; i++) {
        const cadre_kept_value_t *value =
            i >= names - values ? self->values[i - (names - values)] : NULL;
        if (value) {
            status = copy_value(value, &all[i]);
        } else if (told < *count) {
            all[i] = (*tensors)[told];
            (*tensors)[told++] = (cadre_tensor_t){.data = NULL};
        } else {
            status = cadre_fail(CADRE_EMALFORMED, "argument %zu was not told", i);
        }
    }
    if (status == 0 && told < *count) {
        status = cadre_fail(CADRE_EMALFORMED, "%zu arguments have no name", *count - told);
    }
    cadre_tensors_fini(tensors, *count);
    *tensors = all;
    *count = names;
    return status;
}

int
cadre_run_tensors(const cadre_run_t *self, cadre_tensor_t **tensors, size_t *count)
{
    const cadre_message_t *message = &self->message;
    *tensors = NULL;
    *count = 0;
    if (message->closure.names.count == 0) {
        return 0;
    }
    int status =
        cadre_tensor_list_decode(message->closure.tensors, message, SIZE_MAX, tensors, count);
    if (status == 0 && self->values) {
        status = insert_values(self, tensors, count);
    } else if (status == 0 && *count != message->closure.names.count) {
        status = cadre_fail(CADRE_EMALFORMED, "%zu arguments have %zu names", *count,
                            message->closure.names.count);
    }
    if (status < 0) {
        cadre_tensors_fini(tensors, *count);
        *count = 0;
    }
    return status;
}

void
cadre_run_keep_newer(cadre_run_t *self, cadre_message_t *message)
{
    cadre_run_drop_newer(self);
    self->newer = *message;
    *message = (cadre_message_t){0};
}

void
cadre_run_drop_newer(cadre_run_t *self)
{
    cadre_message_fini(&self->newer);
    self->newer = (cadre_message_t){0};
    self->newer_cancelled = false;
}

bool
cadre_run_has_newer(const cadre_run_t *self)
{
    return self->newer.type == CADRE_MESSAGE_CLOSURE;
}

void
cadre_run_set_state(cadre_run_t *self, cadre_run_state_t state)
{
    static const uint8_t allowed[] = {
        [CADRE_RUN_WAITING] = 1 << CADRE_RUN_QUEUED | 1 << CADRE_RUN_REPORTING,
        [CADRE_RUN_QUEUED] = 1 << CADRE_RUN_COMPUTING | 1 << CADRE_RUN_REPORTING,
        [CADRE_RUN_COMPUTING] =
            1 << CADRE_RUN_PULLING | 1 << CADRE_RUN_PUSHING | 1 << CADRE_RUN_REPORTING,
        [CADRE_RUN_PULLING] = 1 << CADRE_RUN_COMPUTING,
        [CADRE_RUN_PUSHING] = 1 << CADRE_RUN_COMPUTING,
        [CADRE_RUN_REPORTING] = 0,
    };
    cadre_assert(allowed[self->state] & 1 << state);
    self->state = state;
}

void
cadre_run_end_parts(cadre_run_t *self)
{
    for (size_t i = 0; i < self->part_count; i++) {
        for (size_t k = 0; k < self->parts[i].chunk_count; k++) {
            cadre_chunk_unref(&self->parts[i].chunks[k]);
        }
        free(self->parts[i].chunks);
    }
    free(self->parts);
    self->parts = NULL;
    self->part_count = 0;
    self->pending = 0;
}

/* Room for every partition of the variables, with shard and variable filled in. */
static void
begin_parts(cadre_run_t *self, const cadre_variable_entry_t *const *variables, size_t count)
{
    cadre_assert(!self->parts);
    size_t parts = 0;
    for (size_t i = 0; i < count; i++) {
        parts += variables[i]->partitions;
    }
    self->parts = cadre_calloc(parts, sizeof(*self->parts));
    self->status = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < variables[i]->partitions; k++) {
            self->parts[self->part_count++] = (cadre_run_part_t){
                .variable = variables[i], .partition = k, .shard = variables[i]->shards[k]};
        }
    }
}

void
cadre_run_begin_pull(cadre_run_t *self, const cadre_variable_entry_t *const *variables,
                     size_t count)
{
    begin_parts(self, variables, count);
}

static void
release_parent(void *owner)
{
    cadre_chunk_t *parent = owner;
    cadre_chunk_unref(&parent);
}

/* The chunks of one partition's gradient, as views into the whole variable's. */
static void
cut(cadre_run_part_t *part, cadre_chunk_t *gradient)
{
    const cadre_variable_entry_t *variable = part->variable;
    int64_t first = cadre_split_first(variable->rows, variable->partitions, part->partition);
    const cadre_chunk_layout_t layout = cadre_variable_entry_layout(variable, part->partition);
    char *bytes =
        (char *)cadre_chunk_data(gradient) + (size_t)first * variable->wire_row_size_bytes;
    part->chunks = cadre_calloc(layout.count, sizeof(cadre_chunk_t *));
    part->chunk_count = layout.count;
    for (size_t k = 0; k < layout.count; k++) {
        part->chunks[k] = cadre_chunk_new_foreign(bytes + cadre_chunk_layout_offset(&layout, k),
                                                  cadre_chunk_layout_size(&layout, k),
                                                  release_parent, cadre_chunk_ref(gradient));
    }
}

int
cadre_run_begin_push(cadre_run_t *self, const cadre_gradient_t *gradients, size_t count)
{
    const cadre_variable_entry_t **variables = cadre_calloc(count, sizeof(*variables));
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        variables[i] = gradients[i].variable;
        size_t expected = variables[i]->wire_row_size_bytes * (size_t)variables[i]->rows;
        size_t given = cadre_chunk_size_bytes(gradients[i].gradient);
        if (given != expected) {
            status = cadre_fail(CADRE_ESHAPE, "the gradient of %s has %zu bytes, not %zu",
                                variables[i]->name, given, expected);
        }
        for (size_t k = 0; k < i && status == 0; k++) {
            if (variables[k] == variables[i]) {
                status = cadre_fail(CADRE_EEXISTS, "two gradients of %s in one update",
                                    variables[i]->name);
            }
        }
    }
    if (status == 0) {
        begin_parts(self, variables, count);
    }
    free(variables);
    if (status < 0) {
        cadre_run_end_parts(self);
        return status;
    }
    size_t part = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < gradients[i].variable->partitions; k++, part++) {
            self->parts[part].version =
                cadre_run_pulled_version(self, gradients[i].variable->id, k);
            cut(&self->parts[part], gradients[i].gradient);
        }
    }
    return 0;
}

cadre_value_t *
cadre_run_end_pull(cadre_run_t *self, size_t *count)
{
    cadre_value_t *values = cadre_calloc(self->part_count, sizeof(*values));
    *count = 0;
    for (size_t first = 0; first < self->part_count;) {
        const cadre_variable_entry_t *variable = self->parts[first].variable;
        cadre_value_t *value = &values[(*count)++];
        uint64_t *versions = cadre_calloc(variable->partitions, sizeof(*versions));
        *value = (cadre_value_t){.variable = variable};
        for (uint32_t k = 0; k < variable->partitions; k++) {
            value->chunk_count += self->parts[first + k].chunk_count;
        }
        value->chunks = cadre_calloc(value->chunk_count, sizeof(cadre_chunk_t *));
        size_t at = 0;
        for (uint32_t k = 0; k < variable->partitions; k++) {
            cadre_run_part_t *part = &self->parts[first + k];
            versions[k] = part->version;
            for (size_t i = 0; i < part->chunk_count; i++) {
                value->size_bytes += cadre_chunk_size_bytes(part->chunks[i]);
                value->chunks[at++] = part->chunks[i];
                part->chunks[i] = NULL;
            }
        }
        free(cadre_u64_map_put(&self->pulled, variable->id, versions));
        first += variable->partitions;
    }
    cadre_run_end_parts(self);
    return values;
}

uint64_t
cadre_run_pulled_version(const cadre_run_t *self, uint32_t variable, uint32_t partition)
{
    const uint64_t *versions = cadre_u64_map_get(&self->pulled, variable);
    return versions ? versions[partition] : 0;
}

void
cadre_run_fail(cadre_run_t *self, cadre_failure_t failure, int status, const char *text)
{
    if (self->status == 0) {
        self->status = status;
        self->failure = failure;
        snprintf(self->text, sizeof(self->text), "%s", text);
    }
}

void
cadre_values_fini(cadre_value_t **values_p, size_t count)
{
    cadre_value_t *values = *values_p;
    *values_p = NULL;
    for (size_t i = 0; values && i < count; i++) {
        for (size_t k = 0; k < values[i].chunk_count; k++) {
            cadre_chunk_unref(&values[i].chunks[k]);
        }
        free(values[i].chunks);
    }
    free(values);
}
