#include "coordinator/core/dispatch/steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

void
cadre_steps_init(cadre_steps_t *self, const cadre_steps_links_t *links)
{
    *self = (cadre_steps_t){.links = *links};
}

void
cadre_steps_fini(cadre_steps_t *self)
{
    free(self->updates);
    *self = (cadre_steps_t){.is_asked = false};
}

void
cadre_steps_hold(cadre_steps_t *self, cadre_closure_t *closure, const cadre_member_t *reporter,
                 const cadre_message_t *report)
{
    cadre_closure_keep_report(closure, report);
    cadre_attempts_hold(self->links.attempts, closure, reporter);
    cadre_closure_list_insert_by_place(&self->held, closure);
}

/* Restarts the step under way after shards were restored: none of its updates is on a shard
 * any more. */
void
cadre_steps_restart(cadre_steps_t *self)
{
    while (self->held.last) {
        cadre_closure_t *closure = self->held.last;
        cadre_closure_list_remove(&self->held, closure);
        cadre_closure_drop_report(closure);
        cadre_closure_queue_unhold(self->links.queue, closure);
    }
    cadre_shard_requests_forget(self->links.requests, self);
    cadre_shard_requests_forget(self->links.repairs, self);
    self->is_asked = false;
    self->pending = 0;
    self->again = 0;
    if (cadre_core_options_have_steps(self->links.options) && self->links.replay->active) {
        /* The replay must not stay paused: its pass may have nothing left to run. */
        cadre_replay_pause_at(self->links.replay, 0);
    }
}

/* --- telling the shards --- */

/* Returns how many rows a closure reads: its weight in the step, as its gradient is the mean over
 * them. A closure that reads none counts as one row. */
static uint64_t
rows_of(const cadre_closure_t *closure)
{
    const cadre_u64s_t items = {closure->batches, closure->batch_items};
    const cadre_batch_rows_list_t batches = cadre_batch_rows_list_view(&items);
    uint64_t rows = 0;
    for (size_t i = 0; i < batches.count; i++) {
        rows += batches.items[i].count;
    }
    return rows > 0 ? rows : 1;
}

/* Adds the closure's update, with its weight, to those that END_STEP names. */
static void
add_update(cadre_steps_t *self, const cadre_closure_t *closure)
{
    self->updates = cadre_grow(self->updates, self->update_count, &self->update_capacity,
                               sizeof(*self->updates));
    self->updates[self->update_count++] = (cadre_step_update_t){closure->id, rows_of(closure)};
}

/* Ends the job, because a shard has refused END_STEP: the step can never be applied everywhere. */
static void
on_refused(cadre_steps_t *self, uint64_t shard, int status, const char *why)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cadre_effects_log(self->links.effects, 'E', "step_refused",
                      "shard=%" PRIu64 " why=\"%.200s\" next=\"the job cannot go on\"", shard, why);
    snprintf(text, sizeof(text), "ps %" PRIu64 " did not end a synchronous step: %s", shard, why);
    cadre_recovery_end_job(self->links.recovery, status, text);
}

/* Takes a shard's answer to END_STEP. One that was refused because the shard has another generation
 * does not come here: `requests` sends it again. */
static void
on_ended(void *context, uint64_t shard, const cadre_message_t *reply, int status)
{
    cadre_steps_t *self = context;
    (void)status;
    if (!reply) {
        return; /* the shard is lost, and will be restored together with all others */
    }
    if (reply->type != CADRE_MESSAGE_REPLY) {
        on_refused(self, shard, CADRE_EMALFORMED, "it answered out of turn");
        return;
    }
    if (reply->reply.status != 0) {
        const int refusal = -(int)reply->reply.status;
        on_refused(self, shard, refusal < 0 ? refusal : CADRE_EMALFORMED, reply->reply.text);
        return;
    }
    cadre_recovery_note_step(self->links.recovery, (uint32_t)shard, self->asked);
    self->pending--;
}

/* Sends END_STEP with the noted updates to every shard that can hold some of them. */
static void
ask(cadre_steps_t *self, uint64_t step)
{
    const uint32_t shards = self->links.options->ps_count;
    /* `repairs` are sent while shards are being restored; other requests wait until then */
    cadre_shard_requests_t *requests =
        self->links.replay->active ? self->links.repairs : self->links.requests;
    self->is_asked = true;
    self->asked = step;
    self->pending = 0;
    for (uint32_t i = 0; i < shards; i++) {
        if (!self->links.catalogue->placement.is_used[i]) {
            continue;
        }
        self->pending++;
        cadre_message_t message =
            cadre_effects_message(self->links.effects, CADRE_MESSAGE_END_STEP);
        message.end_step = (cadre_end_step_message_t){
            .step = step,
            .updates = cadre_step_update_list(self->updates, self->update_count),
            .shard = i,
            .after = self->links.recovery->places[i].step};
        cadre_shard_requests_ask(requests, i, &message, on_ended, self, i);
    }
}

/* Returns whether every shard has applied the step that END_STEP named; true only once for each
 * step. */
static bool
is_applied(cadre_steps_t *self)
{
    if (!self->is_asked || self->pending > 0) {
        return false;
    }
    self->is_asked = false;
    return true;
}

/* --- steps of new closures --- */

/* Ends the closures that are held, with their reports, after every shard has applied their step. */
static void
end_step(cadre_steps_t *self)
{
    while (self->held.first) {
        cadre_closure_t *closure = self->held.first;
        cadre_message_t report;
        cadre_closure_list_remove(&self->held, closure);
        int status = cadre_closure_take_report(closure, &report);
        cadre_assert(status == 0); /* it was encoded here */
        const cadre_closure_end_t end = {.message = &report};
        cadre_attempts_finish(self->links.attempts, closure, NULL, &end);
        cadre_message_fini(&report);
    }
    cadre_closure_queue_end_step(self->links.queue);
}

/* Ends a step that is applied, or sends END_STEP for a step whose closures are all held. */
static void
tick_new(cadre_steps_t *self)
{
    if (is_applied(self)) {
        end_step(self);
    }
    uint64_t step = cadre_pace_whole_step(&self->links.queue->pace);
    if (step == 0 || self->is_asked) {
        return;
    }
    self->update_count = 0;
    for (const cadre_closure_t *closure = self->held.first; closure; closure = closure->next) {
        add_update(self, closure);
    }
    ask(self, step);
}

/* --- steps that run again --- */

static int
compare_places(const void *left, const void *right)
{
    const cadre_closure_t *a = *(const cadre_closure_t *const *)left;
    const cadre_closure_t *b = *(const cadre_closure_t *const *)right;
    return (a->place > b->place) - (a->place < b->place);
}

/* Lets the closures of the next kept step run again, and notes the updates that they will push. The
 * numbers of a step are consecutive in the replay log, so the replay is paused behind the last of
 * them. */
static void
begin_again(cadre_steps_t *self)
{
    cadre_replay_t *replay = self->links.replay;
    cadre_closure_t *first = cadre_closure_log_first(&replay->redo);
    /* The closures of the step before must have run again: then all of the next step are in
     * `redo`. */
    if (!first || replay->in_flight > 0 || replay->aside.count > 0) {
        return;
    }
    size_t count = 0;
    size_t capacity = 0;
    cadre_closure_t **closures = NULL;
    uint64_t below = 0;
    for (cadre_closure_t *closure = first; closure && closure->turn == first->turn;
         closure = cadre_closure_log_next(&replay->redo, closure)) {
        closures = cadre_grow(closures, count, &capacity, sizeof(*closures));
        closures[count++] = closure;
        below = closure->number + 1;
    }
    qsort(closures, count, sizeof(*closures), compare_places);
    self->update_count = 0;
    for (size_t i = 0; i < count; i++) {
        add_update(self, closures[i]);
    }
    free(closures);
    self->again = first->turn;
    cadre_replay_pause_at(replay, below);
}

/* Runs kept steps again, one after the other: lets the closures run, waits until all have, sends
 * END_STEP, waits until it is applied. */
static void
tick_again(cadre_steps_t *self)
{
    cadre_replay_t *replay = self->links.replay;
    if (self->again > 0 && is_applied(self)) {
        self->again = 0;
        cadre_replay_pause_at(replay, 0);
    }
    if (self->again == 0) {
        begin_again(self);
    }
    if (self->again > 0 && !self->is_asked && cadre_replay_is_paused(replay)) {
        ask(self, self->again);
    }
}

/* Moves synchronous steps on, those of a replay or those of new closures. */
void
cadre_steps_tick(cadre_steps_t *self)
{
    if (!cadre_core_options_have_steps(self->links.options)) {
        return;
    }
    if (self->links.replay->active) {
        tick_again(self);
    } else {
        tick_new(self);
    }
}
