/*
 * results - what a closure gives: for its future, and for closures that take a result as an
 * argument.
 *
 * Owner:   reference-counted: the closure until it has ended, its future, every argument that takes
 *          a result.
 * Thread:  under the coordinator's lock. Once `ended` only its counts change, so that a future may
 *          read it without the lock.
 *
 * A closure that takes results of another one that has not ended is BLOCKED
 * (coordinator/core/closures/closure_queue.h): each such argument stands in the `waiting` list of
 * the results that it takes.
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
    char *text;                         /* error text of a failed closure; NULL otherwise */
    uint64_t closure_id;                /* id of the closure; set when it has ended */
    uint64_t attempt;                   /* number of the attempt that gave the results */
    struct cadre_value_holder *holders; /* workers that have some of the values */
    size_t holder_count;
    /* Counter that says which holder a new one replaces when there are too many. */
    size_t holder_next;
    char **names;
    size_t name_count;
    cadre_tensor_list_t tensors;
    struct cadre_closure_argument *waiting_first; /* arguments that wait for the end */
    struct cadre_closure_argument *waiting_last;
    uint64_t turn;               /* turn of the closure (coordinator/core/closures/pace.h) */
    struct cadre_future *future; /* the API's future that is notified of the end; NULL: none */
    size_t takers;               /* how many arguments of closures that wait or run take these
                                  * results */
    /* How many arguments of closures that are kept for a replay take these results. */
    size_t kept;
    bool counted; /* cadre_results_count_once has counted its bytes */
} cadre_results_t;

/* A worker that has results because it was sent them or computed them; bit k stands for result
 * k. */
typedef struct cadre_value_holder {
    uint64_t worker; /* incarnation of the worker */
    uint64_t results;
} cadre_value_holder_t;

/* An argument that is a result of another closure. */
typedef struct cadre_closure_argument {
    /* Neighbours in the list of arguments that wait for the same results. */
    struct cadre_closure_argument *next;
    struct cadre_closure_argument *previous;
    struct cadre_closure *closure; /* whose argument it is */
    char *name;
    char *result; /* name of the result; NULL: the first */
    cadre_results_t *from;
    bool waits;
    bool is_there;             /* `position` and `value` are filled in */
    size_t position;           /* index of the result among the results of the other closure */
    cadre_tensor_list_t value; /* one tensor, whose chunks are shared with `from` */
} cadre_closure_argument_t;

/* Returns new results with one reference; add one; drop one, which frees them with the last. */
cadre_results_t *cadre_results_new(void);
cadre_results_t *cadre_results_ref(cadre_results_t *self);
void cadre_results_unref(cadre_results_t **self_p);

/* Sets the future that is notified of the end; NULL: none. */
void cadre_results_set_future(cadre_results_t *self, struct cadre_future *future);

/* Notes the turn of the closure. */
void cadre_results_set_turn(cadre_results_t *self, uint64_t turn);

/* Notes that the closure has ended. Keeps the tensors of its report `message` (by reference) if it
 * ended well and the report has some, else status and text. */
void cadre_results_end(cadre_results_t *self, uint64_t closure_id, int status, const char *text,
                       const cadre_message_t *message);

/* Returns whether the worker with this incarnation should have the result at `position`, as far as
 * the coordinator knows. */
bool cadre_results_are_on(const cadre_results_t *self, size_t position, uint64_t worker);

/* Note that the worker was sent that result; that it turns out to lack it. */
void cadre_results_told(cadre_results_t *self, size_t position, uint64_t worker);
void cadre_results_lacked(cadre_results_t *self, size_t position, uint64_t worker);

/* Count an argument that takes these results: of a closure that waits or runs (take), or of one
 * that is kept for a replay (keep); or count one less (let_go, keep_no_more). Return by how many
 * bytes the memory held for waiting and running closures (take, let_go), or for kept ones (keep,
 * keep_no_more), changes: the size of the values at the first argument and at the last, else 0. */
size_t cadre_results_take(cadre_results_t *self);
size_t cadre_results_let_go(cadre_results_t *self);
size_t cadre_results_keep(cadre_results_t *self);
size_t cadre_results_keep_no_more(cadre_results_t *self);

/* Returns the bytes of the values at the first call, and 0 from then on until
 * cadre_results_uncount: for a sum over closures that may take the same results. */
size_t cadre_results_count_once(cadre_results_t *self);
void cadre_results_uncount(cadre_results_t *self);

/* Gives the position of the result called `name` (NULL: the first) of a closure that has ended
 * well. CADRE_ENOTFOUND when there is no such result. */
int cadre_results_find(const cadre_results_t *self, const char *name, size_t *position);

/* Returns 0 when the argument's value is there, or may be once the closure that it comes from has
 * ended. Otherwise that closure's status when it has failed, or CADRE_ENOTFOUND when it has no such
 * result. The error text names the argument. */
int cadre_closure_argument_check(const cadre_closure_argument_t *self);

/* Fills in the argument's value; the closure that it comes from has ended well. CADRE_ENOTFOUND
 * when there is no such result, CADRE_EMALFORMED when its tensor cannot be decoded. */
int cadre_closure_argument_take(cadre_closure_argument_t *self);

/* Put an argument into the list of arguments that wait for the results; take it out. */
void cadre_closure_argument_wait(cadre_closure_argument_t *self);
void cadre_closure_argument_wait_no_more(cadre_closure_argument_t *self);

void cadre_closure_argument_fini(cadre_closure_argument_t *self);

#endif
