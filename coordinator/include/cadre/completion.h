/*
 * completion - completion queues: each gives its futures in the order in which their closures end.
 *
 *     s = cadre_completion_create(job, &done);
 *     for (int i = 0; i < 50 && !s; i++) {
 *         s = cadre_coordinator_schedule(job, trial, &call, -1, &future);
 *         s = s ? s : cadre_completion_add(done, future);
 *     }
 *     while (!s && cadre_completion_count(done) > 0) {
 *         s = cadre_completion_next(done, &future, -1);
 *         s = s ? s : cadre_future_fetch_number(future, "loss", &loss, 0);
 *         cadre_future_destroy(&future);
 *     }
 *     cadre_completion_destroy(&done);
 *
 * Names, errors, waiting and threads are as <cadre/coordinator.h> says.
 */
#ifndef CADRE_COMPLETION_H
#define CADRE_COMPLETION_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/coordinator.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cadre_completion cadre_completion_t; /* the caller's: cadre_completion_destroy */

/* Makes an empty completion queue. It may hold any number of futures, and one descriptor
 * (cadre_completion_fd) tells of all of them. */
CADRE_API int cadre_completion_create(cadre_coordinator_t *self, cadre_completion_t **completion);

/* Adds a future, which stays the caller's: waiting for it and fetching from it work as before. It
 * leaves the queue when cadre_completion_next gives it or the caller destroys it, and can be in one
 * queue at a time. A future whose closure has ended already counts as ended at this moment.
 *
 * CADRE_EINVALID: the future is of another coordinator.
 * CADRE_EEXISTS: the future is in a completion queue. */
CADRE_API int cadre_completion_add(cadre_completion_t *self, cadre_future_t *future);

/* Waits until the closure of a future in the queue has ended, takes that future out and gives it;
 * of several the one whose closure ended first. cadre_future_wait then returns at once, with how
 * the closure ended. Several threads may wait: no two get the same future.
 *
 * CADRE_ENOTFOUND: the queue is empty. */
CADRE_API int cadre_completion_next(cadre_completion_t *self, cadre_future_t **future,
                                    int64_t timeout_ms);

/* Gives a descriptor that polls readable while cadre_completion_next would give a future at once.
 * The descriptor belongs to the completion queue: the caller polls it, but neither reads nor
 * closes.
 *
 * CADRE_EIO: too few descriptors are left; the last ones of the process are kept for
 * connections. */
CADRE_API int cadre_completion_fd(cadre_completion_t *self, int *fd);

/* Returns how many futures are in the queue, their closures ended or not; 0 for NULL. */
CADRE_API size_t cadre_completion_count(cadre_completion_t *self);

/* Destroys the queue and nulls the pointer; futures in it live on, in no queue. No other thread may
 * be waiting in cadre_completion_next. A queue may be destroyed after its coordinator was
 * closed. */
CADRE_API void cadre_completion_destroy(cadre_completion_t **self_p);

#ifdef __cplusplus
}
#endif
#endif
