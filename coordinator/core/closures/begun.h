/*
 * begun - closures that were begun: the ids that they were given, and who of them has not ended.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure gets its id when it is first handed out and keeps it, so ids that were handed out are a
 * prefix: everything below `next_id` was begun, and what of it is not here has ended.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_BEGUN_H
#define CADRE_COORDINATOR_CORE_CLOSURES_BEGUN_H

#include <stdint.h>

#include "common/base/u64_map.h"
#include "coordinator/core/closures/closure.h"

typedef struct {
    cadre_u64_map_t closures; /* by id: begun and not ended */
    uint64_t next_id;         /* of the next closure to be begun */
    uint64_t total;           /* closures that were given an id, those before a resume included */
    uint64_t refused;         /* closures that failed before they had an id, in this session */
    uint64_t resumed_at;      /* the first id of this session; 0 when it did not resume */
} cadre_begun_t;

void cadre_begun_init(cadre_begun_t *self);

/* The closures are ended by their queue. */
void cadre_begun_fini(cadre_begun_t *self);

/* Goes on where a checkpoint was cut, before the first closure. */
void cadre_begun_resume(cadre_begun_t *self, uint64_t next_id, uint64_t total);

/* Gives a closure that has none its id. */
void cadre_begun_add(cadre_begun_t *self, cadre_closure_t *closure);

/* Counts a closure that failed before it was begun. */
void cadre_begun_note_refused(cadre_begun_t *self);

/* Takes out a closure that has ended. */
void cadre_begun_end(cadre_begun_t *self, uint64_t id);

/* Returns the closure with this id, NULL when none was begun or it has ended. */
cadre_closure_t *cadre_begun_find(const cadre_begun_t *self, uint64_t id);

/* Returns the one with the lowest id, NULL when there is none. */
const cadre_closure_t *cadre_begun_oldest(const cadre_begun_t *self);

/* Returns the lowest id that has not ended, `next_id` when all have. */
uint64_t cadre_begun_lowest(const cadre_begun_t *self);

/* Marks every attempt so far as stale: it may have touched a shard as it was before. */
void cadre_begun_mark_stale(cadre_begun_t *self);

#endif
