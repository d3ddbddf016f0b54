/*
 * authenticator - the ZAP handler of a context (ZeroMQ RFC 27): it says which keys may connect to
 * the sockets that are bound there, and ends connections whose key is withdrawn.
 *
 * Owner:   the process object that binds sockets with keys: opened before the first is bound, so
 *          that none is ever open without it, and closed after the last.
 * Thread:  an actor of its own.
 *
 * libzmq knows a connection's key and does not say which connection is whose. So when a key is
 * withdrawn, all connections to the bound ports end, and whoever is still allowed is back at once:
 * whatever was under way is asked for again, as after every break.
 */
#ifndef CADRE_COMMON_NET_AUTHENTICATOR_H
#define CADRE_COMMON_NET_AUTHENTICATOR_H

#include "common/net/context.h"
#include "common/net/endpoint.h"
#include "common/wire/plane.h"

enum {
    CADRE_AUDIT_WINDOW_MS = 1000, /* in which the log gets so many lines of who connects, */
    CADRE_AUDIT_LINES_MAX = 20,   /* accepted, and as many refused, and then a count */
    CADRE_SELF_CHECK_MS = 30000,  /* for one's own socket to refuse a stranger */
};

typedef struct cadre_authenticator cadre_authenticator_t;

/* For the keyring of the context, which has one. `audit` is called on the authenticator's thread:
 * key_accepted, key_refused, audit_suppressed, and what cadre_keyring_look tells. CADRE_EIO. */
int cadre_authenticator_open(cadre_context_t *context, cadre_audit_t audit, void *audit_context,
                             cadre_authenticator_t **out);

/* CADRE_ETIMEOUT when its thread has not ended. NULL inside is fine. */
int cadre_authenticator_close(cadre_authenticator_t **self_p, int timeout_ms);

/* Connects to a bound address as two strangers, one without keys and one with a new pair. Returns 0
 * when both are refused. CADRE_EREFUSED when one is let in: the task must not go on. CADRE_ETIMEOUT
 * when that could not be seen, CADRE_EIO. Takes up to CADRE_SELF_CHECK_MS, mostly milliseconds. */
int cadre_authenticator_check(cadre_authenticator_t *self, const cadre_endpoint_t *bound);

/* What ZAP calls the sockets of a plane. */
const char *cadre_zap_domain(cadre_plane_t plane);

#endif
