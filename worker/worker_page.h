/*
 * worker_page - what a worker shows at /metrics and /readyz, and for how long it has drained.
 *
 * Owner:   the network actor.
 * Thread:  its owner's.
 */
#ifndef CADRE_WORKER_WORKER_PAGE_H
#define CADRE_WORKER_WORKER_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/http/http_server.h"
#include "common/net/context.h"
#include "common/net/endpoint.h"
#include "worker/core/worker_core.h"

typedef struct {
    cadre_http_server_t *http;           /* borrowed, like the next two; NULL: it shows nothing */
    const cadre_context_t *context;      /* whose keys it tells of */
    const cadre_endpoint_t *coordinator; /* by whose transport figures come */
    uint64_t drained_ms;                 /* when it last showed that the worker does not drain */
} cadre_worker_page_t;

/* Publishes the figures and whether the worker is ready, when that is due; says in every call, of
 * which there is one a turn, that the actor's thread goes round (/livez). `drains`: the worker does
 * by itself, or as the coordinator has asked. */
void cadre_worker_page_publish(cadre_worker_page_t *self, const cadre_worker_core_t *core,
                               bool drains, uint64_t now_ms);

#endif
