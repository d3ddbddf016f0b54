/*
 * slot_actor - a thread that computes: takes runs from the work queue, one at a time.
 *
 * Owner:   main. Thread: opened and stopped on main's; its pipe belongs to the network actor in
 *          between.
 *
 * It may take as long as a closure takes. It never touches a socket but its pipe.
 */
#ifndef CADRE_WORKER_SLOT_SLOT_ACTOR_H
#define CADRE_WORKER_SLOT_SLOT_ACTOR_H

#include "common/net/context.h"
#include "worker/core/registry.h"
#include "worker/device/device.h"
#include "worker/slot/trace.h"
#include "worker/slot/work_queue.h"

typedef struct cadre_slot_actor cadre_slot_actor_t;

/* All borrowed for its life. */
typedef struct {
    cadre_work_queue_t *queue;
    cadre_device_t *device;
    const cadre_registry_t *registry;
    cadre_trace_lane_t *lane; /* NULL: no trace */
} cadre_slot_actor_options_t;

/* CADRE_EIO, or what the device says. */
int cadre_slot_actor_open(cadre_context_t *context, const cadre_slot_actor_options_t *options,
                          cadre_slot_actor_t **out);

/* The network actor's end of the pipe; messages as in slot_link.h. */
void *cadre_slot_actor_socket(cadre_slot_actor_t *self);

/* Ends the thread; the queue must have been closed, and nobody must answer for it any more.
 * CADRE_ETIMEOUT when a closure does not end: nothing is freed then. */
int cadre_slot_actor_close(cadre_slot_actor_t **self_p, int timeout_ms);

#endif
