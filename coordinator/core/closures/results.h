/*
 * results - what a closure gives: for its future, and for closures that take it as an argument.
 *
 * Owner:   counted: the closure until it has ended, its future, every argument that comes from it.
 * Thread:  under the coordinator's lock. Once `ended` only its counts change, so that a future may
 *          read it without the lock.
 *
 * A closure that takes results of one that has not ended stands in that one's `waiting` list, once
 * for each such argument, and is BLOCKED (coordinator/core/closures/closure_queue.h).
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_RESULTS_H
#define CADRE_COORDINATOR_CORE_CLOSURES_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/message.h"
#include "common/wire/tensor_list.h"

struct cadre_closure;
struct cadre_closure_argument;
struct cadre_future;

typedef struct {
    uint32_t references;
    bool ended;
    int status;                         /* how the closure ended */
    char *text;                         /* of a failure */
    uint64_t closure_id;                /* once ended */
    uint64_t attempt;                   /* that gave them */
    struct cadre_value_holder *holders; /* workers that have some of them */
    size_t holder_count;
    size_t holder_next; /* which of them is forgotten for another */
    char **names;
    size_t name_count;
    cadre_tensor_list_t tensors;
    struct cadre_closure_argument *waiting_first; /* arguments that wait for the end */
    struct cadre_closure_argument *waiting_last;
    uint64_t turn;               /* of the closure (coordinator/core/closures/pace.h) */
    struct cadre_future *future; /* the API's, notified of the end; NULL: nobody is */
    size_t takers;               /* arguments of closures that are queued or run */
    size_t kept;                 /* arguments of closures that are kept for a replay */
    bool counted;                /* by cadre_results_count_once */
} cadre_results_t;

/* A worker that has been told, or has computed, results: bit k for result k. */
typedef struct cadre_value_holder {
    uint64_t worker; /* its incarnation */
    uint64_t results;
} cadre_value_holder_t;

/* An argument that is a result of another closure. */
typedef struct cadre_closure_argument {
    struct cadre_closure_argument *next; /* of those that wait for the same */
    struct cadre_closure_argument *previous;
    struct cadre_closure *closure; /* whose argument it is */
    char *name;
    char *result; /* NULL: the only one, or the first */
    cadre_results_t *from;
    bool waits;
    bool is_there;             /* `position` and `value` are */
    size_t position;           /* of the result */
    cadre_tensor_list_t value; /* one tensor; shares its chunks */
} cadre_closure_argument_t;

/* With one reference. */
cadre_results_t *cadre_results_new(void);
cadre_results_t *cadre_results_ref(cadre_results_t *self);
void cadre_results_unref(cadre_results_t **self_p);

/* Sets the future that is notified of the end; NULL: none. */
void cadre_results_set_future(cadre_results_t *self, struct cadre_future *future);

/* Notes the turn of the closure. */
void cadre_results_set_turn(cadre_results_t *self, uint64_t turn);

/* The closure has ended: keeps the tensors of its report (by reference) where it ended well and
 * `message` has some, else status and text. */
void cadre_results_end(cadre_results_t *self, uint64_t closure_id, int status, const char *text,
                       const cadre_message_t *message);

/* Whether a worker should have the result at `position`, as far as is known here. */
bool cadre_results_are_on(const cadre_results_t *self, size_t position, uint64_t worker);

/* It was told, or lacks, that result. */
void cadre_results_told(cadre_results_t *self, size_t position, uint64_t worker);
void cadre_results_lacked(cadre_results_t *self, size_t position, uint64_t worker);

/* Count an argument that takes these results, of a closure that is queued or runs, or of one that
 * is kept for a replay; or one less. Return by how much that changes the memory that such closures
 * hold: the bytes of the values with the first argument and with the last, else 0. */
size_t cadre_results_take(cadre_results_t *self);
size_t cadre_results_let_go(cadre_results_t *self);
size_t cadre_results_keep(cadre_results_t *self);
size_t cadre_results_keep_no_more(cadre_results_t *self);

/* Returns the bytes of the values, and 0 from then on until they are uncounted: for a sum over
 * closures that may take the same results. */
size_t cadre_results_count_once(cadre_results_t *self);
void cadre_results_uncount(cadre_results_t *self);

/* Position of the result called `name` (NULL: the first) of one that has ended well.
 * CADRE_ENOTFOUND. */
int cadre_results_find(const cadre_results_t *self, const char *name, size_t *position);

/* Whether an argument can be had, or may be once the closure has ended: 0, the status of that one
 * when it has failed, CADRE_ENOTFOUND when it has no such result. The text names the argument. */
int cadre_closure_argument_check(const cadre_closure_argument_t *self);

/* Fills in the value, once the closure that it comes from has ended well. CADRE_ENOTFOUND,
 * CADRE_EMALFORMED. */
int cadre_closure_argument_take(cadre_closure_argument_t *self);

/* Puts an argument into the list of those that wait, or takes it out. */
void cadre_closure_argument_wait(cadre_closure_argument_t *self);
void cadre_closure_argument_wait_no_more(cadre_closure_argument_t *self);

void cadre_closure_argument_fini(cadre_closure_argument_t *self);

#endif
