/*
 * reach - which worker fails to reach which shard, and what that keeps from it.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
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
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_REACH_H
#define CADRE_COORDINATOR_CORE_DISPATCH_REACH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/shard_set.h"
#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/recovery.h"

/* All borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_shard_recovery_t *recovery;
    cadre_effects_t *effects;
} cadre_reach_links_t;

/* What workers say of shards is kept with each member (`unreachable`, `waits`). */
typedef struct {
    cadre_reach_links_t links;
    cadre_shard_set_t *needs; /* by function id - 1: shards that closures of it came back for */
    size_t needs_count;
    uint64_t returned; /* attempts given back by workers that did not reach a shard */
} cadre_reach_t;

void cadre_reach_init(cadre_reach_t *self, const cadre_reach_links_t *links);
void cadre_reach_fini(cadre_reach_t *self);

/* Takes what a worker says of shards. */
void cadre_reach_on_heartbeat(const cadre_reach_t *self, cadre_member_t *worker,
                              const cadre_heartbeat_message_t *heartbeat);

/* Notes that a worker gave a closure back because it hears nothing of a shard. */
void cadre_reach_on_returned(cadre_reach_t *self, cadre_member_t *worker,
                             const cadre_closure_t *closure, uint64_t shard);

/* Returns whether the worker reaches what the closure is known to need. */
bool cadre_reach_may_run(const cadre_reach_t *self, const cadre_member_t *worker,
                         const cadre_closure_t *closure);

/* Returns the first READY shard of which no worker hears anything, though there are workers;
 * UINT32_MAX when there is none. */
uint32_t cadre_reach_lost_shard(const cadre_reach_t *self);

/* Returns the shard that a closure on this worker waits for, as the worker has said last, and in
 * `*ms` for how long; UINT32_MAX when it waits for none. */
uint32_t cadre_reach_waits_for(const cadre_member_t *worker, uint64_t closure, uint64_t *ms);

#endif
