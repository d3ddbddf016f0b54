/*
 * invocation - runs the closures of native functions on one slot; what is behind <cadre/worker.h>.
 *
 * Owner:   one slot actor. Thread: the slot's; a native function must not use its invocation from
 *          another thread.
 */
#ifndef CADRE_WORKER_SLOT_INVOCATION_H
#define CADRE_WORKER_SLOT_INVOCATION_H

#include "worker/core/registry.h"
#include "worker/device/device.h"
#include "worker/slot/slot_link.h"

/* What native functions keep on one slot. Zeroed: nothing. */
typedef struct {
    struct cadre_slot_state *first;
} cadre_slot_states_t;

/* Ends it all, on the slot's thread. */
void cadre_slot_states_fini(cadre_slot_states_t *self);

/* Runs the link's work, whose function is native, and puts the outcome into it. CADRE_ENOTFOUND,
 * with what there is, when this worker has no function of that name. `slot` is where it may
 * compute, `states` what was kept there. */
void cadre_invocation_run(cadre_slot_link_t *link, const cadre_registry_t *registry,
                          cadre_slot_t *slot, cadre_slot_states_t *states);

#endif
