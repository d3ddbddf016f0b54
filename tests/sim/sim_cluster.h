/*
 * sim_cluster - a whole job in one thread: coordinator, ps, workers, the network between them, the
 * disk, the user program, the faults and the oracle.
 *
 * Owner:   sim_run.
 * Thread:  one.
 *
 * Node 0 is the coordinator, in all its lives; every incarnation of a ps or a worker is a node of
 * its own. A *place* is where a task runs again after it died, as a supervisor would have it.
 */
#ifndef CADRE_TESTS_SIM_SIM_CLUSTER_H
#define CADRE_TESTS_SIM_SIM_CLUSTER_H

#include "tests/sim/sim_client.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_script.h"
#include "tests/sim/sim_shard.h"
#include "tests/sim/sim_worker.h"

enum {
    SIM_WORKER_PLACES_MAX = 64,
    SIM_PLACES_MAX = SIM_SHARDS_MAX + SIM_WORKER_PLACES_MAX,
    SIM_PS_TASKS_MAX = 512,
    SIM_WORKER_TASKS_MAX = SIM_NODES_MAX - 1 - SIM_PS_TASKS_MAX,
    SIM_PS_ENOUGH = 48, /* incarnations beyond those of the places: then the faults end */
    SIM_WORKERS_ENOUGH = 100,
    SIM_CLIENTS_MAX = 16,
};

/* Where a task lives. */
typedef struct {
    cadre_role_t role;
    uint32_t index; /* that its tasks ask for, or CADRE_INDEX_ANY */
    uint32_t slots;
    uint32_t ahead;
    uint32_t task;     /* position of the one that is there now; SIM_NEVER: none */
    uint32_t refusals; /* of its last tasks, one after the other */
} sim_place_t;

/* Something goes wrong as soon as something else happens. */
typedef struct {
    uint32_t when;  /* checkpoint state, or SIM_TRAP_RESTORE; 0: no trap */
    uint32_t whom;  /* 0: a ps, 1: the coordinator, 2: a worker */
    uint64_t count; /* of restores when it was laid */
} sim_trap_t;

enum { SIM_TRAP_RESTORE = 100 };

typedef struct sim_cluster {
    uint64_t seed;
    bool quiet;
    bool in_series; /* its job is; it has one ps, and one worker of one slot, and loses nothing */
    bool verbose;
    cadre_random_t random;
    sim_network_t network;
    sim_disk_t disk;
    sim_check_t check;
    sim_coordinator_t coordinators[2];
    sim_coordinator_t *coordinator; /* the newest, node 0 */
    sim_coordinator_t *deposed;     /* one that stood still while another was started, and is back;
                                       NULL: none */
    uint32_t deposed_node;
    bool
        with_deposed[SIM_NODES_MAX]; /* whose control connection leads there: until it says HELLO */
    uint32_t shard_count;
    uint32_t ps_places; /* as many, or as many as there ever may be */
    uint32_t resized;   /* times that the job was resumed with another number of shards */
    uint32_t ps_count;  /* incarnations so far */
    sim_shard_t shards[SIM_PS_TASKS_MAX];
    sim_shard_plan_t shard_plan;
    bool refuses_steps;    /* its shards do; its job is synchronous */
    uint32_t worker_count; /* the same */
    sim_worker_t workers[SIM_WORKER_TASKS_MAX];
    struct {
        cadre_role_t role;
        uint32_t task;
    } nodes[SIM_NODES_MAX];
    uint32_t node_count;
    cadre_u64_map_t by_incarnation; /* node + 1 */
    uint32_t place_count;
    sim_place_t places[SIM_PLACES_MAX]; /* those of the ps first */
    sim_script_t script;
    uint32_t client_count; /* there ever were */
    sim_client_t clients[SIM_CLIENTS_MAX];

    uint64_t lease_ms;
    uint64_t fault_every_ms; /* on average; 0: none */
    uint64_t faults_end_ms;
    uint64_t faults_min; /* the script goes on until there were as many */
    uint32_t seen;       /* chance that a broken connection is seen at once, in 10,000 */
    bool same_addresses; /* a ps that begins again gets what was on its way to the one before */
    bool loses_ps;
    bool is_stormy; /* so many messages are lost or late that a lease may run out for that alone */
    bool loses_coordinator;
    sim_trap_t trap;
    bool calm; /* no more faults */
    uint64_t faults;
    uint64_t calm_ms; /* since when there are none, and the store has done what it was slow with */
    uint64_t quit_faults; /* the user program ends after so many, whatever is under way; 0: never */
    bool stopping;
    uint64_t rest_ms;                   /* once the script has ended: by then nothing may move */
    uint64_t look_ms;                   /* when to look at everything again (sim_look.h) */
    uint64_t agreed_ms[SIM_SHARDS_MAX]; /* when coordinator and ps last agreed about a shard */
} sim_cluster_t;

void sim_cluster_fini(sim_cluster_t *self);

/* One event, and whatever follows from it at once. */
void sim_cluster_event(sim_cluster_t *self, sim_event_t *event);

/* The coordinator's turn, after something was asked of it. */
void sim_cluster_turn_coordinator(sim_cluster_t *self);

/* The ps or worker that is a node, dead or alive; NULL when it is none. */
sim_worker_t *sim_cluster_worker_of(sim_cluster_t *self, uint32_t node);
sim_shard_t *sim_cluster_shard_of(sim_cluster_t *self, uint32_t node);

/* The client that is a node; NULL when it is none. */
sim_client_t *sim_cluster_client_of(sim_cluster_t *self, uint32_t node);

/* Starts one more client, as long as there is room and faults go on; another one later. */
void sim_cluster_start_client(sim_cluster_t *self);

/* The node that was or is this task. */
uint32_t sim_cluster_node_of(sim_cluster_t *self, const cadre_task_t *task);

/* The session of the task at `node` is over: its process ends, and its supervisor starts another.
 */
void sim_cluster_left(sim_cluster_t *self, uint32_t node);

/* --- for the user program --- */

/* Join has returned: compares every shard with the oracle. */
void sim_cluster_check_joined(sim_cluster_t *self);

/* The same where a pause is still: nothing that was begun is under way. */
void sim_cluster_check_still(sim_cluster_t *self);

/* At rest: no closure has a variable yet that was dropped, and what nobody can name is gone. */
void sim_cluster_check_drops(sim_cluster_t *self);

/* Whether checkpoints may fail for the loss of a ps. */
bool sim_cluster_may_lose_ps(const sim_cluster_t *self);

/* Whether there were as many faults as there should be. */
bool sim_cluster_had_enough(const sim_cluster_t *self);

/* --- for the faults --- */

/* Starts a task at a place where none lives. */
void sim_cluster_start(sim_cluster_t *self, sim_place_t *place);

/* Ends the task at a place at once; the coordinator sees it, or not. */
void sim_cluster_kill(sim_cluster_t *self, sim_place_t *place);

/* The living task at a place, or NULL. */
sim_worker_t *sim_cluster_worker_at(sim_cluster_t *self, const sim_place_t *place);
sim_shard_t *sim_cluster_shard_at(sim_cluster_t *self, const sim_place_t *place);

/* The node of the living task at a place, which there must be. */
uint32_t sim_cluster_node_at(sim_cluster_t *self, const sim_place_t *place);

/* The coordinator sees, by and by, that its connection to a node broke; or never does. */
void sim_cluster_maybe_seen(sim_cluster_t *self, uint32_t node);

/* A task notices that its control connection broke; nothing for a node that is none. */
void sim_cluster_disconnected(sim_cluster_t *self, uint32_t node);

/* The coordinator and the user program die; they begin again. */
void sim_cluster_kill_coordinator(sim_cluster_t *self);
void sim_cluster_start_coordinator(sim_cluster_t *self);

/* The coordinator stands still for so long, and another one is started meanwhile; later the first
 * one dies. */
void sim_cluster_depose_coordinator(sim_cluster_t *self, uint64_t ms);
void sim_cluster_kill_deposed(sim_cluster_t *self);

/* Whether there is room for as many incarnations as may be needed from now on. */
bool sim_cluster_has_room(const sim_cluster_t *self);

#endif
