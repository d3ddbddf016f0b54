/*
 * dispatcher - which worker gets which closure.
 *
 * A worker may hold `credit` closures: twice its slots, and for closures that are short as many as
 * it ends in CREDIT_COVER_MS, so that a round trip to the coordinator never leaves it idle. First
 * comes what is to run again for a shard that was restored, then what was put back, then new work.
 */
#include "common/limits.h"
#include "coordinator/coordinator_core.h"
#include "coordinator/windows.h"

enum {
    CREDIT_COVER_MS = 10,    /* work that a worker may hold, at the rate it had */
    CREDIT_INTERVAL_MS = 50, /* how often the rate is measured */
    CREDIT_MAX = 512,        /* or twice the slots, where that is more */
};

static void
measure_credit(cadre_core_t *self, cadre_member_t *member)
{
    uint32_t least = 2 * member->slots;
    if (member->credit < least) {
        member->credit = least;
    }
    uint64_t passed_ms = self->now_ms - member->credit_ms;
    if (passed_ms < CREDIT_INTERVAL_MS) {
        return;
    }
    uint64_t ended = member->ended - member->credit_ended;
    uint64_t cover = ended * CREDIT_COVER_MS / passed_ms + least;
    /* Growing by doubling lets a rate show that the credit itself was holding down. */
    uint64_t most = 2 * (uint64_t)member->credit;
    uint64_t limit = least < CREDIT_MAX ? CREDIT_MAX : least;
    cover = cover < most ? cover : most;
    member->credit = (uint32_t)(cover < limit ? cover : limit);
    member->credit_ms = self->now_ms;
    member->credit_ended = member->ended;
}

bool
cadre_dispatch_can_take(cadre_core_t *self, cadre_member_t *member)
{
    if (!member || member->suspect || member->draining || cadre_trials_alone(self, member) ||
        self->now_ms < member->rest_until_ms || member->overdue_count >= member->slots) {
        return false;
    }
    measure_credit(self, member);
    return member->in_flight.count + 2 * (size_t)member->overdue_count < member->credit;
}

static void
begin(cadre_core_t *self, cadre_member_t *member, cadre_closure_t *closure)
{
    if (closure->id == 0) {
        closure->id = self->next_id;
        self->next_id += closure->steps;
        closure->number = ++self->begun;
        cadre_u64_map_put(&self->closures, closure->id, closure);
    }
    cadre_closure_hand_to(closure, member->task.incarnation);
    closure->worker = member;
    closure->begun_ms = self->now_ms;
    closure->is_running = false;
    closure->named_ms = 0;
    closure->stays = false;
    self->totals.attempts++;
    cadre_checkpoint_on_attempt(self, closure->id);
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
    bool holds = self->replay_holds || !cadre_windows_have_room(self) ||
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
    return is_for && cadre_overruns_may_try(closure, member) &&
           cadre_resource_set_has_all(&member->resources_built, closure->resources,
                                      closure->resource_count);
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

/* The next closure for a worker, taken: first what is to run again. One whose resources the worker
 * has not built yet stays for another, or for later. */
static cadre_closure_t *
next_closure(cadre_core_t *self, const cadre_member_t *member)
{
    cadre_closure_t *closure = NULL;
    if (self->replay.active) {
        closure = cadre_replay_next(&self->replay, member->index, &member->resources_built,
                                    is_present, &self->membership);
    }
    if (!closure && !self->queue.cancelling) {
        closure = cadre_closure_lanes_next(&self->queue.lanes, member->index, queue_limit(self),
                                           &member->resources_built);
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
    if (!argument || closure->tag != CADRE_TAG_NONE ||
        cadre_results_are_on(argument->from, argument->position, member->task.incarnation)) {
        return member;
    }
    for (size_t i = 0; i < argument->from->holder_count; i++) {
        uint64_t worker = argument->from->holders[i].worker;
        cadre_member_t *other = cadre_membership_find(&self->membership, worker);
        if (cadre_results_are_on(argument->from, argument->position, worker) && other &&
            cadre_dispatch_can_take(self, other) &&
            cadre_resource_set_has_all(&other->resources_built, closure->resources,
                                       closure->resource_count) &&
            (other->in_flight.count < other->slots ||
             other->in_flight.count <= member->in_flight.count)) {
            return other;
        }
    }
    return member;
}

void
cadre_dispatch(cadre_core_t *self)
{
    if (self->fatal) {
        return;
    }
    const cadre_membership_t *membership = &self->membership;
    const cadre_closure_queue_t *queue = &self->queue;
    uint32_t idle = 0; /* workers in a row that took nothing */
    while (idle < membership->worker_capacity &&
           (cadre_closure_queue_has_work(queue) || self->replay.redo.count > 0)) {
        self->turn = self->turn < membership->worker_capacity ? self->turn : 0;
        cadre_member_t *member = membership->workers[self->turn++];
        cadre_closure_t *closure = NULL;
        if (cadre_dispatch_can_take(self, member)) {
            closure = next_closure(self, member);
        }
        if (closure) {
            begin(self, nearer(self, member, closure), closure);
            self->progress = true; /* there is room in the queue */
        }
        idle = closure ? 0 : idle + 1;
    }
}
