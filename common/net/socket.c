#include "common/net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <zmq.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/authenticator.h"
#include "common/net/receiving.h"
#include "common/system/clock.h"
#include "common/system/descriptors.h"

struct cadre_socket {
    void *handle;
    cadre_context_t *context;
    cadre_plane_t plane;
    bool is_router;
    bool is_guarded;             /* guarded by keys */
    cadre_certificate_t trusted; /* guarded DEALER: the only key that the other end may have */
    cadre_peer_key_t key;        /* the key `trusted`, as received messages carry it */
    cadre_endpoint_t endpoint;   /* kind 0 until bound */
};

/* Socket options: name, value on the control plane, value on the data plane
 * (docs/protocol.md#socket-settings). Two values look wrong but are not: ZMTP heartbeats stay off,
 * as they abort libzmq 4.3.4 when a receive queue is full; ZMQ_IMMEDIATE stays off, as with it a
 * connection that breaks while a message is being queued leaks the frames queued so far, with their
 * chunks. */
#define OPTION_LIST(X)                                                                             \
    X(ZMQ_SNDHWM, CADRE_CONTROL_HWM, CADRE_DATA_HWM)                                               \
    X(ZMQ_RCVHWM, CADRE_CONTROL_HWM, CADRE_DATA_HWM)                                               \
    X(ZMQ_HEARTBEAT_IVL, 0, 0)                                                                     \
    X(ZMQ_TCP_KEEPALIVE, 1, 1)                                                                     \
    X(ZMQ_TCP_KEEPALIVE_IDLE, 5, 5)                                                                \
    X(ZMQ_TCP_KEEPALIVE_INTVL, 2, 2)                                                               \
    X(ZMQ_TCP_KEEPALIVE_CNT, 3, 3)                                                                 \
    X(ZMQ_TCP_MAXRT, 10000, 60000)                                                                 \
    X(ZMQ_HANDSHAKE_IVL, 5000, 5000)                                                               \
    X(ZMQ_CONNECT_TIMEOUT, 3000, 3000)                                                             \
    X(ZMQ_RECONNECT_IVL, 50, 50)                                                                   \
    X(ZMQ_RECONNECT_IVL_MAX, 2000, 2000)                                                           \
    X(ZMQ_IMMEDIATE, 0, 0)

/* --- life of a socket --- */

static bool
set_int(void *handle, int option, int value)
{
    return zmq_setsockopt(handle, option, &value, sizeof(value)) == 0;
}

/* Sets the options that all sockets of a plane (control or data) have; false on failure, with
 * errno. */
static bool
set_common(void *handle, cadre_plane_t plane)
{
    bool control = plane == CADRE_PLANE_CONTROL;
    int64_t frame_max = control ? CADRE_CONTROL_FRAME_MAX : CADRE_DATA_FRAME_MAX;
    bool ok = zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &frame_max, sizeof(frame_max)) == 0;
#define X(option, on_control, on_data)                                                             \
    ok = ok && set_int(handle, option, control ? on_control : on_data);
    OPTION_LIST(X)
#undef X
    return ok;
}

/* Opens a ROUTER or DEALER (`type`) for a plane, with the settings of that plane. */
static int
open_socket(cadre_context_t *context, int type, cadre_plane_t plane, cadre_socket_t **out)
{
    void *handle = zmq_socket(cadre_context_handle(context), type);
    if (!handle) {
        char text[CADRE_DESCRIPTORS_TEXT_SIZE];
        return cadre_fail(CADRE_EIO, "no socket can be opened: %s",
                          errno == EMFILE ? cadre_descriptors_text(text) : zmq_strerror(errno));
    }

    /* ROUTER_MANDATORY: a send to an unknown peer fails instead of vanishing. No ROUTER_HANDOVER: a
     * newcomer cannot take the routing id of a connection that lives. */
    bool ok = set_common(handle, plane);
    if (type == ZMQ_ROUTER) {
        ok = ok && set_int(handle, ZMQ_ROUTER_MANDATORY, 1);
        ok = ok && set_int(handle, ZMQ_ROUTER_HANDOVER, 0);
    }

    if (!ok) {
        int status = cadre_fail(CADRE_EIO, "a socket cannot be set up: %s", zmq_strerror(errno));
        zmq_close(handle);
        return status;
    }

    cadre_socket_t *self = cadre_calloc(1, sizeof(*self));
    self->handle = handle;
    self->context = context;
    self->plane = plane;
    self->is_router = type == ZMQ_ROUTER;
    *out = self;
    return 0;
}

int
cadre_socket_open_router(cadre_context_t *context, cadre_plane_t plane, cadre_socket_t **out)
{
    return open_socket(context, ZMQ_ROUTER, plane, out);
}

/* Opens a DEALER, which calls itself `routing_id` towards the ROUTER that it connects to. */
int
cadre_socket_open_dealer(cadre_context_t *context, cadre_plane_t plane, const char *routing_id,
                         cadre_socket_t **out)
{
    size_t size = strlen(routing_id);
    if (size == 0 || size > CADRE_ROUTING_ID_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "a routing id of %zu characters is not in 1..%d", size,
                          CADRE_ROUTING_ID_SIZE_MAX);
    }

    cadre_socket_t *self = NULL;
    int status = open_socket(context, ZMQ_DEALER, plane, &self);
    if (status < 0) {
        return status;
    }

    if (zmq_setsockopt(self->handle, ZMQ_ROUTING_ID, routing_id, size) < 0) {
        status = cadre_fail(CADRE_EIO, "a socket cannot be named '%s': %s", routing_id,
                            zmq_strerror(errno));
        cadre_socket_close(&self, 0);
        return status;
    }

    *out = self;
    return 0;
}

/* Closes the socket; queued messages get `linger_ms` to leave in the background, and
 * CADRE_LINGER_MIN_MS at least: without any, libzmq 4.3.4 may abort when a connection breaks just
 * then. */
void
cadre_socket_close(cadre_socket_t **self_p, int linger_ms)
{
    cadre_socket_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    int linger = cadre_max_int(linger_ms, CADRE_LINGER_MIN_MS);
    bool ok = set_int(self->handle, ZMQ_LINGER, linger) && zmq_close(self->handle) == 0;
    cadre_assert(ok);
    free(self);
}

/* --- keys --- */

/* libzmq's header defines this option among its drafts only; the library has had it since 4.3.0. */
#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93
#endif

/* Makes a ROUTER the server of CURVE. The ZAP handler (authenticator.c) decides who may connect to
 * it; without a handler that answers nobody may. */
static bool
guard_router(cadre_socket_t *self, cadre_keyring_t *keyring)
{
    const char *secret = cadre_keyring_own(keyring)->secret_key;
    const char *domain = cadre_zap_domain(self->plane);
    self->is_guarded = true;
    return set_int(self->handle, ZMQ_CURVE_SERVER, 1) &&
           zmq_setsockopt(self->handle, ZMQ_CURVE_SECRETKEY, secret, CADRE_KEY_TEXT_SIZE) == 0 &&
           zmq_setsockopt(self->handle, ZMQ_ZAP_DOMAIN, domain, strlen(domain)) == 0 &&
           set_int(self->handle, ZMQ_ZAP_ENFORCE_DOMAIN, 1);
}

/* Makes a DEALER a client of CURVE: with this process's own pair of keys, and the one key that the
 * server must have. */
static bool
guard_dealer(cadre_socket_t *self, const cadre_certificate_t *own)
{
    self->is_guarded = true;
    return zmq_setsockopt(self->handle, ZMQ_CURVE_SERVERKEY, self->trusted.public_key,
                          CADRE_KEY_TEXT_SIZE) == 0 &&
           zmq_setsockopt(self->handle, ZMQ_CURVE_PUBLICKEY, own->public_key,
                          CADRE_KEY_TEXT_SIZE) == 0 &&
           zmq_setsockopt(self->handle, ZMQ_CURVE_SECRETKEY, own->secret_key,
                          CADRE_KEY_TEXT_SIZE) == 0;
}

/* Guards a socket by the context's keys, if there are any and the address is tcp. Must come before
 * it is bound or connected. */
static int
guard(cadre_socket_t *self, const cadre_endpoint_t *endpoint)
{
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_keyring_t *keyring = cadre_context_keyring(self->context);
    if (!keyring && !cadre_endpoint_is_local(endpoint) &&
        !cadre_context_permits_plain(self->context)) {
        return cadre_fail(CADRE_EREFUSED,
                          "%s is beyond this machine, and without keys whoever reaches it takes "
                          "part or reads along: make some with `cadre keygen DIR` and give each "
                          "task --keys DIR, or stay on 127.0.0.1 or ipc://PATH",
                          cadre_endpoint_text(endpoint, text));
    }

    if (!keyring || endpoint->kind != CADRE_ENDPOINT_TCP) {
        return 0;
    }

    if (!self->is_router) {
        cadre_key_role_t role =
            self->plane == CADRE_PLANE_CONTROL ? CADRE_KEY_COORDINATOR : CADRE_KEY_PS;
        int status = cadre_keyring_server(keyring, role, self->trusted.public_key);
        if (status < 0) {
            return status;
        }
        self->trusted.role = role;
        self->key = cadre_peer_key_of(&self->trusted);
    }

    /* A ROUTER lets its ZAP handler judge each client; a DEALER trusts one server key only. */
    bool ok = self->is_router ? guard_router(self, keyring)
                              : guard_dealer(self, cadre_keyring_own(keyring));
    return ok ? 0
              : cadre_fail(CADRE_EIO, "%s cannot be guarded by keys: %s",
                           cadre_endpoint_text(endpoint, text), zmq_strerror(errno));
}

bool
cadre_socket_trusted(const cadre_socket_t *self)
{
    cadre_certificate_t found;
    return !self->is_guarded || self->is_router ||
           cadre_keyring_find(cadre_context_keyring(self->context), self->trusted.public_key,
                              &found);
}

/* --- addresses --- */

/* Refuses an ipc path at which there is a file that is no socket: ZeroMQ would delete it. */
static int
check_bind(const cadre_endpoint_t *endpoint)
{
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_endpoint_text(endpoint, text);
    struct stat about = {0};
    if (endpoint->kind == CADRE_ENDPOINT_IPC && lstat(endpoint->path, &about) == 0 &&
        !S_ISSOCK(about.st_mode)) {
        return cadre_fail(CADRE_EIO, "%s cannot be bound: the file exists and is no socket", text);
    }
    return 0;
}

/* Switches IPv6 on for a literal IPv6 address only: with it, names would be looked up as IPv6
 * first. Must come before zmq_bind or zmq_connect. */
static bool
set_address_family(cadre_socket_t *self, const cadre_endpoint_t *endpoint)
{
    return set_int(self->handle, ZMQ_IPV6, strchr(endpoint->host, ':') != NULL);
}

/* Binds to an address of this machine. The file of an ipc socket is made under the umask, which
 * belongs to the whole process and must not be changed here. */
static int
bind_to(cadre_socket_t *self, const cadre_endpoint_t *endpoint)
{
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_endpoint_text(endpoint, text);
    if (!set_address_family(self, endpoint) || zmq_bind(self->handle, text) < 0) {
        return cadre_fail(CADRE_EIO, "%s cannot be bound: %s", text, zmq_strerror(errno));
    }
    if (endpoint->kind == CADRE_ENDPOINT_IPC && chmod(endpoint->path, S_IRUSR | S_IWUSR) < 0) {
        return cadre_fail(CADRE_EIO, "%s cannot be made private: %s", text, strerror(errno));
    }
    return 0;
}

/* Binds the socket, and finds out the port that it got. A host name is bound as all interfaces: it
 * is often a Service's, and no address of this machine; "localhost" is 127.0.0.1. */
int
cadre_socket_bind(cadre_socket_t *self, const cadre_endpoint_t *endpoint)
{
    cadre_assert(self->endpoint.kind == 0);
    int status = guard(self, endpoint);
    if (status < 0) {
        return status;
    }

    status = check_bind(endpoint);
    if (status < 0) {
        return status;
    }

    bool named = cadre_endpoint_is_name(endpoint);
    cadre_endpoint_t wanted = *endpoint;
    if (named) {
        snprintf(wanted.host, sizeof(wanted.host), "%s",
                 cadre_endpoint_is_local(endpoint) ? "127.0.0.1" : "*");
    }

    status = bind_to(self, &wanted);
    if (status < 0) {
        return status;
    }

    char text[CADRE_ENDPOINT_TEXT_SIZE];
    size_t size = sizeof(text);
    int rc = zmq_getsockopt(self->handle, ZMQ_LAST_ENDPOINT, text, &size);
    cadre_assert(rc == 0);
    status = cadre_endpoint_parse(text, &self->endpoint);
    cadre_assert(status == 0);
    if (named) { /* peers learn the name */
        memcpy(self->endpoint.host, endpoint->host, sizeof(self->endpoint.host));
    }
    if (self->is_guarded) {
        cadre_keyring_bound(cadre_context_keyring(self->context), self->endpoint.port);
    }

    return 0;
}

int
cadre_socket_bind_also(cadre_socket_t *self, const cadre_endpoint_t *endpoint)
{
    cadre_assert(self->endpoint.kind == CADRE_ENDPOINT_INPROC &&
                 endpoint->kind == CADRE_ENDPOINT_IPC);
    int status = check_bind(endpoint);
    return status < 0 ? status : bind_to(self, endpoint);
}

/* Begins to connect in the background, under CURVE where the context has keys and the address is
 * tcp. */
int
cadre_socket_connect(cadre_socket_t *self, const cadre_endpoint_t *endpoint)
{
    char text[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_endpoint_text(endpoint, text);
    if (!cadre_endpoint_is_concrete(endpoint)) {
        return cadre_fail(CADRE_EINVALID, "nobody can connect to %s: it names no host and port",
                          text);
    }

    int status = guard(self, endpoint);
    if (status < 0) {
        return status;
    }
    if (!set_address_family(self, endpoint) || zmq_connect(self->handle, text) < 0) {
        return cadre_fail(CADRE_EIO, "connecting to %s: %s", text, zmq_strerror(errno));
    }

    return 0;
}

const cadre_endpoint_t *
cadre_socket_endpoint(const cadre_socket_t *self)
{
    return &self->endpoint;
}

void *
cadre_socket_handle(cadre_socket_t *self)
{
    return self->handle;
}

/* --- sending --- */

/* A frame whose bytes are counted in `sending` until they have left. */
typedef struct {
    cadre_chunk_t *chunk;
    cadre_sending_t *sending;
} counted_t;

/* Called by libzmq, on an I/O thread, when a frame's bytes have left: counts them out and drops the
 * reference to the chunk. */
static void
end_counted(void *bytes, void *hint)
{
    (void)bytes;
    counted_t *counted = hint;
    cadre_sending_end(counted->sending, cadre_chunk_size_bytes(counted->chunk));
    cadre_chunk_unref(&counted->chunk);
    free(counted);
}

/* Called by libzmq, on an I/O thread, when a frame's bytes have left: drops the reference to the
 * chunk. */
static void
drop_reference(void *bytes, void *hint)
{
    (void)bytes;
    cadre_chunk_t *chunk = hint;
    cadre_chunk_unref(&chunk);
}

/* Makes a frame with a copy of the bytes. */
static void
frame_from_bytes(zmq_msg_t *frame, const void *bytes, size_t size_bytes)
{
    int rc = zmq_msg_init_size(frame, size_bytes);
    cadre_assert(rc == 0); /* fails on out of memory only */
    if (size_bytes > 0) {
        memcpy(zmq_msg_data(frame), bytes, size_bytes);
    }
}

/* Makes a frame of a chunk: a small one is copied, a large one is sent as it lies in memory, and
 * referenced until it has left. `sending` counts the bytes on their way; NULL: nobody counts. */
static void
frame_from_chunk(zmq_msg_t *frame, cadre_chunk_t *chunk, cadre_sending_t *sending)
{
    size_t size_bytes = cadre_chunk_size_bytes(chunk);
    if (size_bytes <= CADRE_FRAME_COPY_MAX) {
        frame_from_bytes(frame, cadre_chunk_data(chunk), size_bytes);
        return;
    }

    if (sending) {
        counted_t *counted = cadre_calloc(1, sizeof(*counted));
        *counted = (counted_t){cadre_chunk_ref(chunk), sending};
        cadre_sending_add(sending, size_bytes);
        int rc =
            zmq_msg_init_data(frame, cadre_chunk_data(chunk), size_bytes, end_counted, counted);
        cadre_assert(rc == 0); /* fails on out of memory only */
        return;
    }

    int rc = zmq_msg_init_data(frame, cadre_chunk_data(chunk), size_bytes, drop_reference,
                               cadre_chunk_ref(chunk));
    cadre_assert(rc == 0); /* fails on out of memory only */
}

/* Sends a frame, which is freed in any case. Returns 0 or errno. */
static int
send_frame(cadre_socket_t *self, zmq_msg_t *frame, bool more)
{
    int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
    int rc = 0;
    do {
        rc = zmq_msg_send(frame, self->handle, flags);
    } while (rc < 0 && errno == EINTR);

    if (rc >= 0) {
        return 0;
    }

    int error = errno;
    zmq_msg_close(frame);
    return error;
}

/* Returns the status for an errno with which libzmq refused the first frame of a message; it has
 * then kept nothing of it. */
static int
refused(const cadre_routing_id_t *to, int error)
{
    char text[CADRE_ROUTING_ID_TEXT_SIZE];
    switch (error) {
    case EAGAIN:
        return CADRE_EAGAIN;
    case EHOSTUNREACH:
        return cadre_fail(CADRE_EUNAVAILABLE, "no peer is called %s",
                          cadre_routing_id_text(to, text));
    case ETERM:
        return cadre_fail(CADRE_ECLOSED, "the context is closed");
    default:
        return cadre_fail(CADRE_EUNAVAILABLE, "sending: %s", zmq_strerror(error));
    }
}

int
cadre_socket_send(cadre_socket_t *self, const cadre_routing_id_t *to, cadre_chunk_t *header,
                  cadre_chunk_t *const *chunks, size_t count)
{
    return cadre_socket_send_counted(self, to, header, chunks, count, NULL);
}

/* Queues one message, header and chunks, all or nothing; never blocks. `to` is the peer of a
 * ROUTER, NULL on a DEALER. */
int
cadre_socket_send_counted(cadre_socket_t *self, const cadre_routing_id_t *to, cadre_chunk_t *header,
                          cadre_chunk_t *const *chunks, size_t count, cadre_sending_t *sending)
{
    cadre_assert(self->is_router == (to != NULL));
    cadre_assert(count <= CADRE_MESSAGE_CHUNKS_MAX);
    zmq_msg_t frame;
    if (to) {
        frame_from_bytes(&frame, to->bytes, to->size);
        int error = send_frame(self, &frame, true);
        if (error) {
            return refused(to, error);
        }
    }

    frame_from_chunk(&frame, header, NULL);
    int error = send_frame(self, &frame, count > 0);
    if (error && !to) { /* on a ROUTER the routing id was the first frame, and was taken */
        return refused(to, error);
    }

    /* The queue counts whole messages, so with the first frame it has room for all. A later one
     * fails only when the connection has gone meanwhile; libzmq then swallows frames up to the end
     * of the message, so they must still be given to it, or the next message would lose its head.
     */
    for (size_t i = 0; i < count; i++) {
        frame_from_chunk(&frame, chunks[i], sending);
        int later = send_frame(self, &frame, i + 1 < count);
        error = error ? error : later;
    }

    if (error) {
        return cadre_fail(CADRE_EUNAVAILABLE,
                          "the connection broke while a message was being queued");
    }

    return 0;
}

/* --- receiving --- */

static void
close_frame(void *owner)
{
    zmq_msg_t *frame = owner;
    zmq_msg_close(frame);
    free(frame);
}

/* Returns the frame's bytes as a chunk; leaves `frame` empty. A frame that ZeroMQ decoded in place
 * may be misaligned in its receive buffer, and would keep the whole buffer alive: it is copied. */
static cadre_chunk_t *
chunk_from_frame(zmq_msg_t *frame)
{
    size_t size_bytes = zmq_msg_size(frame);
    void *bytes = zmq_msg_data(frame);
    if (size_bytes <= CADRE_FRAME_COPY_MAX || (uintptr_t)bytes % 8 != 0) {
        return cadre_chunk_new_copy(bytes, size_bytes);
    }

    zmq_msg_t *kept = cadre_calloc(1, sizeof(*kept));
    zmq_msg_init(kept);
    int rc = zmq_msg_move(kept, frame);
    cadre_assert(rc == 0);
    return cadre_chunk_new_foreign(bytes, size_bytes, close_frame, kept);
}

static void
add_chunk(cadre_frames_t *frames, cadre_chunk_t *chunk)
{
    frames->chunks =
        cadre_grow(frames->chunks, frames->count, &frames->capacity, sizeof(*frames->chunks));
    frames->chunks[frames->count++] = chunk;
}

/* Drops all references of a received message; keeps the array for the next one. */
static void
clear(cadre_frames_t *frames)
{
    cadre_chunk_unref(&frames->header);
    for (size_t i = 0; i < frames->count; i++) {
        cadre_chunk_unref(&frames->chunks[i]);
    }
    frames->count = 0;
}

/* Reads the key that the peer has shown, which libzmq attaches to each frame. It is read from the
 * header's frame: libzmq 4.3.4 has lost it for the first frame when the socket was polled before.
 */
static int
take_key(cadre_frames_t *frames, zmq_msg_t *frame)
{
    const char *user = zmq_msg_gets(frame, "User-Id");
    return user ? cadre_peer_key_parse(user, &frames->key)
                : cadre_fail(CADRE_EMALFORMED, "a message under no key");
}

/* Takes a received frame: at `index` 0 the routing id, at 1 the header, then chunks.
 * CADRE_EMALFORMED when it is larger than it may be, or one chunk too many. */
static int
take_frame(cadre_frames_t *frames, size_t index, zmq_msg_t *frame)
{
    size_t size_bytes = zmq_msg_size(frame);
    if (index == 0) {
        if (cadre_routing_id_set(&frames->from, zmq_msg_data(frame), size_bytes) < 0) {
            return cadre_fail_within(CADRE_EMALFORMED, "message");
        }
    } else if (index == 1) {
        if (size_bytes == 0 || size_bytes > CADRE_LARGE_HEADER_SIZE_MAX) {
            return cadre_fail(CADRE_EMALFORMED, "message: a header of %zu bytes is not in 1..%d",
                              size_bytes, CADRE_LARGE_HEADER_SIZE_MAX);
        }
        frames->header = chunk_from_frame(frame);
    } else {
        if (frames->count == CADRE_MESSAGE_CHUNKS_MAX) {
            return cadre_fail(CADRE_EMALFORMED, "message: more than %d chunks",
                              CADRE_MESSAGE_CHUNKS_MAX);
        }
        if (size_bytes > CADRE_CHUNK_SIZE_MAX) {
            return cadre_fail(CADRE_EMALFORMED, "message: chunk %zu has %zu bytes, over %d",
                              frames->count, size_bytes, CADRE_CHUNK_SIZE_MAX);
        }
        add_chunk(frames, chunk_from_frame(frame));
    }

    return 0;
}

/* Receives one frame; never blocks: CADRE_EAGAIN when there is none. */
static int
receive_frame(cadre_socket_t *self, zmq_msg_t *frame)
{
    int rc = 0;
    do {
        rc = zmq_msg_recv(frame, self->handle, ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);
    if (rc >= 0) {
        return 0;
    }
    return errno == EAGAIN ? CADRE_EAGAIN : cadre_fail(CADRE_ECLOSED, "the context is closed");
}

/* The memory that a message of a guarded ROUTER has cost, good or bad: receiving.h compares it with
 * what its connection has brought. */
typedef struct {
    int descriptor; /* descriptor of the connection that it came by; negative: not known */
    uint64_t cost;
} taken_t;

/* Adds a frame to the cost of its message; the header's frame also tells the connection. */
static void
count_frame(taken_t *taken, size_t index, zmq_msg_t *frame)
{
    if (index == 0) {
        return; /* the routing id is libzmq's own */
    }
    if (index == 1) {
        taken->descriptor = zmq_msg_get(frame, ZMQ_SRCFD);
    }
    taken->cost += cadre_receiving_cost(zmq_msg_size(frame));
}

/* Takes one message off the queue; never blocks. A malformed message is received to its end and
 * dropped. On a guarded ROUTER, what is taken is recorded (receiving.h), to find connections that
 * bring endless messages. */
int
cadre_socket_receive(cadre_socket_t *self, cadre_frames_t *frames)
{
    bool is_counted = self->is_router && self->is_guarded;
    taken_t taken = {.descriptor = -1};

    clear(frames);
    frames->from.size = 0;
    frames->key = self->key; /* of a DEALER; a guarded ROUTER reads it from each message */
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    int status = receive_frame(self, &frame);
    if (status < 0) {
        zmq_msg_close(&frame);
        if (is_counted && status == CADRE_EAGAIN) {
            cadre_receiving_drained(cadre_clock_now_ms());
        }
        return status;
    }

    /* libzmq hands over whole messages only: the later frames are there already. */
    size_t index = self->is_router ? 0 : 1;
    bool more = true;
    while (more) {
        more = zmq_msg_more(&frame);
        if (is_counted) {
            count_frame(&taken, index, &frame);
        }
        if (status == 0 && is_counted && index == 1) {
            status = take_key(frames, &frame);
        }
        if (status == 0) {
            status = take_frame(frames, index, &frame);
        }

        index++;
        if (more && receive_frame(self, &frame) < 0) {
            status = cadre_fail(CADRE_ECLOSED, "the context is closed");
            more = false;
        }
    }

    zmq_msg_close(&frame);
    if (is_counted) {
        cadre_receiving_taken(taken.descriptor, frames->from.bytes, frames->from.size, taken.cost);
    }
    if (status == 0 && index < 2) {
        status = cadre_fail(CADRE_EMALFORMED, "message: no header");
    }
    if (status < 0) {
        clear(frames);
    }

    return status;
}

void
cadre_frames_fini(cadre_frames_t *self)
{
    clear(self);
    free(self->chunks);
    *self = (cadre_frames_t){0};
}
