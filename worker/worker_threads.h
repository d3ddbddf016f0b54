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
#include "common/net/shortcut.h"
#include "worker/core/registry.h"
#include "worker/device/device.h"
#include "worker/slot/trace.h"

typedef struct cadre_worker_threads cadre_worker_threads_t;

/* Options of the threads. What the pointers point at must outlive the threads. */
typedef struct {
    cadre_endpoint_t coordinator;
    uint32_t index;         /* of the worker, or CADRE_INDEX_ANY: the coordinator chooses */
    uint32_t slots;         /* threads that run closures */
    size_t row_cache_bytes; /* of rows of tables that are kept; 0: none are */
    cadre_device_t *device;
    const cadre_registry_t *registry;
    const char *data_dir; /* where relative paths of datasets begin; NULL: the current folder */
    bool confined;        /* files outside data_dir are refused */
    uint64_t away_ms;     /* the worker leaves when the coordinator is away so long; 0: never */
    uint64_t drain_ms;    /* how long closures that run may go on when the worker drains */
    uint64_t shard_ms;    /* until a silent ps counts as unreachable; 0: never */
    cadre_trace_t *trace; /* with a lane for each slot, or NULL */
    cadre_http_server_t *http; /* served by the network thread, or NULL */
    bool hosted; /* in a process of another program: its log and name are left alone */
    cadre_shortcut_t *shortcut; /* to a ps in this process, or NULL */
} cadre_worker_threads_options_t;

/* Starts all threads. Fails with CADRE_EIO, or with the status of the device; threads that were
 * started have ended then. */
int cadre_worker_threads_open(cadre_context_t *context,
                              const cadre_worker_threads_options_t *options,
                              cadre_worker_threads_t **out);

/* Returns the pipe of the network thread, whose messages are those of worker_actor.h. */
void *cadre_worker_threads_socket(cadre_worker_threads_t *self);

/* Ends the threads. CADRE_WORKER_ACTOR_GONE must have come before: then no slot holds a closure.
 * Fails with CADRE_ETIMEOUT when a thread does not end; what it uses is not freed then. */
int cadre_worker_threads_close(cadre_worker_threads_t **self_p);

/* Closes the trace `path` of a worker whose threads have ended, and logs when it is not complete.
 * Harmless on a pointer to NULL. */
void cadre_worker_threads_end_trace(cadre_trace_t **trace_p, const char *path);

#endif
