/*
 * closure_group - the state of a group of closures: counts, first error, barriers, cancelling.
 *
 * Owner:   reference-counted: by the handle of the program, and by each closure of the group until
 *          the closure is freed.
 * Thread:  under the coordinator's lock.
 *
 * The closure queue has one such group for all closures that are scheduled without a group, and
 * counts and cancels in every group.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_GROUP_H
#define CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/group.h>

#include "coordinator/core/closures/barriers.h"

enum { CADRE_CLOSURE_ERROR_SIZE = 768 }; /* bytes of an error's text, the NUL included */

typedef struct cadre_closure_group {
    uint32_t references;
    bool goes_on;              /* a failure cancels nothing; a join raises it */
    bool is_unpaced;           /* its closures have no turn (pace.h): they are not the program's */
    bool is_heard;             /* the program has its handle and may join it */
    bool cancelling;           /* from a failure or cancel until no closure of it is in flight */
    size_t in_flight;          /* closures of the group in flight, those with a tag included */
    cadre_barriers_t barriers; /* points that joins wait for, over closures with a tag or without */
    cadre_group_totals_t totals;
    int error;          /* status of the first failure since the last was raised; 0: none */
    size_t error_count; /* failures since the last was raised */
    char error_text[CADRE_CLOSURE_ERROR_SIZE];
    bool is_failing; /* the group is in a list of groups that are to be cancelled for a failure */
    struct cadre_closure_group *next_failing; /* next in that list; NULL: last */
} cadre_closure_group_t;

/* Makes an empty group with one reference, that of its handle. The last unref frees the group. */
cadre_closure_group_t *cadre_closure_group_new(bool goes_on);

/* Makes a group that goes on, whose closures have no turn and change nobody else's. */
cadre_closure_group_t *cadre_closure_group_new_unpaced(void);
cadre_closure_group_t *cadre_closure_group_ref(cadre_closure_group_t *self);
void cadre_closure_group_unref(cadre_closure_group_t **self_p);

/* Make and end a group that is a field of another struct: its references are not counted. */
void cadre_closure_group_init(cadre_closure_group_t *self);
void cadre_closure_group_fini(cadre_closure_group_t *self);

/* Notes that the handle of the group is destroyed: nobody can join the group any more. */
void cadre_closure_group_forsake(cadre_closure_group_t *self);

/* Count, in the totals, a closure that is put into the queue, or that has ended with `status`. */
void cadre_closure_group_note_put(cadre_closure_group_t *self);
void cadre_closure_group_note_end(cadre_closure_group_t *self, int status);

/* Count a closure that is handed out, or that is no longer in flight. The second returns whether it
 * was the last one in flight of a group that is being cancelled: the cancelling is over then. */
void cadre_closure_group_begin(cadre_closure_group_t *self);
bool cadre_closure_group_leave_flight(cadre_closure_group_t *self);

/* Begins to cancel the closures in flight. Returns false when there are none, or when they are
 * being cancelled already. */
bool cadre_closure_group_cancel(cadre_closure_group_t *self);

/* Put a group at the front of the list of groups that are to be cancelled for a failure, unless it
 * is in the list; take the first group out, NULL when the list is empty. */
void cadre_closure_group_push_failing(cadre_closure_group_t *self, cadre_closure_group_t **list);
cadre_closure_group_t *cadre_closure_group_pop_failing(cadre_closure_group_t **list);

/* Counts a failure, and keeps status and text of the first one since the last was raised. */
void cadre_closure_group_note_error(cadre_closure_group_t *self, int status, const char *text);

/* Takes the first failure out: returns its status and writes its text, with the number of the other
 * failures, to `text` (CADRE_CLOSURE_ERROR_SIZE bytes). Returns 0 when there was no failure. */
int cadre_closure_group_take_error(cadre_closure_group_t *self, char *text);

#endif
