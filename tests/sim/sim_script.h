/*
 * sim_script - the user program: it makes variables, schedules, joins, cancels, reads, assigns and
 * takes checkpoints, in an order that the seed chooses, as one thread would through the C API.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * One operation at a time. Each is begun, and then asked again whenever something has changed until
 * it says it is done; what it waits for has a name, so that a run that is stuck says on what.
 */
#ifndef CADRE_TESTS_SIM_SIM_SCRIPT_H
#define CADRE_TESTS_SIM_SIM_SCRIPT_H

#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_shard.h"

typedef enum {
    SIM_WAIT_READY,
    SIM_CREATE,
    SIM_SCHEDULE,
    SIM_JOIN,
    SIM_DONE,
    SIM_CANCEL,
    SIM_READ,
    SIM_ASSIGN,
    SIM_COUNT,
    SIM_CHECKPOINT,
    SIM_AWAIT_CHECKPOINT,
    SIM_AWAIT_TAGGED,
    SIM_PAUSE,
    SIM_END,
} sim_operation_t;

/* What a seed makes of the user program. */
typedef struct {
    uint32_t operations; /* between set-up and the last join */
    uint32_t variables;  /* at the beginning */
    uint32_t burst_max;  /* closures scheduled at once */
    uint32_t compute_ms_max;
    uint32_t long_compute_ms;
    uint32_t fails;          /* chance of a user error, in 10,000 */
    uint32_t tags;           /* chance of a closure for one worker */
    uint32_t tagged_workers; /* indexes that will always have a worker again */
    bool checkpoints;
    bool dataset;
    bool big; /* one variable of several chunks */
} sim_plan_t;

typedef struct {
    sim_plan_t plan;
    sim_coordinator_t *coordinator;
    const sim_shard_t *shards;
    sim_check_t *check;
    sim_network_t *network;
    cadre_random_t random;

    sim_operation_t operation;
    uint32_t left;    /* operations to come */
    uint32_t closing; /* how far the last ones are */
    uint64_t begun_ms;
    uint64_t due_ms;          /* SIM_PAUSE: until then */
    uint32_t burst;           /* SIM_SCHEDULE: closures to come */
    cadre_closure_t *closure; /* waits to be put into the queue */
    cadre_operation_t pending;
    bool asked;
    uint32_t variable; /* SIM_CREATE, SIM_READ, SIM_ASSIGN: index */
    cadre_variable_t *new_variable;
    void *buffer;
    cadre_shard_totals_t counted;
    uint64_t count_before;
    uint64_t checkpoint_attempts;

    uint64_t done_ms; /* when the last operation ended */
    uint64_t errors;  /* raised */
    uint64_t operations_done;
} sim_script_t;

/* plan, coordinator, shards, check and network are set. */
void sim_script_start(sim_script_t *self, uint64_t seed);
void sim_script_fini(sim_script_t *self);

/* Goes on as far as possible without waiting. */
void sim_script_go(sim_script_t *self);

/* Whether everything is done. */
bool sim_script_ended(const sim_script_t *self);

/* What it waits for. */
const char *sim_operation_text(sim_operation_t operation);

#endif
