/*
 * best_checkpoint - which checkpoint of the job's directory is marked as the best.
 *
 * Owner:   the coordinator.
 * Thread:  any caller's. The thread of the checkpoint store may read the mark at the same time,
 *          when it removes old checkpoints: the mark is replaced by a rename, so the store reads
 *          the old or the new one.
 */
#ifndef CADRE_COORDINATOR_BEST_CHECKPOINT_H
#define CADRE_COORDINATOR_BEST_CHECKPOINT_H

#include <stdint.h>

#include "coordinator/coordinator.h"

/* Marks checkpoint `id`, or the one that was resumed for 0. Fails as cadre_checkpoint_mark_best
 * says. */
int cadre_best_checkpoint_mark(const cadre_coordinator_t *self, uint64_t id);

/* Returns the path of the checkpoint marked as the best, freed by the caller; NULL when none is. */
char *cadre_best_checkpoint_path(const cadre_coordinator_t *self);

#endif
