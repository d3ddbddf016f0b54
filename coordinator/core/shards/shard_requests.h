/*
 * shard_requests - requests of the coordinator to its ps tasks that are not answered yet.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * Every request is idempotent: CREATE, DROP, RETIRE, RESTORE, SETTLE, COUNT, SNAPSHOT, CLOSE_CUT
 * and CHECKPOINT_END by their nature, ASSIGN by its sequence. No request is sent again only because
 * time has passed: a shard that is busy, or reads a checkpoint, would only get a longer queue.
 * While requests of a plane are unanswered a PROBE goes out on that plane now and then, ever more
 * seldom, and requests that its answer PROBED calls unknown are sent again
 * (proto-schemas/README.md, rule 11); so are all requests of a shard when another ps serves it, and
 * those of the data plane when its connection is a new one. A request waits while its ps is away or
 * being repaired. Each shard gets its requests in order, one window of CADRE_SHARD_WINDOW at a
 * time. A request carries the generation that its shard has when it is sent, not when it was made;
 * a request that was refused because of its generation is sent again after resend_ms.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_SHARD_REQUESTS_H
#define CADRE_COORDINATOR_CORE_SHARDS_SHARD_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/outbox.h"

enum { CADRE_SHARD_WINDOW = 64 };

/* Called with the answer to a request; with `reply` NULL when the request was given up (`status`
 * says why). May call cadre_shard_requests_ask and _forget. */
typedef void (*cadre_answered_t)(void *context, uint64_t detail, const cadre_message_t *reply,
                                 int status);

typedef struct cadre_shard_request cadre_shard_request_t;

/* The ps that serves a shard now. */
typedef struct {
    const cadre_task_t *task; /* NULL: none does, or it is not to be sent requests yet */
    uint64_t generation;
} cadre_shard_target_t;

/* What is known of a shard's answers over one plane. */
typedef struct {
    bool heard;  /* a request was answered since the last pump */
    bool moved;  /* the oldest request was answered since the last pump */
    bool probed; /* a PROBE was answered since the last pump */
    uint64_t heard_ms;
    uint64_t probe;         /* number of the last PROBE */
    uint64_t probe_due_ms;  /* when the next PROBE goes out, if a request is unanswered then */
    uint64_t probe_wait_ms; /* time from the next PROBE to the one after it */
} cadre_shard_watch_t;

typedef struct {
    cadre_shard_request_t *first;
    cadre_shard_request_t **last_p;
    uint32_t sent;
    cadre_shard_watch_t watches[CADRE_PLANE_DATA + 1]; /* by plane */
} cadre_shard_lane_t;

typedef struct {
    cadre_shard_lane_t *lanes; /* [shard_count] */
    uint32_t shard_count;
    uint64_t last;        /* the last request id that was given; ids only go up */
    uint64_t incarnation; /* incarnation and epoch of the coordinator, as its requests carry them */
    uint64_t epoch;
    size_t count;
} cadre_shard_requests_t;

/* Initialises for `shard_count` shards. Request ids begin above `last`: the coordinator has two
 * such objects, whose ids must differ. */
void cadre_shard_requests_init(cadre_shard_requests_t *self, uint32_t shard_count, uint64_t last);
void cadre_shard_requests_fini(cadre_shard_requests_t *self);

/* Queues `message` (its chunks move) for shard `shard`; its request id is set here. */
void cadre_shard_requests_ask(cadre_shard_requests_t *self, uint32_t shard,
                              cadre_message_t *message, cadre_answered_t answered, void *context,
                              uint64_t detail);

/* Notes how many bytes of values will answer the request that was queued last: time limits allow
 * for their transfer. */
void cadre_shard_requests_expect(cadre_shard_requests_t *self, uint32_t shard, size_t size_bytes);

/* Sends to the task that serves `shard` now: requests as far as the window allows, again those that
 * were lost or refused, `resend_ms` after they were sent, and a PROBE on each plane on which
 * requests have been unanswered for the plane's probe interval. Where no task serves the shard
 * every request counts as unsent. */
void cadre_shard_requests_pump(cadre_shard_requests_t *self, uint32_t shard,
                               const cadre_shard_target_t *target, uint64_t now_ms,
                               uint64_t resend_ms, cadre_outbox_t *outbox);

/* Ends the request that `reply` answers, and calls its `answered`; false when there is no such
 * request. */
bool cadre_shard_requests_answer(cadre_shard_requests_t *self, uint32_t shard,
                                 const cadre_message_t *reply);

/* Takes the answer to a PROBE: requests that the shard does not have are to be sent again, updates
 * that it has applied count as answered. */
void cadre_shard_requests_probed(cadre_shard_requests_t *self, uint32_t shard,
                                 const cadre_message_t *message);

/* Marks the unanswered requests of the data plane to be sent again, because the data connection to
 * this shard is a new one. */
void cadre_shard_requests_connected(cadre_shard_requests_t *self, uint32_t shard);

/* Makes a PROBE on the control plane due at once, because the ps may have lost messages there. */
void cadre_shard_requests_doubt(cadre_shard_requests_t *self, uint32_t shard);

/* Returns since when requests for values are unanswered and nothing has come over the data
 * connection; UINT64_MAX when there are none. `size_bytes`: how much is under way. */
uint64_t cadre_shard_requests_silent_ms(const cadre_shard_requests_t *self, uint32_t shard,
                                        size_t *size_bytes);

/* Returns the first shard whose oldest unanswered request has this context; UINT32_MAX: no shard's
 * has. */
uint32_t cadre_shard_requests_oldest(const cadre_shard_requests_t *self, const void *context);

/* Returns whether a shard has not answered an ASSIGN. */
bool cadre_shard_requests_has_assignment(const cadre_shard_requests_t *self);

/* Gives up every request to this shard: `answered` of each is called with CADRE_ECANCELLED. */
void cadre_shard_requests_clear(cadre_shard_requests_t *self, uint32_t shard);

/* Drops the requests of this context, whose `answered` is not called any more. ASSIGNs still go out
 * without their context: some partitions may have taken their part of an assignment, and a replay
 * would repeat it for all, so the others must follow. */
void cadre_shard_requests_forget(cadre_shard_requests_t *self, const void *context);

#endif
