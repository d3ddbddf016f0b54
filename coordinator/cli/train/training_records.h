/*
 * training_records - the progress records of a run's checkpoints: where training stands at a cut.
 *
 * Owner:   the outcome of a trainer.
 * Thread:  the trainer's. The coordinator's thread makes a record when a checkpoint is cut, by the
 *          plan that it was given last; that does not change while the coordinator has it, since
 *          the next one goes into the other of two places.
 *
 * They live until the coordinator is closed: what is queued when a run stops goes on, and so do
 * automatic checkpoints. One without a record would have the run that resumes from it train again
 * from the first row on.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_RECORDS_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_RECORDS_H

#include <cadre/coordinator.h>

#include "coordinator/cli/train/job.h"
#include "coordinator/cli/train/training_plan.h"

/* What the coordinator makes records of. */
typedef struct {
    cadre_training_plan_t plan;
    int64_t since_ms; /* time at which training was at plan.start; 0: the job has no time limit */
} cadre_training_record_t;

typedef struct {
    cadre_coordinator_t *coordinator;
    char *words;       /* what ids of words mean (word_ids.h); NULL: there are none */
    bool is_timed;     /* the job has a time limit: records say how long training took */
    int64_t before_ms; /* how long earlier runs of the job took */
    int64_t start_ms;  /* when training began; 0: it has not */
    cadre_training_record_t items[2]; /* the coordinator has items[given], the other one is free */
    int given;
} cadre_training_records_t;

/* Initialises for a run of `job`, both borrowed. */
void cadre_training_records_init(cadre_training_records_t *self, cadre_coordinator_t *coordinator,
                                 const cadre_job_t *job);

/* Frees all, once the coordinator is closed. */
void cadre_training_records_fini(cadre_training_records_t *self);

/* Gives the place where training goes on: of checkpoint `path` with the record `progress`, which is
 * NULL where a program of the user has written it; of none where `path` is NULL. Fails as
 * cadre_training_place_decode, and as cadre_word_ids_check where ids of words mean something
 * else. */
int cadre_training_records_resume(cadre_training_records_t *self, const char *path,
                                  const char *progress, cadre_training_place_t *place);

/* Notes that training begins now. */
void cadre_training_records_start(cadre_training_records_t *self);

/* Returns how long training took so far, all runs of the job together. */
int64_t cadre_training_records_elapsed_ms(const cadre_training_records_t *self);

/* Returns the record of a checkpoint at this place, freed by the caller. */
char *cadre_training_records_encode(const cadre_training_records_t *self,
                                    const cadre_training_place_t *place);

/* Gives the coordinator a plan that goes on from `place` as that of the run does: later checkpoints
 * are recorded by it. Everything scheduled must have ended, so that no cut can lie before. */
void cadre_training_records_give(cadre_training_records_t *self, const cadre_training_plan_t *plan,
                                 const cadre_training_place_t *place);

#endif
