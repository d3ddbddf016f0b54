/*
 * sim_worker - a worker's core with a shell made of events: slots that compute for a while instead
 * of threads.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * A slot does what the closure's record says (sim_check.h): in every step it pulls, computes, and
 * pushes a gradient that adds one update to each variable; or fails; and at the end hands out its
 * call's number as the result. It checks that what a closure's resources hold was built here.
 */
#ifndef CADRE_TESTS_SIM_SIM_WORKER_H
#define CADRE_TESTS_SIM_SIM_WORKER_H

#include "tests/sim/sim_check.h"
#include "tests/sim/sim_lacks.h"
#include "tests/sim/sim_network.h"
#include "worker/core/worker_core.h"

enum { SIM_SLOTS_MAX = 6 };

typedef struct {
    cadre_run_t *run; /* NULL: free */
    sim_call_t *call; /* NULL: it builds a resource */
    uint32_t step;
    uint64_t *keys; /* [variables of a pull, SIM_KEYS] of tables that are being pulled */
} sim_slot_t;

typedef struct {
    uint32_t node;
    cadre_task_t task;
    uint32_t slot_count; /* those `ahead` included: it has no queue, all of them compute */
    uint32_t ahead;
    uint64_t shard_timeout_ms;
    uint64_t row_cache_bytes; /* bytes of rows that it keeps; 0: none */
    uint64_t kept_values_max; /* bytes of results that it keeps for others; 0: the default */
    size_t window;            /* of PUSHes, before a ps tells one, */
    size_t push_part_size;    /* and how they are cut; 0: the default */
    size_t partitions_max;
    sim_network_t *network;
    sim_check_t *check;
    cadre_random_t *random;
    sim_lacks_t lacks;
    uint64_t
        load_ms; /* in series: when the last of the batches that it was told to read is there */
    uint32_t slowness; /* how many times as long its closures take */
    cadre_registry_t *registry;
    cadre_worker_core_t *core; /* NULL: dead */
    sim_slot_t slots[SIM_SLOTS_MAX];
    bool left;            /* its session is over */
    bool refused;         /* and never began */
    bool leaving;         /* it was told to */
    bool impaired;        /* it will never reach somebody: */
    bool isolated;        /* the coordinator */
    uint64_t paused_ms;   /* until then nothing happens here */
    uint64_t tick_due_ms; /* of the newest SIM_TICK */
    uint64_t given;       /* results */
    uint64_t answered;    /* updates that its pushes ended with */
    uint64_t failed;      /* pushes that ended otherwise */
} sim_worker_t;

/* Starts its core, which says HELLO at the next turn. node, task, slot_count, network, check and
 * random are set. */
void sim_worker_start(sim_worker_t *self);

/* Kills it: nothing that it had remains. Harmless on a dead one. */
void sim_worker_stop(sim_worker_t *self);

/* A message for it; takes it. */
void sim_worker_receive(sim_worker_t *self, const cadre_task_t *from, cadre_message_t *message);

/* Any other event. */
void sim_worker_event(sim_worker_t *self, const sim_event_t *event);

/* Handles what its core gives out, but for messages, until there is nothing left; ticks it. */
void sim_worker_turn(sim_worker_t *self);

/* At the end, for one that lives: (I7) what it counted is what its pushes ended with. */
void sim_worker_reconcile(const sim_worker_t *self);

#endif
