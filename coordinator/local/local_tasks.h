/*
 * local_tasks - a ps and a worker as threads of the coordinator's process, for options.local.
 *
 * They are what cadre-ps and cadre-worker run below their mains, in the coordinator's ZeroMQ
 * context: sockets of inproc, which pass frames by reference. Nothing of them is of the process:
 * each coordinator has its own, and any number of coordinators may be open.
 *
 * Owner:   the coordinator.
 * Thread:  opened and closed on the caller's.
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

/* Starts both. `natives` is called first, NULL: there are none. CADRE_EIO; CADRE_ECONFIG where
 * `natives` fails, or the environment names no device (CADRE_DEVICE, CADRE_MATH); what
 * cadre_device_open_with says. */
int cadre_local_tasks_open(cadre_context_t *context, const cadre_endpoint_t *coordinator,
                           cadre_local_natives_t natives, cadre_local_tasks_t **out);

/* Ends both; the coordinator has told them to stop, or has never known them. CADRE_ETIMEOUT where a
 * closure runs on for longer than CADRE_LOCAL_STOP_MS, or a disk hangs: the threads are left what
 * they use, the context too. */
int cadre_local_tasks_close(cadre_local_tasks_t **self_p);

#endif
