/* What must hold of whole shards: when join returns, at a cut, in a checkpoint. */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/status.h"
#include "tests/sim/sim_check.h"

/* The first update that a call has made and the state lacks; SIM_STEPS_MAX for none. */
static uint32_t
lacking_step(const sim_check_t *self, const sim_state_t *state, uint32_t shard,
             const sim_call_t *call)
{
    for (uint32_t step = 0; step < call->steps; step++) {
        bool here = sim_check_shards(self, call->pushes[step]) >> shard & 1;
        if (here && !(state && sim_state_stamp(state, call->index, step))) {
            return step;
        }
    }
    return SIM_STEPS_MAX;
}

static bool
is_finished(const sim_call_t *call)
{
    return !call->lost && !call->undone && !call->given_up && call->ended && call->status == 0;
}

/* Whether a shard has an update of a call that was undone. */
static bool
has_undone(const sim_state_t *state, const sim_call_t *call)
{
    bool found = false;
    for (uint32_t step = 0; call->undone && step < call->steps; step++) {
        found = found || sim_state_stamp(state, call->index, step) > 0;
    }
    return found;
}

static void
check_undone(const sim_check_t *self, const sim_state_t *state, const sim_call_t *call)
{
    if (state && has_undone(state, call)) {
        sim_check_fail(
            self, "I2: shard %u has closure %" PRIu64 ", which was undone when the job went back",
            state->shard, call->id);
    }
}

/* The first part that lacks an assignment; its variable's number of parts for none. */
static uint32_t
lacking_part(const sim_check_t *self, const sim_state_t *state, uint32_t shard, uint32_t number)
{
    const sim_assignment_t *assignment = &self->assignments[number];
    const sim_variable_t *variable = &self->variables[assignment->variable];
    uint32_t part = 0;
    for (; part < variable->part_count; part++) {
        sim_taken_t taken = {.assignment = number, .variable = assignment->variable, .part = part};
        if (variable->parts[part].shard == shard && !(state && sim_state_taken(state, &taken))) {
            break;
        }
    }
    return part;
}

/* Whether the user was told that it is made, of a variable that is still there. */
static bool
is_assigned(const sim_check_t *self, const sim_assignment_t *assignment, uint64_t event)
{
    return !self->variables[assignment->variable].dropped && !assignment->lost &&
           assignment->done_event > 0 && assignment->done_event <= event;
}

void
sim_check_complete(const sim_check_t *self, const sim_state_t *state, uint64_t event)
{
    for (uint32_t i = 0; i < self->call_count; i++) {
        check_undone(self, state, self->calls[i]);
    }
    for (uint32_t i = 0; !self->relaxed && i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        if (is_finished(call) && call->ended_event <= event &&
            lacking_step(self, state, state->shard, call) < SIM_STEPS_MAX) {
            sim_check_fail(self,
                           "I2: shard %u serves the user without closure %" PRIu64
                           ", which had finished",
                           state->shard, call->id);
        }
    }
    for (uint32_t i = 0; !self->relaxed && i < self->assignment_count; i++) {
        const sim_assignment_t *assignment = &self->assignments[i];
        const sim_variable_t *variable = &self->variables[assignment->variable];
        if (is_assigned(self, assignment, event) &&
            lacking_part(self, state, state->shard, i) < variable->part_count) {
            sim_check_fail(self, "I2: shard %u serves the user without assignment %u", state->shard,
                           i);
        }
    }
}

/* --- join --- */

static void
check_call(const sim_check_t *self, sim_state_t *const *states, const sim_call_t *call)
{
    for (uint32_t shard = 0; shard < self->shard_count; shard++) {
        uint32_t step = lacking_step(self, states[shard], shard, call);
        if (step < SIM_STEPS_MAX && !self->relaxed) {
            sim_check_fail(self,
                           "I2: join returned, closure %" PRIu64 " has finished, shard %u%s lacks "
                           "its step %u",
                           call->id, shard, states[shard] ? "" : ", which is away,", step);
        }
    }
}

/* An assignment stands between what had ended before it was asked for and what was begun after it
 * was done. */
static void
check_order(const sim_check_t *self, const sim_state_t *state, const sim_taken_t *taken)
{
    const sim_assignment_t *assignment = &self->assignments[taken->assignment];
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        for (uint32_t step = 0; is_finished(call) && step < call->steps; step++) {
            uint64_t stamp = sim_state_stamp(state, i, step);
            if (!stamp || !(call->pushes[step] >> taken->variable & 1)) {
                continue;
            }
            bool before = call->ended_event < assignment->asked_event;
            bool after = assignment->done_event && call->begun_event > assignment->done_event;
            if ((before && stamp > taken->stamp) || (after && stamp < taken->stamp)) {
                sim_check_fail(self,
                               "I2: shard %u has closure %" PRIu64 " %s assignment %u, which came "
                               "%s it",
                               state->shard, call->id, before ? "after" : "before",
                               taken->assignment, before ? "after" : "before");
            }
        }
    }
    for (size_t i = 0; i < state->taken_count; i++) {
        const sim_taken_t *other = &state->taken[i];
        uint64_t done_event = self->assignments[other->assignment].done_event;
        if (other->variable == taken->variable && done_event > 0 &&
            done_event < assignment->asked_event && other->stamp > taken->stamp) {
            sim_check_fail(self, "I2: shard %u has taken assignment %u after %u", state->shard,
                           other->assignment, taken->assignment);
        }
    }
}

void
sim_check_order(const sim_check_t *self, const sim_state_t *state)
{
    for (size_t i = 0; !self->relaxed && i < state->taken_count; i++) {
        check_order(self, state, &state->taken[i]);
    }
}

static void
check_assignment(const sim_check_t *self, sim_state_t *const *states, uint32_t number)
{
    uint32_t parts = self->variables[self->assignments[number].variable].part_count;
    for (uint32_t shard = 0; shard < self->shard_count; shard++) {
        if (lacking_part(self, states[shard], shard, number) < parts) {
            sim_check_fail(self, "I2: join returned, shard %u lacks assignment %u", shard, number);
        }
    }
}

void
sim_check_join(sim_check_t *self, sim_state_t *const *states)
{
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        const bool is_asked = call->client == 0 || call->scheduled;
        if (is_asked && !call->ended && !call->lost && call->tag == CADRE_TAG_NONE) {
            sim_check_fail(self, "I2: join returned before call %u, closure %" PRIu64, i, call->id);
        }
        if (is_finished(call)) {
            check_call(self, states, call);
        }
        for (uint32_t shard = 0; shard < self->shard_count; shard++) {
            check_undone(self, states[shard], call);
        }
    }
    for (uint32_t i = 0; !self->relaxed && i < self->assignment_count; i++) {
        if (is_assigned(self, &self->assignments[i], UINT64_MAX)) {
            check_assignment(self, states, i);
        }
    }
    for (uint32_t shard = 0; shard < self->shard_count; shard++) {
        if (states[shard]) {
            sim_check_order(self, states[shard]);
        }
    }
}

/* --- pauses --- */

void
sim_check_still(const sim_check_t *self, sim_state_t *const *states)
{
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        if (call->id && !call->ended && !call->lost) {
            sim_check_fail(self, "a pause is still, and closure %" PRIu64 " has not ended",
                           call->id);
        }
        if (is_finished(call)) {
            check_call(self, states, call);
        }
        for (uint32_t shard = 0; !call->id && shard < self->shard_count; shard++) {
            if (states[shard] && sim_state_stamp(states[shard], i, 0)) {
                sim_check_fail(self,
                               "a pause is still, and shard %u has call %u, which was not begun",
                               shard, i);
            }
        }
    }
}

/* --- without a replay --- */

uint64_t
sim_check_missing(const sim_check_t *self, sim_state_t *const *states)
{
    uint64_t missing = 0;
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        bool lacks = false;
        for (uint32_t shard = 0; !lacks && is_finished(call) && shard < self->shard_count;
             shard++) {
            lacks = lacking_step(self, states[shard], shard, call) < SIM_STEPS_MAX;
        }
        missing += lacks;
    }
    return missing;
}

/* What came after the restore of a shard is on it. */
static void
check_since(const sim_check_t *self, const sim_state_t *state)
{
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        if (is_finished(call) && call->begun_event > state->begun_event &&
            lacking_step(self, state, state->shard, call) < SIM_STEPS_MAX) {
            sim_check_fail(self,
                           "I2: shard %u lacks closure %" PRIu64 ", which was begun after it was "
                           "restored",
                           state->shard, call->id);
        }
    }
    for (uint32_t i = 0; i < self->assignment_count; i++) {
        const sim_assignment_t *assignment = &self->assignments[i];
        uint32_t parts = self->variables[assignment->variable].part_count;
        if (is_assigned(self, assignment, UINT64_MAX) &&
            assignment->asked_event > state->begun_event &&
            lacking_part(self, state, state->shard, i) < parts) {
            sim_check_fail(self, "I2: shard %u lacks assignment %u, which came after its restore",
                           state->shard, i);
        }
    }
}

void
sim_check_risk(sim_check_t *self, sim_state_t *const *states, uint64_t at_risk)
{
    uint64_t missing = sim_check_missing(self, states);
    uint64_t before = sim_check_life(self)->missing;
    if (missing > before + at_risk) {
        sim_check_fail(self,
                       "I2: shards lack updates of %" PRIu64 " finished closures; %" PRIu64
                       " were at risk, %" PRIu64 " lacked before",
                       missing, at_risk, before);
    }
    for (uint32_t shard = 0; shard < self->shard_count; shard++) {
        check_since(self, states[shard]);
    }
}

/* --- checkpoints --- */

/* What makes of a snapshot at `cut` one that must not be committed. */
static void
note_problem(const sim_check_t *self, sim_state_t *state, uint64_t cut)
{
    const sim_cut_of_t *made = sim_check_find_cut(self, state->epoch, state->checkpoint);
    const uint32_t assignments = made ? made->assignments : 0;
    state->problem[0] = '\0';
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        for (uint32_t step = 0; !call->lost && step < call->steps; step++) {
            if (sim_state_stamp(state, i, step) && call->id + step >= cut) {
                snprintf(state->problem, sizeof(state->problem), "update %" PRIu64 " is in it",
                         call->id + step);
            }
        }
        if (has_undone(state, call)) {
            snprintf(state->problem, sizeof(state->problem), "closure %" PRIu64 " was undone",
                     call->id);
        }
        if (is_finished(call) && call->id < cut && !self->relaxed &&
            lacking_step(self, state, state->shard, call) < SIM_STEPS_MAX) {
            snprintf(state->problem, sizeof(state->problem), "closure %" PRIu64 " is not in it",
                     call->id);
        }
    }
    for (size_t i = 0; i < state->taken_count; i++) {
        const sim_taken_t *taken = &state->taken[i];
        if (!self->assignments[taken->assignment].lost && taken->assignment >= assignments) {
            snprintf(state->problem, sizeof(state->problem), "assignment %u is in it",
                     taken->assignment);
        }
    }
    for (uint32_t i = 0; !self->relaxed && i < assignments; i++) {
        uint32_t parts = self->variables[self->assignments[i].variable].part_count;
        if (is_assigned(self, &self->assignments[i], UINT64_MAX) &&
            lacking_part(self, state, state->shard, i) < parts) {
            snprintf(state->problem, sizeof(state->problem), "assignment %u is not in it", i);
        }
    }
}

void
sim_check_snapshot(sim_check_t *self, sim_state_t *state, uint64_t checkpoint, uint64_t cut)
{
    if (state->checkpoint != checkpoint || state->cut != cut) {
        sim_check_fail(self,
                       "I5: shard %u closes cut %" PRIu64 " of checkpoint %" PRIu64
                       ", open is %" PRIu64 " of %" PRIu64,
                       state->shard, cut, checkpoint, state->cut, state->checkpoint);
    }
    if (self->is_deposed || state->epoch != sim_check_life(self)->epoch) {
        snprintf(state->problem, sizeof(state->problem), "it is of a life before");
        return;
    }
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        if (!call->lost && call->id && call->id < cut && !call->ended) {
            sim_check_fail(self, "I5: closure %" PRIu64 " has not ended at cut %" PRIu64, call->id,
                           cut);
        }
    }
    note_problem(self, state, cut);
}

void
sim_check_commit(const sim_check_t *self, const sim_state_t *file, uint64_t checkpoint,
                 const cadre_shard_state_t *state)
{
    if (file->checkpoint != checkpoint || state->window_base != file->cut ||
        state->applied != file->applied || state->duplicate != file->duplicate) {
        sim_check_fail(self,
                       "I5: checkpoint %" PRIu64 " says shard %u has %" PRIu64
                       " updates below %" PRIu64 ", its file of %" PRIu64 " has %" PRIu64
                       " below %" PRIu64,
                       checkpoint, file->shard, state->applied, state->window_base,
                       file->checkpoint, file->applied, file->cut);
    }
    if (file->problem[0]) {
        sim_check_fail(self, "I5: checkpoint %" PRIu64 " at cut %" PRIu64 ", shard %u: %s",
                       checkpoint, file->cut, file->shard, file->problem);
    }
}

void
sim_check_totals(const sim_check_t *self, uint64_t cut, const cadre_totals_t *totals)
{
    uint64_t scheduled = 0;
    uint64_t finished = 0;
    uint64_t failed = 0;
    for (uint32_t i = 0; i < self->call_count; i++) {
        const sim_call_t *call = self->calls[i];
        if (!call->lost && call->id && call->id < cut) {
            scheduled++;
            finished += call->ended && call->status == 0;
            failed += call->status < 0 && call->status != CADRE_ECANCELLED;
        }
    }
    if (totals->scheduled != scheduled || totals->finished != finished ||
        totals->failed != failed) {
        sim_check_fail(self,
                       "I5: a checkpoint at cut %" PRIu64 " says %" PRIu64 " scheduled, %" PRIu64
                       " finished, %" PRIu64 " failed; they are %" PRIu64 ", %" PRIu64 ", %" PRIu64,
                       cut, totals->scheduled, totals->finished, totals->failed, scheduled,
                       finished, failed);
    }
}
