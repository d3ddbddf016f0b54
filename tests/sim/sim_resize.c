#include "tests/sim/sim_resize.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_swarm.h"

bool
sim_is_resized(uint64_t seed)
{
    return sim_swarm_has(seed, "resized", 10);
}

/* Where the parts of the variables were. */
typedef struct {
    sim_part_t *parts[SIM_VARIABLES_MAX];
    uint32_t counts[SIM_VARIABLES_MAX];
} layout_t;

/* --- files --- */

/* What a checkpoint has of a part, as it was laid out; NULL: initial values. */
static const sim_value_t *
value_of(sim_state_t *const *files, const layout_t *before, uint32_t variable, uint32_t part)
{
    const sim_state_t *file = files[before->parts[variable][part].shard];
    return file->values[variable] ? &file->values[variable][part] : NULL;
}

/* Takes those rows of a part that was that have one of these keys. */
static void
take_rows(sim_rows_t *self, const sim_rows_t *from, uint64_t keys)
{
    for (uint64_t left = from->rows & keys; left; left &= left - 1) {
        const uint32_t key = (uint32_t)__builtin_ctzll(left);
        sim_places_add(&self->places, key);
        self->places.changed[key] = from->places.changed[key];
        self->places.uses[key] = from->places.uses[key];
        self->n[key] = from->n[key];
        memcpy(self->numbers[key], from->numbers[key], sizeof(self->numbers[key]));
        self->rows |= left & -left;
        self->firsts &= from->firsts | ~(left & -left);
    }
}

/* One part of a table, of all parts that there were. */
static void
deal_rows(const sim_variable_t *variable, sim_value_t *value, sim_state_t *const *files,
          const layout_t *before, uint64_t keys)
{
    sim_rows_t *rows = value->rows;
    for (uint32_t i = 0; i < before->counts[variable->id - 1]; i++) {
        const sim_value_t *from = value_of(files, before, variable->id - 1, i);
        if (from) {
            take_rows(rows, sim_value_rows(from), keys);
            value->version = cadre_max_u64(value->version, from->version);
            value->updates = cadre_max_u64(value->updates, from->updates);
        }
    }
    value->first = value->version;
    rows->steps = (uint32_t)value->updates;
}

/* What a file has of a variable: of the parts that are on its shard now. */
static void
deal_variable(const sim_check_t *check, sim_state_t *file, uint32_t at, sim_state_t *const *files,
              const layout_t *before)
{
    const sim_variable_t *variable = &check->variables[at];
    for (uint32_t part = 0; part < variable->part_count; part++) {
        if (variable->parts[part].shard != file->shard) {
            continue;
        }
        sim_value_t *value = sim_state_value(file, variable, part);
        if (variable->dim > 0) {
            deal_rows(variable, value, files, before, variable->parts[part].keys);
            continue;
        }
        const sim_value_t *from = value_of(files, before, at, part);
        if (from) {
            sim_number_t *history = value->history;
            const size_t capacity = value->capacity;
            *value = *from;
            value->history = history;
            value->capacity = capacity;
            value->first = value->version;
            value->history[0] = value->now;
            value->kept_count = 0;
        }
    }
}

/* Updates that any of the files has, on each shard that has a part of what they change. The files
 * are of shards of which each had its own times, some of a replay. They were in order; of all of
 * them together that is left which the user knows: when a call was begun, an assignment asked for.
 */
static void
deal_stamps(const sim_check_t *check, sim_state_t *file, sim_state_t *const *files, uint32_t count)
{
    for (uint32_t i = 0; i < check->call_count; i++) {
        const sim_call_t *call = check->calls[i];
        for (uint32_t step = 0; step < call->steps; step++) {
            bool found = false;
            for (uint32_t k = 0; k < count; k++) {
                found = found || sim_state_stamp(files[k], i, step) > 0;
            }
            if (found && sim_check_shards(check, call->pushes[step]) >> file->shard & 1) {
                sim_state_apply(file, i, step, call->begun_event);
            }
        }
    }
}

/* The assignments that all parts have which there were, where the shard has a part now; `file` has
 * none yet. */
static void
deal_assignments(const sim_check_t *check, sim_state_t *file, sim_state_t *const *files,
                 const layout_t *before)
{
    for (uint32_t i = 0; i < check->assignment_count; i++) {
        const uint32_t at = check->assignments[i].variable;
        const sim_variable_t *variable = &check->variables[at];
        const uint64_t stamp = check->assignments[i].asked_event;
        bool is_whole = true;
        for (uint32_t part = 0; part < before->counts[at]; part++) {
            const sim_taken_t taken = {.assignment = i, .variable = at, .part = part};
            const uint64_t here = sim_state_taken(files[before->parts[at][part].shard], &taken);
            is_whole = is_whole && here > 0;
            if (variable->dim == 0 && here > 0 && variable->parts[part].shard == file->shard) {
                sim_state_take(file, &(sim_taken_t){i, at, part, stamp});
            }
        }
        for (uint32_t part = 0; variable->dim > 0 && part < variable->part_count; part++) {
            if (is_whole && variable->parts[part].shard == file->shard) {
                sim_state_take(file, &(sim_taken_t){i, at, part, stamp});
            }
        }
    }
}

/* What a shard begins with where there were others. */
static sim_state_t *
deal_file(const sim_check_t *check, uint32_t shard, sim_state_t *const *files, uint32_t count,
          const layout_t *before)
{
    const sim_state_t *like = files[0];
    sim_state_t *file = sim_state_new(shard, like->epoch, like->generation, like->cut);
    file->checkpoint = like->checkpoint;
    file->step = like->step;
    memcpy(file->admit_after, like->admit_after, sizeof(file->admit_after));
    if (shard < count) {
        file->applied = files[shard]->applied;
        file->duplicate = files[shard]->duplicate;
        file->refused = files[shard]->refused;
    }
    for (uint32_t at = 0; at < check->known_count; at++) {
        deal_variable(check, file, at, files, before);
    }
    deal_stamps(check, file, files, count);
    deal_assignments(check, file, files, before);
    return file;
}

/* What the oracle has of a checkpoint, dealt out to the shards that there are now: where there were
 * as many, they begin with what these had. */
static void
deal(const sim_check_t *check, sim_checkpoint_t *checkpoint, const layout_t *before)
{
    sim_state_t *files[SIM_SHARDS_MAX] = {NULL};
    const uint32_t count = (uint32_t)checkpoint->manifest->shard_count;
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++) {
        sim_file_t *file = &checkpoint->files[i];
        if (i < count && !file->written) {
            file->written = file->state;
            file->state = NULL;
        }
        sim_state_destroy(&file->state);
        files[i] = file->written;
        if (i < count) {
            sim_check_order(check, files[i]);
        }
    }
    for (uint32_t i = 0; i < check->shard_count; i++) {
        checkpoint->files[i].state = count == check->shard_count
                                         ? sim_state_copy(files[i])
                                         : deal_file(check, i, files, count, before);
    }
}

/* --- the job --- */

/* Stops all tasks, those that others were started in the place of among them. */
static void
stop_all(sim_cluster_t *self)
{
    for (uint32_t i = 0; i < self->client_count; i++) {
        sim_client_stop(&self->clients[i]);
    }
    for (uint32_t i = 0; i < self->place_count; i++) {
        if (self->places[i].task != SIM_NEVER) {
            sim_cluster_kill(self, &self->places[i]);
        }
    }
    for (uint32_t i = 0; i < self->ps_count; i++) {
        if (self->shards[i].core) {
            sim_shard_stop(&self->shards[i]);
        }
    }
    for (uint32_t i = 0; i < self->worker_count; i++) {
        if (self->workers[i].core) {
            sim_worker_stop(&self->workers[i]);
        }
    }
    sim_cluster_kill_deposed(self);
    sim_cluster_kill_coordinator(self);
}

/* Lays the variables out for so many shards; the layout before is given, and is the caller's. */
static void
lay_out(sim_cluster_t *self, uint32_t shard_count, layout_t *before)
{
    for (uint32_t i = 0; i < self->check.known_count; i++) {
        before->parts[i] = self->check.variables[i].parts;
        before->counts[i] = self->check.variables[i].part_count;
    }
    self->coordinator->options.ps_count = shard_count;
    sim_script_lay_out(&self->script);
}

static void
drop(layout_t *self)
{
    for (uint32_t i = 0; i < SIM_VARIABLES_MAX; i++) {
        free(self->parts[i]);
        self->parts[i] = NULL;
    }
}

void
sim_resize(sim_cluster_t *self, uint32_t shard_count)
{
    layout_t layout = {.counts = {0}};
    stop_all(self);
    self->shard_count = shard_count;
    self->check.shard_count = shard_count;
    for (size_t i = 0; i < self->disk.count; i++) {
        sim_checkpoint_t *checkpoint = self->disk.checkpoints[i];
        if (checkpoint->manifest && !checkpoint->removed) {
            lay_out(self, (uint32_t)checkpoint->manifest->shard_count, &layout);
            drop(&layout);
            lay_out(self, shard_count, &layout);
            deal(&self->check, checkpoint, &layout);
            drop(&layout);
        }
    }
    lay_out(self, shard_count, &layout);
    drop(&layout);
    for (uint32_t i = 0; i < self->place_count; i++) {
        sim_faults_restart_later(self, &self->places[i], 0);
    }
    sim_faults_restart_coordinator_later(self);
}
