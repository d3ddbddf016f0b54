/*
 * lane_pool - the threads behind a shard's lanes (ps/core/values/lanes.h), which sleep between
 * updates.
 *
 * Owner:   the ps's shard actor.
 * Thread:  opened and destroyed by its owner; one thread at a time has the lanes run, and computes
 *          too.
 *
 * The lock and the condition are an exception to the rule of one thread to a state: an update takes
 * milliseconds, a message to each thread and back would take as long. What is shared under the lock
 * is which run is under way; the next index is an atomic counter; everything else belongs to the
 * index that a thread was given.
 */
#ifndef CADRE_PS_LANE_POOL_H
#define CADRE_PS_LANE_POOL_H

#include "common/base/limits.h"
#include "ps/core/values/lanes.h"

typedef struct cadre_lane_pool cadre_lane_pool_t;

/* Makes a pool of `lanes` threads, the caller's own among them: 1 starts none. Fails with CADRE_EIO
 * when a thread cannot be started, CADRE_EINVALID for a number that is not in
 * 1..CADRE_LANES_MAX. */
int cadre_lane_pool_open(unsigned lanes, cadre_lane_pool_t **out);

/* Ends the threads. NULL inside is fine. */
void cadre_lane_pool_destroy(cadre_lane_pool_t **self_p);

/* Returns the pool as lanes for a shard; the pool must outlive the shard. */
cadre_lanes_t cadre_lane_pool_lanes(cadre_lane_pool_t *self);

#endif
