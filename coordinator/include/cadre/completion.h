/*
 * completion - queues of futures that give them in the order in which their closures end.
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

/* Makes an empty completion queue: one descriptor for as many futures as there are closures. */
CADRE_API int cadre_completion_create(cadre_coordinator_t *self, cadre_completion_t **completion);

/* Adds a future, which stays the caller's and is used as before. It is in the queue until
 * cadre_completion_next gives it or it is destroyed, and in one queue at a time. One whose closure
 * has ended before counts as ended now.
 *
 * CADRE_EINVALID: it is of another coordinator.
 * CADRE_EEXISTS: it is in a completion queue. */
CADRE_API int cadre_completion_add(cadre_completion_t *self, cadre_future_t *future);

/* Waits until one of its closures has ended, takes that future out and gives it: of several the one
 * whose closure ended first. How it ended cadre_future_wait says, which does not wait any more. Of
 * several threads that wait each gets another.
 *
 * CADRE_ENOTFOUND: there is no future in it. */
CADRE_API int cadre_completion_next(cadre_completion_t *self, cadre_future_t **future,
                                    int64_t timeout_ms);

/* Gives a descriptor that polls readable while cadre_completion_next would give a future at once.
 * It belongs to the completion queue; nothing but that may read from it.
 *
 * CADRE_EIO: there is none to be had; the last ones are kept for connections. */
CADRE_API int cadre_completion_fd(cadre_completion_t *self, int *fd);

/* Returns how many futures are in it, ended or not; 0 for NULL. */
CADRE_API size_t cadre_completion_count(cadre_completion_t *self);

/* Destroys the queue and nulls the pointer; its futures are in none then. No other thread may wait
 * for it. It may be destroyed after its coordinator was closed. */
CADRE_API void cadre_completion_destroy(cadre_completion_t **self_p);

#ifdef __cplusplus
}
#endif
#endif
