/*
 * authenticator - the ZAP handler of a context (ZeroMQ RFC 27): it says which keys may connect to
 * the sockets that are bound there, and ends connections whose key is withdrawn.
 *
 * Owner:   the process object that binds sockets with keys: opened before the first is bound, so
 *          that none is ever open without it, and closed after the last.
 * Thread:  an actor of its own.
 *
 * libzmq knows the key of each connection but does not tell it. So when a key is withdrawn, all
 * connections to the bound ports are closed, and peers whose key is still allowed reconnect at
 * once: messages that were under way are sent again, as after every break.
 */
#ifndef CADRE_COMMON_NET_AUTHENTICATOR_H
#define CADRE_COMMON_NET_AUTHENTICATOR_H

#include "common/net/context.h"
#include "common/net/endpoint.h"
#include "common/wire/plane.h"

enum {
    CADRE_AUDIT_WINDOW_MS = 1000, /* window for which the log lines about connections are limited */
    /* Most lines of accepted and of refused connections in a window; the rest is counted. */
    CADRE_AUDIT_LINES_MAX = 20,
    /* How long cadre_authenticator_check waits for the own socket to refuse a stranger. */
    CADRE_SELF_CHECK_MS = 30000,
};

typedef struct cadre_authenticator cadre_authenticator_t;

/* Starts the ZAP handler of a context that has a keyring. `audit` is called on the authenticator's
 * thread with the log events key_accepted, key_refused, audit_suppressed and those of
 * cadre_keyring_look. CADRE_EIO when no socket or thread can be had. */
int cadre_authenticator_open(cadre_context_t *context, cadre_audit_t audit, void *audit_context,
                             cadre_authenticator_t **out);

/* Ends the thread and frees the authenticator. CADRE_ETIMEOUT when the thread has not ended.
 * *self_p may be NULL. */
int cadre_authenticator_close(cadre_authenticator_t **self_p, int timeout_ms);

/* Connects to a bound address as two strangers, one without keys and one with a new pair. Returns 0
 * when both are refused. CADRE_EREFUSED when one is let in: the task must not go on. CADRE_ETIMEOUT
 * when none was let in, but the refusal of one was not seen in time; CADRE_EIO when no socket can
 * be had. Takes up to CADRE_SELF_CHECK_MS, usually a few milliseconds. */
int cadre_authenticator_check(cadre_authenticator_t *self, const cadre_endpoint_t *bound);

/* Returns the ZAP domain of the sockets of a plane. */
const char *cadre_zap_domain(cadre_plane_t plane);

#endif
