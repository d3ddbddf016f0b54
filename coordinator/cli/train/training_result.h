/*
 * training_result - what the result of a run says beside its metrics: why training ended, the
 * counters of the shards, the histogram of staleness.
 *
 * Owner:   a trainer has the result.
 * Thread:  the trainer's.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_RESULT_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_RESULT_H

#include <cadre/coordinator.h>

#include "coordinator/cli/terminal/result.h"
#include "coordinator/cli/train/job.h"
#include "coordinator/cli/train/model.h"
#include "coordinator/cli/train/training_plan.h"

enum {
    CADRE_TRAINING_RESULT_COUNTERS_MS = 10000, /* limit for asking all shards for their counters */
    /* After a run that a lost task has ended, instead of COUNTERS_MS: the limit for the counters of
     * all shards, and the limit for each single shard. */
    CADRE_TRAINING_RESULT_REST_MS = 1000,
    CADRE_TRAINING_RESULT_COUNTER_MS = 500,
};

/* Puts into the result why training ended at this place, as a word and in more words. */
void cadre_training_result_note_stop(cadre_result_t *result, const cadre_job_t *job,
                                     const cadre_training_plan_t *plan,
                                     const cadre_training_place_t *place, cadre_stop_t stop);

/* Asks this many shards for their counters. After a run that a lost task has ended (`well` is
 * false) the time for that is short: a ps that does not answer then has unknown counts. */
void cadre_training_result_count_updates(cadre_result_t *result, cadre_coordinator_t *coordinator,
                                         size_t shards, bool well);

/* Asks the ps what each table of the model holds; puts nothing in where it has none, or they do not
 * answer. `well` as above. */
void cadre_training_result_count_tables(cadre_result_t *result, const cadre_model_t *model,
                                        bool well);

/* Copies the histogram of staleness from the status of the job. */
void cadre_training_result_note_staleness(cadre_result_t *result, cadre_coordinator_t *coordinator);

#endif
