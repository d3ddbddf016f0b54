#include "coordinator/cli/terminal/history.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/status.h"

static char path[64];

static void
setup(void)
{
    snprintf(path, sizeof(path), "/tmp/cadre-history-XXXXXX");
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
}

static void
teardown(void)
{
    unlink(path);
}

TestSuite(history, .timeout = 240, .init = setup, .fini = teardown);

static const bool classes[CADRE_METRICS] = {
    [CADRE_METRIC_LOSS] = true, [CADRE_METRIC_ACCURACY] = true};

#define HEADER                                                                                     \
    "epoch,step,seconds,loss,test_loss,test_accuracy,learning_rate,staleness_mean,"                \
    "staleness_max,examples_per_s\n"

/* A row of `epoch`, which was evaluated. */
static cadre_progress_t
progress_of(int64_t epoch)
{
    cadre_progress_t progress = {.epoch = epoch,
                                 .step = 10 * epoch,
                                 .seconds = 0.5 * (double)epoch,
                                 .loss = 0.25,
                                 .learning_rate = 0.003,
                                 .staleness_max = 3,
                                 .staleness_mean = 1.5,
                                 .rows_per_second = 1000};
    cadre_metrics_set(&progress.metrics, CADRE_METRIC_LOSS, 0.5);
    cadre_metrics_set(&progress.metrics, CADRE_METRIC_ACCURACY, 0.75);
    return progress;
}

static void
expect_file(const char *wanted)
{
    char text[4096] = "";
    FILE *file = fopen(path, "r");
    cr_assert(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    cr_expect_str_eq(text, wanted);
}

static void
put_file(const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert(file);
    fputs(text, file);
    fclose(file);
}

/* Writes the rows of these epochs into the file of a run. */
static void
run(bool resumes, int64_t first, int64_t last)
{
    cadre_history_t history = {0};
    cr_assert_eq(cadre_history_open(&history, path, classes, resumes), 0);
    for (int64_t epoch = first; epoch <= last; epoch++) {
        cadre_progress_t progress = progress_of(epoch);
        cadre_history_write(&history, &progress);
    }
    cr_expect_eq(history.error, 0);
    cadre_history_close(&history);
}

#define ROW(epoch, seconds) #epoch "," #epoch "0," seconds ",0.25,0.5,0.75,0.003,1.5,3,1000\n"

Test(history, has_a_row_for_each_epoch_under_the_names_of_its_columns)
{
    put_file("of a run before\n");
    run(false, 1, 2);
    expect_file(HEADER ROW(1, "0.5") ROW(2, "1"));
}

Test(history, leaves_empty_what_is_not_known)
{
    cadre_history_t history = {0};
    cadre_progress_t progress = progress_of(1);
    progress.metrics = (cadre_metrics_t){0};
    progress.loss = NAN;
    progress.staleness_mean = NAN;
    cr_assert_eq(cadre_history_open(&history, path, classes, false), 0);
    cadre_history_write(&history, &progress);
    cadre_history_close(&history);
    expect_file(HEADER "1,10,0.5,,,,0.003,,3,1000\n");
}

Test(history, of_a_run_that_resumes_has_each_epoch_once)
{
    put_file(HEADER ROW(1, "0.5") ROW(2, "1") "3,25,9,0.25,,,0.003,1.5,3,1000\n");
    run(true, 3, 4); /* the checkpoint was taken before epoch 3 ended */
    expect_file(HEADER ROW(1, "0.5") ROW(2, "1") ROW(3, "2.5") ROW(4, "3"));
}

Test(history, of_a_run_that_resumes_keeps_the_row_of_the_step_at_which_it_does)
{
    run(false, 1, 2);
    cadre_history_t history = {0};
    cadre_progress_t progress = progress_of(2);
    progress.metrics = (cadre_metrics_t){0}; /* it has no reason to evaluate again */
    cr_assert_eq(cadre_history_open(&history, path, classes, true), 0);
    cadre_history_write(&history, &progress);
    progress = progress_of(3);
    cadre_history_write(&history, &progress);
    cadre_history_close(&history);
    expect_file(HEADER ROW(1, "0.5") ROW(2, "1") ROW(3, "2.5"));
}

Test(history, is_as_it_was_when_a_resumed_run_has_no_epoch)
{
    run(false, 1, 2);
    run(true, 3, 2);
    expect_file(HEADER ROW(1, "0.5") ROW(2, "1"));
}

Test(history, of_a_resumed_run_begins_where_there_was_none)
{
    unlink(path);
    run(true, 2, 2);
    expect_file(HEADER ROW(2, "1"));
}

Test(history, drops_a_row_that_was_cut_off)
{
    put_file(HEADER ROW(1, "0.5") "2,20,0.7,0.2");
    run(true, 3, 3);
    expect_file(HEADER ROW(1, "0.5") ROW(3, "2"));
}

/* Whether a resumed run is refused the file, with these words. */
static void
expect_refused(const char *header, const char *words)
{
    cadre_history_t history = {0};
    put_file(header);
    cr_assert_eq(cadre_history_open(&history, path, classes, true), CADRE_ECONFIG);
    cr_expect(strstr(cadre_error_text(), words), "%s", cadre_error_text());
    cr_expect_null(history.file);
    expect_file(header);
}

Test(history, of_other_columns_is_refused_by_the_name_of_the_first)
{
    expect_refused("epoch,step,seconds,loss,test_loss,test_f1,learning_rate\n",
                   "column 6 is \"test_f1\", where this job writes \"test_accuracy\"");
    expect_refused("epoch,step\n", "column 3 is \"\", where this job writes \"seconds\"");
    expect_refused("epoch,step,seconds,loss,test_loss,test_accuracy,learning_rate,staleness_mean,"
                   "staleness_max,examples_per_s,more\n",
                   "column 11 is \"more\", where this job writes \"\"");
}

Test(history, that_cannot_be_written_says_so_once)
{
    cadre_history_t history = {0};
    cadre_progress_t progress = progress_of(1);
    cr_expect_eq(cadre_history_open(&history, "/no/such/folder/h.csv", classes, false), CADRE_EIO);
    cr_expect_eq(cadre_history_open(&history, "/no/such/folder/h.csv", classes, true), CADRE_EIO);
    cr_assert_eq(cadre_history_open(&history, "/dev/full", classes, false), 0);
    cadre_history_write(&history, &progress);
    cr_expect_neq(history.error, 0);
    cr_expect_null(history.file);
}
