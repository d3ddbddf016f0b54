/* `cadre run` whose ps die: they are started again and the totals are exact; or they stay away. */
#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/sanitizer.h"
#include "tests/system/digits.h"

TestSuite(run_recovery, .timeout = 900);

enum {
    KILLS_MAX = 8,
    EVERY_MS = 500, /* between kills: a ps is back within that on a fast machine */
};

static const char *const every_ps[] = {"ps/0", "ps/1"};
static const char *const every_task[] = {"ps/0", "worker/0", "ps/1", "worker/1"};

/* A run whose ps are killed, with this recovery; its result. */
static json_t *
run_with_killed_ps(digits_t *digits, const char *recovery)
{
    digits_add(digits, "--max-restarts", "unlimited");
    digits_add(digits, "--recovery", recovery);
    digits_start(digits);
    digits_wait_said(digits, "epoch=2/"); /* or there is nothing yet that could be lost */
    int kills = digits_kill(&digits->command, every_ps, 2, KILLS_MAX, EVERY_MS);
    cr_expect_geq(kills, 2);
    json_t *result = NULL;
    if (strcmp(recovery, "relaxed") == 0) {
        digits_expect_end(digits, 0);
        result = command_result(&digits->command);
    } else {
        result = digits_expect_finished(digits);
    }
    cr_expect_geq(json_number_at(result, "failures.ps"), 1);
    return result;
}

Test(run_recovery, a_killed_ps_is_started_again_and_nothing_is_lost)
{
    digits_t digits;
    digits_open(&digits, 200);
    digits_add(&digits, "--checkpoint-every", "0.7");
    json_decref(run_with_killed_ps(&digits, "replay"));
    digits_expect_said(&digits, "was killed by SIGKILL, often because memory ran out: its shard "
                                "waits for it; it starts again");
    digits_expect_said(&digits, "ps_restored shard=");
    digits_expect_checkpoints_intact(&digits);
    digits_close(&digits);
}

Test(run_recovery, a_rollback_loses_nothing_either)
{
    digits_t digits;
    digits_open(&digits, 200);
    digits_add(&digits, "--checkpoint-every", "0.7");
    json_decref(run_with_killed_ps(&digits, "rollback"));
    digits_close(&digits);
}

Test(run_recovery, relaxed_goes_on_without_the_updates_and_says_so)
{
    digits_t digits;
    digits_open(&digits, 200);
    digits_add(&digits, "--checkpoint-every", "0.7");
    json_t *result = run_with_killed_ps(&digits, "relaxed");
    double closures = digits.epochs * DIGITS_CLOSURES;
    digits_expect_number(result, "closures.finished", closures);
    cr_expect_lt(json_number_at(result, "updates.0.applied"), closures);
    cr_expect_lt(json_number_at(result, "updates.1.applied"), closures);
    json_decref(result);
    digits_close(&digits);
}

Test(run_recovery, without_checkpoints_a_killed_ps_begins_with_its_initial_values)
{
    digits_t digits;
    digits_open(&digits, 150);
    digits_add(&digits, "--checkpoint-dir", "none");
    json_t *result = run_with_killed_ps(&digits, "replay");
    cr_expect(json_is_null(json_object_get(result, "checkpoint")));
    digits_expect_said(&digits, "no checkpoints are taken: a lost ps is recovered from its initial "
                                "values until 1000000 closures or 256 MiB of them have run");
    json_decref(result);
    digits_close(&digits);
}

Test(run_recovery, F17_every_task_is_killed_at_once_and_started_again)
{
    digits_t digits;
    digits_open(&digits, 200);
    digits_add(&digits, "--checkpoint-every", "0.5");
    digits_add(&digits, "--max-restarts", "unlimited");
    digits_start(&digits);
    long checkpoint = 0;
    for (int round = 0; round < 3; round++) {
        checkpoint = command_wait_checkpoint_after(&digits.command, checkpoint);
        cr_expect_not(command_has_ended(&digits.command), "it was in the middle");
        for (int i = 0; i < 2; i++) {
            pid_t pids[] = {command_task(&digits.command, "ps", i),
                            command_task(&digits.command, "worker", i)};
            for (size_t k = 0; k < CADRE_COUNT_OF(pids); k++) {
                if (pids[k] > 0) {
                    kill(pids[k], SIGKILL);
                }
            }
        }
    }
    json_decref(digits_expect_finished(&digits));
    digits_close(&digits);
}

/* A size of the test below; the environment may ask for another one. */
static int
size_or(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text ? (int)strtol(text, NULL, 10) : otherwise;
}

/* The accuracy of one run of `epochs`; with `every_ms` a task is killed that often. */
static double
accuracy_of(int epochs, int every_ms, int kills_max, int *kills)
{
    digits_t digits;
    digits_open(&digits, epochs);
    digits_add(&digits, "--max-restarts", "unlimited");
    digits_add(&digits, "--checkpoint-every", "1");
    digits_start(&digits);
    if (every_ms > 0) {
        *kills += digits_kill(&digits.command, every_task, 4, kills_max, every_ms);
    }
    json_t *result = digits_expect_finished(&digits);
    double accuracy = json_number_at(result, "accuracy");
    json_decref(result);
    digits_close(&digits);
    return accuracy;
}

/* With few held-out rows only the mean of many runs says half a point: see README.md for that. */
Test(run_recovery, ps_and_workers_that_die_all_the_time_leave_the_model_as_accurate,
     .timeout = 3600)
{
    if (SANITIZER) {
        cr_skip_test("how accurate a model is does not depend on it; it takes half a minute");
    }
    int epochs = size_or("CADRE_TEST_EPOCHS", 250);
    int every_ms = size_or("CADRE_TEST_EVERY_MS", EVERY_MS);
    int runs = size_or("CADRE_TEST_RUNS", 1);
    int kills = 0;
    double quiet = 0;
    double killed = 0;
    for (int i = 0; i < runs; i++) {
        quiet += accuracy_of(epochs, 0, 0, &kills) / runs;
        killed += accuracy_of(epochs, every_ms, runs > 1 ? INT_MAX : KILLS_MAX, &kills) / runs;
    }
    double tolerance = runs >= 5 ? 0.005 : DIGITS_TOLERANCE;
    fprintf(stderr, "accuracy %.4f undisturbed, %.4f with %d kills, mean of %d runs\n", quiet,
            killed, kills, runs);
    cr_expect_geq(kills, 4);
    cr_expect_float_eq(killed, quiet, tolerance, "%.4f, not %.4f", killed, quiet);
}

/* --- a ps that stays away --- */

/* What a process was started with, words apart by spaces. */
static void
read_arguments(pid_t pid, char *text, size_t size_bytes)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "re");
    cr_assert(file, "%s", path);
    size_t length = fread(text, 1, size_bytes - 1, file);
    fclose(file);
    text[length] = '\0';
    for (size_t i = 0; i < length; i++) {
        text[i] = text[i] ? text[i] : ' ';
    }
}

Test(run_recovery, how_long_a_worker_waits_for_a_ps_is_a_setting_of_the_run)
{
    digits_t digits;
    digits_open(&digits, 3000);
    digits_add(&digits, "--shard-timeout", "7");
    digits_start(&digits);
    digits_wait_said(&digits, "epoch=1/");
    char arguments[4096];
    read_arguments(command_task(&digits.command, "worker", 1), arguments, sizeof(arguments));
    cr_expect(strstr(arguments, "--shard-timeout 7 "), "%s", arguments);
    digits_close(&digits);
}

Test(run_recovery, F7_a_ps_that_stays_away_ends_the_run_which_says_how_to_go_on)
{
    digits_t digits;
    digits_open(&digits, 150);
    digits_add(&digits, "--ps-timeout", "0.5");
    digits_start_to_checkpoint(&digits, "0.1");
    /* It lives, and nobody may take its place. */
    pid_t ps = command_signal_task(&digits.command, "ps", 1, SIGSTOP);
    digits_expect_end(&digits, 69);
    cadre_auto(cadre_free) char *runs =
        cadre_asprintf("ps 1 (pid %d) runs, but is not a member of the job", (int)ps);
    digits_expect_said(&digits, "\"event\":\"snapshot_written\""); /* its log */
    digits_expect_said(&digits, runs);
    digits_expect_said(&digits, "checkpoint: ");
    digits_expect_next(&digits);
    digits_expect_resumable(&digits);
    digits_close(&digits);
}
