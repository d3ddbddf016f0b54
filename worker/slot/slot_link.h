/*
 * slot_link - what a slot thread asks the network actor: names, values, updates.
 *
 * Owner:   one slot actor. Thread: the slot's; the network actor reads and writes a request while
 *          the slot waits for its answer.
 *
 * Every question waits for its answer, which always comes: the core ends each operation, also when
 * a shard is replaced or the session ends.
 */
#ifndef CADRE_WORKER_SLOT_SLOT_LINK_H
#define CADRE_WORKER_SLOT_SLOT_LINK_H

#include "worker/slot/trace.h"
#include "worker/slot/work_queue.h"

typedef enum {
    CADRE_SLOT_RESOLVE, /* `name` -> `variable` */
    CADRE_SLOT_PULL,    /* `wanted`, `count` -> `values` */
    CADRE_SLOT_PUSH,    /* `gradients`, `count` */
} cadre_slot_question_t;

typedef struct cadre_slot_request {
    cadre_slot_question_t question;
    cadre_work_t *work;
    const char *name;
    const cadre_wanted_t *wanted;
    const cadre_gradient_t *gradients;
    size_t count;

    /* the answer */
    bool is_answered; /* for an asker of the work, which has no pipe to say so */
    int status;
    cadre_failure_t failure;
    char text[CADRE_TEXT_SIZE_MAX + 1];
    const cadre_variable_entry_t *variable;
    cadre_value_t *values; /* answer to PULL; the slot's from then on */
    size_t value_count;
    /* Bytes that a PULL has received; none for partitions that had not changed. */
    size_t received_bytes;
} cadre_slot_request_t;

/* Kinds on the pipe between a slot and the network actor. */
enum {
    CADRE_SLOT_ASK = 1,  /* from the slot: a cadre_slot_request_t, borrowed until the answer */
    CADRE_SLOT_ENDED,    /* from the slot: a cadre_work_t that has ended */
    CADRE_SLOT_ANSWERED, /* from the network actor: the request, answered */
};

/* A slot's end of the link, with the variables that it has looked up: these are kept for the
 * session, until a variable is dropped, after which a name may mean another one. */
typedef struct {
    void *pipe;
    cadre_trace_lane_t *lane; /* where the slot's work is traced; NULL: nowhere */
    cadre_work_t *work;       /* what the slot is doing */
    int64_t computing_us;     /* when a native function began to compute; 0: none does */
    uint64_t session;         /* incarnation of the coordinator that `known` was looked up under */
    /* `known` is right for closures that were scheduled after so many drops of variables */
    uint64_t drops;
    const cadre_variable_entry_t **known;
    size_t known_count;
    size_t known_capacity;
} cadre_slot_link_t;

/* Begins without work, over `pipe` to the network actor; `lane` may be NULL. */
void cadre_slot_link_init(cadre_slot_link_t *self, void *pipe, cadre_trace_lane_t *lane);
void cadre_slot_link_fini(cadre_slot_link_t *self);

/* Begins a work. Returns true when it is of another session than the work before: pointers to
 * functions and variables of that session are invalid. */
bool cadre_slot_link_begin(cadre_slot_link_t *self, cadre_work_t *work);

/* Notes in the trace what the slot has done for its work from `begin_us` until now. */
void cadre_slot_link_trace(const cadre_slot_link_t *self, cadre_trace_kind_t kind, int64_t begin_us,
                           size_t size_bytes);

/* Called before and after a native function: its pulls and pushes are traced as such, and the time
 * between these as COMPUTE. */
void cadre_slot_link_begin_native(cadre_slot_link_t *self);
void cadre_slot_link_end_native(cadre_slot_link_t *self);

/* Finds the variable that the work's closure means by `name`; fails with CADRE_ENOTFOUND. */
int cadre_slot_link_resolve(cadre_slot_link_t *self, const char *name,
                            const cadre_variable_entry_t **out);

/* Pulls variables, or rows of them; `values` come in the order asked, and the caller ends them with
 * cadre_values_fini. A failure that is not the function's fault (a shard is away, the closure was
 * cancelled) ends the work too. */
int cadre_slot_link_pull(cadre_slot_link_t *self, const cadre_wanted_t *wanted, size_t count,
                         cadre_value_t **values);

/* Pushes one step's gradients; returns when every shard has answered. Any failure ends the work: an
 * update that only some shards have must not be reported as done. */
int cadre_slot_link_push(cadre_slot_link_t *self, const cadre_gradient_t *gradients, size_t count);

#endif
