/*
 * overruns - closures that run for too long: with a deadline they get another attempt on another
 * worker, and all are named in the log.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure counts as running once it is among the oldest of its worker, as many as the worker has
 * slots; the coordinator's own stalls do not count. Past its deadline another worker gets it, if
 * there is one on which it has not overrun yet: exactly-once makes that safe, the first attempt is
 * cancelled cooperatively, and whichever attempt reports first ends the closure. Without another
 * worker it goes on where it is, until one joins or the deadline has passed again, and the log says
 * so. CADRE_OVERRUNS_MAX deadlines that have passed, wherever it ran, end it with CADRE_ETIMEOUT. A
 * slot that does not stop the closure counts as taken (`overdue`) until the worker's heartbeats do
 * not name the closure any more; from a worker whose slots are all taken in this way all other
 * closures are taken back.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_OVERRUNS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_OVERRUNS_H

#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/dispatch/apart.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/dispatch/closure_sender.h"
#include "coordinator/core/dispatch/dispatcher.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/leases.h"
#include "coordinator/core/members/membership.h"

/* The objects that it reads and calls; borrowed for its life. */
typedef struct {
    const cadre_membership_t *members;
    const cadre_leases_t *leases; /* says how long the coordinator itself stood still */
    const cadre_catalogue_t *catalogue;
    const cadre_closure_queue_t *queue;
    const cadre_dispatcher_t *dispatcher;
    const cadre_closure_sender_t *sender;
    cadre_attempts_t *attempts;
    cadre_apart_t *apart;
    cadre_totals_t *totals; /* counters of the job: missed deadlines are counted here */
    cadre_effects_t *effects;
} cadre_overruns_links_t;

/* The closure that has run for longest. */
typedef struct {
    uint64_t closure; /* 0: none runs */
    const char *function;
    uint32_t worker;
    uint64_t ran_ms;
    uint32_t shard; /* the shard that it waits for; UINT32_MAX: none is known */
    uint64_t waits_ms;
} cadre_longest_t;

/* The closures that a worker was told to stop and still holds are kept with the member
 * (`overdue`). */
typedef struct {
    cadre_overruns_links_t links;
    uint64_t due_ms;         /* when to look again at the closures that run */
    cadre_longest_t longest; /* the closure that had run for longest at the last look */
} cadre_overruns_t;

void cadre_overruns_init(cadre_overruns_t *self, const cadre_overruns_links_t *links);

/* Looks for closures that run for too long, if it is time to. */
void cadre_overruns_tick(cadre_overruns_t *self);

/* Counts a slot of `worker` as taken by a closure that runs on beyond its attempt, until the worker
 * reports it or says in a heartbeat that it does not hold it. */
void cadre_overruns_add_overdue(cadre_member_t *worker, uint64_t closure);

/* Notes that `worker` has reported a closure: no slot is taken by it any more. */
void cadre_overruns_on_report(cadre_member_t *worker, uint64_t closure);

/* Takes the list of closures that a worker says it holds: slots whose overdue closure is not among
 * them are free again. */
void cadre_overruns_on_held(cadre_member_t *worker, cadre_u64s_t held);

#endif
