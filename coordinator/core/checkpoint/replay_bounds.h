/*
 * replay_bounds - what happens when the log of closures for a replay is full.
 *
 * Owner:   none: it looks at the replay and at the checkpoint.
 * Thread:  under the coordinator's lock.
 *
 * At the bound a checkpoint begins, after which the log can be truncated. At twice the bound no
 * new closure is begun (backpressure): checkpoints have failed or taken long,
 * and somebody may have to free disk space for them. Without checkpoints the log is given up at the
 * bound, and a lost ps costs updates.
 */
#ifndef CADRE_COORDINATOR_CORE_CHECKPOINT_REPLAY_BOUNDS_H
#define CADRE_COORDINATOR_CORE_CHECKPOINT_REPLAY_BOUNDS_H

#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/replay.h"

/* Compares the replay log with its bounds, and begins a checkpoint, pauses dispatch or gives the
 * log up as the head of this file says; called every turn. `next_id`: id of the next closure to be
 * begun. */
void cadre_replay_bounds_tick(cadre_replay_t *replay, uint64_t next_id,
                              const cadre_shard_recovery_t *recovery,
                              cadre_checkpoint_t *checkpoint, cadre_effects_t *effects);

#endif
