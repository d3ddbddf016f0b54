/*
 * sim_coordinator - the coordinator's core with a shell made of events, and its store on the
 * simulated disk. It has lives: after a death another core begins from the newest checkpoint.
 *
 * Owner:   the cluster.
 * Thread:  one.
 */
#ifndef CADRE_TESTS_SIM_SIM_COORDINATOR_H
#define CADRE_TESTS_SIM_SIM_COORDINATOR_H

#include "coordinator/core/coordinator_core.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_network.h"

enum { SIM_COORDINATOR_NODE = 0 };

typedef struct {
    cadre_task_t task;
    uint32_t node;
    bool deposed; /* another one has taken its place: nobody listens to what its user would see */
    sim_network_t *network;
    sim_check_t *check;
    cadre_random_t *random;
    sim_disk_t *disk;
    uint32_t store_fails;  /* chance that an order to the store fails, in 10,000 */
    uint64_t store_ms_max; /* that an order takes */
    bool slow_store;       /* now and then longer than a lost shard waits for a commit */
    bool verbose;
    cadre_core_options_t options; /* of every life, but for incarnation and epoch */
    cadre_core_t core;
    bool alive;
    uint32_t life;                    /* 1 for the first */
    uint32_t resumed;                 /* variables that it began with: bits id - 1 */
    uint64_t paused_ms;               /* until then nothing happens here */
    bool has_left;                    /* a client has, since the last turn */
    bool is_at_end;                   /* no checkpoint that a shard may begin with can be read */
    bool user_cancels;                /* the user's cancel is under way */
    uint64_t heard_ms[SIM_NODES_MAX]; /* when the last heartbeat of a node came, read or not */
    bool lost[SIM_NODES_MAX];         /* a node's task was given up by this life, once or more */
    uint64_t abreast_ms;              /* when it had last read all that had come */
    uint64_t tick_due_ms;
    uint64_t store_ms;          /* when the store has done what it was told so far */
    uint64_t draft;             /* id of the newest */
    cadre_manifest_t *manifest; /* that is to be committed */
    uint64_t committed;         /* checkpoints, over all lives */
    uint64_t failed;            /* the same: begun and given up */
} sim_coordinator_t;

/* A life begins; options is set, and everything above it. */
void sim_coordinator_start(sim_coordinator_t *self);

/* And ends: nothing is told to anybody. Harmless on a dead one. */
void sim_coordinator_stop(sim_coordinator_t *self);

/* SIM_STORED, SIM_ANSWERED: the store has done an order, its answer has come. */
void sim_coordinator_stored(sim_coordinator_t *self, const sim_event_t *event);
void sim_coordinator_answered(sim_coordinator_t *self, const sim_event_t *event);

/* Goes on as another one, which then begins its first life; `self` is deposed and has another node.
 */
void sim_coordinator_depose(sim_coordinator_t *self, uint32_t node, sim_coordinator_t *next);

/* Tells the user of the closures that have ended since the last call. */
void sim_coordinator_take_ended(sim_coordinator_t *self);

/* Handles what the core gives out, but for messages; the turn ticks it first. */
void sim_coordinator_take_events(sim_coordinator_t *self);
void sim_coordinator_turn(sim_coordinator_t *self);

#endif
