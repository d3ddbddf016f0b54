/*
 * monitor - what happens to the connections of one socket.
 *
 * Owner:   the actor that owns the socket.
 * Thread:  the socket's.
 */
#ifndef CADRE_COMMON_NET_MONITOR_H
#define CADRE_COMMON_NET_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/socket.h"

typedef struct cadre_monitor cadre_monitor_t;

typedef enum {
    CADRE_EVENT_OTHER = 0, /* nothing to do */
    CADRE_EVENT_CONNECTED, /* a connection exists; the handshake follows */
    CADRE_EVENT_ACCEPTED,
    CADRE_EVENT_READY,        /* handshake done: messages can flow */
    CADRE_EVENT_NOT_ACCEPTED, /* somebody wanted to connect; `value` is the errno */
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
 * ROUTER's owner receives what is left, then probes its peers by sending, and CADRE_EUNAVAILABLE
 * names the one that is gone. READY may come before its CONNECTED or ACCEPTED: different I/O
 * threads report them. The reader must keep up: past some ten thousand unread events ZeroMQ's I/O
 * thread waits. */
int cadre_monitor_open(cadre_context_t *context, cadre_socket_t *socket, cadre_monitor_t **out);

/* Reports only the kinds in the set (bit 1 << kind). For a socket that strangers may connect to:
 * three events for each of them, which its owner does not use, would add up to those ten thousand
 * in one long turn; and closing a monitor waits for an I/O thread that waits. */
int cadre_monitor_open_for(cadre_context_t *context, cadre_socket_t *socket, unsigned kinds,
                           cadre_monitor_t **out);

/* Close it before its socket. NULL inside is fine. */
void cadre_monitor_close(cadre_monitor_t **self_p);

/* The ZeroMQ socket, for zmq_poll only. */
void *cadre_monitor_handle(cadre_monitor_t *self);

/* Whether a connection was not accepted, or closed, because no descriptor was left for it. */
bool cadre_event_wants_descriptors(const cadre_event_t *self);

/* Whether a handshake failed and the ZAP handler, which tells of those it refuses, was not asked:
 * somebody has no key, or speaks something else. */
bool cadre_event_is_strange(const cadre_event_t *self);

/* Why a handshake with a coordinator failed, as the end that connects sees it, and what to do;
 * `guarded`: this end has keys. */
const char *cadre_event_why_failed(const cadre_event_t *self, bool guarded);

/* The next event. Never blocks: CADRE_EAGAIN when there is none. */
int cadre_monitor_receive(cadre_monitor_t *self, cadre_event_t *event);

#endif
