/*
 * resources - which workers build and which have each resource, and crash attribution: which
 * resource a worker may have died of.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A resource is sent to every worker when it is created, and to every worker that joins; each
 * builds it for itself and says so in its heartbeats. A worker that is lost while it had resources
 * to build may have been killed by any of them, by a closure, or by something else: that is judged
 * as for closures (suspicion.h), and a suspect resource is tried alone on one worker, as a suspect
 * closure is. From then on only deaths in its trials count, so that a cause which kills many
 * workers at once is not blamed on a resource. When a resource is proved to kill its workers, the
 * closures that use it fail. Its suspicion is cleared as soon as any worker has built it.
 *
 * The core asks here for suspects and for resources that have failed, one after the other: the
 * worker of a trial is chosen by dispatch/trials, and the closures of a failed resource are ended
 * by the core.
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

/* The objects that this class reads and calls; borrowed for its life. Of members it writes the
 * resources that each was told to build, has built and tries; of resources whether they are suspect
 * or have failed. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_closure_queue_t *queue; /* knows which queued closures name a resource */
    /* Knows which closures that run again name a resource. */
    const cadre_replay_t *replay;
    /* Gives the sum of generations that a worker must know before it builds a resource. */
    const cadre_shard_recovery_t *recovery;
    cadre_effects_t *effects;
} cadre_resources_links_t;

typedef struct {
    cadre_resources_links_t links;
    uint32_t suspect; /* how many resources are suspect, so that they are built in trials only */
    uint32_t failed;  /* how many resources have failed for good */
} cadre_resources_t;

void cadre_resources_init(cadre_resources_t *self, const cadre_resources_links_t *links);

/* --- announcements --- */

/* Tells every worker which resources it is to build, those that it was not told of before. */
void cadre_resources_announce(cadre_resources_t *self);

/* Tells a worker that says HELLO which resources it is to build. */
void cadre_resources_brief(cadre_resources_t *self, cadre_member_t *worker);

/* Takes from a worker's HEARTBEAT which resources the worker was told to build, as it knows, and
 * which it has built. */
void cadre_resources_on_heartbeat(cadre_resources_t *self, cadre_member_t *worker,
                                  const cadre_heartbeat_message_t *heartbeat);

/* --- workers that fail or go --- */

/* Ends the trial on a worker that turns out to lack the function which builds the resource. */
void cadre_resources_on_lack(cadre_resources_t *self, cadre_member_t *worker);

/* Notes that a worker goes, and ends its trial. `died`: a resource that it had to build may have
 * killed it, so its death counts against each of them. */
void cadre_resources_on_lost(cadre_resources_t *self, cadre_member_t *worker, bool died);

/* Withdraws the blame for the death of this incarnation: it says HELLO, so it was only cut off. */
void cadre_resources_forgive(cadre_resources_t *self, uint64_t incarnation);

/* Forgets what a resource that was removed is blamed for, and ends its trial. */
void cadre_resources_on_removed(cadre_resources_t *self, cadre_resource_t *resource);

/* --- trials --- */

/* Returns the suspect resource that is tried after `last` (NULL: before all others), in order of
 * suspicion, the least suspect first: innocent resources are soon built and out of the way. NULL:
 * there are no more. */
cadre_resource_t *cadre_resources_next_suspect(const cadre_resources_t *self,
                                               const cadre_resource_t *last);

/* Ends the trial of a suspect resource if its worker does not reach a shard. Returns whether a
 * closure waits for the resource, so that it should be tried: no worker is put at risk for a
 * resource that no closure uses. */
bool cadre_resources_review_trial(cadre_resources_t *self, cadre_resource_t *resource);

/* Tells the worker that tries a suspect resource to build it, once that worker has ended its
 * closures. */
void cadre_resources_try(cadre_resources_t *self, cadre_resource_t *resource,
                         cadre_member_t *worker);

/* --- resources that kill their workers --- */

/* Returns the resource after `last` (NULL: the first) that has failed for good; NULL: there are no
 * more. */
const cadre_resource_t *cadre_resources_next_failed(const cadre_resources_t *self,
                                                    const cadre_resource_t *last);

/* Returns a closure that names the resource, queued or the next to run again; NULL: there is none.
 */
cadre_closure_t *cadre_resources_find_user(const cadre_resources_t *self,
                                           const cadre_resource_t *resource);

#endif
