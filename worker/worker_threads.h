/*
 * worker_threads - the threads of one session of a worker: network, reader and slots.
 *
 * Owner:   who runs the worker: main of cadre-worker, or a coordinator that hosts one in its own
 *          process.
 * Thread:  its owner's.
 */
#ifndef CADRE_WORKER_WORKER_THREADS_H
#define CADRE_WORKER_WORKER_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/http/http_server.h"
#include "common/net/context.h"
#include "common/net/endpoint.h"
#include "worker/core/registry.h"
#include "worker/device/device.h"
#include "worker/slot/trace.h"

typedef struct cadre_worker_threads cadre_worker_threads_t;

/* What it points at outlives the threads. */
typedef struct {
    cadre_endpoint_t coordinator;
    uint32_t index; /* or CADRE_INDEX_ANY */
    uint32_t slots;
    cadre_device_t *device;
    const cadre_registry_t *registry;
    const char *data_dir; /* where relative paths of datasets begin; NULL: the current folder */
    bool confined;        /* nothing outside of it is read */
    uint64_t away_ms;     /* leaves when the coordinator is away so long; 0: never */
    uint64_t drain_ms;    /* for what runs when it drains */
    uint64_t shard_ms;    /* until a silent ps counts as unreachable; 0: never */
    cadre_trace_t *trace; /* with a lane for each slot, or NULL */
    cadre_http_server_t *http; /* of the network thread, its one actor, or NULL */
    bool hosted;               /* by a process that has a log of its own, whose name stays */
} cadre_worker_threads_options_t;

/* Starts all of them. CADRE_EIO, or what the device says; what was started has ended then. */
int cadre_worker_threads_open(cadre_context_t *context,
                              const cadre_worker_threads_options_t *options,
                              cadre_worker_threads_t **out);

/* Returns the pipe of the network thread, whose messages are those of worker_actor.h. */
void *cadre_worker_threads_socket(cadre_worker_threads_t *self);

/* Ends them, once CADRE_WORKER_ACTOR_GONE has come: no slot holds a closure any more.
 * CADRE_ETIMEOUT when one does not end: what it uses is left to it. */
int cadre_worker_threads_close(cadre_worker_threads_t **self_p);

#endif
