/*
 * evaluation - loss, accuracy and metrics of a model on the rows held out, as closures on the
 * workers.
 *
 * Owner:   the caller; an open struct, ended with cadre_evaluation_fini.
 * Thread:  one at a time.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_EVALUATION_H
#define CADRE_COORDINATOR_CLI_TRAIN_EVALUATION_H

#include <cadre/coordinator.h>

#include "coordinator/cli/train/job.h"

enum { CADRE_EVALUATION_THRESHOLDS = 200 }; /* of the AUC, as Keras has them */

typedef struct {
    const cadre_job_t *job; /* which metrics, of which labels, in which batches */

    /* Results, of the batch: "loss" and, where the job asks for mae, "absolute_error", means;
     * "correct", of classes, "top_k" and "confusion", "roc", counts. */
    const cadre_function_t *function;
    cadre_dataset_t *dataset;

    int64_t rows; /* set by cadre_evaluation_run, like what follows */
    cadre_metrics_t metrics;
    double *confusion; /* [classes, classes] where the job asks for the matrix; else NULL */
    int classes;
} cadre_evaluation_t;

/* Runs one closure per batch and waits for all of them; CADRE_EINTERRUPTED, or a closure's error.
 */
int cadre_evaluation_run(cadre_evaluation_t *self);

void cadre_evaluation_fini(cadre_evaluation_t *self);

#endif
