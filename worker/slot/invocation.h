/*
 * invocation - runs the closures of native functions on one slot; implements <cadre/worker.h>.
 *
 * Owner:   one slot actor. Thread: the slot's; a native function must not use its invocation from
 *          another thread.
 */
#ifndef CADRE_WORKER_SLOT_INVOCATION_H
#define CADRE_WORKER_SLOT_INVOCATION_H

#include "worker/core/registry.h"
#include "worker/device/device.h"
#include "worker/slot/slot_link.h"

/* The state that native functions keep on one slot, one for each function. Zeroed: none. */
typedef struct {
    struct cadre_slot_state *first;
} cadre_slot_states_t;

/* Destroys the states that native functions have kept on this slot; called on the slot's thread. */
void cadre_slot_states_fini(cadre_slot_states_t *self);

/* Runs the link's work, whose function is native and in the registry, and puts the outcome into the
 * work. `slot` is the device slot that the function may compute on, `states` what functions have
 * kept on this slot. */
void cadre_invocation_run(cadre_slot_link_t *link, const cadre_registry_t *registry,
                          cadre_slot_t *slot, cadre_slot_states_t *states);

#endif
