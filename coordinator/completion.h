/*
 * completion - the two lists of a completion queue: futures whose closure has not ended, and
 * futures whose closure has, in the order in which the closures ended.
 *
 * Owner:   the caller of cadre_completion_create.
 * Thread:  under the gate's lock.
 */
#ifndef CADRE_COORDINATOR_COMPLETION_H
#define CADRE_COORDINATOR_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>

#include <cadre/completion.h>

#include "coordinator/gate.h"

/* A future's place in a completion queue, part of the future; zeroed memory is in no queue. */
typedef struct cadre_completion_entry {
    struct cadre_completion_entry *next;
    struct cadre_completion_entry *previous;
    struct cadre_completion *completion; /* NULL: in no queue */
    cadre_future_t *future;
    bool is_finished; /* in the list `finished` of the queue, else in `waiting` */
} cadre_completion_entry_t;

typedef struct {
    cadre_completion_entry_t *first;
    cadre_completion_entry_t *last;
    size_t count;
} cadre_completion_list_t;

struct cadre_completion {
    cadre_gate_t *gate;
    cadre_coordinator_t *coordinator; /* valid while the gate is not closed */
    cadre_completion_list_t waiting;
    cadre_completion_list_t finished;
    int fd; /* eventfd; -1 until asked for; readable while `finished` is not empty */
};

cadre_completion_t *cadre_completion_new(cadre_gate_t *gate, cadre_coordinator_t *coordinator);

/* Takes every future out of the queue, and frees the queue, not the futures. */
void cadre_completion_free(cadre_completion_t *self);

/* Puts a future, which must be in no queue, into this one; `is_finished`: its closure has ended. */
void cadre_completion_enter(cadre_completion_t *self, cadre_completion_entry_t *entry,
                            cadre_future_t *future, bool is_finished);

/* Notes that a future's closure has ended; does nothing when the future is in no queue. */
void cadre_completion_finish(cadre_completion_entry_t *entry);

/* Takes a future out of its queue; does nothing when it is in none. */
void cadre_completion_leave(cadre_completion_entry_t *entry);

/* Takes out and returns the future whose closure ended first; NULL when none has ended. */
cadre_future_t *cadre_completion_pop(cadre_completion_t *self);

/* Opens the descriptor unless it is open. Fails with CADRE_EIO when too few descriptors are
 * left. */
int cadre_completion_ensure_fd(cadre_completion_t *self);

#endif
