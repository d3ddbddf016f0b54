/*
 * client - the object behind the handle of <cadre/client.h>, and its thread.
 *
 * Owner:   the caller of cadre_client_open.
 * Thread:  calls take the gate's lock, as those of a coordinator do; the socket belongs to the
 *          thread cadre-client.
 */
#ifndef CADRE_COORDINATOR_CLIENT_CLIENT_H
#define CADRE_COORDINATOR_CLIENT_CLIENT_H

#include <cadre/client.h>

#include "common/net/actor.h"
#include "common/net/monitor.h"
#include "common/net/socket.h"
#include "coordinator/client/attachment.h"
#include "coordinator/gate.h"

struct cadre_client {
    cadre_gate_t *gate;
    cadre_context_t *context;
    cadre_endpoint_t coordinator;
    cadre_actor_t *actor;
    /* Of the thread, once that runs. */
    cadre_socket_t *socket;
    cadre_monitor_t *monitor;
    cadre_attachment_t attachment; /* under the lock */
    bool is_reading;               /* under the lock: a call reads a variable, others wait */
};

/* Opens the client's socket and its monitor, and begins to connect. */
int cadre_client_connect(cadre_client_t *self);

/* The client's thread: sends and receives until it is stopped, then says GOODBYE. */
void cadre_client_run(void *pipe, void *client);

#endif
