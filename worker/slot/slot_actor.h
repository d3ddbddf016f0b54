/*
 * slot_actor - a thread that computes: takes runs from the work queue, one at a time.
 *
 * Owner:   main. Thread: opened and stopped on main's; its pipe belongs to the network actor in
 *          between.
 *
 * One turn takes as long as a closure takes. The thread uses no socket but its pipe.
 */
#ifndef CADRE_WORKER_SLOT_SLOT_ACTOR_H
#define CADRE_WORKER_SLOT_SLOT_ACTOR_H

#include "common/net/context.h"
#include "worker/core/registry.h"
#include "worker/device/device.h"
#include "worker/slot/trace.h"
#include "worker/slot/work_queue.h"

typedef struct cadre_slot_actor cadre_slot_actor_t;

/* What a slot works with; all borrowed for the actor's life. */
typedef struct {
    cadre_work_queue_t *queue;
    cadre_device_t *device;
    const cadre_registry_t *registry;
    cadre_trace_lane_t *lane; /* NULL: no trace */
    bool looks;               /* for works, before it sleeps (common/system/look.h) */
} cadre_slot_actor_options_t;

/* Opens a slot of the device and starts the thread. Fails with CADRE_EIO when the system has no
 * thread or socket left, or with the device's status. */
int cadre_slot_actor_open(cadre_context_t *context, const cadre_slot_actor_options_t *options,
                          cadre_slot_actor_t **out);

/* Returns the network actor's end of the pipe; its messages are those of slot_link.h. */
void *cadre_slot_actor_socket(cadre_slot_actor_t *self);

/* Ends the thread, whose queue must have been closed before. Fails with CADRE_ETIMEOUT, and frees
 * nothing, when a closure does not end in `timeout_ms`. */
int cadre_slot_actor_close(cadre_slot_actor_t **self_p, int timeout_ms);

#endif
