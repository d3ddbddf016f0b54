/*
 * worker_values - values and updates on their way between the runs of a worker and the shards.
 *
 * Owner:   the worker core. Thread: its.
 *
 * A core: no socket, thread, clock or file. Every attempt of a closure pushes under the same update
 * ids, and each request that is found lost goes again (shard_link.h). A pull or push of a run ends
 * with VALUES or PUSHED, when every shard of it has answered or was given up.
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
    size_t window;             /* of PUSHes until a ps tells one, how these are cut: */
    size_t push_part_size;     /* bytes of a message, */
    size_t partitions_max;     /* and partitions */
    uint64_t shard_timeout_ms; /* a shard that says nothing for so long, though it is asked, counts
                                  as unreachable; 0: none does */
    bool observes;             /* notes how stale updates were */
    uint64_t content_last;     /* content numbers go on above this (value_cache.h): devices keep
                                  what they have under the lower ones */
} cadre_worker_values_options_t;

/* What became of updates: sent = answered (the counters applied, duplicate and refused) + abandoned
 * + pending. */
typedef struct {
    uint64_t sent; /* each once */
    uint64_t abandoned;
    uint64_t pending;
    uint64_t repeated; /* how many times a PUSH was sent again */
} cadre_push_totals_t;

typedef struct cadre_worker_values cadre_worker_values_t;

/* The other objects are borrowed. */
cadre_worker_values_t *cadre_worker_values_new(const cadre_worker_values_options_t *options,
                                               const cadre_directory_t *directory,
                                               cadre_worker_effects_t *effects,
                                               cadre_worker_counters_t *counters);
void cadre_worker_values_destroy(cadre_worker_values_t **self_p);

/* Drops what belongs to the session, while the directory still has its shards; begins another one
 * with those that it has now. */
void cadre_worker_values_end_session(cadre_worker_values_t *self);
void cadre_worker_values_begin_session(cadre_worker_values_t *self);

/* Says whether the coordinator is in touch: nothing goes to a shard while it may have given this
 * worker up. To be told before every other call that has a time. */
void cadre_worker_values_set_touch(cadre_worker_values_t *self, bool in_touch);

/* Asks for whole variables; VALUES follows in any case. */
void cadre_worker_values_pull(cadre_worker_values_t *self, cadre_run_t *run,
                              const cadre_variable_entry_t *const *variables, size_t count,
                              uint64_t now_ms);

/* Pushes the gradients of one step, keeping its own references; PUSHED follows in any case. */
void cadre_worker_values_push(cadre_worker_values_t *self, cadre_run_t *run,
                              const cadre_gradient_t *gradients, size_t count, uint64_t now_ms);

/* Ends the pull or push under way, if there is one, without waiting for its shards. */
void cadre_worker_values_abandon(cadre_worker_values_t *self, cadre_run_t *run);

/* A message of the shard; false when it is none that a shard says. */
bool cadre_worker_values_receive(cadre_worker_values_t *self, uint32_t shard,
                                 cadre_message_t *message, uint64_t now_ms);

/* Sends what credit allows, asks after what is unanswered, gives half-open connections up. Returns
 * when the next of it is due. */
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

/* The shards that cannot be reached. */
cadre_shard_set_t cadre_worker_values_unreachable(const cadre_worker_values_t *self);

/* Says what waits for which shard, as HEARTBEAT has it; how much. */
size_t cadre_worker_values_waits(const cadre_worker_values_t *self, uint64_t now_ms,
                                 cadre_wait_t waits[CADRE_WAITS_MAX]);

/* What is held of a partition: for the simulation. */
const cadre_cached_value_t *cadre_worker_values_held(const cadre_worker_values_t *self,
                                                     uint32_t variable, uint32_t partition,
                                                     uint64_t generation);

/* What became of the updates so far; how stale they were. */
cadre_push_totals_t cadre_worker_values_pushes(const cadre_worker_values_t *self);
const cadre_staleness_t *cadre_worker_values_staleness(const cadre_worker_values_t *self);

#endif
