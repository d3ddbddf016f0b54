/*
 * backups - second attempts at closures that take much longer than usual, on workers that have
 * nothing else to do (backup tasks: Dean and Ghemawat, "MapReduce", 2004, section 3.6).
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure is slow when it has been in flight for more than one and a half times what is usual for
 * its function: the 95 % quantile of those that ended lately, or twice the median where that is
 * less, since one slow worker among few makes the quantile its own. While a slot of another worker
 * is idle, that worker gets a second attempt with the same id, and the first one goes on: whichever
 * reports first ends the closure, and the other one is cancelled. Exactly-once makes that safe. A
 * slow closure that only waits behind others on its worker is taken from it instead.
 *
 * A worker whose attempt was slow `lags` until it ends a closure in the usual time: it gets new
 * work only where no other worker has room.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_BACKUPS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_BACKUPS_H

#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/closures/durations.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/dispatch/dispatcher.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/replay.h"

/* The objects that backups read and change, borrowed for their life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_closure_queue_t *queue;
    const cadre_replay_t *replay;
    const cadre_dispatcher_t *dispatcher;
    cadre_attempts_t *attempts;
    cadre_effects_t *effects;
} cadre_backups_links_t;

/* Whether a worker lags is stored with the worker (cadre_member_t, `lags`). */
typedef struct {
    cadre_backups_links_t links;
    cadre_durations_t **durations; /* [functions], by function id - 1; NULL: no closure ended */
    size_t functions;
    uint64_t due_ms; /* when to look again for slow closures */
} cadre_backups_t;

void cadre_backups_init(cadre_backups_t *self, const cadre_backups_links_t *links);
void cadre_backups_fini(cadre_backups_t *self);

/* Notes that a closure has ended well on `worker`: how long its last attempt took, and that the
 * worker does not lag when that was not slow. */
void cadre_backups_note_done(cadre_backups_t *self, cadre_member_t *worker,
                             const cadre_closure_t *closure);

/* Begins second attempts at slow closures; called after all closures that can be were handed out.
 * Returns when to call again, in ms; UINT64_MAX while nothing is in flight. */
uint64_t cadre_backups_tick(cadre_backups_t *self);

#endif
