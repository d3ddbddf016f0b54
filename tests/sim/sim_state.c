#include "tests/sim/sim_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

sim_state_t *
sim_state_new(uint32_t shard, uint64_t epoch, uint64_t generation, uint64_t cut)
{
    sim_state_t *self = cadre_calloc(1, sizeof(*self));
    *self = (sim_state_t){.shard = shard, .epoch = epoch, .generation = generation, .cut = cut};
    return self;
}

void
sim_state_forget(sim_state_t *self, uint32_t variable)
{
    for (uint32_t i = 0; self->values[variable] && i < self->part_counts[variable]; i++) {
        free(self->values[variable][i].history);
        free(self->values[variable][i].rows);
    }
    free(self->values[variable]);
    self->values[variable] = NULL;
}

void
sim_state_destroy(sim_state_t **self_p)
{
    sim_state_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    for (uint32_t i = 0; i < SIM_VARIABLES_MAX; i++) {
        sim_state_forget(self, i);
    }
    free(self->stamps);
    free(self->taken);
    for (size_t i = 0; i < self->held_count; i++) {
        free(self->held[i].parts);
    }
    free(self->held);
    sim_state_destroy(&self->image);
    free(self);
}

/* --- steps --- */

void
sim_state_hold(sim_state_t *self, const sim_pushed_t *held)
{
    self->held = cadre_realloc(self->held, self->held_count + 1, sizeof(*self->held));
    self->held[self->held_count++] = *held;
}

sim_pushed_t *
sim_state_held(const sim_state_t *self, uint64_t update)
{
    for (size_t i = self->held_count; i > 0; i--) {
        if (self->held[i - 1].update == update) {
            return &self->held[i - 1];
        }
    }
    return NULL;
}

/* --- parts --- */

/* Of a table `rows` are those that it begins with; else NULL. */
static void
begin_history(sim_value_t *self, const sim_rows_t *rows)
{
    self->capacity = 16;
    self->first = self->version;
    self->history = NULL;
    self->rows = NULL;
    self->kept_count = 0;
    if (rows) {
        self->rows = cadre_calloc(self->capacity, sizeof(*self->rows));
        self->rows[0] = *rows;
    } else {
        self->history = cadre_calloc(self->capacity, sizeof(*self->history));
        self->history[0] = self->now;
    }
}

sim_value_t *
sim_state_value(sim_state_t *self, const sim_variable_t *variable, uint32_t part)
{
    uint32_t at = variable->id - 1;
    if (!self->values[at]) {
        self->part_counts[at] = variable->part_count;
        self->values[at] = cadre_calloc(variable->part_count, sizeof(sim_value_t));
        const bool is_table = variable->dim > 0;
        sim_rows_t rows = is_table ? sim_rows_first(variable) : (sim_rows_t){.rows = 0};
        rows.admit_after = self->admit_after[at];
        for (uint32_t i = 0; i < variable->part_count; i++) {
            self->values[at][i].now = sim_number_first(variable);
            begin_history(&self->values[at][i], is_table ? &rows : NULL);
        }
    }
    return &self->values[at][part];
}

void
sim_value_change(sim_value_t *self, const sim_number_t *number)
{
    self->now = *number;
    self->version++;
    size_t at = self->version - self->first;
    if (at == self->capacity) {
        self->capacity *= 2;
        self->history = cadre_realloc(self->history, self->capacity, sizeof(*self->history));
    }
    self->history[at] = self->now;
}

void
sim_value_change_rows(sim_value_t *self, const sim_rows_t *rows)
{
    const sim_rows_t changed = *rows;
    self->version++;
    const size_t at = self->version - self->first;
    if (at == self->capacity) {
        self->capacity *= 2;
        self->rows = cadre_realloc(self->rows, self->capacity, sizeof(*self->rows));
    }
    self->rows[at] = changed;
}

const sim_rows_t *
sim_value_rows(const sim_value_t *self)
{
    return &self->rows[self->version - self->first];
}

const sim_rows_t *
sim_value_rows_at(const sim_value_t *self, uint64_t version)
{
    bool is_known = version >= self->first && version <= self->version;
    return is_known ? &self->rows[version - self->first] : NULL;
}

uint64_t
sim_value_gone(const sim_value_t *self)
{
    return self->rows ? sim_value_rows(self)->evicted + sim_value_rows(self)->expired : 0;
}

void
sim_value_push(sim_value_t *self, const sim_variable_t *variable, const sim_update_t *update)
{
    self->updates++;
    if (!self->rows) {
        sim_number_t now = self->now;
        self->last = sim_number_push(&now, variable, update->strength, &self->last, update->pulled);
        sim_value_change(self, &now);
        return;
    }
    sim_rows_t rows = *sim_value_rows(self);
    sim_row_sum_t sum = {.keys = 0};
    sim_row_sum_add(&sum, variable, update->keys, update->strength, 1);
    sim_rows_push(&rows, variable, &sum);
    sim_value_change_rows(self, &rows);
}

const sim_number_t *
sim_value_at(const sim_value_t *self, uint64_t version)
{
    bool is_known = version >= self->first && version <= self->version;
    return is_known ? &self->history[version - self->first] : NULL;
}

void
sim_value_keep(sim_value_t *self)
{
    if (!self->now.is_compensated ||
        (self->kept_count > 0 && self->kept[self->kept_count - 1] == self->version)) {
        return;
    }
    if (self->kept_count == CADRE_PULLED_VERSIONS_MAX) {
        self->kept_count--;
        memmove(self->kept, self->kept + 1, self->kept_count * sizeof(*self->kept));
    }
    self->kept[self->kept_count++] = self->version;
}

const sim_number_t *
sim_value_kept(const sim_value_t *self, uint64_t version)
{
    bool is_kept = false;
    for (size_t i = 0; i < self->kept_count; i++) {
        is_kept = is_kept || self->kept[i] == version;
    }
    return is_kept ? sim_value_at(self, version) : NULL;
}

sim_state_t *
sim_state_copy(const sim_state_t *self)
{
    sim_state_t *copy = cadre_calloc(1, sizeof(*copy));
    *copy = *self;
    copy->image = NULL;
    copy->stamps = NULL;
    copy->taken = NULL;
    copy->held = NULL; /* of a later step */
    copy->held_count = 0;
    copy->step = 0;
    if (self->call_capacity > 0) {
        size_t size_bytes = self->call_capacity * SIM_STEPS_MAX * sizeof(*self->stamps);
        copy->stamps = cadre_calloc(1, size_bytes);
        memcpy(copy->stamps, self->stamps, size_bytes);
    }
    if (self->taken_count > 0) {
        copy->taken = cadre_calloc(self->taken_count, sizeof(*copy->taken));
        memcpy(copy->taken, self->taken, self->taken_count * sizeof(*copy->taken));
    }
    for (uint32_t i = 0; i < SIM_VARIABLES_MAX; i++) {
        if (self->values[i]) {
            copy->values[i] = cadre_calloc(self->part_counts[i], sizeof(sim_value_t));
            for (uint32_t k = 0; k < self->part_counts[i]; k++) {
                const sim_value_t *value = &self->values[i][k];
                copy->values[i][k] = *value;
                begin_history(&copy->values[i][k], value->rows ? sim_value_rows(value) : NULL);
            }
        }
    }
    return copy;
}

/* --- updates and assignments --- */

uint64_t
sim_state_stamp(const sim_state_t *self, uint32_t call, uint32_t step)
{
    return call < self->call_capacity ? self->stamps[SIM_STEPS_MAX * call + step] : 0;
}

void
sim_state_apply(sim_state_t *self, uint32_t call, uint32_t step, uint64_t stamp)
{
    if (call >= self->call_capacity) {
        uint32_t before = self->call_capacity;
        self->call_capacity = call < 64 ? 128 : 2 * call;
        self->stamps =
            cadre_realloc(self->stamps, self->call_capacity, SIM_STEPS_MAX * sizeof(*self->stamps));
        memset(self->stamps + SIM_STEPS_MAX * before, 0,
               (self->call_capacity - before) * SIM_STEPS_MAX * sizeof(*self->stamps));
    }
    self->stamps[SIM_STEPS_MAX * call + step] = stamp;
}

uint64_t
sim_state_taken(const sim_state_t *self, const sim_taken_t *like)
{
    for (size_t i = 0; i < self->taken_count; i++) {
        const sim_taken_t *taken = &self->taken[i];
        if (taken->assignment == like->assignment && taken->variable == like->variable &&
            taken->part == like->part) {
            return taken->stamp;
        }
    }
    return 0;
}

void
sim_state_take(sim_state_t *self, const sim_taken_t *taken)
{
    self->taken = cadre_realloc(self->taken, self->taken_count + 1, sizeof(*self->taken));
    self->taken[self->taken_count++] = *taken;
}
