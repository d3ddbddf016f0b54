/*
 * begun - closures that were begun: the ids that they were given, and which of them have not ended.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure gets its id when it is first handed out, or somewhat before, and keeps it. So the ids
 * in use are a prefix: every closure with an id below `next_id` was begun, and those that are not
 * in `closures` have ended.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_BEGUN_H
#define CADRE_COORDINATOR_CORE_CLOSURES_BEGUN_H

#include <stdint.h>

#include "common/base/u64_map.h"
#include "coordinator/core/closures/closure.h"

typedef struct {
    cadre_u64_map_t closures; /* closures that were begun and have not ended, by id */
    uint64_t next_id;         /* id of the next closure to be begun */
    uint64_t of_clients;      /* ids that closures of clients were given, in this session */
    uint64_t total;           /* closures that were given an id, those before a resume included */
    uint64_t handed_out;      /* closures that were handed out, in this session */
    uint64_t steps;           /* steps of the closures begun in this session that may push */
    uint64_t refused;         /* closures that failed before they had an id, in this session */
    uint64_t failed;          /* closures of the program that failed or were cancelled after they
                               * had an id, in this session */
    uint64_t resumed_at;      /* the first id of this session; 0 when it did not resume */
} cadre_begun_t;

void cadre_begun_init(cadre_begun_t *self);

/* Forgets the closures without ending them: their queue does that. */
void cadre_begun_fini(cadre_begun_t *self);

/* Goes on with the ids where a checkpoint was cut. Called before the first closure is begun. */
void cadre_begun_resume(cadre_begun_t *self, uint64_t next_id, uint64_t total);

/* Gives a closure that has none its id. */
void cadre_begun_add(cadre_begun_t *self, cadre_closure_t *closure);

/* Gives a closure that has an id its number: it is handed out for the first time. */
void cadre_begun_hand_out(cadre_begun_t *self, cadre_closure_t *closure);

/* Returns the number that the next closure will get. */
uint64_t cadre_begun_next_number(const cadre_begun_t *self);

/* Counts a closure that failed before it was begun. */
void cadre_begun_note_refused(cadre_begun_t *self);

/* Takes out a closure that has ended. */
void cadre_begun_end(cadre_begun_t *self, const cadre_closure_t *closure);

/* Counts a closure that had ended well and failed when it ran again for a replay. */
void cadre_begun_note_failed(cadre_begun_t *self, const cadre_closure_t *closure);

/* Returns the closure with this id, NULL when none was begun or it has ended. */
cadre_closure_t *cadre_begun_find(const cadre_begun_t *self, uint64_t id);

/* Returns the closure with the lowest id that has not ended, NULL when there is none. */
const cadre_closure_t *cadre_begun_oldest(const cadre_begun_t *self);

/* Returns whether a closure that a worker was given has not ended. Others may have their id before
 * (dispatch/dispatcher.h). */
bool cadre_begun_has_tried(const cadre_begun_t *self);

/* Returns whether a closure with an id below `below` has not been handed out yet. */
bool cadre_begun_has_untried(const cadre_begun_t *self, uint64_t below);

/* Returns the lowest id of a closure that has not ended, `next_id` when all have. */
uint64_t cadre_begun_lowest(const cadre_begun_t *self);

/* Marks every attempt so far as stale: it may have pushed to a shard that was restored since. */
void cadre_begun_mark_stale(cadre_begun_t *self);

#endif
