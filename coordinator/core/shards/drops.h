/*
 * drops - variables that are being dropped, and who may still name them.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     CALLED    closures that are scheduled from now on do not find the variable; those from
 *               before do
 *      -> RETIRED  these have all ended: that is the drop's place in the order of updates. The
 *                  name is free, checkpoints that are cut from now on leave the variable out. Its
 *                  values stay on the shards for closures that may run again
 *          -> done     no such closure is kept any more, and no cut that holds the variable is
 *                      open: the shards forget it, its id is vacant
 *
 * Drops are numbered in the order in which they are called; a closure carries how many came before
 * it (`drops`), which is what tells it from others of the same name. They retire, and are done, in
 * that order: what an earlier drop waits for, a later one waits for, too.
 *
 * Here is only who is due. What a step means for shards, workers and checkpoints others carry out:
 * cadre_drops_take_retired and cadre_drops_take_done give one variable after the other.
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
    uint64_t barrier; /* of the queue: whom it waits for */
} cadre_drop_t;

typedef struct {
    cadre_closure_queue_t *queue; /* borrowed: says who has ended */
    const cadre_replay_t *replay; /* borrowed: who may run again */
    uint64_t called;              /* how many there were; */
    uint64_t retired;             /* of these, the first so many have retired, */
    uint64_t done;                /* and the first so many are done */
    cadre_drop_t *drops;          /* from `first` on the [called - done] others, the oldest first */
    size_t first;
    uint64_t fewest;         /* before any closure that the replay keeps, as it was */
    uint64_t seen_retired;   /* when so many had retired, */
    uint64_t seen_forgotten; /* and the replay had forgotten so many closures */
} cadre_drops_t;

void cadre_drops_init(cadre_drops_t *self, cadre_closure_queue_t *queue,
                      const cadre_replay_t *replay);
void cadre_drops_fini(cadre_drops_t *self);

/* Begins to drop a variable that was created, and was not dropped; returns the drop's number. The
 * handle is the core's from now on. */
uint64_t cadre_drops_call(cadre_drops_t *self, cadre_variable_t *variable);

/* Counts the oldest drop that was called as retired, if it is; returns its variable, or NULL. */
cadre_variable_t *cadre_drops_take_retired(cadre_drops_t *self);

/* Counts the oldest drop that has retired as done, if it is; returns its variable, which the caller
 * ends, or NULL. `cut`: how many drops had retired before the cut that is open, which holds what
 * later ones took; UINT64_MAX: none is open. */
cadre_variable_t *cadre_drops_take_done(cadre_drops_t *self, uint64_t cut);

/* Returns variable number `at`, from 0 on, of those that have retired and are not done; NULL: there
 * are no more. */
const cadre_variable_t *cadre_drops_kept(const cadre_drops_t *self, size_t at);

#endif
