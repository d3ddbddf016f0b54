/* `cadre run` that ends before its epochs do: at a step, in time, by what evaluations find. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(run_stop, .timeout = 900);

/* A run of a job that the test writes; synchronous, so that it gives the same bits each time. */
typedef struct {
    command_t command;
    char *job;
    char *data;
} stopped_run_t;

static void
stopped_run_open(stopped_run_t *self, const char *training, const char *checkpoint)
{
    command_open(&self->command);
    self->data = source_path("examples");
    self->job = scratch_path(&self->command.scratch, "job.json");
    FILE *file = fopen(self->job, "we");
    cr_assert(file);
    const char *step = strstr(training, "step_closures") ? "" : "\"step_closures\": 2, ";
    fprintf(file,
            "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"data/digits.csv.gz\", "
            "\"scale\": 0.0625}, \"test\": {\"fraction\": 0.2}},\n"
            "\"model\": {\"type\": \"mlp\", \"hidden\": [16]}, \"seed\": 11,\n"
            "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.003},\n"
            "\"training\": {\"consistency\": \"sync\", %s%s},\n"
            "\"cluster\": {\"ps\": 2, \"max_restarts\": \"unlimited\", \"recovery\": "
            "\"rollback\"},\n"
            "\"checkpoint\": {\"every_s\": 0.1%s}}\n",
            step, training, checkpoint);
    cr_assert_eq(fclose(file), 0);
}

static void
stopped_run_close(stopped_run_t *self)
{
    command_close(&self->command);
    free(self->job);
    free(self->data);
}

static void
stopped_run_start(stopped_run_t *self, const char *resume)
{
    const char *arguments[] = {"run",
                               self->job,
                               "--data",
                               self->data,
                               "--checkpoint-dir",
                               self->command.checkpoints,
                               "-o",
                               "json",
                               "--resume",
                               resume,
                               NULL};
    command_start(&self->command, arguments);
}

/* Waits for the end; the result, which the caller decrefs. */
static json_t *
stopped_run_end(stopped_run_t *self)
{
    command_expect_exit(&self->command, command_end(&self->command), 0);
    json_t *result = command_result(&self->command);
    cr_assert(result);
    return result;
}

static void
expect_stopped(const json_t *result, const char *why)
{
    const char *found = json_string_value(json_object_get(result, "stopped"));
    cr_assert(found);
    cr_expect_str_eq(found, why);
}

/* Returns whether both results have the same bits at this path. */
static bool
is_same_at(const json_t *left, const json_t *right, const char *path)
{
    double a = json_number_at(left, path);
    double b = json_number_at(right, path);
    return !(a < b || a > b);
}

static void
expect_same_at(const json_t *left, const json_t *right, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cr_expect(is_same_at(left, right, paths[i]), "%s is %.17g and %.17g", paths[i],
                  json_number_at(left, paths[i]), json_number_at(right, paths[i]));
    }
}

/* Both ended at the same step, with the same weights. */
static void
expect_same_weights(const json_t *left, const json_t *right)
{
    static const char *const paths[] = {"accuracy", "loss", "examples", "closures.finished"};
    expect_same_at(left, right, paths, CADRE_COUNT_OF(paths));
}

/* Both ended with the same weights and the same best state. */
static void
expect_same(const json_t *left, const json_t *right)
{
    static const char *const paths[] = {"best.value", "best.step"};
    expect_same_weights(left, right);
    expect_same_at(left, right, paths, CADRE_COUNT_OF(paths));
}

/* The best checkpoint is there, marked, sound, and the result names it. */
static void
expect_best_kept(stopped_run_t *self, const json_t *result)
{
    const char *path =
        json_string_value(json_object_get(json_object_get(result, "best"), "checkpoint"));
    cr_assert(path);
    const char *list[] = {"checkpoint", "list", self->command.checkpoints, NULL};
    command_expect_exit(&self->command, command_run(&self->command, list), 0);
    cadre_auto(cadre_free) char *output = command_output(&self->command);
    const char *line = strstr(output, strrchr(path, '/') + 1);
    cr_assert(line, "%s is not in %s", path, output);
    const char *end = strchr(line, '\n');
    cr_expect(end && strncmp(end - strlen("  best"), "  best", strlen("  best")) == 0, "%s",
              output);
    const char *verify[] = {"checkpoint", "verify", self->command.checkpoints, NULL};
    command_expect_exit(&self->command, command_run(&self->command, verify), 0);
}

Test(run_stop, ends_at_a_step_in_the_middle_of_an_epoch_and_goes_on_with_more)
{
    stopped_run_t run;
    stopped_run_open(&run, "\"epochs\": 10, \"steps_per_epoch\": 20, \"stop\": {\"steps\": 51}",
                     "");
    stopped_run_start(&run, "never");
    json_t *result = stopped_run_end(&run);
    expect_stopped(result, "steps");
    digits_expect_number(result, "closures.finished", 51);
    digits_expect_number(result, "examples", DIGITS_ROWS + 6 * 32);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.1, "it was evaluated");
    json_decref(result);

    setenv("CADRE_STOP_STEPS", "0", 1);
    stopped_run_start(&run, "auto");
    result = stopped_run_end(&run);
    expect_stopped(result, "epochs");
    digits_expect_number(result, "closures.finished", 200);
    digits_expect_number(result, "examples", 4 * DIGITS_ROWS + 20 * 32);
    json_decref(result);
    stopped_run_close(&run);
}

/* "cut 46" of each checkpoint that is listed, newest first. */
static size_t
list_cuts(stopped_run_t *self, unsigned long *cuts, size_t max)
{
    const char *list[] = {"checkpoint", "list", self->command.checkpoints, NULL};
    command_expect_exit(&self->command, command_run(&self->command, list), 0);
    cadre_auto(cadre_free) char *output = command_output(&self->command);
    size_t count = 0;
    for (const char *cut = output; (cut = strstr(cut, "cut ")) && count < max; cut += 4) {
        cuts[count++] = strtoul(cut + 4, NULL, 10);
    }
    return count;
}

Test(run_stop, takes_checkpoints_at_the_ends_of_epochs_which_hold_exactly_these)
{
    stopped_run_t run;
    stopped_run_open(&run, "\"epochs\": 7", "");
    setenv("CADRE_CHECKPOINT_EVERY_S", "0", 1);
    setenv("CADRE_CHECKPOINT_EVERY_EPOCHS", "3", 1);
    stopped_run_start(&run, "never");
    json_decref(stopped_run_end(&run));
    unsigned long cuts[8] = {0};
    cr_assert_eq(list_cuts(&run, cuts, CADRE_COUNT_OF(cuts)), 3);
    cr_expect(cuts[0] == 1 + 7 * DIGITS_CLOSURES && cuts[1] == 1 + 6 * DIGITS_CLOSURES &&
                  cuts[2] == 1 + 3 * DIGITS_CLOSURES,
              "%lu %lu %lu", cuts[2], cuts[1], cuts[0]);
    stopped_run_close(&run);
}

Test(run_stop, takes_a_checkpoint_every_so_many_steps)
{
    stopped_run_t run;
    stopped_run_open(&run, "\"epochs\": 20", ", \"keep\": 10000, \"every_steps\": 100");
    setenv("CADRE_CHECKPOINT_EVERY_S", "0", 1);
    stopped_run_start(&run, "never");
    json_t *result = stopped_run_end(&run);
    digits_expect_number(result, "closures.finished", 20 * DIGITS_CLOSURES);
    json_decref(result);
    unsigned long cuts[16] = {0};
    size_t count = list_cuts(&run, cuts, CADRE_COUNT_OF(cuts));
    cr_assert(count >= 2 && count <= 10, "%zu", count); /* a slow disk has fewer */
    for (size_t i = 1; i + 1 < count; i++) {
        cr_expect_geq(cuts[i] - cuts[i + 1], 100, "%lu after %lu", cuts[i], cuts[i + 1]);
    }
    stopped_run_close(&run);
}

/* Trains by this section, to which a time of 1.5 s belongs, or the environment says it. */
static void
expect_end_in_time(const char *training)
{
    stopped_run_t run;
    stopped_run_open(&run, training, "");
    stopped_run_start(&run, "never");
    json_t *result = stopped_run_end(&run);
    expect_stopped(result, "seconds");
    double trained = json_number_at(result, "closures.finished");
    cr_expect_geq(json_number_at(result, "seconds"), 1.5);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.1, "it was evaluated");
    json_decref(result);

    stopped_run_start(&run, "auto"); /* nothing is left of the time */
    result = stopped_run_end(&run);
    expect_stopped(result, "seconds");
    digits_expect_number(result, "closures.finished", trained);
    json_decref(result);
    stopped_run_close(&run);
}

Test(run_stop, ends_when_its_time_is_over_which_counts_all_runs_of_the_job)
{
    expect_end_in_time("\"epochs\": 1000000, \"stop\": {\"seconds\": 1.5}");
    setenv("CADRE_STOP_SECONDS", "1.5", 1);
    expect_end_in_time("\"epochs\": 1000000");
}

Test(run_stop, ends_at_its_target)
{
    stopped_run_t run;
    stopped_run_open(&run,
                     "\"epochs\": 1000, \"evaluate_every\": 1, \"stop\": {\"metric\": "
                     "\"test_accuracy\", \"at_least\": 0.9}",
                     "");
    stopped_run_start(&run, "never");
    json_t *result = stopped_run_end(&run);
    expect_stopped(result, "target");
    cr_expect_geq(json_number_at(result, "accuracy"), 0.9);
    double trained = json_number_at(result, "closures.finished");
    cr_expect_lt(trained, 100 * DIGITS_CLOSURES);
    json_decref(result);

    /* Who follows the checkpoints knows that nothing newer will come. */
    const char *follow[] = {
        "evaluate", run.job, "--data", run.data, "--checkpoint-dir", run.command.checkpoints,
        "--follow", "-o",    "json",   NULL};
    command_expect_exit(&run.command, command_run(&run.command, follow), 0);
    result = command_result(&run.command);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.9);
    json_decref(result);
    stopped_run_close(&run);
}

/* What the runs of a job said, for the message of a test that fails: where each of them resumed. */
typedef struct {
    char *said[4];
    int count;
    long done; /* closures that had trained where the last of them resumed */
} told_t;

/* Returns how many closures had trained where a run resumed, by the line that ends behind `row`. */
static long
closures_done(const char *row)
{
    const char *closures = strstr(row + 1, ", ");
    return closures ? strtol(closures + 2, NULL, 10) : -1;
}

/* Takes what the run said that has just ended. All but the first resumed, between two steps of
 * three closures of a row, or at the end of an epoch; none before the one that it follows. */
static void
told_take(told_t *self, const command_t *command)
{
    cr_assert_lt(self->count, (int)CADRE_COUNT_OF(self->said));
    char *said = command_errors(command);
    self->said[self->count++] = said;
    const char *row = strstr(said, ", row ");
    cr_expect_eq(row != NULL, self->count > 1, "%s", said);
    if (row) {
        const long at = strtol(row + strlen(", row "), NULL, 10);
        cr_expect(at % 3 == 0 || at == DIGITS_ROWS, "within a step: %s", said);
        cr_expect_geq(closures_done(row), self->done, "it went back: %s", said);
        self->done = closures_done(row);
    }
}

/* Shows all of it where results differ, and frees it all. */
static void
told_end(told_t *self, bool is_same)
{
    for (int i = 0; i < self->count; i++) {
        cr_expect(is_same, "run %d said: %s", i, self->said[i]);
        free(self->said[i]);
    }
}

/* Whole steps are bit for bit the same in a run that is stopped and resumed: it stops between two
 * steps even where the queue, which is short in a job with a time limit, ends within one. */
Test(run_stop, stops_between_steps_which_are_the_same_when_it_goes_on)
{
    static const char training[] = "\"epochs\": 6, \"batch_size\": 1, \"step_closures\": 3, "
                                   "\"stop\": {\"seconds\": 100000}";
    stopped_run_t quiet;
    stopped_run_open(&quiet, training, "");
    stopped_run_start(&quiet, "never");
    json_t *wanted = stopped_run_end(&quiet);

    told_t told = {.count = 0};
    stopped_run_t run;
    stopped_run_open(&run, training, "");
    long newest = 0;
    for (int i = 0; i < 3; i++) {
        stopped_run_start(&run, i == 0 ? "never" : "auto");
        command_wait_checkpoint_after(&run.command, newest);
        command_signal(&run.command, SIGTERM);
        command_expect_exit(&run.command, command_end(&run.command), 143);
        told_take(&told, &run.command);
        newest = command_wait_checkpoint_after(&run.command, 0);
    }
    stopped_run_start(&run, "auto");
    json_t *result = stopped_run_end(&run);
    told_take(&told, &run.command);
    expect_same_weights(wanted, result);
    told_end(&told, is_same_at(wanted, result, "loss"));

    json_decref(result);
    json_decref(wanted);
    stopped_run_close(&run);
    stopped_run_close(&quiet);
}

/* The whole of it under failures: a run that is stopped, resumed and whose tasks are killed ends
 * where one that was left alone does, with the same best checkpoint. */
Test(run_stop, ends_by_patience_at_the_same_step_whatever_is_killed)
{
    static const char training[] =
        "\"epochs\": 1000, \"evaluate_every\": 1, \"stop\": {\"metric\": \"test_loss\", "
        "\"patience\": 3, \"min_delta\": 0.0005}";
    static const char checkpoint[] = ", \"keep_best\": \"test_accuracy\"";
    static const char *const tasks[] = {"worker/0", "ps/1", "worker/1", "ps/0"};

    stopped_run_t quiet;
    stopped_run_open(&quiet, training, checkpoint);
    stopped_run_start(&quiet, "never");
    json_t *wanted = stopped_run_end(&quiet);
    expect_stopped(wanted, "patience");
    expect_best_kept(&quiet, wanted);

    stopped_run_t run;
    stopped_run_open(&run, training, checkpoint);
    for (int i = 0; i < 3; i++) {
        stopped_run_start(&run, i == 0 ? "never" : "auto");
        command_wait_checkpoint_after(&run.command, 3 * i);
        if (!command_has_ended(&run.command)) {
            command_signal(&run.command, SIGTERM);
        }
        int code = command_end(&run.command);
        cr_assert(code == 143 || code == 0, "%d", code);
    }
    stopped_run_start(&run, "auto");
    digits_kill(&run.command, tasks, CADRE_COUNT_OF(tasks), 6, 200);
    json_t *result = stopped_run_end(&run);
    expect_stopped(result, "patience");
    expect_same(wanted, result);
    expect_best_kept(&run, result);

    json_decref(result);
    stopped_run_start(&run, "auto"); /* it has ended, and stays so */
    result = stopped_run_end(&run);
    expect_stopped(result, "patience");
    expect_same(wanted, result);
    json_decref(result);
    json_decref(wanted);
    stopped_run_close(&run);
    stopped_run_close(&quiet);
}
