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
#ifndef CADRE_COORDINATOR_CORE_REPLAY_BOUNDS_H
#define CADRE_COORDINATOR_CORE_REPLAY_BOUNDS_H

struct cadre_core;

/* Looks at the bounds; called every turn. */
void cadre_replay_bounds_tick(struct cadre_core *core);

#endif
