/*
 * work_queue - the runs that wait for a slot thread.
 *
 * Owner:   main, who opens it before the threads that use it and destroys it after them.
 * Thread:  the network actor puts, clears and rests, slot threads take.
 *
 * This is the worker's one lock (README.md, rule 4). Actors otherwise talk over pipes; but a pipe
 * has one reader, and a run handed to a certain slot would wait behind a long one while another
 * slot is idle. With one queue for all slots the next free one takes the next run, without a round
 * trip to the network actor, which is most of the cost of a closure that does nothing.
 */
#ifndef CADRE_WORKER_SLOT_WORK_QUEUE_H
#define CADRE_WORKER_SLOT_WORK_QUEUE_H

#include "common/system/look.h"
#include "worker/slot/work.h"

typedef struct cadre_work_queue cadre_work_queue_t;

cadre_work_queue_t *cadre_work_queue_new(void);

/* Destroys the queue and the works still in it. */
void cadre_work_queue_destroy(cadre_work_queue_t **self_p);

/* Appends a list of works linked by `next`, which the queue owns from now on. */
void cadre_work_queue_put(cadre_work_queue_t *self, cadre_work_t *first);

/* Waits for the oldest work, which is the caller's then; NULL once the queue is closed. Looks for a
 * moment before it sleeps; with NULL for `look` it does not. */
cadre_work_t *cadre_work_queue_take(cadre_work_queue_t *self, cadre_look_t *look);

/* Waits while at least `low` works wait for a slot, `rest_us` at the longest; ends at once where
 * cadre_work_queue_disturb was called since the rest before. One thread at a time. */
void cadre_work_queue_rest(cadre_work_queue_t *self, size_t low, uint32_t rest_us);

/* Ends a rest, from any thread. */
void cadre_work_queue_disturb(cadre_work_queue_t *self);

/* Takes everything that no slot has taken yet, as a list; NULL for nothing. */
cadre_work_t *cadre_work_queue_clear(cadre_work_queue_t *self);

/* Closes the queue: every cadre_work_queue_take returns NULL from now on. */
void cadre_work_queue_close(cadre_work_queue_t *self);

#endif
