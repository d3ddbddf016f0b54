/*
 * reach - which worker fails to reach which shard, and what that keeps from it.
 *
 * Coordinator and ps hear each other, so the ps is whole; what is broken lies between it and the
 * worker. The worker names such shards in its heartbeats and gives back what needs them. What a
 * closure needs is known by its function: closures of one touch the same variables, and a native
 * function says beforehand nothing at all. So the first ones that come back teach it, and from then
 * on no worker that names the shard is given one.
 *
 * A shard that every worker names is not taken for lost: its ps would lose its state, and another
 * one in its place would hardly be reached any better. What needs it waits, by name.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "coordinator/core/coordinator_core.h"

static cadre_function_t *
function_of(const cadre_core_t *self, const cadre_closure_t *closure)
{
    return self->catalogue.functions[closure->function - 1];
}

static void
tell(cadre_core_t *self, const cadre_member_t *member, uint32_t shard, bool reaches)
{
    cadre_effects_log(&self->effects, reaches ? 'I' : 'W',
                      reaches ? "shard_reachable" : "shard_unreachable",
                      "worker=%u process=%u host=\"%s\" shard=%u next=\"%s\"", member->index,
                      member->process, member->host, shard,
                      reaches ? "it is given everything again"
                              : "other workers get the closures that need it: see to the network "
                                "between the two");
}

static void
keep_waits(cadre_member_t *member, cadre_u64s_t waits)
{
    member->wait_items = waits.count - waits.count % 3;
    if (member->wait_items > 0) {
        member->waits = cadre_realloc(member->waits, member->wait_items, sizeof(*member->waits));
        memcpy(member->waits, waits.items, member->wait_items * sizeof(*member->waits));
    }
}

void
cadre_reach_on_heartbeat(cadre_core_t *self, cadre_member_t *member,
                         const cadre_heartbeat_message_t *heartbeat)
{
    keep_waits(member, heartbeat->waits);
    const cadre_shard_set_t unreachable = cadre_shard_set_of(heartbeat->unreachable);
    if (memcmp(&unreachable, &member->unreachable, sizeof(unreachable)) == 0) {
        return;
    }
    for (uint32_t shard = 0; shard < self->options.ps_count; shard++) {
        bool reaches = !cadre_shard_set_has(&unreachable, shard);
        if (reaches == cadre_shard_set_has(&member->unreachable, shard)) {
            tell(self, member, shard, reaches);
        }
    }
    member->unreachable = unreachable;
    cadre_effects_note_progress(&self->effects); /* a call that waits may say why */
}

void
cadre_reach_on_returned(cadre_core_t *self, cadre_member_t *member, cadre_closure_t *closure,
                        uint64_t shard)
{
    cadre_function_t *function = function_of(self, closure);
    if (!cadre_shard_set_has(&member->unreachable, shard)) {
        tell(self, member, (uint32_t)shard, false); /* its heartbeat was lost */
        cadre_shard_set_put(&member->unreachable, shard);
    }
    cadre_shard_set_put(&function->needs, shard);
    self->returned++;
    cadre_effects_log(&self->effects, 'W', "closure_returned",
                      "closure=%" PRIu64 " function=%s worker=%u process=%u shard=%" PRIu64
                      " attempt=%" PRIu64 " next=\"a worker that reaches the shard runs it\"",
                      closure->id, function->name, member->index, member->process, shard,
                      closure->attempt);
}

bool
cadre_reach_may_run(const cadre_core_t *self, const cadre_member_t *member,
                    const cadre_closure_t *closure)
{
    return !cadre_shard_set_meets(&member->unreachable, &function_of(self, closure)->needs);
}

/* Whether there are workers, and none of them hears the shard. */
static bool
is_lost(const cadre_core_t *self, uint32_t shard)
{
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        const cadre_member_t *member = self->membership.workers[i];
        if (member && !cadre_shard_set_has(&member->unreachable, shard)) {
            return false;
        }
    }
    return self->membership.worker_count > 0;
}

uint32_t
cadre_reach_lost_shard(const cadre_core_t *self)
{
    for (uint32_t shard = 0; shard < self->options.ps_count; shard++) {
        if (cadre_recovery_is_ready(&self->recovery, shard) && is_lost(self, shard)) {
            return shard;
        }
    }
    return UINT32_MAX;
}

uint32_t
cadre_reach_waits_for(const cadre_member_t *member, uint64_t closure, uint64_t *ms)
{
    uint32_t shard = UINT32_MAX;
    *ms = 0;
    for (size_t i = 0; i < member->wait_items; i += 3) {
        bool is_longer = shard == UINT32_MAX || member->waits[i + 2] > *ms;
        if (member->waits[i] == closure && is_longer) {
            shard = (uint32_t)member->waits[i + 1];
            *ms = member->waits[i + 2];
        }
    }
    return shard;
}
