/*
 * closure_group - closures that fail, are waited for and are cancelled together, apart from others.
 *
 * Owner:   counted: its handle, and each closure of it until that is freed.
 * Thread:  under the coordinator's lock.
 *
 * The closure queue keeps one for all closures that are scheduled without a group, and changes the
 * state of every group.
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
    bool is_heard;             /* somebody may join it */
    bool cancelling;           /* from a failure or cancel until nothing of it is in flight */
    size_t in_flight;          /* common and tagged */
    cadre_barriers_t barriers; /* of common and tagged closures */
    cadre_group_totals_t totals;
    int error; /* first failure since one was raised, 0 for none */
    size_t error_count;
    char error_text[CADRE_CLOSURE_ERROR_SIZE];
    bool is_failing;                          /* it is to be cancelled for a failure, */
    struct cadre_closure_group *next_failing; /* and these after it */
} cadre_closure_group_t;

/* An empty group with one reference, that of its handle. */
cadre_closure_group_t *cadre_closure_group_new(bool goes_on);
cadre_closure_group_t *cadre_closure_group_ref(cadre_closure_group_t *self);
void cadre_closure_group_unref(cadre_closure_group_t **self_p);

/* For one that is part of another struct, and not counted. */
void cadre_closure_group_init(cadre_closure_group_t *self);
void cadre_closure_group_fini(cadre_closure_group_t *self);

/* Notes that nobody can join it any more. */
void cadre_closure_group_forsake(cadre_closure_group_t *self);

/* Counts a closure that is put, or that has ended with `status`. */
void cadre_closure_group_note_put(cadre_closure_group_t *self);
void cadre_closure_group_note_end(cadre_closure_group_t *self, int status);

/* Count a closure that begins, or that is out of flight again. The second returns whether the group
 * was being cancelled until then, and is no more. */
void cadre_closure_group_begin(cadre_closure_group_t *self);
bool cadre_closure_group_leave_flight(cadre_closure_group_t *self);

/* Begins to cancel what is in flight. Returns whether there is any that was not being cancelled. */
bool cadre_closure_group_cancel(cadre_closure_group_t *self);

/* Puts a group in front of a list of those that are to be cancelled for a failure, where it is in
 * none; takes the first out, NULL when there is none. */
void cadre_closure_group_push_failing(cadre_closure_group_t *self, cadre_closure_group_t **list);
cadre_closure_group_t *cadre_closure_group_pop_failing(cadre_closure_group_t **list);

/* Keeps the first failure, and counts all. */
void cadre_closure_group_note_error(cadre_closure_group_t *self, int status, const char *text);

/* Takes the error, once, with its text in `text` (CADRE_CLOSURE_ERROR_SIZE bytes), which counts the
 * others; 0 when there is none. */
int cadre_closure_group_take_error(cadre_closure_group_t *self, char *text);

#endif
