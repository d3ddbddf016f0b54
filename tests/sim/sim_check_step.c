/* Synchronous steps, against the model: what shards hold, and what they make of it at the end. */
#include <inttypes.h>

#include "common/base/memory.h"
#include "tests/sim/sim_check.h"

void
sim_check_hold(sim_check_t *self, sim_state_t *state, const sim_call_t *call,
               const cadre_message_t *question, const cadre_message_t *answer)
{
    const cadre_push_message_t *push = &question->push;
    const cadre_applied_message_t *applied = &answer->applied;
    size_t count = push->partitions.count / 3;
    if (state->image && push->update < state->image->cut) {
        sim_check_fail(self, "I5: shard %u holds update %" PRIu64 " from below an open cut",
                       state->shard, push->update);
    }
    sim_pushed_t held = {.update = push->update,
                         .step = push->step,
                         .call = call->index,
                         .strength = call->strength,
                         .parts = cadre_calloc(2 * count, sizeof(uint64_t)),
                         .part_count = count};
    for (size_t i = 0; i < count; i++) {
        held.parts[2 * i] = push->partitions.items[3 * i];
        held.parts[2 * i + 1] = push->partitions.items[3 * i + 1];
        const sim_value_t *value =
            sim_check_value(self, state, held.parts[2 * i], held.parts[2 * i + 1]);
        const uint64_t pulled = push->partitions.items[3 * i + 2];
        const bool is_pulled =
            call->pulls >> (sim_check_variable(self, held.parts[2 * i])->id - 1) & 1;
        if (is_pulled && pulled < value->step_version) {
            sim_check_fail(self,
                           "I4: shard %u: update %" PRIu64 " of step %" PRIu64
                           " is of version %" PRIu64 ", the step before made %" PRIu64,
                           state->shard, push->update, push->step, pulled, value->step_version);
        }
        if (applied->versions.count != count || applied->versions.items[i] != value->version) {
            sim_check_fail(self, "APPLIED of a step tells another version than %" PRIu64,
                           value->version);
        }
    }
    sim_state_hold(state, &held);
}

/* What an update of a step adds to a part: its weight in the mean times its gradient. */
static void
add_share(sim_check_t *self, sim_row_sum_t *sum, const sim_pushed_t *held, const uint64_t part[2],
          float weight)
{
    const sim_call_t *call = self->calls[held->call];
    sim_row_sum_add(sum, sim_check_variable(self, part[0]),
                    sim_check_pushed_keys(self, call, held->update, part), held->strength, weight);
}

/* One change of a table's part for all of a step, the sum in the order in which END_STEP names
 * them. */
static void
apply_step_to_rows(sim_check_t *self, sim_state_t *state, const cadre_u64s_t *updates,
                   const uint64_t part[2])
{
    sim_value_t *value = sim_check_value(self, state, part[0], part[1]);
    sim_rows_t rows = *sim_value_rows(value);
    sim_row_sum_t sum = {.keys = 0};
    double read = 0;
    for (size_t i = 0; i < updates->count; i += 2) {
        read += (double)updates->items[i + 1];
    }
    for (size_t i = 0; i < updates->count; i += 2) {
        const sim_pushed_t *held = sim_state_held(state, updates->items[i]);
        for (size_t k = 0; held && k < held->part_count; k++) {
            if (held->parts[2 * k] == part[0] && held->parts[2 * k + 1] == part[1]) {
                add_share(self, &sum, held, part, (float)((double)updates->items[i + 1] / read));
            }
        }
    }
    const uint64_t gone = sim_value_gone(value);
    value->updates++;
    sim_rows_push(&rows, sim_check_variable(self, part[0]), &sum);
    sim_value_change_rows(value, &rows);
    self->rows_gone += sim_value_gone(value) - gone;
    value->step_version = value->version;
    self->row_updates++;
    self->row_steps++;
}

/* One change of a part for all of a step: where it is the first of the step that changes it. */
static void
apply_step_to_part(sim_check_t *self, sim_state_t *state, const cadre_u64s_t *updates,
                   uint64_t variable, uint64_t part)
{
    sim_value_t *value = sim_check_value(self, state, variable, part);
    int64_t sum = 0;
    if (value->rows) {
        apply_step_to_rows(self, state, updates, (const uint64_t[]){variable, part});
        return;
    }
    for (size_t i = 0; i < updates->count; i += 2) {
        const sim_pushed_t *held = sim_state_held(state, updates->items[i]);
        for (size_t k = 0; held && k < held->part_count; k++) {
            bool is_here = held->parts[2 * k] == variable && held->parts[2 * k + 1] == part;
            sum += is_here ? held->strength : 0;
        }
    }
    value->updates++;
    value->last = sim_number(sum);
    sim_value_change(value, &(sim_number_t){.n = value->now.n + sum});
    value->step_version = value->version;
}

/* Whether an update of the step before number `before` of the list changes that part. */
static bool
is_changed_before(const sim_state_t *state, const cadre_u64s_t *updates, size_t before,
                  uint64_t variable, uint64_t part)
{
    for (size_t i = 0; i < before; i += 2) {
        const sim_pushed_t *held = sim_state_held(state, updates->items[i]);
        for (size_t k = 0; held && k < held->part_count; k++) {
            if (held->parts[2 * k] == variable && held->parts[2 * k + 1] == part) {
                return true;
            }
        }
    }
    return false;
}

/* A step sums its updates in the order in which the program scheduled them, each with the rows that
 * its closure reads: so the mean is the same, to the last bit, whenever the step runs. */
static void
check_order(sim_check_t *self, uint64_t epoch, const cadre_end_step_message_t *end)
{
    int64_t last = -1;
    for (size_t i = 0; i < end->updates.count; i += 2) {
        const uint64_t *item = end->updates.items + i;
        const sim_call_t *call = sim_check_call_of(self, epoch, item[0]);
        if (!call || (int64_t)call->index <= last) {
            sim_check_fail(self,
                           "I4: step %" PRIu64 " ends with update %" PRIu64
                           ", not in the order of the program's calls",
                           end->step, item[0]);
        }
        if (item[1] != (call->dataset > 0 ? SIM_BATCH_ROWS : 1)) {
            sim_check_fail(self,
                           "I4: step %" PRIu64 " ends with update %" PRIu64 " of %" PRIu64 " rows",
                           end->step, item[0], item[1]);
        }
        last = call->index;
    }
}

void
sim_check_end_step(sim_check_t *self, sim_state_t *state, const cadre_message_t *question,
                   const cadre_message_t *answer)
{
    const cadre_end_step_message_t *end = &question->end_step;
    const cadre_u64s_t *updates = &end->updates;
    if (sim_check_is_fenced(self, state, question, end->generation, answer->reply.status)) {
        return;
    }
    if (answer->reply.status != 0) {
        sim_check_fail(self, "I7: shard %u refused the end of step %" PRIu64 ": %s", state->shard,
                       end->step, answer->reply.text);
    }
    if (end->step <= state->step) {
        return;
    }
    check_order(self, question->epoch, end);
    state->step = end->step;
    for (size_t i = 0; i < updates->count; i += 2) {
        sim_pushed_t *held = sim_state_held(state, updates->items[i]);
        if (!held) {
            continue;
        }
        if (held->is_over || held->step != end->step) {
            sim_check_fail(self,
                           "I1: shard %u: step %" PRIu64 " ends with update %" PRIu64
                           " of step %" PRIu64,
                           state->shard, end->step, held->update, held->step);
        }
        for (size_t k = 0; k < held->part_count; k++) {
            const uint64_t *part = &held->parts[2 * k];
            if (!is_changed_before(state, updates, i, part[0], part[1])) {
                apply_step_to_part(self, state, updates, part[0], part[1]);
            }
        }
        const sim_call_t *call = self->calls[held->call];
        sim_state_apply(state, held->call, (uint32_t)(held->update - call->id), *self->events);
        state->applied++;
        self->replayed += call->ended && call->status == 0;
    }
    for (size_t i = 0; i < state->held_count; i++) {
        sim_pushed_t *held = &state->held[i];
        bool is_left_out = !held->is_over && held->step <= end->step &&
                           !sim_state_stamp(state, held->call,
                                            (uint32_t)(held->update - self->calls[held->call]->id));
        state->refused += is_left_out;
        held->is_over = held->is_over || held->step <= end->step;
    }
}

void
sim_check_series(sim_check_t *self, sim_state_t *state, const sim_call_t *call,
                 const cadre_push_message_t *push)
{
    if (call->index < state->calls) {
        sim_check_fail(self, "I4: the update of call %u comes behind that of call %u", call->index,
                       state->calls - 1);
    }
    for (size_t i = 0; i < push->partitions.count; i += 3) {
        const uint64_t *items = push->partitions.items + i;
        const sim_value_t *value = sim_check_value(self, state, items[0], items[1]);
        const bool is_pulled = call->pulls >> (items[0] - 1) & 1;
        if (is_pulled && items[2] < value->step_version) {
            sim_check_fail(
                self, "I4: call %u is of version %" PRIu64 ", the call before it made %" PRIu64,
                call->index, items[2], value->step_version);
        }
    }
    state->calls = call->index + 1;
}
