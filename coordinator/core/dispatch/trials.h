/*
 * trials - what may have killed its workers is tried alone: closures and builds of resources alike.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A suspect (closures/suspicion.h) gets a worker for itself, which ends first what it has and takes
 * nothing else for CADRE_ALONE_MS; after that it does other things beside, since the suspect may
 * only be slow, or hang. Chosen is where nobody died of it yet, on another host if possible; then
 * who has been there for long, so that processes which come and die are not taken for victims; then
 * who is idle. Several suspects are tried on several workers at once. Whatever ends it, ends the
 * trial.
 *
 * What ran past its deadline elsewhere is handed out here, too: to who is least busy of those that
 * were not too slow for it.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_TRIALS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_TRIALS_H

#include <stdbool.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/dispatch/apart.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/dispatch/dispatcher.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"

/* What it reads and whom it notifies: all borrowed for its life. */
typedef struct {
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_dispatcher_t *dispatcher;
    cadre_attempts_t *attempts;
    cadre_apart_t *apart;
    const cadre_effects_t *effects; /* the time of the turn */
} cadre_trials_links_t;

typedef struct {
    cadre_trials_links_t links;
} cadre_trials_t;

void cadre_trials_init(cadre_trials_t *self, const cadre_trials_links_t *links);

/* Hands out the closures that are apart, to workers chosen for them. */
void cadre_trials_tick(cadre_trials_t *self);

/* Returns the worker that a suspect resource is on trial on, or is from now on if it is `wanted`;
 * NULL: none is free for it. */
cadre_member_t *cadre_trials_resource(const cadre_trials_t *self, cadre_resource_t *resource,
                                      bool wanted);

#endif
