/*
 * epoch_figures - what an epoch tells besides losses and metrics: how stale its updates were, and
 * which learning rate the ps use after it.
 *
 * Owner:   a trainer; an open struct.
 * Thread:  the trainer's.
 *
 * Staleness is counted by ps and coordinator over the whole run: the figures keep what was counted
 * when the epoch before ended. The learning rate is computed as a ps does, from the number of
 * updates.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_EPOCH_FIGURES_H
#define CADRE_COORDINATOR_CLI_TRAIN_EPOCH_FIGURES_H

#include <cadre/coordinator.h>

#include "coordinator/cli/terminal/notice.h"
#include "coordinator/cli/train/job.h"
#include "coordinator/cli/train/training_plan.h"

enum { CADRE_EPOCH_FIGURES_MS = 100 }; /* limit for asking one shard for its counters */

typedef struct {
    const cadre_job_t *job;
    cadre_coordinator_t *coordinator;
    uint64_t closures; /* closures of this run whose staleness was known when an epoch ended */
    uint64_t sum;      /* the sum of their staleness, in versions */
} cadre_epoch_figures_t;

/* Returns how many updates the ps have applied to each variable at this place. With `sync`, steps
 * that a checkpoint has cut in two count as one. */
uint64_t cadre_epoch_figures_updates(const cadre_epoch_figures_t *self,
                                     const cadre_training_plan_t *plan,
                                     const cadre_training_place_t *place);

/* Sets staleness and learning rate of the progress to those of the epoch that ends at `place`. A ps
 * that does not answer in time is left out of the largest staleness. */
void cadre_epoch_figures_note(cadre_epoch_figures_t *self, const cadre_training_plan_t *plan,
                              const cadre_training_place_t *place, cadre_progress_t *progress);

#endif
