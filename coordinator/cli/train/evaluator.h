/*
 * evaluator - tests the checkpoints of a job on the rows held out, beside the run that writes them.
 *
 * Owner:   `cadre evaluate`.
 * Thread:  cadre_evaluator_run blocks and has a thread to itself, which is stopped by a byte on
 *          `commands` and cadre_coordinator_interrupt. It alone writes to stdout; words go out as
 *          notices.
 *
 * It only reads in the directory of checkpoints and takes no lock there. The run may delete what is
 * being read: then the newest of that moment is taken instead. Values are read here and assigned to
 * the variables of a cluster of the evaluator's own, so nothing of the run's is touched.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_EVALUATOR_H
#define CADRE_COORDINATOR_CLI_TRAIN_EVALUATOR_H

#include "coordinator/cli/train/trainer.h"

#define CADRE_EVALUATION_SCHEMA "cadre.evaluation/v1"

enum {
    CADRE_EVALUATOR_POLL_MS = 500,     /* between looks for a newer checkpoint */
    CADRE_EVALUATOR_SAY_MS = 30000,    /* between words that none has come */
    CADRE_EVALUATOR_AGAIN_MS = 2000,   /* until a checkpoint that looked damaged is looked at
                                          again */
    CADRE_EVALUATOR_ASSIGN_MS = 60000, /* for one variable; then 124 */
    CADRE_EVALUATOR_TRIES = 10,        /* checkpoints that vanish in a row; then 75 */
};

typedef struct {
    cadre_trainer_options_t trainer; /* the job, the evaluator's own coordinator, data, channels */
    const char *directory;           /* of checkpoints; need not be there yet with `follow` */
    bool follow;                     /* go on with newer ones until the job is complete */
    bool json;
} cadre_evaluator_options_t;

typedef struct {
    int status;
    char text[CADRE_TRAINER_TEXT_SIZE]; /* the details */
} cadre_evaluator_outcome_t;

/* Prints a line for each checkpoint. CADRE_ENOTFOUND when there is none and it does not follow,
 * CADRE_ECORRUPT when none is sound, CADRE_ECONFIG when they are of another model,
 * CADRE_EINTERRUPTED after a command. */
void cadre_evaluator_run(const cadre_evaluator_options_t *options,
                         cadre_evaluator_outcome_t *outcome);

#endif
