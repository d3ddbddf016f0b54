/*
 * peer - one outgoing connection, with the messages that wait until it can take more.
 *
 * Owner:   the actor that connected. Thread: its owner's.
 *
 * A full socket (CADRE_EAGAIN) holds up its own messages only. How many wait is bounded: beyond
 * CADRE_PEER_WAITING_MAX the newest message is dropped, which is harmless because cores repeat
 * every message until it is answered.
 */
#ifndef CADRE_COMMON_NET_PEER_H
#define CADRE_COMMON_NET_PEER_H

#include "common/net/socket.h"
#include "common/wire/outbox.h"

enum { CADRE_PEER_WAITING_MAX = 16384 };

/* Zeroed memory is a closed peer. */
typedef struct {
    cadre_socket_t *socket; /* NULL: closed */
    /* The task at the other end; messages for another incarnation are dropped. */
    cadre_task_t task;
    char *address;
    cadre_outbox_t waiting;
} cadre_peer_t;

/* Initialises a peer with a socket, which is taken and is connected to `address` (copied). */
void cadre_peer_init(cadre_peer_t *self, cadre_socket_t *socket, const cadre_task_t *task,
                     const char *address);

/* Closes the socket and drops the messages that wait. Does nothing on a closed peer. */
void cadre_peer_close(cadre_peer_t *self, int linger_ms);

/* Sends the entry, which is taken, or keeps it until cadre_peer_flush. */
void cadre_peer_send(cadre_peer_t *self, cadre_outbox_entry_t *entry);

/* Returns whether messages wait, so that the socket is to be polled for room. */
bool cadre_peer_is_full(const cadre_peer_t *self);

/* Sends messages that wait, until the socket is full. */
void cadre_peer_flush(cadre_peer_t *self);

void cadre_peer_drop_waiting(cadre_peer_t *self);

#endif
