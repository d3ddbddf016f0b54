/* `cadre run` whose tasks are killed, that is stopped, and that is taken up again. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(run_failures, .timeout = 300);

enum {
    DIGITS_CLOSURES = 45, /* of one epoch: 1,438 rows in batches of 32 */
    KILLS_MAX = 6,        /* so that a slow build, whose workers take long to start, gets on */
};

/* `cadre run examples/digits.json` with checkpoints in the scratch directory. */
typedef struct {
    command_t command;
    char *job;
    const char *arguments[24];
    size_t count;
} digits_t;

static void
add(digits_t *self, const char *flag, const char *value)
{
    self->arguments[self->count++] = flag;
    self->arguments[self->count++] = value;
}

static void
digits_open(digits_t *self, const char *epochs)
{
    *self = (digits_t){.count = 2};
    command_open(&self->command);
    self->job = source_path("examples/digits.json");
    self->arguments[0] = "run";
    self->arguments[1] = self->job;
    add(self, "-o", "json");
    add(self, "--checkpoint-dir", self->command.checkpoints);
    add(self, "--epochs", epochs);
}

static void
digits_close(digits_t *self)
{
    command_close(&self->command);
    free(self->job);
}

static void
expect_exit(const command_t *command, int code, int wanted)
{
    cadre_auto(cadre_free) char *words = command_words(command);
    cr_assert(code == wanted, "exit %d, not %d: %s", code, wanted, words);
}

static void
expect_exact(const json_t *result, double closures)
{
    static const char *const paths[] = {"closures.scheduled", "closures.finished",
                                        "updates.0.applied", "updates.1.applied"};
    for (size_t i = 0; i < CADRE_COUNT_OF(paths); i++) {
        double number = json_number_at(result, paths[i]);
        cr_expect(number >= closures && number <= closures, "%s is %.0f, not %.0f", paths[i],
                  number, closures);
    }
}

/* Runs to the end and gives the result, which the caller decrefs. */
static json_t *
expect_finished(digits_t *self, int epochs)
{
    expect_exit(&self->command, command_end(&self->command), 0);
    json_t *result = command_result(&self->command);
    cr_assert(result);
    expect_exact(result, (double)epochs * DIGITS_CLOSURES);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
    return result;
}

/* Takes the run up again where its newest checkpoint is: the same totals as without a stop. */
static void
expect_resumed(digits_t *self, int epochs)
{
    self->arguments[self->count] = "--resume";
    self->arguments[self->count + 1] = "auto";
    command_start(&self->command, self->arguments);
    self->arguments[self->count] = NULL;
    json_t *result = expect_finished(self, epochs);
    cr_expect_eq(json_number_at(result, "examples"), epochs * 1438);
    json_decref(result);
}

static void
expect_checkpoints_intact(digits_t *self)
{
    const char *arguments[] = {"checkpoint", "verify", self->command.checkpoints, NULL};
    expect_exit(&self->command, command_run(&self->command, arguments), 0);
}

/* --- workers --- */

/* Kills one of `workers` after the other, KILLS_MAX times at most, until the run ends; how many. */
static int
kill_workers(const command_t *command, int workers, int64_t every_ms)
{
    int kills = 0;
    deadline_t next = deadline_in(every_ms);
    deadline_t deadline = deadline_in(COMMAND_WAIT_MS);
    while (!command_has_ended(command)) {
        if (kills == KILLS_MAX) {
            require(again(deadline), "the end of the run");
        } else if (!again(next)) {
            pid_t pid = command_task(command, "worker", kills % workers);
            kills += pid > 0 && kill(pid, SIGKILL) == 0;
            next = deadline_in(every_ms);
        }
    }
    return kills;
}

Test(run_failures, killed_workers_cost_time_and_nothing_else)
{
    enum { EPOCHS = 150 };
    /* One held-out row is 0.28 points here, and the order of updates is not the same in two runs: 4
     * rows. On a larger set see adult below. */
    const double tolerance = 4.5 / 359;
    digits_t plain;
    digits_t killed;
    digits_open(&plain, "150");
    digits_open(&killed, "150");
    add(&killed, "--max-restarts", "10000");
    command_start(&plain.command, plain.arguments);
    json_t *undisturbed = expect_finished(&plain, EPOCHS);
    command_start(&killed.command, killed.arguments);
    int kills = kill_workers(&killed.command, 2, 400);
    json_t *result = expect_finished(&killed, EPOCHS);
    cr_expect_geq(kills, 2);
    /* One that is killed before it has joined is none that was lost. */
    cr_expect_geq(json_number_at(result, "failures.worker"), 1);
    cr_expect_float_eq(json_number_at(result, "accuracy"), json_number_at(undisturbed, "accuracy"),
                       tolerance);
    json_decref(undisturbed);
    json_decref(result);
    digits_close(&killed);
    digits_close(&plain);
}

Test(run_failures, killed_workers_leave_adult_as_accurate)
{
    const char *data = getenv("CADRE_TEST_DATA");
    if (!data) {
        cr_skip_test("CADRE_TEST_DATA names no folder");
    }
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/adult.json");
    cadre_auto(cadre_free) char *place = cadre_asprintf("%s/adult", data);
    const char *arguments[] = {"run",
                               job,
                               "--data",
                               place,
                               "--checkpoint-dir",
                               command.checkpoints,
                               "-o",
                               "json",
                               "--max-restarts",
                               "unlimited",
                               NULL};
    expect_exit(&command, command_run(&command, arguments), 0);
    json_t *undisturbed = command_result(&command);
    command_start(&command, arguments);
    int kills = kill_workers(&command, 2, 150);
    expect_exit(&command, command_end(&command), 0);
    json_t *result = command_result(&command);
    cr_expect_geq(kills, 1);
    cr_expect_float_eq(json_number_at(result, "accuracy"), json_number_at(undisturbed, "accuracy"),
                       0.005);
    expect_exact(result, json_number_at(undisturbed, "closures.scheduled"));
    json_decref(undisturbed);
    json_decref(result);
    command_close(&command);
}

Test(run_failures, a_worker_that_dies_too_often_ends_the_run)
{
    digits_t digits;
    digits_open(&digits, "100000");
    add(&digits, "--max-restarts", "1");
    add(&digits, "--workers", "1");
    add(&digits, "--checkpoint-every", "0.2");
    command_start(&digits.command, digits.arguments);
    command_wait_checkpoint(&digits.command);
    int kills = kill_workers(&digits.command, 1, 100);
    cr_expect_geq(kills, 1);
    expect_exit(&digits.command, command_end(&digits.command), 69);
    cadre_auto(cadre_free) char *errors = command_errors(&digits.command);
    cr_expect(strstr(errors, "worker 0"), "%s", errors);
    cr_expect(strstr(errors, "SIGKILL"), "%s", errors);
    expect_checkpoints_intact(&digits);
    digits_close(&digits);
}

/* --- everything, a ps, and a stop --- */

Test(run_failures, everything_is_killed_and_resumed_with_the_same_totals)
{
    enum { EPOCHS = 120 };
    digits_t digits;
    digits_open(&digits, "120");
    add(&digits, "--checkpoint-every", "0.1");
    command_start(&digits.command, digits.arguments);
    command_wait_checkpoint(&digits.command);
    command_signal(&digits.command, SIGKILL); /* its tasks die with it */
    cr_expect_eq(command_end(&digits.command), -SIGKILL, "it was in the middle");
    expect_checkpoints_intact(&digits);
    expect_resumed(&digits, EPOCHS);
    digits_close(&digits);
}

Test(run_failures, a_ps_that_may_not_be_started_again_ends_the_run_which_says_how_to_go_on)
{
    enum { EPOCHS = 120 };
    digits_t digits;
    digits_open(&digits, "120");
    add(&digits, "--max-restarts", "0");
    add(&digits, "--checkpoint-every", "0.1");
    command_start(&digits.command, digits.arguments);
    command_wait_checkpoint(&digits.command);
    pid_t ps = command_task(&digits.command, "ps", 1);
    cr_assert_gt(ps, 0);
    kill(ps, SIGKILL);
    expect_exit(&digits.command, command_end(&digits.command), 69);
    cadre_auto(cadre_free) char *errors = command_errors(&digits.command);
    const char *next = strstr(errors, "next: cadre run ");
    cr_expect(strstr(errors, "ps 1"), "%s", errors);
    cr_assert(next, "%s", errors);
    cr_expect(strstr(next, "--resume auto"), "%s", next);
    cr_expect(strstr(next, digits.command.checkpoints), "%s", next);
    expect_checkpoints_intact(&digits);
    expect_resumed(&digits, EPOCHS);
    digits_close(&digits);
}

static void
stop_and_resume(int number, int code)
{
    enum { EPOCHS = 120 };
    digits_t digits;
    digits_open(&digits, "120");
    command_start(&digits.command, digits.arguments);
    cadre_auto(cadre_free) char *errors = NULL;
    deadline_t deadline = deadline_in(COMMAND_WAIT_MS);
    do {
        cadre_free(&errors);
        errors = command_errors(&digits.command);
        cr_assert(again(deadline));
    } while (!strstr(errors, "epoch=2/"));
    command_signal(&digits.command, number);
    expect_exit(&digits.command, command_end(&digits.command), code);
    json_t *result = command_result(&digits.command);
    cr_expect(json_string_value(json_object_get(result, "checkpoint")), "it took a checkpoint");
    json_decref(result);
    expect_checkpoints_intact(&digits);
    expect_resumed(&digits, EPOCHS);
    digits_close(&digits);
}

Test(run_failures, ctrl_c_stops_after_a_checkpoint_that_can_be_resumed)
{
    stop_and_resume(SIGINT, 130);
}

Test(run_failures, sigterm_stops_after_a_checkpoint_that_can_be_resumed)
{
    stop_and_resume(SIGTERM, 143);
}

Test(run_failures, a_resume_may_use_another_number_of_ps_and_workers)
{
    enum { EPOCHS = 60 };
    digits_t digits;
    digits_open(&digits, "60");
    add(&digits, "--checkpoint-every", "0.1");
    command_start(&digits.command, digits.arguments);
    command_wait_checkpoint(&digits.command);
    command_signal(&digits.command, SIGINT);
    int code = command_end(&digits.command);
    cr_assert(code == 130 || code == 0, "exit %d", code);
    add(&digits, "--ps", "3");
    add(&digits, "--workers", "1");
    add(&digits, "--resume", "auto");
    command_start(&digits.command, digits.arguments);
    expect_exit(&digits.command, command_end(&digits.command), 0);
    json_t *result = command_result(&digits.command);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
    cr_expect_eq(json_number_at(result, "closures.finished"), EPOCHS * DIGITS_CLOSURES);
    cr_expect_geq(json_number_at(result, "updates.2.shard"), 2);
    json_decref(result);
    digits_close(&digits);
}

/* --- checkpoints on disk --- */

static char *
shard_file(const command_t *command)
{
    cadre_auto(cadre_free) char *listing = scratch_path(&command->scratch, "listing");
    const char *arguments[] = {
        "/usr/bin/find", command->checkpoints, "-name", "*shard*", "-type", "f", NULL};
    int end = 0;
    pid_t pid = process_start(&(process_t){.arguments = arguments, .output = listing});
    cr_assert(process_wait(pid, COMMAND_WAIT_MS, &end));
    char *text = file_text(listing);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

Test(run_failures, checkpoints_are_listed_and_damage_is_found)
{
    digits_t digits;
    digits_open(&digits, "2");
    command_start(&digits.command, digits.arguments);
    command_end(&digits.command); /* 1: two epochs are not enough for the target */
    const char *list[] = {"checkpoint", "list", digits.command.checkpoints, "-o", "json", NULL};
    const char *verify[] = {"checkpoint", "verify", digits.command.checkpoints, NULL};
    expect_exit(&digits.command, command_run(&digits.command, list), 0);
    json_t *listed = command_result(&digits.command);
    cr_expect_eq(json_number_at(listed, "checkpoints.0.cut"), 2 * DIGITS_CLOSURES + 1);
    cr_expect_eq(json_number_at(listed, "checkpoints.0.shards"), 2);
    json_decref(listed);
    expect_exit(&digits.command, command_run(&digits.command, verify), 0);
    cadre_auto(cadre_free) char *path = shard_file(&digits.command);
    FILE *file = fopen(path, "r+e");
    cr_assert(file, "%s", path);
    fseek(file, 20000, SEEK_SET);
    fputc('~', file);
    fclose(file);
    expect_exit(&digits.command, command_run(&digits.command, verify), 65);
    const char *nowhere[] = {"checkpoint", "list", "/nowhere/at/all", NULL};
    expect_exit(&digits.command, command_run(&digits.command, nowhere), 66);
    digits_close(&digits);
}
