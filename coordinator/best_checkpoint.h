/*
 * best_checkpoint - which checkpoint of the job's directory is marked as the best.
 *
 * Owner:   the coordinator.
 * Thread:  a caller's, beside the store, which reads the mark when it removes old checkpoints: the
 *          mark is replaced by a rename, so that it reads the one or the other.
 */
#ifndef CADRE_COORDINATOR_BEST_CHECKPOINT_H
#define CADRE_COORDINATOR_BEST_CHECKPOINT_H

#include <stdint.h>

#include "coordinator/coordinator.h"

/* Marks checkpoint `id`, or the one that was resumed for 0. Fails as cadre_checkpoint_mark_best
 * says. */
int cadre_best_checkpoint_mark(const cadre_coordinator_t *self, uint64_t id);

/* Returns the path of the one that is marked, freed by the caller; NULL when there is none. */
char *cadre_best_checkpoint_path(const cadre_coordinator_t *self);

#endif
