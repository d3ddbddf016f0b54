/*
 * shard_updates - what changes a shard's values, each once: updates by their id, assignments by
 * their sequence.
 *
 * Owner:   one shard. Thread: its; the work of an update goes on the lanes' too.
 *
 * A core: no socket, thread, clock or file. An update is checked whole - not seen before, every
 * partition there and named once, every chunk of its size, every number finite - before anything is
 * written; then it is applied to all its partitions, and to what the open cut holds of them where
 * it is a straggler, in one turn and marked. One that is part of a synchronous step is marked and
 * held instead (shard_steps); all of a step are one update of their mean when it ends.
 */
#ifndef CADRE_PS_CORE_SHARD_UPDATES_H
#define CADRE_PS_CORE_SHARD_UPDATES_H

#include "ps/core/lanes.h"
#include "ps/core/shard_cut.h"

typedef struct cadre_shard_updates cadre_shard_updates_t;

cadre_shard_updates_t *cadre_shard_updates_new(const cadre_lanes_t *lanes);
void cadre_shard_updates_destroy(cadre_shard_updates_t **self_p);

/* Forgets what was applied: every update below `base` is settled, no assignment was seen. */
void cadre_shard_updates_clear(cadre_shard_updates_t *self, uint64_t base);

/* Settles every update below `base`. */
void cadre_shard_updates_settle(cadre_shard_updates_t *self, uint64_t base);
uint64_t cadre_shard_updates_base(const cadre_shard_updates_t *self);

/* Whether an update may still come: as cadre_applied_window_check. */
int cadre_shard_updates_check(const cadre_shard_updates_t *self, uint64_t update);

/* What the changes are made to. */
typedef struct {
    cadre_shard_parts_t *parts;
    cadre_shard_cut_t *cut;
    cadre_ps_counters_t *counters;
} cadre_shard_target_t;

/* Applies the update of a PUSH, which is whole, or holds it where it is part of a step; how stale
 * its stalest partition is. A failure has changed nothing: CADRE_EDUPLICATE, CADRE_EFULL as the
 * window says; CADRE_ESTATE where its step has ended without it; CADRE_EINVALID, CADRE_EMALFORMED,
 * CADRE_ENOTFOUND, CADRE_ESHAPE, CADRE_ENOTFINITE. */
int cadre_shard_updates_push(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
                             const cadre_message_t *message, uint64_t *staleness);

/* Ends a synchronous step: each partition that the updates of the message changed takes one step
 * with their mean, weighted by their rows (with the optimizer `add`: their sum), added in the
 * message's order. What it does not name of the step is dropped and counted as refused. A step that
 * has ended is not ended again. */
void cadre_shard_updates_end_step(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
                                  const cadre_end_step_message_t *message);

/* What is held of steps that have not ended. */
size_t cadre_shard_updates_held_count(const cadre_shard_updates_t *self);
uint64_t cadre_shard_updates_held_bytes(const cadre_shard_updates_t *self);

/* Carries out an ASSIGN; 0 too for one that was seen before. One that was refused is refused again.
 * CADRE_ENOTFOUND, CADRE_ESHAPE, CADRE_ENOTFINITE. */
int cadre_shard_updates_assign(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
                               const cadre_message_t *message);

/* Whether the update, or the assignment of this sequence (0: none), is known to be in. */
bool cadre_shard_updates_has(const cadre_shard_updates_t *self, uint64_t update, uint64_t sequence);

#endif
