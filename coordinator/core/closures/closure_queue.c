#include "coordinator/core/closures/closure_queue.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/memory.h"

void
cadre_closure_queue_init(cadre_closure_queue_t *self, size_t capacity)
{
    *self = (cadre_closure_queue_t){.capacity = capacity, .values_size_max = CADRE_VALUES_SIZE_MAX};
    cadre_barriers_init(&self->barriers);
    cadre_barriers_init(&self->drop_barriers);
    cadre_closure_group_init(&self->own);
}

void
cadre_closure_queue_set_pace(cadre_closure_queue_t *self, cadre_consistency_t consistency,
                             uint32_t size, uint32_t bound)
{
    cadre_pace_init(&self->pace, consistency, size, bound);
}

/* --- groups --- */

/* Returns the group of a closure: its own, or the one that stands for no group. */
static cadre_closure_group_t *
group_of(cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    return closure->group ? closure->group : &self->own;
}

static size_t *
in_flight_of(cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    return closure->tag == CADRE_TAG_NONE ? &self->in_flight : &self->tagged_in_flight;
}

static void
count_in_flight(cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    (*in_flight_of(self, closure))++;
    cadre_closure_group_begin(group_of(self, closure));
}

/* Counts a closure that left flight. When it was the last of a group that is being cancelled, the
 * cancelling of that group is over. */
static void
count_out_of_flight(cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    (*in_flight_of(self, closure))--;
    if (cadre_closure_group_leave_flight(group_of(self, closure))) {
        self->groups_cancelling--;
    }
}

/* Counts a new closure in its group. The queue's own group has no barriers: `barriers` of the queue
 * serve it. */
static void
enter_group(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_closure_group_note_put(group_of(self, closure));
    if (closure->group) {
        closure->group_interval = cadre_barriers_enter(&closure->group->barriers);
    }
}

/* Counts the end of a closure in its group (enter_group). */
static void
leave_group(cadre_closure_queue_t *self, const cadre_closure_t *closure, int status)
{
    cadre_closure_group_note_end(group_of(self, closure), status);
    if (closure->group) {
        cadre_barriers_leave(&closure->group->barriers, closure->group_interval);
    }
}

/* --- arguments that are results of other closures --- */

/* Counts the closure as a taker of its arguments' results. Returns how many of the closures that
 * they come from have not ended. */
static size_t
hold_arguments(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    size_t missing = 0;
    for (size_t i = 0; i < closure->argument_count; i++) {
        cadre_results_t *from = closure->arguments[i].from;
        self->values_size_bytes += cadre_results_take(from);
        if (!from->ended) {
            cadre_closure_argument_wait(&closure->arguments[i]);
            missing++;
        }
    }

    return missing;
}

/* Takes back hold_arguments: the values are freed when nobody else takes them. */
static void
let_go_of_arguments(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    for (size_t i = 0; i < closure->argument_count; i++) {
        cadre_closure_argument_wait_no_more(&closure->arguments[i]);
        self->values_size_bytes -= cadre_results_let_go(closure->arguments[i].from);
    }
}

/* Ends a closure that is in no list any more, gives its future the results or the error, and keeps
 * it in `ended` until the owner takes it. */
static void
end(cadre_closure_queue_t *self, cadre_closure_t *closure, const cadre_closure_end_t *how)
{
    cadre_results_t *results = closure->results;
    /* a held closure was taken out of its turn when it was held */
    if (closure->state != CADRE_CLOSURE_HELD) {
        cadre_pace_leave(&self->pace, closure->turn);
    }
    closure->state = CADRE_CLOSURE_ENDED;
    let_go_of_arguments(self, closure);
    if (closure->tag == CADRE_TAG_NONE) {
        cadre_barriers_leave(&self->barriers, closure->interval);
    }

    cadre_barriers_leave(&self->drop_barriers, closure->drop_interval);
    leave_group(self, closure, how->status);
    if (results) {
        cadre_results_end(results, closure->id, how->status, how->text, how->message);
        /* the values exist only now: arguments that took them before counted 0 bytes */
        self->values_size_bytes += results->takers > 0 ? results->tensors.size_bytes : 0;
    }

    closure->end_status = how->status;
    closure->has_updates =
        how->message && how->message->closure_done.updates + how->message->closure_done.duplicates;
    cadre_closure_list_push(&self->ended, closure);
}

/* Takes a closure out of the list of those that wait for a result of another. */
static void
leave_blocked(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_BLOCKED);
    cadre_closure_list_remove(&self->blocked, closure);
    self->common_blocked -= closure->tag == CADRE_TAG_NONE ? 1 : 0;
}

/* --- failures --- */

/* Moves the closures that wait for these results from `blocked` to the end of `list`. */
static void
take_waiting(cadre_closure_queue_t *self, const cadre_results_t *results,
             cadre_closure_list_t *list)
{
    while (results && results->waiting_first) {
        cadre_closure_t *closure = results->waiting_first->closure;
        for (size_t i = 0; i < closure->argument_count; i++) {
            cadre_closure_argument_wait_no_more(&closure->arguments[i]);
        }
        leave_blocked(self, closure);
        cadre_closure_list_push(list, closure);
    }
}

/* Notes a failure as the error of a group. Unless the group goes on, it is put into self->failing:
 * the caller must call cancel_failing, which cancels it. */
static void
note_failure(cadre_closure_queue_t *self, cadre_closure_group_t *group,
             const cadre_closure_end_t *how)
{
    cadre_closure_group_note_error(group, how->status, how->text);
    if (!group->goes_on) {
        cadre_closure_group_push_failing(group, &self->failing);
    }
}

/* Ends, as `how`, the closures that wait for these results, and the closures that wait for theirs.
 * Each is a failure of its group, unless that is `source`: that group counts the original failure
 * alone. The caller must call cancel_failing. */
static void
end_takers_of(cadre_closure_queue_t *self, const cadre_results_t *results,
              const cadre_closure_group_t *source, const cadre_closure_end_t *how)
{
    cadre_closure_list_t ending = {.first = NULL};
    take_waiting(self, results, &ending);
    while (ending.first) {
        cadre_closure_t *closure = ending.first;
        cadre_closure_group_t *group = group_of(self, closure);
        cadre_closure_list_remove(&ending, closure);
        take_waiting(self, closure->results, &ending);
        end(self, closure, how);
        if (group != source) {
            note_failure(self, group, how);
        }
    }
}

/* Takes a closure that was moved out of the list of its state out of the counts of that list, and
 * out of the waiting lists of its arguments. */
static void
leave_counts(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    const size_t common = closure->tag == CADRE_TAG_NONE ? 1 : 0;
    self->common_blocked -= closure->state == CADRE_CLOSURE_BLOCKED ? common : 0;
    self->common_aside -= closure->state == CADRE_CLOSURE_ASIDE ? common : 0;
    for (size_t i = 0; i < closure->argument_count; i++) {
        cadre_closure_argument_wait_no_more(&closure->arguments[i]);
    }
}

/* Cancels a group: ends its queued closures. The owner of the queue must cancel those in flight. */
static void
cancel_group(cadre_closure_queue_t *self, cadre_closure_group_t *group)
{
    const cadre_closure_end_t how = {.status = CADRE_ECANCELLED, .text = "cancelled"};
    const cadre_closure_group_t *name = group == &self->own ? NULL : group;
    cadre_closure_list_t *lists[] = {&self->blocked, &self->aside, &self->later};
    cadre_closure_list_t cancelled = {.first = NULL};
    self->cancels++;
    self->groups_cancelling += cadre_closure_group_cancel(group) ? 1 : 0;

    /* The step that is being filled gets no more closures; where those of the group have no turn,
     * it is none of theirs. */
    if (!group->is_unpaced) {
        cadre_pace_cut_short(&self->pace);
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(lists); i++) {
        cadre_closure_list_move(lists[i], name, &cancelled);
    }
    cadre_closure_lanes_move(&self->lanes, name, &cancelled);
    for (cadre_closure_t *closure = cancelled.first; closure; closure = closure->next) {
        /* every closure leaves its waiting lists before the first one ends: an end ends those that
         * wait for its results */
        leave_counts(self, closure);
    }

    while (cancelled.first) {
        cadre_closure_t *closure = cancelled.first;
        cadre_closure_list_remove(&cancelled, closure);
        end(self, closure, &how);
        end_takers_of(self, closure->results, group, &how);
    }
}

/* Cancels the groups in self->failing. That may end closures of other groups which take results:
 * their groups come into the list, too. */
static void
cancel_failing(cadre_closure_queue_t *self)
{
    cadre_closure_group_t *group = NULL;
    while ((group = cadre_closure_group_pop_failing(&self->failing))) {
        cancel_group(self, group);
    }
}

/* --- turns --- */

/* Queues a closure whose arguments are all there: now, or as LATER if its turn has not come. */
static void
line_up(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    if (closure->turn <= cadre_pace_limit(&self->pace)) {
        cadre_closure_lanes_push(&self->lanes, closure);
        return;
    }
    closure->state = CADRE_CLOSURE_LATER;
    cadre_closure_list_insert_by_turn(&self->later, closure);
}

/* Queues the LATER closures whose turn has come. */
static void
let_in(cadre_closure_queue_t *self)
{
    const uint64_t limit = cadre_pace_limit(&self->pace);
    while (self->later.first && self->later.first->turn <= limit) {
        cadre_closure_t *closure = self->later.first;
        cadre_closure_list_remove(&self->later, closure);
        cadre_closure_lanes_push(&self->lanes, closure);
    }
}

/* Returns whether the job's one worker gets and runs a new closure behind the one before it,
 * however early: it waits for nothing but batches of the same dataset, which are read in turn. */
static bool
is_in_series(cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    enum { ITEMS = 4 }; /* of a batch; the first is the dataset */
    const uint64_t dataset = self->dataset;
    bool is_like = closure->batch_items > 0;
    for (size_t i = 0; i < closure->batch_items; i += ITEMS) {
        is_like = is_like && closure->batches[i] == dataset;
    }
    self->dataset = closure->batch_items > 0 ? closure->batches[0] : 0;
    return is_like && closure->argument_count == 0 && closure->resource_count == 0;
}

/* Gives a new closure its place and its turn, after all that were put before it. Closures with a
 * tag and those of an unpaced group have no turn; their results come no sooner than those they
 * take. */
static void
take_turn(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    const bool is_of_client = cadre_closure_is_of_client(closure);
    const bool has_turn = closure->tag == CADRE_TAG_NONE && !is_of_client;
    /* a closure may not be in the same step as one whose result it takes */
    uint64_t after = 0;
    for (size_t i = 0; i < closure->argument_count; i++) {
        const uint64_t turn = closure->arguments[i].from->turn;
        after = turn > after ? turn : after;
    }
    self->placed += !is_of_client;
    closure->place = self->placed;
    if (has_turn) {
        closure->turn = cadre_pace_enter(&self->pace, closure->may_push, after);
        if (self->pace.is_serial && !is_in_series(self, closure)) {
            cadre_pace_note_alone(&self->pace, closure->turn);
        }
        closure->in_step = cadre_pace_is_step(&self->pace, closure->turn);
    }
    if (closure->results) {
        cadre_results_set_turn(closure->results, has_turn ? closure->turn : after);
    }
}

/* Unblocks the closures that waited for these results, which are there now, and for nothing
 * else. */
static void
unblock(cadre_closure_queue_t *self, const cadre_results_t *results)
{
    while (results->waiting_first) {
        cadre_closure_t *closure = results->waiting_first->closure;
        cadre_closure_argument_wait_no_more(results->waiting_first);
        if (--closure->missing == 0) {
            leave_blocked(self, closure);
            line_up(self, closure);
        }
    }
}

/* --- the queue --- */

/* Ends every closure that is not in flight or held, with this status and text. */
static void
end_all_queued(cadre_closure_queue_t *self, int status, const char *text)
{
    const cadre_closure_end_t how = {.status = status, .text = text};
    cadre_closure_list_t *lists[] = {&self->blocked, &self->aside, &self->later};

    self->common_aside = 0;
    self->common_blocked = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(lists); i++) {
        while (lists[i]->first) {
            cadre_closure_t *closure = lists[i]->first;
            cadre_closure_list_remove(lists[i], closure);
            end(self, closure, &how);
        }
    }

    while (self->lanes.common + self->lanes.tagged > 0) {
        cadre_closure_t *closure = cadre_closure_lanes_any(&self->lanes);
        cadre_closure_lanes_remove(&self->lanes, closure);
        end(self, closure, &how);
    }
}

void
cadre_closure_queue_close(cadre_closure_queue_t *self)
{
    cadre_assert(self->in_flight == 0 && self->tagged_in_flight == 0);
    end_all_queued(self, CADRE_ECLOSED, "the coordinator was closed");
}

cadre_closure_t *
cadre_closure_queue_take_ended(cadre_closure_queue_t *self)
{
    cadre_closure_t *closure = self->ended.first;
    if (closure) {
        cadre_closure_list_remove(&self->ended, closure);
    }
    return closure;
}

/* Ends and frees all closures that are left. None may be in flight. */
void
cadre_closure_queue_fini(cadre_closure_queue_t *self)
{
    cadre_closure_queue_close(self);
    cadre_closure_t *closure = NULL;
    while ((closure = cadre_closure_queue_take_ended(self))) {
        cadre_closure_destroy(&closure);
    }
    cadre_closure_lanes_fini(&self->lanes);
    cadre_barriers_fini(&self->barriers);
    cadre_barriers_fini(&self->drop_barriers);
    cadre_closure_group_fini(&self->own);
    cadre_pace_fini(&self->pace);
}

size_t
cadre_closure_queue_waiting(const cadre_closure_queue_t *self)
{
    return self->lanes.common + self->common_blocked + self->later.count;
}

/* Returns how many closures with a tag wait, for their workers or for results. */
static size_t
tagged_waiting(const cadre_closure_queue_t *self)
{
    return self->lanes.tagged + self->blocked.count - self->common_blocked;
}

size_t
cadre_closure_queue_all_waiting(const cadre_closure_queue_t *self)
{
    return cadre_closure_queue_waiting(self) + tagged_waiting(self);
}

size_t
cadre_closure_queue_all_in_flight(const cadre_closure_queue_t *self)
{
    return self->in_flight + self->tagged_in_flight;
}

bool
cadre_closure_queue_has_work(const cadre_closure_queue_t *self)
{
    return self->lanes.common + self->lanes.tagged > 0;
}

/* Returns whether the closure takes results of others, while all results that closures take as
 * arguments use too much memory already. */
static bool
lacks_values_room(const cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    return closure->argument_count > 0 && self->values_size_bytes >= self->values_size_max;
}

/* Returns whether the caller must wait before it may put the closure: too many of its kind, with or
 * without a tag, are queued, or the closure takes results of others and such results take too much
 * memory already. */
static bool
is_full(const cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    if (cadre_closure_is_of_client(closure)) {
        return false; /* whoever has such a group bounds it */
    }
    size_t count =
        closure->tag == CADRE_TAG_NONE ? cadre_closure_queue_waiting(self) : tagged_waiting(self);
    /* A closure of high priority still finds room when others no longer do. */
    size_t beyond = closure->priority == CADRE_PRIORITY_HIGH ? self->capacity : 0;
    return count >= self->capacity + beyond || lacks_values_room(self, closure);
}

/* Returns whether only the end of the step that is being filled can make room: what waits is
 * blocked, and all that is in flight is held for that step. */
static bool
is_stalled(const cadre_closure_queue_t *self)
{
    const size_t in_flight = cadre_closure_queue_all_in_flight(self);
    const bool is_full = cadre_closure_queue_waiting(self) >= self->capacity ||
                         tagged_waiting(self) >= self->capacity;
    return is_full && in_flight > 0 && in_flight == cadre_pace_held_for_open(&self->pace) &&
           !cadre_closure_queue_has_work(self) && self->aside.count == 0;
}

/* Ends the step that is being filled with the closures that it has where the program, which is to
 * fill it, would wait for room for ever. */
static void
mend_stall(cadre_closure_queue_t *self)
{
    if (self->lacks_room && is_stalled(self)) {
        cadre_closure_queue_cut_short(self);
    }
}

/* Appends a new closure, whether there is room or not. A closure for one worker counts for no join,
 * and so enters no interval of the barriers; a drop of a variable waits for it all the same. */
void
cadre_closure_queue_put_beside(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_NEW);
    closure->missing = hold_arguments(self, closure);
    closure->interval = closure->tag == CADRE_TAG_NONE ? cadre_barriers_enter(&self->barriers) : 0;
    closure->drop_interval = cadre_barriers_enter(&self->drop_barriers);
    closure->drops = self->drops;
    closure->removals = self->removals;
    enter_group(self, closure);
    take_turn(self, closure);
    let_in(self); /* a group may be over by that, so that the next turn has come */
    if (closure->missing > 0) {
        closure->state = CADRE_CLOSURE_BLOCKED;
        cadre_closure_list_push(&self->blocked, closure);
        self->common_blocked += closure->tag == CADRE_TAG_NONE ? 1 : 0;
        return;
    }

    line_up(self, closure);
}

/* Returns whether no closure of this group may be put now: everything or the group is being
 * cancelled, or the group has an error that must be raised first. */
static bool
is_refused(cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    const cadre_closure_group_t *group = group_of(self, closure);
    return self->cancelling || group->cancelling || (group->error < 0 && !group->goes_on);
}

/* Appends a new closure; CADRE_EAGAIN when the caller has to wait and try again. */
int
cadre_closure_queue_put(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    if (is_refused(self, closure)) {
        return CADRE_EAGAIN;
    }
    if (is_full(self, closure)) {
        if (lacks_values_room(self, closure)) {
            cadre_closure_queue_cut_short(self); /* closures of the open step hold results until it
                                                  * ends */
        }
        self->lacks_room = true;
        mend_stall(self);
        return CADRE_EAGAIN;
    }
    self->lacks_room = false;
    cadre_closure_queue_put_beside(self, closure);
    return 0;
}

void
cadre_closure_queue_begin(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_closure_lanes_remove(&self->lanes, closure);
    closure->state = CADRE_CLOSURE_IN_FLIGHT;
    count_in_flight(self, closure);
}

/* Hands out the next closure to a worker that has no resource and no dataset; NULL: there is
 * none. */
cadre_closure_t *
cadre_closure_queue_take(cadre_closure_queue_t *self, uint32_t worker, uint64_t below)
{
    const cadre_abilities_t none = {.built = {.words = {0}}};
    cadre_closure_t *closure = cadre_closure_lanes_next(&self->lanes, worker, below, &none, NULL);
    if (closure) {
        cadre_closure_queue_begin(self, closure);
    }
    return closure;
}

/* Ends a cancelling that has nothing left in flight, lets closures in whose turn has come, and ends
 * a step that stands in the way of room. Called whenever a closure in flight has ended. */
static void
settle(cadre_closure_queue_t *self)
{
    if (self->in_flight == 0 && self->tagged_in_flight == 0) {
        self->cancelling = false;
    }
    let_in(self);
    mend_stall(self);
}

bool
cadre_closure_queue_is_cancelled(const cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    const cadre_closure_group_t *group = closure->group ? closure->group : &self->own;
    return self->cancelling || group->cancelling;
}

bool
cadre_closure_queue_is_cancelling(const cadre_closure_queue_t *self)
{
    return self->cancelling || self->groups_cancelling > 0;
}

/* Ends a closure that has failed or was cancelled, the closures that take its results, and, after a
 * failure, the queued closures of its group. */
static void
end_badly(cadre_closure_queue_t *self, cadre_closure_t *closure, const cadre_closure_end_t *how)
{
    cadre_closure_group_t *group = group_of(self, closure);
    end(self, closure, how);
    end_takers_of(self, closure->results, group, how);
    if (how->status != CADRE_ECANCELLED) {
        note_failure(self, group, how);
    }
    cancel_failing(self);
}

/* Takes a closure out of flight. Returns true when the closure has ended by that, because it is
 * being cancelled. */
static bool
ends_out_of_flight(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    const cadre_closure_end_t how = {.status = CADRE_ECANCELLED, .text = "cancelled"};
    cadre_assert(closure->state == CADRE_CLOSURE_IN_FLIGHT);
    const bool is_cancelled = cadre_closure_queue_is_cancelled(self, closure);
    count_out_of_flight(self, closure);
    if (is_cancelled) {
        end_badly(self, closure, &how);
        settle(self);
    }
    return is_cancelled;
}

void
cadre_closure_queue_put_back(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    if (!ends_out_of_flight(self, closure)) {
        cadre_closure_lanes_push_front(&self->lanes, closure);
    }
}

/* Takes a closure out of flight and keeps it until its shard is back (cadre_closure_queue_release),
 * in order of ids. */
void
cadre_closure_queue_put_aside(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    if (!ends_out_of_flight(self, closure)) {
        closure->state = CADRE_CLOSURE_ASIDE;
        cadre_closure_list_insert(&self->aside, closure);
        self->common_aside += closure->tag == CADRE_TAG_NONE ? 1 : 0;
    }
}

static void
take_from_aside(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_closure_list_remove(&self->aside, closure);
    self->common_aside -= closure->tag == CADRE_TAG_NONE ? 1 : 0;
}

/* Holds a closure whose updates are on the shards until its synchronous step ends. */
void
cadre_closure_queue_hold(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    /* Not in flight: an earlier attempt, which had been given up, has reported after all. */
    if (closure->state == CADRE_CLOSURE_QUEUED) {
        cadre_closure_queue_begin(self, closure);
    } else if (closure->state == CADRE_CLOSURE_ASIDE) {
        take_from_aside(self, closure);
        count_in_flight(self, closure);
    }
    closure->state = CADRE_CLOSURE_HELD;
    cadre_pace_hold(&self->pace, closure->turn);
    mend_stall(self);
}

void
cadre_closure_queue_unhold(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_HELD);
    closure->state = CADRE_CLOSURE_IN_FLIGHT;
    cadre_pace_unhold(&self->pace, closure->turn);
    cadre_closure_queue_put_back(self, closure);
}

void
cadre_closure_queue_end_step(cadre_closure_queue_t *self)
{
    cadre_pace_end_step(&self->pace);
    let_in(self);
}

void
cadre_closure_queue_cut_short(cadre_closure_queue_t *self)
{
    cadre_pace_cut_short(&self->pace);
    let_in(self);
}

/* Puts all closures that were put aside in front of the queue, the last one first, so that the
 * lowest id comes out first. */
void
cadre_closure_queue_release(cadre_closure_queue_t *self)
{
    while (self->aside.last) {
        cadre_closure_t *closure = self->aside.last;
        take_from_aside(self, closure);
        cadre_closure_lanes_push_front(&self->lanes, closure);
    }
}

/* Fails the closures that wait for these results, because there is no memory left for the
 * values. */
static void
refuse_values(cadre_closure_queue_t *self, const cadre_results_t *results)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    snprintf(text, sizeof(text),
             "the results of closure %" PRIu64
             " have no room: what closures that wait take as arguments is %zu bytes, and at most "
             "twice %zu are held",
             results->closure_id, self->values_size_bytes, self->values_size_max);
    const cadre_closure_end_t how = {.status = CADRE_EFULL, .text = text};
    end_takers_of(self, results, NULL, &how);
    cancel_failing(self);
}

/* Ends a closure that succeeded. The closures that take its results are unblocked, or fail when
 * results take up too much memory already. */
static void
end_well(cadre_closure_queue_t *self, cadre_closure_t *closure, const cadre_closure_end_t *how)
{
    end(self, closure, how);
    if (closure->results && self->values_size_bytes / 2 > self->values_size_max) {
        refuse_values(self, closure->results);
    } else if (closure->results) {
        unblock(self, closure->results);
    }
}

/* Ends a closure as `how` says. It need not be in flight: an attempt that had been given up may
 * report while the closure is queued again or aside. */
void
cadre_closure_queue_finish(cadre_closure_queue_t *self, cadre_closure_t *closure,
                           const cadre_closure_end_t *how)
{
    if (closure->state == CADRE_CLOSURE_QUEUED) {
        cadre_closure_lanes_remove(&self->lanes, closure);
    } else if (closure->state == CADRE_CLOSURE_ASIDE) {
        take_from_aside(self, closure);
    } else {
        cadre_assert(closure->state == CADRE_CLOSURE_IN_FLIGHT ||
                     closure->state == CADRE_CLOSURE_HELD);
        count_out_of_flight(self, closure);
    }

    if (how->status < 0) {
        end_badly(self, closure, how);
    } else {
        end_well(self, closure, how);
    }
    settle(self);
}

void
cadre_closure_queue_report(cadre_closure_queue_t *self, cadre_closure_group_t *group, int status,
                           const char *text)
{
    const cadre_closure_end_t how = {.status = status, .text = text};
    note_failure(self, group && group->is_heard ? group : &self->own, &how);
    cancel_failing(self);
    settle(self);
}

/* Cancels everything: ends what is queued, and refuses new closures until nothing is in flight. */
void
cadre_closure_queue_cancel(cadre_closure_queue_t *self)
{
    self->cancelling = true;
    self->cancels++;
    cadre_pace_cut_short(&self->pace);
    end_all_queued(self, CADRE_ECANCELLED, "cancelled");
    settle(self);
}

void
cadre_closure_queue_cancel_group(cadre_closure_queue_t *self, cadre_closure_group_t *group)
{
    cancel_group(self, group);
    cancel_failing(self);
    settle(self);
}

int
cadre_closure_queue_raise(cadre_closure_queue_t *self, char *text)
{
    return cadre_closure_queue_raise_of(&self->own, text);
}

/* Returns the error of a group, once; CADRE_EAGAIN while it has an error and closures of it are in
 * flight, unless the group goes on after errors. */
int
cadre_closure_queue_raise_of(cadre_closure_group_t *group, char *text)
{
    if (group->error < 0 && !group->goes_on && group->in_flight > 0) {
        return CADRE_EAGAIN;
    }
    return cadre_closure_group_take_error(group, text);
}

bool
cadre_closure_queue_done(const cadre_closure_queue_t *self)
{
    return cadre_closure_queue_waiting(self) == 0 && self->common_aside == 0 &&
           self->in_flight == 0;
}

bool
cadre_closure_queue_is_empty(const cadre_closure_queue_t *self)
{
    return !cadre_closure_queue_has_work(self) && self->blocked.count + self->later.count == 0 &&
           self->aside.count == 0 && self->in_flight + self->tagged_in_flight == 0;
}

uint64_t
cadre_closure_queue_set_barrier(cadre_closure_queue_t *self)
{
    return cadre_barriers_set(&self->barriers);
}

bool
cadre_closure_queue_passed(const cadre_closure_queue_t *self, uint64_t barrier)
{
    return cadre_barriers_passed(&self->barriers, barrier);
}

uint64_t
cadre_closure_queue_note_drop(cadre_closure_queue_t *self)
{
    self->drops++;
    return cadre_barriers_set(&self->drop_barriers);
}

uint64_t
cadre_closure_queue_note_removal(cadre_closure_queue_t *self)
{
    self->removals++;
    return cadre_barriers_set(&self->drop_barriers);
}

bool
cadre_closure_queue_passed_by_all(const cadre_closure_queue_t *self, uint64_t barrier)
{
    return cadre_barriers_passed(&self->drop_barriers, barrier);
}
