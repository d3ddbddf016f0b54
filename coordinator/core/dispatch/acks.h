/*
 * acks - acknowledging what workers report.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A worker keeps each report until it is acknowledged, and repeats what is not acknowledged by the
 * ACK that answers a later HEARTBEAT. So most acknowledgements can wait, and travel together.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_ACKS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_ACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"

/* What waits to be acknowledged is kept with each member (`acks`, `ack_...`). */
typedef struct {
    const cadre_membership_t *members; /* borrowed, like the next one */
    cadre_effects_t *effects;
} cadre_acks_t;

void cadre_acks_init(cadre_acks_t *self, const cadre_membership_t *members,
                     cadre_effects_t *effects);

/* Notes a report of the worker that is to be acknowledged, sooner or later. */
void cadre_acks_add(cadre_member_t *worker, uint64_t id, uint64_t attempt);

/* Notes that the worker is to have an ACK this turn, be it an empty one. */
void cadre_acks_hurry(cadre_member_t *worker);

/* Notes a HEARTBEAT with this number: an ACK of this turn answers it, so that the worker knows that
 * it is heard. */
void cadre_acks_note_heartbeat(cadre_member_t *worker, uint64_t request);

/* Acknowledges all that the worker has reported. */
void cadre_acks_send(const cadre_acks_t *self, cadre_member_t *worker);

/* Does so for every worker that should not wait, or for `all`. Called at the end of a turn. */
void cadre_acks_tick(const cadre_acks_t *self, bool all);

#endif
