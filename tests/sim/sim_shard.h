/*
 * sim_shard - a ps: its session core and its shard, with a store made of events.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * One struct is one incarnation; it stays after its death, with what the oracle knew of it.
 */
#ifndef CADRE_TESTS_SIM_SIM_SHARD_H
#define CADRE_TESTS_SIM_SIM_SHARD_H

#include "ps/core/ps_core.h"
#include "ps/core/shard.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_disk.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_parts.h"

/* How good its disk is, and its threads. */
typedef struct {
    uint32_t write_fails; /* chance that a snapshot cannot be written, in 10,000 */
    uint32_t read_fails;  /* chance of each look into a checkpoint */
    uint32_t rots;        /* that a file with tables is damaged when it is opened */
    uint32_t write_ms_max;
    uint64_t intake_bytes; /* budget of updates that come, and the smallest window; 0: usual ones */
    size_t window;
    uint32_t load_ms_max; /* that a checkpoint takes to be opened; a part of it a twentieth */
    uint32_t count_ms;    /* until the core learns what the shard counts */
    uint64_t step_bytes;  /* limit of what is held for synchronous steps; 0: none */
    bool refuses_steps;   /* what it answers END_STEP becomes a refusal on its way */
} sim_shard_plan_t;

/* What a shard that is stuck has not been given yet. */
typedef struct {
    cadre_plane_t plane; /* CADRE_PLANE_CONTROL: `event`; else `message` */
    cadre_task_t from;
    cadre_message_t message;
    cadre_ps_event_t event;
} sim_held_t;

/* What the shard wants of a checkpoint. */
typedef struct {
    uint64_t due_ms;
    cadre_checkpoint_load_t *load;
} sim_load_t;

typedef struct {
    uint32_t node;
    uint32_t place;
    uint32_t index; /* of the shard, as it was welcomed */
    cadre_task_t task;
    sim_network_t *network;
    sim_check_t *check;
    cadre_random_t *random;
    sim_disk_t *disk;
    const sim_shard_plan_t *plan;
    cadre_ps_core_t *core; /* NULL: dead */
    cadre_shard_t *shard;
    sim_loader_t loader;
    sim_load_t *loads; /* oldest first */
    size_t load_count;
    uint64_t loads_from;    /* of the shard, when it was last asked */
    cadre_message_t *asked; /* RESTORE and CREATEs that are answered when their loads are back */
    size_t asked_count;
    sim_state_t *state;                        /* what it holds; NULL: it has not begun */
    cadre_shard_effects_t effects;             /* of the shard, but for */
    cadre_outbox_t answers;                    /* those that were checked */
    sim_parts_t parts;                         /* of pushes, as they have come */
    cadre_shard_snapshot_t *snapshot;          /* being written */
    sim_state_t *snapshot_state;               /* what it must hold */
    uint64_t counters[CADRE_PS_COUNTER_COUNT]; /* on their way to the core */
    uint64_t generation;                       /* the same */
    uint64_t counted_ms;                       /* when they arrive; 0: none are */
    bool stopping;                             /* it may leave */
    bool left;
    bool isolated;      /* it will never reach the coordinator */
    uint64_t paused_ms; /* until then nothing happens here */
    uint64_t stuck_ms;  /* until then its core lives and its shard does nothing, or SIM_FOR_EVER */
    sim_held_t *held;   /* for then, oldest first */
    size_t held_count;
    uint64_t tick_due_ms;
} sim_shard_t;

/* Starts it. Everything above core is set, but index. */
void sim_shard_start(sim_shard_t *self);

/* Kills it; harmless on a dead one. */
void sim_shard_stop(sim_shard_t *self);

/* Has the shard, not its core, do nothing for so long, or SIM_FOR_EVER. */
void sim_shard_stick(sim_shard_t *self, uint64_t ms);

/* A message on `plane`; takes it. What the shard answers is checked. */
void sim_shard_receive(sim_shard_t *self, cadre_plane_t plane, const cadre_task_t *from,
                       cadre_message_t *message);

/* Any other event. */
void sim_shard_event(sim_shard_t *self, const sim_event_t *event);

/* Handles what the core gives out, but for messages; ticks it. */
void sim_shard_turn(sim_shard_t *self);

/* Every partition, compared with the model; all that were created must be there. */
void sim_shard_check_all(sim_shard_t *self);

/* Nothing is left of a variable whose creation failed, or that is `gone` (bits id - 1); once
 * everything that it was asked is answered. */
void sim_shard_check_left(const sim_shard_t *self, uint32_t gone);

#endif
