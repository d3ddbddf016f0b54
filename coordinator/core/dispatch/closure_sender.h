/*
 * closure_sender - sends workers the messages CLOSURE and CANCEL.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * Arguments that are results of other closures travel with the closure if the worker does not have
 * them, as far as the coordinator knows. A worker that lacks one all the same hands the closure
 * back, and gets it again with all of them.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_CLOSURE_SENDER_H
#define CADRE_COORDINATOR_CORE_DISPATCH_CLOSURE_SENDER_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/closures/closure.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/recovery.h"

/* The objects from which it takes the fields of a CLOSURE message that the closure does not hold;
 * borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_shard_recovery_t *recovery; /* the generations of the shards */
    const cadre_checkpoint_t *checkpoint;   /* whether the closure comes after an open cut */
    cadre_effects_t *effects;
} cadre_closure_sender_links_t;

typedef struct {
    cadre_closure_sender_links_t links;
} cadre_closure_sender_t;

void cadre_closure_sender_init(cadre_closure_sender_t *self,
                               const cadre_closure_sender_links_t *links);

/* Sends a closure in flight to `worker`, which it was handed to; for the first time or again. */
void cadre_closure_sender_send(const cadre_closure_sender_t *self, const cadre_member_t *worker,
                               cadre_closure_t *closure);

/* Tells the worker to stop the closures with these ids. */
void cadre_closure_sender_cancel(const cadre_closure_sender_t *self, const cadre_member_t *worker,
                                 const uint64_t *ids, size_t count);

/* Notes that a worker (its incarnation) lacks an argument that was not sent with the closure: next
 * time all are sent. */
void cadre_closure_sender_note_lacked(cadre_closure_t *closure, uint64_t worker);

#endif
