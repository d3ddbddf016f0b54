/*
 * training_tasks - the ps and workers that training waits for before it begins.
 *
 * Thread:  the trainer's; there is no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_TASKS_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_TASKS_H

#include "coordinator/cli/train/trainer.h"

/* Waits, at most the job's `wait_s`, until all ps and one worker have joined; reports the wait to
 * the user. Fails with CADRE_EUNAVAILABLE when they have not, saying who has, and where this
 * command does not start them how they are; else as cadre_coordinator_wait_ready. */
int cadre_training_tasks_wait(const cadre_trainer_options_t *options);

#endif
