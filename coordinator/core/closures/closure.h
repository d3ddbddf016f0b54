/*
 * closure - one call of a function, from schedule to its end.
 *
 * Owner:   the closure queue from put to the end; then the core, which keeps closures that pushed
 *          updates for a replay (coordinator/core/shards/replay.h) and frees the others.
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
#include "coordinator/core/closures/closure_group.h"
#include "coordinator/core/closures/results.h"
#include "coordinator/core/closures/suspicion.h"

typedef enum {
    CADRE_CLOSURE_NEW, /* not in the queue */
    /* An argument of it is a result of another closure, which has not ended. */
    CADRE_CLOSURE_BLOCKED,
    CADRE_CLOSURE_LATER, /* the closure's turn has not come (pace.h) */
    CADRE_CLOSURE_QUEUED,
    CADRE_CLOSURE_ASIDE,     /* the closure needs a shard that is away */
    CADRE_CLOSURE_IN_FLIGHT, /* on a worker */
    /* The closure's synchronous step has not ended: its updates are on the shards, not yet
     * applied. */
    CADRE_CLOSURE_HELD,
    CADRE_CLOSURE_ENDED, /* has ended, and may be kept for a replay */
} cadre_closure_state_t;

/* For how many of the last attempts of a closure the coordinator remembers which worker had it:
 * only reports of these attempts are believed. */
enum { CADRE_HANDED_MAX = 16 };

/* Worker index of a closure that any worker may run. */
#define CADRE_TAG_NONE UINT32_MAX

typedef struct cadre_closure {
    /* Neighbours in the list that `state` puts it in: one of the queue, or its worker's. */
    struct cadre_closure *next;
    struct cadre_closure *previous;
    cadre_closure_state_t state;
    /* 0 before it is first handed out; then it takes `steps` ids, of which this is the first. */
    uint64_t id;
    /* Its number in the order in which closures were first handed out, from 1 on; 0 before. It
     * ascends with `id`, but for closures that had their id some time before (dispatcher.h). */
    uint64_t number;
    uint64_t attempt; /* number of the last attempt, from 1 on; 0: never handed out */
    uint32_t function;
    uint32_t steps;
    uint32_t variables; /* how many variables existed when the closure was scheduled */
    uint64_t drops;     /* how many variables had been dropped when the closure was queued */
    uint64_t removals;  /* how many functions and resources had been dropped then (removals.h) */
    uint64_t turn;      /* number of its group of closures (pace.h); 0: it need not wait for its
                         * turn */
    /* The closure's number among those that were put into the queue, from 1 on; one of a client has
     * that of the one before it. */
    uint64_t place;
    bool may_push; /* the closure's function may push updates */
    bool in_step;  /* the closure is part of the synchronous step with number `turn` */
    cadre_priority_t priority;
    uint32_t tag; /* index of the one worker that may run it, or CADRE_TAG_NONE */
    bool wants_results;
    uint64_t *batches; /* as in the CLOSURE message */
    size_t batch_items;
    /* Which range of its dataset its first batch is of (common/spec/data_ranges.h), from 1 on, of
     * `ranges`; 0: none, any worker reads its batches as well as another. */
    uint32_t range;
    uint32_t ranges;
    char **names;
    size_t name_count;
    cadre_tensor_list_t tensors;
    cadre_closure_argument_t *arguments; /* the arguments that are results of other closures */
    size_t argument_count;
    size_t missing; /* how many of `arguments` come from closures that have not ended */
    cadre_results_t
        *results;        /* where its results go; NULL: nobody asked, or it is kept for a replay */
    uint64_t *resources; /* ids of the resources that it uses */
    size_t resource_count;
    /* QUEUED: the closure's lane: queued closures that need the same of a worker
     * (closure_lanes.h). */
    struct cadre_closure_lane *lane;
    /* QUEUED: the lower, the sooner it comes out among queued closures of its kind. */
    int64_t order;

    struct cadre_member *worker; /* IN_FLIGHT: the worker that has the closure */
    uint64_t handed_to;          /* incarnation of the worker of the last attempt */
    /* [CADRE_HANDED_MAX]: incarnations of the workers of earlier attempts, that of attempt n at n %
     * CADRE_HANDED_MAX; NULL before the second attempt. */
    uint64_t *handed;
    uint64_t sent_ms;
    uint64_t begun_ms; /* when the last attempt was handed out */
    bool is_running;   /* whether it is among the closures that its worker may be running */
    /* When `is_running` became true, on a clock that leaves out the coordinator's own stalls. */
    uint64_t running_ms;
    uint64_t named_ms; /* how long the closure had run when the log last named it, in ms */
    /* How many deadlines the last attempt ran past: more than one where it goes on, as there is no
     * other worker for the closure. */
    uint32_t missed;
    uint64_t deadline_ms; /* deadline of each attempt, from when it runs; 0: none */
    uint32_t overruns;    /* how many deadlines all attempts ran past */
    /* Incarnations of the workers on which the closure ran past its deadline and which do not get
     * it again; an entry is 0 where the worker may try again. */
    uint64_t overran_on[CADRE_OVERRUNS_MAX];
    uint32_t device_failures;    /* how many attempts failed because of the worker's device */
    cadre_suspicion_t suspicion; /* whether the closure kills the workers that run it */
    /* Incarnation of the worker that is to run the closure alone, as it is suspect; 0: none. */
    uint64_t trial;
    uint64_t sequence; /* the sequence number that the program gave the closure; 0: none */
    /* Number of the closure's interval in the queue's `barriers`
     * (coordinator/core/closures/barriers.h). */
    uint64_t interval;
    uint64_t drop_interval;       /* the closure's interval in the queue's `drop_barriers` */
    cadre_closure_group_t *group; /* what counts how the closure ends; NULL: the queue's own
                                   * group */
    uint64_t group_interval;      /* the closure's interval in the barriers of `group` */
    /* Incarnation of the worker on which the attempt before the last one goes on; 0: none. */
    uint64_t raced;
    /* Number of the last attempt that began before a shard was restored; 0: none. */
    uint64_t stale;
    bool kept;                    /* the closure has ended well and is kept for a replay */
    cadre_outbox_entry_t *report; /* HELD: its worker's report */
    int end_status;               /* ENDED: 0, or the status with which it failed */
    bool has_updates;             /* ENDED: shards have applied updates of it */
} cadre_closure_t;

/* Returns an empty closure of `function` with one step and no tag. */
cadre_closure_t *cadre_closure_new(uint32_t function);

/* Returns a new closure that makes the same call, not yet put into the queue: function, batches,
 * resources and tensors, which share their memory. Arguments that are results of other closures,
 * and its own results, are left out. */
cadre_closure_t *cadre_closure_copy(const cadre_closure_t *self);

/* Keep a worker's report of the closure's end, with references to its chunks (keep_report); take
 * the kept report out, which is possible once (take_report); free it unread (drop_report). */
void cadre_closure_keep_report(cadre_closure_t *self, const cadre_message_t *message);
int cadre_closure_take_report(cadre_closure_t *self, cadre_message_t *out);
void cadre_closure_drop_report(cadre_closure_t *self);

/* Adds the argument `name`, which is the result called `result` (NULL: the first) of another
 * closure, whose results are `from`. Called before the closure is put into the queue. */
void cadre_closure_add_argument(cadre_closure_t *self, const char *name, const char *result,
                                cadre_results_t *from);

/* Fills in the values of the arguments that are results of other closures, which must all have
 * ended. CADRE_ENOTFOUND when a result does not exist, CADRE_ETOOLARGE when all arguments are more
 * than CADRE_ARGUMENTS_SIZE_MAX bytes or take more chunks than a message holds, CADRE_EMALFORMED
 * when a tensor cannot be decoded. */
int cadre_closure_take_values(cadre_closure_t *self);

/* Frees a closure, which must be in no list. */
void cadre_closure_destroy(cadre_closure_t **self_p);

/* Begins another attempt, on the worker with this incarnation. */
void cadre_closure_hand_to(cadre_closure_t *self, uint64_t incarnation);

/* Returns whether a client has scheduled it, not the job's program. */
bool cadre_closure_is_of_client(const cadre_closure_t *self);

/* Returns whether the closure is handed out apart from all others, to a worker chosen for it
 * (dispatch/trials.h). */
bool cadre_closure_is_apart(const cadre_closure_t *self);

/* Returns whether the worker with this incarnation was given that attempt of the closure. */
bool cadre_closure_was_handed_to(const cadre_closure_t *self, uint64_t attempt,
                                 uint64_t incarnation);

/* Returns whether the closure ran past its deadline on this worker, which is not to get it
 * again. */
bool cadre_closure_has_overrun_on(const cadre_closure_t *self, uint64_t incarnation);

/* Returns what a worker must have to run the closure; borrowed from the closure. */
cadre_needs_t cadre_closure_needs(const cadre_closure_t *self);

/* Returns the memory that the closure takes, roughly, without its arguments that are results of
 * others: what the bound of the replay log counts. */
size_t cadre_closure_size_bytes(const cadre_closure_t *self);

/* Tells which closures a worker is not to get now, for a reason that changes from turn to turn. */
typedef struct {
    bool (*keeps_back)(const void *context, const cadre_closure_t *closure);
    const void *context;
} cadre_closure_filter_t;

/* Returns whether `filter`, which may be NULL, keeps the closure back. */
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

/* Moves the closures of a group (NULL: of none) to the end of `to`. Returns how many. */
size_t cadre_closure_list_move(cadre_closure_list_t *self, const cadre_closure_group_t *group,
                               cadre_closure_list_t *to);

/* Inserts a closure into a list that ascends by id. Searches from both ends, so it is fast near
 * them. */
void cadre_closure_list_insert(cadre_closure_list_t *self, cadre_closure_t *closure);

/* Insert a closure into a list that ascends by turn, or by place: behind all closures of the same
 * turn, or place. */
void cadre_closure_list_insert_by_turn(cadre_closure_list_t *self, cadre_closure_t *closure);
void cadre_closure_list_insert_by_place(cadre_closure_list_t *self, cadre_closure_t *closure);

#endif
