/*
 * metrics - precision, recall, F1, AUC and calibration error from counts of programs
 * (<cadre/metrics.h>).
 */
#include <cadre/metrics.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/memory.h"

/* Rows of the data by what label and prediction say of one class. */
typedef struct {
    double true_positives;
    double false_positives;
    double false_negatives;
} class_counts_t;

/* Counts for class `number` in a confusion matrix, whose rows are labels and whose columns are
 * predictions. */
static class_counts_t
count_class(const double *confusion, int classes, int number)
{
    class_counts_t counts = {.true_positives = confusion[number * classes + number]};
    for (int other = 0; other < classes; other++) {
        if (other != number) {
            counts.false_positives += confusion[other * classes + number];
            counts.false_negatives += confusion[number * classes + other];
        }
    }
    return counts;
}

static double
ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double
precision(class_counts_t counts)
{
    return ratio(counts.true_positives, counts.true_positives + counts.false_positives);
}

static double
recall(class_counts_t counts)
{
    return ratio(counts.true_positives, counts.true_positives + counts.false_negatives);
}

static double
f1(class_counts_t counts)
{
    double twice = 2 * counts.true_positives;
    return ratio(twice, twice + counts.false_positives + counts.false_negatives);
}

/* Returns the metric of one class; for CADRE_METRIC_MACRO its mean over the classes that occur as a
 * label or prediction; for another number NAN. */
static double
of_classes(const double *confusion, int classes, int of_class,
           double (*metric)(class_counts_t counts))
{
    if (of_class >= 0 && of_class < classes) {
        return metric(count_class(confusion, classes, of_class));
    }
    if (of_class != CADRE_METRIC_MACRO) {
        return NAN;
    }

    double sum = 0;
    int occurring = 0;
    for (int i = 0; i < classes; i++) {
        class_counts_t counts = count_class(confusion, classes, i);
        if (counts.true_positives + counts.false_positives + counts.false_negatives > 0) {
            sum += metric(counts);
            occurring++;
        }
    }

    return ratio(sum, occurring);
}

double
cadre_metric_precision(const double *confusion, int classes, int of_class)
{
    return of_classes(confusion, classes, of_class, precision);
}

double
cadre_metric_recall(const double *confusion, int classes, int of_class)
{
    return of_classes(confusion, classes, of_class, recall);
}

double
cadre_metric_f1(const double *confusion, int classes, int of_class)
{
    return of_classes(confusion, classes, of_class, f1);
}

/* Computes the area under the ROC curve from counts [2, thresholds]: how many negatives (first row)
 * and positives (second) are above each of the rising thresholds. Adds the trapezoids between
 * neighbouring thresholds. */
double
cadre_metric_auc(const double *counts, int thresholds)
{
    const double *false_positives = counts;
    const double *true_positives = counts + thresholds;
    double positives = true_positives[0]; /* every row is above the first threshold */
    double negatives = false_positives[0];
    if (!(positives > 0 && negatives > 0)) {
        return NAN;
    }

    double area = 0;
    for (int i = 0; i + 1 < thresholds; i++) {
        double width = (false_positives[i] - false_positives[i + 1]) / negatives;
        double height = (true_positives[i] + true_positives[i + 1]) / (2 * positives);
        area += width * height;
    }
    return area;
}

typedef struct {
    double score;
    bool is_positive;
} scored_t;

/* Compares by score, as qsort wants it. */
static int
compare_scores(const void *left, const void *right)
{
    const double a = ((const scored_t *)left)->score;
    const double b = ((const scored_t *)right)->score;
    return (a > b) - (a < b);
}

/* Counts the pairs of a positive and a negative that are in the right order, those with equal
 * scores as half. `rows` ascend by score. */
static double
count_ordered_pairs(const scored_t *rows, size_t count)
{
    double pairs = 0;
    double negatives_below = 0;
    for (size_t first = 0, end = 0; first < count; first = end) {
        double positives = 0;
        double negatives = 0;
        for (end = first; end < count && rows[end].score <= rows[first].score; end++) {
            positives += rows[end].is_positive;
            negatives += !rows[end].is_positive;
        }
        pairs += positives * (negatives_below + negatives / 2);
        negatives_below += negatives;
    }
    return pairs;
}

/* Computes the exact area under the ROC curve from the scores of all rows. */
double
cadre_metric_auc_exact(const double *scores, const double *targets, size_t rows)
{
    cadre_auto(cadre_free) scored_t *sorted = cadre_calloc(rows + 1, sizeof(*sorted));
    double positives = 0;
    for (size_t i = 0; i < rows; i++) {
        if (isnan(scores[i])) {
            return NAN;
        }
        sorted[i] = (scored_t){scores[i], targets[i] > 0.5};
        positives += sorted[i].is_positive;
    }
    const double negatives = (double)rows - positives;
    if (!(positives > 0 && negatives > 0)) {
        return NAN;
    }

    qsort(sorted, rows, sizeof(*sorted), compare_scores);
    return count_ordered_pairs(sorted, rows) / (positives * negatives);
}

/* Computes the expected calibration error from the same counts. The rows between two thresholds
 * belong to the bin that the middle of these is in; bins come one after the other. */
double
cadre_metric_calibration_error(const double *counts, int thresholds, int bins)
{
    const double *negatives = counts;
    const double *positives = counts + thresholds;
    const double rows = negatives[0] + positives[0];
    double sum = 0;
    double gap = 0; /* of the bin so far: its probabilities less its positives */
    int bin = 0;
    if (!(rows > 0)) {
        return NAN;
    }

    for (int i = 0; i + 1 < thresholds; i++) {
        const double middle = (i + 0.5) / (thresholds - 1);
        if ((int)(middle * bins) != bin) {
            bin = (int)(middle * bins);
            sum += fabs(gap);
            gap = 0;
        }
        const double here = positives[i] - positives[i + 1];
        gap += middle * (here + negatives[i] - negatives[i + 1]) - here;
    }
    return (sum + fabs(gap)) / rows;
}
