/*
 * closure_queue - which closures wait, how many are in flight, and the one pending error.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * The rules (those of TensorFlow's coordinator, and where ours go further):
 *   - What was put comes out in order; what is put back comes out first. A closure that needs what
 * a worker has not is passed over for it (coordinator/core/closures/closure_lanes.h, which tells
 * who is next).
 *   - Work tagged for a worker comes before common work, is given to no other worker, and join does
 * not wait for it.
 *   - The first failure is kept. Everything queued is cancelled at once, so that workers stop; what
 * is in flight is to be cancelled by the owner. Further failures are counted, later cancellations
 * are not.
 *   - One that takes a result of another as an argument is blocked until that has ended well, and
 * then comes before other new work, because values take memory. Those of one that fails fail with
 * it, by its status and text; they are not counted as further failures.
 *   - The error is raised once, by the first of schedule, join and done that asks, and only after
 * everything in flight has ended. Raising it makes the queue clean and usable.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_QUEUE_H
#define CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "coordinator/core/closures/barriers.h"
#include "coordinator/core/closures/closure_lanes.h"
#include "coordinator/core/closures/pace.h"

enum { CADRE_CLOSURE_ERROR_SIZE = 768 }; /* bytes of an error's text, the NUL included */

/* How a closure ended. `message` has the results of one that succeeded (NULL otherwise). */
typedef struct {
    int status;
    const char *text;
    const cadre_message_t *message;
} cadre_closure_end_t;

typedef struct {
    size_t capacity;                /* of what is common, and of what is tagged */
    cadre_closure_lanes_t lanes;    /* what is queued */
    cadre_barriers_t barriers;      /* of common closures */
    cadre_barriers_t drop_barriers; /* of all */
    uint64_t drops;                 /* of variables, so far */
    cadre_closure_list_t aside;     /* common or tagged; they need a shard that is away */
    size_t common_aside;
    cadre_pace_t pace;            /* of common closures */
    cadre_closure_list_t later;   /* whose turn has not come, by their turn */
    uint64_t placed;              /* closures that were put so far */
    cadre_closure_list_t blocked; /* common or tagged; they wait for a result of another */
    size_t common_blocked;
    size_t values_size_bytes; /* of all results that arguments of closures here are taken from */
    size_t values_size_max;   /* CADRE_VALUES_SIZE_MAX */
    size_t in_flight;         /* of common closures */
    size_t tagged_in_flight;
    bool cancelling; /* from a failure or cancel until nothing is in flight */
    int error;       /* first failure, 0 for none */
    size_t error_count;
    char error_text[CADRE_CLOSURE_ERROR_SIZE];
    cadre_closure_list_t ended; /* the oldest end first, until they are taken */
} cadre_closure_queue_t;

void cadre_closure_queue_init(cadre_closure_queue_t *self, size_t capacity);

/* Sets in what order closures may start, as cadre_pace_init; none has been put. */
void cadre_closure_queue_set_pace(cadre_closure_queue_t *self, cadre_consistency_t consistency,
                                  uint32_t size, uint32_t bound);

/* Ends everything queued as CADRE_ECLOSED. Nothing may be in flight. */
void cadre_closure_queue_close(cadre_closure_queue_t *self);

/* Closes it, where that was not done, and frees what has ended and was not taken. */
void cadre_closure_queue_fini(cadre_closure_queue_t *self);

/* Takes a closure that has ended, in the order of ends; it is the caller's from now on, and says
 * how it ended (`end_status`, `has_updates`). NULL: there is none. */
cadre_closure_t *cadre_closure_queue_take_ended(cadre_closure_queue_t *self);

/* Appends a new closure. CADRE_EAGAIN when it must wait: its list is full, there is no room for its
 * values, an error waits to be raised, or everything is being cancelled. What is put back finds
 * room in a full queue. No closure that its arguments come from has failed
 * (cadre_closure_argument_check).
 */
int cadre_closure_queue_put(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* Puts a queued closure in flight. */
void cadre_closure_queue_begin(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* Both, for a worker without resources and data: the next one, in flight; NULL. */
cadre_closure_t *cadre_closure_queue_take(cadre_closure_queue_t *self, uint32_t worker,
                                          uint64_t below);

/* Returns a closure in flight to the front; ends it as cancelled instead while everything is being
 * cancelled. */
void cadre_closure_queue_put_back(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* Holds a closure that is part of a step, whose updates are in: it was in flight, or queued again
 * after it was. Returns one that is held to the front, to run again. */
void cadre_closure_queue_hold(cadre_closure_queue_t *self, cadre_closure_t *closure);
void cadre_closure_queue_unhold(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* The step that is whole (cadre_pace_whole_step) was applied, and each closure that was held for it
 * has been finished. */
void cadre_closure_queue_end_step(cadre_closure_queue_t *self);

/* Lets the step that is being filled end with the closures that it has: somebody waits for them. */
void cadre_closure_queue_cut_short(cadre_closure_queue_t *self);

/* The same, but it does not come out before cadre_closure_queue_release: it needs a shard that is
 * away. */
void cadre_closure_queue_put_aside(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* What was put aside goes to the front, the oldest first. */
void cadre_closure_queue_release(cadre_closure_queue_t *self);

/* Notes a failure that no closure of the queue ends with, as the pending error. */
void cadre_closure_queue_report(cadre_closure_queue_t *self, int status, const char *text);

/* Ends a closure that is in flight or held, or queued again after it was. A status below 0 other
 * than CADRE_ECANCELLED becomes the pending error. */
void cadre_closure_queue_finish(cadre_closure_queue_t *self, cadre_closure_t *closure,
                                const cadre_closure_end_t *end);

/* Cancels what is queued and refuses new closures until nothing is in flight. */
void cadre_closure_queue_cancel(cadre_closure_queue_t *self);

/* 0 when no error is pending; CADRE_EAGAIN when one is but closures are still in flight; else the
 * error, once, with its text in `text` (CADRE_CLOSURE_ERROR_SIZE bytes), which counts the others.
 */
int cadre_closure_queue_raise(cadre_closure_queue_t *self, char *text);

/* Nothing common is queued, blocked or in flight. */
bool cadre_closure_queue_done(const cadre_closure_queue_t *self);

/* Sets a barrier behind the common closures that were put so far; returns its number. */
uint64_t cadre_closure_queue_set_barrier(cadre_closure_queue_t *self);

/* Returns whether each of those has ended; closures that were put since do not matter. */
bool cadre_closure_queue_passed(const cadre_closure_queue_t *self, uint64_t barrier);

/* Counts a drop of a variable; returns the number of a barrier behind all closures that were put so
 * far, common and tagged. */
uint64_t cadre_closure_queue_note_drop(cadre_closure_queue_t *self);

/* Returns whether each of those has ended. */
bool cadre_closure_queue_passed_by_all(const cadre_closure_queue_t *self, uint64_t barrier);

/* Common closures that wait for a worker or are blocked. */
size_t cadre_closure_queue_waiting(const cadre_closure_queue_t *self);

/* Whether anything could be handed out, to some worker. */
bool cadre_closure_queue_has_work(const cadre_closure_queue_t *self);

#endif
