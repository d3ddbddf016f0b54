#include <cadre/metrics.h>

#include <criterion/criterion.h>
#include <math.h>

TestSuite(metrics, .timeout = 240);

Test(metrics, are_those_that_scikit_learn_documents)
{
    /* precision_score, recall_score and f1_score with average="macro" of y_true = [0, 1, 2, 0, 1,
     * 2] and y_pred = [0, 2, 1, 0, 0, 1]: 0.22, 0.33 and 0.26. */
    const double confusion[] = {2, 0, 0, 1, 0, 1, 0, 2, 0};
    cr_expect_float_eq(cadre_metric_precision(confusion, 3, CADRE_METRIC_MACRO), 2.0 / 9, 1e-12);
    cr_expect_float_eq(cadre_metric_recall(confusion, 3, CADRE_METRIC_MACRO), 1.0 / 3, 1e-12);
    cr_expect_float_eq(cadre_metric_f1(confusion, 3, CADRE_METRIC_MACRO), 4.0 / 15, 1e-12);
    cr_expect_float_eq(cadre_metric_precision(confusion, 3, 0), 2.0 / 3, 1e-12);
    cr_expect_float_eq(cadre_metric_recall(confusion, 3, 0), 1, 1e-12);
    cr_expect_float_eq(cadre_metric_f1(confusion, 3, 1), 0, 0);
}

Test(metrics, of_two_classes_are_those_of_the_positive_one)
{
    const double confusion[] = {50, 10, 5, 35}; /* TN, FP, FN, TP */
    cr_expect_float_eq(cadre_metric_precision(confusion, 2, 1), 35.0 / 45, 1e-12);
    cr_expect_float_eq(cadre_metric_recall(confusion, 2, 1), 35.0 / 40, 1e-12);
    cr_expect_float_eq(cadre_metric_f1(confusion, 2, 1), 70.0 / 85, 1e-12);
}

Test(metrics, leave_out_classes_that_do_not_occur)
{
    const double confusion[] = {3, 0, 1, 0, 0, 0, 0, 0, 4}; /* of class 1 there is nothing */
    double first = cadre_metric_precision(confusion, 3, 0);
    double last = cadre_metric_precision(confusion, 3, 2);
    cr_expect_float_eq(cadre_metric_precision(confusion, 3, CADRE_METRIC_MACRO), (first + last) / 2,
                       1e-12);
    cr_expect(isnan(cadre_metric_precision(confusion, 3, 3)));
    cr_expect(isnan(cadre_metric_recall(confusion, 3, -2)));
    const double nothing[4] = {0};
    cr_expect_float_eq(cadre_metric_f1(nothing, 2, CADRE_METRIC_MACRO), 0, 0);
}

Test(metrics, area_is_that_of_keras)
{
    /* keras.metrics.AUC(num_thresholds=3) of y_true = [0, 0, 1, 1], y_pred = [0, 0.5, 0.3, 0.9]. */
    const double counts[] = {2, 0, 0, 2, 1, 0};
    cr_expect_float_eq(cadre_metric_auc(counts, 3), 0.75, 1e-12);
    const double perfect[] = {5, 0, 0, 7, 7, 0};
    cr_expect_float_eq(cadre_metric_auc(perfect, 3), 1, 1e-12);
    const double one_sided[] = {0, 0, 0, 2, 1, 0};
    cr_expect(isnan(cadre_metric_auc(one_sided, 3)));
}

/* sklearn.metrics.roc_auc_score of y_true = [0, 0, 1, 1], y_score = [0.1, 0.4, 0.35, 0.8]: 0.75. */
Test(metrics, exact_area_counts_pairs_and_equal_scores_as_half)
{
    const double targets[] = {0, 0, 1, 1};
    const double scores[] = {0.1, 0.4, 0.35, 0.8};
    cr_expect_float_eq(cadre_metric_auc_exact(scores, targets, 4), 0.75, 1e-12);
    const double tied[] = {0.4, 0.1, 0.4, 0.8};
    cr_expect_float_eq(cadre_metric_auc_exact(tied, targets, 4), 3.5 / 4, 1e-12);
    const double equal[] = {-3, -3, -3, -3};
    cr_expect_float_eq(cadre_metric_auc_exact(equal, targets, 4), 0.5, 1e-12);
    const double infinite[] = {-INFINITY, 2, INFINITY, INFINITY};
    cr_expect_float_eq(cadre_metric_auc_exact(infinite, targets, 4), 1, 1e-12);

    const double unknown[] = {0.1, NAN, 0.35, 0.8};
    cr_expect(isnan(cadre_metric_auc_exact(unknown, targets, 4)));
    cr_expect(isnan(cadre_metric_auc_exact(scores, targets, 2)), "all targets are the same");
    cr_expect(isnan(cadre_metric_auc_exact(scores, targets, 0)));
}

/* Eleven thresholds: 0, 0.1 and so on. The counts are of rows above each. */
Test(metrics, calibration_error_is_the_distance_of_probabilities_from_shares)
{
    enum { THRESHOLDS = 11 };
    double counts[2 * THRESHOLDS] = {0};
    cr_expect(isnan(cadre_metric_calibration_error(counts, THRESHOLDS, 10)));

    /* 20 rows between 0.2 and 0.3, of which 5 are positive: a quarter, as they say. */
    for (int i = 0; i <= 2; i++) {
        counts[i] = 15;
        counts[THRESHOLDS + i] = 5;
    }
    cr_expect_float_eq(cadre_metric_calibration_error(counts, THRESHOLDS, 10), 0, 1e-12);

    /* 20 more between 0.9 and 1, none of them positive: 0.95 off. */
    for (int i = 0; i <= 9; i++) {
        counts[i] += 20;
    }
    cr_expect_float_eq(cadre_metric_calibration_error(counts, THRESHOLDS, 10), 0.475, 1e-12);

    /* In one bin for all: an eighth of 40 is positive, and they say 60 % on the average. */
    cr_expect_float_eq(cadre_metric_calibration_error(counts, THRESHOLDS, 1), 0.6 - 0.125, 1e-12);
}
