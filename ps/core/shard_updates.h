/*
 * shard_updates - applies what changes a shard's values, each change once: updates are known by
 * their id, assignments by their sequence.
 *
 * Owner:   one shard. Thread: its; the work of an update goes on the lanes' too.
 *
 * A core: no socket, thread, clock or file. An update is checked whole - not seen before, every
 * partition there and named once, every chunk of its size, every number finite - before anything is
 * written. Then it is applied to all its partitions (a straggler to their images in the open cut
 * too) and marked as applied, all in one turn. An update of a synchronous step is marked and held
 * instead (shard_steps.h); when the step ends its updates are applied as one, of their mean.
 */
#ifndef CADRE_PS_CORE_SHARD_UPDATES_H
#define CADRE_PS_CORE_SHARD_UPDATES_H

#include "ps/core/shard_cut.h"
#include "ps/core/values/lanes.h"

typedef struct cadre_shard_updates cadre_shard_updates_t;

/* Returns an object that has applied nothing. `step_bytes_max`: the most bytes that updates of
 * synchronous steps take, 0 for no limit (shard_steps.h). */
cadre_shard_updates_t *cadre_shard_updates_new(const cadre_lanes_t *lanes,
                                               const cadre_lanes_t *table_lanes,
                                               uint64_t step_bytes_max);
void cadre_shard_updates_destroy(cadre_shard_updates_t **self_p);

/* Forgets what was applied: every update below `base` is settled, no assignment was seen. */
void cadre_shard_updates_clear(cadre_shard_updates_t *self, uint64_t base);

/* Settles every update below `base`. */
void cadre_shard_updates_settle(cadre_shard_updates_t *self, uint64_t base);
uint64_t cadre_shard_updates_base(const cadre_shard_updates_t *self);

/* Returns whether an update may be applied, as cadre_applied_window_check. */
int cadre_shard_updates_check(const cadre_shard_updates_t *self, uint64_t update);

/* The objects that updates and assignments change, and are counted in; borrowed. */
typedef struct {
    cadre_shard_parts_t *parts;
    cadre_shard_cut_t *cut;
    cadre_ps_counters_t *counters;
} cadre_shard_target_t;

/* Applies the update of a PUSH that is whole, or holds it if it is of a synchronous step;
 * `staleness` becomes that of its stalest partition. Changes nothing when it fails: with
 * CADRE_EDUPLICATE or CADRE_EFULL as cadre_applied_window_check, CADRE_EFULL too when there is no
 * room to hold it (cadre_shard_steps_check_room), CADRE_ESTATE when its step has ended without it,
 * CADRE_EINVALID for a contradictory cut or version, CADRE_EMALFORMED for a bad list of partitions,
 * CADRE_ENOTFOUND for an unknown partition, CADRE_ESHAPE and CADRE_ENOTFINITE for bad gradients. */
int cadre_shard_updates_push(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
                             const cadre_message_t *message, uint64_t *staleness);

/* Ends a synchronous step: each partition that the updates of the message changed takes one step
 * with their mean, weighted by their rows (with the optimizer `add`: their sum), added in the
 * message's order. Held updates of the step that the message does not name are dropped and counted
 * as refused. Ending a step again changes nothing. Fails, and changes nothing, with
 * CADRE_EMALFORMED when the list of updates is no list of pairs, CADRE_EINVALID when it names an
 * update twice, with no rows, or one that is held for another step, CADRE_ESTATE when another step
 * has ended last than the one that the message says. */
int cadre_shard_updates_end_step(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
                                 const cadre_end_step_message_t *message);

/* Return how many updates of unfinished steps are held, and their bytes. */
size_t cadre_shard_updates_held_count(const cadre_shard_updates_t *self);
uint64_t cadre_shard_updates_held_bytes(const cadre_shard_updates_t *self);

/* Carries out an ASSIGN; returns 0 and changes nothing for one that was applied before. Fails with
 * CADRE_ENOTFOUND for an unknown partition, CADRE_ESHAPE and CADRE_ENOTFINITE for bad values, of
 * rows as cadre_shard_rows_check, also when the ASSIGN is repeated. */
int cadre_shard_updates_assign(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
                               const cadre_message_t *message);

/* Returns whether the update with this id (0: none), or the assignment with this sequence (0:
 * none), is known to be applied. */
bool cadre_shard_updates_has(const cadre_shard_updates_t *self, uint64_t update, uint64_t sequence);

#endif
