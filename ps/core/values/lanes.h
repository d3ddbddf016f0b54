/*
 * lanes - how a shard has the pieces of one update computed by several threads, without starting
 * any itself.
 *
 * Owner:   who made the shard; `context` outlives it.
 * Thread:  the shard's; `each` is called on others too.
 *
 * The shard's thread checks an update, hands the pieces of the work to the lanes, waits until all
 * are done, and marks the update as applied. So whatever comes next - a pull, a snapshot - finds
 * the update whole, and the result does not depend on which lane did which piece. The shell's lanes
 * are threads (lane_pool.h); the simulation and tests have none.
 */
#ifndef CADRE_PS_CORE_VALUES_LANES_H
#define CADRE_PS_CORE_VALUES_LANES_H

#include <stddef.h>

enum { CADRE_LANES_ALONE_COUNT = 131072 }; /* numbers of an update below which no lane is woken */

/* Zeroed: the caller's own thread does all. */
typedef struct {
    void *context;

    /* Calls `each` once for every index below `count`, several at once where there are threads for
     * it; returns when all calls have. Each call writes only what belongs to its index. */
    void (*run)(void *context, size_t count, void (*each)(void *argument, size_t index),
                void *argument);
} cadre_lanes_t;

/* Calls `each` for every index below `count` on these lanes. */
void cadre_lanes_run(const cadre_lanes_t *self, size_t count,
                     void (*each)(void *argument, size_t index), void *argument);

#endif
