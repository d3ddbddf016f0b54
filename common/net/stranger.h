/*
 * stranger - tests whether a bound address refuses a peer that it does not know.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_NET_STRANGER_H
#define CADRE_COMMON_NET_STRANGER_H

#include "common/keys/certificate.h"
#include "common/net/endpoint.h"

/* Connects to `bound`, an address of this process, over a ZeroMQ context of its own: without keys
 * when `server_key` is NULL, else with `pair`; then disconnects. Returns 0 when the connection was
 * refused with a reason, by CURVE or by the ZAP handler; tries again when it was just closed.
 * CADRE_EREFUSED when it was accepted, CADRE_ETIMEOUT when neither was seen within `timeout_ms`,
 * CADRE_EIO when no socket can be had. */
int cadre_stranger_check(const cadre_endpoint_t *bound, const char *server_key,
                         const cadre_certificate_t *pair, int timeout_ms);

#endif
