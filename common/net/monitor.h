/*
 * monitor - reports what happens to the connections of one socket.
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
    CADRE_EVENT_NOT_ACCEPTED, /* a connection could not be accepted; `value` is the errno */
    CADRE_EVENT_HANDSHAKE_FAILED,
    CADRE_EVENT_DISCONNECTED, /* an established or half-made connection ended */
    CADRE_EVENT_RETRYING,     /* the next try comes in `value` ms */
    CADRE_EVENT_STOPPED,      /* the socket was closed; no event follows */
} cadre_event_kind_t;

typedef struct {
    cadre_event_kind_t kind;
    /* ZeroMQ's value: a descriptor, an errno or a delay in ms. */
    uint32_t value;
    char endpoint[CADRE_ENDPOINT_TEXT_SIZE]; /* which of the socket's own endpoints it concerns */
} cadre_event_t;

/* Opens a monitor, which reports the socket's connection events from now on. Called before bind or
 * connect, on the socket's thread, at most once per socket. The events do not say which peer: after
 * a DISCONNECTED a ROUTER's owner receives what is left, then probes its peers by sending, and
 * CADRE_EUNAVAILABLE names the one that is gone. READY may come before its CONNECTED or ACCEPTED:
 * different I/O threads report them. The reader must keep up: past some ten thousand unread events
 * ZeroMQ's I/O thread waits. */
int cadre_monitor_open(cadre_context_t *context, cadre_socket_t *socket, cadre_monitor_t **out);

/* Opens a monitor that reports only the kinds in the set (bit 1 << kind). Meant for a socket that
 * strangers may connect to: three events for each stranger, which the owner does not use, could add
 * up to ten thousand unread ones in one long turn; and closing a monitor waits for an I/O thread
 * that waits for room. */
int cadre_monitor_open_for(cadre_context_t *context, cadre_socket_t *socket, unsigned kinds,
                           cadre_monitor_t **out);

/* Closes the monitor; called before its socket is closed. *self_p may be NULL. */
void cadre_monitor_close(cadre_monitor_t **self_p);

/* Returns the ZeroMQ socket, for zmq_poll only. */
void *cadre_monitor_handle(cadre_monitor_t *self);

/* Returns whether the event says that a connection was not accepted, or closed, because no
 * descriptor was left for it. */
bool cadre_event_wants_descriptors(const cadre_event_t *self);

/* Returns whether the event says that a handshake failed before the ZAP handler was asked (which
 * logs the peers that it refuses itself): the peer has no key, or does not speak ZMTP. */
bool cadre_event_is_strange(const cadre_event_t *self);

/* Returns why a handshake with a coordinator failed, as the connecting end sees it, and what to do;
 * `guarded`: this end has keys. */
const char *cadre_event_why_failed(const cadre_event_t *self, bool guarded);

/* Takes the next event. Never blocks: CADRE_EAGAIN when there is none. */
int cadre_monitor_receive(cadre_monitor_t *self, cadre_event_t *event);

#endif
