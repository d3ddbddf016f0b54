/*
 * training_plan - which closure of a training run does what.
 *
 * Owner:   a trainer; never changed while the coordinator may ask it.
 * Thread:  any: it is immutable, which is why the coordinator's thread may ask it without a lock
 *          which epoch and row a checkpoint's cut stands at while the trainer keeps scheduling. A
 *          trainer that learns more (an evaluation, the end of its time) hands over another plan
 *          (cadre_checkpoint_on_progress), which begins where that was.
 *
 * The trainer schedules the batches of an epoch in order, then the evaluation when one is due.
 * Closure ids are handed out in that order without gaps, so that what closure n does is arithmetic.
 *
 * A pass goes once over the rows, in an order of its own. An epoch is a pass, or `steps_per_epoch`
 * batches: passes then follow one another without regard to epochs.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_PLAN_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/cli/train/training_stop.h"

/* How far training is: rows below `position` of pass `pass` are done, all earlier passes too. */
typedef struct {
    int64_t epoch;                /* from 0; the number of epochs when there is nothing left */
    int64_t position;             /* row in the order of that pass */
    int64_t closures;             /* that trained, before this place */
    int64_t evaluations;          /* closures that evaluated, before this place */
    int64_t pass;                 /* from 0; without steps_per_epoch the epoch */
    int64_t begun;                /* with steps_per_epoch: closures of this epoch that trained */
    cadre_training_watch_t watch; /* what the evaluations before this place were */
} cadre_training_place_t;

typedef struct {
    uint64_t first_id;            /* id of the first closure from `start` on */
    cadre_training_place_t start; /* where it begins */
    int64_t rows;
    int64_t batch_size;
    bool drop_last;
    int64_t epochs;
    int64_t steps_per_epoch;     /* 0: a pass */
    int64_t steps_max;           /* closures that train in the whole job; 0: as epochs have it */
    int64_t evaluate_every;      /* epochs; 0: only after the last */
    int64_t evaluation_closures; /* of one evaluation */
    bool watched;                /* what comes next depends on what an evaluation finds */
} cadre_training_plan_t;

/* Returns how many closures train in a pass from row `position` on. */
int64_t cadre_training_plan_batches(const cadre_training_plan_t *self, int64_t position);

/* Returns how many closures train in a whole epoch that begins a pass. */
int64_t cadre_training_plan_epoch_closures(const cadre_training_plan_t *self);

/* Returns how many closures train from `place` to the end of its epoch, or of the training. */
int64_t cadre_training_plan_left(const cadre_training_plan_t *self,
                                 const cadre_training_place_t *place);

/* Moves the place over `closures` that train, at most those that are left in its epoch. */
void cadre_training_plan_advance(const cadre_training_plan_t *self, cadre_training_place_t *place,
                                 int64_t closures);

/* Whether nothing is left to train at this place. */
bool cadre_training_plan_is_over(const cadre_training_plan_t *self,
                                 const cadre_training_place_t *place);

/* Whether an evaluation follows at this place, at the end of an epoch or of the training. */
bool cadre_training_plan_evaluates(const cadre_training_plan_t *self,
                                   const cadre_training_place_t *place);

/* Moves the place from the end of its epoch to the beginning of the next one; it stays where it is
 * in the middle of an epoch, at the end of the training. */
void cadre_training_plan_next_epoch(const cadre_training_plan_t *self,
                                    cadre_training_place_t *place);

/* Returns how many closures train in the whole job, those before the start included. */
int64_t cadre_training_plan_total(const cadre_training_plan_t *self);

/* Returns the rows trained on when `closures` closures of the job that train have ended: those of
 * the last pass that was begun count as its first ones. */
int64_t cadre_training_plan_rows(const cadre_training_plan_t *self, int64_t closures);

/* Returns the place at which exactly the closures below `cut` have been done. A cut inside an
 * evaluation is at the end of the epoch that it follows: the evaluation will be done again, as it
 * changes nothing. So is one behind an evaluation that is watched, whose outcome this plan does not
 * know. A cut before the first closure is the start; behind the last one, the end. */
cadre_training_place_t cadre_training_plan_at(const cadre_training_plan_t *self, uint64_t cut);

/* The place as a checkpoint keeps it, a JSON object freed by the caller, and back. What a job does
 * not use is left out, as builds before there was such a thing have it. Decoding takes text from a
 * file: CADRE_EMALFORMED unless every field is there and in range. */
char *cadre_training_place_encode(const cadre_training_place_t *place);
int cadre_training_place_decode(const char *text, cadre_training_place_t *place);

#endif
