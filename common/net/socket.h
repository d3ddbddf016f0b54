/*
 * socket - every ZeroMQ socket of Cadre, with the settings of docs/protocol.md#socket-settings.
 *
 * Owner:   one actor.
 * Thread:  opened and bound on the caller's thread, then handed to its actor's thread when that
 *          starts, where it stays.
 *
 * libzmq is used directly: CZMQ's zsock_new asserts when a socket cannot be made, and its global
 * context and signal handlers have no place in a library inside somebody else's program. Nothing
 * here blocks, prints, or keeps state outside its objects.
 *
 * A message is: [routing id (ROUTER only)] header chunk*. A message that was sent with success is
 * only queued; it may still be lost with the connection. A sender that must know whether it arrived
 * asks the receiver (docs/protocol.md#retransmission).
 */
#ifndef CADRE_COMMON_NET_SOCKET_H
#define CADRE_COMMON_NET_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/keys/peer_key.h"
#include "common/net/context.h"
#include "common/net/endpoint.h"
#include "common/tensor/chunk.h"
#include "common/wire/plane.h"
#include "common/wire/routing_id.h"
#include "common/wire/sending.h"

enum {
    /* Bytes of a frame that is copied when it is sent. Up to this size a copy costs no more than a
     * reference to the chunk (measured), and frees the chunk at once. */
    CADRE_FRAME_COPY_MAX = 512,

    /* Messages queued per peer and direction; sending one more fails with CADRE_EAGAIN. Twice
     * CADRE_CREDIT_MAX, because libzmq tells the sender only now and then, after half of this
     * number, what the receiver has read. */
    CADRE_CONTROL_HWM = 1024,

    CADRE_DATA_HWM = 65536,            /* CADRE_IN_FLIGHT_SIZE_MAX in messages of 1 KiB */
    CADRE_CONTROL_FRAME_MAX = 1 << 20, /* bytes; a longer frame closes the connection */
    CADRE_DATA_FRAME_MAX = (1 << 20) + (64 << 10),
    CADRE_LINGER_MIN_MS = 2000,        /* see cadre_socket_close */
    CADRE_CLEAN_STOP_LINGER_MS = 2000, /* linger time of a control socket after STOP or GOODBYE */
};

typedef struct cadre_socket cadre_socket_t;

/* A received message. Zero it before the first receive; a further receive reuses it; fini ends it.
 * Chunks may be taken out of it: take the reference and null the entry (cadre_message_decode does).
 * The bytes of each frame are aligned to 8 at least; large frames keep ZeroMQ's own memory, small
 * and badly aligned ones are copied. */
typedef struct {
    cadre_routing_id_t from; /* ROUTER: the peer; DEALER: size 0 */
    cadre_peer_key_t key;    /* the key that the peer has shown */
    cadre_chunk_t *header;
    cadre_chunk_t **chunks;
    size_t count;
    size_t capacity;
} cadre_frames_t;

/* --- life of a socket --- */

/* Opens a ROUTER with ROUTER_MANDATORY on and HANDOVER off. CADRE_EIO when the system has no socket
 * left. */
int cadre_socket_open_router(cadre_context_t *context, cadre_plane_t plane, cadre_socket_t **out);

/* Opens a DEALER that calls itself `routing_id`, a text of 1 to CADRE_ROUTING_ID_SIZE_MAX
 * characters. CADRE_EINVALID for a bad id, CADRE_EIO when the system has no socket left. A
 * connection that arrives while the ROUTER still holds an older one under the same id is half-open
 * for good: nothing is answered, but its sends succeed (measured). So each process start has a new
 * id, and a task that gets no answer closes its DEALER and opens another one. */
int cadre_socket_open_dealer(cadre_context_t *context, cadre_plane_t plane, const char *routing_id,
                             cadre_socket_t **out);

/* Closes the socket at once; queued messages get `linger_ms` to leave in the background, during
 * which cadre_context_close waits: CADRE_CLEAN_STOP_LINGER_MS on a control socket after a clean
 * stop, else 0. A shorter time is raised to CADRE_LINGER_MIN_MS: without any, libzmq 4.3.4 aborts
 * the process when the connection breaks just then with a message half sent (measured: two of three
 * processes that closed both ends of twenty busy connections). *self_p may be NULL. */
void cadre_socket_close(cadre_socket_t **self_p, int linger_ms);

/* Binds, once. Port "*" takes a free one; "localhost" means 127.0.0.1; any other host *name* binds
 * all interfaces, as TensorFlow's servers do, because the name in a cluster description is often a
 * Service's and no local address. Over tcp it is guarded by the keys of its context, if there are
 * any (common/net/authenticator.h answers who wants to connect). CADRE_EREFUSED when it would be
 * reachable from other machines without keys (see cadre_context_permit_plain), CADRE_EIO with
 * endpoint and reason when the system refuses, or when an ipc path names a file that is no socket
 * (ZeroMQ would delete it). */
int cadre_socket_bind(cadre_socket_t *self, const cadre_endpoint_t *endpoint);

/* Binds a socket that is bound to inproc at an ipc address too, for other processes. Its endpoint
 * stays the first. Fails as cadre_socket_bind. */
int cadre_socket_bind_also(cadre_socket_t *self, const cadre_endpoint_t *endpoint);

/* Starts connecting in the background and keeps trying (50 ms up to 2 s between tries). Over tcp it
 * speaks to a holder of an allowed key only, where its context has keys: the coordinator's on the
 * control plane, a ps's on the data plane. CADRE_EINVALID for an endpoint without host or port,
 * CADRE_EREFUSED for another machine without keys, CADRE_ECONFIG when no such key is allowed,
 * CADRE_EIO with endpoint and reason. */
int cadre_socket_connect(cadre_socket_t *self, const cadre_endpoint_t *endpoint);

/* Returns the endpoint that a bound socket has got, with the port filled in, and the host as it was
 * given if that was a name; valid as long as the socket. Before a bind its kind is 0. */
const cadre_endpoint_t *cadre_socket_endpoint(const cadre_socket_t *self);

/* Returns whether the key that a connected socket trusts is still allowed; true for a socket
 * without keys. The owner closes a socket whose key is not. */
bool cadre_socket_trusted(const cadre_socket_t *self);

/* Returns the ZeroMQ socket, for zmq_poll only. */
void *cadre_socket_handle(cadre_socket_t *self);

/* --- messages --- */

/* Queues one message: header, then `count` chunks. Never blocks. Takes its own references (small
 * frames are copied, larger ones go out without copying, and the reference is dropped on the I/O
 * thread when the bytes have left): a chunk must not be changed while it is not alone. `to` names
 * the peer on a ROUTER and is NULL on a DEALER.
 * All or nothing: CADRE_EAGAIN (without a text) when the queue to the peer is full;
 * CADRE_EUNAVAILABLE when a ROUTER knows no such peer, or the connection broke meanwhile;
 * CADRE_ECLOSED when the context is being closed. Nothing of it will arrive in any of these cases.
 * A DEALER queues while it is not connected, and what is queued survives a reconnect. A ROUTER
 * answers CADRE_EAGAIN for a dead peer whose queue was full until its owner has received everything
 * that peer had sent: receive first, then probe. */
int cadre_socket_send(cadre_socket_t *self, const cadre_routing_id_t *to, cadre_chunk_t *header,
                      cadre_chunk_t *const *chunks, size_t count);

/* Sends as cadre_socket_send does, and counts the frames that are not copied in `sending` (may be
 * NULL). */
int cadre_socket_send_counted(cadre_socket_t *self, const cadre_routing_id_t *to,
                              cadre_chunk_t *header, cadre_chunk_t *const *chunks, size_t count,
                              cadre_sending_t *sending);

/* Takes one message off the queue into `frames`, dropping what that held before. Never blocks.
 * CADRE_EAGAIN when there is none. CADRE_EMALFORMED when it has no header or, on a guarded socket,
 * no key, a header over CADRE_LARGE_HEADER_SIZE_MAX, a chunk over CADRE_CHUNK_SIZE_MAX, over
 * CADRE_MESSAGE_CHUNKS_MAX chunks, or a routing id over its size: the whole message has been taken
 * and dropped, and `frames` holds nothing but `from` (where that fits). CADRE_ECLOSED when the
 * context is being closed. CADRE_EAGAIN comes without a text. */
int cadre_socket_receive(cadre_socket_t *self, cadre_frames_t *frames);

/* Drops all references and the array; zeroes the struct. Harmless on a zeroed one. */
void cadre_frames_fini(cadre_frames_t *self);

#endif
