/*
 * open_works - the works of a worker that have not ended, each in the place of its run.
 *
 * A work that was started waits for the end of the turn, then goes into the queue with all others
 * of that turn: slots are woken once.
 *
 * Owner:   the network actor.
 * Thread:  its own, or that of a slot which uses the core (worker/README.md, rule 5).
 */
#ifndef CADRE_WORKER_OPEN_WORKS_H
#define CADRE_WORKER_OPEN_WORKS_H

#include "worker/slot/work_queue.h"

/* Not to be moved once works were started. */
typedef struct {
    cadre_work_t **places; /* by the run's place (`slot`); NULL: none is there */
    cadre_work_t *started; /* list of works that were started in this turn */
    cadre_work_t **started_last_p;
    size_t count; /* that were started, or are in the queue or on slots */
} cadre_open_works_t;

/* Initialises for runs in places below `place_count`. */
void cadre_open_works_init(cadre_open_works_t *self, size_t place_count);

/* Frees the places, in which there is no work any more. */
void cadre_open_works_fini(cadre_open_works_t *self);

/* Makes the work of a run, which has a place where no other is. It stays the queue's. */
cadre_work_t *cadre_open_works_start(cadre_open_works_t *self, cadre_run_t *run);

/* Returns the work in a place; NULL: there is none. */
cadre_work_t *cadre_open_works_at(const cadre_open_works_t *self, uint32_t place);

/* Takes a work that has ended out of its place; it is the caller's to destroy. */
void cadre_open_works_end(cadre_open_works_t *self, const cadre_work_t *work);

/* Puts the works that were started since the last call into the queue, in that order. */
void cadre_open_works_put(cadre_open_works_t *self, cadre_work_queue_t *queue);

#endif
