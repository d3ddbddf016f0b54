/*
 * apart - closures that are handed out apart from all others, to workers chosen for them: suspects,
 * and closures that ran past their deadline.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * trials.h chooses the workers; this class only knows which closures these are, and which worker
 * tries a suspect.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_APART_H
#define CADRE_COORDINATOR_CORE_DISPATCH_APART_H

#include "common/base/u64_map.h"
#include "coordinator/core/closures/closure.h"
#include "coordinator/core/members/membership.h"

/* Which worker tries which suspect is kept with both (`trial` of a closure, `trial_closure` of a
 * member). */
typedef struct {
    const cadre_membership_t *members; /* borrowed */
    cadre_u64_map_t closures;          /* by id */
} cadre_apart_t;

void cadre_apart_init(cadre_apart_t *self, const cadre_membership_t *members);
void cadre_apart_fini(cadre_apart_t *self);

/* Adds a closure, unless it was added before. */
void cadre_apart_add(cadre_apart_t *self, cadre_closure_t *closure);

/* Reserves a worker for the closure, until the trial ends. */
void cadre_apart_begin_trial(cadre_closure_t *closure, cadre_member_t *worker);

/* Ends the closure's trial, if there is one: the worker is free for other closures. */
void cadre_apart_end_trial(cadre_apart_t *self, cadre_closure_t *closure);

/* Ends the trial of a closure that is not suspect any more, and lets it among the others again,
 * unless it is apart for running past its deadline as well. */
void cadre_apart_acquit(cadre_apart_t *self, cadre_closure_t *closure);

/* Takes out a closure that has ended, and forgets its deaths and overruns. */
void cadre_apart_forget(cadre_apart_t *self, cadre_closure_t *closure);

#endif
