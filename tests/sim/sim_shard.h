/*
 * sim_shard - a ps: its session core and its shard, with a store made of events.
 *
 * Owner:   the cluster.
 * Thread:  one.
 */
#ifndef CADRE_TESTS_SIM_SIM_SHARD_H
#define CADRE_TESTS_SIM_SIM_SHARD_H

#include "ps/ps_core.h"
#include "ps/shard.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_network.h"

typedef struct {
    uint32_t node;
    uint32_t index;
    cadre_task_t task;
    sim_network_t *network;
    sim_check_t *check;
    cadre_random_t *random;
    uint32_t store_fails; /* chance that a snapshot cannot be written, in 10,000 */
    cadre_ps_core_t *core;
    cadre_shard_t *shard;
    cadre_outbox_t answers;           /* of the shard */
    cadre_shard_snapshot_t *snapshot; /* being written */
    bool stopping;                    /* it may leave */
    bool left;
    uint64_t tick_due_ms;
    uint64_t written; /* snapshots */
} sim_shard_t;

/* Starts it. node, index, task, network, check, random and store_fails are set. */
void sim_shard_start(sim_shard_t *self);
void sim_shard_stop(sim_shard_t *self);

/* A message on `plane`; takes it. What the shard answers is checked. */
void sim_shard_receive(sim_shard_t *self, cadre_plane_t plane, const cadre_task_t *from,
                       cadre_message_t *message);

/* Any other event. */
void sim_shard_event(sim_shard_t *self, const sim_event_t *event);

/* Handles what the core gives out, but for messages; ticks it. */
void sim_shard_turn(sim_shard_t *self);

/* Every partition, compared with the model. */
void sim_shard_check_all(const sim_shard_t *self);

#endif
