/*
 * trainer - the built-in trainer: runs a job on a coordinator, through the public API only.
 *
 * Owner:   a supervisor.
 * Thread:  cadre_trainer_run blocks and has a thread to itself, which is stopped by a command and
 *          cadre_coordinator_interrupt. It reports progress by notices.
 *
 * Each epoch schedules its batches in order and joins. The progress record of a checkpoint is
 * computed from the id of its cut (training_plan.h): a resumed run continues with the very next
 * row. One that stops in a synchronous job fills the step under way before it takes that
 * checkpoint: the steps of the run that resumes are then those of a run that was never stopped. */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINER_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINER_H

#include <cadre/coordinator.h>
#include <jansson.h>

#include "coordinator/cli/terminal/notice.h"
#include "coordinator/cli/terminal/result.h"
#include "coordinator/cli/train/job.h"
#include "coordinator/cli/train/training_records.h"

enum {
    CADRE_TRAINER_TEXT_SIZE = 1024,
    CADRE_TRAINER_TICK_MS = 100,        /* between updates of the progress */
    CADRE_TRAINER_DATA_MS = 600000,     /* limit for reading a file; after it: exit code 124 */
    CADRE_TRAINER_STREAM_MS = 86400000, /* of one that is larger than memory: a day */
    CADRE_TRAINER_SAVE_MS = 300000,     /* limit for a checkpoint; after it: exit code 124 */
    /* Queue capacity of a job with a time limit: small, as closures in the queue are still trained
     * when the time is over. */
    CADRE_TRAINER_TIMED_QUEUE = 128,
    CADRE_TRAINER_SAMPLES_PER_EPOCH = 64, /* closures of an epoch whose loss is asked for */
};

/* The commands: one byte, written to the command descriptor before cadre_coordinator_interrupt is
 * called. */
enum {
    CADRE_TRAINER_STOP = 's',  /* take a checkpoint, then end training */
    CADRE_TRAINER_ABORT = 'a', /* end training without a checkpoint */
    /* After STOP: end without the checkpoint, as workers that it needs are silent. */
    CADRE_TRAINER_UNSAVED = 'u',
};

typedef struct {
    const cadre_job_t *job;
    cadre_coordinator_t *coordinator;
    bool launched;            /* ps and workers are started by this command */
    const json_t *train;      /* dataset descriptions with resolved paths */
    const json_t *test;       /* NULL: the test rows are a fraction of `train`, or there are none */
    cadre_notices_t *notices; /* where notices go */
    int commands;             /* non-blocking descriptor that commands are read from */
} cadre_trainer_options_t;

typedef struct {
    int status; /* 0, CADRE_EINTERRUPTED after a command, or why training failed */
    char text[CADRE_TRAINER_TEXT_SIZE]; /* the details */
    bool aborted;                       /* the command was CADRE_TRAINER_ABORT */
    bool saved;                         /* a checkpoint was taken at the end, or when stopping */
    bool target_missed;                 /* accuracy is below training.target_accuracy */
    cadre_result_t result;              /* filled in as far as known, also after a failure */
    cadre_training_records_t records;   /* which the coordinator asks until it is closed */
} cadre_trainer_outcome_t;

/* Runs the job to its end, a failure or a command. What is queued then runs on until the
 * coordinator is closed, and checkpoints are taken of it. The outcome stays where it is until then;
 * after that the caller frees it by cadre_trainer_outcome_fini. */
void cadre_trainer_run(const cadre_trainer_options_t *options, cadre_trainer_outcome_t *outcome);
void cadre_trainer_outcome_fini(cadre_trainer_outcome_t *self);

#endif
