/*
 * local_tasks - a ps and a worker as threads of the coordinator's process, for options.local.
 *
 * The threads run the code of cadre-ps and cadre-worker without its mains, in the ZeroMQ context of
 * the coordinator, over inproc sockets, which pass frames by reference. They use no global state:
 * each coordinator has tasks of its own, and any number of coordinators may be open.
 *
 * Owner:   the coordinator.
 * Thread:  opened and closed on the caller's thread.
 */
#ifndef CADRE_COORDINATOR_LOCAL_LOCAL_TASKS_H
#define CADRE_COORDINATOR_LOCAL_LOCAL_TASKS_H

#include <stdint.h>

#include <cadre/worker.h>

#include "common/net/context.h"
#include "common/net/endpoint.h"

typedef struct cadre_local_tasks cadre_local_tasks_t;

/* The entry point of native functions, as a shared object exports it. */
typedef int (*cadre_local_natives_t)(cadre_registry_t *registry);

/* Registers native functions by `natives` (NULL: there are none), then starts ps and worker. Fails
 * with CADRE_EIO when a socket or thread cannot be had, with CADRE_ECONFIG when `natives` fails or
 * CADRE_DEVICE or CADRE_MATH holds no valid value, and as cadre_device_open_with does. */
int cadre_local_tasks_open(cadre_context_t *context, const cadre_endpoint_t *coordinator,
                           cadre_local_natives_t natives, cadre_local_tasks_t **out);

/* Ends ps and worker, which the coordinator must have told to stop unless they never joined. Fails
 * with CADRE_ETIMEOUT when a closure runs on for longer than CADRE_LOCAL_STOP_MS or a disk hangs:
 * the threads then go on, and what they use, the context included, must not be freed. */
int cadre_local_tasks_close(cadre_local_tasks_t **self_p);

#endif
