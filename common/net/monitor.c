#include "common/net/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    EVENTS_UNREAD_MAX = 10000,
    ZAP_REFUSED = 400, /* ZeroMQ RFC 27 */
};

struct cadre_monitor {
    void *pair;
    cadre_socket_t *socket;
};

/* Writes the inproc name of a socket's monitor. It is unique: a socket has one monitor, and sockets
 * that are alive have different addresses in memory. */
static void
name_of(const cadre_socket_t *socket, char *name, size_t size)
{
    snprintf(name, size, "inproc://cadre-monitor-%p", (const void *)socket);
}

/* The kind of each of libzmq's events that we know. */
static const struct {
    int event;
    cadre_event_kind_t kind;
} known_events[] = {
    {ZMQ_EVENT_CONNECTED, CADRE_EVENT_CONNECTED},
    {ZMQ_EVENT_ACCEPTED, CADRE_EVENT_ACCEPTED},
    {ZMQ_EVENT_ACCEPT_FAILED, CADRE_EVENT_NOT_ACCEPTED},
    {ZMQ_EVENT_HANDSHAKE_SUCCEEDED, CADRE_EVENT_READY},
    {ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL, CADRE_EVENT_HANDSHAKE_FAILED},
    {ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL, CADRE_EVENT_HANDSHAKE_FAILED},
    {ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, CADRE_EVENT_HANDSHAKE_FAILED},
    {ZMQ_EVENT_DISCONNECTED, CADRE_EVENT_DISCONNECTED},
    {ZMQ_EVENT_CONNECT_RETRIED, CADRE_EVENT_RETRYING},
    {ZMQ_EVENT_MONITOR_STOPPED, CADRE_EVENT_STOPPED},
};

/* Returns libzmq's events of a set of kinds, in which bit 1 << kind stands for a kind. */
static int
events_of(unsigned kinds)
{
    int events = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(known_events); i++) {
        events |= kinds & 1U << known_events[i].kind ? known_events[i].event : 0;
    }
    return events;
}

/* Makes libzmq report `events` of a socket over a pair of sockets within the process, and opens the
 * end at which they are read. */
static int
open_monitor(cadre_context_t *context, cadre_socket_t *socket, int events, cadre_monitor_t **out)
{
    char name[64];
    name_of(socket, name, sizeof(name));
    if (zmq_socket_monitor(cadre_socket_handle(socket), name, events) < 0) {
        return cadre_fail(CADRE_EIO, "a socket cannot be monitored: %s", zmq_strerror(errno));
    }

    void *pair = zmq_socket(cadre_context_handle(context), ZMQ_PAIR);
    int limit = EVENTS_UNREAD_MAX;
    int linger = 0;
    if (!pair || zmq_setsockopt(pair, ZMQ_RCVHWM, &limit, sizeof(limit)) < 0 ||
        zmq_setsockopt(pair, ZMQ_LINGER, &linger, sizeof(linger)) < 0 ||
        zmq_connect(pair, name) < 0) {
        int status = cadre_fail(CADRE_EIO, "a socket cannot be monitored: %s", zmq_strerror(errno));
        zmq_socket_monitor(cadre_socket_handle(socket), NULL, 0);
        if (pair) {
            zmq_close(pair);
        }
        return status;
    }

    cadre_monitor_t *self = cadre_calloc(1, sizeof(*self));
    self->pair = pair;
    self->socket = socket;
    *out = self;
    return 0;
}

int
cadre_monitor_open(cadre_context_t *context, cadre_socket_t *socket, cadre_monitor_t **out)
{
    return open_monitor(context, socket, ZMQ_EVENT_ALL, out);
}

int
cadre_monitor_open_for(cadre_context_t *context, cadre_socket_t *socket, unsigned kinds,
                       cadre_monitor_t **out)
{
    return open_monitor(context, socket, events_of(kinds), out);
}

/* Ends the reporting, and closes the monitor; its socket must still be open. */
void
cadre_monitor_close(cadre_monitor_t **self_p)
{
    cadre_monitor_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    zmq_socket_monitor(cadre_socket_handle(self->socket), NULL, 0);
    zmq_close(self->pair);
    free(self);
}

void *
cadre_monitor_handle(cadre_monitor_t *self)
{
    return self->pair;
}

/* Returns the kind of a libzmq event; CADRE_EVENT_OTHER for events that later versions may add. */
static cadre_event_kind_t
kind_of(int event)
{
    cadre_event_kind_t kind = CADRE_EVENT_OTHER;
    for (size_t i = 0; i < CADRE_COUNT_OF(known_events); i++) {
        kind = known_events[i].event == event ? known_events[i].kind : kind;
    }
    return kind;
}

/* Receives one frame of an event; never blocks: CADRE_EAGAIN when there is none. */
static int
receive_frame(cadre_monitor_t *self, zmq_msg_t *frame)
{
    int rc = 0;
    do {
        rc = zmq_msg_recv(frame, self->pair, ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);
    if (rc >= 0) {
        return 0;
    }
    return errno == EAGAIN ? CADRE_EAGAIN : cadre_fail(CADRE_ECLOSED, "the context is closed");
}

static void
close_frame(zmq_msg_t *frame)
{
    zmq_msg_close(frame);
}

/* Takes the next event; never blocks: CADRE_EAGAIN when there is none. */
int
cadre_monitor_receive(cadre_monitor_t *self, cadre_event_t *event)
{
    cadre_auto(close_frame) zmq_msg_t frame;
    zmq_msg_init(&frame);
    int status = receive_frame(self, &frame);
    if (status < 0) {
        return status;
    }

    /* Frame 1: event as u16 and value as u32 in the machine's order; frame 2: endpoint. Both are
     * libzmq's own, sent as one message within this process. */
    uint16_t number = 0;
    cadre_event_t decoded = {0};
    const char *bytes = zmq_msg_data(&frame);

    cadre_assert(zmq_msg_size(&frame) == sizeof(number) + sizeof(decoded.value));
    memcpy(&number, bytes, sizeof(number));
    memcpy(&decoded.value, bytes + sizeof(number), sizeof(decoded.value));
    decoded.kind = kind_of(number);
    while (zmq_msg_more(&frame)) {
        status = receive_frame(self, &frame);
        if (status < 0) {
            return status;
        }
        size_t size = cadre_min_u64(zmq_msg_size(&frame), sizeof(decoded.endpoint) - 1);
        memcpy(decoded.endpoint, zmq_msg_data(&frame), size);
    }

    *event = decoded;
    return 0;
}

bool
cadre_event_is_strange(const cadre_event_t *self)
{
    return self->kind == CADRE_EVENT_HANDSHAKE_FAILED && self->value != ZAP_REFUSED;
}

/* Returns why a handshake with the coordinator failed, as the connecting end sees it, and what to
 * do. `guarded`: this end has keys. */
const char *
cadre_event_why_failed(const cadre_event_t *self, bool guarded)
{
    if (!guarded) {
        return "it wants a key: give --keys DIR";
    }
    if (self->value == ZAP_REFUSED) {
        return "it does not allow the key of this task: put that into its allowed/";
    }
    return self->value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH
               ? "the coordinator has no keys: start it with --keys DIR"
               : "the coordinator's key is not the one in allowed/coordinator.pub: copy it from "
                 "there";
}

bool
cadre_event_wants_descriptors(const cadre_event_t *self)
{
    return self->kind == CADRE_EVENT_NOT_ACCEPTED &&
           (self->value == ENFILE || self->value == EMFILE);
}
