/*
 * status_client - asks a coordinator how its job stands, as somebody who is no task of it.
 *
 * Thread:  any; the function keeps no state.
 */
#ifndef CADRE_COORDINATOR_CLI_STATUS_CLIENT_H
#define CADRE_COORDINATOR_CLI_STATUS_CLIENT_H

#include <stdint.h>

#include "common/net/endpoint.h"
#include "common/net/security.h"

/* The status as JSON text (schema cadre.status/v1), which the caller frees. CADRE_ETIMEOUT when no
 * answer came within `timeout_ms`, CADRE_EREFUSED when the coordinator does not let this client in,
 * or has another key than expected; else as cadre_security_apply and cadre_socket_connect. */
int cadre_status_ask(const cadre_endpoint_t *coordinator, const cadre_security_t *security,
                     int64_t timeout_ms, char **text);

#endif
