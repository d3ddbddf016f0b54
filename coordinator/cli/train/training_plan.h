/*
 * training_plan - computes which batch or evaluation each closure of a training run belongs to.
 *
 * Owner:   a trainer; never changed while the coordinator may ask it.
 * Thread:  any: it is immutable, which is why the coordinator's thread may ask it without a lock
 *          which epoch and row a checkpoint's cut stands at while the trainer keeps scheduling.
 *          Where the rest of the run becomes known only later (after an evaluation, or when the
 *          time is over), the trainer then hands the coordinator another plan
 *          (cadre_checkpoint_on_cut), which begins at that place.
 *
 * The trainer schedules the batches of an epoch in order, then the evaluation when one is due.
 * Closures get their ids in that order without gaps, so what closure n does can be computed. Ids of
 * clients' closures, which lie between them, are left out of the numbers here.
 *
 * A pass goes once over the rows, in an order of its own. An epoch is a pass, or `steps_per_epoch`
 * batches: passes then follow one another without regard to epochs.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_PLAN_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/cli/train/training_stop.h"

/* How far training is: the first `position` rows of pass `pass` are done, and all earlier
 * passes. */
typedef struct {
    int64_t epoch;       /* from 0; the number of epochs when there is nothing left */
    int64_t position;    /* rows done of pass `pass`, in the order of that pass */
    int64_t closures;    /* training closures before this place */
    int64_t evaluations; /* evaluation closures before this place */
    int64_t pass;        /* from 0; without steps_per_epoch the same as `epoch` */
    int64_t begun;       /* with steps_per_epoch: training closures of this epoch so far */
    /* Of rows whose batches come in turn from several ranges (common/spec/data_ranges.h): how many
     * ranges, and rows of a batch, on which the order of the pass depends; else 0. */
    int64_t ranges;
    int64_t batch_rows;
    cadre_training_watch_t watch; /* what the evaluations before this place found */
    const char *words;            /* what ids of words mean (word_ids.h), borrowed from the trainer;
                                     NULL: there are none, or the place was decoded */
} cadre_training_place_t;

typedef struct {
    uint64_t first_id;            /* id of the first closure from `start` on */
    cadre_training_place_t start; /* the place at which the plan begins */
    int64_t rows;
    int64_t batch_size;
    bool drop_last;
    int64_t epochs;
    int64_t steps_per_epoch;     /* training closures of an epoch; 0: an epoch is a pass */
    int64_t steps_max;           /* training closures of the whole job; 0: no limit but `epochs` */
    int64_t evaluate_every;      /* epochs between evaluations; 0: only after the last epoch */
    int64_t evaluation_closures; /* closures of one evaluation; 0: nothing is evaluated */
    bool watched;                /* what comes after an evaluation depends on what it finds */
} cadre_training_plan_t;

/* Notes that the batches of a pass come in turn from so many ranges; 1: they come one behind the
 * other. Fails with CADRE_ECONFIG where the plan begins within a pass, of other ranges or batches,
 * of which no position is one of this order; `path` is the checkpoint that it begins at. */
int cadre_training_plan_deal(cadre_training_plan_t *self, int64_t ranges, const char *path);

/* Returns how many closures train in a pass from row `position` on. */
int64_t cadre_training_plan_batches(const cadre_training_plan_t *self, int64_t position);

/* Returns how many closures train in a whole epoch that begins a pass. */
int64_t cadre_training_plan_epoch_closures(const cadre_training_plan_t *self);

/* Returns how many closures train from `place` to the end of its epoch or, if that is earlier, to
 * the end of the training. */
int64_t cadre_training_plan_left(const cadre_training_plan_t *self,
                                 const cadre_training_place_t *place);

/* Moves the place over `closures` that train, at most those that are left in its epoch. */
void cadre_training_plan_advance(const cadre_training_plan_t *self, cadre_training_place_t *place,
                                 int64_t closures);

/* Returns whether nothing is left to train at this place. */
bool cadre_training_plan_is_over(const cadre_training_plan_t *self,
                                 const cadre_training_place_t *place);

/* Returns whether an evaluation follows at this place, which must be the end of an epoch or of the
 * training. */
bool cadre_training_plan_evaluates(const cadre_training_plan_t *self,
                                   const cadre_training_place_t *place);

/* Moves the place from the end of its epoch to the beginning of the next one. A place in the middle
 * of an epoch, where steps_max may end the training, is not moved. */
void cadre_training_plan_next_epoch(const cadre_training_plan_t *self,
                                    cadre_training_place_t *place);

/* Returns how many closures train in the whole job, those before the start included. */
int64_t cadre_training_plan_total(const cadre_training_plan_t *self);

/* Returns how many rows `closures` training closures of the job have read. Closures may end in
 * another order than they were scheduled in: the count is as if the first `closures` had ended. */
int64_t cadre_training_plan_rows(const cadre_training_plan_t *self, int64_t closures);

/* Returns the place at which exactly the closures below `cut` have been done. A cut inside an
 * evaluation gives the end of the epoch before it: the evaluation is done again, as it changes
 * nothing. So does a cut just after an evaluation of a `watched` plan, which does not know what the
 * evaluation found. A cut before the first closure gives the start, one after the last closure the
 * end. */
cadre_training_place_t cadre_training_plan_at(const cadre_training_plan_t *self, uint64_t cut);

/* Convert the place to the JSON text that a checkpoint holds, freed by the caller, and back. Fields
 * that a job does not use are left out, so that older builds can read the text. Decoding fails with
 * CADRE_EMALFORMED when a field is missing, unknown or out of range. */
char *cadre_training_place_encode(const cadre_training_place_t *place);
int cadre_training_place_decode(const char *text, cadre_training_place_t *place);

#endif
