/*
 * control_link - a task's connection to its coordinator: connects until it succeeds, watches the
 * connection, and replaces it.
 *
 * Owner:   the actor that holds the core of a ps or worker.
 * Thread:  opened on the thread that starts the actor, used on the actor's, as a ZeroMQ socket.
 *
 * The session (common/session/session.h) decides when to replace the connection, and the owner
 * passes that on. The link knows whether there is a connection, and logs it. Messages that are sent
 * without a connection are dropped: those that matter are repeated, and HELLO comes first on a new
 * connection.
 */
#ifndef CADRE_COMMON_NET_CONTROL_LINK_H
#define CADRE_COMMON_NET_CONTROL_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/context.h"
#include "common/net/endpoint.h"
#include "common/wire/outbox.h"

typedef struct cadre_control_link cadre_control_link_t;

typedef struct {
    cadre_endpoint_t coordinator;
    cadre_task_t task;
    uint64_t away_ms; /* for the log: how long the owner waits for a coordinator that it has lost */
} cadre_control_link_options_t;

typedef enum {
    CADRE_LINK_SAME, /* nothing has happened to the connection */
    CADRE_LINK_UP,   /* there is a connection; this class has logged it */
    CADRE_LINK_DOWN, /* the connection broke, and is being re-established; the owner logs it */
} cadre_control_link_event_t;

/* Opens a link, which connects in the background. Fails with CADRE_EIO, CADRE_EINVALID,
 * CADRE_EREFUSED or CADRE_ECONFIG, as cadre_socket_open_dealer and cadre_socket_connect do. */
int cadre_control_link_open(cadre_context_t *context, const cadre_control_link_options_t *options,
                            cadre_control_link_t **out);

/* Closes the link. Messages that wait are dropped; those that were given to the socket get
 * CADRE_CLEAN_STOP_LINGER_MS to leave, if there is a connection. *self_p may be NULL. */
void cadre_control_link_close(cadre_control_link_t **self_p);

bool cadre_control_link_is_up(const cadre_control_link_t *self);

/* Returns the coordinator's address, as text. */
const char *cadre_control_link_address(const cadre_control_link_t *self);

/* Returns whether the key of the coordinator is still allowed. */
bool cadre_control_link_is_trusted(const cadre_control_link_t *self);

/* --- waiting --- */

/* Return the ZeroMQ sockets, for zmq_poll only: the one of messages, and its monitor. Ask
 * before each poll: a new connection has new sockets. */
void *cadre_control_link_handle(cadre_control_link_t *self);
void *cadre_control_link_monitor_handle(cadre_control_link_t *self);

/* Returns whether messages wait until the socket can take more. */
bool cadre_control_link_is_full(const cadre_control_link_t *self);

/* Runs the timers: connects again after a handshake that failed, and logs, ever more seldom, that
 * there is no coordinator. Returns when it must be called again at the latest. */
uint64_t cadre_control_link_tick(cadre_control_link_t *self, uint64_t now_ms);

/* --- messages --- */

/* Returns the next event of the connection. */
cadre_control_link_event_t cadre_control_link_watch(cadre_control_link_t *self, uint64_t now_ms);

/* Replaces the connection by another, on another socket: if no answer comes, the coordinator's
 * ROUTER may still hold this name for an older connection. Returns whether the new connection is
 * being made; otherwise the present one stays. */
bool cadre_control_link_redial(cadre_control_link_t *self, uint64_t now_ms);

/* Takes the next message, which the caller ends with cadre_message_fini. CADRE_EAGAIN when there is
 * none, CADRE_EMALFORMED and the like for a message that was dropped. */
int cadre_control_link_receive(cadre_control_link_t *self, cadre_message_t *message);

/* Sends the entry, which is taken; keeps it while the socket is full, as common/net/peer.h does;
 * drops it when there is no connection. */
void cadre_control_link_send(cadre_control_link_t *self, cadre_outbox_entry_t *entry);

/* Sends messages that wait, until the socket is full. */
void cadre_control_link_flush(cadre_control_link_t *self);

#endif
