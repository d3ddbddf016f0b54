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

/* What a worker says of itself while it serves; of the process, so of each of its sessions. */
typedef struct {
    cadre_trace_t *trace;      /* with a lane for each slot, or NULL */
    cadre_http_server_t *http; /* of the network thread, its one actor, or NULL */
} cadre_worker_outputs_t;

/* Whether it could start as far as keys and its connection go: reads its keys, if any, and finds
 * out whether it may dial the coordinator. Errors as cadre_security_apply and cadre_socket_connect.
 */
int cadre_worker_process_check(const cadre_worker_flags_t *flags);

/* Starts slots, reader and network, and waits until the session has ended. `signals` can be
 * read without blocking and gives a byte, the number, for each SIGTERM and SIGINT: the first one
 * drains, the second ends the process. Returns the exit status, or -1 when the coordinator ended
 * the session and flags->wait asks for another one. */
int cadre_worker_process_serve(const cadre_worker_flags_t *flags, cadre_device_t *device,
                               const cadre_registry_t *registry,
                               const cadre_worker_outputs_t *outputs, int signals);

#endif
