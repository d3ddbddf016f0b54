#include "coordinator/core/shards/replay.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/memory.h"

void
cadre_replay_init(cadre_replay_t *self, bool keeping, bool is_stepwise)
{
    *self = (cadre_replay_t){.keeping = keeping, .is_stepwise = is_stepwise};
}

/* Counts a closure that is kept among the takers of its arguments' results. Returns how many bytes
 * keeping it takes: its own, and those of results that no other kept closure takes. */
static size_t
begin_keeping(const cadre_closure_t *closure)
{
    size_t size_bytes = cadre_closure_size_bytes(closure);
    for (size_t i = 0; i < closure->argument_count; i++) {
        size_bytes += cadre_results_keep(closure->arguments[i].from);
    }
    return size_bytes;
}

/* Takes back begin_keeping; returns the bytes that are free now. */
static size_t
end_keeping(const cadre_closure_t *closure)
{
    size_t size_bytes = cadre_closure_size_bytes(closure);
    for (size_t i = 0; i < closure->argument_count; i++) {
        size_bytes += cadre_results_keep_no_more(closure->arguments[i].from);
    }
    return size_bytes;
}

/* Returns the bytes of the results that a closure takes as arguments and that were not counted
 * yet. */
static size_t
count_values(const cadre_closure_t *closure)
{
    size_t size_bytes = 0;
    for (size_t i = 0; i < closure->argument_count; i++) {
        size_bytes += cadre_results_count_once(closure->arguments[i].from);
    }
    return size_bytes;
}

/* Takes back count_values. */
static void
uncount_values(const cadre_closure_t *closure)
{
    for (size_t i = 0; i < closure->argument_count; i++) {
        cadre_results_uncount(closure->arguments[i].from);
    }
}

/* Frees a kept closure that is in none of the logs any more. */
static void
forget(cadre_replay_t *self, cadre_closure_t *closure)
{
    cadre_u64_map_take(&self->kept, closure->id);
    self->size_bytes -= end_keeping(closure);
    self->forgotten++;
    cadre_closure_destroy(&closure);
}

/* Returns how much memory a kept assignment takes. */
static size_t
assign_size_bytes(const cadre_replay_assign_t *assign)
{
    size_t size_bytes = sizeof(*assign) + cadre_chunk_size_bytes(assign->entry.header);
    for (size_t i = 0; i < assign->entry.chunk_count; i++) {
        size_bytes += cadre_chunk_size_bytes(assign->entry.chunks[i]);
    }
    return size_bytes;
}

/* Forgets the `count` oldest assignments. */
static void
drop_assigns(cadre_replay_t *self, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        self->size_bytes -= assign_size_bytes(&self->assigns[i]);
        cadre_outbox_entry_fini(&self->assigns[i].entry);
    }
    self->assign_count -= count;
    self->assign_dropped += count;
    if (self->assign_count > 0) {
        memmove(self->assigns, self->assigns + count, self->assign_count * sizeof(*self->assigns));
    }
}

/* Forgets the closures of a log with ids below `below`. */
static void
drop_closures(cadre_replay_t *self, cadre_closure_log_t *log, uint64_t below)
{
    cadre_closure_t *next = NULL;
    for (cadre_closure_t *closure = cadre_closure_log_first(log); closure; closure = next) {
        next = cadre_closure_log_next(log, closure);
        if (closure->id < below) {
            cadre_closure_log_take(log, closure);
            forget(self, closure);
        }
    }
}

/* Frees all closures and assignments that are kept. No closure may be in flight. */
void
cadre_replay_fini(cadre_replay_t *self)
{
    drop_closures(self, &self->log, UINT64_MAX);
    drop_closures(self, &self->redo, UINT64_MAX);
    drop_closures(self, &self->aside, UINT64_MAX);
    cadre_closure_log_fini(&self->log);
    cadre_closure_log_fini(&self->redo);
    cadre_closure_log_fini(&self->aside);
    drop_assigns(self, self->assign_count);
    cadre_assert(self->kept.count == 0);
    cadre_u64_map_fini(&self->kept);
    free(self->assigns);
    *self = (cadre_replay_t){.keeping = false};
}

/* --- keeping closures and assignments --- */

/* Keeps a closure that ended well with updates. Its results are not kept: the program has had
 * them. */
void
cadre_replay_keep(cadre_replay_t *self, cadre_closure_t *closure)
{
    cadre_assert(self->keeping && !closure->kept);
    closure->kept = true;
    closure->wants_results = false;
    cadre_results_unref(&closure->results);
    closure->worker = NULL;
    cadre_u64_map_put(&self->kept, closure->id, closure);
    self->keeps++;
    self->highest = closure->id > self->highest ? closure->id : self->highest;
    self->size_bytes += begin_keeping(closure);
    cadre_closure_log_put(&self->log, closure);
}

void
cadre_replay_note_unsaved(cadre_replay_t *self)
{
    self->unsaved++;
}

/* Keeps a copy of an assignment, which shares its chunks. `position`: the number that the next new
 * closure gets. */
void
cadre_replay_note_assign(cadre_replay_t *self, uint32_t shard, uint64_t position,
                         const cadre_message_t *message)
{
    if (!self->keeping) {
        return;
    }
    self->assigns = cadre_grow(self->assigns, self->assign_count, &self->assign_capacity,
                               sizeof(*self->assigns));
    cadre_message_t copy = *message;
    copy.chunks = cadre_calloc(message->chunk_count, sizeof(cadre_chunk_t *));
    for (size_t i = 0; i < message->chunk_count; i++) {
        copy.chunks[i] = cadre_chunk_ref(message->chunks[i]);
    }

    cadre_replay_assign_t *assign = &self->assigns[self->assign_count++];
    *assign = (cadre_replay_assign_t){
        .position = position, .shard = shard, .variable = (uint32_t)message->assign.variable};
    /* a stand-in: the entry is only kept, not sent */
    cadre_task_t nobody = {.role = CADRE_ROLE_PS, .index = shard};
    cadre_outbox_entry_init(&assign->entry, &nobody, &copy);
    self->size_bytes += assign_size_bytes(assign);
}

uint64_t
cadre_replay_assigns(const cadre_replay_t *self)
{
    return self->assign_dropped + self->assign_count;
}

/* Forgets what the checkpoint before the new one holds, and counts how much of the rest only that
 * older checkpoint needs. Ids do not quite ascend in the log, so all of it is looked at. */
void
cadre_replay_commit(cadre_replay_t *self, uint64_t cut, uint64_t cut_before,
                    uint64_t assigns_before)
{
    cadre_assert(!self->active && self->in_flight == 0);
    drop_closures(self, &self->log, cut_before);
    if (assigns_before > self->assign_dropped) {
        drop_assigns(self, (size_t)(assigns_before - self->assign_dropped));
    }

    self->old_count = 0;
    self->old_bytes = 0;
    const cadre_closure_t *oldest = cadre_closure_log_first(&self->log);
    const cadre_closure_t *closure = oldest;
    for (; closure; closure = cadre_closure_log_next(&self->log, closure)) {
        if (closure->id < cut) {
            self->old_count++;
            self->old_bytes += cadre_closure_size_bytes(closure) + count_values(closure);
        }
    }

    closure = oldest;
    for (; closure; closure = cadre_closure_log_next(&self->log, closure)) {
        /* the marks by which each result was counted once are taken off */
        if (closure->id < cut) {
            uncount_values(closure);
        }
    }
}

/* Returns the lowest id from `from` on of a kept closure; UINT64_MAX: none. */
uint64_t
cadre_replay_lowest(const cadre_replay_t *self, uint64_t from)
{
    uint64_t lowest = UINT64_MAX;
    const cadre_closure_t *closure = NULL;
    for (size_t cursor = 0; (closure = cadre_u64_map_next(&self->kept, &cursor));) {
        lowest = closure->id >= from && closure->id < lowest ? closure->id : lowest;
    }
    return lowest;
}

/* Returns the lowest number of drops that a kept closure came after; UINT64_MAX: none is kept. */
uint64_t
cadre_replay_fewest_drops(const cadre_replay_t *self)
{
    uint64_t fewest = UINT64_MAX;
    const cadre_closure_t *closure = NULL;
    for (size_t cursor = 0; (closure = cadre_u64_map_next(&self->kept, &cursor));) {
        fewest = closure->drops < fewest ? closure->drops : fewest;
    }
    return fewest;
}

uint64_t
cadre_replay_fewest_removals(const cadre_replay_t *self)
{
    uint64_t fewest = UINT64_MAX;
    const cadre_closure_t *closure = NULL;
    for (size_t cursor = 0; (closure = cadre_u64_map_next(&self->kept, &cursor));) {
        fewest = closure->removals < fewest ? closure->removals : fewest;
    }
    return fewest;
}

/* Returns how full the log is by closures, bytes or span of ids: 0, 1 (at a bound) or 2 (at twice a
 * bound or more). */
int
cadre_replay_fullness(const cadre_replay_t *self, uint64_t next_id)
{
    /* Closures from below the newest cut may be gone already, if they failed in a replay: so this
     * is not simply a difference. */
    size_t count = self->kept.count > self->old_count ? self->kept.count - self->old_count : 0;
    size_t size_bytes = self->size_bytes > self->old_bytes ? self->size_bytes - self->old_bytes : 0;
    uint64_t times = count / CADRE_REPLAY_CLOSURES_MAX;
    uint64_t by_size = size_bytes / CADRE_REPLAY_SIZE_MAX;

    times = by_size > times ? by_size : times;
    const cadre_closure_t *oldest = cadre_closure_log_first(&self->log);
    if (times == 0 && oldest) {
        /* The applied window of a shard that begins with the older checkpoint must reach from the
         * lowest id of a kept closure to the highest: about that of the oldest, as ids of closures
         * that wait to be handed out are few beside the window. */
        times = (next_id - oldest->id) / (CADRE_APPLIED_WINDOW_MAX / 5 * 2);
    }

    return times > 2 ? 2 : (int)times;
}

void
cadre_replay_hold(cadre_replay_t *self, bool holds)
{
    self->holds = holds;
}

/* Forgets everything and keeps nothing from now on: what was kept counts as unsaved. */
void
cadre_replay_stop(cadre_replay_t *self)
{
    cadre_assert(!self->active && self->in_flight == 0);
    self->unsaved += self->kept.count;
    self->highest = 0;
    drop_closures(self, &self->log, UINT64_MAX);
    drop_assigns(self, self->assign_count);
    self->old_count = 0;
    self->old_bytes = 0;
    self->keeping = false;
}

/* Returns whether the log has anything to run or assign again for a shard whose state ends at `cut`
 * and `assigns`. */
bool
cadre_replay_has_work(const cadre_replay_t *self, uint64_t cut, uint64_t assigns)
{
    bool under_way = self->redo.count + self->aside.count + self->in_flight > 0;
    return under_way || self->highest >= cut || cadre_replay_assigns(self) > assigns;
}

cadre_closure_t *
cadre_replay_find(const cadre_replay_t *self, uint64_t id)
{
    return cadre_u64_map_get(&self->kept, id);
}

/* --- one pass over the log --- */

/* Moves all closures of `from` to those that are to run again. */
static void
move_to_redo(cadre_replay_t *self, cadre_closure_log_t *from)
{
    cadre_closure_t *closure = NULL;
    while ((closure = cadre_closure_log_first(from))) {
        cadre_closure_log_take(from, closure);
        closure->state = CADRE_CLOSURE_QUEUED;
        cadre_closure_log_put(&self->redo, closure);
    }
}

/* Returns the index in `assigns` of the pass's first assignment. */
static size_t
first_assign(const cadre_replay_t *self)
{
    return self->assigns_from > self->assign_dropped
               ? (size_t)(self->assigns_from - self->assign_dropped)
               : 0;
}

/* Moves the closures with ids from `from` on out of the log, to be run again. */
static void
redo_from(cadre_replay_t *self, uint64_t from)
{
    cadre_closure_t *next = NULL;
    for (cadre_closure_t *closure = cadre_closure_log_first(&self->log); closure; closure = next) {
        next = cadre_closure_log_next(&self->log, closure);
        if (closure->id >= from) {
            cadre_closure_log_take(&self->log, closure);
            closure->state = CADRE_CLOSURE_QUEUED;
            cadre_closure_log_put(&self->redo, closure);
        }
    }
}

/* Begins a pass over what was done since this cut, or restarts the one under way, from the earlier
 * of both beginnings. */
void
cadre_replay_begin(cadre_replay_t *self, uint64_t cut, uint64_t assigns)
{
    self->from = self->active && self->from < cut ? self->from : cut;
    self->assigns_from =
        self->active && self->assigns_from < assigns ? self->assigns_from : assigns;
    self->active = true;
    /* 0: of synchronous steps, none may run before cadre_replay_pause_at */
    self->pause = 0;
    self->assign_next = first_assign(self);
    cadre_closure_t *closure = NULL;
    for (size_t cursor = 0; (closure = cadre_u64_map_next(&self->kept, &cursor));) {
        /* what earlier attempts pushed may be lost */
        closure->stale = closure->attempt;
    }

    redo_from(self, self->from);
    move_to_redo(self, &self->aside);
    self->pass_count = self->redo.count + self->in_flight;
}

size_t
cadre_replay_pass_assigns(const cadre_replay_t *self)
{
    size_t first = first_assign(self);
    return first < self->assign_count ? self->assign_count - first : 0;
}

/* Returns the number below which closures may be handed out: up to the next assignment, and in a
 * synchronous job up to the end of the step. */
uint64_t
cadre_replay_limit(const cadre_replay_t *self)
{
    uint64_t limit = self->assign_next < self->assign_count
                         ? self->assigns[self->assign_next].position
                         : UINT64_MAX;
    /* An assignment that was repeated before the pass was restarted may still be pending. */
    limit = self->assign_pending > 0 && self->assign_at < limit ? self->assign_at : limit;
    if (!self->is_stepwise) {
        return limit;
    }
    const uint64_t pause = self->pause > 0 ? self->pause : 1; /* below 1 there is none */
    return pause < limit ? pause : limit;
}

/* Returns the next closure that this worker may run again, looking at a limited number only; NULL:
 * none. A closure that is tagged for a worker which is gone is for any worker. */
cadre_closure_t *
cadre_replay_next(const cadre_replay_t *self, uint32_t worker, const cadre_abilities_t *abilities,
                  const cadre_closure_filter_t *filter, const cadre_membership_t *members)
{
    uint64_t limit = cadre_replay_limit(self);
    cadre_closure_t *closure = cadre_closure_log_first(&self->redo);
    for (int i = 0; i <= CADRE_REPLAY_PASSED_MAX && closure && closure->number < limit; i++) {
        bool is_for = closure->tag == CADRE_TAG_NONE || closure->tag == worker ||
                      !cadre_membership_worker_at(members, closure->tag);
        const cadre_needs_t needs = cadre_closure_needs(closure);
        if (is_for && !cadre_closure_is_apart(closure) &&
            !cadre_closure_is_kept_back(closure, filter) &&
            cadre_abilities_meet(abilities, &needs)) {
            return closure;
        }
        closure = cadre_closure_log_next(&self->redo, closure);
    }

    return NULL;
}

void
cadre_replay_take_out(cadre_replay_t *self, cadre_closure_t *closure)
{
    cadre_closure_log_take(&self->redo, closure);
    closure->state = CADRE_CLOSURE_IN_FLIGHT;
    self->in_flight++;
}

static void
leave_flight(cadre_replay_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->kept && closure->state == CADRE_CLOSURE_IN_FLIGHT);
    self->in_flight--;
    closure->worker = NULL;
}

void
cadre_replay_done(cadre_replay_t *self, cadre_closure_t *closure)
{
    leave_flight(self, closure);
    closure->state = CADRE_CLOSURE_ENDED;
    cadre_closure_log_put(&self->log, closure);
}

void
cadre_replay_put_back(cadre_replay_t *self, cadre_closure_t *closure)
{
    leave_flight(self, closure);
    closure->state = CADRE_CLOSURE_QUEUED;
    cadre_closure_log_put(&self->redo, closure);
}

void
cadre_replay_put_aside(cadre_replay_t *self, cadre_closure_t *closure)
{
    leave_flight(self, closure);
    closure->state = CADRE_CLOSURE_ASIDE;
    cadre_closure_log_put(&self->aside, closure);
}

void
cadre_replay_drop(cadre_replay_t *self, cadre_closure_t *closure)
{
    leave_flight(self, closure);
    forget(self, closure);
}

void
cadre_replay_release(cadre_replay_t *self)
{
    move_to_redo(self, &self->aside);
}

uint64_t
cadre_replay_assign_number(const cadre_replay_t *self)
{
    return self->assign_dropped + self->assign_next;
}

static bool
has_below(const cadre_closure_log_t *log, uint64_t number)
{
    const cadre_closure_t *oldest = cadre_closure_log_first(log);
    return oldest && oldest->number < number;
}

/* Returns the next assignment if everything before its place has run again; NULL: not yet, or none
 * is left. Only assignments with the same place (`position`) are under way at the same time. */
const cadre_replay_assign_t *
cadre_replay_next_assign(cadre_replay_t *self)
{
    if (!self->active || self->assign_next == self->assign_count) {
        return NULL;
    }

    const cadre_replay_assign_t *assign = &self->assigns[self->assign_next];
    bool older_left =
        has_below(&self->redo, assign->position) || has_below(&self->aside, assign->position) ||
        (self->pause > 0 && self->pause <= assign->position); /* the synchronous step before the
                                                               * assignment is not over */
    if (self->in_flight > 0 || older_left ||
        (self->assign_pending > 0 && self->assign_at != assign->position)) {
        return NULL;
    }

    self->assign_next++;
    self->assign_pending++;
    self->assign_at = assign->position;
    return assign;
}

void
cadre_replay_assigned(cadre_replay_t *self)
{
    cadre_assert(self->assign_pending > 0);
    self->assign_pending--;
}

void
cadre_replay_pause_at(cadre_replay_t *self, uint64_t pause)
{
    cadre_assert(self->is_stepwise && self->active);
    self->pause = pause;
}

bool
cadre_replay_is_paused(const cadre_replay_t *self)
{
    return self->pause > 0 && self->in_flight == 0 && !has_below(&self->redo, self->pause) &&
           !has_below(&self->aside, self->pause);
}

/* Ends the pass when nothing of it is left. Returns whether it ended. */
bool
cadre_replay_ends(cadre_replay_t *self)
{
    if (!self->active || self->redo.count > 0 || self->aside.count > 0 || self->in_flight > 0 ||
        self->assign_next < self->assign_count || self->assign_pending > 0 || self->pause > 0) {
        return false;
    }
    self->active = false;
    return true;
}
