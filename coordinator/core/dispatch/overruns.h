/*
 * overruns - closures that run for too long: one with a deadline gets a second attempt elsewhere,
 * and each is named.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure runs from when it is among the oldest of its worker, as many as that has slots; the
 * coordinator's own stalls do not count. Past its deadline another worker gets it, if there is one
 * that has not been too slow for it yet: exactly-once makes that safe, the first attempt is
 * cancelled cooperatively, and whichever reports first ends it. Without another worker it goes on
 * where it is, and the log says so. CADRE_OVERRUNS_MAX attempts that took too long end it with
 * CADRE_ETIMEOUT. A slot that does not stop counts as taken until a heartbeat does not name the
 * closure any more; a worker whose slots are all taken so is left nothing else.
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

/* What it reads and whom it notifies: all borrowed for its life. */
typedef struct {
    const cadre_membership_t *members;
    const cadre_leases_t *leases; /* how long the coordinator itself stood still */
    const cadre_catalogue_t *catalogue;
    const cadre_closure_queue_t *queue;
    const cadre_dispatcher_t *dispatcher;
    const cadre_closure_sender_t *sender;
    cadre_attempts_t *attempts;
    cadre_apart_t *apart;
    cadre_totals_t *totals; /* deadlines that were missed are counted there */
    cadre_effects_t *effects;
} cadre_overruns_links_t;

/* The closure that has run for longest. */
typedef struct {
    uint64_t closure; /* 0: none runs */
    const char *function;
    uint32_t worker;
    uint64_t ran_ms;
    uint32_t shard; /* that it waits for; UINT32_MAX: none is known */
    uint64_t waits_ms;
} cadre_longest_t;

/* What a worker was told to stop and still holds is kept with the member (`overdue`). */
typedef struct {
    cadre_overruns_links_t links;
    uint64_t due_ms;         /* when to look again at what runs */
    cadre_longest_t longest; /* when that was done last */
} cadre_overruns_t;

void cadre_overruns_init(cadre_overruns_t *self, const cadre_overruns_links_t *links);

/* Looks at what runs, if it is time to. */
void cadre_overruns_tick(cadre_overruns_t *self);

/* Counts a slot of `worker` as taken by a closure that runs on beyond its attempt, until the worker
 * reports it or says in a heartbeat that it does not hold it. */
void cadre_overruns_add_overdue(cadre_member_t *worker, uint64_t closure);

/* Notes that `worker` has reported a closure: no slot is taken by it any more. */
void cadre_overruns_on_report(cadre_member_t *worker, uint64_t closure);

/* Takes what a worker says it holds: slots that have stopped are free again. */
void cadre_overruns_on_held(cadre_member_t *worker, cadre_u64s_t held);

#endif
