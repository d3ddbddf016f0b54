#include "tests/sim/sim_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/sim/sim_swarm.h"
#include "tests/sim/sim_values.h"
#include "worker/core/worker_core.h"

enum {
    OPEN_MS_MAX = 300,
    LOAD_MS_MAX = 40,
    BUILD_MS_MAX = 3000,
    SLOW_BUILD_MS = 10000, /* of SIM_RESOURCE_SLOW */
    SLOW_MS_MAX = 8000,    /* that a closure computes on a slow worker */
    BUILD_LOST = 1000, /* chance that a build fails through no fault of its function, in 10,000 */
};

void
sim_worker_start(sim_worker_t *self)
{
    self->lacks = sim_lacks_of(self->check->seed, self->node);
    self->slowness = sim_slowness_of(self->check->seed, self->node);
    self->registry = sim_lacks_registry(&self->lacks);
    cadre_worker_options_t options = {
        .session = {.task = self->task, .build = "sim", .host = "sim", .process = self->node},
        .devices = "cpu",
        .slots = self->slot_count - self->ahead,
        .ahead = self->ahead,
        .shard_timeout_ms = self->shard_timeout_ms,
        .kept_values_max = self->kept_values_max,
        .window = self->window,
        .push_part_size = self->push_part_size,
        .partitions_max = self->partitions_max,
        .row_cache_bytes = self->row_cache_bytes,
        .row_cache_patient = true,
        .observes = true,
        .registry = self->registry};
    self->core = cadre_worker_core_new(&options, self->network->now_ms);
    self->tick_due_ms = UINT64_MAX;
    cadre_worker_core_connected(self->core, self->network->now_ms);
}

void
sim_worker_stop(sim_worker_t *self)
{
    cadre_worker_core_destroy(&self->core);
    for (uint32_t i = 0; i < SIM_SLOTS_MAX; i++) {
        cadre_free(&self->slots[i].keys);
    }
    cadre_registry_destroy(&self->registry);
}

/* --- slots --- */

static void
finish(sim_worker_t *self, sim_slot_t *slot, const cadre_run_outcome_t *outcome)
{
    cadre_run_t *run = slot->run;
    cadre_free(&slot->keys);
    *slot = (sim_slot_t){0};
    cadre_worker_core_finish(self->core, run, outcome, self->network->now_ms);
}

static void
fail(sim_worker_t *self, sim_slot_t *slot, int status, cadre_failure_t failure, const char *text)
{
    finish(self, slot, &(cadre_run_outcome_t){.status = status, .failure = failure, .text = text});
}

static void
succeed(sim_worker_t *self, sim_slot_t *slot)
{
    const char *names[] = {"call", NULL};
    cadre_tensor_list_t list = {0};
    int64_t stamp = (int64_t)((uint64_t)self->node << SIM_STAMP_BITS | self->given++ << 10);
    sim_value_make(slot->call, stamp, &list);
    finish(
        self, slot,
        &(cadre_run_outcome_t){.names = names, .results = &list, .compute_us = 1, .examples = 1});
    cadre_tensor_list_fini(&list);
}

static void
compute(sim_worker_t *self, const sim_slot_t *slot)
{
    uint64_t slow_ms = (uint64_t)slot->call->compute_ms * self->slowness;
    slow_ms = slow_ms < SLOW_MS_MAX ? slow_ms : SLOW_MS_MAX;
    sim_network_at(self->network, slow_ms, SIM_COMPUTED, self->node,
                   (uint64_t)(slot - self->slots));
}

/* What a closure finds under the name of a variable. */
static const cadre_variable_entry_t *
find_entry(const sim_worker_t *self, const cadre_run_t *run, uint32_t variable)
{
    bool was_dropped = false;
    return cadre_directory_variable_by_name(cadre_worker_core_directory(self->core),
                                            self->check->variables[variable].name,
                                            run->call.message.closure.drops, &was_dropped);
}

/* The entries of the variables in a set, by their names; their number. */
static size_t
entries(sim_worker_t *self, const cadre_run_t *run, uint32_t variables,
        const cadre_variable_entry_t *found[SIM_VARIABLES_MAX])
{
    size_t count = 0;
    for (uint32_t i = 0; i < SIM_VARIABLES_MAX; i++) {
        if (variables >> i & 1) {
            found[count] = find_entry(self, run, i);
            if (!found[count] || found[count]->id != i + 1) {
                sim_check_fail(self->check,
                               "worker %u starts a closure that finds variable %u for %u",
                               self->node, found[count] ? found[count]->id : 0, i + 1);
            }
            count++;
        }
    }
    return count;
}

/* What was dropped before it was scheduled a closure does not find. */
static void
check_dropped(const sim_worker_t *self, const cadre_run_t *run, uint32_t dropped)
{
    for (uint32_t i = 0; i < SIM_VARIABLES_MAX; i++) {
        const cadre_variable_entry_t *entry = dropped >> i & 1 ? find_entry(self, run, i) : NULL;
        if (entry && entry->id == i + 1) {
            sim_check_fail(self->check, "worker %u: a closure finds variable %u, which was dropped",
                           self->node, i + 1);
        }
    }
}

/* Pulls whole variables, and of tables some rows. */
static void
pull(sim_worker_t *self, sim_slot_t *slot, const cadre_variable_entry_t *const *variables,
     size_t count)
{
    cadre_wanted_t wanted[SIM_VARIABLES_MAX];
    cadre_rows_t rows[SIM_VARIABLES_MAX];
    cadre_free(&slot->keys);
    slot->keys = cadre_calloc(count * SIM_KEYS, sizeof(*slot->keys));
    for (size_t i = 0; i < count; i++) {
        const sim_variable_t *model = sim_check_variable(self->check, variables[i]->id);
        uint64_t *keys = slot->keys + i * SIM_KEYS;
        wanted[i] = (cadre_wanted_t){.variable = variables[i]};
        if (model->dim > 0) {
            rows[i] = (cadre_rows_t){
                keys, sim_table_list(model, SIM_KEYS_PULLED, slot->call->index, slot->step, keys)};
            wanted[i].rows = &rows[i];
        }
    }
    cadre_worker_core_pull(self->core, slot->run, wanted, count, self->network->now_ms);
}

static void
begin_step(sim_worker_t *self, sim_slot_t *slot)
{
    const cadre_variable_entry_t *variables[SIM_VARIABLES_MAX];
    if (slot->step >= slot->call->steps) {
        succeed(self, slot);
    } else if (slot->call->pulls) {
        size_t count = entries(self, slot->run, slot->call->pulls, variables);
        pull(self, slot, variables, count);
    } else {
        compute(self, slot);
    }
}

/* --- resources --- */

/* What a resource is here: a number that tells worker and resource. */
static void *
token(const sim_worker_t *self, uint64_t resource)
{
    return (void *)(uintptr_t)((uint64_t)self->node << 16 | resource);
}

static void
begin_build(sim_worker_t *self, sim_slot_t *slot)
{
    const cadre_variable_entry_t *variables[SIM_VARIABLES_MAX];
    if (slot->run->call.message.closure.variables > 0 && slot->step == 0) {
        slot->step = 1;
        size_t count = entries(self, slot->run, 1, variables);
        pull(self, slot, variables, count);
        return;
    }
    bool is_slow = slot->run->call.builds->message.resource.id == SIM_RESOURCE_SLOW;
    uint64_t delay_ms = is_slow ? SLOW_BUILD_MS : sim_between(self->random, 0, BUILD_MS_MAX);
    sim_network_at(self->network, delay_ms, SIM_COMPUTED, self->node,
                   (uint64_t)(slot - self->slots));
}

static void
end_build(sim_worker_t *self, sim_slot_t *slot)
{
    const cadre_resource_message_t *resource = &slot->run->call.builds->message.resource;
    if (sim_chance(self->random, BUILD_LOST)) {
        fail(self, slot, CADRE_EDEVICE, CADRE_FAILURE_DEVICE, "a device of the simulation");
    } else if (resource->id == SIM_RESOURCE_BROKEN) {
        fail(self, slot, CADRE_EFUNCTION, CADRE_FAILURE_USER, "as the script says");
    } else {
        cadre_holding_t *holding = cadre_holding_new(resource->name);
        cadre_holding_put(holding, token(self, resource->id), NULL);
        finish(self, slot, &(cadre_run_outcome_t){.text = "", .holding = holding});
    }
}

static void
check_holdings(sim_worker_t *self, const cadre_run_t *run)
{
    const cadre_u64s_t *ids = &run->call.message.closure.resources;
    for (size_t i = 0; i < ids->count; i++) {
        if (!run->call.holdings || run->call.holdings[i]->pointer != token(self, ids->items[i])) {
            sim_check_fail(self->check, "worker %u starts a closure without resource %" PRIu64,
                           self->node, ids->items[i]);
        }
    }
}

static void
check_values(sim_worker_t *self, const sim_call_t *call, const cadre_run_t *run)
{
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    if (cadre_closure_call_tensors(&run->call, &tensors, &count) < 0) {
        sim_check_fail(self->check, "arguments of call %u: %s", call->index, cadre_error_text());
    }
    if (count == 0 || *(const int64_t *)tensors[0].data != (int64_t)call->index) {
        sim_check_fail(self->check, "call %u begins with arguments of another", call->index);
    }
    sim_check_values(self->check, call, tensors + 1, count - 1);
    cadre_tensors_fini(&tensors, count);
    for (size_t i = 0; i < cadre_closure_call_value_count(&run->call); i++) {
        self->check->found += run->call.values[i] != NULL;
    }
}

static void
on_start(sim_worker_t *self, const cadre_worker_event_t *event)
{
    if (event->index >= self->slot_count || self->slots[event->index].run) {
        sim_check_fail(self->check, "worker %u starts two closures on slot %u", self->node,
                       event->index);
    }
    sim_slot_t *slot = &self->slots[event->index];
    slot->run = event->run;
    if (event->run->call.builds) {
        begin_build(self, slot);
        return;
    }
    check_holdings(self, event->run);
    sim_lacks_check_start(&self->lacks, self->node, self->check, event->run->call.message.epoch,
                          &event->run->call.message.closure);
    slot->call = sim_check_started(self->check, event->run->call.message.epoch,
                                   &event->run->call.message.closure);
    if (event->run->call.message.epoch == sim_check_life(self->check)->epoch &&
        !self->check->is_deposed) {
        check_values(self, slot->call, event->run);
        check_dropped(self, event->run, slot->call->dropped);
    }
    begin_step(self, slot);
}

/* Whether this step pushes the variable by rows: not where gradients come whole. Every attempt does
 * the same. */
static bool
pushes_rows(const sim_worker_t *self, const sim_slot_t *slot, const cadre_variable_entry_t *entry)
{
    char what[48];
    const sim_definition_t *definition = &sim_check_variable(self->check, entry->id)->definition;
    snprintf(what, sizeof(what), "rows %u %u %u", slot->call->index, slot->step, entry->id);
    return definition->rank > 0 && definition->delay_compensation <= 0 &&
           sim_swarm_draw(self->check->seed, what, 0, 2) == 0;
}

/* The gradient of a step for some keys of a table; the keys are in memory that the caller frees,
 * and the chunk is the caller's. */
static cadre_rows_t
some_keys(const sim_slot_t *slot, const sim_variable_t *model, cadre_chunk_t **gradient)
{
    uint64_t *keys = cadre_calloc(SIM_KEYS, sizeof(*keys));
    const size_t count =
        sim_table_list(model, SIM_KEYS_PUSHED, slot->call->index, slot->step, keys);
    *gradient = sim_table_numbers(model, keys, count, -(int64_t)slot->call->strength, model->wire);
    return (cadre_rows_t){keys, count};
}

/* Whether the gradient of a row is to travel: unless it is zero, and no first row of a part. */
static bool
travels(const sim_variable_t *model, int64_t strength, int64_t row, int64_t width)
{
    for (int64_t i = row * width; i < (row + 1) * width; i++) {
        if (!sim_is_zero(model, strength, i)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < model->part_count; i++) {
        if (model->parts[i].first == row * width) {
            return true;
        }
    }
    return false;
}

/* The gradient of a step for the rows of a variable where it is not zero; the numbers of the rows
 * are in memory that the caller frees, and the chunk is the caller's. */
static cadre_rows_t
some_rows(const sim_slot_t *slot, const sim_variable_t *model, cadre_chunk_t **gradient)
{
    const int64_t strength = slot->call->strength;
    cadre_chunk_t *all = model->gradients[strength];
    const size_t size_bytes = cadre_chunk_size_bytes(all) / (size_t)model->rows;
    const int64_t width = (int64_t)(size_bytes / cadre_dtype_size(model->wire));
    uint64_t *ids = cadre_calloc((size_t)model->rows, sizeof(*ids));
    cadre_chunk_t *made = cadre_chunk_new(cadre_chunk_size_bytes(all));
    size_t count = 0;
    for (int64_t row = 0; row < model->rows; row++) {
        if (travels(model, strength, row, width)) {
            memcpy((char *)cadre_chunk_data(made) + count * size_bytes,
                   (const char *)cadre_chunk_data(all) + (size_t)row * size_bytes, size_bytes);
            ids[count++] = (uint64_t)row;
        }
    }
    *gradient = cadre_chunk_new_copy(cadre_chunk_data(made), count * size_bytes);
    cadre_chunk_unref(&made);
    return (cadre_rows_t){ids, count};
}

static void
on_computed(sim_worker_t *self, sim_slot_t *slot)
{
    if (cadre_closure_call_is_cancelled(&slot->run->call)) {
        fail(self, slot, CADRE_ECANCELLED, CADRE_FAILURE_RETURNED, "cancelled");
        return;
    }
    if (slot->run->call.builds) {
        end_build(self, slot);
        return;
    }
    if (slot->step == slot->call->fail_step) {
        fail(self, slot, CADRE_EFUNCTION, CADRE_FAILURE_USER, "as the script says");
        return;
    }
    const cadre_variable_entry_t *variables[SIM_VARIABLES_MAX];
    cadre_gradient_t gradients[SIM_VARIABLES_MAX];
    cadre_rows_t rows[SIM_VARIABLES_MAX] = {{.ids = NULL}};
    cadre_chunk_t *made[SIM_VARIABLES_MAX] = {NULL}; /* of rows */
    size_t count = entries(self, slot->run, slot->call->pushes[slot->step], variables);
    for (size_t i = 0; i < count; i++) {
        const sim_variable_t *model = sim_check_variable(self->check, variables[i]->id);
        gradients[i] = (cadre_gradient_t){.variable = variables[i],
                                          .gradient = model->gradients[slot->call->strength]};
        if (model->dim > 0) {
            rows[i] = some_keys(slot, model, &made[i]);
            gradients[i].gradient = made[i];
            gradients[i].rows = &rows[i];
        } else if (pushes_rows(self, slot, variables[i])) {
            rows[i] = some_rows(slot, model, &made[i]);
            gradients[i].gradient = made[i];
            gradients[i].rows = &rows[i];
        }
    }
    cadre_worker_core_push(self->core, slot->run, gradients, count, self->network->now_ms);
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)rows[i].ids);
        cadre_chunk_unref(&made[i]);
    }
}

/* Each part of a pulled value is the version it is said to be. */
static void
check_value(sim_worker_t *self, const sim_slot_t *slot, const cadre_value_t *value)
{
    const cadre_run_t *run = slot->run;
    const sim_variable_t *model = sim_check_variable(self->check, value->variable->id);
    size_t at = 0;
    for (uint32_t i = 0; i < model->part_count; i++) {
        sim_pulled_t pulled = {.variable = model,
                               .part = i,
                               .version = cadre_run_pulled_version(run, value->variable->id, i),
                               .chunks = value->chunks + at};
        if (model->dim > 0) {
            pulled.chunk_count = 1;
            pulled.keys = sim_table_named(model, i, SIM_KEYS_PULLED, slot->call->index, slot->step);
        } else {
            pulled.chunk_count = cadre_variable_entry_layout(value->variable, i).count;
        }
        sim_check_pulled(self->check, run->call.message.epoch, &pulled);
        at += pulled.chunk_count;
    }
    if (at != value->chunk_count) {
        sim_check_fail(self->check, "a pulled value has %zu chunks, not %zu", value->chunk_count,
                       at);
    }
}

static void
on_values(sim_worker_t *self, cadre_worker_event_t *event)
{
    sim_slot_t *slot = &self->slots[event->index];
    if (event->status < 0) {
        fail(self, slot, event->status, event->run->failure, event->text);
        return;
    }
    for (size_t i = 0; i < event->value_count; i++) {
        check_value(self, slot, &event->values[i]);
    }
    cadre_values_fini(&event->values, event->value_count);
    if (slot->run->call.builds) {
        begin_build(self, slot);
        return;
    }
    compute(self, slot);
}

static void
on_pushed(sim_worker_t *self, const cadre_worker_event_t *event)
{
    sim_slot_t *slot = &self->slots[event->index];
    if (event->status < 0) {
        self->failed++;
        fail(self, slot, event->status, event->run->failure, event->text);
        return;
    }
    sim_check_pushed(self->check, slot->call, slot->step);
    uint32_t shards = sim_check_shards(self->check, slot->call->pushes[slot->step]);
    self->answered += (uint64_t)__builtin_popcount(shards);
    slot->step++;
    begin_step(self, slot);
}

/* --- events --- */

/* The reader opens a dataset: rows from memory must be those of the program. */
static void
take_rows(sim_worker_t *self, uint32_t dataset)
{
    cadre_dataset_entry_t *entry =
        cadre_directory_dataset(cadre_worker_core_directory(self->core), dataset);
    if (entry->pieces > 0) {
        cadre_row_chunks_t rows = cadre_dataset_entry_take_rows(entry);
        sim_rows_check(self->check, self->node, &rows);
        cadre_row_chunks_fini(&rows);
    }
}

/* The reader reads the batches of a closure: in series in turn, as one that opens each dataset once
 * does. */
static void
load(sim_worker_t *self, uint64_t closure)
{
    const uint64_t now_ms = self->network->now_ms;
    uint64_t due_ms = now_ms + sim_between(self->random, 0, LOAD_MS_MAX);
    if (self->check->in_series) {
        self->load_ms = due_ms > self->load_ms ? due_ms : self->load_ms;
        due_ms = self->load_ms;
    }
    sim_network_at(self->network, due_ms - now_ms, SIM_LOADED, self->node, closure);
}

static void
on_event(sim_worker_t *self, cadre_worker_event_t *event)
{
    switch (event->kind) {
    case CADRE_WORKER_OPEN_DATASET:
        take_rows(self, event->index);
        sim_network_at(self->network, sim_between(self->random, 0, OPEN_MS_MAX), SIM_OPENED,
                       self->node, event->index);
        break;
    case CADRE_WORKER_LOAD:
        load(self, event->closure);
        break;
    case CADRE_WORKER_START:
        on_start(self, event);
        break;
    case CADRE_WORKER_VALUES:
        on_values(self, event);
        break;
    case CADRE_WORKER_PUSHED:
        on_pushed(self, event);
        break;
    case CADRE_WORKER_REDIAL:
        cadre_worker_core_connected(self->core, self->network->now_ms);
        break;
    case CADRE_WORKER_REFUSED:
        self->refused = true;
        self->left = true;
        break;
    case CADRE_WORKER_LEFT:
        self->left = true;
        break;
    case CADRE_WORKER_RELEASE:
        cadre_holding_destroy(&event->holding);
        break;
    case CADRE_WORKER_SHARD_MOVED:             /* messages are addressed to the incarnation */
        if (event->status == CADRE_ETIMEOUT) { /* over a new connection all goes out again */
            sim_network_disturb(self->network, self->node, self->network->now_ms);
        }
        break;
    case CADRE_WORKER_REACHABILITY:
    case CADRE_WORKER_FORGET:
    case CADRE_WORKER_LACKS:
    case CADRE_WORKER_RESET:
        break;
    }
}

/* Every update that was sent is answered, abandoned or waited for (docs/metrics.md). */
static void
check_pushes(const sim_worker_t *self)
{
    const cadre_worker_core_figures_t figures = cadre_worker_core_figures(self->core);
    const uint64_t *counters = figures.counters;
    const cadre_push_totals_t pushes = figures.pushes;
    uint64_t answered = counters[CADRE_WORKER_COUNTER_applied] +
                        counters[CADRE_WORKER_COUNTER_duplicate] +
                        counters[CADRE_WORKER_COUNTER_refused];
    if (pushes.sent != answered + pushes.abandoned + pushes.pending) {
        sim_check_fail(self->check,
                       "worker %u has sent %" PRIu64 " updates, of which %" PRIu64
                       " are answered, %" PRIu64 " abandoned, %" PRIu64 " pending",
                       self->node, pushes.sent, answered, pushes.abandoned, pushes.pending);
    }
}

void
sim_worker_turn(sim_worker_t *self)
{
    cadre_worker_event_t event;
    while (cadre_worker_core_event(self->core, &event)) {
        on_event(self, &event);
    }
    uint64_t due_ms = cadre_worker_core_tick(self->core, self->network->now_ms);
    while (cadre_worker_core_event(self->core, &event)) {
        on_event(self, &event);
    }
    check_pushes(self);
    if (due_ms < self->tick_due_ms || self->tick_due_ms <= self->network->now_ms) {
        self->tick_due_ms = due_ms;
        uint64_t now_ms = self->network->now_ms;
        if (due_ms != UINT64_MAX) {
            sim_network_at(self->network, due_ms > now_ms ? due_ms - now_ms : 1, SIM_TICK,
                           self->node, 0);
        }
    }
}

/* The coordinator hands a closure only to a worker that has said that it has what it names. */
static void
check_resources(const sim_worker_t *self, const cadre_message_t *message)
{
    const cadre_u64s_t *ids = &message->closure.resources;
    const cadre_directory_t *directory = cadre_worker_core_directory(self->core);
    if (message->incarnation == cadre_worker_core_figures(self->core).session &&
        !cadre_resource_set_has_all(&directory->resources_built, ids->items, ids->count)) {
        sim_check_fail(self->check, "worker %u is sent a closure whose resources it has not built",
                       self->node);
    }
}

/* Whether an answer leaves out what the worker is said to have. */
static bool
says_unchanged(const cadre_message_t *message)
{
    const cadre_u64s_t *parts = &message->values.partitions;
    bool found = false;
    for (size_t i = 1; message->type == CADRE_MESSAGE_VALUES && i < parts->count; i += 2) {
        found = found || parts->items[i] == 0;
    }
    return found;
}

/* What is kept of a shard's parts, as of that generation, is what it had in it. */
static void
check_kept(const sim_worker_t *self, uint32_t shard, uint64_t generation)
{
    for (uint32_t i = 0; i < self->check->known_count; i++) {
        const sim_variable_t *variable = &self->check->variables[i];
        for (uint32_t k = 0; k < variable->part_count; k++) {
            const cadre_cached_value_t *held =
                cadre_worker_core_held(self->core, variable->id, k, generation);
            if (held && variable->parts[k].shard == shard) {
                sim_check_kept(self->check, cadre_worker_core_figures(self->core).epoch, generation,
                               &(sim_pulled_t){.variable = variable,
                                               .part = k,
                                               .version = held->version,
                                               .chunks = held->chunks,
                                               .chunk_count = held->chunk_count});
            }
        }
    }
}

void
sim_worker_receive(sim_worker_t *self, const cadre_task_t *from, cadre_message_t *message)
{
    if (message->type == CADRE_MESSAGE_CLOSURE) {
        check_resources(self, message);
    }
    bool is_unchanged =
        says_unchanged(message) && message->epoch == cadre_worker_core_figures(self->core).epoch;
    uint64_t generation = is_unchanged ? message->values.generation : 0;
    cadre_worker_core_receive(self->core, from, message, self->network->now_ms);
    if (is_unchanged) {
        check_kept(self, from->index, generation);
    }
}

void
sim_worker_event(sim_worker_t *self, const sim_event_t *event)
{
    uint64_t now_ms = self->network->now_ms;
    if (event->kind == SIM_COMPUTED) {
        on_computed(self, &self->slots[event->value]);
    } else if (event->kind == SIM_OPENED) {
        cadre_dataset_ready_message_t ready = sim_lacks_ready(&self->lacks);
        cadre_worker_core_dataset_opened(self->core, (uint32_t)event->value, &ready, now_ms);
    } else if (event->kind == SIM_LOADED) {
        cadre_worker_core_loaded(self->core, event->value, 0, "", now_ms);
    } else if (event->kind == SIM_CONNECTED) {
        cadre_worker_core_connected(self->core, now_ms);
    }
}

/* Runs whose push is answered in part at the most, or refused in part: only a worker that has lost
 * the coordinator has any when all is over. */
static uint64_t
count_pushing(const sim_worker_t *self)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < self->slot_count; i++) {
        count += self->slots[i].run && self->slots[i].run->state == CADRE_RUN_PUSHING;
    }
    return count;
}

void
sim_worker_reconcile(const sim_worker_t *self)
{
    const uint64_t *counters = cadre_worker_core_figures(self->core).counters;
    uint64_t counted =
        counters[CADRE_WORKER_COUNTER_applied] + counters[CADRE_WORKER_COUNTER_duplicate];
    uint64_t refused = counters[CADRE_WORKER_COUNTER_refused];
    uint64_t open = self->failed + count_pushing(self);
    if (counted < self->answered || counted > self->answered + open * (SIM_SHARDS_MAX - 1) ||
        refused > open * SIM_SHARDS_MAX) {
        sim_check_fail(self->check,
                       "I7: worker %u counts %" PRIu64 " updates and %" PRIu64
                       " refused, its pushes ended with %" PRIu64 ", and %" PRIu64 " failed",
                       self->node, counted, refused, self->answered, self->failed);
    }
    if (counters[CADRE_WORKER_COUNTER_malformed] != 0) {
        sim_check_fail(self->check, "worker %u counts %" PRIu64 " malformed messages", self->node,
                       counters[CADRE_WORKER_COUNTER_malformed]);
    }
}
