/*
 * drops - variables that are being dropped, and which closures may still name them.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     CALLED    closures that are scheduled from now on do not find the variable; earlier ones do
 *      -> RETIRED  these earlier closures have all ended: that is the drop's place in the order of
 *                  updates. The name is free, and checkpoints that are cut from now on leave the
 *                  variable out. Its values stay on the shards for closures that may run again
 *          -> done     no closure that used it is kept for a replay any more, and no cut that holds
 *                      the variable is open: the shards forget it, its id is vacant
 *
 * Drops are numbered in the order in which they are called. A closure carries how many drops came
 * before it (`drops`): so a name means the variable that had it then. Drops retire, and are done,
 * in that order: what an earlier drop waits for, a later drop waits for, too.
 *
 * This file decides only which drop is due. Others carry out what that means for shards, workers
 * and checkpoints: cadre_drops_take_retired and cadre_drops_take_done give them one variable after
 * the other.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_DROPS_H
#define CADRE_COORDINATOR_CORE_SHARDS_DROPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/coordinator.h>

#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/shards/replay.h"

typedef struct {
    cadre_variable_t *variable;
    uint64_t barrier; /* barrier of the queue: the closures before it are waited for */
} cadre_drop_t;

typedef struct {
    cadre_closure_queue_t *queue; /* borrowed: says which closures have ended */
    const cadre_replay_t *replay; /* borrowed: says which closures may run again */
    uint64_t called;              /* how many drops were called */
    uint64_t retired;             /* how many drops, the first ones, have retired */
    uint64_t done;                /* how many drops, the first ones, are done */
    /* The [called - done] drops that are not done stand from `first` on, the oldest first. */
    cadre_drop_t *drops;
    size_t first;
    /* Cached: the lowest `drops` of all closures that the replay keeps, computed when `retired` was
     * `seen_retired` and the replay's `forgotten` was `seen_forgotten`. */
    uint64_t fewest;
    uint64_t seen_retired;   /* `retired` when `fewest` was computed */
    uint64_t seen_forgotten; /* the replay's `forgotten` when `fewest` was computed */
} cadre_drops_t;

void cadre_drops_init(cadre_drops_t *self, cadre_closure_queue_t *queue,
                      const cadre_replay_t *replay);
void cadre_drops_fini(cadre_drops_t *self);

/* Begins to drop a variable that was created, and was not dropped; returns the drop's number. The
 * core owns the handle from now on. */
uint64_t cadre_drops_call(cadre_drops_t *self, cadre_variable_t *variable);

/* Counts the oldest drop that was called as retired, if it is; returns its variable, or NULL. */
cadre_variable_t *cadre_drops_take_retired(cadre_drops_t *self);

/* Counts the oldest retired drop as done, if it is; returns its variable, which the caller ends, or
 * NULL. `cut`: how many drops had retired when the open cut began, which holds the variables of
 * later drops; UINT64_MAX: no cut is open. */
cadre_variable_t *cadre_drops_take_done(cadre_drops_t *self, uint64_t cut);

/* Returns variable number `at`, from 0 on, of those whose drop has retired and is not done; NULL:
 * there are no more. */
const cadre_variable_t *cadre_drops_kept(const cadre_drops_t *self, size_t at);

#endif
