/*
 * closure_lanes - closures that wait for a worker, in order, and each worker passes over those
 * whose resources it has not.
 *
 * Owner:   the closure queue. Thread: under the coordinator's lock.
 *
 * Closures that name the same resources, in the same order, wait in one lane, so that passing over
 * them costs a look at each lane, not at each closure; those that name none have a lane of their
 * own. Across lanes the places of closures tell which comes first.
 */
#ifndef CADRE_COORDINATOR_CLOSURE_LANES_H
#define CADRE_COORDINATOR_CLOSURE_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "common/resource_set.h"
#include "coordinator/closure.h"

typedef struct {
    uint64_t *resources;
    size_t resource_count;
    cadre_closure_list_t common;
    cadre_closure_list_t ready; /* common, not begun; arguments of them were results of others */
    cadre_closure_list_t tagged;
} cadre_closure_lane_t;

typedef struct {
    size_t common;                /* closures in all lanes that are not tagged */
    size_t tagged;                /* and that are */
    cadre_closure_lane_t **lanes; /* [count], none empty but the first, which names no resources */
    size_t count;
    size_t capacity;
    int64_t first_order; /* of what was pushed in front last */
    int64_t last_order;  /* of what was pushed behind last */
} cadre_closure_lanes_t;

void cadre_closure_lanes_init(cadre_closure_lanes_t *self);

/* Must be empty. */
void cadre_closure_lanes_fini(cadre_closure_lanes_t *self);

/* Each makes a closure QUEUED: behind all others, or before them. */
void cadre_closure_lanes_push(cadre_closure_lanes_t *self, cadre_closure_t *closure);
void cadre_closure_lanes_push_front(cadre_closure_lanes_t *self, cadre_closure_t *closure);

/* Takes a QUEUED closure out. */
void cadre_closure_lanes_remove(cadre_closure_lanes_t *self, cadre_closure_t *closure);

/* For cadre_closure_lanes_next: closures come out whether they have an id or not. */
enum { CADRE_QUEUE_NEW_TOO = 0 };

/* The one that comes first for the worker with index `worker`, which has the resources `built`:
 * tagged for it, begun before, ready, new; NULL when there is none. Only closures that were begun
 * before and have an id below `below`, or with CADRE_QUEUE_NEW_TOO any; no suspects, which are
 * tried apart (trials.c); none that `filter` (NULL: there is none) keeps from it, of which at most
 * CADRE_QUEUE_PASSED_MAX new ones in a row are passed over. */
cadre_closure_t *cadre_closure_lanes_next(const cadre_closure_lanes_t *self, uint32_t worker,
                                          uint64_t below, const cadre_resource_set_t *built,
                                          const cadre_closure_filter_t *filter);

/* Some closure; one that names this resource. NULL: there is none. */
cadre_closure_t *cadre_closure_lanes_any(const cadre_closure_lanes_t *self);
cadre_closure_t *cadre_closure_lanes_naming(const cadre_closure_lanes_t *self, uint64_t resource);

#endif
