/*
 * sim_cluster - a whole job in one thread: coordinator, shards, workers, the network between them,
 * the user program, the faults and the oracle.
 *
 * Owner:   sim_run.
 * Thread:  one.
 *
 * Node 0 is the coordinator, 1 to shard_count the ps, and every incarnation of a worker is a node
 * of its own. A *place* is where a worker runs again after it died, as a supervisor would have it.
 */
#ifndef CADRE_TESTS_SIM_SIM_CLUSTER_H
#define CADRE_TESTS_SIM_SIM_CLUSTER_H

#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_script.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/sim_worker.h"

enum {
    SIM_PLACES_MAX = 6,
    SIM_WORKER_NODES = SIM_NODES_MAX - 1 - SIM_SHARDS_MAX,
};

/* Where a worker lives. */
typedef struct {
    uint32_t index; /* that its workers ask for, or CADRE_INDEX_ANY */
    uint32_t slots;
    uint32_t ahead;
    uint32_t worker; /* position of the one that is there now; SIM_NEVER: none */
} sim_place_t;

typedef struct {
    uint64_t seed;
    bool verbose;
    cadre_random_t random;
    sim_network_t network;
    sim_check_t check;
    sim_coordinator_t coordinator;
    uint32_t shard_count;
    sim_shard_t shards[SIM_SHARDS_MAX];
    uint32_t worker_count; /* incarnations so far */
    sim_worker_t workers[SIM_WORKER_NODES];
    uint32_t place_count;
    sim_place_t places[SIM_PLACES_MAX];
    sim_script_t script;

    uint64_t lease_ms;
    uint64_t fault_every_ms; /* on average; 0: none */
    uint64_t faults_end_ms;
    uint32_t seen; /* chance that a broken connection is seen at once, in 10,000 */
    bool calm;     /* no more faults */
    uint64_t faults;
    uint64_t calm_ms;
    uint64_t
        quit_ms; /* the user program ends there, whatever is under way; 0: it goes on to its end */
    bool stopping;
    uint64_t rest_ms; /* once the script has ended: by then nothing may move */
} sim_cluster_t;

/* One event, and whatever follows from it at once. */
void sim_cluster_event(sim_cluster_t *self, sim_event_t *event);

/* The coordinator's turn, after something was asked of it. */
void sim_cluster_turn_coordinator(sim_cluster_t *self);

/* --- for the faults --- */

/* Starts a worker at a place where none lives. */
void sim_cluster_start_worker(sim_cluster_t *self, sim_place_t *place);

/* Ends the worker at a place at once; the coordinator sees it, or not. */
void sim_cluster_kill_worker(sim_cluster_t *self, sim_place_t *place);

/* The living worker at a place, or NULL. */
sim_worker_t *sim_cluster_worker_at(sim_cluster_t *self, const sim_place_t *place);

/* The coordinator sees, by and by, that its connection to a worker broke; or never does. */
void sim_cluster_maybe_seen(sim_cluster_t *self, const sim_worker_t *worker);

#endif
