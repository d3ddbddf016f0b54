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

enum {
    CADRE_EVALUATION_THRESHOLDS = 200, /* scores at which the AUC counts, as in Keras */
    CADRE_EVALUATION_BINS = 10,        /* of the calibration error */
};

typedef struct {
    const cadre_job_t *job; /* says which metrics are wanted, the kind of label, the batch size */

    /* Evaluates one batch. Its results are means over the batch ("loss", "absolute_error") or
     * counts of rows ("correct", "top_k", "confusion", "roc"), or have an entry for each row
     * ("scores", "targets"); all but "loss" only where labels and job have the metric. */
    const cadre_function_t *function;
    cadre_dataset_t *dataset;

    /* Set by cadre_evaluation_run. */
    int64_t rows; /* of the dataset */
    cadre_metrics_t metrics;
    double *confusion; /* [classes, classes] where the job asks for the matrix; else NULL */
    int classes;
} cadre_evaluation_t;

/* Runs one closure per batch, waits for all of them and computes the metrics. Fails with
 * CADRE_EINTERRUPTED, or with the error of a closure. */
int cadre_evaluation_run(cadre_evaluation_t *self);

void cadre_evaluation_fini(cadre_evaluation_t *self);

#endif
