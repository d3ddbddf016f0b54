/*
 * closure - one call of a function, from schedule to its end.
 *
 * Owner:   the closure queue from put to the end; then the core, which keeps what pushed updates
 *          for a replay (coordinator/core/shards/replay.h) and frees the others.
 * Thread:  under the coordinator's lock.
 */
#ifndef CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_H
#define CADRE_COORDINATOR_CORE_CLOSURES_CLOSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/message.h"
#include "common/wire/outbox.h"
#include "common/wire/tensor_list.h"
#include "coordinator/core/closures/abilities.h"
#include "coordinator/core/closures/results.h"
#include "coordinator/core/closures/suspicion.h"

typedef enum {
    CADRE_CLOSURE_NEW,     /* not in the queue */
    CADRE_CLOSURE_BLOCKED, /* an argument of it is a result of another that has not ended */
    CADRE_CLOSURE_LATER,   /* its turn has not come (coordinator/core/closures/pace.h) */
    CADRE_CLOSURE_QUEUED,
    CADRE_CLOSURE_ASIDE,     /* it needs a shard that is away */
    CADRE_CLOSURE_IN_FLIGHT, /* on a worker */
    CADRE_CLOSURE_HELD,      /* its updates are in, and count when its step ends */
    CADRE_CLOSURE_ENDED,     /* and perhaps kept for a replay */
} cadre_closure_state_t;

/* Attempts whose workers are remembered, so that their reports are believed; that of an attempt
 * before these counts for nothing. */
enum { CADRE_HANDED_MAX = 16 };

/* Worker index of a closure that any worker may run. */
#define CADRE_TAG_NONE UINT32_MAX

typedef struct cadre_closure {
    struct cadre_closure *next; /* in the list that `state` says: a queue's, or the worker's */
    struct cadre_closure *previous;
    cadre_closure_state_t state;
    uint64_t
        id; /* 0 until it is first handed out; then this and the next `steps` - 1 are its own */
    uint64_t number;  /* with an id: how many were begun up to it */
    uint64_t attempt; /* 1 for the first */
    uint32_t function;
    uint32_t steps;
    uint32_t variables; /* that existed when it was scheduled */
    uint64_t drops;     /* of variables, before it was put into the queue */
    uint64_t turn;      /* number of its group; 0: it need not wait for its turn */
    uint64_t place;     /* among all that were put into the queue, from 1 on */
    bool may_push;      /* its function may push updates */
    bool in_step;       /* it is part of a synchronous step, of number `turn` */
    uint32_t tag;       /* index of the one worker that may run it, or CADRE_TAG_NONE */
    bool wants_results;
    uint64_t *batches; /* as in the CLOSURE message */
    size_t batch_items;
    char **names;
    size_t name_count;
    cadre_tensor_list_t tensors;
    cadre_closure_argument_t *arguments; /* that are results of other closures */
    size_t argument_count;
    size_t missing;           /* of these, those that wait */
    cadre_results_t *results; /* what it gives; NULL: nobody asked, or it has ended */
    uint64_t *resources;      /* ids of those that it uses */
    size_t resource_count;
    struct cadre_closure_lane *lane; /* QUEUED: the queue's, of those that need the same */
    int64_t order;                   /* QUEUED: its place among all that are queued as it is */

    struct cadre_member *worker; /* IN_FLIGHT: the one that has it */
    uint64_t handed_to;          /* incarnation that has the last attempt, or had it */
    uint64_t *handed; /* [CADRE_HANDED_MAX] of the attempts before, at attempt modulo that; NULL:
                           there was none */
    uint64_t sent_ms;
    uint64_t begun_ms;    /* when the last attempt was handed out, */
    bool is_running;      /* and whether it is among those that its worker may be running, */
    uint64_t running_ms;  /* since when, without the coordinator's stalls; */
    uint64_t named_ms;    /* how long that was when the log last named it; */
    bool stays;           /* it is past the deadline and there is no other worker for it */
    uint64_t deadline_ms; /* of one attempt; 0: none */
    uint32_t overruns;    /* attempts that ran past it */
    uint64_t overran_on
        [CADRE_OVERRUNS_MAX];    /* incarnations that do not get it; 0: none, or let in again */
    uint32_t device_failures;    /* attempts that devices have ended */
    cadre_suspicion_t suspicion; /* whether it kills workers, */
    uint64_t trial;              /* and incarnation of the one that is to try; 0: none */
    uint64_t sequence;           /* the caller's number; 0: none */
    uint64_t
        interval; /* the queue's, between two barriers (coordinator/core/closures/barriers.h) */
    uint64_t drop_interval; /* the same, of those that drops set */
    uint64_t raced;         /* incarnation of the worker on which an attempt goes on beside the
                                     last one; 0: none */
    uint64_t stale;         /* attempts up to this one began before a shard was restored */
    bool kept;              /* it has ended well and is kept for a replay */
    cadre_outbox_entry_t *report; /* HELD: what its worker told */
    int end_status;               /* ENDED: how, */
    bool has_updates;             /* and whether shards have updates of it */
} cadre_closure_t;

/* An empty closure of `function` with one step and no tag. */
cadre_closure_t *cadre_closure_new(uint32_t function);

/* Keeps what a worker told of its end, until it is taken, once, or dropped. */
void cadre_closure_keep_report(cadre_closure_t *self, const cadre_message_t *message);
int cadre_closure_take_report(cadre_closure_t *self, cadre_message_t *out);
void cadre_closure_drop_report(cadre_closure_t *self);

/* Adds an argument that is the result `result` (NULL: the only one, or the first) of the closure
 * that `from` is of. Before it is put into the queue. */
void cadre_closure_add_argument(cadre_closure_t *self, const char *name, const char *result,
                                cadre_results_t *from);

/* Fills in the values of these arguments, which have all ended. CADRE_ENOTFOUND for a result that
 * is not there, CADRE_ETOOLARGE when all arguments are more than CADRE_ARGUMENTS_SIZE_MAX or take
 * more chunks than a message holds, CADRE_EMALFORMED. */
int cadre_closure_take_values(cadre_closure_t *self);

/* Must be in no list. */
void cadre_closure_destroy(cadre_closure_t **self_p);

/* Begins another attempt, on the worker with this incarnation. */
void cadre_closure_hand_to(cadre_closure_t *self, uint64_t incarnation);

/* Whether it is handed out apart from all others, to a worker chosen for it (dispatch/trials.h). */
bool cadre_closure_is_apart(const cadre_closure_t *self);

/* Whether this worker was given that attempt. */
bool cadre_closure_was_handed_to(const cadre_closure_t *self, uint64_t attempt,
                                 uint64_t incarnation);

/* Whether it ran past its deadline on this worker, which is not to try again. */
bool cadre_closure_has_overrun_on(const cadre_closure_t *self, uint64_t incarnation);

/* What a worker must have to run it; borrowed. */
cadre_needs_t cadre_closure_needs(const cadre_closure_t *self);

/* Memory that it takes, roughly, without results of others: what a replay's bound counts. */
size_t cadre_closure_size_bytes(const cadre_closure_t *self);

/* What a worker is not to have, for a reason that changes from turn to turn. */
typedef struct {
    bool (*keeps_back)(const void *context, const cadre_closure_t *closure);
    const void *context;
} cadre_closure_filter_t;

/* Returns whether `filter`, which may be NULL, keeps it back. */
bool cadre_closure_is_kept_back(const cadre_closure_t *self, const cadre_closure_filter_t *filter);

/* A list of closures; zeroed memory is an empty one. */
typedef struct {
    cadre_closure_t *first;
    cadre_closure_t *last;
    size_t count;
} cadre_closure_list_t;

void cadre_closure_list_push(cadre_closure_list_t *self, cadre_closure_t *closure);
void cadre_closure_list_push_front(cadre_closure_list_t *self, cadre_closure_t *closure);
void cadre_closure_list_remove(cadre_closure_list_t *self, cadre_closure_t *closure);

/* Where its id belongs in a list that ascends by id; fast where that is near an end. */
void cadre_closure_list_insert(cadre_closure_list_t *self, cadre_closure_t *closure);

/* Where its turn, or its place, belongs: behind those that have the same. */
void cadre_closure_list_insert_by_turn(cadre_closure_list_t *self, cadre_closure_t *closure);
void cadre_closure_list_insert_by_place(cadre_closure_list_t *self, cadre_closure_t *closure);

#endif
