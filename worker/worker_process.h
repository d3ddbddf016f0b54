/*
 * worker_process - one session of a worker: its threads, from start to end.
 *
 * Owner:   main. Thread: main's.
 */
#ifndef CADRE_WORKER_WORKER_PROCESS_H
#define CADRE_WORKER_WORKER_PROCESS_H

#include "common/http/http_server.h"
#include "worker/device/device.h"
#include "worker/slot/native.h"
#include "worker/slot/trace.h"
#include "worker/worker_flags.h"

/* Where a worker tells about itself: opened once per process, used by each of its sessions. */
typedef struct {
    cadre_trace_t *trace;      /* with a lane for each slot; NULL: no trace is written */
    cadre_http_server_t *http; /* of one actor, the network thread; NULL: no HTTP */
} cadre_worker_outputs_t;

/* Checks keys and connection without serving: reads the worker's keys, if any, and finds out
 * whether it may dial the coordinator. Fails as cadre_security_apply and cadre_socket_connect. */
int cadre_worker_process_check(const cadre_worker_flags_t *flags);

/* Starts slots, reader and network thread, and waits until the session has ended. `signals` can be
 * read without blocking and gives a byte, the signal's number, for each SIGTERM and SIGINT: the
 * first signal drains the worker, the second ends the process. Returns the exit status, or -1 when
 * the coordinator has ended the session and flags->wait asks for another one. */
int cadre_worker_process_serve(const cadre_worker_flags_t *flags, cadre_device_t *device,
                               const cadre_registry_t *registry,
                               const cadre_worker_outputs_t *outputs, int signals);

#endif
