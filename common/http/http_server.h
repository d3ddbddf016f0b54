/*
 * http_server - serves the status of one process over HTTP: /livez, /readyz and /metrics.
 *
 * Owner:   the process, or the coordinator of a program.
 * Thread:  opened, published to and closed by its owner; cadre_http_server_turned from any. It has
 *          one thread of its own (libmicrohttpd's), which alone talks to clients.
 *
 * That thread reads only the published page: it waits for no actor, and no actor for it. A page is
 * swapped under a lock that is held while a pointer is copied, and reference-counted, so that a
 * page stays until it has been sent; the actors' clocks are atomics. That is an exception to "no
 * shared state" (README.md, rule 2).
 *
 *     /livez    200 while every actor takes turns, else 503 and which does not: of this process
 *               alone, never of a peer
 *     /readyz   200 when the process can do its work, else 503 and why not
 *     /metrics  the figures that were published last, for Prometheus
 *
 * GET and HEAD only (405), no other path (404), one request a connection. The limits are in
 * limits.h (CADRE_HTTP_...).
 */
#ifndef CADRE_COMMON_HTTP_HTTP_SERVER_H
#define CADRE_COMMON_HTTP_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/metrics_text.h"

enum {
    CADRE_HTTP_ACTORS_MAX = 4,
    /* Bytes of the text why a process is not ready; longer ones are truncated. */
    CADRE_HTTP_WORDS_SIZE = 256,
};

typedef struct cadre_http_server cadre_http_server_t;

/* Opens a server at an address (http_address.h). It answers from now on: that the process is alive,
 * and that it is not ready until a page is published. `actors`: names (literals) of the actors that
 * call cadre_http_server_turned, the publishing one first, at most CADRE_HTTP_ACTORS_MAX.
 * CADRE_EINVALID for another address, CADRE_EUNAVAILABLE when the host is unknown or the port in
 * use, CADRE_EIO. */
int cadre_http_server_open(const char *address, const char *const *actors, size_t actor_count,
                           cadre_http_server_t **out);

/* Ends the thread and closes all connections. *self_p may be NULL. */
void cadre_http_server_close(cadre_http_server_t **self_p);

/* Returns the address that the server is bound to, such as "127.0.0.1:9090". */
const char *cadre_http_server_address(const cadre_http_server_t *self);

/* Notes that the actor with this number has taken a turn. */
void cadre_http_server_turned(cadre_http_server_t *self, size_t actor, int64_t now_ms);

/* Returns whether it is time to publish: CADRE_HTTP_PUBLISH_MS after the last time, or at once if
 * `unready`, the reason why the process is not ready, has changed. Called on the owner's thread. */
bool cadre_http_server_is_due(const cadre_http_server_t *self, const char *unready, int64_t now_ms);

/* Publishes a page: takes the text that /metrics serves from now on, and ends connections that have
 * lasted too long. `unready`: why the process cannot do its work, in words; "" if it can. */
void cadre_http_server_publish(cadre_http_server_t *self, cadre_metrics_text_t *metrics,
                               const char *unready, int64_t now_ms);

#endif
