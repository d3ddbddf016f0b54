/*
 * The public calls that create variables. One call asks the shards to create many parts at a time,
 * because a round trip for each would take most of the time; but not all at once, because a request
 * takes memory until it is answered, and dispatch waits while requests are made.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/coordinator.h>
#include <cadre/table.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/optimizer_spec.h"
#include "common/system/clock.h"
#include "common/tensor/tensor.h"
#include "coordinator/api/table_options.h"
#include "coordinator/coordinator.h"
#include "coordinator/options.h"

enum {
    /* How many parts are requested together; more if a single variable has more. */
    PARTS_AT_ONCE = 4096,
    /* How many variables are announced to workers before the lock is released for a moment. */
    VARIABLES_AT_ONCE = 4096,
};

/* The variables that one call creates: the newest of the catalogue. */
typedef struct {
    const cadre_variable_definition_t *definitions;
    const cadre_table_spec_t *table; /* the only one of the batch is a table; else NULL */
    cadre_dtype_t table_wire;
    size_t count;
    cadre_variable_t **variables; /* [added] */
    size_t added;
    size_t asked;     /* how many of `variables`, the first ones, the shards were asked to create */
    uint64_t ps_lost; /* the job's count of lost ps when the call began */
    bool has_deadline;
    int64_t deadline_ms; /* deadline of the whole call, if has_deadline */
} batch_t;

/* Returns whether the optimizer `before` has each slot (by name) of `optimizer`: only then a ps
 * takes the slots from the checkpoint. */
static bool
has_slots(const cadre_optimizer_spec_t *before, const cadre_optimizer_spec_t *optimizer)
{
    size_t found = 0;
    size_t count = cadre_optimizer_slot_count(optimizer);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < cadre_optimizer_slot_count(before); k++) {
            found += strcmp(cadre_optimizer_slot_name(before, k),
                            cadre_optimizer_slot_name(optimizer, i)) == 0;
        }
    }
    return found == count;
}

/* Logs that a variable goes on with another optimizer than the one in the resumed checkpoint, that
 * of its entry `i`. */
static void
warn_if_optimizer_differs(cadre_coordinator_t *self, const cadre_variable_t *variable, size_t i)
{
    const char *before = self->resumed_optimizers[i];
    const char *now = cadre_optimizer_kind_text(variable->optimizer.kind);
    /* Rows have slots of other widths with row_wise and without it. */
    const bool was_row_wise = self->resumed_tables[i].row_wise;
    const bool is_row_wise = variable->table && variable->table->row_wise;
    const bool is_as_wide = !variable->table || is_row_wise == was_row_wise;
    cadre_optimizer_spec_t spec;
    if (!before || (is_as_wide && strcmp(before, now) == 0) ||
        cadre_optimizer_spec_parse(&spec, before) < 0) {
        return;
    }

    const char *next = "the values go on; its slots and steps are reset";
    cadre_optimizer_spec_t own = variable->optimizer; /* without the average, which any may have */
    own.average_momentum = 0;
    if (cadre_optimizer_slot_count(&own) == 0) {
        next = "the values go on; it has no slots";
    } else if (is_as_wide && has_slots(&spec, &own)) {
        next = "the values go on, and the slots, which have the same names";
    }

    cadre_effects_log(&self->core.effects, 'W', "optimizer_changed",
                      "variable=%s was=%s%s is=%s%s next=\"%s\"", variable->name,
                      was_row_wise ? "row_wise_" : "", before, is_row_wise ? "row_wise_" : "", now,
                      next);
}

/* Logs that keys without a row are counted from zero, because a checkpoint has sightings by ps and
 * there were more or fewer of these. */
static void
warn_if_sightings_begin_anew(cadre_coordinator_t *self, const cadre_variable_t *variable, size_t i)
{
    const cadre_resumed_table_t *before = &self->resumed_tables[i];
    if (variable->table && before->parts > 0 && before->parts != variable->partitions &&
        before->admit_after > 1 && variable->table->admit_after > 1) {
        cadre_effects_log(&self->core.effects, 'W', "sightings_reset",
                          "variable=%s was_ps=%" PRIu32 " is_ps=%" PRIu32
                          " next=\"rows go on; keys without one are counted from zero\"",
                          variable->name, before->parts, variable->partitions);
    }
}

/* Logs what does not go on of a variable of the resumed checkpoint. Nothing is to be said of one
 * that begins with initial values since one of its name was dropped (`again`). */
static void
warn_if_resumed_otherwise(cadre_coordinator_t *self, const cadre_variable_t *variable)
{
    char **resumed = cadre_name_map_get(&self->resumed_names, variable->name);
    if (resumed && !variable->again) {
        const size_t i = (size_t)(resumed - self->resumed_variables);
        warn_if_optimizer_differs(self, variable, i);
        warn_if_sightings_begin_anew(self, variable, i);
    }
}

/* Under the lock: waits until every ps has joined. A timeout says which tasks are missing. */
static int
await_ps(cadre_coordinator_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    while (self->core.membership.ps_joined < self->core.options.ps_count) {
        int status =
            cadre_coordinator_wait_while_usable(self, deadline_ms, "every ps to join", &since_ms);
        if (status < 0) {
            return status == CADRE_ETIMEOUT ? cadre_coordinator_fail_absent(self, 0) : status;
        }
    }
    return 0;
}

/* Returns whether the resumed checkpoint holds a variable of this name that was not created again
 * yet. */
static bool
is_resumed(const cadre_coordinator_t *self, const char *name)
{
    return name && cadre_name_map_get(&self->resumed_names, name) &&
           !cadre_catalogue_variable(&self->core.catalogue, name) &&
           !cadre_catalogue_was_dropped(&self->core.catalogue, name);
}

/* Refuses to create a variable of the resumed checkpoint after the next checkpoint of the job,
 * which does not hold it: a shard that is restored later would begin with initial values while the
 * others have the resumed ones. `points.at[0]` is the newest checkpoint that shards are restored
 * to. */
static int
check_late(const cadre_coordinator_t *self, const char *name)
{
    if (!is_resumed(self, name) ||
        strcmp(self->core.recovery.points.at[0].path, self->resumed_path) == 0) {
        return 0;
    }
    return cadre_fail(CADRE_ESTATE,
                      "variable %s: %s, which was resumed, holds it, and it had to be created "
                      "before the job's next checkpoint",
                      name, self->resumed_path);
}

/* Returns whether another variable of that name is being dropped, so that the name is not free
 * yet. */
static bool
is_being_dropped(const cadre_coordinator_t *self, const char *name)
{
    const cadre_variable_t *variable =
        name ? cadre_catalogue_variable(&self->core.catalogue, name) : NULL;
    return variable && variable->dropped > 0;
}

/* Returns whether the batch must wait: for another call that creates variables, as ids are dense
 * and in order of creation; for a name that is not free yet; or, if it has variables that were
 * resumed, for the checkpoint under way, which decides whether these come too late (check_late). */
static bool
must_wait(const cadre_coordinator_t *self, const batch_t *batch)
{
    bool is_idle = self->core.checkpoint.state == CADRE_CHECKPOINT_IDLE;
    bool is_dropping = self->core.drops.called > self->core.drops.retired;
    for (size_t i = 0; (!is_idle || is_dropping) && i < batch->count; i++) {
        const char *name = batch->definitions[i].name;
        if (is_being_dropped(self, name) || (!is_idle && is_resumed(self, name))) {
            return true;
        }
    }
    return self->core.catalogue.creating > 0;
}

/* Returns whether every ps is a member and not silent. */
static bool
are_heard(const cadre_membership_t *membership)
{
    for (uint32_t i = 0; i < membership->ps_count; i++) {
        if (!membership->ps[i] || membership->ps[i]->suspect) {
            return false;
        }
    }
    return true;
}

/* Returns the deadline for a ps that is away from now on: the call's, else ps_timeout_ms from
 * now. */
static int64_t
first_deadline(const cadre_coordinator_t *self, const batch_t *batch)
{
    return batch->has_deadline ? batch->deadline_ms
                               : cadre_gate_deadline_ms((int64_t)self->core.options.ps_timeout_ms);
}

/* Returns the deadline of a wait for the shards: moved on while every ps is heard, unless the
 * caller set it. A shard that loads a checkpoint takes as long as it takes, and one whose load
 * stands still is lost (recovery.c). Closures that run again for a shard move it on too, if there
 * is a worker to run them. */
static int64_t
extend(const cadre_coordinator_t *self, const batch_t *batch, int64_t deadline_ms)
{
    const cadre_membership_t *membership = &self->core.membership;
    bool is_idle = self->core.replay.active && membership->worker_count == 0;
    return are_heard(membership) && !is_idle ? first_deadline(self, batch) : deadline_ms;
}

/* Under the lock: waits until the batch may be created (must_wait). While another call creates
 * variables, the deadline moves on as it does for that call. */
static int
await_turn(cadre_coordinator_t *self, const batch_t *batch)
{
    int64_t since_ms = 0;
    int64_t deadline_ms = first_deadline(self, batch);
    while (must_wait(self, batch)) {
        int status =
            cadre_coordinator_wait(self, deadline_ms, "another variable or checkpoint", &since_ms);
        bool is_over = status == CADRE_ETIMEOUT;
        /* The other call waits for ps, and its deadline moves on while they are heard. */
        if (self->core.catalogue.creating > 0) {
            deadline_ms = extend(self, batch, deadline_ms);
            is_over = is_over && cadre_clock_now_ms() >= deadline_ms;
        }
        if (is_over || (status < 0 && status != CADRE_ETIMEOUT)) {
            return status;
        }
    }

    return 0;
}

/* Gives the options of a variable: the defaults where its definition has none. */
static int
take_options(const cadre_variable_definition_t *definition, cadre_variable_options_t *options)
{
    *options = cadre_variable_options();
    return definition->options ? cadre_options_take(definition->options, options, sizeof(*options),
                                                    "cadre_variable_options_t")
                               : 0;
}

/* Puts a dense variable into the catalogue. */
static int
add_dense(cadre_coordinator_t *self, const cadre_variable_definition_t *definition,
          cadre_variable_t **variable)
{
    const char *name = definition->name ? definition->name : "";
    cadre_variable_options_t options;
    cadre_tensor_t like = {.dtype = definition->dtype, .rank = definition->rank};
    int status = take_options(definition, &options);
    if (status < 0) {
        return status;
    }

    if (options.delay_compensation != 0 && self->core.options.consistency == CADRE_SYNC) {
        return cadre_fail(CADRE_EINVALID,
                          "variable %s: delay_compensation is for async and bounded: with sync no "
                          "gradient is late",
                          name);
    }

    status = cadre_shape_size(definition->dtype, definition->shape, definition->rank, NULL, NULL);
    if (status < 0) {
        return cadre_fail_within(status, "variable %s", name);
    }

    for (int i = 0; i < definition->rank; i++) {
        like.shape[i] = definition->shape[i];
    }

    return cadre_catalogue_add_variable(&self->core.catalogue, definition->name, &like, &options,
                                        variable);
}

/* Puts the next variable of the batch into the catalogue. */
static int
add(cadre_coordinator_t *self, batch_t *batch)
{
    const cadre_variable_definition_t *definition = &batch->definitions[batch->added];
    cadre_variable_t **variable = &batch->variables[batch->added];

    /* A checkpoint that was taken without the variable (I5) does not hold its resumed values. */
    int status = check_late(self, definition->name);
    if (status < 0) {
        return status;
    }

    status = batch->table ? cadre_catalogue_add_table(&self->core.catalogue, definition->name,
                                                      batch->table, batch->table_wire, variable)
                          : add_dense(self, definition, variable);
    if (status < 0) {
        return status;
    }

    batch->variables[batch->added++]->coordinator = self;
    cadre_catalogue_begin_creation(&self->core.catalogue);
    return 0;
}

/* Asks the shards to create the next variables of the batch, about PARTS_AT_ONCE parts. */
static int
ask_some(cadre_coordinator_t *self, batch_t *batch, cadre_operation_t *operation)
{
    uint64_t parts = 0;
    int status = await_ps(self, first_deadline(self, batch));
    if (status < 0) {
        return status;
    }

    while (batch->asked < batch->count && parts < PARTS_AT_ONCE) {
        const cadre_variable_t *variable = batch->variables[batch->asked++];
        cadre_operations_create(&self->core.operations, variable, operation);
        parts += variable->partitions;
    }

    return 0;
}

/* Writes for the log how many parts are not created yet, and which ps answers next. */
static void
describe(const cadre_coordinator_t *self, const cadre_operation_t *operation, char text[128])
{
    uint32_t shard = cadre_shard_requests_oldest(&self->core.requests, operation);
    int length = snprintf(text, 128, "%zu parts of variables to be created", operation->pending);
    if (shard != UINT32_MAX) {
        snprintf(text + length, 128 - (size_t)length, " or loaded, the next by ps %u", shard);
    }
}

/* Waits for the answers of the shards. CADRE_ETIMEOUT when a ps was away for too long. */
static int
await_parts(cadre_coordinator_t *self, const batch_t *batch, const cadre_operation_t *operation)
{
    int64_t since_ms = 0;
    int64_t deadline_ms = first_deadline(self, batch);
    while (operation->pending > 0) {
        char what[128];
        describe(self, operation, what);
        int status = cadre_coordinator_wait_while_usable(self, deadline_ms, what, &since_ms);
        deadline_ms = extend(self, batch, deadline_ms);
        bool is_over = status == CADRE_ETIMEOUT && cadre_clock_now_ms() >= deadline_ms;
        if (is_over) {
            return cadre_fail_within(status, batch->has_deadline
                                                 ? "timeout_ms is over"
                                                 : "ps_timeout_ms (--ps-timeout) is over");
        }

        if (status < 0 && status != CADRE_ETIMEOUT) {
            return status;
        }
    }

    return 0;
}

/* Waits until the shards have what they were asked for; the error names the variable that could not
 * be created, or the last one. */
static int
await_some(cadre_coordinator_t *self, const batch_t *batch, cadre_operation_t *operation)
{
    int status = await_parts(self, batch, operation);
    if (status < 0) {
        cadre_operations_give_up(&self->core.operations, operation);
    } else if (operation->status < 0) {
        status = cadre_fail(operation->status, "%s", operation->text);
    }

    if (status == 0) {
        return 0;
    }

    uint32_t id = operation->failed ? operation->failed : batch->variables[batch->asked - 1]->id;
    return cadre_fail_within(status, "variable %s", self->core.catalogue.variables[id - 1]->name);
}

/* Makes variables that every shard has created visible: closures may refer to them, and each is
 * announced to workers, which takes long. So other calls and the actor get the lock in between. */
static void
publish(cadre_coordinator_t *self, const batch_t *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        cadre_variable_t *variable = batch->variables[i];
        variable->created = true;
        cadre_catalogue_end_creation(&self->core.catalogue);
        warn_if_resumed_otherwise(self, variable);
        cadre_announcements_add_variable(&self->core.announcements, variable);
        if (i % VARIABLES_AT_ONCE == VARIABLES_AT_ONCE - 1) {
            cadre_gate_unlock_and_wake(self->gate);
            cadre_gate_lock(self->gate);
        }
    }
}

/* Takes back all variables of a batch, because one of them could not be created: then none is to
 * exist. */
static void
abandon(cadre_coordinator_t *self, const batch_t *batch)
{
    for (size_t i = 0; i < batch->added; i++) {
        cadre_catalogue_end_creation(&self->core.catalogue);
        bool may_be_there = i < batch->asked || self->core.totals.ps_lost != batch->ps_lost;
        if (may_be_there) { /* requested, or created by a shard that was restored meanwhile */
            cadre_core_forget_variable(&self->core, batch->variables[i]);
        } else { /* no shard has to be asked to drop it */
            cadre_core_unlist_variable(&self->core, batch->variables[i]);
        }
    }
}

/* Adds every variable of the batch to the catalogue, and then creates them on the shards. */
static int
create_all(cadre_coordinator_t *self, batch_t *batch)
{
    /* All go into the catalogue first: errors in the options are known before any shard is
     * asked. */
    while (batch->added < batch->count) {
        int status = add(self, batch);
        if (status < 0) {
            return status;
        }
    }

    while (batch->asked < batch->count) {
        cadre_operation_t operation = {.pending = 0};
        int status = ask_some(self, batch, &operation);
        if (status < 0) {
            return status;
        }
        status = await_some(self, batch, &operation);
        if (status < 0) {
            return status;
        }
    }

    /* A shard that was restored meanwhile may have refused a variable that it had created
     * before. */
    const cadre_repairs_t *repairs = &self->core.recovery.repairs;
    return repairs->creation_status < 0
               ? cadre_fail(repairs->creation_status, "%s", repairs->creation_text)
               : 0;
}

/* Under the lock: creates all variables of the batch, or none. */
static int
create(cadre_coordinator_t *self, batch_t *batch)
{
    int status = await_turn(self, batch);
    if (status < 0) {
        return status; /* another creation may be under way, which must not be disturbed */
    }

    cadre_recovery_begin_creation(&self->core.recovery);
    batch->ps_lost = self->core.totals.ps_lost;
    status = create_all(self, batch);
    if (status < 0) {
        abandon(self, batch);
    } else {
        publish(self, batch);
    }

    cadre_gate_broadcast(self->gate);
    return status;
}

/* Creates all variables of the batch, or none, within `timeout_ms`, where that is not 0. */
static int
create_within(cadre_coordinator_t *self, batch_t *batch, int64_t timeout_ms)
{
    batch->has_deadline = timeout_ms != 0;
    batch->deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    int status = create(self, batch);
    cadre_gate_unlock_and_wake(self->gate);
    return status;
}

/* Creates several variables by one call, all or none; the time that it may take is in the options
 * of the first. */
int
cadre_variable_create_many(cadre_coordinator_t *self,
                           const cadre_variable_definition_t *definitions, size_t count,
                           cadre_variable_t **variables)
{
    cadre_auto(cadre_free) cadre_variable_t **created = cadre_calloc(count, sizeof(*created));
    batch_t batch = {.definitions = definitions, .count = count, .variables = created};
    cadre_variable_options_t options = cadre_variable_options();
    int status = count > 0 ? take_options(&definitions[0], &options) : 0;
    if (status < 0) {
        return status;
    }

    status = create_within(self, &batch, options.timeout_ms);
    if (status < 0) {
        return status;
    }
    if (variables && count > 0) {
        memcpy(variables, created, count * sizeof(*created));
    }

    return 0;
}

int
cadre_variable_create(cadre_coordinator_t *self, const char *name, cadre_dtype_t dtype,
                      const int64_t *shape, int rank, const cadre_variable_options_t *options,
                      cadre_variable_t **variable)
{
    const cadre_variable_definition_t definition = {
        .name = name, .dtype = dtype, .shape = shape, .rank = rank, .options = options};
    return cadre_variable_create_many(self, &definition, 1, variable);
}

/* Creates a table. */
int
cadre_variable_create_table(cadre_coordinator_t *self, const char *name, uint32_t dim,
                            const cadre_table_options_t *given, cadre_variable_t **table)
{
    cadre_table_options_t options;
    cadre_table_spec_t spec;
    int status = cadre_table_options_take(given, &options);
    if (status < 0) {
        return status;
    }
    status = cadre_table_options_spec(&options, dim, &spec);
    if (status < 0) {
        return cadre_fail_within(status, "table %s", name ? name : "");
    }

    cadre_variable_t *created = NULL;
    const cadre_variable_definition_t definition = {.name = name};
    batch_t batch = {.definitions = &definition,
                     .table = &spec,
                     .table_wire = options.wire,
                     .count = 1,
                     .variables = &created};
    status = create_within(self, &batch, options.timeout_ms);
    if (status < 0) {
        return status;
    }
    if (table) {
        *table = created;
    }
    return 0;
}
