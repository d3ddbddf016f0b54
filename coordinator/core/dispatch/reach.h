/*
 * reach - which worker cannot reach which shard, and which closures it is therefore not given.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * The coordinator and the ps hear each other, so the ps is well; the network between it and the
 * worker is broken. The worker names such shards in its heartbeats and gives back closures that
 * need them. Which shards a closure needs is learned by function: closures of one function touch
 * the same variables, and a native function does not say beforehand which. So the first closures
 * that come back teach the coordinator which shards the function needs, and from then on no worker
 * that names such a shard is given a closure of that function.
 *
 * A shard that every worker names is not taken for lost: its ps would lose its state, and a new ps
 * in its place would hardly be reached any better. Closures that need the shard wait, and the log
 * and status say for what.
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

/* The objects that it reads and calls; borrowed for its life. */
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
    /* [function id - 1]: shards because of which closures of that function came back. */
    cadre_shard_set_t *needs;
    size_t needs_count;
    uint64_t returned; /* how many attempts workers gave back because they did not reach a shard */
} cadre_reach_t;

void cadre_reach_init(cadre_reach_t *self, const cadre_reach_links_t *links);
void cadre_reach_fini(cadre_reach_t *self);

/* Takes from a worker's HEARTBEAT which shards it does not reach, and which closures wait for which
 * shard. */
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
