/*
 * status_client - asks a coordinator for the status of its job, as a client and not as a task of
 * the job.
 *
 * Thread:  any; the function keeps no state.
 */
#ifndef CADRE_COORDINATOR_CLI_STATUS_CLIENT_H
#define CADRE_COORDINATOR_CLI_STATUS_CLIENT_H

#include <stdint.h>

#include "common/net/endpoint.h"
#include "common/net/security.h"

/* Gives the status as JSON text (schema cadre.status/v1), which the caller frees. CADRE_ETIMEOUT
 * when no answer came within `timeout_ms`, CADRE_EREFUSED when the coordinator refuses this client,
 * or has another key than expected; fails also as cadre_security_apply and cadre_socket_connect
 * do. */
int cadre_status_ask(const cadre_endpoint_t *coordinator, const cadre_security_t *security,
                     int64_t timeout_ms, char **text);

#endif
