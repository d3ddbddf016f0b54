/*
 * closure_queue - which closures wait, how many are in flight, and the pending error of each group.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * The rules are those of TensorFlow's ClusterCoordinator, with additions:
 *   - Closures come out in the order in which they were put; one that is put back comes out first.
 * A worker that does not have what a closure needs skips that closure
 * (coordinator/core/closures/closure_lanes.h tells which is next).
 *   - A closure that is tagged for a worker comes before common closures and is given to no other
 * worker; join does not wait for it.
 *   - Closures belong to a group, and those that name none to the queue's own. The first failure in
 * a group is kept as its pending error. Everything queued of it is cancelled at once, so that
 * workers stop; closures of it in flight are cancelled by the owner. Further failures are counted,
 * cancellations are not. A group that goes on cancels nothing.
 *   - A closure that takes a result of another as an argument is blocked until that other has ended
 * well, and then comes before other new closures, because the values of results take memory. If the
 * other fails, the blocked closure fails with the same status and text; that counts as a failure
 * only when the two are of different groups.
 *   - The pending error is raised once, by the first call of schedule, join or done, and only after
 * everything of the group in flight has ended. Raising it makes the group clean and usable. The
 * error of a group that goes on is raised by its join alone.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_QUEUE_H
#define CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "coordinator/core/closures/barriers.h"
#include "coordinator/core/closures/closure_group.h"
#include "coordinator/core/closures/closure_lanes.h"
#include "coordinator/core/closures/pace.h"

/* How a closure ended. `message` has the results of one that succeeded (NULL otherwise). */
typedef struct {
    int status;
    const char *text;
    const cadre_message_t *message;
} cadre_closure_end_t;

typedef struct {
    size_t capacity;             /* how many closures without a tag may wait at most, and how many
                                  * with one */
    cadre_closure_lanes_t lanes; /* closures that are QUEUED */
    cadre_barriers_t barriers;   /* what a join waits for: common closures only */
    /* What the deletion of a dropped variable waits for: all closures. */
    cadre_barriers_t drop_barriers;
    uint64_t drops;             /* how many variables were dropped so far */
    uint64_t removals;          /* how many functions and resources were dropped so far */
    cadre_closure_list_t aside; /* closures, common or tagged, that need a shard that is away */
    size_t common_aside;
    cadre_pace_t pace;          /* turns of the common closures: those without a tag */
    uint64_t dataset;           /* of a job in series: that of the newest closure's first batch */
    cadre_closure_list_t later; /* closures whose turn has not come, ordered by it */
    /* How many closures were put into the queue so far, those of clients left out. */
    uint64_t placed;
    /* Closures, with a tag or without, that wait for a result of another. */
    cadre_closure_list_t blocked;
    size_t common_blocked;
    bool lacks_room; /* the closure that was to be put last found no room and was not put since */
    /* Bytes of all results that closures of this queue, in flight or not, take as arguments. */
    size_t values_size_bytes;
    /* While values that closures take as arguments have this many bytes or more, no further closure
     * that takes results is put; CADRE_VALUES_SIZE_MAX. */
    size_t values_size_max;
    size_t in_flight; /* how many common closures are in flight or held */
    size_t tagged_in_flight;
    /* Everything is being cancelled: from cadre_closure_queue_cancel until nothing is in flight. */
    bool cancelling;
    cadre_closure_group_t own; /* the closures without a group; its barriers are not used */
    size_t groups_cancelling;  /* how many groups are being cancelled, `own` included */
    uint64_t cancels;          /* how often a group or everything was cancelled so far */
    /* Groups that are about to be cancelled for a failure; NULL between two calls. */
    cadre_closure_group_t *failing;
    /* Closures that have ended and were not taken yet, in the order of their ends. */
    cadre_closure_list_t ended;
} cadre_closure_queue_t;

void cadre_closure_queue_init(cadre_closure_queue_t *self, size_t capacity);

/* Sets in what order closures may start, as cadre_pace_init does. Called before the first is
 * put. */
void cadre_closure_queue_set_pace(cadre_closure_queue_t *self, cadre_consistency_t consistency,
                                  uint32_t size, uint32_t bound);

/* Ends everything queued as CADRE_ECLOSED. Nothing may be in flight. */
void cadre_closure_queue_close(cadre_closure_queue_t *self);

/* Closes the queue, if that was not done, and frees closures that have ended and were not taken. */
void cadre_closure_queue_fini(cadre_closure_queue_t *self);

/* Takes out the closure that ended first; the caller owns it from now on and finds in it how it
 * ended (`end_status`, `has_updates`). Returns NULL when there is none. */
cadre_closure_t *cadre_closure_queue_take_ended(cadre_closure_queue_t *self);

/* Appends a new closure. CADRE_EAGAIN, and nothing changes, when the caller must wait: too many
 * closures wait, there is no room for the values of its arguments, an error of its group waits to
 * be raised, or the group or everything is being cancelled. (A closure that is put back finds room
 * even in a full queue.) None of the closures that its arguments come from may have failed
 * (cadre_closure_argument_check). */
int cadre_closure_queue_put(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* Appends a closure of the call that has just been let in by cadre_closure_queue_put, for another
 * worker: whether there is room or not, since a call has all its closures or none. */
void cadre_closure_queue_put_beside(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* Puts a queued closure in flight. */
void cadre_closure_queue_begin(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* Puts the next closure in flight for a worker that has no resources and no datasets, and returns
 * it; NULL when there is none. */
cadre_closure_t *cadre_closure_queue_take(cadre_closure_queue_t *self, uint32_t worker,
                                          uint64_t below);

/* Returns a closure that is in flight to the front of the queue; one that is being cancelled ends
 * as cancelled instead. */
void cadre_closure_queue_put_back(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* Hold a closure of a synchronous step, whose updates are on the shards, until the step ends: it is
 * in flight, or was in flight and is queued again. Return a held closure to the front, to run
 * again. */
void cadre_closure_queue_hold(cadre_closure_queue_t *self, cadre_closure_t *closure);
void cadre_closure_queue_unhold(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* Notes that the step which was whole (cadre_pace_whole_step) was applied. Every closure that was
 * held for it must have been finished. */
void cadre_closure_queue_end_step(cadre_closure_queue_t *self);

/* Lets the step that is being filled end with the closures that it has: the program waits for one
 * of them and schedules no more. */
void cadre_closure_queue_cut_short(cadre_closure_queue_t *self);

/* Takes a closure out of flight as cadre_closure_queue_put_back does, but keeps it until
 * cadre_closure_queue_release: it needs a shard that is away. */
void cadre_closure_queue_put_aside(cadre_closure_queue_t *self, cadre_closure_t *closure);

/* Moves all closures that were put aside to the front of the queue, the one with the lowest id
 * first. */
void cadre_closure_queue_release(cadre_closure_queue_t *self);

/* Makes a failure the pending error of a group (or counts it), without ending a closure with it;
 * of the queue's own group where `group` is NULL, or nobody can join it. */
void cadre_closure_queue_report(cadre_closure_queue_t *self, cadre_closure_group_t *group,
                                int status, const char *text);

/* Ends a closure that is in flight or held, or queued again after it was. A status below 0 other
 * than CADRE_ECANCELLED becomes the pending error of its group. */
void cadre_closure_queue_finish(cadre_closure_queue_t *self, cadre_closure_t *closure,
                                const cadre_closure_end_t *end);

/* Cancels what is queued and refuses new closures until nothing is in flight. */
void cadre_closure_queue_cancel(cadre_closure_queue_t *self);

/* Cancels what is queued of a group, and refuses new closures of it until nothing of it is in
 * flight. */
void cadre_closure_queue_cancel_group(cadre_closure_queue_t *self, cadre_closure_group_t *group);

/* Returns whether a closure is being cancelled: it ends as soon as it is out of flight. */
bool cadre_closure_queue_is_cancelled(const cadre_closure_queue_t *self,
                                      const cadre_closure_t *closure);

/* Returns whether anything is being cancelled. */
bool cadre_closure_queue_is_cancelling(const cadre_closure_queue_t *self);

/* Returns 0 when no error of the queue's own group is pending; CADRE_EAGAIN when one is but
 * closures of it are still in flight; else the error, once. Its text, which says how many more
 * failed, is written to `text` (CADRE_CLOSURE_ERROR_SIZE bytes). */
int cadre_closure_queue_raise(cadre_closure_queue_t *self, char *text);

/* Raises the error of a group as cadre_closure_queue_raise does. A group that goes on has its error
 * raised even while closures of it are in flight. */
int cadre_closure_queue_raise_of(cadre_closure_group_t *group, char *text);

/* Returns whether no common closure is queued, blocked, put aside or in flight. */
bool cadre_closure_queue_done(const cadre_closure_queue_t *self);

/* Returns whether no closure, common or tagged, is queued, blocked, put aside or in flight. */
bool cadre_closure_queue_is_empty(const cadre_closure_queue_t *self);

/* Sets a barrier behind the common closures that were put so far; returns its number. */
uint64_t cadre_closure_queue_set_barrier(cadre_closure_queue_t *self);

/* Returns whether all common closures that were put before the barrier have ended. */
bool cadre_closure_queue_passed(const cadre_closure_queue_t *self, uint64_t barrier);

/* Counts the drop of a variable. Returns the number of a barrier behind all closures that were put
 * so far, common and tagged. */
uint64_t cadre_closure_queue_note_drop(cadre_closure_queue_t *self);

/* Counts the drop of a function or a resource; returns a barrier as cadre_closure_queue_note_drop
 * does. */
uint64_t cadre_closure_queue_note_removal(cadre_closure_queue_t *self);

/* Returns whether all closures, common and tagged, that were put before that barrier have ended. */
bool cadre_closure_queue_passed_by_all(const cadre_closure_queue_t *self, uint64_t barrier);

/* Return how many common closures wait for a worker or for their turn, or are blocked; how many
 * closures, common and tagged, do; how many of both are in flight or held. */
size_t cadre_closure_queue_waiting(const cadre_closure_queue_t *self);
size_t cadre_closure_queue_all_waiting(const cadre_closure_queue_t *self);
size_t cadre_closure_queue_all_in_flight(const cadre_closure_queue_t *self);

/* Returns whether any closure is queued, so that some worker might get it. */
bool cadre_closure_queue_has_work(const cadre_closure_queue_t *self);

#endif
