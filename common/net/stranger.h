/*
 * stranger - whether a bound address lets somebody in whom it does not know.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_NET_STRANGER_H
#define CADRE_COMMON_NET_STRANGER_H

#include "common/keys/certificate.h"
#include "common/net/endpoint.h"

/* Connects to `bound`, an address of this process, over a ZeroMQ context of its own, and goes:
 * without keys when `server_key` is NULL, else with `pair`. Returns 0 when it was refused
 * in words, by CURVE or by the ZAP handler; one that is just closed is tried again. CADRE_EREFUSED
 * when it was not, CADRE_ETIMEOUT when neither was seen within `timeout_ms`, CADRE_EIO. */
int cadre_stranger_check(const cadre_endpoint_t *bound, const char *server_key,
                         const cadre_certificate_t *pair, int timeout_ms);

#endif
