/*
 * trials - closures, and builds of resources, that may have killed their workers are tried alone.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A suspect (closures/suspicion.h) gets a worker for itself. The worker first ends what it has, and
 * takes nothing else for CADRE_ALONE_MS after the suspect has begun; after that it gets other
 * closures beside it, since the suspect may only be slow, or hang. Preferred is a worker in whose
 * place nobody died of the suspect yet, on another host if possible; then one that has been there
 * for long, so that processes which come and die by themselves are not taken for victims; then an
 * idle one. Several suspects are tried on several workers at once. The trial ends with the attempt.
 *
 * A closure that ran past its deadline on another worker is handed out here, too: to the least busy
 * worker on which it has not overrun.
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

/* The objects that it reads and calls; borrowed for its life. */
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

/* Hands out the closures that are set apart (apart.h), to workers chosen for them. */
void cadre_trials_tick(cadre_trials_t *self);

/* Returns the worker that tries to build a suspect resource. If there is none and the resource is
 * `wanted`, chooses one. NULL when none is free for it. */
cadre_member_t *cadre_trials_resource(const cadre_trials_t *self, cadre_resource_t *resource,
                                      bool wanted);

#endif
