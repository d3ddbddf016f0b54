/* `cadre run` and `cadre evaluate` with metrics beyond accuracy and loss. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(run_metrics, .timeout = 900);

enum { ROWS = 600 };

/* A run of a job that the test writes, on rows of one feature that it writes too. */
typedef struct {
    command_t command;
    char *job;
    char *events;
    double features[ROWS];
    int labels[ROWS];
} metered_run_t;

static void
write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

/* The higher the feature, the more likely is label 1. */
static void
metered_run_open(metered_run_t *self, const char *rest)
{
    command_open(&self->command);
    self->job = scratch_path(&self->command.scratch, "job.json");
    self->events = scratch_path(&self->command.scratch, "events.jsonl");
    cadre_auto(cadre_free) char *path = scratch_path(&self->command.scratch, "rows.csv");
    FILE *file = fopen(path, "we");
    cr_assert(file);
    for (int i = 0; i < ROWS; i++) {
        double noise = sin(12.9898 * i) * 0.9;
        self->features[i] = (i * 37 % ROWS) / (double)ROWS * 2 - 1;
        self->labels[i] = self->features[i] + noise > 0.2;
        fprintf(file, "%.6f,%d\n", self->features[i], self->labels[i]);
    }
    cr_assert_eq(fclose(file), 0);
    cadre_auto(cadre_free) char *text = cadre_asprintf(rest, path, path);
    write_text(self->job, text);
}

static void
metered_run_close(metered_run_t *self)
{
    command_close(&self->command);
    free(self->job);
    free(self->events);
}

/* Runs the verb to its end; the last object on its stdout, which the caller decrefs. */
static json_t *
run_verb(metered_run_t *self, const char *verb, const char *flag, const char *value)
{
    const char *arguments[] = {
        verb,  self->job, "--checkpoint-dir", self->command.checkpoints, "-o", "json", flag,
        value, NULL};
    command_expect_exit(&self->command, command_run(&self->command, arguments), 0);
    json_t *result = command_result(&self->command);
    cr_assert(result);
    return result;
}

/* The probability that a row of label 1 has a higher feature than one of label 0. */
static double
area_of_feature(const metered_run_t *self)
{
    double above = 0;
    double pairs = 0;
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < ROWS; j++) {
            if (self->labels[i] == 1 && self->labels[j] == 0) {
                above += self->features[i] > self->features[j];
                pairs++;
            }
        }
    }
    return above / pairs;
}

static void
expect_near(const json_t *result, const char *path, double wanted, double tolerance)
{
    double found = json_number_at(result, path);
    cr_expect_float_eq(found, wanted, tolerance, "%s is %.9g, not %.9g", path, found, wanted);
}

/* Whether the events of the run have a line with both. */
static bool
has_event(const metered_run_t *self, const char *event, const char *words)
{
    cadre_auto(cadre_free) char *text = file_text(self->events);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strstr(line, event) && strstr(line, words)) {
            return true;
        }
    }
    return false;
}

#define ROWS_OF(kind)                                                                              \
    "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"%s\", \"label_kind\": \"" kind       \
    "\"}, \"test\": {\"format\": \"csv\", \"path\": \"%s\", \"label_kind\": \"" kind "\"}}, "

Test(run_metrics, of_a_target_that_no_evaluation_could_find_is_said_to_be_undefined)
{
    metered_run_t run;
    metered_run_open(&run, ROWS_OF("binary") "\"model\": {\"type\": \"logistic\"}, \"training\": "
                                             "{\"epochs\": 2, \"evaluate_every\": 1, "
                                             "\"metrics\": [\"auc\"], \"stop\": {\"metric\": "
                                             "\"test_auc\", \"at_least\": 0.9}}}");
    cadre_auto(cadre_free) char *path = scratch_path(&run.command.scratch, "rows.csv");
    write_text(path, "0.5,0\n0.25,0\n0.75,0\n0.125,0\n");
    json_t *result = run_verb(&run, "run", NULL, NULL);
    json_decref(result);
    cadre_auto(cadre_free) char *errors = command_errors(&run.command);
    cr_expect(strstr(errors, "all 2 epochs are done; test_auc is undefined in 2 evaluations: an "
                             "AUC compares rows of two classes"),
              "%s", errors);
    metered_run_close(&run);
}

Test(run_metrics, of_two_classes_are_in_the_result_in_events_and_in_evaluations)
{
    metered_run_t run;
    metered_run_open(
        &run,
        ROWS_OF("binary") "\"model\": {\"type\": \"logistic\"}, \"optimizer\": "
                          "{\"type\": \"adam\", \"learning_rate\": 0.05}, "
                          "\"training\": {\"epochs\": 8, \"evaluate_every\": 1, "
                          "\"evaluation_batch_size\": 77, \"metrics\": "
                          "[\"precision\", \"recall\", \"f1\", \"auc\", \"calibration_error\", "
                          "\"auc_exact\", \"confusion_matrix\"], \"stop\": {\"metric\": "
                          "\"test_auc\", \"patience\": 8}}}");
    json_t *result = run_verb(&run, "run", "--events", run.events);
    double tn = json_number_at(result, "confusion_matrix.0.0");
    double fp = json_number_at(result, "confusion_matrix.0.1");
    double fn = json_number_at(result, "confusion_matrix.1.0");
    double tp = json_number_at(result, "confusion_matrix.1.1");
    double ones = 0;
    for (int i = 0; i < ROWS; i++) {
        ones += run.labels[i];
    }
    cr_expect_float_eq(fn + tp, ones, 0, "rows are those of the labels");
    cr_expect_float_eq(tn + fp, ROWS - ones, 0);
    cr_expect(tn > 0 && fp > 0 && fn > 0 && tp > 0, "%g %g %g %g would not show much", tn, fp, fn,
              tp);
    expect_near(result, "accuracy", (tn + tp) / ROWS, 1e-8);
    expect_near(result, "metrics.precision", tp / (tp + fp), 1e-8);
    expect_near(result, "metrics.recall", tp / (tp + fn), 1e-8);
    expect_near(result, "metrics.f1", 2 * tp / (2 * tp + fp + fn), 1e-8);
    /* A logistic model of one feature keeps its order; 200 thresholds do not see all of it. */
    expect_near(result, "metrics.auc", area_of_feature(&run), 0.01);
    expect_near(result, "metrics.auc_exact", area_of_feature(&run), 1e-4);
    const double error = json_number_at(result, "metrics.calibration_error");
    cr_expect(error > 0 && error < 0.2, "%g", error);
    cr_expect(has_event(&run, "\"event\":\"epoch\"", "\"test_auc\":0."));

    json_t *evaluated = run_verb(&run, "evaluate", NULL, NULL);
    static const char *const same[] = {"metrics.precision", "metrics.auc", "confusion_matrix.1.0"};
    for (size_t i = 0; i < CADRE_COUNT_OF(same); i++) {
        expect_near(evaluated, same[i], json_number_at(result, same[i]), 0);
    }
    json_decref(evaluated);
    json_decref(result);
    metered_run_close(&run);
}

/* Its held-out rows have one class, so no AUC can be told. */
Test(run_metrics, of_one_class_end_training_with_a_word_that_they_are_undefined)
{
    metered_run_t run;
    metered_run_open(&run, "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"%s\", "
                           "\"label_kind\": \"binary\"}, \"test\": {\"format\": \"csv\", "
                           "\"path\": \"ones.csv\", \"label_kind\": \"binary\"}}, \"model\": "
                           "{\"type\": \"logistic\"}, \"training\": {\"epochs\": 9, "
                           "\"evaluate_every\": 1, \"metrics\": [\"auc\", \"auc_exact\"], "
                           "\"stop\": {\"metric\": \"test_auc_exact\", \"patience\": 2}, "
                           "\"plateau\": {\"metric\": \"test_auc\", \"patience\": 1}}}");
    cadre_auto(cadre_free) char *ones = scratch_path(&run.command.scratch, "ones.csv");
    write_text(ones, "0.5,1\n0.25,1\n-0.5,1\n");
    json_t *result = run_verb(&run, "run", NULL, NULL);
    cadre_auto(cadre_free) char *errors = command_errors(&run.command);
    cr_expect(strstr(errors, "training ends: test_auc_exact is undefined in 2 evaluations: an AUC "
                             "compares rows of two classes, and all rows held out are of one"),
              "%s", errors);
    cr_expect(strstr(errors, "on: test_auc is undefined: an AUC compares rows"), "%s", errors);
    json_decref(result);
    metered_run_close(&run);
}

Test(run_metrics, of_values_are_the_absolute_error_and_the_root_of_the_mean_square)
{
    metered_run_t run;
    metered_run_open(&run, ROWS_OF("value") "\"model\": {\"type\": \"linear\"}, \"optimizer\": "
                                            "{\"type\": \"adam\", \"learning_rate\": 0.05}, "
                                            "\"training\": {\"epochs\": 5, \"metrics\": "
                                            "[\"mae\", \"rmse\"]}}");
    json_t *result = run_verb(&run, "run", NULL, NULL);
    double mae = json_number_at(result, "metrics.mae");
    expect_near(result, "metrics.rmse", sqrt(json_number_at(result, "loss")), 1e-7);
    /* Of a line through labels 0 and 1 both are well below the spread of the labels. */
    cr_expect(mae > 0.1 && mae < 0.5, "%g", mae);
    cr_expect_lt(mae, json_number_at(result, "metrics.rmse"));
    json_decref(result);
    metered_run_close(&run);
}

Test(run_metrics, of_classes_are_means_over_them_and_top_k)
{
    metered_run_t run;
    metered_run_open(&run, ROWS_OF("class") "\"model\": {\"type\": \"logistic\"}, \"training\": "
                                            "{\"epochs\": 3, \"top_k\": 2, \"metrics\": "
                                            "[\"top_k_accuracy\", \"precision\", "
                                            "\"confusion_matrix\"]}}");
    json_t *result = run_verb(&run, "run", NULL, NULL);
    double cells[4];
    for (int i = 0; i < 4; i++) {
        char path[32];
        snprintf(path, sizeof(path), "confusion_matrix.%d.%d", i / 2, i % 2);
        cells[i] = json_number_at(result, path);
    }
    double sum = 0;
    for (int c = 0; c < 2; c++) {
        double predicted = cells[c] + cells[2 + c];
        sum += predicted > 0 ? cells[3 * c] / predicted : 0;
    }
    expect_near(result, "metrics.precision", sum / 2, 1e-8);
    expect_near(result, "metrics.top_k_accuracy", 1, 0); /* the best two of two */
    json_decref(result);

    const char *arguments[] = {"run", run.job, "--checkpoint-dir", "none", NULL};
    command_expect_exit(&run.command, command_run(&run.command, arguments), 0);
    cadre_auto(cadre_free) char *words = command_output(&run.command);
    cr_expect(strstr(words, "top_k_accuracy 1 on 600 rows held out"), "%s", words);
    metered_run_close(&run);
}
