/*
 * dispatcher - which worker gets which closure.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A worker may hold `credit` closures: twice its slots, and if closures are short as many as it
 * ends, or could end, in CREDIT_COVER_MS, so that a round trip to the coordinator never leaves it
 * idle. First come closures that run again for a shard that was restored, then closures that were
 * put back, then new ones. Workers that lag (backups.h) come last.
 *
 * How many closures a worker is handed at once follows from how many wait (guided self-scheduling,
 * Polychronopoulos and Kuck, 1987). While the queue is long a worker gets several at a time, which
 * travel together, as do its reports, and is left alone until it has ended half of them. Towards
 * the end each worker gets one at a time, so that all end together. Closures of functions that
 * usually end at once go to one worker in batches even then: with a thousand workers most of what
 * such a closure costs is the system calls of its messages (docs/scale.md), and running a batch
 * takes less than sending a second message.
 *
 * Batches of a streamed dataset go to the worker that reads their range (range_owners.h). So that
 * there is something to choose from, closures of ranges are given their ids before they are handed
 * out: in the order of the queue, so that ids say what they always say, and as many as NUMBERED_...
 * in the source allows. They count as begun, and wait as those do that were put back.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_DISPATCHER_H
#define CADRE_COORDINATOR_CORE_DISPATCH_DISPATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/dispatch/acks.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/dispatch/pause.h"
#include "coordinator/core/dispatch/range_owners.h"
#include "coordinator/core/dispatch/reach.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/windows.h"

/* The objects that it reads and calls; borrowed for its life. */
typedef struct {
    const cadre_membership_t *members;
    const cadre_closure_queue_t *queue;
    const cadre_replay_t *replay;
    const cadre_windows_t *windows;
    const cadre_acks_t *acks;
    const cadre_reach_t *reach;
    const cadre_pause_t *pause;
    cadre_attempts_t *attempts;
    cadre_effects_t *effects;
} cadre_dispatcher_links_t;

/* A worker's credit is kept with the member (`credit`, `credit_...`). */
typedef struct {
    cadre_dispatcher_links_t links;
    uint32_t turn; /* index of the worker that is served next */
    cadre_range_owners_t ranges;
    size_t numbered_max; /* how many closures may have an id and wait, in this turn */
    uint32_t *usual_us;  /* [usual_count], by function id - 1: how long its closures usually take */
    uint32_t usual_count;
} cadre_dispatcher_t;

void cadre_dispatcher_init(cadre_dispatcher_t *self, const cadre_dispatcher_links_t *links);

/* Frees what the dispatcher holds. */
void cadre_dispatcher_fini(cadre_dispatcher_t *self);

/* Takes note that a closure of the function ended `took_us` after it had arrived at its worker. */
void cadre_dispatcher_note_done(cadre_dispatcher_t *self, uint32_t function, uint64_t took_us);

/* Hands out as many closures as workers can take, up to a limit for one turn. Returns whether it
 * stopped at that limit. */
bool cadre_dispatcher_tick(cadre_dispatcher_t *self);

/* Returns whether this worker could run the closure: its tag, abilities, reach and past overruns
 * allow it. Whether the worker has room does not matter. */
bool cadre_dispatcher_may_run(const cadre_dispatcher_t *self, const cadre_member_t *worker,
                              const cadre_closure_t *closure);

/* Returns whether the worker, which may be NULL, has room for another closure now. */
bool cadre_dispatcher_can_take(const cadre_dispatcher_t *self, cadre_member_t *worker);

/* Returns whether a closure that is queued again may be handed out now: during a replay, if it is
 * below the replay's limit; else unless it is being cancelled. */
bool cadre_dispatcher_may_go(const cadre_dispatcher_t *self, const cadre_closure_t *closure);

#endif
