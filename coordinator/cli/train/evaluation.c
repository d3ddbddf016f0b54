#include "coordinator/cli/train/evaluation.h"

#include <cadre/metrics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

/* The results of the evaluating program that may be there (evaluation.h). */
typedef enum {
    LOSS,
    CORRECT,
    CONFUSION,
    ROC,
    TOP_K,
    ABSOLUTE_ERROR,
    SCORES,
    TARGETS,
    RESULTS,
} result_t;

typedef struct {
    cadre_tensor_t values[RESULTS]; /* over all rows; empty for a result that the job has not */
} results_t;

static void
results_fini(results_t *self)
{
    for (int i = 0; i < RESULTS; i++) {
        cadre_tensor_fini(&self->values[i]);
    }
}

/* Returns whether the function that evaluates gives this result: its labels and the metrics of the
 * job decide. */
static bool
has_result(const cadre_job_t *job, result_t result)
{
    switch (result) {
    case LOSS:
        return true;
    case CORRECT:
        return job->label != CADRE_JOB_VALUE;
    case CONFUSION:
        return cadre_job_counts_confusion(job);
    case ROC:
        return cadre_job_counts_scores(job);
    case TOP_K:
        return job->metrics[CADRE_METRIC_TOP_K];
    case ABSOLUTE_ERROR:
        return job->metrics[CADRE_METRIC_MAE];
    case SCORES:
    case TARGETS:
        return job->metrics[CADRE_METRIC_AUC_EXACT];
    case RESULTS:
        break;
    }
    return false;
}

/* Runs the function on all batches, and sums, averages or collects each result that the job has. */
static int
reduce(const cadre_evaluation_t *self, results_t *results)
{
    static const cadre_reduction_t all[] = {
        [LOSS] = {"loss", CADRE_REDUCTION_MEAN, NULL},
        [CORRECT] = {"correct", CADRE_REDUCTION_SUM, NULL},
        [CONFUSION] = {"confusion", CADRE_REDUCTION_SUM, NULL},
        [ROC] = {"roc", CADRE_REDUCTION_SUM, NULL},
        [TOP_K] = {"top_k", CADRE_REDUCTION_SUM, NULL},
        [ABSOLUTE_ERROR] = {"absolute_error", CADRE_REDUCTION_MEAN, NULL},
        [SCORES] = {"scores", CADRE_REDUCTION_ROWS, NULL},
        [TARGETS] = {"targets", CADRE_REDUCTION_ROWS, NULL},
    };
    cadre_reduction_t reductions[RESULTS];
    size_t count = 0;
    for (result_t i = LOSS; i < RESULTS; i++) {
        if (has_result(self->job, i)) {
            reductions[count] = all[i];
            reductions[count++].value = &results->values[i];
        }
    }

    return cadre_dataset_reduce(self->dataset, self->function, reductions, count,
                                self->job->evaluation_batch_size, -1);
}

/* Returns the number in a result; NaN where the job does not have that result. */
static double
number(const results_t *results, result_t result)
{
    const double *value = results->values[result].data;
    return value ? *value : NAN;
}

/* Sets a metric where the job asks for it. */
static void
set_asked(cadre_evaluation_t *self, cadre_metric_t metric, double value)
{
    if (self->job->metrics[metric]) {
        cadre_metrics_set(&self->metrics, metric, value);
    }
}

/* Sets the metrics computed from the confusion matrix, and keeps the matrix if the job asks for
 * it. */
static void
take_confusion(cadre_evaluation_t *self, const cadre_tensor_t *confusion)
{
    const cadre_job_t *job = self->job;
    const double *counts = confusion->data;
    int classes = (int)confusion->shape[0];
    /* With two classes the metrics are those of class 1; with more, the mean over all classes. */
    int of_class = job->label == CADRE_JOB_BINARY ? 1 : CADRE_METRIC_MACRO;
    set_asked(self, CADRE_METRIC_PRECISION, cadre_metric_precision(counts, classes, of_class));
    set_asked(self, CADRE_METRIC_RECALL, cadre_metric_recall(counts, classes, of_class));
    set_asked(self, CADRE_METRIC_F1, cadre_metric_f1(counts, classes, of_class));

    if (job->confusion_matrix) {
        size_t count = (size_t)classes * (size_t)classes;
        self->confusion = cadre_calloc(count, sizeof(*self->confusion));
        memcpy(self->confusion, counts, count * sizeof(*counts));
        self->classes = classes;
    }
}

/* Runs one closure for each batch of the held-out rows, and computes the job's metrics from the
 * sums and means of their results. */
int
cadre_evaluation_run(cadre_evaluation_t *self)
{
    cadre_auto(results_fini) results_t results = {0};
    int status = reduce(self, &results);
    if (status < 0) {
        return status;
    }

    cadre_evaluation_fini(self);
    self->rows = cadre_dataset_info(self->dataset).rows;
    self->metrics = (cadre_metrics_t){0};
    double rows = (double)self->rows;
    double loss = number(&results, LOSS);
    cadre_metrics_set(&self->metrics, CADRE_METRIC_LOSS, loss);
    cadre_metrics_set(&self->metrics, CADRE_METRIC_ACCURACY, number(&results, CORRECT) / rows);
    set_asked(self, CADRE_METRIC_TOP_K, number(&results, TOP_K) / rows);
    set_asked(self, CADRE_METRIC_MAE, number(&results, ABSOLUTE_ERROR));
    set_asked(self, CADRE_METRIC_RMSE, sqrt(loss)); /* the loss of values is the mean square */
    if (results.values[ROC].data) {
        const double *counts = results.values[ROC].data;
        set_asked(self, CADRE_METRIC_AUC, cadre_metric_auc(counts, CADRE_EVALUATION_THRESHOLDS));
        set_asked(self, CADRE_METRIC_CALIBRATION_ERROR,
                  cadre_metric_calibration_error(counts, CADRE_EVALUATION_THRESHOLDS,
                                                 CADRE_EVALUATION_BINS));
    }
    if (results.values[SCORES].data) {
        const double auc = cadre_metric_auc_exact(results.values[SCORES].data,
                                                  results.values[TARGETS].data, (size_t)rows);
        set_asked(self, CADRE_METRIC_AUC_EXACT, auc);
    }
    if (results.values[CONFUSION].data) {
        take_confusion(self, &results.values[CONFUSION]);
    }

    return 0;
}

void
cadre_evaluation_fini(cadre_evaluation_t *self)
{
    free(self->confusion);
    self->confusion = NULL;
    self->classes = 0;
}
