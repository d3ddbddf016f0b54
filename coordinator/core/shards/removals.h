/*
 * removals - functions and resources that were dropped, until no closure can name them any more.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure that is scheduled after a drop cannot name what was dropped, since its handle is gone.
 * Closures from before may: they run, and run again for a shard that is restored. So what was
 * dropped stays, on the coordinator and on workers, until all closures that were put before the
 * drop have ended and none of them is kept for a replay. The drops are numbered in their order, and
 * a closure carries how many came before it (`removals`). Removals come due in that order: what an
 * earlier one waits for, a later one waits for, too.
 *
 * Variables have more to wait for, on shards and in checkpoints: drops.h.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_REMOVALS_H
#define CADRE_COORDINATOR_CORE_SHARDS_REMOVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/queue.h"
#include "common/wire/message.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/shards/replay.h"

/* What was dropped, and what it waits for. */
typedef struct {
    cadre_defined_t of; /* a function or a resource */
    uint32_t id;
    uint64_t barrier; /* barrier of the queue: the closures before it are waited for */
    uint64_t number;  /* of its drop, from 1 on; closures with fewer `removals` may name it */
} cadre_removal_t;

typedef struct {
    cadre_closure_queue_t *queue; /* borrowed: says which closures have ended */
    const cadre_replay_t *replay; /* borrowed: says which closures may run again */
    bool has_oldest;
    cadre_removal_t oldest; /* the one that comes due next; there is none without has_oldest */
    cadre_queue_t others;   /* of cadre_removal_t: those behind it, in the order of their drops */
    /* Cached: the lowest `removals` of all closures that the replay keeps, computed when it had
     * forgotten `seen_forgotten` and `seen_number` was that of the oldest removal; 0: not yet. */
    uint64_t fewest;
    uint64_t seen_forgotten;
    uint64_t seen_keeps;
    uint64_t seen_number;
} cadre_removals_t;

void cadre_removals_init(cadre_removals_t *self, cadre_closure_queue_t *queue,
                         const cadre_replay_t *replay);
void cadre_removals_fini(cadre_removals_t *self);

/* Has what was dropped wait for its removal. */
void cadre_removals_add(cadre_removals_t *self, cadre_defined_t of, uint32_t id);

/* Takes out the oldest that no closure can name any more; false when there is none. */
bool cadre_removals_take(cadre_removals_t *self, cadre_removal_t *out);

#endif
