/*
 * trials - what may have killed its workers is tried alone: closures and builds of resources alike.
 *
 * A suspect (suspicion.h) gets a worker for itself, which ends first what it has and takes nothing
 * else for CADRE_ALONE_MS; after that it does other things beside, since the suspect may only be
 * slow, or hang. Chosen is where nobody died of it yet, on another host if possible; then who has
 * been there for long, so that processes which come and die are not taken for victims; then who is
 * idle. Several suspects are tried on several workers at once. Whatever ends it, ends the trial.
 *
 * What ran past its deadline elsewhere is handed out here, too: to who is least busy of those that
 * were not too slow for it.
 */
#include <stdlib.h>

#include "common/base/memory.h"
#include "coordinator/core/coordinator_core.h"

enum { SETTLED_MS = 10000 }; /* a worker that has been there for so long is no newcomer */

/* --- who tries --- */

typedef bool may_try_t(const cadre_core_t *self, const cadre_member_t *member, const void *what);

/* How well it suits, the lower the better; see above. */
static unsigned
rank(const cadre_core_t *self, const cadre_member_t *member, const cadre_suspicion_t *suspicion)
{
    unsigned known = (unsigned)cadre_suspicion_knows(suspicion, member->index, member->host);
    unsigned newcomer = self->effects.now_ms - member->joined_ms < SETTLED_MS;
    return known << 2 | newcomer << 1 | (member->in_flight.count > 0);
}

static cadre_member_t *
choose(const cadre_core_t *self, const cadre_suspicion_t *suspicion, may_try_t *may_try,
       const void *what)
{
    cadre_member_t *best = NULL;
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        cadre_member_t *member = self->membership.workers[i];
        if (!member || member->suspect || member->draining || member->trial ||
            member->trial_closure || !may_try(self, member, what)) {
            continue;
        }
        unsigned own = rank(self, member, suspicion);
        unsigned better = best ? rank(self, best, suspicion) : 0;
        if (!best || own < better || (own == better && member->joined_ms < best->joined_ms)) {
            best = member;
        }
    }
    return best;
}

/* --- resources --- */

static bool
may_build(const cadre_core_t *self, const cadre_member_t *member, const void *what)
{
    const cadre_resource_t *resource = what;
    bool busy = !cadre_resource_is_buildable(resource, &member->abilities);
    for (uint32_t i = 0; i < self->catalogue.resource_count; i++) {
        busy = busy || cadre_resource_is_under_way(self->catalogue.resources[i],
                                                   &member->resources_told, &member->abilities);
    }
    return !busy && cadre_shard_set_is_empty(&member->unreachable) &&
           !cadre_resource_set_has(&member->resources_told, resource->id);
}

cadre_member_t *
cadre_trials_resource(cadre_core_t *self, cadre_resource_t *resource, bool wanted)
{
    cadre_member_t *member = cadre_membership_find(&self->membership, resource->trial);
    if (!resource->trial && wanted &&
        (member = choose(self, &resource->suspicion, may_build, resource))) {
        resource->trial = member->task.incarnation;
        member->trial = resource->id;
        member->alone_until_ms = UINT64_MAX;
    }
    return member;
}

/* --- closures --- */

static bool
may_run(const cadre_core_t *self, const cadre_member_t *member, const void *what)
{
    return cadre_dispatch_may_run(self, member, what);
}

/* Finds a suspect a worker, and begins it there when that has ended what it had. */
static void
try_alone(cadre_core_t *self, cadre_closure_t *closure)
{
    cadre_member_t *member =
        closure->trial ? cadre_membership_find(&self->membership, closure->trial) : NULL;
    bool may = member && !member->suspect && !member->draining && may_run(self, member, closure);
    cadre_member_t *other = may && member->in_flight.count == 0
                                ? NULL
                                : choose(self, &closure->suspicion, may_run, closure);
    if (!may || (other && rank(self, other, &closure->suspicion) <
                              rank(self, member, &closure->suspicion))) {
        cadre_apart_end_trial(&self->apart, closure);
        member = other;
    }
    if (!member) {
        return; /* when one is there */
    }
    closure->trial = member->task.incarnation;
    member->trial_closure = closure->id;
    member->alone_until_ms = UINT64_MAX;
    if (member->in_flight.count == 0) {
        member->alone_until_ms = self->effects.now_ms + CADRE_ALONE_MS;
        cadre_dispatch_begin(self, member, closure);
    }
}

static bool
is_overdue_on(const cadre_member_t *member, uint64_t id)
{
    for (size_t i = 0; i < member->overdue_count; i++) {
        if (member->overdue[i] == id) {
            return true;
        }
    }
    return false;
}

/* Lets those try again that have been too slow for it and have stopped, where nobody else is left.
 */
static void
reconsider(const cadre_core_t *self, cadre_closure_t *closure)
{
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        const cadre_member_t *member = self->membership.workers[i];
        if (member && cadre_dispatch_may_run(self, member, closure)) {
            return;
        }
    }
    for (uint32_t i = 0; i < closure->overruns; i++) {
        const cadre_member_t *member =
            cadre_membership_find(&self->membership, closure->overran_on[i]);
        if (member && !is_overdue_on(member, closure->id)) {
            closure->overran_on[i] = 0;
        }
    }
}

/* Returns who is to have a closure that was too slow elsewhere; NULL: nobody now. */
static cadre_member_t *
choose_least_busy(cadre_core_t *self, cadre_closure_t *closure)
{
    cadre_member_t *best = NULL;
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        cadre_member_t *member = self->membership.workers[i];
        if (cadre_dispatch_can_take(self, member) &&
            cadre_dispatch_may_run(self, member, closure) &&
            (!best || member->in_flight.count < best->in_flight.count)) {
            best = member;
        }
    }
    return best;
}

static void
hand_out(cadre_core_t *self, cadre_closure_t *closure)
{
    cadre_member_t *member = NULL;
    reconsider(self, closure);
    if (cadre_suspicion_is_strong(&closure->suspicion)) {
        try_alone(self, closure);
    } else if ((member = choose_least_busy(self, closure))) {
        cadre_dispatch_begin(self, member, closure);
    }
}

typedef struct {
    uint32_t deaths;
    uint64_t id;
} suspect_t;

/* The least suspect first: those that are innocent end and are out of the way. */
static int
compare_suspects(const void *left, const void *right)
{
    const suspect_t *a = left;
    const suspect_t *b = right;
    int by_id = (a->id > b->id) - (a->id < b->id);
    return a->deaths == b->deaths ? by_id : (a->deaths > b->deaths) - (a->deaths < b->deaths);
}

void
cadre_trials_tick(cadre_core_t *self)
{
    if (self->apart.closures.count == 0 || self->fatal) {
        return;
    }
    suspect_t *suspects = cadre_calloc(self->apart.closures.count, sizeof(*suspects));
    size_t count = 0;
    cadre_closure_t *closure = NULL;
    for (size_t cursor = 0; (closure = cadre_u64_map_next(&self->apart.closures, &cursor));) {
        suspects[count++] = (suspect_t){closure->suspicion.deaths, closure->id};
    }
    qsort(suspects, count, sizeof(*suspects), compare_suspects);
    for (size_t i = 0; i < count; i++) {
        closure = cadre_u64_map_get(&self->apart.closures, suspects[i].id);
        if (!closure || closure->state != CADRE_CLOSURE_QUEUED) {
            continue;
        }
        if (cadre_dispatch_may_go(self, closure)) {
            hand_out(self, closure);
        } else {
            cadre_apart_end_trial(&self->apart,
                                  closure); /* its worker may be who runs what goes before it */
        }
    }
    free(suspects);
}
