/*
 * sim_script - the user program: it makes variables, schedules, joins, cancels, reads, assigns and
 * takes checkpoints, in an order that the seed chooses, as one thread would through the C API.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * One operation at a time. Each is begun, and then asked again whenever something has changed until
 * it says it is done; what it waits for has a name, so that a run that is stuck says on what. When
 * the coordinator dies the program dies with it, and begins again: it makes the same variables,
 * schedules what the checkpoint lacks, and goes on.
 */
#ifndef CADRE_TESTS_SIM_SIM_SCRIPT_H
#define CADRE_TESTS_SIM_SIM_SCRIPT_H

#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_values.h"

struct sim_cluster;

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
    SIM_DROP,
    SIM_RATE,
    SIM_STILL,
    SIM_GO_BACK,
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
    uint64_t every_ms;    /* between automatic ones; 0: none */
    uint64_t every_steps; /* the same, in steps that were begun */
    bool dataset;
    bool rows_in_memory; /* the rows of the dataset come from the program, piece by piece */
    bool resources;
    bool futures;              /* closures take results of others */
    uint64_t values_max;       /* bytes of these: the queue's limit; 0: the default */
    uint64_t shard_timeout_ms; /* after which workers give closures back; 0: never */
    uint64_t kept_values_max;  /* and a worker\'s */
    uint64_t row_cache_bytes;  /* of a worker; 0: it keeps no rows of tables */
    size_t window;             /* of its PUSHes; 0: the default */
    size_t push_part_size;     /* the same */
    size_t partitions_max;     /* the same */
    bool jumps;                /* ids are skipped, so that windows fill up */
    bool big;                  /* one variable of several chunks */
    uint32_t gives_up;         /* chance that it has little patience with an operation, in 10,000 */
    uint32_t bad_values;       /* chance that it assigns what a shard must refuse */
    bool priorities;           /* closures have priorities */
    bool groups;               /* closures are in groups */
    uint32_t drops;            /* chance of dropping a variable before an operation, in 10,000 */
    uint32_t backs;            /* of going back to a checkpoint */
    uint32_t rates;            /* and of changing a learning rate */
} sim_plan_t;

typedef struct {
    sim_plan_t plan;
    struct sim_cluster *cluster;
    sim_coordinator_t *coordinator;
    sim_check_t *check;
    sim_network_t *network;
    cadre_random_t random;
    cadre_random_t patience_random;
    cadre_random_t drop_random;
    cadre_random_t rate_random;
    cadre_random_t back_random;

    sim_operation_t operation;
    uint32_t left;    /* operations to come */
    uint32_t closing; /* how far the last ones are */
    uint64_t begun_ms;
    uint64_t due_ms;      /* SIM_PAUSE: until then */
    uint64_t patience_ms; /* SIM_READ, SIM_ASSIGN, SIM_COUNT: it gives the operation up then */
    uint32_t burst;       /* SIM_SCHEDULE: closures to come */
    sim_futures_t futures;
    cadre_closure_group_t *groups[SIM_GROUPS]; /* the first is NULL */
    cadre_closure_t *closure;                  /* waits to be put into the queue */
    cadre_operation_t pending;
    bool asked;
    uint32_t variable;  /* SIM_READ, SIM_ASSIGN, SIM_DROP, SIM_RATE: index; SIM_COUNT: a shard */
    bool gives_up;      /* it has failed and is to end, which sim_cluster does */
    uint32_t variables; /* that it had before the coordinator died: it makes them again */
    uint32_t assignment;
    bool is_bad; /* SIM_ASSIGN: one part of it is infinite */
    cadre_variable_t *new_variable;
    uint64_t back_to; /* SIM_GO_BACK: the checkpoint, until the job has gone back; then 0 */
    size_t
        give_up_at; /* SIM_CREATE: parts that are left when it gives up; SIM_NEVER: it does not */
    void *buffer;
    uint32_t reads;            /* begun */
    cadre_row_plan_t row_plan; /* SIM_READ of rows; count 0: whole */
    int64_t *row_ids;
    cadre_shard_totals_t counted;
    uint64_t counted_rows[CADRE_TABLE_COUNTER_COUNT];
    uint64_t checkpoint_attempts;

    uint64_t done_ms;  /* when the last operation ended */
    uint64_t errors;   /* raised */
    uint64_t given_up; /* operations */
    uint64_t refused;  /* operations, by a shard */
    uint64_t operations_done;
} sim_script_t;

/* plan, cluster, coordinator, check and network are set. */
void sim_script_start(sim_script_t *self, uint64_t seed);

/* Ends it, at any point. It may begin again with another life of the coordinator. */
void sim_script_fini(sim_script_t *self);
void sim_script_start_again(sim_script_t *self);

/* Goes on as far as possible without waiting. */
void sim_script_go(sim_script_t *self);

/* Whether everything is done. */
bool sim_script_ended(const sim_script_t *self);

/* --- between sim_script.c and sim_script_variables.c, sim_script_back.c --- */

/* Goes on with the creation of the next variable, or the dropping of `variable`; true: it has
 * ended. */
bool sim_script_create(sim_script_t *self);
bool sim_script_drop(sim_script_t *self);

/* Goes on with going back to a checkpoint that has all variables; true when the job is what it was
 * then, or the program gives it up. */
bool sim_script_go_back(sim_script_t *self);

/* Goes on with a change of the learning rate of `variable`. Every change is to the rate that it
 * has, so that values are what they would be; that all shards have taken it is what the check
 * sees. */
bool sim_script_change_rate(sim_script_t *self);

/* Chooses a variable that has a learning rate and room for a change of it; false when there is
 * none. */
bool sim_script_choose_rate(sim_script_t *self);

/* The variable that has the name which the next one is to have; SIM_NEVER: none. */
uint32_t sim_script_predecessor(const sim_script_t *self);

/* Lays all variables out anew, for as many shards as the coordinator, which is dead, will have. */
void sim_script_lay_out(sim_script_t *self);

/* What it waits for. */
const char *sim_operation_text(sim_operation_t operation);

#endif
