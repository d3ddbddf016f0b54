/*
 * pace - which closures may start: the consistency of a job as an order of groups.
 *
 * Owner:   the closure queue. Thread: under the coordinator's lock.
 *
 * Closures are put into groups in the order in which they are scheduled, and at most `slack` + 1
 * groups are under way: a closure may start when every group more than `slack` before its own is
 * over. Its group's number is its turn.
 *
 *     async     no groups, every turn is 0
 *     bounded   each closure is a group, slack is the staleness bound: no value that a closure
 *               pulls misses an update that is more than that many closures old
 *     sync      the next `size` closures that may push are a group, which is a step: it is over
 *               when its updates are applied, as one (cadre_pace_end_step). Closures between two
 *               steps that push nothing are a group of their own, so that they read what the step
 *               before them made. Slack is 0.
 *
 * A step ends with fewer closures where the program waits for one of them (cadre_pace_cut_short),
 * or another takes its result: it would wait for closures that nobody schedules. That is decided by
 * the order of the program's calls alone, so that the steps are the same in every run.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_PACE_H
#define CADRE_COORDINATOR_CORE_CLOSURES_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/coordinator.h>

typedef struct {
    uint64_t number;    /* from 1 on */
    uint32_t size;      /* closures so far */
    uint32_t remaining; /* of these, those that have neither ended nor are held for their step */
    uint32_t held;      /* for the end of the step */
    bool is_step;
    bool is_closed; /* no further closure belongs to it */
    bool is_begun;  /* one of it has an id */
} cadre_pace_group_t;

typedef struct {
    cadre_consistency_t consistency;
    uint32_t size;              /* of a step */
    uint64_t slack;             /* groups under way beside the first */
    cadre_pace_group_t *groups; /* [capacity], those that are not over are */
    size_t first;               /* from this one on, */
    size_t count;               /* so many, the last one open to further closures or closed */
    size_t capacity;
    uint64_t last; /* number of the newest group; 0: there was none */
} cadre_pace_t;

/* `size`: closures of a step, at least 1; `bound`: of bounded staleness. */
void cadre_pace_init(cadre_pace_t *self, cadre_consistency_t consistency, uint32_t size,
                     uint32_t bound);
void cadre_pace_fini(cadre_pace_t *self);

/* Returns the turn of a closure that is scheduled now. `may_push`: its function may push updates;
 * `after`: the highest turn of those whose results it takes, 0 for none. */
uint64_t cadre_pace_enter(cadre_pace_t *self, bool may_push, uint64_t after);

/* Returns whether closures of this turn are part of a step, which is not over. */
bool cadre_pace_is_step(const cadre_pace_t *self, uint64_t turn);

/* Notes that a closure of this turn is begun. */
void cadre_pace_note_begun(cadre_pace_t *self, uint64_t turn);

/* Takes a closure out that has ended and was not held. */
void cadre_pace_leave(cadre_pace_t *self, uint64_t turn);

/* Holds a closure of a step, whose update is in, for the end of the step; or runs it again. */
void cadre_pace_hold(cadre_pace_t *self, uint64_t turn);
void cadre_pace_unhold(cadre_pace_t *self, uint64_t turn);

/* Ends the step that is being filled with the closures that it has. */
void cadre_pace_cut_short(cadre_pace_t *self);

/* Returns the number of the step whose closures are all held, or have ended: it can be applied; 0
 * when there is none. */
uint64_t cadre_pace_whole_step(const cadre_pace_t *self);

/* The step that is whole was applied: it is over, and what was held has ended. */
void cadre_pace_end_step(cadre_pace_t *self);

/* Returns the highest turn that may start. */
uint64_t cadre_pace_limit(const cadre_pace_t *self);

/* Returns whether no step is in the middle: a cut that is made now lies between two of them. */
bool cadre_pace_is_between_steps(const cadre_pace_t *self);

#endif
