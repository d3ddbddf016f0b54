/*
 * socket - every ZeroMQ socket of Cadre, with the settings of protocol.md section 9.
 *
 * Owner:   one actor. The context belongs to the process object (coordinator, ps, worker) and
 *          outlives its sockets.
 * Thread:  the context any; a socket is opened and bound on the caller's thread, then handed to its
 *          actor's thread when that starts, and stays there.
 *
 * libzmq is used directly: CZMQ's zsock_new asserts when a socket cannot be made, and its global
 * context and signal handlers have no place in a library inside somebody else's program. Nothing
 * here blocks, prints, or keeps state outside its two objects.
 *
 * A message is: [routing id (ROUTER only)] header chunk*. A send that succeeded is only queued; it
 * may still be lost with the connection. Whoever must know asks again (protocol.md, section 5).
 */
#ifndef CADRE_COMMON_SOCKET_H
#define CADRE_COMMON_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/chunk.h"
#include "common/endpoint.h"
#include "common/plane.h"

enum {
    CADRE_ROUTING_ID_SIZE_MAX = 64,    /* bytes; a peer with a longer one is malformed */
    CADRE_CONTROL_HWM = 256,           /* messages per peer and direction; then CADRE_EAGAIN */
    CADRE_DATA_HWM = 65536,            /* CADRE_IN_FLIGHT_SIZE_MAX in messages of 1 KiB */
    CADRE_CONTROL_FRAME_MAX = 1 << 20, /* bytes; a longer frame closes the connection */
    CADRE_DATA_FRAME_MAX = (1 << 20) + (64 << 10),
    CADRE_CLEAN_STOP_LINGER_MS = 2000, /* control only, after STOP or GOODBYE */
};

typedef struct cadre_context cadre_context_t;
typedef struct cadre_socket cadre_socket_t;
typedef struct cadre_monitor cadre_monitor_t;

/* Who a message is for or from, as a ROUTER knows its peers. Bytes of a peer's choosing: print them
 * with cadre_routing_id_text. */
typedef struct {
    uint8_t size; /* 0: none */
    uint8_t bytes[CADRE_ROUTING_ID_SIZE_MAX];
} cadre_routing_id_t;

enum { CADRE_ROUTING_ID_TEXT_SIZE = 2 * CADRE_ROUTING_ID_SIZE_MAX + 3 };

/* A received message. Zero it before the first receive; a further receive reuses it; fini ends it.
 * Chunks may be taken out of it: take the reference and null the entry (cadre_message_decode does).
 * Payload bytes are aligned to 8 at least, and may be shared with nobody: each chunk's only
 * reference is the one here. */
typedef struct {
    cadre_routing_id_t from; /* ROUTER: the peer; DEALER: size 0 */
    cadre_chunk_t *header;
    cadre_chunk_t **chunks;
    size_t count;
    size_t capacity;
} cadre_frames_t;

/* --- context --- */

/* A ZeroMQ context with two I/O threads (host names are resolved in them). No signal handlers, no
 * global state; not usable in a child after fork. CADRE_EIO when the system refuses it. */
int cadre_context_open(cadre_context_t **out);

/* Waits for the lingering messages of closed sockets (at most their linger time) and ends the I/O
 * threads. Every socket and monitor must have been closed: an open one would make it wait forever.
 */
void cadre_context_close(cadre_context_t **self_p);

/* --- life of a socket --- */

/* A ROUTER: ROUTER_MANDATORY on, HANDOVER off. CADRE_EIO when the system has no socket left. */
int cadre_socket_open_router(cadre_context_t *context, cadre_plane_t plane, cadre_socket_t **out);

/* A DEALER that calls itself `routing_id` (text, 1 to CADRE_ROUTING_ID_SIZE_MAX characters; a new
 * one per process start, or the ROUTER ignores it while the old connection drains). Messages go
 * only to a completed connection (IMMEDIATE). CADRE_EINVALID for a bad id, CADRE_EIO. */
int cadre_socket_open_dealer(cadre_context_t *context, cadre_plane_t plane, const char *routing_id,
                             cadre_socket_t **out);

/* Closes at once, waiting up to `linger_ms` in the background (until cadre_context_close) for
 * queued messages to leave: 0, or CADRE_CLEAN_STOP_LINGER_MS on a control socket after a clean
 * stop. NULL inside is fine. */
void cadre_socket_close(cadre_socket_t **self_p, int linger_ms);

/* Permits binding to addresses other machines can reach without CURVE: anyone who reaches the port
 * may then take part. Off at the start. */
void cadre_socket_allow_plain(cadre_socket_t *self, bool allowed);

/* Binds, once. Port "*" takes a free one; "localhost" means 127.0.0.1; any other host *name* binds
 * all interfaces, as TensorFlow's servers do, because the name in a cluster description is often a
 * Service's and no local address. CADRE_EREFUSED when it would be reachable from other machines
 * without CURVE (see cadre_socket_allow_plain), CADRE_EIO with endpoint and reason when the system
 * refuses. */
int cadre_socket_bind(cadre_socket_t *self, const cadre_endpoint_t *endpoint);

/* Starts connecting in the background and keeps trying (50 ms up to 2 s between tries);
 * CADRE_EINVALID for an endpoint without host or port, CADRE_EIO with endpoint and reason. */
int cadre_socket_connect(cadre_socket_t *self, const cadre_endpoint_t *endpoint);

/* Gives up a connection made with cadre_socket_connect; what was queued for it is dropped. */
int cadre_socket_disconnect(cadre_socket_t *self, const cadre_endpoint_t *endpoint);

/* What a bound socket really got, with the port filled in, and the host as it was given when that
 * was a name; valid as long as the socket. Before a bind its kind is 0. */
const cadre_endpoint_t *cadre_socket_endpoint(const cadre_socket_t *self);

/* The ZeroMQ socket, for zmq_poll only. */
void *cadre_socket_handle(cadre_socket_t *self);

/* --- messages --- */

/* Queues one message: header, then `count` chunks. Never blocks. Takes its own references (small
 * frames are copied, larger ones go out without copying, and the reference is dropped on the I/O
 * thread when the bytes have left): a chunk must not be changed while it is not alone. `to` names
 * the peer on a ROUTER and is NULL on a DEALER.
 * All or nothing: CADRE_EAGAIN when the queue to the peer is full, or a DEALER has no completed
 * connection; CADRE_EUNAVAILABLE when a ROUTER knows no such peer, or the connection broke while
 * the message was being queued. Nothing of it will arrive in either case. */
int cadre_socket_send(cadre_socket_t *self, const cadre_routing_id_t *to, cadre_chunk_t *header,
                      cadre_chunk_t *const *chunks, size_t count);

/* Takes one message off the queue into `frames`, dropping what that held before. Never blocks.
 * CADRE_EAGAIN when there is none. CADRE_EMALFORMED when it has no header, a header over
 * CADRE_LARGE_HEADER_SIZE_MAX, a chunk over CADRE_CHUNK_SIZE_MAX, over CADRE_MESSAGE_CHUNKS_MAX
 * chunks, or a routing id over its size: the whole message has been taken and dropped, and `frames`
 * holds nothing but `from` (where that fits). CADRE_EIO for a failure of the socket itself. */
int cadre_socket_receive(cadre_socket_t *self, cadre_frames_t *frames);

/* Drops all references and the array; zeroes the struct. Harmless on a zeroed one. */
void cadre_frames_fini(cadre_frames_t *self);

/* --- routing ids --- */

/* From bytes; CADRE_EINVALID when there are none or too many. */
int cadre_routing_id_set(cadre_routing_id_t *self, const void *bytes, size_t size_bytes);

bool cadre_routing_id_equal(const cadre_routing_id_t *left, const cadre_routing_id_t *right);

/* The id as text when all of it is printable ASCII, else "0x" and hex, into `text` of
 * CADRE_ROUTING_ID_TEXT_SIZE bytes; returns `text`. */
const char *cadre_routing_id_text(const cadre_routing_id_t *self, char *text);

/* --- events --- */

typedef enum {
    CADRE_EVENT_OTHER = 0, /* nothing to do */
    CADRE_EVENT_CONNECTED, /* a connection exists; the handshake follows */
    CADRE_EVENT_ACCEPTED,
    CADRE_EVENT_READY, /* handshake done: messages can flow */
    CADRE_EVENT_HANDSHAKE_FAILED,
    CADRE_EVENT_DISCONNECTED, /* an established or half-made connection ended */
    CADRE_EVENT_RETRYING,     /* the next try comes in `value` ms */
    CADRE_EVENT_STOPPED,      /* the socket was closed; no event follows */
} cadre_event_kind_t;

typedef struct {
    cadre_event_kind_t kind;
    uint32_t value;                          /* ZeroMQ's: a descriptor, errno or delay */
    char endpoint[CADRE_ENDPOINT_TEXT_SIZE]; /* which of the socket's own endpoints */
} cadre_event_t;

/* Reports the socket's connection events from now on: open it before bind or connect, on the
 * socket's thread, at most one per socket. The events do not say which peer: after a DISCONNECTED a
 * ROUTER's owner probes its peers by sending, and CADRE_EUNAVAILABLE names the one that is gone.
 * The reader must keep up: past some ten thousand unread events ZeroMQ's I/O thread waits. */
int cadre_monitor_open(cadre_context_t *context, cadre_socket_t *socket, cadre_monitor_t **out);

/* Close it before its socket. NULL inside is fine. */
void cadre_monitor_close(cadre_monitor_t **self_p);

/* The ZeroMQ socket, for zmq_poll only. */
void *cadre_monitor_handle(cadre_monitor_t *self);

/* The next event. Never blocks: CADRE_EAGAIN when there is none. */
int cadre_monitor_receive(cadre_monitor_t *self, cadre_event_t *event);

#endif
