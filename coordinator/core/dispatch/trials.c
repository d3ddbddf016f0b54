#include "coordinator/core/dispatch/trials.h"

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/memory.h"

enum { SETTLED_MS = 10000 }; /* a worker that has been there for so long is no newcomer */

void
cadre_trials_init(cadre_trials_t *self, const cadre_trials_links_t *links)
{
    *self = (cadre_trials_t){.links = *links};
}

/* --- choosing a worker --- */

typedef bool may_try_t(const cadre_trials_t *self, const cadre_member_t *worker, const void *what);

/* Returns how well a worker suits for a trial, the lower the better: a worker on whose place and
 * host no process died of the suspect comes first, then one that is no newcomer, then an idle one.
 */
static unsigned
rank(const cadre_trials_t *self, const cadre_member_t *worker, const cadre_suspicion_t *suspicion)
{
    unsigned known = (unsigned)cadre_suspicion_knows(suspicion, worker->index, worker->host);
    unsigned newcomer = self->links.effects->now_ms - worker->joined_ms < SETTLED_MS;
    return known << 2 | newcomer << 1 | (worker->in_flight.count > 0);
}

/* Returns whether the worker can be reserved for a trial: it is heard, stays, and tries nothing
 * else. */
static bool
is_free(const cadre_member_t *worker)
{
    return worker && !worker->suspect && !worker->draining && !worker->trial &&
           !worker->trial_closure;
}

/* Returns the worker that suits best for a trial of those that are free and `may_try` it (`what`);
 * of equals the one that joined first. NULL when there is none. */
static cadre_member_t *
choose(const cadre_trials_t *self, const cadre_suspicion_t *suspicion, may_try_t *may_try,
       const void *what)
{
    const cadre_membership_t *members = self->links.members;
    cadre_member_t *best = NULL;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        cadre_member_t *worker = members->workers[i];
        if (!is_free(worker) || !may_try(self, worker, what)) {
            continue;
        }
        unsigned own = rank(self, worker, suspicion);
        unsigned better = best ? rank(self, best, suspicion) : 0;
        if (!best || own < better || (own == better && worker->joined_ms < best->joined_ms)) {
            best = worker;
        }
    }
    return best;
}

/* --- resources --- */

/* Returns whether the worker has yet to build any resource. */
static bool
builds_any(const cadre_trials_t *self, const cadre_member_t *worker)
{
    const cadre_catalogue_t *catalogue = self->links.catalogue;
    for (uint32_t i = 0; i < catalogue->resource_count; i++) {
        if (cadre_resource_is_under_way(catalogue->resources[i], &worker->resources_told,
                                        &worker->abilities)) {
            return true;
        }
    }
    return false;
}

/* Returns whether the worker may try the resource `what` (may_try_t): nothing else that it builds
 * could be to blame, and no unreachable shard can hold it up. */
static bool
may_build(const cadre_trials_t *self, const cadre_member_t *worker, const void *what)
{
    const cadre_resource_t *resource = what;
    return cadre_resource_is_buildable(resource, &worker->abilities) && !builds_any(self, worker) &&
           cadre_shard_set_is_empty(&worker->unreachable) &&
           !cadre_resource_set_has(&worker->resources_told, resource->id);
}

/* Returns the worker that tries a suspect resource; chooses and reserves one if there is none and
 * it is `wanted`. */
cadre_member_t *
cadre_trials_resource(const cadre_trials_t *self, cadre_resource_t *resource, bool wanted)
{
    /* a trial under way goes on, whether it is still wanted or not */
    if (resource->trial || !wanted) {
        return cadre_membership_find(self->links.members, resource->trial);
    }

    cadre_member_t *worker = choose(self, &resource->suspicion, may_build, resource);
    if (worker) {
        resource->trial = worker->task.incarnation;
        worker->trial = resource->id;
        /* the worker gets nothing else until the trial has begun */
        worker->alone_until_ms = UINT64_MAX;
    }
    return worker;
}

/* --- closures --- */

static bool
may_run(const cadre_trials_t *self, const cadre_member_t *worker, const void *what)
{
    return cadre_dispatcher_may_run(self->links.dispatcher, worker, what);
}

/* Begins an attempt, unless the closure's arguments cannot be had, which has ended it. */
static void
begin(const cadre_trials_t *self, cadre_member_t *worker, cadre_closure_t *closure)
{
    if (cadre_attempts_take(self->links.attempts, closure)) {
        cadre_attempts_begin(self->links.attempts, worker, closure);
    }
}

/* Returns the worker that is to try a suspect: the worker that was chosen before, while it may run
 * the closure and no other worker suits better. Otherwise ends the trial there and returns the
 * other worker; NULL: no worker may now. */
static cadre_member_t *
find_trial(const cadre_trials_t *self, cadre_closure_t *closure)
{
    const cadre_suspicion_t *suspicion = &closure->suspicion;
    cadre_member_t *worker =
        closure->trial ? cadre_membership_find(self->links.members, closure->trial) : NULL;
    bool may = worker && !worker->suspect && !worker->draining && may_run(self, worker, closure);
    if (may && worker->in_flight.count == 0) {
        return worker;
    }

    cadre_member_t *other = choose(self, suspicion, may_run, closure);
    if (may && (!other || rank(self, other, suspicion) >= rank(self, worker, suspicion))) {
        return worker;
    }
    cadre_apart_end_trial(self->links.apart, closure);
    return other;
}

/* Chooses a worker for a suspect closure, and begins it there once that worker has ended what it
 * ran. */
static void
try_alone(const cadre_trials_t *self, cadre_closure_t *closure)
{
    cadre_member_t *worker = find_trial(self, closure);
    if (!worker) {
        return; /* no worker may try it now: the next tick looks again */
    }

    cadre_apart_begin_trial(closure, worker);
    /* the worker gets nothing else until the suspect has begun */
    worker->alone_until_ms = UINT64_MAX;
    if (worker->in_flight.count == 0) {
        worker->alone_until_ms = self->links.effects->now_ms + CADRE_ALONE_MS;
        begin(self, worker, closure);
    }
}

/* Returns whether the worker still runs this closure past its deadline. */
static bool
is_overdue_on(const cadre_member_t *worker, uint64_t id)
{
    for (size_t i = 0; i < worker->overdue_count; i++) {
        if (worker->overdue[i] == id) {
            return true;
        }
    }
    return false;
}

/* Returns whether any connected worker may run the closure. */
static bool
may_anybody_run(const cadre_trials_t *self, const cadre_closure_t *closure)
{
    const cadre_membership_t *members = self->links.members;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        if (members->workers[i] && may_run(self, members->workers[i], closure)) {
            return true;
        }
    }
    return false;
}

/* If no worker may run the closure any more, lets those try again on which it ran past its deadline
 * and has stopped. */
static void
reconsider(const cadre_trials_t *self, cadre_closure_t *closure)
{
    if (may_anybody_run(self, closure)) {
        return;
    }
    for (uint32_t i = 0; i < closure->overruns; i++) {
        const cadre_member_t *worker =
            cadre_membership_find(self->links.members, closure->overran_on[i]);
        if (worker && !is_overdue_on(worker, closure->id)) {
            closure->overran_on[i] = 0;
        }
    }
}

/* Returns the worker that is to have a closure which ran past its deadline elsewhere; NULL: no
 * worker can take it now. */
static cadre_member_t *
choose_least_busy(const cadre_trials_t *self, const cadre_closure_t *closure)
{
    const cadre_membership_t *members = self->links.members;
    cadre_member_t *best = NULL;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        cadre_member_t *worker = members->workers[i];
        if (cadre_dispatcher_can_take(self->links.dispatcher, worker) &&
            may_run(self, worker, closure) &&
            (!best || worker->in_flight.count < best->in_flight.count)) {
            best = worker;
        }
    }
    return best;
}

/* Hands out a closure that is apart: a suspect alone, another one to the least busy worker. */
static void
hand_out(const cadre_trials_t *self, cadre_closure_t *closure)
{
    reconsider(self, closure);
    if (cadre_suspicion_is_strong(&closure->suspicion)) {
        try_alone(self, closure);
        return;
    }
    cadre_member_t *worker = choose_least_busy(self, closure);
    if (worker) {
        begin(self, worker, closure);
    }
}

typedef struct {
    uint32_t deaths;
    uint64_t id;
} suspect_t;

/* Orders suspects by fewest deaths first: innocent closures end soon and are out of the way. */
static int
compare_suspects(const void *left, const void *right)
{
    const suspect_t *a = left;
    const suspect_t *b = right;
    if (a->deaths != b->deaths) {
        return a->deaths > b->deaths ? 1 : -1;
    }
    return (a->id > b->id) - (a->id < b->id);
}

/* Hands out the closures that are apart and queued, those with the fewest deaths first. */
void
cadre_trials_tick(cadre_trials_t *self)
{
    cadre_apart_t *apart = self->links.apart;
    if (apart->closures.count == 0) {
        return;
    }

    suspect_t *suspects = cadre_calloc(apart->closures.count, sizeof(*suspects));
    size_t count = 0;
    cadre_closure_t *closure = NULL;
    for (size_t cursor = 0; (closure = cadre_u64_map_next(&apart->closures, &cursor));) {
        suspects[count++] = (suspect_t){closure->suspicion.deaths, closure->id};
    }
    qsort(suspects, count, sizeof(*suspects), compare_suspects);

    /* Closures are looked up by id: beginning one may end others of the list. */
    for (size_t i = 0; i < count; i++) {
        closure = cadre_u64_map_get(&apart->closures, suspects[i].id);
        if (!closure || closure->state != CADRE_CLOSURE_QUEUED) {
            continue;
        }
        if (cadre_dispatcher_may_go(self->links.dispatcher, closure)) {
            hand_out(self, closure);
        } else {
            /* The closure must wait for others of a replay, or for a cancel. Its reserved worker is
             * released: those others may need that worker. */
            cadre_apart_end_trial(apart, closure);
        }
    }
    free(suspects);
}
