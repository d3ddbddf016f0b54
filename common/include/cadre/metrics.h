/*
 * metrics - what the counts of an evaluation come to: precision, recall, F1, AUC.
 *
 * The counts are results of a program (cadre_op_confusion and so on, <cadre/program.h>), summed
 * over all batches by cadre_dataset_reduce, which gives f64:
 *
 *     const double *counts = confusion.data;
 *     printf("F1 %g\n", cadre_metric_f1(counts, 10, CADRE_METRIC_MACRO));
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_METRICS_H
#define CADRE_METRICS_H

#include <cadre/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Instead of a class: the mean over the classes that occur as a label or as a prediction, each
 * counting the same. As "macro" of scikit-learn. */
enum { CADRE_METRIC_MACRO = -1 };

/* Of confusion [classes, classes], whose rows are labels and whose columns are predictions, for one
 * class, 0 to classes - 1, or CADRE_METRIC_MACRO. With two classes, of which 1 is the positive one,
 * class 1 gives the metrics of binary classification. What would be 0 / 0 is 0, as in scikit-learn;
 * a class that is none gives not a number.
 *
 *     precision = true positives / (true positives + false positives)
 *     recall    = true positives / (true positives + false negatives)
 *     f1        = 2 true positives / (2 true positives + false positives + false negatives)
 */
CADRE_API double cadre_metric_precision(const double *confusion, int classes, int of_class);
CADRE_API double cadre_metric_recall(const double *confusion, int classes, int of_class);
CADRE_API double cadre_metric_f1(const double *confusion, int classes, int of_class);

/* The area under the receiver operating characteristic, of counts [2, thresholds] as
 * cadre_op_roc_counts gives them: the sum of trapezoids between thresholds, as keras.metrics.AUC
 * computes it. Of scores that lie between the same two thresholds it does not see the order, so it
 * may differ from the exact area by as much as such pairs are; with 200 thresholds usually less
 * than 0.01. Not a number where all targets are the same. */
CADRE_API double cadre_metric_auc(const double *counts, int thresholds);

#ifdef __cplusplus
}
#endif
#endif
