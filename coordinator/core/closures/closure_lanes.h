/*
 * closure_lanes - closures that wait for a worker, in order, and each worker skips those that need
 * what it has not.
 *
 * Owner:   the closure queue. Thread: under the coordinator's lock.
 *
 * Closures that need the same - function, datasets, resources in the same order - wait in one lane,
 * so that skipping them costs a look at each lane, not at each closure. Across lanes the places
 * of closures tell which comes first.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_LANES_H
#define CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/closures/abilities.h"
#include "coordinator/core/closures/closure.h"

/* How long closures have waited that no worker can run. */
typedef struct {
    bool waits;
    uint64_t since_ms;
} cadre_unserved_t;

/* Notes that something waits, from `now_ms` on where nothing did; returns whether it has for
 * `limit_ms`. */
bool cadre_unserved_for_long(cadre_unserved_t *self, uint64_t now_ms, uint64_t limit_ms);

/* Notes that nothing waits. */
void cadre_unserved_end(cadre_unserved_t *self);

typedef struct cadre_closure_lane {
    cadre_needs_t needs; /* in: */
    uint64_t *resources;
    uint64_t *batches;
    cadre_unserved_t common_unserved;
    cadre_unserved_t tagged_unserved;
    cadre_closure_list_t common;
    cadre_closure_list_t ready; /* common, not begun; arguments of them were results of others */
    cadre_closure_list_t tagged;
} cadre_closure_lane_t;

/* Zeroed memory has no closures. */
typedef struct {
    size_t common;                /* closures in all lanes that are not tagged */
    size_t tagged;                /* and that are */
    cadre_closure_lane_t **lanes; /* [count], none empty but the only one */
    size_t count;
    size_t capacity;
    int64_t first_order; /* of what was pushed in front last */
    int64_t last_order;  /* of what was pushed behind last */
} cadre_closure_lanes_t;

/* Must be empty. */
void cadre_closure_lanes_fini(cadre_closure_lanes_t *self);

/* Each makes a closure QUEUED: behind all others, or before them. */
void cadre_closure_lanes_push(cadre_closure_lanes_t *self, cadre_closure_t *closure);
void cadre_closure_lanes_push_front(cadre_closure_lanes_t *self, cadre_closure_t *closure);

/* Takes a QUEUED closure out. */
void cadre_closure_lanes_remove(cadre_closure_lanes_t *self, cadre_closure_t *closure);

/* For cadre_closure_lanes_next: closures come out whether they have an id or not. */
enum { CADRE_QUEUE_NEW_TOO = 0 };

/* The one that comes first for the worker with index `worker`, which has these abilities:
 * tagged for it, begun before, ready, new; NULL when there is none. Only closures that were begun
 * before and have an id below `below`, or with CADRE_QUEUE_NEW_TOO any; no suspects, which are
 * tried apart (dispatch/trials.h); none that `filter` (NULL: there is none) keeps from it, by
 * its function. */
cadre_closure_t *cadre_closure_lanes_next(const cadre_closure_lanes_t *self, uint32_t worker,
                                          uint64_t below, const cadre_abilities_t *abilities,
                                          const cadre_closure_filter_t *filter);

/* Return any queued closure; a queued closure that names this resource. NULL: there is none. */
cadre_closure_t *cadre_closure_lanes_any(const cadre_closure_lanes_t *self);
cadre_closure_t *cadre_closure_lanes_naming(const cadre_closure_lanes_t *self, uint64_t resource);

/* Whether no worker can run a closure with these needs, tagged for one or CADRE_TAG_NONE. */
typedef bool cadre_is_unserved_t(const void *context, const cadre_needs_t *needs, uint32_t tag);

/* A closure that has waited for `limit_ms` and more since no worker can run it; NULL: none has.
 * The time runs from the first call that finds it so to one that does not. */
cadre_closure_t *cadre_closure_lanes_unserved(cadre_closure_lanes_t *self,
                                              cadre_is_unserved_t *is_unserved, const void *context,
                                              uint64_t now_ms, uint64_t limit_ms);

#endif
