/*
 * shard_link - a worker's requests to one shard: order, flow control by bytes, retransmission.
 *
 * Owner:   the worker core, one per shard. Thread: the network actor.
 *
 * Of what answers PULLs, at most CADRE_IN_FLIGHT_SIZE_MAX bytes are under way (one request that is
 * larger goes alone), so that ZeroMQ's queues never decide anything. Of PUSHes the ps decides: as
 * many bytes as its window may be unanswered; what is beyond that, or goes in parts, is asked for
 * with RESERVE and goes when GRANT comes. Nothing else waits for that.
 *
 * Nothing is retransmitted because time has passed: over a link that is merely slow that is
 * congestion collapse (docs/protocol.md#retransmission). While requests are unanswered a PROBE goes
 * out now and then, ever more seldom (cadre_shard_link_probe). One connection keeps its order in
 * both directions, so a request that was sent before a PROBE, and is still unanswered when its
 * PROBED comes, was lost, or its answer was, unless PROBED says that the shard has it queued. Then,
 * and on a new connection, it goes out again with the same id: PULL changes nothing and PUSH is
 * deduplicated by its update id.
 *
 * A shard that says nothing at all, not even PROBED, counts first as half-open (another connection
 * is tried) and then as unreachable: what waits for it is given up, and only PROBEs that ask after
 * nothing go out until it is heard again.
 */
#ifndef CADRE_WORKER_CORE_SHARD_LINK_H
#define CADRE_WORKER_CORE_SHARD_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/wire/outbox.h"
#include "common/wire/record_list.h"

typedef struct cadre_link_request {
    struct cadre_link_request *next;
    uint64_t request;
    uint64_t closure;
    uint64_t update;   /* of a PUSH; 0 for a PULL */
    void *context;     /* the asker's note of what was asked for; from malloc, freed with the
                          request */
    size_t size_bytes; /* of the question or the answer, whichever is larger */
    cadre_outbox_entry_t entry;
    cadre_outbox_entry_t *parts; /* [part_count]: the messages of a PUSH after `entry`; owned */
    size_t part_count;
    cadre_outbox_entry_t reserve; /* the RESERVE that asks the ps for room for a PUSH */
    bool sent;                    /* `entry` was sent, or `reserve` */
    bool is_asked;                /* only `reserve` was sent: the PUSH waits for GRANT */
    bool is_unasked; /* a PUSH that was sent without RESERVE: its bytes count against `window` */
    uint64_t after;  /* number of the last PROBE before the request was sent: only PROBED answers to
                        later ones can prove that the request was lost */
    uint64_t asked_ms; /* when the run made the request */
} cadre_link_request_t;

typedef struct {
    bool open;                   /* the shard is known and a ps serves it: requests may be sent */
    bool doubted;                /* a request came back fenced: another ps may serve the shard */
    cadre_link_request_t *first; /* the list, oldest first, so sent ones before unsent ones */
    cadre_link_request_t **last_p;
    cadre_link_request_t *unsent; /* the first request that is not sent; NULL: all are */
    size_t in_flight_bytes;       /* of requests that were sent and not answered */
    size_t pulled_bytes;          /* of `in_flight_bytes`, those of answers to PULLs */
    size_t unasked_bytes;         /* of unanswered PUSHes that were sent without RESERVE */
    size_t window;                /* the most that `unasked_bytes` may be, as the ps told last */
    size_t in_flight;             /* requests that were sent and not answered */
    bool unreachable;             /* the shard was silent too long; true until it is heard again,
                                     or served by another ps */
    uint64_t owed_ms;             /* since when an answer is owed and nothing has come */
    uint64_t connected_ms;        /* when the connection was last replaced */
    uint32_t mutes; /* connections given up one after the other, with nothing heard on them */
    uint64_t probe; /* number of the last PROBE */
    uint64_t probe_due_ms;  /* when the next PROBE goes out, while a request is unanswered */
    uint64_t probe_wait_ms; /* how long after the next PROBE another one is due */
    uint64_t pushes;        /* PUSHes in the list */
    uint64_t repeated;      /* PUSHes that were sent again */
} cadre_shard_link_t;

/* Begins with no requests; `window` holds until the ps has told one. */
void cadre_shard_link_init(cadre_shard_link_t *self, size_t window);
void cadre_shard_link_fini(cadre_shard_link_t *self);

/* Frees the messages and the context of a request. */
void cadre_link_request_fini(cadre_link_request_t *self);

/* Appends a request; takes `entry`, `parts` and `reserve`. */
void cadre_shard_link_ask(cadre_shard_link_t *self, const cadre_link_request_t *request);

/* Sends the requests that flow control allows: PULLs up to CADRE_IN_FLIGHT_SIZE_MAX bytes, PUSHes
 * within the window; for other PUSHes their RESERVE. */
void cadre_shard_link_pump(cadre_shard_link_t *self, uint64_t now_ms, cadre_outbox_t *outbox);

/* Returns whether a PROBE is due, and the `count` unanswered requests that it is to ask after,
 * oldest first. `number`, the PROBE's own request id, is larger than that of every PROBE before. */
bool cadre_shard_link_probe(cadre_shard_link_t *self, uint64_t now_ms, uint64_t number,
                            cadre_probe_t probes[CADRE_PROBE_REQUESTS_MAX], size_t *count);

/* Sends a request again that was lost: the answer to PROBE number `probe` (PROBED) says that the ps
 * does not have request `id`, or (`is_queued`) has only its RESERVE although the PUSH itself was
 * sent after GRANT. Returns false where PROBED proves no loss: the request was sent after that
 * PROBE, is answered, or waits in the ps's queue. */
bool cadre_shard_link_lost(cadre_shard_link_t *self, uint64_t id, uint64_t probe, bool is_queued,
                           cadre_outbox_t *outbox);

/* Sends the PUSH of request `id`, for which GRANT has come; false when there is no such request. */
bool cadre_shard_link_granted(cadre_shard_link_t *self, uint64_t id, cadre_outbox_t *outbox);

/* Sends all requests that are not answered again, because the connection is a new one. */
void cadre_shard_link_repeat(cadre_shard_link_t *self, uint64_t now_ms, cadre_outbox_t *outbox);

/* Notes that a message of the shard has come: it is reachable, and its silence begins now. */
void cadre_shard_link_heard(cadre_shard_link_t *self, uint64_t now_ms);

/* Takes the request with this id out of the list, because its answer came; false when there is no
 * such request: the answer is late or foreign. The caller ends what it owns
 * (cadre_link_request_fini). Puts off the next PROBE only if this was the oldest request: younger
 * ones may be answered while the answer of an older one is lost. */
bool cadre_shard_link_answered(cadre_shard_link_t *self, uint64_t id, uint64_t now_ms,
                               cadre_link_request_t *request);

/* Drops every request of a closure; answers to them will count as late. */
void cadre_shard_link_forget(cadre_shard_link_t *self, uint64_t closure);

/* Returns since when an answer is owed and nothing has come; UINT64_MAX when none is owed. */
uint64_t cadre_shard_link_owed_ms(const cadre_shard_link_t *self);

/* Returns whether the connection is half-open: an answer is owed and nothing at all has come
 * for CADRE_MUTE_MS plus the time that the bytes under way take at CADRE_LINK_RATE_MIN, doubled for
 * each connection that was given up before without a word. Of an unreachable shard: for
 * CADRE_MUTE_MS. */
bool cadre_shard_link_is_mute(const cadre_shard_link_t *self, uint64_t now_ms);

/* Returns whether nothing has come for `timeout_ms`, so that the shard is to count as unreachable
 * from now on. With many bytes in flight that is not before two connections have had the time after
 * which they count as half-open. */
bool cadre_shard_link_is_over(const cadre_shard_link_t *self, uint64_t now_ms, uint64_t timeout_ms);

/* Takes the shard for unreachable until it is heard again. */
void cadre_shard_link_give_up(cadre_shard_link_t *self, uint64_t now_ms);

/* Takes `late_ms`, in which this process itself stood still (own stall), off the shard's silence.
 */
void cadre_shard_link_excuse(cadre_shard_link_t *self, uint64_t late_ms, uint64_t now_ms);

/* Returns when the next PROBE is due, or the link counts as half-open or the shard as
 * unreachable; UINT64_MAX for never. */
uint64_t cadre_shard_link_due_ms(const cadre_shard_link_t *self, uint64_t timeout_ms);

#endif
