/*
 * sim_coordinator - the coordinator's core with a shell made of events, and its store in memory.
 *
 * Owner:   the cluster.
 * Thread:  one.
 */
#ifndef CADRE_TESTS_SIM_SIM_COORDINATOR_H
#define CADRE_TESTS_SIM_SIM_COORDINATOR_H

#include "coordinator/coordinator_core.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_network.h"

enum { SIM_COORDINATOR_NODE = 0 };

typedef struct {
    cadre_task_t task;
    sim_network_t *network;
    sim_check_t *check;
    cadre_random_t *random;
    uint32_t store_fails; /* chance that an order to the store fails, in 10,000 */
    bool verbose;
    cadre_core_t core;
    bool user_cancels; /* the user's cancel is under way */
    uint64_t tick_due_ms;
    uint64_t drafts;         /* begun: the id of the newest */
    uint64_t store_failures; /* orders that failed, here or on a shard */
} sim_coordinator_t;

/* Starts it; everything but core and counts is set. `options` says the rest. */
void sim_coordinator_start(sim_coordinator_t *self, const cadre_core_options_t *options);
void sim_coordinator_stop(sim_coordinator_t *self);

/* SIM_STORED: the store has done an order. */
void sim_coordinator_stored(sim_coordinator_t *self, uint64_t value);

/* Ticks the core and handles what it gives out, but for messages. */
void sim_coordinator_turn(sim_coordinator_t *self);

#endif
