/*
 * worker_values - values and updates on their way between the runs of a worker and the shards.
 *
 * Owner:   the worker core. Thread: its.
 *
 * A core: no socket, thread, clock or file. Every attempt of a closure pushes under the same update
 * ids, and each request that is found lost is sent again (shard_link.h). A pull or push ends with
 * the event VALUES or PUSHED, when every shard concerned has answered or was given up.
 */
#ifndef CADRE_WORKER_CORE_WORKER_VALUES_H
#define CADRE_WORKER_CORE_WORKER_VALUES_H

#include "common/wire/record_list.h"
#include "common/wire/shard_set.h"
#include "worker/core/closure_run.h"
#include "worker/core/directory.h"
#include "worker/core/staleness.h"
#include "worker/core/value_cache.h"
#include "worker/core/worker_counters.h"
#include "worker/core/worker_effects.h"

typedef struct {
    size_t window;             /* bytes of PUSHes that may be unanswered without RESERVE, until a ps
                                  tells its own number */
    size_t push_part_size;     /* bytes of one message of a PUSH */
    size_t partitions_max;     /* partitions that one message of a PUSH names */
    uint64_t shard_timeout_ms; /* a shard that says nothing for so long, though it is asked, counts
                                  as unreachable; 0: none does */
    size_t row_cache_bytes;    /* rows of tables that are kept (row_cache.h); 0: none */
    bool row_cache_patient;    /* as there */
    bool observes;             /* whether the staleness of updates is recorded per variable */
    uint64_t content_last;     /* new content numbers are above this one (value_cache.h): devices
                                  may still hold values under lower ones */
} cadre_worker_values_options_t;

/* What became of updates: sent = answered (the counters applied, duplicate and refused) + abandoned
 * + pending. */
typedef struct {
    uint64_t sent;      /* PUSHes to a shard, each counted once however often it is sent */
    uint64_t abandoned; /* PUSHes that were given up: nobody waits for their answers any more */
    uint64_t pending;   /* not answered yet */
    uint64_t repeated;  /* how many times a PUSH was sent again */
} cadre_push_totals_t;

typedef struct cadre_worker_values cadre_worker_values_t;

/* Returns an object without requests, which borrows the directory, effects and counters. */
cadre_worker_values_t *cadre_worker_values_new(const cadre_worker_values_options_t *options,
                                               const cadre_directory_t *directory,
                                               cadre_worker_effects_t *effects,
                                               cadre_worker_counters_t *counters);
void cadre_worker_values_destroy(cadre_worker_values_t **self_p);

/* Drop the cache and the requests of a session, to be called while the directory still has the
 * shards of that session; begin another session with the shards that the directory has now. */
void cadre_worker_values_end_session(cadre_worker_values_t *self);
void cadre_worker_values_begin_session(cadre_worker_values_t *self);

/* Says whether the coordinator is in touch: nothing goes to a shard while it may have given this
 * worker up. To be told before every other call that has a time. */
void cadre_worker_values_set_touch(cadre_worker_values_t *self, bool in_touch);

/* Asks for variables, or rows of them, whose ids stay the caller's and must not change until then;
 * VALUES follows in any case. */
void cadre_worker_values_pull(cadre_worker_values_t *self, cadre_run_t *run,
                              const cadre_wanted_t *wanted, size_t count, uint64_t now_ms);

/* Pushes the gradients of one step, keeping its own references; PUSHED follows in any case. */
void cadre_worker_values_push(cadre_worker_values_t *self, cadre_run_t *run,
                              const cadre_gradient_t *gradients, size_t count, uint64_t now_ms);

/* Ends the pull or push under way, if there is one, without waiting for its shards. */
void cadre_worker_values_abandon(cadre_worker_values_t *self, cadre_run_t *run);

/* Acts on a message of the shard; false when no shard may send a message of that type. */
bool cadre_worker_values_receive(cadre_worker_values_t *self, uint32_t shard,
                                 cadre_message_t *message, uint64_t now_ms);

/* Sends what flow control allows, probes after unanswered requests, replaces half-open connections.
 * Returns when it has to be called again. */
uint64_t cadre_worker_values_tick(cadre_worker_values_t *self, uint64_t now_ms);

/* Takes `late_ms`, in which this process itself stood still (own stall), off the silence of every
 * shard. */
void cadre_worker_values_excuse(cadre_worker_values_t *self, uint64_t late_ms, uint64_t now_ms);

/* Fails the requests to a shard, because another process serves the shard now, or none does. */
void cadre_worker_values_shard_moved(cadre_worker_values_t *self, uint32_t shard, uint64_t now_ms);

/* Notes that the coordinator has said which process serves the shard. */
void cadre_worker_values_told(cadre_worker_values_t *self, uint32_t shard);

/* Drops the cached values of variables that are gone. */
void cadre_worker_values_forget_gone(cadre_worker_values_t *self);

/* Returns whether the shard may be served elsewhere: a request came back fenced, or is not
 * answered. */
bool cadre_worker_values_doubts(const cadre_worker_values_t *self, uint32_t shard, uint64_t now_ms);

/* Returns the set of shards that this worker cannot reach. */
cadre_shard_set_t cadre_worker_values_unreachable(const cadre_worker_values_t *self);

/* Fills in which closures have waited long for which shard, as HEARTBEAT tells it; returns how many
 * entries there are. */
size_t cadre_worker_values_waits(const cadre_worker_values_t *self, uint64_t now_ms,
                                 cadre_wait_t waits[CADRE_WAITS_MAX]);

/* Returns the cached value of a partition, for the simulation; NULL when there is none of that
 * generation. */
const cadre_cached_value_t *cadre_worker_values_held(const cadre_worker_values_t *self,
                                                     uint32_t variable, uint32_t partition,
                                                     uint64_t generation);

/* Return what became of the updates so far, and how stale they were. */
cadre_push_totals_t cadre_worker_values_pushes(const cadre_worker_values_t *self);
const cadre_staleness_t *cadre_worker_values_staleness(const cadre_worker_values_t *self);

#endif
