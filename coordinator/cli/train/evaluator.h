/*
 * evaluator - tests the checkpoints of a job on the rows held out, beside the run that writes them.
 *
 * Owner:   `cadre evaluate`.
 * Thread:  cadre_evaluator_run blocks and has a thread to itself, which is stopped by a byte on
 *          `commands` and cadre_coordinator_interrupt. It alone writes to stdout; words go out as
 *          notices.
 *
 * The evaluator only reads the directory of checkpoints, and takes no lock there. The run may
 * delete the checkpoint that is being read: then the newest at that moment is read instead. The
 * evaluator has a cluster of its own and assigns the values to variables there, so nothing of the
 * run's is touched. */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_EVALUATOR_H
#define CADRE_COORDINATOR_CLI_TRAIN_EVALUATOR_H

#include "coordinator/cli/train/trainer.h"

#define CADRE_EVALUATION_SCHEMA "cadre.evaluation/v1"

enum {
    CADRE_EVALUATOR_POLL_MS = 500,     /* between two looks for a newer checkpoint */
    CADRE_EVALUATOR_SAY_MS = 30000,    /* between two notices that no newer checkpoint has come */
    CADRE_EVALUATOR_AGAIN_MS = 2000,   /* before a checkpoint that looked damaged is read again */
    CADRE_EVALUATOR_ASSIGN_MS = 60000, /* limit for assigning one variable; then exit code 124 */
    /* Checkpoints deleted while being read, in a row; then exit code 75. */
    CADRE_EVALUATOR_TRIES = 10,
};

typedef struct {
    cadre_trainer_options_t trainer; /* the job, the evaluator's own coordinator, data, channels */
    /* Directory of checkpoints; need not exist yet with `follow`. */
    const char *directory;
    /* Go on with newer checkpoints until the job's last one was tested. */
    bool follow;
    bool json;
} cadre_evaluator_options_t;

typedef struct {
    int status;
    char text[CADRE_TRAINER_TEXT_SIZE]; /* details of the status; "" for 0 */
} cadre_evaluator_outcome_t;

/* Tests checkpoints and prints a line for each. CADRE_ENOTFOUND when there is no checkpoint and
 * `follow` is false, CADRE_ECORRUPT when all are damaged, CADRE_ECONFIG when a checkpoint is of
 * another model, CADRE_EINTERRUPTED after a command. */
void cadre_evaluator_run(const cadre_evaluator_options_t *options,
                         cadre_evaluator_outcome_t *outcome);

#endif
