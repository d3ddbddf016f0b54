/*
 * barriers - which closures a join waits for: all that were put into the queue before the join.
 *
 * Owner:   a closure queue. Thread: under the coordinator's lock.
 *
 * Closures that were put between two barriers share an interval, and each interval counts those of
 * its closures that have not ended. A barrier is passed when every interval up to its own is empty.
 * So a closure that is put or ends costs a count, however many wait; there are never more intervals
 * than closures that have not ended, and the one that is open.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_BARRIERS_H
#define CADRE_COORDINATOR_CORE_CLOSURES_BARRIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    size_t *alive; /* [capacity]: for each interval, how many of its closures have not ended */
    /* Index in `alive` of the oldest interval that is not empty; of the open one when all are. */
    size_t first;
    size_t count; /* intervals from `first` on; the last one is open: closures are put into it */
    size_t capacity;
    uint64_t oldest; /* number of the interval at `first` */
} cadre_barriers_t;

void cadre_barriers_init(cadre_barriers_t *self);
void cadre_barriers_fini(cadre_barriers_t *self);

/* Counts a closure that is put; returns its interval. */
uint64_t cadre_barriers_enter(cadre_barriers_t *self);

/* Counts the end of a closure of that interval. */
void cadre_barriers_leave(cadre_barriers_t *self, uint64_t interval);

/* Sets a barrier behind everything that was put so far; returns its number. */
uint64_t cadre_barriers_set(cadre_barriers_t *self);

/* Returns whether everything that was put before the barrier has ended. */
bool cadre_barriers_passed(const cadre_barriers_t *self, uint64_t barrier);

#endif
