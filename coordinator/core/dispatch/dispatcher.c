#include "coordinator/core/dispatch/dispatcher.h"

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/memory.h"

enum {
    CREDIT_COVER_MS = 10,    /* a worker may hold closures for so long, at the rate it had */
    CREDIT_INTERVAL_MS = 50, /* how often a worker's rate is measured */
    BATCH_MAX = 64,          /* most closures that are handed to a worker in a row */
    /* Closures that together usually take less are handed to one worker, also while others are
     * idle: about what sending and receiving one more message costs both ends. */
    BATCH_WORTH_US = 100,
    /* The usual time of a function follows what is reported by this part of the difference. */
    USUAL_PART = 16,
    USUAL_UNKNOWN_US = 1000 * BATCH_WORTH_US, /* usual time of a function of which none has ended */
    /* How many closures of ranges may have an id and wait, for each that workers may hold: what
     * lets a worker go on with its own while another is slower. A checkpoint waits for them. At
     * most NUMBERED_MAX. */
    NUMBERED_PER_CREDIT = 8,
    NUMBERED_MAX = 4096,
    /* Most closures that are handed out in a turn, during which the lock is held. */
    TURN_MAX = 4096,
};

void
cadre_dispatcher_init(cadre_dispatcher_t *self, const cadre_dispatcher_links_t *links)
{
    *self = (cadre_dispatcher_t){.links = *links};
    cadre_range_owners_init(&self->ranges, links->members);
}

void
cadre_dispatcher_fini(cadre_dispatcher_t *self)
{
    free(self->usual_us);
    self->usual_us = NULL;
    self->usual_count = 0;
    cadre_range_owners_fini(&self->ranges);
}

/* --- the usual time of a function --- */

/* Moves the usual time of the function a part of the way to `took_us` (an exponentially weighted
 * mean). It starts long, so some dozens of short closures must have ended before it is short. */
void
cadre_dispatcher_note_done(cadre_dispatcher_t *self, uint32_t function, uint64_t took_us)
{
    if (self->usual_count < function) {
        self->usual_us = cadre_realloc(self->usual_us, function, sizeof(*self->usual_us));
        while (self->usual_count < function) {
            self->usual_us[self->usual_count++] = USUAL_UNKNOWN_US;
        }
    }

    uint32_t *usual_us = &self->usual_us[function - 1];
    uint64_t took = took_us < USUAL_UNKNOWN_US ? took_us : USUAL_UNKNOWN_US;
    *usual_us = (uint32_t)((*usual_us * (uint64_t)(USUAL_PART - 1) + took) / USUAL_PART);
}

/* Returns how long a closure of the function usually takes, from its arrival at a worker. */
static uint32_t
usual_us(const cadre_dispatcher_t *self, uint32_t function)
{
    return function <= self->usual_count ? self->usual_us[function - 1] : USUAL_UNKNOWN_US;
}

/* --- credit --- */

/* Returns how many closures a worker is to hold beyond twice its slots: the higher of the number
 * that it ended in CREDIT_COVER_MS (`rate`), and of the number that its slots could end in that
 * time, given how long each closure took from its arrival (`could`). `rate` is too low for a worker
 * that waits for the coordinator, `could` for one in which closures wait for a slot. `could` is
 * limited to two batches: closures in flight take memory and spoil caches. */
static uint64_t
cover_of(const cadre_member_t *worker, uint64_t passed_ms)
{
    uint64_t ended = worker->ended - worker->credit_ended;
    uint64_t rate = ended * CREDIT_COVER_MS / passed_ms;
    uint64_t took_us = worker->took_us - worker->credit_took_us;
    took_us = took_us > 0 ? took_us : 1;
    uint64_t could = ended * worker->slots * CREDIT_COVER_MS * 1000 / took_us;
    could = could < 2 * BATCH_MAX ? could : 2 * BATCH_MAX;
    return rate > could ? rate : could;
}

/* Sets the worker's credit from the closures that it ended in the last CREDIT_INTERVAL_MS; at least
 * twice its slots. */
static void
measure_credit(cadre_member_t *worker, uint64_t now_ms)
{
    uint32_t least = 2 * worker->slots;
    if (worker->credit < least) {
        worker->credit = least;
    }
    uint64_t passed_ms = now_ms - worker->credit_ms;
    if (passed_ms < CREDIT_INTERVAL_MS || worker->ended == worker->credit_ended) {
        return; /* a worker that ended no closure may have been given none: its credit stays */
    }

    uint64_t cover = cover_of(worker, passed_ms) + least;
    /* At most doubled: if the credit itself was holding the rate down, the next measurement shows
     * the higher rate. */
    uint64_t most = 2 * (uint64_t)worker->credit;
    uint64_t limit = least < CADRE_CREDIT_MAX ? CADRE_CREDIT_MAX : least;
    cover = cover < most ? cover : most;
    worker->credit = (uint32_t)(cover < limit ? cover : limit);

    worker->credit_ms = now_ms;
    worker->credit_ended = worker->ended;
    worker->credit_took_us = worker->took_us;
}

/* Returns whether the worker has room for another closure now. A slot held by an overdue closure
 * takes as much credit as two closures, since credit is twice the slots. */
bool
cadre_dispatcher_can_take(const cadre_dispatcher_t *self, cadre_member_t *worker)
{
    uint64_t now_ms = self->links.effects->now_ms;
    if (!worker || worker->suspect || worker->draining || now_ms < worker->rest_until_ms ||
        worker->overdue_count >= worker->slots) {
        return false;
    }

    measure_credit(worker, now_ms);
    return worker->in_flight.count + 2 * (size_t)worker->overdue_count < worker->credit &&
           !cadre_member_is_alone(worker, now_ms);
}

/* --- what may go where --- */

/* Returns which closures of the queue may be handed out: those with a number below the returned
 * value, which may be one of CADRE_QUEUE_... */
static uint64_t
queue_limit(const cadre_dispatcher_t *self)
{
    const cadre_replay_t *replay = self->links.replay;
    if (replay->active) {
        return cadre_replay_limit(replay);
    }
    /* Even with a full replay log, or in a pause, the synchronous step that was begun must go on:
     * the checkpoint that would empty the log, and who pauses, wait for the end of the step. */
    const bool is_between = cadre_pace_is_between_steps(&self->links.queue->pace);
    if (is_between && cadre_pause_is_on(self->links.pause)) {
        return CADRE_QUEUE_TRIED_ONLY;
    }
    bool holds = (is_between && replay->holds) || !cadre_windows_have_room(self->links.windows) ||
                 self->links.queue->aside.count >= CADRE_ASIDE_MAX;
    /* what is full becomes empty when those that have an id have ended */
    return holds ? CADRE_QUEUE_NUMBERED : CADRE_QUEUE_NEW_TOO;
}

bool
cadre_dispatcher_may_run(const cadre_dispatcher_t *self, const cadre_member_t *worker,
                         const cadre_closure_t *closure)
{
    /* a closure that runs again need not wait for the worker of its tag, if that has gone */
    bool is_for = closure->tag == CADRE_TAG_NONE || closure->tag == worker->index ||
                  (closure->kept && !cadre_membership_worker_at(self->links.members, closure->tag));
    const cadre_needs_t needs = cadre_closure_needs(closure);
    return is_for && !cadre_closure_has_overrun_on(closure, worker->task.incarnation) &&
           cadre_reach_may_run(self->links.reach, worker, closure) &&
           cadre_abilities_meet(&worker->abilities, &needs);
}

/* Returns whether a closure that is apart may be handed out now. During a replay only closures
 * below the replay's limit may; otherwise any that is not being cancelled. */
bool
cadre_dispatcher_may_go(const cadre_dispatcher_t *self, const cadre_closure_t *closure)
{
    const cadre_replay_t *replay = self->links.replay;
    if (closure->kept || replay->active) {
        return replay->active && closure->number < cadre_replay_limit(replay);
    }
    return !cadre_closure_queue_is_cancelled(self->links.queue, closure);
}

typedef struct {
    const cadre_reach_t *reach;
    const cadre_member_t *worker;
} reached_t;

/* Filter of closures (`context`: reached_t): keeps back those that need a shard which the worker
 * does not reach. */
static bool
is_unreached(const void *context, const cadre_closure_t *closure)
{
    const reached_t *reached = context;
    return !cadre_reach_may_run(reached->reach, reached->worker, closure);
}

/* Gives closures of ranges their ids, in the order of the queue, up to the first one of another
 * kind or that takes results of others. */
static void
number_ahead(cadre_dispatcher_t *self, const cadre_member_t *worker,
             const cadre_closure_filter_t *filter)
{
    const cadre_closure_lanes_t *lanes = &self->links.queue->lanes;
    cadre_closure_t *closure = NULL;
    while (lanes->begun < self->numbered_max && queue_limit(self) == CADRE_QUEUE_NEW_TOO &&
           (closure = cadre_closure_lanes_new(lanes, &worker->abilities, filter)) &&
           closure->range > 0 && closure->argument_count == 0) {
        cadre_attempts_number(self->links.attempts, closure);
    }
}

/* Returns the closure that the worker is to have in the place of `head`, which is next for it: of a
 * range that it reads, where `head` is of a range and takes no results, which come in no turn.
 * NULL: all that is left are those of other workers' ranges, and it is to have none of these. */
static cadre_closure_t *
choose(cadre_dispatcher_t *self, const cadre_member_t *worker, const cadre_closure_filter_t *filter,
       bool may_help, cadre_closure_t *head)
{
    const bool is_ready = head->id == 0 && head->argument_count > 0;
    if (head->range == 0 || head->tag != CADRE_TAG_NONE || is_ready) {
        return head;
    }
    number_ahead(self, worker, filter);
    if (head->id == 0) { /* others have theirs, but it comes before them */
        cadre_attempts_number(self->links.attempts, head);
    }
    const cadre_closure_lanes_t *lanes = &self->links.queue->lanes;
    const cadre_range_choice_t choice = {.lanes = lanes,
                                         .worker = worker,
                                         .below = queue_limit(self),
                                         .filter = filter,
                                         .is_full = lanes->begun >= self->numbered_max,
                                         .may_help = may_help};
    return cadre_range_owners_choose(&self->ranges, &choice, head);
}

/* Puts the next closure for a worker in flight and returns it, one that is to run again for a
 * replay first. A closure that needs something that the worker does not have, or a shard that it
 * does not reach, stays for another worker or for later. NULL when there is no closure, none that
 * it is to have without `may_help`, or its arguments could not be had and it has ended. */
static cadre_closure_t *
take_next(cadre_dispatcher_t *self, const cadre_member_t *worker, bool may_help)
{
    const cadre_dispatcher_links_t *links = &self->links;
    const reached_t reached = {links->reach, worker};
    const cadre_closure_filter_t unreached = {is_unreached, &reached};
    const cadre_closure_filter_t *filter =
        cadre_shard_set_is_empty(&worker->unreachable) ? NULL : &unreached;

    cadre_closure_t *closure = NULL;
    if (links->replay->active) {
        closure = cadre_replay_next(links->replay, worker->index, &worker->abilities, filter,
                                    links->members);
    }
    if (!closure && !links->queue->cancelling) {
        closure = cadre_closure_lanes_next(&links->queue->lanes, worker->index, queue_limit(self),
                                           &worker->abilities, filter);
        closure = closure ? choose(self, worker, filter, may_help, closure) : NULL;
    }
    return closure && cadre_attempts_take(links->attempts, closure) ? closure : NULL;
}

/* --- workers that have the arguments already --- */

/* Returns the largest of a closure's arguments that workers keep, or NULL. */
static const cadre_closure_argument_t *
largest_value(const cadre_closure_t *closure)
{
    const cadre_closure_argument_t *largest = NULL;
    for (size_t i = 0; i < closure->argument_count; i++) {
        const cadre_closure_argument_t *argument = &closure->arguments[i];
        size_t size_bytes = argument->value.size_bytes;
        if (size_bytes >= CADRE_KEPT_VALUE_SIZE_MIN &&
            (!largest || size_bytes > largest->value.size_bytes)) {
            largest = argument;
        }
    }
    return largest;
}

/* Returns whether `other` can take the closure instead of `worker`: it has room, may run it, and is
 * idle or no busier. */
static bool
can_stand_in(const cadre_dispatcher_t *self, cadre_member_t *other, const cadre_member_t *worker,
             const cadre_closure_t *closure)
{
    const cadre_needs_t needs = cadre_closure_needs(closure);
    return cadre_dispatcher_can_take(self, other) &&
           cadre_reach_may_run(self->links.reach, other, closure) &&
           cadre_abilities_meet(&other->abilities, &needs) &&
           (other->in_flight.count < other->slots ||
            other->in_flight.count <= worker->in_flight.count);
}

/* Returns the worker that is to have a closure which `worker` could take: one that has its largest
 * argument already and is no busier, else `worker`. */
static cadre_member_t *
nearer(const cadre_dispatcher_t *self, cadre_member_t *worker, const cadre_closure_t *closure)
{
    const cadre_closure_argument_t *argument = largest_value(closure);
    if (!argument || closure->tag != CADRE_TAG_NONE ||
        cadre_results_are_on(argument->from, argument->position, worker->task.incarnation)) {
        return worker;
    }

    for (size_t i = 0; i < argument->from->holder_count; i++) {
        uint64_t holder = argument->from->holders[i].worker;
        cadre_member_t *other = cadre_membership_find(self->links.members, holder);
        if (other && cadre_results_are_on(argument->from, argument->position, holder) &&
            can_stand_in(self, other, worker, closure)) {
            return other;
        }
    }
    return worker;
}

/* --- handing out --- */

/* Returns how many closures wait to be handed out, those that run again included. */
static size_t
waiting(const cadre_dispatcher_t *self)
{
    const cadre_closure_lanes_t *lanes = &self->links.queue->lanes;
    return lanes->common + lanes->tagged + self->links.replay->redo.count;
}

/* Returns how many closures a worker is to get now. Its share is an equal part of all that wait,
 * limited by its credit; up to twice its slots (`least`) it is filled in any case, one closure at a
 * time. A worker that holds more than half of its share gets none, unless it has room for a whole
 * batch, so that closures travel in batches. */
static size_t
batch_of(const cadre_dispatcher_t *self, cadre_member_t *worker)
{
    if (!cadre_dispatcher_can_take(self, worker)) {
        return 0;
    }

    size_t least = 2 * (size_t)worker->slots;
    size_t held = worker->in_flight.count + 2 * (size_t)worker->overdue_count;
    size_t share = waiting(self) / self->links.members->worker_count;
    size_t limit = share < worker->credit ? share : worker->credit;
    if (limit <= least) {
        return held < least ? 1 : 0;
    }
    if (held >= least && held > limit / 2 && held + BATCH_MAX > limit) {
        return 0;
    }
    return limit - held < BATCH_MAX ? limit - held : BATCH_MAX;
}

/* Hands `batch` closures to a worker, each perhaps to another that has its arguments already, and
 * more as long as all of them together usually take less than BATCH_WORTH_US. Returns how many it
 * handed out. */
static size_t
hand_out(cadre_dispatcher_t *self, cadre_member_t *worker, size_t batch)
{
    size_t count = 0;
    uint64_t given_us = 0;
    while (count < batch || (count > 0 && count < BATCH_MAX && given_us < BATCH_WORTH_US)) {
        /* Closures that went to other workers do not count against this one's room. */
        cadre_closure_t *closure =
            cadre_dispatcher_can_take(self, worker) ? take_next(self, worker, count < batch) : NULL;
        if (!closure) {
            break;
        }
        given_us += usual_us(self, closure->function);
        cadre_attempts_begin(self->links.attempts, nearer(self, worker, closure), closure);
        /* A caller of schedule may wait for room in the queue. */
        cadre_effects_note_progress(self->links.effects);
        count++;
    }
    if (count > 0) {
        cadre_acks_send(self->links.acks, worker); /* in one packet with the closures */
    }
    return count;
}

/* Hands out what workers can take that lag, or do not, until none of them takes more, nothing waits
 * or TURN_MAX are given. Returns whether it skipped workers. */
static bool
serve(cadre_dispatcher_t *self, bool lags, size_t *given)
{
    const cadre_membership_t *members = self->links.members;
    bool has_others = false;
    uint32_t idle = 0; /* workers in a row that took nothing */
    while (idle < members->worker_capacity && waiting(self) > 0 && *given < TURN_MAX) {
        self->turn = self->turn < members->worker_capacity ? self->turn : 0;
        cadre_member_t *worker = members->workers[self->turn++];
        const bool is_other = worker && worker->lags != lags;
        size_t count = is_other ? 0 : hand_out(self, worker, batch_of(self, worker));
        has_others |= is_other;
        idle = count > 0 ? 0 : idle + 1;
        *given += count;
    }
    return has_others;
}

/* Returns how many closures of ranges may have an id and wait. */
static size_t
numbered_max(const cadre_membership_t *members)
{
    size_t credit = 0;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        const cadre_member_t *worker = members->workers[i];
        const size_t least = worker ? 2 * (size_t)worker->slots : 0;
        credit += worker && worker->credit > least ? worker->credit : least;
    }
    const size_t most = NUMBERED_PER_CREDIT * credit;
    return most < NUMBERED_MAX ? most : NUMBERED_MAX;
}

/* Hands out what waits, to workers that do not lag first. Returns whether it stopped at the limit
 * of a turn. */
bool
cadre_dispatcher_tick(cadre_dispatcher_t *self)
{
    size_t given = 0;
    self->numbered_max = numbered_max(self->links.members);
    if (serve(self, false, &given)) {
        serve(self, true, &given); /* where no other worker has room */
    }
    return given >= TURN_MAX && waiting(self) > 0;
}
