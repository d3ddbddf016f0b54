/*
 * Counts for metrics, made by programs in two batches and added up, against metrics that are
 * computed row by row, without any counts.
 */
#include <cadre/metrics.h>
#include <math.h>

#include "tests/worker/device/run_program.h"

TestSuite(metric_op, .timeout = 240);

enum { ROWS = 200, FIRST = 130, CLASSES = 5, THRESHOLDS = 200, COUNTS_MAX = 512 };

/* Rows with scores that say something of their labels, some of them wrong, and some equal. */
typedef struct {
    float logits[ROWS * CLASSES]; /* of classes; column 0 is that of two */
    int32_t labels[ROWS];
    float targets[ROWS]; /* 0 or 1 */
} sample_t;

static sample_t
make_sample(void)
{
    sample_t sample;
    for (int i = 0; i < ROWS; i++) {
        sample.labels[i] = (int32_t)(cadre_random_uniform(5, 1, (uint64_t)i) * CLASSES);
        sample.targets[i] = cadre_random_uniform(5, 2, (uint64_t)i) < 0.3F ? 1 : 0;
        for (int c = 0; c < CLASSES; c++) {
            float noise = cadre_random_uniform(5, 3, (uint64_t)(i * CLASSES + c));
            sample.logits[i * CLASSES + c] =
                roundf(8 * (noise + (c == sample.labels[i] ? 0.4F : 0))) / 8;
        }
        sample.logits[i * CLASSES] += 0.25F * sample.targets[i] - 0.5F;
    }
    return sample;
}

typedef cadre_node_t (*counts_t)(cadre_program_t *p, cadre_node_t logits, cadre_node_t labels);

/* The sum over two batches of what `build` counts; how many numbers it gives. */
static int64_t
count_in_batches(counts_t build, const sample_t *sample, bool classes, double *sums)
{
    const int64_t begins[] = {0, FIRST, ROWS};
    int64_t count = 0;
    for (int i = 0; i < COUNTS_MAX; i++) {
        sums[i] = 0;
    }
    for (int batch = 0; batch < 2; batch++) {
        int64_t first = begins[batch];
        int64_t rows = begins[batch + 1] - first;
        float column[ROWS];
        for (int64_t i = 0; i < rows; i++) {
            column[i] = sample->logits[(first + i) * CLASSES];
        }
        cadre_tensor_t arguments[] = {
            classes ? cadre_tensor_view(CADRE_F32, &sample->logits[first * CLASSES],
                                        (int64_t[]){rows, CLASSES}, 2)
                    : cadre_tensor_view(CADRE_F32, column, (int64_t[]){rows, 1}, 2),
            classes ? cadre_tensor_view(CADRE_I32, &sample->labels[first], &rows, 1)
                    : cadre_tensor_view(CADRE_F32, &sample->targets[first], &rows, 1),
        };
        cadre_program_t *p = cadre_program_new("counts");
        const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(classes ? CLASSES : 1)};
        cadre_node_t logits = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
        cadre_node_t labels = cadre_op_arg(p, "y", classes ? CADRE_I32 : CADRE_F32, dims, 1);
        cadre_tensor_t counts = run_once(p, build(p, logits, labels), arguments);
        count = cadre_tensor_count(&counts);
        cr_assert_leq(count, COUNTS_MAX);
        for (int64_t i = 0; i < count; i++) {
            sums[i] += (double)f32_at(&counts, i);
        }
        cadre_tensor_fini(&counts);
    }
    return count;
}

/* The class that is said for a row: the first of the largest. */
static int
said(const sample_t *sample, int row)
{
    int best = 0;
    for (int c = 1; c < CLASSES; c++) {
        if (sample->logits[row * CLASSES + c] > sample->logits[row * CLASSES + best]) {
            best = c;
        }
    }
    return best;
}

Test(metric_op, confusion_gives_the_metrics_of_classes)
{
    sample_t sample = make_sample();
    double confusion[COUNTS_MAX];
    cr_assert_eq(count_in_batches(cadre_op_confusion, &sample, true, confusion), CLASSES * CLASSES);
    double precision = 0;
    double recall = 0;
    for (int c = 0; c < CLASSES; c++) {
        double right = 0;
        double labelled = 0;
        double predicted = 0;
        for (int i = 0; i < ROWS; i++) {
            bool is_label = sample.labels[i] == c;
            bool is_said = said(&sample, i) == c;
            right += is_label && is_said;
            labelled += is_label;
            predicted += is_said;
            double cell = confusion[sample.labels[i] * CLASSES + said(&sample, i)];
            cr_assert_geq(cell, 1, "label %d taken for %d", sample.labels[i], said(&sample, i));
        }
        precision += right / predicted / CLASSES;
        recall += right / labelled / CLASSES;
        cr_expect_float_eq(cadre_metric_f1(confusion, CLASSES, c),
                           2 * right / (labelled + predicted), 1e-12);
    }
    cr_expect(precision > 0.3 && precision < 0.95, "%g would not show much", precision);
    cr_expect_float_eq(cadre_metric_precision(confusion, CLASSES, CADRE_METRIC_MACRO), precision,
                       1e-12);
    cr_expect_float_eq(cadre_metric_recall(confusion, CLASSES, CADRE_METRIC_MACRO), recall, 1e-12);
}

Test(metric_op, confusion_of_two_classes_tells_false_positives_from_false_negatives)
{
    sample_t sample = make_sample();
    double confusion[COUNTS_MAX];
    double wanted[4] = {0};
    cr_assert_eq(count_in_batches(cadre_op_binary_confusion, &sample, false, confusion), 4);
    for (int i = 0; i < ROWS; i++) {
        bool positive = sample.logits[i * CLASSES] > 0;
        wanted[(sample.targets[i] > 0.5F ? 2 : 0) + (positive ? 1 : 0)]++;
    }
    for (int i = 0; i < 4; i++) {
        cr_expect(wanted[i] > 0);
        cr_expect_float_eq(confusion[i], wanted[i], 0, "%d: %g, not %g", i, confusion[i],
                           wanted[i]);
    }
}

static cadre_node_t
roc(cadre_program_t *p, cadre_node_t logits, cadre_node_t targets)
{
    return cadre_op_roc_counts(p, logits, targets, THRESHOLDS);
}

/* The probability that a positive row has a higher score than a negative one; of equals half. */
static double
exact_area(const sample_t *sample)
{
    double above = 0;
    double pairs = 0;
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < ROWS; j++) {
            if (sample->targets[i] > 0.5F && sample->targets[j] < 0.5F) {
                float left = sample->logits[i * CLASSES];
                float right = sample->logits[j * CLASSES];
                above += left > right ? 1 : 0;
                above += left < right || left > right ? 0 : 0.5;
                pairs++;
            }
        }
    }
    return above / pairs;
}

Test(metric_op, counts_at_thresholds_give_the_area_under_the_curve)
{
    sample_t sample = make_sample();
    double counts[COUNTS_MAX];
    cr_assert_eq(count_in_batches(roc, &sample, false, counts), 2 * THRESHOLDS);
    for (int t = 0; t < THRESHOLDS; t++) {
        double wanted[2] = {0};
        double threshold = (double)t / (THRESHOLDS - 1);
        for (int i = 0; i < ROWS; i++) {
            double probability = 1 / (1 + exp(-(double)sample.logits[i * CLASSES]));
            wanted[sample.targets[i] > 0.5F] += probability > threshold;
        }
        cr_expect_float_eq(counts[t], wanted[0], 0, "false ones at %d", t);
        cr_expect_float_eq(counts[THRESHOLDS + t], wanted[1], 0, "true ones at %d", t);
    }
    double exact = exact_area(&sample);
    cr_expect(exact > 0.6 && exact < 0.98, "%g would not show much", exact);
    /* Scores are eighths: no two that differ lie between the same thresholds, so it is exact. */
    cr_expect_float_eq(cadre_metric_auc(counts, THRESHOLDS), exact, 1e-9, "%.9g, not %.9g",
                       cadre_metric_auc(counts, THRESHOLDS), exact);
}

static cadre_node_t
among_two(cadre_program_t *p, cadre_node_t logits, cadre_node_t labels)
{
    return cadre_op_sum_all(p, cadre_op_top_k_correct(p, logits, labels, 2));
}

Test(metric_op, top_k_counts_labels_with_fewer_than_k_above_them)
{
    sample_t sample = make_sample();
    double right[COUNTS_MAX];
    double wanted = 0;
    cr_assert_eq(count_in_batches(among_two, &sample, true, right), 1);
    for (int i = 0; i < ROWS; i++) {
        const float *row = &sample.logits[i * CLASSES];
        int above = 0;
        for (int c = 0; c < CLASSES; c++) {
            above += row[c] > row[sample.labels[i]];
        }
        wanted += above < 2;
    }
    cr_expect(wanted > ROWS / 4 && wanted < ROWS);
    cr_expect_float_eq(right[0], wanted, 0);
}

Test(metric_op, a_label_whose_logit_is_no_number_is_not_right)
{
    float logits[] = {1, NAN, 3};
    int32_t label = 1;
    cadre_tensor_t arguments[] = {
        cadre_tensor_view(CADRE_F32, logits, (int64_t[]){1, 3}, 2),
        cadre_tensor_view(CADRE_I32, &label, (int64_t[]){1}, 1),
    };
    cadre_program_t *p = cadre_program_new("nan");
    cadre_node_t x = arg_like(p, "x", &arguments[0]);
    cadre_node_t y = arg_like(p, "y", &arguments[1]);
    cadre_tensor_t right = run_once(p, cadre_op_top_k_correct(p, x, y, 3), arguments);
    cr_expect(f32_at(&right, 0) <= 0);
    cadre_tensor_fini(&right);
}

/* The mistake that building this gives. */
static void
expect_mistake(counts_t build, const int64_t *left, int rank, const int64_t *right,
               const char *words)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("wrong");
    cadre_dim_t dims[2];
    for (int i = 0; i < rank; i++) {
        dims[i] = cadre_dim(left[i]);
    }
    cadre_dim_t rows = cadre_dim(*right);
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, rank);
    cadre_node_t y = cadre_op_arg(p, "y", CADRE_I32, &rows, 1);
    cadre_op_result(p, "counts", build(p, x, y));
    cr_expect_neq(cadre_program_finish(p), 0);
    cr_expect(strstr(cadre_error_text(), words), "%s", cadre_error_text());
}

static cadre_node_t
among_none(cadre_program_t *p, cadre_node_t logits, cadre_node_t labels)
{
    return cadre_op_top_k_correct(p, logits, labels, 0);
}

static cadre_node_t
one_threshold(cadre_program_t *p, cadre_node_t logits, cadre_node_t targets)
{
    return cadre_op_roc_counts(p, logits, targets, 1);
}

Test(metric_op, refuses_what_does_not_go_together)
{
    const int64_t square[] = {4, 3};
    const int64_t one = 1;
    const int64_t four = 4;
    expect_mistake(cadre_op_confusion, square, 2, &one, "labels [1] do");
    expect_mistake(cadre_op_confusion, &four, 1, &four, "confusion: ");
    expect_mistake(among_none, square, 2, &four, "top k: k is 0");
    expect_mistake(one_threshold, &four, 1, &four, "1 thresholds, 2 to 10000");
    expect_mistake(cadre_op_binary_confusion, square, 2, &four, "predictions [4,3] do not go");
}
