/*
 * resources - which workers build which resource, which have it, and crash attribution: which
 * resource a worker may have died of.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A resource is told to every worker when it is created and to every worker that joins; each builds
 * it by itself and says so with its heartbeats. A worker that is lost while it had resources to
 * build may have been killed by any of them, or by a closure, or by something else: that is judged
 * as for closures (suspicion.h), and a resource that is suspect is tried alone like them. Only its
 * trials count from there on, so that whatever kills many workers at once is not taken for a
 * resource. Where it is proved to kill, its closures fail. Any worker that builds it clears it.
 *
 * Who tries a suspect is chosen by others, as for closures, and the closures of one that has failed
 * are ended by others: both are asked for here, one after the other.
 */
#ifndef CADRE_COORDINATOR_CORE_PROVISIONING_RESOURCES_H
#define CADRE_COORDINATOR_CORE_PROVISIONING_RESOURCES_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/replay.h"

/* What resources read, and whom they tell: all borrowed for their life. Of members they write what
 * those were told to build, have built, and try; of resources what is known of them. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_closure_queue_t *queue;     /* says which closures name a resource, */
    const cadre_replay_t *replay;           /* and which of those that run again */
    const cadre_shard_recovery_t *recovery; /* says what shards a worker must know to build one */
    cadre_effects_t *effects;
} cadre_resources_links_t;

typedef struct {
    cadre_resources_links_t links;
    uint32_t suspect; /* how many are to be built alone */
    uint32_t failed;  /* how many have failed for good */
} cadre_resources_t;

void cadre_resources_init(cadre_resources_t *self, const cadre_resources_links_t *links);

/* --- who is told --- */

/* Tells every worker of what was added to the catalogue. */
void cadre_resources_announce(cadre_resources_t *self);

/* Tells a worker that says HELLO what it is to build. */
void cadre_resources_brief(cadre_resources_t *self, cadre_member_t *worker);

/* Takes what a worker says that it was told to build, and has built. */
void cadre_resources_on_heartbeat(cadre_resources_t *self, cadre_member_t *worker,
                                  const cadre_heartbeat_message_t *heartbeat);

/* --- what happens to workers --- */

/* A worker turns out to lack a function: ends the trial of what it builds by that. */
void cadre_resources_on_lack(cadre_resources_t *self, cadre_member_t *worker);

/* A worker goes. `died`: what it had to build may have killed it. */
void cadre_resources_on_lost(cadre_resources_t *self, cadre_member_t *worker, bool died);

/* A worker says HELLO that was given up as dead: it was only cut off. */
void cadre_resources_forgive(cadre_resources_t *self, uint64_t incarnation);

/* --- trials --- */

/* Returns the suspect resource that is tried after `last` (NULL: before all others), the least
 * suspect first: those that are innocent are built and out of the way. NULL: there are no more. */
cadre_resource_t *cadre_resources_next_suspect(const cadre_resources_t *self,
                                               const cadre_resource_t *last);

/* Ends the trial of a suspect on a worker that does not reach a shard. Returns whether a closure
 * waits for the resource: nobody is to die for what nobody uses. */
bool cadre_resources_review_trial(cadre_resources_t *self, cadre_resource_t *resource);

/* Has the worker that tries a suspect build it, once it has ended what it ran. */
void cadre_resources_try(cadre_resources_t *self, cadre_resource_t *resource,
                         cadre_member_t *worker);

/* --- the end of one that kills --- */

/* Returns the resource after `last` (NULL: the first) that has failed for good; NULL: there are no
 * more. */
const cadre_resource_t *cadre_resources_next_failed(const cadre_resources_t *self,
                                                    const cadre_resource_t *last);

/* Returns a closure that names the resource, queued or the next to run again; NULL: there is none.
 */
cadre_closure_t *cadre_resources_find_user(const cadre_resources_t *self,
                                           const cadre_resource_t *resource);

#endif
