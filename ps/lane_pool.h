/*
 * lane_pool - threads that do the work of a shard's lanes, and sleep between updates.
 *
 * Owner:   the ps's shard actor.
 * Thread:  opened and destroyed by its owner; its lanes are run by one thread at a time, which
 * works along.
 *
 * The lock and the condition are an exception to the rule of one thread to a state: an update takes
 * milliseconds, a message to each thread and back would take as long. What is shared under the lock
 * is which run is under way; the next index is an atomic counter; everything else belongs to the
 * index that a thread was given.
 */
#ifndef CADRE_PS_LANE_POOL_H
#define CADRE_PS_LANE_POOL_H

#include "common/base/limits.h"
#include "ps/core/lanes.h"

typedef struct cadre_lane_pool cadre_lane_pool_t;

/* `lanes` threads, the caller's own among them: 1 starts none. CADRE_EIO when one cannot be
 * started, CADRE_EINVALID for a number that is not in 1..CADRE_LANES_MAX. */
int cadre_lane_pool_open(unsigned lanes, cadre_lane_pool_t **out);

/* Ends the threads. NULL inside is fine. */
void cadre_lane_pool_destroy(cadre_lane_pool_t **self_p);

/* The lanes of the pool, which must outlive whoever uses them. */
cadre_lanes_t cadre_lane_pool_lanes(cadre_lane_pool_t *self);

#endif
