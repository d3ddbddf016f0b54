/* `cadre run` whose tasks live and are not heard, or are told to leave. */
#include <criterion/criterion.h>
#include <signal.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/system/digits.h"

TestSuite(run_silence, .timeout = 900);

enum {
    STOP_MS = 200000,  /* for an end without the last checkpoint, which had 300 s */
    TRIES_MS = 300000, /* for one run in which what is waited for comes before another thing */
};

static void
signal_workers(const digits_t *digits, int number)
{
    for (int i = 0; i < 2; i++) {
        command_signal_task(&digits->command, "worker", i, number);
    }
}

Test(run_silence, workers_that_are_frozen_for_good_are_replaced)
{
    digits_t digits;
    digits_open(&digits, 150);
    digits_start_to_checkpoint(&digits, "0.2");
    signal_workers(&digits, SIGSTOP);
    json_t *result = digits_expect_finished(&digits);
    digits_expect_said(&digits, "s after its lease, so it was killed: its closures run again");
    digits_expect_said(&digits, "(restart 2 of 10)");
    cr_expect_geq(json_number_at(result, "failures.worker"), 2);
    json_decref(result);
    digits_close(&digits);
}

Test(run_silence, a_ps_that_is_frozen_for_good_is_replaced_before_its_time_is_over)
{
    digits_t digits;
    digits_open(&digits, 150);
    digits_add(&digits, "--ps-timeout", "20");
    digits_start_to_checkpoint(&digits, "0.2");
    command_signal_task(&digits.command, "ps", 1, SIGSTOP);
    json_t *result = digits_expect_finished(&digits);
    digits_expect_said(&digits, "s after its lease, so it was killed: its shard waits for it");
    json_decref(result);
    digits_close(&digits);
}

/* A number of the status, -1 when the run has ended. */
static double
count_in_status(const digits_t *digits, const char *path)
{
    cadre_auto(cadre_free) char *text = command_status(&digits->command, "json");
    json_t *status = text ? json_loads(text, 0, NULL) : NULL;
    double count = json_number_at(status, path);
    json_decref(status);
    return count;
}

/* The status in words has this in it, unless the run has ended. */
static void
expect_in_words(const digits_t *digits, const char *line)
{
    cadre_auto(cadre_free) char *text = command_status(&digits->command, "text");
    cr_expect(!text || strstr(text, line), "%s is not in: %s", line, text);
}

/* Runs the example with a worker that stands still until the status counts one of `path`, or the
 * run has ended without. It must end well, with every closure applied once. */
static bool
is_counted(const char *flag, const char *value, const char *path, const char *line)
{
    digits_t digits;
    digits_open(&digits, 150);
    digits_add(&digits, flag, value);
    digits_start_to_checkpoint(&digits, "0.2");
    pid_t worker = command_signal_task(&digits.command, "worker", 1, SIGSTOP);
    bool counted = false;
    deadline_t deadline = deadline_in(COMMAND_WAIT_MS);
    while (!counted && !command_has_ended(&digits.command)) {
        require(again(deadline), path);
        counted = count_in_status(&digits, path) > 0;
    }
    if (counted) {
        expect_in_words(&digits, line);
    }
    if (command_task(&digits.command, "worker", 1) == worker) { /* nobody has replaced it */
        kill(worker, SIGCONT);
    }
    json_decref(digits_expect_finished(&digits));
    digits_close(&digits);
    return counted;
}

/* A machine that is busy for as long as a lease may have the worker replaced before: then again. */
static void
expect_counted(const char *flag, const char *value, const char *path, const char *line)
{
    deadline_t deadline = deadline_in(TRIES_MS);
    while (!is_counted(flag, value, path, line)) {
        require(again(deadline), path);
    }
}

Test(run_silence, closures_of_a_frozen_worker_are_tried_by_another)
{
    expect_counted("--backup-attempts", "2", "closures.backup_attempts.won", "\nbackup attempts: ");
}

Test(run_silence, closures_of_a_frozen_worker_go_to_another_after_their_deadline)
{
    expect_counted("--closure-deadline", "1.5", "closures.deadlines_missed", "\nstaleness: mean ");
}

/* What had begun needs a worker, so that the checkpoint would wait for minutes. */
Test(run_silence, a_stop_waits_for_no_checkpoint_that_nobody_can_end)
{
    digits_t digits;
    digits_open(&digits, 1500);
    digits_start_to_checkpoint(&digits, "0.2");
    signal_workers(&digits, SIGSTOP);
    digits_wait_said(&digits, "worker_lost"); /* by then more was handed out than had ended */
    int64_t stopped_ms = cadre_clock_now_ms();
    command_signal(&digits.command, SIGTERM);
    digits_expect_end(&digits, 69);
    cr_expect_lt(cadre_clock_now_ms() - stopped_ms, STOP_MS);
    digits_expect_said(&digits, "no worker is heard");
    digits_expect_said(&digits, "checkpoint: ");
    digits_expect_next(&digits);
    digits_expect_checkpoints_intact(&digits);
    digits_close(&digits);
}

Test(run_silence, workers_that_are_told_to_leave_end_no_run)
{
    digits_t digits;
    digits_open(&digits, 150);
    digits_start_to_checkpoint(&digits, "0.2");
    digits_wait_said(&digits, "workers=2/2"); /* one that still starts would just die of it */
    signal_workers(&digits, SIGTERM);
    json_t *result = digits_expect_finished(&digits);
    digits_expect_said(&digits, "no other worker is left; it starts again");
    digits_expect_said(&digits, "(restart 1 of 10)");
    json_decref(result);
    digits_close(&digits);
}
