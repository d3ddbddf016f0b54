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
}

void
cadre_closure_queue_set_pace(cadre_closure_queue_t *self, cadre_consistency_t consistency,
                             uint32_t size, uint32_t bound)
{
    cadre_pace_init(&self->pace, consistency, size, bound);
}

static size_t *
in_flight_of(cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    return closure->tag == CADRE_TAG_NONE ? &self->in_flight : &self->tagged_in_flight;
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
    if (closure->state != CADRE_CLOSURE_HELD) {
        cadre_pace_leave(&self->pace, closure->turn);
    }
    closure->state = CADRE_CLOSURE_ENDED;
    let_go_of_arguments(self, closure);
    if (closure->tag == CADRE_TAG_NONE) {
        cadre_barriers_leave(&self->barriers, closure->interval);
    }

    cadre_barriers_leave(&self->drop_barriers, closure->drop_interval);
    if (results) {
        cadre_results_end(results, closure->id, how->status, how->text, how->message);
        self->values_size_bytes += results->takers > 0 ? results->tensors.size_bytes : 0;
    }

    closure->end_status = how->status;
    closure->has_updates =
        how->message && how->message->closure_done.updates + how->message->closure_done.duplicates;
    cadre_closure_list_push(&self->ended, closure);
}

static void
leave_blocked(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_BLOCKED);
    cadre_closure_list_remove(&self->blocked, closure);
    self->common_blocked -= closure->tag == CADRE_TAG_NONE ? 1 : 0;
}

/* Moves the closures that wait for these results from `blocked` to the end of `list`. */
static void
take_waiting(cadre_closure_queue_t *self, const cadre_results_t *results,
             cadre_closure_list_t *list)
{
    while (results->waiting_first) {
        cadre_closure_t *closure = results->waiting_first->closure;
        for (size_t i = 0; i < closure->argument_count; i++) {
            cadre_closure_argument_wait_no_more(&closure->arguments[i]);
        }
        leave_blocked(self, closure);
        cadre_closure_list_push(list, closure);
    }
}

/* Fails all closures that wait for these results, and then those that wait for results of these. */
static void
fail_waiting(cadre_closure_queue_t *self, const cadre_results_t *results,
             const cadre_closure_end_t *how)
{
    cadre_closure_list_t failing = {.first = NULL};
    take_waiting(self, results, &failing);
    while (failing.first) {
        cadre_closure_t *closure = failing.first;
        cadre_closure_list_remove(&failing, closure);
        if (closure->results) {
            take_waiting(self, closure->results, &failing);
        }
        end(self, closure, how);
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

/* Gives a new closure its place and its turn, after all that were put before it. */
static void
take_turn(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    closure->place = ++self->placed;
    if (closure->tag != CADRE_TAG_NONE) {
        return; /* tagged closures are in no group: no join waits for them */
    }
    uint64_t after = 0;
    for (size_t i = 0; i < closure->argument_count; i++) {
        const uint64_t turn = closure->arguments[i].from->turn;
        after = turn > after ? turn : after;
    }
    closure->turn = cadre_pace_enter(&self->pace, closure->may_push, after);
    closure->in_step = cadre_pace_is_step(&self->pace, closure->turn);
    if (closure->results) {
        cadre_results_set_turn(closure->results, closure->turn);
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
    cadre_pace_fini(&self->pace);
}

size_t
cadre_closure_queue_waiting(const cadre_closure_queue_t *self)
{
    return self->lanes.common + self->common_blocked + self->later.count;
}

bool
cadre_closure_queue_has_work(const cadre_closure_queue_t *self)
{
    return self->lanes.common + self->lanes.tagged > 0;
}

/* Returns whether the closure must wait outside: too many of its kind wait, or it takes results of
 * others and these already take too much memory. */
static bool
is_full(const cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    size_t tagged = self->lanes.tagged + self->blocked.count - self->common_blocked;
    size_t count = closure->tag == CADRE_TAG_NONE ? cadre_closure_queue_waiting(self) : tagged;
    bool too_much = closure->argument_count > 0 && self->values_size_bytes >= self->values_size_max;
    return count >= self->capacity || too_much;
}

int
cadre_closure_queue_put(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    if (self->cancelling || self->error < 0 || is_full(self, closure)) {
        return CADRE_EAGAIN;
    }

    cadre_assert(closure->state == CADRE_CLOSURE_NEW);
    closure->missing = hold_arguments(self, closure);
    closure->interval = closure->tag == CADRE_TAG_NONE ? cadre_barriers_enter(&self->barriers) : 0;
    closure->drop_interval = cadre_barriers_enter(&self->drop_barriers);
    closure->drops = self->drops;
    take_turn(self, closure);
    let_in(self);
    if (closure->missing > 0) {
        closure->state = CADRE_CLOSURE_BLOCKED;
        cadre_closure_list_push(&self->blocked, closure);
        self->common_blocked += closure->tag == CADRE_TAG_NONE ? 1 : 0;
        return 0;
    }

    line_up(self, closure);
    return 0;
}

void
cadre_closure_queue_begin(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_closure_lanes_remove(&self->lanes, closure);
    closure->state = CADRE_CLOSURE_IN_FLIGHT;
    (*in_flight_of(self, closure))++;
}

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

/* Ends a cancelling that has nothing left in flight, and lets closures in whose turn has come.
 * Called whenever a closure in flight has ended. */
static void
settle(cadre_closure_queue_t *self)
{
    if (self->in_flight == 0 && self->tagged_in_flight == 0) {
        self->cancelling = false;
    }
    let_in(self);
}

/* Takes a closure out of flight; true when that has ended it, since everything is being cancelled.
 */
static bool
ends_out_of_flight(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_IN_FLIGHT);
    (*in_flight_of(self, closure))--;
    if (self->cancelling) {
        settle(self);
        end(self, closure, &(cadre_closure_end_t){.status = CADRE_ECANCELLED, .text = "cancelled"});
        return true;
    }
    return false;
}

void
cadre_closure_queue_put_back(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    if (!ends_out_of_flight(self, closure)) {
        cadre_closure_lanes_push_front(&self->lanes, closure);
    }
}

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

void
cadre_closure_queue_hold(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    /* An earlier attempt, given up meanwhile, has reported. */
    if (closure->state == CADRE_CLOSURE_QUEUED) {
        cadre_closure_queue_begin(self, closure);
    } else if (closure->state == CADRE_CLOSURE_ASIDE) {
        take_from_aside(self, closure);
        (*in_flight_of(self, closure))++;
    }
    closure->state = CADRE_CLOSURE_HELD;
    cadre_pace_hold(&self->pace, closure->turn);
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

void
cadre_closure_queue_release(cadre_closure_queue_t *self)
{
    while (self->aside.last) {
        cadre_closure_t *closure = self->aside.last;
        take_from_aside(self, closure);
        cadre_closure_lanes_push_front(&self->lanes, closure);
    }
}

/* Makes a failure the pending error, or counts it, and cancels everything. */
static void
fail(cadre_closure_queue_t *self, const cadre_closure_end_t *how)
{
    if (self->error_count++ == 0) {
        self->error = how->status;
        snprintf(self->error_text, sizeof(self->error_text), "%s", how->text);
    }
    cadre_closure_queue_cancel(self);
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
    if (results->waiting_first) {
        const cadre_closure_end_t how = {.status = CADRE_EFULL, .text = text};
        fail_waiting(self, results, &how);
        fail(self, &how);
    }
}

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
        (*in_flight_of(self, closure))--;
    }

    cadre_results_t *results = closure->results ? cadre_results_ref(closure->results) : NULL;
    end(self, closure, how);
    if (results && how->status < 0) {
        fail_waiting(self, results, how);
    } else if (results && self->values_size_bytes / 2 > self->values_size_max) {
        refuse_values(self, results);
    } else if (results) {
        unblock(self, results);
    }

    if (how->status < 0 && how->status != CADRE_ECANCELLED) {
        fail(self, how);
    }

    settle(self);
    cadre_results_unref(&results);
}

void
cadre_closure_queue_report(cadre_closure_queue_t *self, int status, const char *text)
{
    fail(self, &(cadre_closure_end_t){.status = status, .text = text});
}

void
cadre_closure_queue_cancel(cadre_closure_queue_t *self)
{
    self->cancelling = true;
    cadre_pace_cut_short(&self->pace);
    end_all_queued(self, CADRE_ECANCELLED, "cancelled");
    settle(self);
}

int
cadre_closure_queue_raise(cadre_closure_queue_t *self, char *text)
{
    if (self->error == 0) {
        return 0;
    }
    if (self->in_flight > 0 || self->tagged_in_flight > 0) {
        return CADRE_EAGAIN;
    }

    int error = self->error;
    if (self->error_count > 1) {
        snprintf(text, CADRE_CLOSURE_ERROR_SIZE, "%.700s (and %zu more failed)", self->error_text,
                 self->error_count - 1);
    } else {
        snprintf(text, CADRE_CLOSURE_ERROR_SIZE, "%s", self->error_text);
    }

    self->error = 0;
    self->error_count = 0;
    return error;
}

bool
cadre_closure_queue_done(const cadre_closure_queue_t *self)
{
    return cadre_closure_queue_waiting(self) == 0 && self->common_aside == 0 &&
           self->in_flight == 0;
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

bool
cadre_closure_queue_passed_by_all(const cadre_closure_queue_t *self, uint64_t barrier)
{
    return cadre_barriers_passed(&self->drop_barriers, barrier);
}
