/*
 * replay_bounds - what happens when kept closures reach their bound: a checkpoint makes room, or
 * keeping ends.
 *
 * Owner:   none: it looks at the replay and at the checkpoint.
 * Thread:  under the coordinator's lock.
 *
 * At the bound a checkpoint begins. At twice the bound nothing new is begun: checkpoints must have
 * failed for long, or take long, and somebody may have to make room for them. Without checkpoints
 * nothing is kept any more, and a lost ps costs updates.
 */
#ifndef CADRE_COORDINATOR_CORE_CHECKPOINT_REPLAY_BOUNDS_H
#define CADRE_COORDINATOR_CORE_CHECKPOINT_REPLAY_BOUNDS_H

#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/replay.h"

/* Looks at the bounds; called every turn. `next_id`: of the next closure to be begun. */
void cadre_replay_bounds_tick(cadre_replay_t *replay, uint64_t next_id,
                              const cadre_shard_recovery_t *recovery,
                              cadre_checkpoint_t *checkpoint, cadre_effects_t *effects);

#endif
