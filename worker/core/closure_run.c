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
#include "common/wire/record_list.h"
#include "common/wire/tensor_list.h"

/* Whether every dataset is named by a number that one can have. */
static bool
names_datasets(const cadre_closure_message_t *closure)
{
    const cadre_batch_rows_list_t batches = cadre_batch_rows_list_view(&closure->batches);
    for (size_t i = 0; i < batches.count; i++) {
        if (batches.items[i].dataset > UINT32_MAX) {
            return false;
        }
    }
    return true;
}

bool
cadre_run_accepts(const cadre_closure_message_t *closure)
{
    const cadre_batch_rows_list_t batches = cadre_batch_rows_list_view(&closure->batches);
    const cadre_taken_value_list_t values = cadre_taken_value_list_view(&closure->values);
    return names_datasets(closure) && closure->id < CADRE_BUILD_IDS &&
           cadre_batch_rows_list(batches.items, batches.count).count == closure->batches.count &&
           cadre_taken_value_list(values.items, values.count).count == closure->values.count &&
           values.count <= closure->names.count;
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
    return cadre_taken_value_list_view(&self->message.closure.values).count;
}

/* The tensors of a message as a list; borrowed. */
static cadre_tensor_list_t
told_by(const cadre_message_t *message)
{
    const cadre_u64s_t *items = &message->closure.tensors;
    return (cadre_tensor_list_t){.items = (uint64_t *)(uintptr_t)items->items,
                                 .count = items->count,
                                 .chunks = message->chunks,
                                 .chunk_count = message->chunk_count};
}

bool
cadre_run_take_values(cadre_run_t *self, cadre_kept_values_t *kept,
                      cadre_worker_counters_t *counters)
{
    const cadre_taken_value_list_t arguments =
        cadre_taken_value_list_view(&self->message.closure.values);
    const cadre_tensor_list_t list = told_by(&self->message);
    bool found = true;
    if (arguments.count == 0) {
        return true;
    }
    self->values = cadre_calloc(arguments.count, sizeof(*self->values));
    for (size_t i = 0; i < arguments.count; i++) {
        const cadre_taken_value_t *value = &arguments.items[i];
        const uint64_t key[3] = {value->closure, value->attempt, value->result};
        if (!value->is_told) {
            self->values[i] = cadre_kept_values_take(kept, key);
            found = found && self->values[i];
            cadre_worker_counters_note(counters, self->values[i]
                                                     ? CADRE_WORKER_COUNTER_values_found
                                                     : CADRE_WORKER_COUNTER_values_missed);
        }
    }

    /* Not before the others are taken, which these may drive out. */
    size_t position = self->message.closure.names.count - arguments.count; /* after its own */
    for (size_t i = 0; i < arguments.count; i++) {
        const cadre_taken_value_t *value = &arguments.items[i];
        const uint64_t key[3] = {value->closure, value->attempt, value->result};
        if (value->is_told) {
            cadre_kept_values_put(kept, key, &list, position++);
        }
    }
    return found;
}

void
cadre_run_give_holdings(cadre_run_t *self, const cadre_holding_t **holdings)
{
    free((void *)self->holdings);
    self->holdings = holdings;
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
cadre_run_keep_newer(cadre_run_t *self, cadre_message_t *message, uint64_t restores)
{
    cadre_run_drop_newer(self);
    self->newer_restores = restores;
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

cadre_message_t
cadre_run_take_newer(cadre_run_t *self)
{
    cadre_message_t newer = self->newer;
    self->newer = (cadre_message_t){0};
    return newer;
}

void
cadre_run_set_function(cadre_run_t *self, const cadre_function_entry_t *function)
{
    self->function = function;
}

void
cadre_run_set_attempt(cadre_run_t *self, uint64_t attempt, uint64_t restores)
{
    self->attempt = attempt;
    self->restores = restores;
}

void
cadre_run_set_slot(cadre_run_t *self, uint32_t slot)
{
    self->slot = slot;
}

void
cadre_run_set_builds(cadre_run_t *self, const cadre_resource_entry_t *resource)
{
    self->builds = resource;
}

void
cadre_run_load(cadre_run_t *self)
{
    self->loading = true;
}

void
cadre_run_cancel(cadre_run_t *self)
{
    atomic_store(&self->cancelled, true);
}

void
cadre_run_cancel_all(cadre_run_t *self)
{
    cadre_run_cancel(self);
    self->newer_cancelled = cadre_run_has_newer(self);
}

void
cadre_run_report(cadre_run_t *self, const cadre_task_t *coordinator, cadre_message_t *report)
{
    cadre_run_set_state(self, CADRE_RUN_REPORTING);
    cadre_outbox_entry_init(&self->report, coordinator, report);
}

void
cadre_run_note_sent(cadre_run_t *self, uint64_t asked)
{
    self->report_after = asked;
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
cadre_run_fail_at(cadre_run_t *self, uint32_t shard, cadre_failure_t failure, int status,
                  const char *text)
{
    self->failed_shard = shard;
    cadre_run_fail(self, failure, status, text);
}

void
cadre_run_begin_operation(cadre_run_t *self, cadre_run_state_t state)
{
    cadre_run_set_state(self, state);
    self->status = 0;
    if (state == CADRE_RUN_PULLING) {
        self->received_bytes = 0;
    }
}

void
cadre_run_end_operation(cadre_run_t *self)
{
    if (self->state == CADRE_RUN_PUSHING && self->status == 0) {
        self->step++;
    }
    cadre_run_end_parts(self);
    cadre_run_set_state(self, CADRE_RUN_COMPUTING);
}

void
cadre_run_cancel_operation(cadre_run_t *self)
{
    self->pending = 0;
    cadre_run_fail(self, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED, "cancelled");
}

void
cadre_run_touch(cadre_run_t *self)
{
    self->touched = true;
}

void
cadre_run_await(cadre_run_t *self)
{
    self->pending++;
}

bool
cadre_run_answered(cadre_run_t *self)
{
    cadre_assert(self->pending > 0);
    self->pending--;
    return self->pending == 0;
}

void
cadre_run_part_fill(cadre_run_part_t *self, uint64_t version, uint64_t generation,
                    cadre_chunk_t *const *chunks, size_t count)
{
    self->version = version;
    self->generation = generation;
    self->chunks = cadre_calloc(count, sizeof(cadre_chunk_t *));
    self->chunk_count = count;
    for (size_t i = 0; i < count; i++) {
        self->chunks[i] = cadre_chunk_ref(chunks[i]);
    }
}

void
cadre_run_note_received(cadre_run_t *self, size_t size_bytes)
{
    self->received_bytes += size_bytes;
}

void
cadre_run_note_applied(cadre_run_t *self, uint64_t staleness)
{
    self->totals.updates++;
    self->totals.staleness =
        staleness > self->totals.staleness ? staleness : self->totals.staleness;
}

void
cadre_run_note_duplicate(cadre_run_t *self)
{
    self->totals.duplicates++;
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
