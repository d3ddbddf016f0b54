/*
 * proxy - a network that can be broken: it listens, forwards each connection to a target, and on
 * order delays, throttles, loses or cuts what passes.
 *
 * One thread with poll(2) looks after all connections. A link is a place to listen and a target,
 * both TCP on loopback or Unix sockets. Faults are ordered for a link and, on Unix sockets, for one
 * peer on it: the process that connects. They hold for connections there are and those that come.
 *
 * A stalled direction is a partition: bytes, ends and resets do not pass, and nobody is told. They
 * pass when it heals. New connections are taken but lead nowhere until both directions are open.
 * What it cannot do is withhold the kernel's own acknowledgements: for that there are namespaces.
 *
 * Owner:   a test.
 * Thread:  any one; the proxy's own serves.
 */
#ifndef CADRE_TESTS_CHAOS_PROXY_H
#define CADRE_TESTS_CHAOS_PROXY_H

#include <stdint.h>
#include <sys/types.h>

#include "common/net/endpoint.h"
#include "tests/chaos/stream.h"

enum { PROXY_LINKS_MAX = 32, PROXY_CONNECTIONS_MAX = 256 };

typedef struct proxy proxy_t;

typedef enum {
    PROXY_UP = 1,   /* from who connects to the target */
    PROXY_DOWN = 2, /* back */
    PROXY_BOTH = 3,
} proxy_direction_t;

proxy_t *proxy_open(void);

/* Ends every connection. */
void proxy_close(proxy_t **self_p);

/* Listens at `from` (tcp with port 0: any), forwards to `to`, which need not be there yet. The
 * link's number; where it listens into `bound`, CADRE_ENDPOINT_TEXT_SIZE bytes. Ends the test when
 * it cannot listen. */
int proxy_link(proxy_t *self, const char *from, const char *to, char *bound);

/* What happens to `direction` of the link's connections from now on: those of `peer`, or with 0
 * those of everyone that has no rule of its own. */
void proxy_rule(proxy_t *self, int link, pid_t peer, proxy_direction_t direction,
                stream_rule_t rule);

/* Forgets every rule. */
void proxy_heal(proxy_t *self);

/* Resets the link's connections of `peer` (0: all) on both sides. How many there were. */
int proxy_reset(proxy_t *self, int link, pid_t peer);

/* Half open: closes the side of who connected (PROXY_UP) or of the target (PROXY_DOWN); the other
 * one is not told and hears nothing more. How many there were. */
int proxy_half_open(proxy_t *self, int link, pid_t peer, proxy_direction_t closed);

/* Connections that exist on the link now, and bytes that have passed since it was made. */
int proxy_connections(proxy_t *self, int link);
uint64_t proxy_bytes(proxy_t *self, int link);

#endif
