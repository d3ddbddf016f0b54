/*
 * completion - the futures of a completion queue: those that wait for their closure, and those that
 * have finished, in the order in which they did.
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

/* A future's place in a completion queue; zeroed memory is in none. */
typedef struct cadre_completion_entry {
    struct cadre_completion_entry *next;
    struct cadre_completion_entry *previous;
    struct cadre_completion *completion; /* NULL: it is in none */
    cadre_future_t *future;
    bool is_finished;
} cadre_completion_entry_t;

typedef struct {
    cadre_completion_entry_t *first;
    cadre_completion_entry_t *last;
    size_t count;
} cadre_completion_list_t;

struct cadre_completion {
    cadre_gate_t *gate;
    cadre_coordinator_t *coordinator; /* only while the gate is not closed */
    cadre_completion_list_t waiting;
    cadre_completion_list_t finished;
    int fd; /* -1 until somebody asks; readable while something has finished */
};

cadre_completion_t *cadre_completion_new(cadre_gate_t *gate, cadre_coordinator_t *coordinator);

/* Takes every future out, and frees it. */
void cadre_completion_free(cadre_completion_t *self);

/* Puts a future in that is in none. */
void cadre_completion_enter(cadre_completion_t *self, cadre_completion_entry_t *entry,
                            cadre_future_t *future, bool is_finished);

/* Notes that a future's closure has ended; it may be in no completion queue. */
void cadre_completion_finish(cadre_completion_entry_t *entry);

/* Takes a future out, wherever it is. */
void cadre_completion_leave(cadre_completion_entry_t *entry);

/* Takes out the future that has finished first; NULL when none has. */
cadre_future_t *cadre_completion_pop(cadre_completion_t *self);

/* Opens the descriptor at its first use. CADRE_EIO. */
int cadre_completion_ensure_fd(cadre_completion_t *self);

#endif
