/*
 * peer - one connection that was dialled, with what waits until it can take more.
 *
 * Owner:   the actor that dialled. Thread: its owner's.
 *
 * A full socket (CADRE_EAGAIN) holds up its own messages only. What waits is bounded: beyond
 * CADRE_PEER_WAITING_MAX the newest message is dropped, which is harmless because cores say
 * everything again until it is answered.
 */
#ifndef CADRE_COMMON_NET_PEER_H
#define CADRE_COMMON_NET_PEER_H

#include "common/net/socket.h"
#include "common/wire/outbox.h"

enum { CADRE_PEER_WAITING_MAX = 16384 };

/* Zeroed memory is a closed peer. */
typedef struct {
    cadre_socket_t *socket; /* NULL: closed */
    cadre_task_t task;      /* who is there; messages for another incarnation are dropped */
    char *address;
    cadre_outbox_t waiting;
} cadre_peer_t;

/* Takes the socket, which is connected to `address` (copied). */
void cadre_peer_init(cadre_peer_t *self, cadre_socket_t *socket, const cadre_task_t *task,
                     const char *address);

/* Closes the socket and drops what waits. Harmless on a closed one. */
void cadre_peer_close(cadre_peer_t *self, int linger_ms);

/* Sends the entry, or keeps it until cadre_peer_flush; takes it. */
void cadre_peer_send(cadre_peer_t *self, cadre_outbox_entry_t *entry);

/* Whether messages wait: the socket is to be polled for room. */
bool cadre_peer_is_full(const cadre_peer_t *self);

/* Sends what waits, as far as the socket takes it. */
void cadre_peer_flush(cadre_peer_t *self);

void cadre_peer_drop_waiting(cadre_peer_t *self);

#endif
