/*
 * training_plan - which closure of a training run does what.
 *
 * Owner:   a trainer; made before the first closure is scheduled, never changed afterwards.
 * Thread:  any: it is immutable, which is why the coordinator's thread may ask it without a lock
 *          which epoch and row a checkpoint's cut stands at while the trainer keeps scheduling.
 *
 * The trainer schedules the batches of an epoch in order, then the evaluation when one is due.
 * Closure ids are handed out in that order without gaps, so that what closure n does is arithmetic.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_PLAN_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* How far training is: rows below `position` of epoch `epoch` are done, all earlier epochs too. */
typedef struct {
    int64_t epoch;       /* from 0; the number of epochs when there is nothing left */
    int64_t position;    /* row in the order of that epoch */
    int64_t closures;    /* that trained, before this place */
    int64_t evaluations; /* closures that evaluated, before this place */
} cadre_training_place_t;

typedef struct {
    uint64_t first_id;            /* id of the first closure that this run schedules */
    cadre_training_place_t start; /* where it begins */
    int64_t rows;
    int64_t batch_size;
    bool drop_last;
    int64_t epochs;
    int64_t evaluate_every;      /* epochs; 0: only after the last */
    int64_t evaluation_closures; /* of one evaluation */
} cadre_training_plan_t;

/* Closures that train in one epoch from row `position` on. */
int64_t cadre_training_plan_batches(const cadre_training_plan_t *self, int64_t position);

/* Whether an evaluation follows epoch `epoch`. */
bool cadre_training_plan_evaluates(const cadre_training_plan_t *self, int64_t epoch);

/* Closures that train in the whole job, those before the start included. */
int64_t cadre_training_plan_total(const cadre_training_plan_t *self);

/* Rows trained on when `closures` closures of the job that train have ended: those of the last
 * epoch that was begun count as its first ones. */
int64_t cadre_training_plan_rows(const cadre_training_plan_t *self, int64_t closures);

/* The place at which exactly the closures below `cut` have been done. A cut inside an evaluation is
 * at the end of the epoch that it follows: the evaluation will be done again, as it changes
 * nothing. A cut before the first closure is the start; behind the last one, the end. */
cadre_training_place_t cadre_training_plan_at(const cadre_training_plan_t *self, uint64_t cut);

/* The place as a checkpoint keeps it, a JSON object freed by the caller, and back. Decoding takes
 * text from a file: CADRE_EMALFORMED unless every field is there and in range. */
char *cadre_training_place_encode(const cadre_training_place_t *place);
int cadre_training_place_decode(const char *text, cadre_training_place_t *place);

#endif
