/*
 * dispatcher - which worker gets which closure.
 *
 * A worker may hold `credit` closures: twice its slots, and for closures that are short as many as
 * it ends, or could end, in CREDIT_COVER_MS, so that a round trip to the coordinator never leaves
 * it idle. First comes what is to run again for a shard that was restored, then what was put back,
 * then new work.
 *
 * How many it is handed at once follows from how many wait (guided self-scheduling,
 * Polychronopoulos and Kuck, 1987): while the queue is long each gets some and is left alone until
 * it has ended half of them, and they travel together, its reports as well; towards the end each
 * gets one at a time, so that all end together. With a thousand workers most of what a closure
 * costs is the system calls of its messages (docs/scale.md).
 */
#include "common/base/limits.h"
#include "coordinator/core/coordinator_core.h"

enum {
    CREDIT_COVER_MS = 10,    /* work that a worker may hold, at the rate it had */
    CREDIT_INTERVAL_MS = 50, /* how often the rate is measured */
    BATCH_MAX = 32,          /* handed to a worker in a row */
    TURN_MAX = 4096,         /* handed out in a turn, which holds the lock */
};

/* As many as it ended in CREDIT_COVER_MS, or as its slots would by the time that each took from its
 * arrival: the first says too little of a worker that waits for the coordinator, the second of one
 * in which closures wait for a slot. Of the second no more than makes batches: what is in flight
 * takes memory, and of caches too. */
static uint64_t
cover_of(const cadre_member_t *member, uint64_t passed_ms)
{
    uint64_t ended = member->ended - member->credit_ended;
    uint64_t rate = ended * CREDIT_COVER_MS / passed_ms;
    uint64_t took_us = member->credit_us > 0 ? member->credit_us : 1;
    uint64_t could = ended * member->slots * CREDIT_COVER_MS * 1000 / took_us;
    could = could < 2 * BATCH_MAX ? could : 2 * BATCH_MAX;
    return rate > could ? rate : could;
}

static void
measure_credit(cadre_core_t *self, cadre_member_t *member)
{
    uint32_t least = 2 * member->slots;
    if (member->credit < least) {
        member->credit = least;
    }
    uint64_t passed_ms = self->effects.now_ms - member->credit_ms;
    if (passed_ms < CREDIT_INTERVAL_MS || member->ended == member->credit_ended) {
        return; /* one that ended nothing may have been given nothing */
    }
    uint64_t cover = cover_of(member, passed_ms) + least;
    /* Growing by doubling lets a rate show that the credit itself was holding down. */
    uint64_t most = 2 * (uint64_t)member->credit;
    uint64_t limit = least < CADRE_CREDIT_MAX ? CADRE_CREDIT_MAX : least;
    cover = cover < most ? cover : most;
    member->credit = (uint32_t)(cover < limit ? cover : limit);
    member->credit_ms = self->effects.now_ms;
    member->credit_ended = member->ended;
    member->credit_us = 0;
}

bool
cadre_dispatch_can_take(cadre_core_t *self, cadre_member_t *member)
{
    if (!member || member->suspect || member->draining ||
        self->effects.now_ms < member->rest_until_ms || member->overdue_count >= member->slots) {
        return false;
    }
    measure_credit(self, member);
    return member->in_flight.count + 2 * (size_t)member->overdue_count < member->credit &&
           !cadre_member_is_alone(member, self->effects.now_ms);
}

static void
begin(cadre_core_t *self, cadre_member_t *member, cadre_closure_t *closure)
{
    if (closure->id == 0) {
        cadre_begun_add(&self->begun, closure);
    }
    cadre_closure_hand_to(closure, member->task.incarnation);
    closure->worker = member;
    closure->begun_ms = self->effects.now_ms;
    closure->is_running = false;
    closure->named_ms = 0;
    closure->stays = false;
    self->totals.attempts++;
    cadre_checkpoint_on_attempt(&self->checkpoint, closure->id);
    cadre_closure_list_push(&member->in_flight, closure);
    cadre_dispatch_send(self, member, closure);
}

/* Which closures of the queue may go: CADRE_QUEUE_NEW_TOO, or those with an id below this. */
static uint64_t
queue_limit(const cadre_core_t *self)
{
    if (self->replay.active) {
        return cadre_replay_limit(&self->replay);
    }
    bool holds = self->replay.holds || !cadre_windows_have_room(&self->windows) ||
                 self->queue.aside.count >= CADRE_ASIDE_MAX;
    return holds ? UINT64_MAX : CADRE_QUEUE_NEW_TOO;
}

static bool
is_present(const void *context, uint32_t tag)
{
    const cadre_membership_t *membership = context;
    return tag < membership->worker_capacity && membership->workers[tag];
}

bool
cadre_dispatch_may_run(const cadre_core_t *self, const cadre_member_t *member,
                       const cadre_closure_t *closure)
{
    bool is_for = closure->tag == CADRE_TAG_NONE || closure->tag == member->index ||
                  (closure->kept && !is_present(&self->membership, closure->tag));
    const cadre_needs_t needs = cadre_closure_needs(closure);
    return is_for && !cadre_closure_has_overrun_on(closure, member->task.incarnation) &&
           cadre_reach_may_run(self, member, closure) &&
           cadre_abilities_meet(&member->abilities, &needs);
}

bool
cadre_dispatch_may_go(const cadre_core_t *self, const cadre_closure_t *closure)
{
    if (closure->kept || self->replay.active) {
        return self->replay.active && closure->id < cadre_replay_limit(&self->replay);
    }
    return !self->queue.cancelling;
}

/* Puts it in flight; false when it has ended instead. */
static bool
take(cadre_core_t *self, cadre_closure_t *closure)
{
    int status = closure->kept ? 0 : cadre_closure_take_values(closure);
    if (status < 0) {
        cadre_dispatch_refuse(self, closure, status);
        return false;
    }
    if (closure->kept) {
        cadre_replay_take_out(&self->replay, closure);
    } else {
        cadre_closure_queue_begin(&self->queue, closure);
    }
    return true;
}

void
cadre_dispatch_begin(cadre_core_t *self, cadre_member_t *member, cadre_closure_t *closure)
{
    if (take(self, closure)) {
        begin(self, member, closure);
    }
}

typedef struct {
    const cadre_core_t *core;
    const cadre_member_t *member;
} reach_t;

static bool
is_unreached(const void *context, const cadre_closure_t *closure)
{
    const reach_t *reach = context;
    return !cadre_reach_may_run(reach->core, reach->member, closure);
}

/* The next closure for a worker, taken: first what is to run again. One that needs what the
 * worker has not, or a shard which it does not reach, stays for another, or for
 * later. */
static cadre_closure_t *
next_closure(cadre_core_t *self, const cadre_member_t *member)
{
    cadre_closure_t *closure = NULL;
    const reach_t reach = {self, member};
    const cadre_closure_filter_t unreached = {is_unreached, &reach};
    const cadre_closure_filter_t *filter =
        cadre_shard_set_is_empty(&member->unreachable) ? NULL : &unreached;
    if (self->replay.active) {
        closure = cadre_replay_next(&self->replay, member->index, &member->abilities, filter,
                                    is_present, &self->membership);
    }
    if (!closure && !self->queue.cancelling) {
        closure = cadre_closure_lanes_next(&self->queue.lanes, member->index, queue_limit(self),
                                           &member->abilities, filter);
    }
    return closure && take(self, closure) ? closure : NULL;
}

/* The largest of a closure's arguments that workers keep, or NULL. */
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

/* The worker that is to have a closure which `member` could take: one that has its largest argument
 * already and is no busier, else `member`. */
static cadre_member_t *
nearer(cadre_core_t *self, cadre_member_t *member, const cadre_closure_t *closure)
{
    const cadre_closure_argument_t *argument = largest_value(closure);
    const cadre_needs_t needs = cadre_closure_needs(closure);
    if (!argument || closure->tag != CADRE_TAG_NONE ||
        cadre_results_are_on(argument->from, argument->position, member->task.incarnation)) {
        return member;
    }
    for (size_t i = 0; i < argument->from->holder_count; i++) {
        uint64_t worker = argument->from->holders[i].worker;
        cadre_member_t *other = cadre_membership_find(&self->membership, worker);
        if (cadre_results_are_on(argument->from, argument->position, worker) && other &&
            cadre_dispatch_can_take(self, other) && cadre_reach_may_run(self, other, closure) &&
            cadre_abilities_meet(&other->abilities, &needs) &&
            (other->in_flight.count < other->slots ||
             other->in_flight.count <= member->in_flight.count)) {
            return other;
        }
    }
    return member;
}

static size_t
waiting(const cadre_core_t *self)
{
    return self->queue.lanes.common + self->queue.lanes.tagged + self->replay.redo.count;
}

/* How many closures a worker is to get now, one after the other. What waits is shared out to all in
 * turn; up to twice its slots it has at any rate, one by one. */
static size_t
batch_of(cadre_core_t *self, cadre_member_t *member)
{
    if (!cadre_dispatch_can_take(self, member)) {
        return 0;
    }
    size_t least = 2 * (size_t)member->slots;
    size_t held = member->in_flight.count + 2 * (size_t)member->overdue_count;
    size_t share = waiting(self) / self->membership.worker_count;
    size_t limit = share < member->credit ? share : member->credit;
    if (limit <= least) {
        return held < least ? 1 : 0;
    }
    if (held >= least && held > limit / 2 && held + BATCH_MAX > limit) {
        return 0;
    }
    return limit - held < BATCH_MAX ? limit - held : BATCH_MAX;
}

/* Hands up to `batch` closures to a worker, or to one that is nearer to them; how many there were.
 */
static size_t
hand_out(cadre_core_t *self, cadre_member_t *member, size_t batch)
{
    size_t count = 0;
    while (count < batch && cadre_dispatch_can_take(self, member)) {
        cadre_closure_t *closure = next_closure(self, member);
        if (!closure) {
            break;
        }
        begin(self, nearer(self, member, closure), closure);
        cadre_effects_note_progress(&self->effects); /* there is room in the queue */
        count++;
    }
    if (count > 0) {
        cadre_dispatch_send_acks(self, member); /* in one packet with them */
    }
    return count;
}

bool
cadre_dispatch(cadre_core_t *self)
{
    const cadre_membership_t *membership = &self->membership;
    uint32_t idle = 0; /* workers in a row that took nothing */
    size_t given = 0;
    while (!self->fatal && idle < membership->worker_capacity && waiting(self) > 0) {
        if (given >= TURN_MAX) {
            return true;
        }
        self->turn = self->turn < membership->worker_capacity ? self->turn : 0;
        cadre_member_t *member = membership->workers[self->turn++];
        size_t count = hand_out(self, member, batch_of(self, member));
        idle = count > 0 ? 0 : idle + 1;
        given += count;
    }
    return false;
}
