/* The numbers that `cadre run` tells of runs that were resumed, that failed, and that evaluate now
 * and then; and what it says when a run goes on with another optimizer. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(run_numbers, .timeout = 900);

enum { BATCH_SIZE = 32 }; /* of the example */

/* A copy of an example in the scratch directory with `settings` ({"training": {...}, ...}) put over
 * it; freed by the caller. */
static char *
write_job(const command_t *command, const char *example, const char *settings)
{
    cadre_auto(cadre_free) char *name = cadre_asprintf("examples/%s.json", example);
    cadre_auto(cadre_free) char *source = source_path(name);
    cadre_auto(cadre_free) char *data = source_path("examples/data/digits.csv.gz");
    char *path = cadre_asprintf("%s/%s.json", command->scratch.path, example);
    json_t *job = json_load_file(source, 0, NULL);
    json_t *changes = json_loads(settings, 0, NULL);
    cr_assert(job && changes);
    json_object_set_new(json_object_get(json_object_get(job, "data"), "train"), "path",
                        json_string(data));
    json_object_update_recursive(job, changes);
    cr_assert_eq(json_dump_file(job, path, 0), 0);
    json_decref(changes);
    json_decref(job);
    return path;
}

/* The events called "epoch" of a run with --events `path`, a list that the caller ends. */
static json_t *
epoch_events(const char *path)
{
    json_t *epochs = json_array();
    cadre_auto(cadre_free) char *text = file_text(path);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        json_t *event = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        cr_assert(event, "%s", line);
        if (strcmp(json_string_value(json_object_get(event, "event")), "epoch") == 0) {
            json_array_append(epochs, event);
        }
        json_decref(event);
    }
    return epochs;
}

Test(run_numbers, a_resumed_run_counts_the_job_and_tells_its_own_speed)
{
    digits_t digits;
    digits_open(&digits, 20);
    digits_start(&digits);
    json_decref(digits_expect_finished(&digits));
    digits.epochs += 2;
    digits_add(&digits, "--resume", "auto");
    digits_start(&digits);
    json_t *result = digits_expect_finished(&digits); /* examples: of the whole job */
    double wanted = 2.0 * DIGITS_ROWS / json_number_at(result, "seconds");
    cr_expect_float_eq(json_number_at(result, "examples_per_s"), wanted, 1e-3 * wanted);
    json_decref(result);
    digits_close(&digits);
}

Test(run_numbers, a_failed_run_counts_the_examples_of_closures_that_finished)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job =
        write_job(/* each step is 1e10 times the one before */
                  &command, "digits_linear",
                  "{\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 1e10}}");
    const char *arguments[] = {"run", job, "--checkpoint-dir", "none", "-o", "json", NULL};
    command_expect_exit(&command, command_run(&command, arguments), 1);
    json_t *result = command_result(&command);
    cr_assert(result);
    double finished = json_number_at(result, "closures.finished");
    cr_expect_lt(finished, json_number_at(result, "closures.scheduled"));
    cr_expect_eq(json_number_at(result, "examples"), finished * BATCH_SIZE);
    json_decref(result);
    command_close(&command);
}

Test(run_numbers, an_epoch_that_was_not_evaluated_has_no_accuracy)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *events = cadre_asprintf("%s/events", command.scratch.path);
    cadre_auto(cadre_free) char *job =
        write_job(&command, "digits",
                  "{\"training\": {\"epochs\": 5, \"evaluate_every\": 2, \"target_accuracy\": 0}}");
    const char *arguments[] = {"run", job, "--checkpoint-dir", "none", "--events", events, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *epochs = epoch_events(events);
    cr_assert_eq(json_array_size(epochs), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *epoch = json_array_get(epochs, i);
        bool evaluated = i == 1 || i == 3 || i == 4;
        cr_expect_eq(json_object_get(epoch, "test_accuracy") != NULL, evaluated, "epoch %zu",
                     i + 1);
        cr_expect_eq(json_object_get(epoch, "test_loss") != NULL, evaluated, "epoch %zu", i + 1);
    }
    json_decref(epochs);
    cadre_auto(cadre_free) char *words = command_errors(&command);
    const char *third = strstr(words, "epoch=3/5 progress=100%");
    cr_assert(third, "%s", words);
    cr_expect_null(memmem(third, strcspn(third, "\n"), "test_", 5), "%s", words);
    command_close(&command);
}

/* A number of a history's row, by the name of its column; NaN where the field is empty. */
static double
history_number(const char *text, int row, const char *name)
{
    int column = 0;
    const char *names = text;
    while (strncmp(names, name, strlen(name)) != 0 || !strchr(",\n", names[strlen(name)])) {
        names += strcspn(names, ",\n") + 1;
        column++;
        cr_assert(names[-1] == ',', "no column %s", name);
    }
    for (; row > 0; row--) {
        text += strcspn(text, "\n") + 1;
    }
    for (; column > 0; column--) {
        text += strcspn(text, ",\n") + 1;
    }
    return strchr(",\n", *text) ? NAN : strtod(text, NULL);
}

Test(run_numbers, a_history_has_one_row_for_each_epoch_of_two_runs)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *history = cadre_asprintf("%s/h.csv", command.scratch.path);
    cadre_auto(cadre_free) char *job = write_job(
        &command, "digits",
        "{\"training\": {\"epochs\": 3, \"evaluate_every\": 2, \"target_accuracy\": 0},"
        " \"optimizer\": {\"learning_rate\": {\"schedule\": \"inverse_time\", \"initial\": 0.004,"
        " \"decay_steps\": 45, \"decay_rate\": 1}}}");
    const char *first[] = {"run",   job, "--checkpoint-dir", command.checkpoints, "--history",
                           history, NULL};
    const char *second[] = {"run",
                            job,
                            "--checkpoint-dir",
                            command.checkpoints,
                            "--history",
                            history,
                            "--resume",
                            "auto",
                            "--epochs",
                            "5",
                            NULL};
    command_expect_exit(&command, command_run(&command, first), 0);
    command_expect_exit(&command, command_run(&command, second), 0);

    cadre_auto(cadre_free) char *text = file_text(history);
    for (int row = 1; row <= 5; row++) {
        bool evaluated = row != 1; /* epoch 3 was the last one of its run */
        cr_expect_eq(history_number(text, row, "epoch"), row, "%s", text);
        cr_expect_eq(history_number(text, row, "step"), 45 * row, "%s", text);
        cr_expect_eq(isfinite(history_number(text, row, "test_accuracy")), evaluated, "%s", text);
        cr_expect_float_eq(history_number(text, row, "learning_rate"), 0.004 / (1 + row), 1e-9);
        cr_expect_leq(history_number(text, row, "staleness_mean"),
                      history_number(text, row, "staleness_max"));
        cr_expect_gt(history_number(text, row, "seconds"),
                     row > 1 ? history_number(text, row - 1, "seconds") : 0);
    }

    const char *other[] = {"run",      job,    "--history",        history,
                           "--resume", "auto", "--checkpoint-dir", command.checkpoints,
                           NULL};
    cadre_auto(cadre_free) char *changed = cadre_strdup(text);
    memcpy(strstr(changed, "test_loss"), "test_lass", strlen("test_lass"));
    FILE *file = fopen(history, "w");
    fputs(changed, file);
    fclose(file);
    command_expect_exit(&command, command_run(&command, other), 78);
    cadre_auto(cadre_free) char *words = command_errors(&command);
    cr_expect(strstr(words, "column 5 is \"test_lass\", where this job writes \"test_loss\""), "%s",
              words);
    command_close(&command);
}

/* Runs the job for so many epochs in all, going on from its checkpoint where `resume` says so. */
static void
run_epochs(command_t *command, const char *job, const char *history, const char *epochs,
           const char *resume)
{
    const char *arguments[] = {"run",
                               job,
                               "--checkpoint-dir",
                               command->checkpoints,
                               "--history",
                               history,
                               "--epochs",
                               epochs,
                               "--resume",
                               resume,
                               NULL};
    command_expect_exit(command, command_run(command, arguments), 0);
}

Test(run_numbers, a_rate_that_a_plateau_lowers_is_the_same_after_a_resume)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *whole = cadre_asprintf("%s/whole.csv", command.scratch.path);
    cadre_auto(cadre_free) char *parts = cadre_asprintf("%s/parts.csv", command.scratch.path);
    cadre_auto(cadre_free) char *job = write_job(
        &command, "digits", /* no loss is better by 100: after the first each evaluation counts */
        "{\"seed\": 5, \"training\": {\"evaluate_every\": 1, \"target_accuracy\": 0,"
        " \"consistency\": \"sync\", \"step_closures\": 2, \"plateau\": {\"patience\": 2,"
        " \"factor\": 0.5, \"min_delta\": 100, \"min_rate\": 0.001}}}");
    run_epochs(&command, job, whole, "7", "never");
    run_epochs(&command, job, parts, "4", "never");
    run_epochs(&command, job, parts, "7", "auto");

    static const double rates[] = {0.003, 0.003, 0.003, 0.0015, 0.0015, 0.001, 0.001};
    cadre_auto(cadre_free) char *one = file_text(whole);
    cadre_auto(cadre_free) char *two = file_text(parts);
    for (int row = 1; row <= 7; row++) {
        cr_expect_float_eq(history_number(one, row, "learning_rate"), rates[row - 1], 1e-9, "%s",
                           one);
        cr_expect_eq(history_number(two, row, "learning_rate"),
                     history_number(one, row, "learning_rate"), "%s", two);
        cr_expect_eq(history_number(two, row, "test_loss"), history_number(one, row, "test_loss"),
                     "%s%s", one, two);
    }
    command_close(&command);
}

Test(run_numbers, values_have_a_test_loss_and_no_accuracy)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *events = cadre_asprintf("%s/events", command.scratch.path);
    cadre_auto(cadre_free) char *job = write_job(
        &command, "digits_linear", "{\"training\": {\"epochs\": 2, \"evaluate_every\": 1}}");
    const char *arguments[] = {"run", job, "--checkpoint-dir", "none", "--events", events, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *epochs = epoch_events(events);
    cr_assert_eq(json_array_size(epochs), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *epoch = json_array_get(epochs, i);
        cr_expect_gt(json_real_value(json_object_get(epoch, "test_loss")), 0);
        cr_expect_null(json_object_get(epoch, "test_accuracy"));
    }
    json_decref(epochs);
    command_close(&command);
}

/* What a run says that resumes one of the example's Adam with `optimizer`; freed by the caller. */
static char *
words_with(const char *optimizer)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *settings =
        cadre_asprintf("{\"optimizer\": {\"type\": \"%s\"}, \"training\": {\"epochs\": 2, "
                       "\"target_accuracy\": 0}}",
                       optimizer);
    cadre_auto(cadre_free) char *first =
        write_job(&command, "digits", "{\"training\": {\"epochs\": 1, \"target_accuracy\": 0}}");
    const char *begin[] = {"run", first, "--checkpoint-dir", command.checkpoints, NULL};
    command_expect_exit(&command, command_run(&command, begin), 0);
    cadre_auto(cadre_free) char *second = write_job(&command, "digits", settings);
    const char *resume[] = {"run",  second, "--checkpoint-dir", command.checkpoints, "--resume",
                            "auto", NULL};
    command_expect_exit(&command, command_run(&command, resume), 0);
    char *words = command_errors(&command);
    command_close(&command);
    return words;
}

Test(run_numbers, resuming_with_another_optimizer_says_what_becomes_of_its_slots)
{
    cadre_auto(cadre_free) char *other = words_with("adagrad");
    cr_expect(strstr(other, "optimizer_changed variable=") &&
                  strstr(other, "was=adam is=adagrad next=\"the values go on; its slots and "
                                "steps are reset\""),
              "%s", other);
    cadre_auto(cadre_free) char *kin = words_with("adamw");
    cr_expect(strstr(kin, "was=adam is=adamw next=\"the values go on, and the slots, which have "
                          "the same names\""),
              "%s", kin);
    cadre_auto(cadre_free) char *step = words_with("momentum"); /* another one than adam's */
    cr_expect(strstr(step, "was=adam is=momentum next=\"the values go on; its slots and steps are "
                           "reset\""),
              "%s", step);
    cadre_auto(cadre_free) char *same = words_with("adam");
    cr_expect_null(strstr(same, "optimizer_changed"), "%s", same);
}
