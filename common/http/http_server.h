/*
 * http_server - answers of one process about itself, over HTTP: /livez, /readyz and /metrics.
 *
 * Owner:   the process, or the coordinator of a program.
 * Thread:  opened, published to and closed by its owner; cadre_http_server_turned from any. It has
 *          one thread of its own (libmicrohttpd's), which alone talks to clients.
 *
 * That thread reads nothing but what was published: no actor waits for it, and it for none. A page
 * is swapped under a lock that is held for a pointer's copy, and counted, so that one that is being
 * sent stays until it is out; the actors' clocks are atomics. That is an exception to "no shared
 * state" (README.md, rule 2).
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
    CADRE_HTTP_WORDS_SIZE = 256, /* of why a process is not ready; longer ones are cut */
};

typedef struct cadre_http_server cadre_http_server_t;

/* Binds (http_address.h) and answers from now on: alive, and not ready before something is
 * published. `actors`: names, literals, of those that call cadre_http_server_turned, the publishing
 * one first, at most CADRE_HTTP_ACTORS_MAX. CADRE_EINVALID for another address,
 * CADRE_EUNAVAILABLE when the host is unknown or the port in use, CADRE_EIO. */
int cadre_http_server_open(const char *address, const char *const *actors, size_t actor_count,
                           cadre_http_server_t **out);

/* Ends the thread; connections are closed. NULL inside is fine. */
void cadre_http_server_close(cadre_http_server_t **self_p);

/* Where it is bound: "127.0.0.1:9090". */
const char *cadre_http_server_address(const cadre_http_server_t *self);

/* The actor of this number has taken a turn. */
void cadre_http_server_turned(cadre_http_server_t *self, size_t actor, int64_t now_ms);

/* Whether it is time to publish: CADRE_HTTP_PUBLISH_MS after the last time, or because what is
 * said of readiness has changed. Its owner's thread. */
bool cadre_http_server_is_due(const cadre_http_server_t *self, const char *unready, int64_t now_ms);

/* Takes the text as what /metrics answers from now on, and ends connections that are there for too
 * long. `unready`: why the process cannot do its work, in words; "": it can. */
void cadre_http_server_publish(cadre_http_server_t *self, cadre_metrics_text_t *metrics,
                               const char *unready, int64_t now_ms);

#endif
