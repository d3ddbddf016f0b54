#include "tests/sim/sim_script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/sim/sim_call.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_swarm.h"

enum {
    RANDOM_STREAM = 0x736372,
    PATIENCE_STREAM = 0x706174,
    DROP_STREAM = 0x64726f,
    RATE_STREAM = 0x726174,
    BACK_STREAM = 0x626163,
    JUMP_MAX = CADRE_APPLIED_WINDOW_MAX / 8,
};

const char *
sim_operation_text(sim_operation_t operation)
{
    static const char *const texts[] = {
        [SIM_WAIT_READY] = "every ps to join",
        [SIM_CREATE] = "a variable to be created",
        [SIM_SCHEDULE] = "room in the queue",
        [SIM_JOIN] = "closures to end",
        [SIM_DONE] = "done",
        [SIM_CANCEL] = "cancelled closures to end",
        [SIM_READ] = "a variable to be read",
        [SIM_ASSIGN] = "a variable to be assigned",
        [SIM_COUNT] = "a shard's counters",
        [SIM_CHECKPOINT] = "the checkpoint before",
        [SIM_AWAIT_CHECKPOINT] = "a checkpoint",
        [SIM_AWAIT_TAGGED] = "tagged closures to end",
        [SIM_PAUSE] = "time",
        [SIM_DROP] = "a variable to be dropped",
        [SIM_RATE] = "a learning rate to be changed",
        [SIM_STILL] = "closures in flight to end in a pause",
        [SIM_GO_BACK] = "the job to go back to a checkpoint",
        [SIM_END] = "nothing",
    };
    return texts[operation];
}

static cadre_core_t *
core_of(const sim_script_t *self)
{
    return &self->coordinator->core;
}

static uint64_t
draw(sim_script_t *self, uint64_t low, uint64_t high)
{
    return sim_between(&self->random, low, high);
}

/* --- raising and joining --- */

/* Raises what is pending in a group, or outside of groups: true when that is clean and nothing was
 * raised. */
static bool
raise_of(sim_script_t *self, uint32_t group, bool *raised)
{
    char text[CADRE_CLOSURE_ERROR_SIZE] = "";
    const sim_group_t *known = &self->check->groups[group];
    int status = group > 0 ? cadre_closure_queue_raise_of(self->groups[group], text)
                           : cadre_closure_queue_raise(&core_of(self)->queue, text);
    *raised = status < 0 && status != CADRE_EAGAIN;
    if (*raised) {
        sim_check_raised(self->check, group, status, text);
        self->errors++;
    } else if (status == 0 && known->first_error < 0) {
        sim_check_fail(self->check, "an error of group %u was lost: %s", group, known->first_text);
    }
    return status == 0;
}

static bool
raise_error(sim_script_t *self, bool *raised)
{
    return raise_of(self, 0, raised);
}

/* What is common has ended; closures of a group that are tagged may not have. */
static void
join_groups(sim_script_t *self)
{
    bool raised = false;
    for (uint32_t group = 1; group < SIM_GROUPS; group++) {
        raise_of(self, group, &raised);
    }
}

/* Cancels a group, sometimes; what of it is in flight ends later. */
static void
cancel_some_group(sim_script_t *self)
{
    char what[32];
    snprintf(what, sizeof(what), "cancel %" PRIu64, self->operations_done);
    uint64_t group = sim_swarm_draw(self->check->seed, what, 1, 4 * SIM_GROUPS);
    if (!self->plan.groups || group >= SIM_GROUPS) {
        return;
    }
    self->check->groups[group].is_cancelled = true;
    cadre_core_cancel_group(core_of(self), self->groups[group]);
    sim_coordinator_take_ended(self->coordinator);
}

/* Makes the functions; in every life of the coordinator at first, and again when they were
 * dropped. */
static void
register_functions(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    cadre_function_t *function = NULL;
    bool is_new = false;
    for (uint32_t i = 0; i < SIM_FUNCTIONS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "f%u", i);
        cadre_function_t like = {.kind = CADRE_FUNCTION_NATIVE, .name = name, .may_push = true};
        cadre_catalogue_add_function(&core->catalogue, &like, &function, &is_new);
        cadre_announcements_tell_function(&core->announcements, function);
    }
}

/* Drops all functions, sometimes, and makes them again: from now on closures name the new ones.
 * Where resources are built by them they cannot be dropped. */
static void
drop_functions(sim_script_t *self)
{
    char what[32];
    cadre_core_t *core = core_of(self);
    snprintf(what, sizeof(what), "functions %" PRIu64, self->operations_done);
    if (self->plan.resources || sim_swarm_draw(self->check->seed, what, 0, 2) > 0) {
        return;
    }
    for (uint32_t i = core->catalogue.function_count - SIM_FUNCTIONS;
         i < core->catalogue.function_count; i++) {
        if (cadre_core_drop_function(core, core->catalogue.functions[i]) < 0) {
            sim_check_fail(self->check, "a function: %s", cadre_error_text());
        }
    }
    register_functions(self);
}

static bool
join(sim_script_t *self)
{
    bool raised = false;
    cadre_closure_queue_cut_short(&core_of(self)->queue);
    if (!cadre_closure_queue_done(&core_of(self)->queue) ||
        !cadre_recovery_is_settled(&core_of(self)->recovery)) {
        return false;
    }
    join_groups(self);
    bool clean = raise_error(self, &raised);
    if (clean) {
        sim_cluster_check_joined(self->cluster);
    }
    return clean || raised;
}

static bool
cancel(sim_script_t *self)
{
    cadre_closure_queue_t *queue = &core_of(self)->queue;
    self->coordinator->user_cancels = true;
    if (!self->asked) {
        self->asked = true;
        cadre_core_cancel(core_of(self));
        sim_coordinator_take_ended(self->coordinator);
    }
    if (!cadre_closure_queue_done(queue) || queue->cancelling) {
        return false;
    }
    self->coordinator->user_cancels = false;
    return true;
}

/* --- scheduling --- */

static sim_call_t *
call_of(const sim_script_t *self)
{
    return self->check->calls[strtoul(self->closure->names[0], NULL, 10)];
}

/* Opens the data; again, under another name, where no worker could. Closures do not wait for it:
 * they read as soon as it is open. */
static void
open_data(sim_script_t *self)
{
    cadre_catalogue_t *catalogue = &core_of(self)->catalogue;
    uint32_t count = catalogue->dataset_count;
    cadre_dataset_t *dataset = NULL;
    char name[32];
    if (count > 0 && catalogue->datasets[count - 1]->status == 0) {
        return;
    }
    snprintf(name, sizeof(name), "rows%u", count + 1);
    if (self->plan.rows_in_memory) {
        cadre_row_chunks_t rows = sim_rows();
        cadre_catalogue_add_memory_dataset(catalogue, name, &rows, &dataset);
    } else {
        const bool is_streamed = sim_swarm_has(self->check->seed, "ranges", 2);
        cadre_catalogue_add_dataset(catalogue, name,
                                    is_streamed ? "{\"format\": \"csv\", \"path\": \"rows\", "
                                                  "\"streaming\": true, \"ranges\": 5}"
                                                : "{}",
                                    &dataset);
    }
    cadre_announcements_tell_dataset(&core_of(self)->announcements, dataset);
}

static cadre_closure_group_t *
share_of_group(const sim_script_t *self, uint32_t group)
{
    return group > 0 ? cadre_closure_group_ref(self->groups[group]) : NULL;
}

static bool
schedule(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    if (self->plan.dataset) {
        open_data(self);
    }
    while (self->burst > 0 || self->closure) {
        bool raised = false;
        if (!self->closure && !raise_error(self, &raised)) {
            if (raised) {
                continue; /* clean again */
            }
            return false;
        }
        if (!self->closure) {
            self->closure = sim_call_new(&self->random, &self->plan, self->check, core);
            if (self->plan.futures) {
                sim_futures_link(&self->futures, &self->random, call_of(self), self->closure);
            }
            self->closure->group = share_of_group(self, call_of(self)->group);
            self->burst--;
        }
        sim_call_t *call = call_of(self);
        bool goes_on = call->group >= SIM_GROUP_GOES_ON;
        if (!goes_on && !raise_of(self, call->group, &raised)) {
            if (raised) {
                continue;
            }
            return false;
        }
        sim_futures_check(call, self->closure);
        if (cadre_closure_queue_put(&core->queue, self->closure) < 0) {
            return false;
        }
        cadre_core_note_scheduled(core);
        sim_check_life(self->check)->scheduled++;
        self->check->groups[call->group].is_cancelled = false;
        call->scheduled = true;
        self->closure = NULL;
    }
    return true;
}

/* --- values --- */

/* Whether the answers that an operation waits for are there, or it is given up; what the shards do
 * about it later touches nothing here. */
static bool
is_answered(sim_script_t *self)
{
    if (self->pending.pending > 0 && self->network->now_ms < self->patience_ms) {
        return false;
    }
    if (self->pending.pending > 0) {
        cadre_operations_give_up(&core_of(self)->operations, &self->pending);
        self->pending.status = CADRE_ETIMEOUT;
        self->given_up++;
    }
    return true;
}

/* Plans to read some keys of a table, in any order and some twice. */
static void
plan_keys(sim_script_t *self, const sim_variable_t *table, uint64_t drawn)
{
    const size_t count = 1 + drawn % 40;
    self->row_ids = cadre_calloc(count, sizeof(*self->row_ids));
    for (size_t k = 0; k < count; k++) {
        self->row_ids[k] = (int64_t)table->keys[(drawn + k * k * 7) % SIM_KEYS];
    }
    cadre_row_plan_init(&self->row_plan, core_of(self)->catalogue.variables[self->variable],
                        self->row_ids, 0, count);
}

/* Plans to read some rows instead of all, half of the time: a span, or any, also twice. */
static void
plan_rows(sim_script_t *self)
{
    char what[32];
    const sim_variable_t *variable = &self->check->variables[self->variable];
    snprintf(what, sizeof(what), "read rows %u", self->reads++);
    const uint64_t drawn = sim_swarm_draw(self->check->seed, what, 0, 9999);
    if (variable->dim > 0) {
        plan_keys(self, variable, drawn);
        return;
    }
    if (variable->definition.rank == 0 || drawn < 5000) {
        return;
    }
    const bool is_span = drawn % 3 == 0;
    const uint64_t rows = (uint64_t)variable->rows;
    size_t count = 1 + drawn % 40;
    count = is_span && count > rows ? (size_t)rows : count;
    self->row_ids = cadre_calloc(count, sizeof(*self->row_ids));
    for (size_t k = 0; k < count; k++) {
        const uint64_t row = is_span ? drawn % (rows - count + 1) + k : (drawn + k * k * 7) % rows;
        self->row_ids[k] = (int64_t)row;
    }
    cadre_row_plan_init(&self->row_plan, core_of(self)->catalogue.variables[self->variable],
                        self->row_ids, 0, count);
}

static void
begin_read(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    const sim_variable_t *variable = &self->check->variables[self->variable];
    plan_rows(self);
    const size_t size_bytes = self->row_plan.count * variable->row_size_bytes;
    self->buffer =
        cadre_aligned_alloc(size_bytes > 0 ? size_bytes : sim_variable_size_bytes(variable));
    self->pending = (cadre_operation_t){.target = self->buffer};
    sim_check_read_begins(self->check, self->variable, core->requests.last);
    if (size_bytes > 0) {
        cadre_operations_read_rows(&core->operations, &self->row_plan, &self->pending);
    } else {
        cadre_operations_read(&core->operations, core->catalogue.variables[self->variable],
                              &self->pending);
    }
}

static void
end_read(sim_script_t *self)
{
    cadre_free(&self->buffer);
    cadre_row_plan_fini(&self->row_plan);
    cadre_free(&self->row_ids);
}

static bool
read_value(sim_script_t *self)
{
    if (!self->asked) {
        self->asked = true;
        begin_read(self);
    }
    if (!is_answered(self)) {
        return false;
    }
    if (self->pending.status == CADRE_ETIMEOUT) {
        sim_check_read_ends(self->check);
    } else if (self->pending.status < 0) {
        sim_check_fail(self->check, "read: %s", self->pending.text);
    } else if (self->row_plan.count > 0) {
        sim_check_rows(self->check, &self->row_plan, self->buffer);
    } else {
        sim_check_read(self->check, self->buffer);
    }
    end_read(self);
    return true;
}

/* Puts infinity into one part of what is assigned, sometimes: its shard refuses it. */
static void
spoil(sim_script_t *self, void *bytes)
{
    char what[32];
    const sim_variable_t *variable = &self->check->variables[self->variable];
    cadre_dtype_t dtype = variable->definition.dtype;
    snprintf(what, sizeof(what), "bad value %u", self->assignment);
    uint64_t drawn = sim_swarm_draw(self->check->seed, what, 0, 9999);
    self->is_bad = (dtype == CADRE_F32 || dtype == CADRE_F64) && drawn < self->plan.bad_values;
    if (self->is_bad) {
        sim_make_infinite(dtype, bytes, variable->parts[drawn % variable->part_count].first);
    }
}

/* Assigns to keys of a table, in their order or the other way round. */
static void
begin_assign_keys(sim_script_t *self, const sim_variable_t *table, cadre_assign_mode_t mode)
{
    char what[32];
    uint64_t keys[SIM_KEYS];
    int64_t ids[SIM_KEYS];
    const size_t count = sim_table_list(table, SIM_KEYS_ASSIGNED, self->assignment, 0, keys);
    snprintf(what, sizeof(what), "assign keys %u", self->assignment);
    const bool turns = sim_swarm_has(self->check->seed, what, 2);
    for (size_t i = 0; turns && i < count / 2; i++) {
        const uint64_t key = keys[i];
        keys[i] = keys[count - 1 - i];
        keys[count - 1 - i] = key;
    }
    for (size_t i = 0; i < count; i++) {
        ids[i] = (int64_t)keys[i];
    }
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *rows =
        sim_table_numbers(table, keys, count, (int64_t)self->assignment, CADRE_F32);
    spoil(self, cadre_chunk_data(rows));
    cadre_auto(cadre_row_plan_fini) cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, core_of(self)->catalogue.variables[self->variable], ids, 0, count);
    cadre_operations_assign_rows(&core_of(self)->operations, &plan, mode, cadre_chunk_data(rows),
                                 &self->pending);
}

/* Assigns `bytes` row by row, the rows in another order, half of the time; else the whole. */
static void
begin_assign(sim_script_t *self, cadre_assign_mode_t mode, const void *bytes)
{
    char what[32];
    cadre_operations_t *operations = &core_of(self)->operations;
    const cadre_variable_t *handle = core_of(self)->catalogue.variables[self->variable];
    const sim_variable_t *variable = &self->check->variables[self->variable];
    snprintf(what, sizeof(what), "assign rows %u", self->assignment);
    const uint64_t drawn = sim_swarm_draw(self->check->seed, what, 0, 9999);
    if (variable->definition.rank == 0 || drawn < 5000) {
        cadre_operations_assign(operations, handle, mode, bytes, &self->pending);
        return;
    }

    const size_t count = (size_t)variable->rows;
    cadre_auto(cadre_free) int64_t *ids = cadre_calloc(count, sizeof(*ids));
    cadre_auto(cadre_free) char *rows = cadre_calloc(count, variable->row_size_bytes);
    for (size_t k = 0; k < count; k++) {
        const size_t turned = (size_t)((k + drawn) % count);
        const size_t row = drawn % 2 ? count - 1 - turned : turned;
        ids[k] = (int64_t)row;
        memcpy(rows + k * variable->row_size_bytes,
               (const char *)bytes + row * variable->row_size_bytes, variable->row_size_bytes);
    }
    cadre_auto(cadre_row_plan_fini) cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, handle, ids, 0, count);
    cadre_operations_assign_rows(operations, &plan, mode, rows, &self->pending);
}

static void
begin_assign_whole(sim_script_t *self, const sim_variable_t *variable, cadre_assign_mode_t mode)
{
    void *bytes = sim_variable_values(variable, (int64_t)self->assignment);
    spoil(self, bytes);
    begin_assign(self, mode, bytes);
    free(bytes);
}

static bool
assign(sim_script_t *self)
{
    if (!self->asked && !cadre_checkpoint_may_assign(&core_of(self)->checkpoint)) {
        return false;
    }
    if (!self->asked) {
        self->asked = true;
        /* of multiples of the weights, as the model has them, these make such again */
        static const cadre_assign_mode_t modes[] = {CADRE_ASSIGN_SET, CADRE_ASSIGN_ADD,
                                                    CADRE_ASSIGN_SUB, CADRE_ASSIGN_MIN,
                                                    CADRE_ASSIGN_MAX};
        const sim_variable_t *variable = &self->check->variables[self->variable];
        uint64_t of_table = variable->dim > 0 ? 2 : CADRE_COUNT_OF(modes) - 1; /* no min, no max */
        cadre_assign_mode_t mode = modes[draw(self, 0, of_table)];
        self->assignment = sim_check_add_assignment(self->check, self->variable, mode);
        if (variable->dim > 0) {
            begin_assign_keys(self, variable, mode);
        } else {
            begin_assign_whole(self, variable, mode);
        }
    }
    if (!is_answered(self)) {
        return false;
    }
    if (self->is_bad && self->pending.status == CADRE_ENOTFINITE) {
        self->refused++;
    } else if (self->pending.status == 0 && !self->is_bad) {
        self->check->assignments[self->assignment].done_event = *self->check->events;
    } else if (self->pending.status != CADRE_ETIMEOUT) {
        sim_check_fail(self->check, "assign: %s",
                       self->pending.status < 0 ? self->pending.text : "infinity was taken");
    }
    return true;
}

/* Asks a shard for its counters, or all for those of a table. */
static void
begin_count(sim_script_t *self)
{
    char what[32];
    cadre_core_t *core = core_of(self);
    snprintf(what, sizeof(what), "count table %" PRIu64, self->operations_done);
    const uint32_t at = (uint32_t)sim_swarm_draw(self->check->seed, what, 0, SIM_VARIABLES_MAX - 1);
    const bool is_usable = sim_check_usable(self->check) >> at & 1;
    if (is_usable && self->check->variables[at].dim > 0) {
        self->pending = (cadre_operation_t){.target = self->counted_rows};
        cadre_operations_count_table(&core->operations, core->catalogue.variables[at],
                                     &self->pending);
        return;
    }
    self->pending = (cadre_operation_t){.target = &self->counted};
    cadre_operations_count(&core->operations, self->variable, &self->pending);
}

static bool
count(sim_script_t *self)
{
    if (!self->asked) {
        self->asked = true;
        begin_count(self);
    }
    if (!is_answered(self)) {
        return false;
    }
    if (self->pending.status < 0 && self->pending.status != CADRE_ETIMEOUT) {
        sim_check_fail(self->check, "count: %s", self->pending.text);
    }
    return true; /* what the shard said was looked at when it said it */
}

/* --- checkpoints --- */

static bool
checkpoint(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    cadre_closure_queue_cut_short(&core->queue);
    if (core->checkpoint.state != CADRE_CHECKPOINT_IDLE) {
        return false;
    }
    self->checkpoint_attempts = core->checkpoint.attempts + 1;
    if (cadre_checkpoint_begin(&core->checkpoint, draw(self, 0, 1) ? "{\"epoch\": 3}" : NULL) < 0) {
        sim_check_fail(self->check, "checkpoint: %s", cadre_error_text());
    }
    return true;
}

/* The one that was begun last; a failure must have been the store's. */
static bool
await_checkpoint(sim_script_t *self)
{
    const cadre_checkpoint_t *state = &core_of(self)->checkpoint;
    cadre_closure_queue_cut_short(&core_of(self)->queue);
    if (state->attempts < self->checkpoint_attempts) {
        return false;
    }
    if (state->last_status < 0 && !strstr(state->last_text, "simulation") &&
        !sim_cluster_may_lose_ps(self->cluster)) {
        sim_check_fail(self->check, "a checkpoint failed: %s", state->last_text);
    }
    return true;
}

/* --- pauses --- */

/* Pauses until all that was begun has ended, and looks at the shards then: as a read of several
 * variables does. */
static bool
stand_still(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    if (!self->asked) {
        self->asked = true;
        cadre_pause_begin(&core->pause);
    }
    cadre_closure_queue_cut_short(&core->queue);
    const bool is_still = cadre_pause_is_still(&core->pause);
    if (!is_still && self->network->now_ms < self->patience_ms) {
        return false;
    }
    if (is_still) {
        sim_cluster_check_still(self->cluster);
    }
    self->given_up += is_still ? 0 : 1;
    cadre_pause_end(&core->pause);
    return true;
}

/* --- one operation after the other --- */

static bool
go_on(sim_script_t *self)
{
    const cadre_core_t *core = core_of(self);
    bool raised = false;
    switch (self->operation) {
    case SIM_WAIT_READY:
        return core->membership.ps_joined == core->options.ps_count;
    case SIM_CREATE:
        return sim_script_create(self);
    case SIM_SCHEDULE:
        return schedule(self);
    case SIM_JOIN:
        return join(self);
    case SIM_DONE:
        raise_error(self, &raised);
        cancel_some_group(self);
        drop_functions(self);
        return true;
    case SIM_CANCEL:
        return cancel(self);
    case SIM_READ:
        return read_value(self);
    case SIM_ASSIGN:
        return assign(self);
    case SIM_COUNT:
        return count(self);
    case SIM_CHECKPOINT:
        return checkpoint(self);
    case SIM_AWAIT_CHECKPOINT:
        return await_checkpoint(self);
    case SIM_AWAIT_TAGGED:
        return core->queue.lanes.tagged == 0 && core->queue.tagged_in_flight == 0;
    case SIM_PAUSE:
        return self->network->now_ms >= self->due_ms;
    case SIM_DROP:
        return sim_script_drop(self);
    case SIM_RATE:
        return sim_script_change_rate(self);
    case SIM_STILL:
        return stand_still(self);
    case SIM_GO_BACK:
        return sim_script_go_back(self);
    case SIM_END:
        return false;
    }
    return false;
}

/* The last operations of every script, in order: what is tagged ends, what failed is raised, what
 * is there is read. */
static sim_operation_t
next_closing(sim_script_t *self)
{
    static const sim_operation_t closing[] = {SIM_JOIN, SIM_AWAIT_TAGGED, SIM_JOIN,
                                              SIM_AWAIT_CHECKPOINT, SIM_COUNT};
    if (self->closing < CADRE_COUNT_OF(closing)) {
        return closing[self->closing++];
    }
    uint32_t variable = self->closing++ - (uint32_t)CADRE_COUNT_OF(closing);
    self->variable = variable;
    if (variable >= self->check->variable_count) {
        return SIM_END;
    }
    return sim_check_usable(self->check) >> variable & 1 ? SIM_READ : next_closing(self);
}

/* What the program does, and how often usually. */
static const struct {
    sim_operation_t operation;
    uint32_t weight;
} weights[] = {
    {SIM_SCHEDULE, 40}, {SIM_JOIN, 12},      {SIM_DONE, 6},
    {SIM_CANCEL, 3},    {SIM_READ, 12},      {SIM_ASSIGN, 8},
    {SIM_COUNT, 4},     {SIM_CHECKPOINT, 8}, {SIM_AWAIT_CHECKPOINT, 3},
    {SIM_CREATE, 2},    {SIM_PAUSE, 8},
};

/* How often in this world: no program schedules nothing. */
static uint32_t
weight_of(const sim_script_t *self, size_t at)
{
    sim_operation_t operation = weights[at].operation;
    return operation == SIM_SCHEDULE
               ? weights[at].weight
               : sim_swarm_weight(self->check->seed, sim_operation_text(operation),
                                  weights[at].weight);
}

/* Whether the next operation is a pause: one of thirty. */
static bool
stands_still(const sim_script_t *self)
{
    char what[32];
    snprintf(what, sizeof(what), "still %" PRIu64, self->operations_done);
    return sim_swarm_draw(self->check->seed, what, 0, 29) == 0;
}

/* Whether the next operation is to go back. */
static bool
goes_back(const sim_script_t *self)
{
    char what[32];
    snprintf(what, sizeof(what), "back %" PRIu64, self->operations_done);
    return self->plan.backs > 0 &&
           sim_swarm_draw(self->check->seed, what, 0, 9999) < self->plan.backs;
}

static sim_operation_t
next_operation(sim_script_t *self)
{
    if (self->check->variable_count < self->plan.variables ||
        self->check->variable_count < self->variables) {
        bool dawdles = self->check->variable_count < self->check->known_count && !draw(self, 0, 3);
        return dawdles ? SIM_PAUSE : SIM_CREATE; /* a resumed program may take its time */
    }
    if (sim_check_next_lost(self->check)) {
        return SIM_SCHEDULE;
    }
    if (self->left == 0 && sim_cluster_had_enough(self->cluster)) {
        return next_closing(self);
    }
    if (self->plan.drops && sim_chance(&self->drop_random, self->plan.drops)) {
        return sim_chance(&self->drop_random, 5000) ? SIM_DROP : SIM_CREATE;
    }
    if (self->plan.rates && sim_chance(&self->rate_random, self->plan.rates)) {
        return sim_script_choose_rate(self) ? SIM_RATE : SIM_SCHEDULE;
    }
    if (stands_still(self)) {
        return SIM_STILL;
    }
    if (goes_back(self)) {
        return SIM_GO_BACK;
    }
    if (self->left == 0 && draw(self, 0, 1)) {
        return SIM_PAUSE;
    }
    self->left -= self->left > 0 ? 1 : 0;
    uint64_t total = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(weights); i++) {
        total += weight_of(self, i);
    }
    uint64_t drawn = draw(self, 0, total - 1);
    size_t at = 0;
    while (drawn >= weight_of(self, at)) {
        drawn -= weight_of(self, at++);
    }
    return weights[at].operation;
}

/* How long the program waits for shards; the last operations wait for ever. */
static uint64_t
draw_patience(sim_script_t *self)
{
    if (self->closing > 0 || !sim_chance(&self->patience_random, self->plan.gives_up)) {
        return SIM_FOR_EVER;
    }
    uint64_t wait_ms = sim_between(&self->patience_random, 1, 3000);
    sim_network_at(self->network, wait_ms, SIM_SCRIPT, SIM_COORDINATOR_NODE, 0);
    return self->network->now_ms + wait_ms;
}

/* Any but the first; false when there is none. */
static bool
choose_dropped(sim_script_t *self)
{
    uint32_t usable = sim_check_usable(self->check);
    uint32_t count = self->check->variable_count;
    uint32_t from = count > 1 ? (uint32_t)sim_between(&self->drop_random, 1, count - 1) : 0;
    for (uint32_t i = from; i > 0; i--) {
        if (usable >> i & 1) {
            self->variable = i;
            return true;
        }
    }
    return false;
}

/* Whether a variable is there; for an assignment also, of a table, whether its parts are sure to
 * have room for the rows of the next one. */
static bool
is_usable(const sim_script_t *self, uint32_t number, sim_operation_t operation)
{
    const sim_variable_t *variable = &self->check->variables[number];
    const uint64_t rows_max = variable->definition.rows_max;
    bool has_room = rows_max == 0 || variable->definition.when_full != CADRE_TABLE_REFUSE;
    for (uint32_t i = 0; rows_max > 0 && has_room && i < variable->part_count; i++) {
        const uint64_t named =
            sim_table_named(variable, i, SIM_KEYS_ASSIGNED, self->check->assignment_count, 0);
        has_room = (uint64_t)__builtin_popcountll(named) <= rows_max;
    }
    return (sim_check_usable(self->check) >> number & 1) && (operation == SIM_READ || has_room);
}

/* Sets up what the next operation needs. */
static void
begin(sim_script_t *self, sim_operation_t operation)
{
    if ((operation == SIM_CHECKPOINT && !self->plan.checkpoints) ||
        (operation == SIM_CREATE && self->check->variable_count >= SIM_VARIABLES_MAX)) {
        operation = SIM_SCHEDULE;
    }
    bool is_forced = operation == SIM_CREATE && sim_script_predecessor(self) != SIM_NEVER;
    if (is_forced) {
        self->variable = sim_script_predecessor(self);
        operation = SIM_DROP;
    } else if (operation == SIM_DROP && !choose_dropped(self)) {
        operation = SIM_SCHEDULE;
    }
    self->operation = operation;
    self->begun_ms = self->network->now_ms;
    self->asked = false;
    self->patience_ms = is_forced ? SIM_FOR_EVER : draw_patience(self);
    if (operation == SIM_SCHEDULE) {
        self->burst = (uint32_t)draw(self, 1, self->plan.burst_max);
    } else if (operation == SIM_COUNT) {
        self->variable = (uint32_t)draw(self, 0, self->check->shard_count - 1);
    } else if ((operation == SIM_READ && self->closing == 0) || operation == SIM_ASSIGN) {
        self->variable = (uint32_t)draw(self, 0, self->check->variable_count - 1);
        self->variable = is_usable(self, self->variable, operation) ? self->variable : 0;
    } else if (operation == SIM_PAUSE) {
        uint64_t wait_ms = draw(self, 1, 2000);
        self->due_ms = self->network->now_ms + wait_ms;
        bool jumps = self->plan.jumps && !core_of(self)->replay.holds;
        core_of(self)->begun.next_id += jumps ? draw(self, 0, JUMP_MAX) : 0;
        sim_network_at(self->network, wait_ms, SIM_SCRIPT, SIM_COORDINATOR_NODE, 0);
    }
}

/* What the program does first in every life. */
static void
set_up(sim_script_t *self)
{
    cadre_core_t *core = core_of(self);
    self->operation = SIM_WAIT_READY;
    core->checkpoint.enabled = self->plan.checkpoints;
    core->checkpoint.every_ms = self->plan.every_ms;
    core->checkpoint.every_steps = self->plan.every_steps;
    core->queue.values_size_max =
        self->plan.values_max ? self->plan.values_max : core->queue.values_size_max;
    for (uint32_t i = 1; i < SIM_GROUPS; i++) {
        self->groups[i] = i == SIM_GROUP_OF_CLIENT
                              ? cadre_closure_group_new_unpaced()
                              : cadre_closure_group_new(i == SIM_GROUP_GOES_ON);
        self->check->groups[i].closures = self->groups[i];
    }
    self->check->groups[0].closures = &core->queue.own;
    register_functions(self);
    if (self->plan.dataset) {
        open_data(self);
    }
}

void
sim_script_start(sim_script_t *self, uint64_t seed)
{
    cadre_random_init(&self->random, seed, RANDOM_STREAM);
    cadre_random_init(&self->patience_random, seed, PATIENCE_STREAM);
    cadre_random_init(&self->drop_random, seed, DROP_STREAM);
    cadre_random_init(&self->rate_random, seed, RATE_STREAM);
    cadre_random_init(&self->back_random, seed, BACK_STREAM);
    self->left = self->plan.operations;
    set_up(self);
}

void
sim_script_fini(sim_script_t *self)
{
    cadre_closure_destroy(&self->closure);
    for (uint32_t i = 1; i < SIM_GROUPS; i++) {
        cadre_closure_group_unref(&self->groups[i]);
    }
    sim_futures_fini(&self->futures);
    end_read(self);
    self->variables = self->check->variable_count > self->variables ? self->check->variable_count
                                                                    : self->variables;
}

void
sim_script_start_again(sim_script_t *self)
{
    self->closing = 0;
    self->burst = 0;
    self->gives_up = false;
    self->back_to = 0;
    self->checkpoint_attempts = 0;
    self->new_variable = NULL;
    self->done_ms = self->network->now_ms;
    set_up(self);
}

void
sim_script_go(sim_script_t *self)
{
    while (self->operation != SIM_END && go_on(self)) {
        self->operations_done++;
        self->done_ms = self->network->now_ms;
        begin(self, next_operation(self));
    }
}

bool
sim_script_ended(const sim_script_t *self)
{
    return self->operation == SIM_END;
}
