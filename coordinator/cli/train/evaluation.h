/*
 * evaluation - loss and accuracy of a model on a range of rows, as closures on the workers.
 *
 * Owner:   the caller; an open struct.
 * Thread:  one at a time.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_EVALUATION_H
#define CADRE_COORDINATOR_CLI_TRAIN_EVALUATION_H

#include <cadre/coordinator.h>

/* Closures scheduled at most before the oldest is waited for. */
enum { CADRE_EVALUATION_AWAITED_MAX = 64 };

typedef struct {
    /* Has the results "loss" (mean of the batch) and "correct" (count of right predictions). */
    const cadre_function_t *function;
    const cadre_dataset_t *dataset;
    int64_t first; /* rows [first, first + rows) in file order */
    int64_t rows;
    int64_t batch_size;
    bool counts_correct; /* whether the function has the result "correct" */
    double loss;         /* set by cadre_evaluation_run: means over all rows */
    double accuracy;
} cadre_evaluation_t;

/* Runs one closure per batch and waits for all of them; CADRE_EINTERRUPTED, or a closure's error.
 */
int cadre_evaluation_run(cadre_evaluation_t *self, cadre_coordinator_t *coordinator);

#endif
