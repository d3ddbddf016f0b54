/*
 * operations - requests about variables and their values on shards: create, read, assign, count,
 * retire, drop.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * Each operation is one request per partition of a variable, or per shard. A call of the API waits
 * for a `cadre_operation_t`, which ends when all its requests are answered; nobody waits for shards
 * to retire or drop a variable.
 */
#ifndef CADRE_COORDINATOR_CORE_PROVISIONING_OPERATIONS_H
#define CADRE_COORDINATOR_CORE_PROVISIONING_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/closures/begun.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/provisioning/row_plan.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/shard_requests.h"

/* The requests that a call of the API has sent to shards. It lives with its caller, who fills in
 * `target` where it is used; zeroed memory has no requests. */
typedef struct {
    size_t pending; /* how many requests are unanswered */
    int status;     /* status of the first request that failed; 0: none has */
    char text[CADRE_TEXT_SIZE_MAX + 64];
    bool average;                     /* read: the running average, not the values */
    uint64_t slot;                    /* read: slot number `slot` - 1 of the optimizer; 0: none */
    uint64_t *steps;                  /* read of a slot: updates of each partition; or NULL */
    void *target;                     /* read: the value's bytes; count: cadre_shard_totals_t; of a
                                         table: uint64_t[CADRE_TABLE_COUNTER_COUNT] */
    const cadre_variable_t *variable; /* read and assign: the variable */
    const cadre_row_plan_t *plan;     /* read of rows: which, and in which messages */
    uint32_t failed;                  /* create: id of the first variable that could not be created;
                                         0: none */
} cadre_operation_t;

/* The objects that operations read and call; borrowed for their life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_begun_t *begun;
    const cadre_checkpoint_t *checkpoint; /* says which cut is open */
    cadre_replay_t *replay;               /* keeps assignments */
    cadre_shard_recovery_t *recovery;     /* numbers assignments, and says which generation each
                                             shard serves */
    cadre_shard_requests_t *requests;
    cadre_effects_t *effects;
} cadre_operations_links_t;

typedef struct {
    cadre_operations_links_t links;
} cadre_operations_t;

void cadre_operations_init(cadre_operations_t *self, const cadre_operations_links_t *links);

/* --- operations that a call waits for --- */

/* Asks the shards to create every partition of `variable`. One operation may serve several
 * variables: the caller zeroes it before the first, and it ends when all are created. */
void cadre_operations_create(cadre_operations_t *self, const cadre_variable_t *variable,
                             cadre_operation_t *operation);

/* Reads the variable's value into operation->target, which has room for it. */
void cadre_operations_read(cadre_operations_t *self, const cadre_variable_t *variable,
                           cadre_operation_t *operation);

/* Reads the rows of a plan, which the caller keeps until the operation has ended, into
 * operation->target: that of each position at its place. */
void cadre_operations_read_rows(cadre_operations_t *self, const cadre_row_plan_t *plan,
                                cadre_operation_t *operation);

/* Assigns `bytes`, a whole value of the variable, to it; the bytes are copied. */
void cadre_operations_assign(cadre_operations_t *self, const cadre_variable_t *variable,
                             cadre_assign_mode_t mode, const void *bytes,
                             cadre_operation_t *operation);

/* Assigns to the rows of a plan: `bytes` has that of each position at its place, and is copied. */
void cadre_operations_assign_rows(cadre_operations_t *self, const cadre_row_plan_t *plan,
                                  cadre_assign_mode_t mode, const void *bytes,
                                  cadre_operation_t *operation);

/* Asks shard `shard` for its counters, into operation->target. */
void cadre_operations_count(cadre_operations_t *self, uint32_t shard, cadre_operation_t *operation);

/* Asks all shards for the counters of a table, whose sums operation->target gets; of the steps the
 * largest number. */
void cadre_operations_count_table(cadre_operations_t *self, const cadre_variable_t *table,
                                  cadre_operation_t *operation);

/* Gives an operation up: no answer will touch it any more. */
void cadre_operations_give_up(cadre_operations_t *self, cadre_operation_t *operation);

/* --- operations that nobody waits for --- */

/* Sends RETIRE to the shards of a variable that was dropped: from now on only earlier closures name
 * it. The message says which checkpoint is the last that holds the variable. */
void cadre_operations_retire(cadre_operations_t *self, const cadre_variable_t *variable);

/* Asks the shards to forget the partitions of `variable` that they have, ahead of all later
 * requests. The variable may be freed when this returns. */
void cadre_operations_drop(cadre_operations_t *self, const cadre_variable_t *variable);

#endif
