/*
 * shard_link - a worker's requests to one shard: order, flow control by bytes, resending.
 *
 * Owner:   the worker core, one per shard. Thread: the network actor.
 *
 * At most CADRE_IN_FLIGHT_SIZE_MAX bytes are unanswered (one request that is larger goes alone), so
 * that ZeroMQ's queues never decide anything. An unanswered request goes out again after resend_ms
 * with the same id: PULL changes nothing and PUSH is told apart by its update id.
 */
#ifndef CADRE_WORKER_SHARD_LINK_H
#define CADRE_WORKER_SHARD_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/outbox.h"

typedef struct cadre_link_request {
    struct cadre_link_request *next;
    uint64_t request;
    uint64_t closure;
    void *context;     /* malloc: freed with the request; the asker's note of what it asked for */
    size_t size_bytes; /* of the question or the answer, whichever is larger */
    cadre_outbox_entry_t entry;
    bool sent;
    uint64_t sent_ms;
    uint64_t first_ms; /* sent for the first time */
} cadre_link_request_t;

typedef struct {
    bool open;                   /* the shard is known and not away */
    bool doubted;                /* it may be served elsewhere: a request came back fenced */
    cadre_link_request_t *first; /* oldest first, sent ones before unsent ones */
    cadre_link_request_t **last_p;
    cadre_link_request_t *unsent; /* first that is not sent */
    size_t in_flight_bytes;
    size_t in_flight;
    uint64_t heard_ms; /* last message, or new connection */
} cadre_shard_link_t;

void cadre_shard_link_init(cadre_shard_link_t *self);
void cadre_shard_link_fini(cadre_shard_link_t *self);

/* Appends a request; takes `entry`. */
void cadre_shard_link_ask(cadre_shard_link_t *self, const cadre_link_request_t *request);

/* Sends what credit allows. */
void cadre_shard_link_pump(cadre_shard_link_t *self, uint64_t now_ms, cadre_outbox_t *outbox);

/* Sends again what has been unanswered for `resend_ms`. */
void cadre_shard_link_tick(cadre_shard_link_t *self, uint64_t now_ms, uint64_t resend_ms,
                           cadre_outbox_t *outbox);

/* Takes the request with this id out; false when there is none: a late or foreign answer. its entry
 * and context are the caller's to end. */
bool cadre_shard_link_answered(cadre_shard_link_t *self, uint64_t id,
                               cadre_link_request_t *request);

/* Forgets every request of a closure. */
void cadre_shard_link_forget(cadre_shard_link_t *self, uint64_t closure);

/* Since when the oldest request is unanswered; UINT64_MAX when there is none. */
uint64_t cadre_shard_link_asked_ms(const cadre_shard_link_t *self);

/* Whether requests are unanswered and nothing at all has come for so long. */
bool cadre_shard_link_is_mute(const cadre_shard_link_t *self, uint64_t now_ms, uint64_t mute_ms);

/* When the next resend is due; UINT64_MAX for never. */
uint64_t cadre_shard_link_due_ms(const cadre_shard_link_t *self, uint64_t resend_ms);

#endif
