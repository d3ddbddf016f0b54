/*
 * evaluation - loss and accuracy of a model on the rows held out, as closures on the workers.
 *
 * Owner:   the caller; an open struct.
 * Thread:  one at a time.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_EVALUATION_H
#define CADRE_COORDINATOR_CLI_TRAIN_EVALUATION_H

#include <cadre/coordinator.h>

typedef struct {
    const cadre_function_t *function; /* results "loss" (mean of the batch) and "correct" (count) */
    cadre_dataset_t *dataset;
    int64_t batch_size;
    bool counts_correct; /* whether there is a "correct" */
    int64_t rows;        /* set by cadre_evaluation_run, like the next two: means over all rows */
    double loss;
    double accuracy;
} cadre_evaluation_t;

/* Runs one closure per batch and waits for all of them; CADRE_EINTERRUPTED, or a closure's error.
 */
int cadre_evaluation_run(cadre_evaluation_t *self);

#endif
