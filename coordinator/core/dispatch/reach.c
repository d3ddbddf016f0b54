#include "coordinator/core/dispatch/reach.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

void
cadre_reach_init(cadre_reach_t *self, const cadre_reach_links_t *links)
{
    *self = (cadre_reach_t){.links = *links};
}

void
cadre_reach_fini(cadre_reach_t *self)
{
    free(self->needs);
    self->needs = NULL;
    self->needs_count = 0;
}

/* --- what workers say --- */

/* Logs that a worker has stopped hearing a shard, or hears it again (`reaches`). */
static void
tell(const cadre_reach_t *self, const cadre_member_t *worker, uint32_t shard, bool reaches)
{
    cadre_effects_log(self->links.effects, reaches ? 'I' : 'W',
                      reaches ? "shard_reachable" : "shard_unreachable",
                      "worker=%u process=%u host=\"%s\" shard=%u next=\"%s\"", worker->index,
                      worker->process, worker->host, shard,
                      reaches ? "it is given everything again"
                              : "other workers get the closures that need it: see to the network "
                                "between the two");
}

/* Keeps which closures of the worker wait for which shard, as triples (closure, shard, ms); an
 * incomplete last triple is left out. */
static void
keep_waits(cadre_member_t *worker, cadre_u64s_t waits)
{
    worker->wait_items = waits.count - waits.count % 3;
    if (worker->wait_items > 0) {
        worker->waits = cadre_realloc(worker->waits, worker->wait_items, sizeof(*worker->waits));
        memcpy(worker->waits, waits.items, worker->wait_items * sizeof(*worker->waits));
    }
}

/* Takes from a worker's heartbeat which shards it does not reach, and what its closures wait
 * for. */
void
cadre_reach_on_heartbeat(const cadre_reach_t *self, cadre_member_t *worker,
                         const cadre_heartbeat_message_t *heartbeat)
{
    keep_waits(worker, heartbeat->waits);
    const cadre_shard_set_t unreachable = cadre_shard_set_of(heartbeat->unreachable);
    if (memcmp(&unreachable, &worker->unreachable, sizeof(unreachable)) == 0) {
        return;
    }

    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        bool reaches = !cadre_shard_set_has(&unreachable, shard);
        if (reaches == cadre_shard_set_has(&worker->unreachable, shard)) {
            tell(self, worker, shard, reaches);
        }
    }
    worker->unreachable = unreachable;
    /* Calls of the API that wait can now say for what. */
    cadre_effects_note_progress(self->links.effects);
}

/* --- what closures need --- */

/* Returns the shards because of which closures of the function came back; NULL while none did. */
static const cadre_shard_set_t *
needs_of(const cadre_reach_t *self, uint32_t function)
{
    return function <= self->needs_count ? &self->needs[function - 1] : NULL;
}

/* Notes that closures of this function need the shard. */
static void
add_need(cadre_reach_t *self, uint32_t function, uint64_t shard)
{
    if (function > self->needs_count) {
        size_t added = function - self->needs_count;
        self->needs = cadre_realloc(self->needs, function, sizeof(*self->needs));
        memset(self->needs + self->needs_count, 0, added * sizeof(*self->needs));
        self->needs_count = function;
    }
    cadre_shard_set_put(&self->needs[function - 1], shard);
}

/* Notes that a worker gave a closure back because it does not reach a shard: closures of that
 * function count as needing the shard from now on. */
void
cadre_reach_on_returned(cadre_reach_t *self, cadre_member_t *worker, const cadre_closure_t *closure,
                        uint64_t shard)
{
    if (!cadre_shard_set_has(&worker->unreachable, shard)) {
        /* The heartbeat that would have said so was lost. */
        tell(self, worker, (uint32_t)shard, false);
        cadre_shard_set_put(&worker->unreachable, shard);
    }
    add_need(self, closure->function, shard);
    self->returned++;

    cadre_effects_log(self->links.effects, 'W', "closure_returned",
                      "closure=%" PRIu64 " function=%s worker=%u process=%u shard=%" PRIu64
                      " attempt=%" PRIu64 " next=\"a worker that reaches the shard runs it\"",
                      closure->id, self->links.catalogue->functions[closure->function - 1]->name,
                      worker->index, worker->process, shard, closure->attempt);
}

bool
cadre_reach_may_run(const cadre_reach_t *self, const cadre_member_t *worker,
                    const cadre_closure_t *closure)
{
    const cadre_shard_set_t *needs = needs_of(self, closure->function);
    return !needs || !cadre_shard_set_meets(&worker->unreachable, needs);
}

/* --- which shards no worker reaches --- */

/* Returns whether there are workers, and none of them hears the shard. */
static bool
is_lost(const cadre_reach_t *self, uint32_t shard)
{
    const cadre_membership_t *members = self->links.members;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        const cadre_member_t *worker = members->workers[i];
        if (worker && !cadre_shard_set_has(&worker->unreachable, shard)) {
            return false;
        }
    }
    return members->worker_count > 0;
}

/* Returns the first served shard that no worker reaches; UINT32_MAX: none. */
uint32_t
cadre_reach_lost_shard(const cadre_reach_t *self)
{
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        if (cadre_recovery_is_ready(self->links.recovery, shard) && is_lost(self, shard)) {
            return shard;
        }
    }
    return UINT32_MAX;
}

/* Returns the shard for which a closure on the worker has waited longest; UINT32_MAX: none is
 * known. */
uint32_t
cadre_reach_waits_for(const cadre_member_t *worker, uint64_t closure, uint64_t *ms)
{
    uint32_t shard = UINT32_MAX;
    *ms = 0;
    for (size_t i = 0; i < worker->wait_items; i += 3) {
        bool is_longer = shard == UINT32_MAX || worker->waits[i + 2] > *ms;
        if (worker->waits[i] == closure && is_longer) {
            shard = (uint32_t)worker->waits[i + 1];
            *ms = worker->waits[i + 2];
        }
    }
    return shard;
}
