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
 * A job of programs whose one worker has one slot is in series (cadre_pace_set_serial): with steps
 * of one closure nothing waits for the end of a step, as the slot runs the next closure after it
 * anyway, and the ps applies each update when it arrives. So closures may start behind others that
 * are under way, as long as the worker is sure to run them in their order; those of which that is
 * not known are alone: they start when all before them are over, and are over before the next
 * starts.
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
    uint32_t size;      /* how many closures the group has so far */
    uint32_t remaining; /* how many closures of the group have neither ended nor are held for their
                         * step */
    uint32_t held;      /* how many closures of the group are held until the step ends */
    bool is_step;
    bool is_closed; /* no further closure belongs to it */
    bool is_begun;  /* a closure of the group was handed out */
    bool is_alone;  /* of a job in series: no other group is under way with it */
} cadre_pace_group_t;

typedef struct {
    cadre_consistency_t consistency;
    uint32_t size;              /* closures of a full step */
    uint64_t slack;             /* how many groups may be under way beside the oldest */
    cadre_pace_group_t *groups; /* [capacity]; groups that are not over stand from `first` on */
    size_t first;               /* index of the oldest group that is not over */
    /* Groups that are not over; only the last may be open to further closures. */
    size_t count;
    size_t capacity;
    uint64_t last;  /* number of the newest group so far; 0: none was made */
    bool is_serial; /* of steps of one closure, which the job's one slot runs one after the other */
    size_t alone_count; /* groups that are not over and alone */
} cadre_pace_t;

/* Sets the consistency. `size`: closures of a step, at least 1, for CADRE_SYNC; `bound`: the
 * staleness bound in closures, for CADRE_BOUNDED. */
void cadre_pace_init(cadre_pace_t *self, cadre_consistency_t consistency, uint32_t size,
                     uint32_t bound);
void cadre_pace_fini(cadre_pace_t *self);

/* Notes that the job is in series: CADRE_SYNC with steps of one closure, one worker of one slot.
 * Up to `ahead` groups may be under way beside the oldest. Called before the first closure. */
void cadre_pace_set_serial(cadre_pace_t *self, uint64_t ahead);

/* Returns the turn of a closure that is scheduled now. `may_push`: its function may push updates;
 * `after`: the highest turn of the closures whose results it takes, 0 for none. */
uint64_t cadre_pace_enter(cadre_pace_t *self, bool may_push, uint64_t after);

/* Notes that a closure of this turn is alone, in a job in series: the worker might start it before
 * one that came before it. */
void cadre_pace_note_alone(cadre_pace_t *self, uint64_t turn);

/* Returns whether closures of this turn, whose group is not over, are part of a step, until whose
 * end shards hold its updates; false in a job in series. */
bool cadre_pace_is_step(const cadre_pace_t *self, uint64_t turn);

/* Notes that a closure of this turn is begun. */
void cadre_pace_note_begun(cadre_pace_t *self, uint64_t turn);

/* Notes that a closure of this turn has ended which was not held. */
void cadre_pace_leave(cadre_pace_t *self, uint64_t turn);

/* Note that a closure of a step, whose update is on the shards, is held until the step ends; that a
 * held closure runs again. */
void cadre_pace_hold(cadre_pace_t *self, uint64_t turn);
void cadre_pace_unhold(cadre_pace_t *self, uint64_t turn);

/* Closes the step that is being filled: it ends with the closures that it has. */
void cadre_pace_cut_short(cadre_pace_t *self);

/* Returns how many closures are held for the step that is being filled; 0 while an earlier group is
 * not over. */
size_t cadre_pace_held_for_open(const cadre_pace_t *self);

/* Returns the number of the step that can be applied: each of its closures is held or has ended. 0
 * when there is none. */
uint64_t cadre_pace_whole_step(const cadre_pace_t *self);

/* Notes that the whole step was applied: it is over, and its held closures have ended. */
void cadre_pace_end_step(cadre_pace_t *self);

/* Returns the highest turn whose closures may start; UINT64_MAX for any. */
uint64_t cadre_pace_limit(const cadre_pace_t *self);

/* Returns whether no step is under way, begun and not over: a cut that is made now lies between two
 * steps. */
bool cadre_pace_is_between_steps(const cadre_pace_t *self);

#endif
