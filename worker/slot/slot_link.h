/*
 * slot_link - what a slot thread asks the network actor: names, values, updates.
 *
 * Owner:   one slot actor. Thread: the slot's; the network actor sees the request while the slot
 *          waits for its answer, and nothing else of it.
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
    CADRE_SLOT_PULL,    /* `variables`, `count` -> `values` */
    CADRE_SLOT_PUSH,    /* `gradients`, `count` */
} cadre_slot_question_t;

typedef struct cadre_slot_request {
    cadre_slot_question_t question;
    cadre_work_t *work;
    const char *name;
    const cadre_variable_entry_t *const *variables;
    const cadre_gradient_t *gradients;
    size_t count;

    /* the answer */
    int status;
    cadre_failure_t failure;
    char text[CADRE_TEXT_SIZE_MAX + 1];
    const cadre_variable_entry_t *variable;
    cadre_value_t *values; /* the slot's from now on */
    size_t value_count;
    size_t received_bytes; /* of PULL: what came for it, without what had not changed */
} cadre_slot_request_t;

/* Kinds on the pipe between a slot and the network actor. */
enum {
    CADRE_SLOT_ASK = 1,  /* slot: a cadre_slot_request_t, borrowed until the answer */
    CADRE_SLOT_ENDED,    /* slot: a cadre_work_t, given back */
    CADRE_SLOT_ANSWERED, /* network actor: the request */
};

/* Variables a slot has looked up; they live as long as the session. What a name means changes when
 * variables are dropped. */
typedef struct {
    void *pipe;
    cadre_trace_lane_t *lane; /* or NULL */
    cadre_work_t *work;       /* what the slot is doing */
    int64_t computing_us;     /* since when a native function has been running; 0: none runs */
    uint64_t session;         /* incarnation of the coordinator that `known` belongs to, */
    uint64_t drops;           /* and how many variables were dropped before */
    const cadre_variable_entry_t **known;
    size_t known_count;
    size_t known_capacity;
} cadre_slot_link_t;

/* `lane` may be NULL. */
void cadre_slot_link_init(cadre_slot_link_t *self, void *pipe, cadre_trace_lane_t *lane);
void cadre_slot_link_fini(cadre_slot_link_t *self);

/* Begins a work. Returns true when it is of another session than the one before: entries kept from
 * that are gone. */
bool cadre_slot_link_begin(cadre_slot_link_t *self, cadre_work_t *work);

/* Notes in the trace what the slot has done for its work from `begin_us` until now. */
void cadre_slot_link_trace(const cadre_slot_link_t *self, cadre_trace_kind_t kind, int64_t begin_us,
                           size_t size_bytes);

/* Around a native function, whose pulls and pushes are noted as such and the time between them as
 * COMPUTE. */
void cadre_slot_link_begin_native(cadre_slot_link_t *self);
void cadre_slot_link_end_native(cadre_slot_link_t *self);

/* The variable of that name; CADRE_ENOTFOUND. */
int cadre_slot_link_resolve(cadre_slot_link_t *self, const char *name,
                            const cadre_variable_entry_t **out);

/* Whole variables, in the order asked; the caller ends `values` with cadre_values_fini. A failure
 * that is not the function's own fault (a shard away, a cancelled closure) ends the work. */
int cadre_slot_link_pull(cadre_slot_link_t *self, const cadre_variable_entry_t *const *variables,
                         size_t count, cadre_value_t **values);

/* One step's gradients; returns when every shard has them. Any failure ends the work: what has been
 * pushed in part must not be reported as done. */
int cadre_slot_link_push(cadre_slot_link_t *self, const cadre_gradient_t *gradients, size_t count);

#endif
