/*
 * training_data - the rows of a job: those to train on and those held out.
 *
 * Owner:   a trainer; the datasets belong to the coordinator.
 * Thread:  the trainer's.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_TRAINING_DATA_H
#define CADRE_COORDINATOR_CLI_TRAIN_TRAINING_DATA_H

#include "coordinator/cli/train/trainer.h"

typedef struct {
    cadre_dataset_t *train;
    cadre_dataset_t *test; /* NULL: no held-out rows */
    int64_t ranges;        /* from so many come the batches of a shuffled epoch in turn */
} cadre_training_data_t;

/* Opens the training and test datasets on the workers. CADRE_EDATA when their rows do not fit each
 * other; other errors as cadre_dataset_open. */
int cadre_training_data_open(cadre_training_data_t *self, const cadre_trainer_options_t *options);

#endif
