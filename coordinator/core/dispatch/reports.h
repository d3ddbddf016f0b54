/*
 * reports - what workers say of their closures: which have ended, have failed, or are still held by
 * the worker.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * The first attempt to report ends a closure, whichever it is - unless the attempt began before a
 * shard was restored (closure->stale): what it pushed may be lost, so the closure runs again.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_REPORTS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_REPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/staleness_histogram.h"
#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/dispatch/apart.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/dispatch/backups.h"
#include "coordinator/core/dispatch/closure_sender.h"
#include "coordinator/core/dispatch/dispatcher.h"
#include "coordinator/core/dispatch/reach.h"
#include "coordinator/core/dispatch/steps.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/recovery.h"

/* The objects that it reads and calls; borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_catalogue_t *catalogue;
    const cadre_shard_recovery_t *recovery;
    cadre_apart_t *apart;
    cadre_attempts_t *attempts;
    cadre_backups_t *backups;
    cadre_dispatcher_t *dispatcher;
    cadre_reach_t *reach;
    cadre_steps_t *steps;
    const cadre_closure_sender_t *sender;
    cadre_totals_t *totals; /* counters of the job: refused reports are counted here */
    cadre_effects_t *effects;
} cadre_reports_links_t;

/* Numbers about a worker's reports are kept with the member (`ended`, `refused`, `took_us`,
 * `rest_until_ms`). */
typedef struct {
    cadre_reports_links_t links;
    cadre_staleness_histogram_t staleness; /* of closures whose updates were applied */
} cadre_reports_t;

void cadre_reports_init(cadre_reports_t *self, const cadre_reports_links_t *links);

/* Takes the report that an attempt has ended well, with its results. */
void cadre_reports_on_done(cadre_reports_t *self, cadre_member_t *worker,
                           const cadre_message_t *message);

/* Takes the report that an attempt failed. Returns the id of the function that the worker turns out
 * to lack; 0: none. */
uint32_t cadre_reports_on_failed(cadre_reports_t *self, cadre_member_t *worker,
                                 const cadre_closure_failed_message_t *failed);

/* Compares the closures that a worker says it holds with those that it should have, and sends it
 * again those that it does not hold. `all` (the list comes with a HELLO): sends also those that
 * were sent a moment ago, and cancels on the worker closures that have ended or run elsewhere. */
void cadre_reports_on_held(cadre_reports_t *self, cadre_member_t *worker, cadre_u64s_t held,
                           bool all);

#endif
