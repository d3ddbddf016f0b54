/*
 * metrics - precision, recall, F1, AUC and calibration error, computed from counts that an
 * evaluation has summed.
 *
 * The counts are results of a program (cadre_op_confusion and so on, <cadre/program.h>), summed
 * over all batches by cadre_dataset_reduce, which gives f64, and scores the rows that it collects:
 *
 *     const double *counts = confusion.data;
 *     printf("F1 %g\n", cadre_metric_f1(counts, 10, CADRE_METRIC_MACRO));
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_METRICS_H
#define CADRE_METRICS_H

#include <stddef.h>

#include <cadre/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Given as `of_class`, asks for the unweighted mean over the classes that occur as a label or as a
 * prediction: "macro" of scikit-learn. */
enum { CADRE_METRIC_MACRO = -1 };

/* Compute a metric of one class, 0 to classes - 1, or CADRE_METRIC_MACRO, from the confusion matrix
 * [classes, classes], whose rows are labels and whose columns are predictions. With two classes, of
 * which 1 is the positive one, class 1 gives the metrics of binary classification. 0 / 0 counts as
 * 0, as in scikit-learn; an `of_class` out of range gives NaN.
 *
 *     precision = true positives / (true positives + false positives)
 *     recall    = true positives / (true positives + false negatives)
 *     f1        = 2 true positives / (2 true positives + false positives + false negatives)
 */
CADRE_API double cadre_metric_precision(const double *confusion, int classes, int of_class);
CADRE_API double cadre_metric_recall(const double *confusion, int classes, int of_class);
CADRE_API double cadre_metric_f1(const double *confusion, int classes, int of_class);

/* Computes the area under the receiver operating characteristic from counts [2, thresholds] of
 * cadre_op_roc_counts: the sum of trapezoids between thresholds, as keras.metrics.AUC computes it.
 * Scores that lie between the same two thresholds count as equal, so the result may differ from the
 * exact area by the share of such pairs of rows; with 200 thresholds usually by less than 0.01.
 * Returns NaN where all targets are the same. */
CADRE_API double cadre_metric_auc(const double *counts, int thresholds);

/* Computes the exact area under the receiver operating characteristic: the share of the pairs of a
 * positive and a negative in which the positive has the higher score, an equal one counting as half
 * (Mann, Whitney 1947; Hanley, McNeil 1982). `scores` are logits or probabilities of `rows` rows,
 * and a row is positive where its target is above one half. Takes time rows log(rows), and memory
 * for a copy. Returns NaN where all targets are the same, and where a score is NaN. */
CADRE_API double cadre_metric_auc_exact(const double *scores, const double *targets, size_t rows);

/* Computes the expected calibration error from counts [2, thresholds] of cadre_op_roc_counts: in
 * `bins` (at least 1) parts of 0 to 1 of equal width the distance between the sum of the
 * probabilities and the number of positives, added up and divided by the number of rows (Naeini,
 * Cooper, Hauskrecht 2015, "Obtaining well calibrated probabilities using Bayesian binning"). 0 is
 * best: of the rows with probability p a share p is positive. A probability counts as the middle
 * between its two thresholds. Returns NaN where there are no rows. */
CADRE_API double cadre_metric_calibration_error(const double *counts, int thresholds, int bins);

#ifdef __cplusplus
}
#endif
#endif
