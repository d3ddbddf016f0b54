#include "common/net/security.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/status.h"

static const char *
environment(const char *variable)
{
    const char *text = getenv(variable);
    return text && *text ? text : NULL;
}

/* Fills in from the environment what flags leave open: the directory of keys, or that connections
 * without keys are permitted. Both at once are refused. */
int
cadre_security_read(cadre_security_t *self)
{
    const char *keys = environment("CADRE_KEYS");
    const char *insecure = environment("CADRE_INSECURE_TRANSPORT");
    if (self->keys && self->insecure) {
        return cadre_fail(CADRE_ECONFIG, "keys and insecure transport exclude each other");
    }
    if (self->keys || self->insecure) {
        return 0; /* a flag or option counts before the environment */
    }

    if (insecure && strcmp(insecure, "0") != 0 && strcmp(insecure, "1") != 0) {
        return cadre_fail(CADRE_ECONFIG, "CADRE_INSECURE_TRANSPORT is \"%s\", neither 0 nor 1",
                          insecure);
    }

    self->keys = keys;
    self->insecure = insecure && *insecure == '1';
    if (self->keys && self->insecure) {
        return cadre_fail(CADRE_ECONFIG,
                          "CADRE_KEYS and CADRE_INSECURE_TRANSPORT exclude each other");
    }

    return 0;
}

/* Reads the keys of a task of this role and has the context use them, or permits plain connections.
 */
int
cadre_security_apply(const cadre_security_t *self, cadre_key_role_t role, cadre_context_t *context)
{
    cadre_keyring_t *keyring = NULL;
    int status = self->keys ? cadre_keyring_open(self->keys, role, &keyring) : 0;
    if (status < 0) {
        /* Faults in the files of keys are configuration errors, which the user can mend. */
        return cadre_fail_within(status == CADRE_EIO ? status : CADRE_ECONFIG, "keys");
    }

    if (keyring) {
        cadre_context_guard(context, keyring);
    } else if (self->insecure) {
        cadre_context_permit_plain(context);
    }

    return 0;
}

bool
cadre_security_is_insecure(const cadre_context_t *context, const cadre_endpoint_t *endpoint)
{
    return cadre_context_permits_plain(context) && !cadre_endpoint_is_local(endpoint);
}

/* Returns how a connection to or at `endpoint` is protected, for logs: "curve", "insecure" or,
 * within this machine, "plain". */
const char *
cadre_security_transport(const cadre_context_t *context, const cadre_endpoint_t *endpoint)
{
    if (cadre_security_is_insecure(context, endpoint)) {
        return "insecure";
    }
    bool guarded = cadre_context_keyring(context) && endpoint->kind == CADRE_ENDPOINT_TCP;
    return guarded ? "curve" : "plain";
}
