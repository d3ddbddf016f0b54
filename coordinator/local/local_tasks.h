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
#include "common/net/shortcut.h"

typedef struct cadre_local_tasks cadre_local_tasks_t;

/* The entry point of native functions, as a shared object exports it. */
typedef int (*cadre_local_natives_t)(cadre_registry_t *registry);

/* What the tasks are given; 0 and NULL are defaults. */
typedef struct {
    cadre_endpoint_t coordinator; /* where ps and worker reach it, inproc */
    const char *outside; /* its ipc address for other processes: the ps is then bound at the same
                            path with "-ps" behind it; NULL: nobody else reaches the tasks */
    cadre_shortcut_t *shortcut;    /* of the ps, to which the worker asks by it; borrowed */
    cadre_local_natives_t natives; /* NULL: there are no native functions */
    uint32_t slots;                /* of the worker; 0: CADRE_LOCAL_SLOTS */
    int threads;                   /* that a slot computes with; 0: its share of the CPUs */
    unsigned ps_lanes;             /* 0: half of the CPUs */
    const char *device;            /* NULL: CADRE_DEVICE, else "auto" */
    const char *data_dir;          /* NULL: CADRE_DATA_DIR, else the current folder */
    const char *trace;             /* file of the worker's trace; NULL: none is written */
} cadre_local_tasks_options_t;

/* Registers the native functions, then starts ps and worker. Fails with CADRE_EIO when a socket,
 * thread or trace cannot be had, with CADRE_ECONFIG when `natives` fails, device or CADRE_MATH
 * holds no valid value, or OpenBLAS gets no memory, with CADRE_ETOOLARGE when the path of `outside`
 * leaves no room for the ps's, and as cadre_device_open_with does. */
int cadre_local_tasks_open(cadre_context_t *context, const cadre_local_tasks_options_t *options,
                           cadre_local_tasks_t **out);

/* Ends ps and worker, which the coordinator must have told to stop unless they never joined. Fails
 * with CADRE_ETIMEOUT when a closure runs on for longer than CADRE_LOCAL_STOP_MS or a disk hangs:
 * the threads then go on, and what they use, the context included, must not be freed. */
int cadre_local_tasks_close(cadre_local_tasks_t **self_p);

#endif
