/*
 * acks - acknowledges the reports of workers.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A worker keeps each report until it is acknowledged, and repeats a report that is not
 * acknowledged by the time an ACK answers a later HEARTBEAT. So most acknowledgements can wait, and
 * travel together, or with the closures of the next synchronous step.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_ACKS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_ACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"

/* The reports that wait to be acknowledged are kept with each member (`acks`, `ack_...`). */
typedef struct {
    const cadre_membership_t *members; /* borrowed, like the next one */
    cadre_effects_t *effects;
} cadre_acks_t;

void cadre_acks_init(cadre_acks_t *self, const cadre_membership_t *members,
                     cadre_effects_t *effects);

/* Notes a report of the worker that is to be acknowledged; the ACK may wait for others. */
void cadre_acks_add(cadre_member_t *worker, uint64_t id, uint64_t attempt);

/* Notes that the worker is to be sent an ACK in this turn, even an empty one. */
void cadre_acks_hurry(cadre_member_t *worker);

/* Notes a HEARTBEAT with this request number: the ACK of this turn answers it, so that the worker
 * knows that it is heard. */
void cadre_acks_note_heartbeat(cadre_member_t *worker, uint64_t request);

/* Acknowledges all that the worker has reported. */
void cadre_acks_send(const cadre_acks_t *self, cadre_member_t *worker);

/* Whose reports are acknowledged at the end of a turn. */
typedef enum {
    CADRE_ACKS_DUE, /* of every worker that should not wait: it has nothing left to run */
    /* The same in the middle of a synchronous step: there will be more to run. */
    CADRE_ACKS_IN_STEP,
    CADRE_ACKS_ALL,
} cadre_acks_whose_t;

/* Acknowledges reports. Called at the end of a turn. */
void cadre_acks_tick(const cadre_acks_t *self, cadre_acks_whose_t whose);

#endif
