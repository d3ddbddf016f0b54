/*
 * closure_lanes - closures that wait for a worker, in order; a worker skips those that need what it
 * does not have.
 *
 * Owner:   the closure queue. Thread: under the coordinator's lock.
 *
 * Closures of one priority that need the same - function, datasets, resources in the same order -
 * and read the same range of a dataset wait in one lane, so that skipping them costs a look at each
 * lane, not at each closure. Across lanes the priorities, then the places of closures tell which
 * comes first.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_LANES_H
#define CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/closures/abilities.h"
#include "coordinator/core/closures/closure.h"

/* Whether closures wait that no worker can run (`waits`), and since when. */
typedef struct {
    bool waits;
    uint64_t since_ms;
} cadre_unserved_t;

/* Notes that a closure which no worker can run waits at `now_ms`. Returns whether one has waited
 * for `limit_ms` without a break. */
bool cadre_unserved_for_long(cadre_unserved_t *self, uint64_t now_ms, uint64_t limit_ms);

/* Notes that no closure waits which no worker can run. */
void cadre_unserved_end(cadre_unserved_t *self);

typedef struct cadre_closure_lane {
    cadre_priority_t priority; /* priority of the closures of this lane */
    cadre_needs_t needs; /* what closures of this lane need; points into the next two fields */
    uint64_t *resources;
    uint64_t *batches;
    uint32_t range; /* of its closures; 0: none */
    cadre_unserved_t common_unserved;
    cadre_unserved_t tagged_unserved;
    /* Common closures that have an id: those that were put back, then those that were given one
     * before they were handed out. */
    cadre_closure_list_t begun;
    cadre_closure_list_t common; /* without an id */
    /* Common closures that were never begun and whose arguments come from results of others. */
    cadre_closure_list_t ready;
    cadre_closure_list_t tagged;
} cadre_closure_lane_t;

/* Zeroed memory has no closures. */
typedef struct {
    size_t common;                /* how many closures in all lanes are not tagged */
    size_t tagged;                /* how many closures in all lanes are tagged */
    size_t begun;                 /* how many closures in all lanes have an id and no tag */
    cadre_closure_lane_t **lanes; /* [count]; none is empty, unless it is the only one */
    size_t count;
    size_t capacity;
    int64_t first_order; /* `order` of the closure that was pushed in front last */
    int64_t last_order;  /* `order` of the closure that was pushed behind last */
} cadre_closure_lanes_t;

/* Frees the lanes, in which no closure may be left. */
void cadre_closure_lanes_fini(cadre_closure_lanes_t *self);

/* Queue a closure (state QUEUED) behind all others (push), or before all others (push_front). */
void cadre_closure_lanes_push(cadre_closure_lanes_t *self, cadre_closure_t *closure);
void cadre_closure_lanes_push_front(cadre_closure_lanes_t *self, cadre_closure_t *closure);

/* Takes a QUEUED closure out of its lane; its state is then the caller's to set. */
void cadre_closure_lanes_remove(cadre_closure_lanes_t *self, cadre_closure_t *closure);

/* Takes the QUEUED closures of a group (NULL: of none) out, to the end of `list`. */
void cadre_closure_lanes_move(cadre_closure_lanes_t *self, const cadre_closure_group_t *group,
                              cadre_closure_list_t *list);

/* Value of `below` for cadre_closure_lanes_next: new closures, which have no id yet, come out,
 * too. */
enum { CADRE_QUEUE_NEW_TOO = 0 };

/* Values of `below` that are above all numbers: closures that have an id come out; and only those
 * of them that a worker was given before. */
#define CADRE_QUEUE_NUMBERED   UINT64_MAX
#define CADRE_QUEUE_TRIED_ONLY (UINT64_MAX - 1)

/* Returns the closure that comes first for the worker with index `worker`, which has these
 * abilities; NULL when there is none. First come closures that are tagged for this worker, then
 * those that a worker was given before, then the others: by priority, and of each those that have
 * an id or are `ready` before new ones. Only closures count that were given to a worker before and
 * have a number below `below`, or those that CADRE_QUEUE_... says; no suspects, which are tried
 * apart (dispatch/trials.h); and none that `filter` (may be NULL), which decides by the function,
 * keeps from this worker. */
cadre_closure_t *cadre_closure_lanes_next(const cadre_closure_lanes_t *self, uint32_t worker,
                                          uint64_t below, const cadre_abilities_t *abilities,
                                          const cadre_closure_filter_t *filter);

/* Returns the first closure of the lane that has an id, is among those that `below` says, and may
 * go as for cadre_closure_lanes_next; NULL: none. */
cadre_closure_t *cadre_closure_lane_begun(const cadre_closure_lane_t *self, uint64_t below,
                                          const cadre_closure_filter_t *filter);

/* Returns the closure without id or tag that comes first for a worker with these abilities; NULL:
 * none. */
cadre_closure_t *cadre_closure_lanes_new(const cadre_closure_lanes_t *self,
                                         const cadre_abilities_t *abilities,
                                         const cadre_closure_filter_t *filter);

/* Notes that a QUEUED closure without a tag was given its id: it comes behind those of its lane
 * that have one. */
void cadre_closure_lanes_note_id(cadre_closure_lanes_t *self, cadre_closure_t *closure);

/* Return any queued closure; any queued closure that uses this resource. NULL when there is
 * none. */
cadre_closure_t *cadre_closure_lanes_any(const cadre_closure_lanes_t *self);
cadre_closure_t *cadre_closure_lanes_naming(const cadre_closure_lanes_t *self, uint64_t resource);

/* Tells whether no worker can run a closure with these needs and this tag (may be
 * CADRE_TAG_NONE). */
typedef bool cadre_is_unserved_t(const void *context, const cadre_needs_t *needs, uint32_t tag);

/* Returns a closure that no worker has been able to run for `limit_ms` or more; NULL when there is
 * none. The time is counted for each lane: it starts with the first call that finds a closure there
 * which no worker can run, and ends with a call that finds none. */
cadre_closure_t *cadre_closure_lanes_unserved(cadre_closure_lanes_t *self,
                                              cadre_is_unserved_t *is_unserved, const void *context,
                                              uint64_t now_ms, uint64_t limit_ms);

#endif
