/*
 * closure_run - one closure on this worker: from arrival to the coordinator's acknowledgement.
 *
 * Owner:   the worker core. Thread: the network actor's; a slot has its call (closure_call.h).
 *
 * States:
 *     WAITING    a definition is missing, or its batch is being read
 *     QUEUED     ready for a slot
 *     COMPUTING  a slot works on it
 *     PULLING    its slot waits for values
 *     PUSHING    its slot waits until every shard has its update
 *     REPORTING  ended; the report is kept until it is acknowledged
 */
#ifndef CADRE_WORKER_CORE_CLOSURE_RUN_H
#define CADRE_WORKER_CORE_CLOSURE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/message.h"
#include "common/wire/outbox.h"
#include "worker/core/closure_call.h"

typedef enum {
    CADRE_RUN_WAITING,
    CADRE_RUN_QUEUED,
    CADRE_RUN_COMPUTING,
    CADRE_RUN_PULLING,
    CADRE_RUN_PUSHING,
    CADRE_RUN_REPORTING,
} cadre_run_state_t;

/* One partition of a pull or push under way. */
typedef struct {
    const cadre_variable_entry_t *variable;
    uint32_t partition;
    uint16_t shard;
    uint64_t version; /* pulled, from a shard of this generation: */
    uint64_t generation;
    cadre_chunk_t **chunks;
    size_t chunk_count;
} cadre_run_part_t;

/* A whole pulled variable: the chunks of its partitions in order, which joined are its value in its
 * wire dtype. */
typedef struct {
    const cadre_variable_entry_t *variable;
    uint64_t content; /* content number (value_cache.h): no other content of any variable has it in
                         this process; 0: unknown */
    size_t size_bytes;
    cadre_chunk_t **chunks;
    size_t chunk_count;
} cadre_value_t;

/* One gradient that a slot hands over: the whole variable's, contiguous, in its wire dtype. */
typedef struct {
    const cadre_variable_entry_t *variable;
    cadre_chunk_t *gradient;
} cadre_gradient_t;

typedef struct {
    uint64_t updates;
    uint64_t duplicates;
    uint64_t staleness;
    uint64_t compute_us;
    uint64_t arrived_ms;
} cadre_run_totals_t;

typedef struct cadre_run {
    cadre_closure_call_t call;
    cadre_run_state_t state;
    bool loading;  /* its batch is being read */
    uint32_t slot; /* while COMPUTING, PULLING, PUSHING */
    uint64_t attempt;
    uint64_t restores;     /* `restores` of the directory when this attempt came: a shard that was
                              restored since is not the one it began with */
    bool touched;          /* it has asked a shard for something */
    cadre_message_t newer; /* a CLOSURE of a later attempt, to be run when this one has ended;
                              zeroed: none */
    bool newer_cancelled;
    uint64_t newer_restores; /* `restores` of the directory when `newer` came */
    uint32_t step;
    struct cadre_run *next; /* in the queue of QUEUED runs */

    cadre_run_part_t *parts; /* of the pull or push under way */
    size_t part_count;
    size_t pending;        /* shards that have not answered */
    size_t received_bytes; /* bytes of values that came for the pull under way, or the last one,
                              without unchanged partitions */
    int status;            /* first failure of the pull or push under way */
    cadre_failure_t failure;
    uint32_t failed_shard;
    char text[CADRE_TEXT_SIZE_MAX + 1];

    cadre_u64_map_t pulled; /* variable id -> uint64_t[partitions]: versions of the last pull */
    cadre_run_totals_t totals;
    cadre_outbox_entry_t report; /* REPORTING */
    uint64_t report_after;       /* number of the last HELLO or HEARTBEAT before it went out */
} cadre_run_t;

/* Returns a run of the CLOSURE `message`, which it takes (zeroed afterwards). */
cadre_run_t *cadre_run_new(cadre_message_t *message, uint64_t now_ms);
void cadre_run_destroy(cadre_run_t **self_p);

uint64_t cadre_run_id(const cadre_run_t *self);

/* Set the number of the attempt, with `restores` of the directory when it came; and the slot it
 * runs on. */
void cadre_run_set_attempt(cadre_run_t *self, uint64_t attempt, uint64_t restores);
void cadre_run_set_slot(cadre_run_t *self, uint32_t slot);

/* Notes that the run's batch is being read: the shell says when it is there
 * (cadre_worker_core_loaded). */
void cadre_run_load(cadre_run_t *self);

/* Cancels the run's attempt, and the later attempt that is kept. */
void cadre_run_cancel_all(cadre_run_t *self);

/* Gives the run its report, so that it is REPORTING; and notes the number of the last HELLO or
 * HEARTBEAT before the report was sent. */
void cadre_run_report(cadre_run_t *self, const cadre_task_t *coordinator, cadre_message_t *report);
void cadre_run_note_sent(cadre_run_t *self, uint64_t asked);

/* Keeps a later attempt, in the place of one that is kept already; takes the message. And drops,
 * asks for, or takes out the attempt that is kept. */
void cadre_run_keep_newer(cadre_run_t *self, cadre_message_t *message, uint64_t restores);
void cadre_run_drop_newer(cadre_run_t *self);
bool cadre_run_has_newer(const cadre_run_t *self);
cadre_message_t cadre_run_take_newer(cadre_run_t *self);

/* Changes the state, as nothing else does; asserts that the table allows it. */
void cadre_run_set_state(cadre_run_t *self, cadre_run_state_t state);

/* Sets up the parts of a pull of whole variables. */
void cadre_run_begin_pull(cadre_run_t *self, const cadre_variable_entry_t *const *variables,
                          size_t count);

/* Sets up the parts of a push, cutting each gradient into the chunks of each partition (views of
 * it; nothing is copied). CADRE_ESHAPE when a gradient's size is not its variable's, CADRE_EEXISTS
 * for a variable named twice. */
int cadre_run_begin_push(cadre_run_t *self, const cadre_gradient_t *gradients, size_t count);

/* Joins the finished pull into one value per variable, in the order asked; remembers the versions;
 * ends the parts. The caller owns the array and its references (cadre_values_fini). */
cadre_value_t *cadre_run_end_pull(cadre_run_t *self, size_t *count);

/* Ends the parts of a push or a failed pull. */
void cadre_run_end_parts(cadre_run_t *self);

/* Returns the version of a partition in this run's last pull; 0 when it was not pulled. */
uint64_t cadre_run_pulled_version(const cadre_run_t *self, uint32_t variable, uint32_t partition);

/* Begins a pull or push, and ends it: a push that went well was one step more. */
void cadre_run_begin_operation(cadre_run_t *self, cadre_run_state_t state);
void cadre_run_end_operation(cadre_run_t *self);

/* Note the first failure of the pull or push under way; `shard`: where it was, the last one. */
void cadre_run_fail(cadre_run_t *self, cadre_failure_t failure, int status, const char *text);
void cadre_run_fail_at(cadre_run_t *self, uint32_t shard, cadre_failure_t failure, int status,
                       const char *text);

/* Fails the pull or push under way; its shards are not waited for. */
void cadre_run_cancel_operation(cadre_run_t *self);

/* Notes that the run asks shards for something. */
void cadre_run_touch(cadre_run_t *self);

/* Note a request to a shard; and its answer, returning whether that was the last one missing. */
void cadre_run_await(cadre_run_t *self);
bool cadre_run_answered(cadre_run_t *self);

/* Fills a part of a pull, with references of its own. */
void cadre_run_part_fill(cadre_run_part_t *self, uint64_t version, uint64_t generation,
                         cadre_chunk_t *const *chunks, size_t count);

/* Note the results of the pull or push: bytes of values; an update that was applied, or had been
 * before. */
void cadre_run_note_received(cadre_run_t *self, size_t size_bytes);
void cadre_run_note_applied(cadre_run_t *self, uint64_t staleness);
void cadre_run_note_duplicate(cadre_run_t *self);

void cadre_values_fini(cadre_value_t **values_p, size_t count);

#endif
