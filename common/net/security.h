/*
 * security - how a task's connections beyond this machine are protected, as its user chooses: by
 * keys; in the clear; or there are none.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_NET_SECURITY_H
#define CADRE_COMMON_NET_SECURITY_H

#include <stdbool.h>

#include "common/net/context.h"
#include "common/net/endpoint.h"

/* What flags or options say about keys. Zeroed: they say nothing, and the environment counts. */
typedef struct {
    const char *keys; /* the directory; NULL: CADRE_KEYS, if that is set and not empty */
    bool insecure;    /* tcp without keys is permitted; false: CADRE_INSECURE_TRANSPORT counts */
} cadre_security_t;

/* What --keys and --insecure-transport do, for the help of a command. */
#define CADRE_SECURITY_KEYS_HELP                                                                   \
    "Directory with this task's pair of keys and allowed/, as `cadre keygen` makes it; tcp "       \
    "connections are then encrypted and both ends known (default: CADRE_KEYS)"
#define CADRE_SECURITY_INSECURE_HELP                                                               \
    "Permit tcp connections to other machines without keys: whoever reaches a port takes part "    \
    "and "                                                                                         \
    "reads along (default: CADRE_INSECURE_TRANSPORT, 1 or 0)"

/* Fills in from the environment what flags or options leave open. CADRE_ECONFIG for another value
 * than 0 and 1, and for keys together with insecure transport, unless one is a flag and the other
 * from the environment: the flag then counts. */
int cadre_security_read(cadre_security_t *self);

/* Reads the keys of a task of that role and guards the context with them, or permits plain
 * connections. CADRE_EIO when the files cannot be read, CADRE_ECONFIG for all other errors of
 * cadre_keyring_open. */
int cadre_security_apply(const cadre_security_t *self, cadre_key_role_t role,
                         cadre_context_t *context);

/* Returns whether a connection to or at `endpoint` goes beyond this machine in the clear, of which
 * logs and status warn. */
bool cadre_security_is_insecure(const cadre_context_t *context, const cadre_endpoint_t *endpoint);

/* Returns the name for logs of a connection's protection, to or at `endpoint`: "curve", "insecure"
 * or, within this machine, "plain". */
const char *cadre_security_transport(const cadre_context_t *context,
                                     const cadre_endpoint_t *endpoint);

#endif
