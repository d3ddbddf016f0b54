/* `cadre evaluate` beside the run that it looks at: id D5 of docs/conformance.md. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(conformance_evaluate, .timeout = 900);

enum {
    CLOSURES = 45,        /* of one epoch of the digits */
    FLICKERED_OPENS = 30, /* that the evaluation tries at least while a checkpoint flickers */
};

/* A run of the digits and an evaluation of its checkpoints. */
typedef struct {
    command_t run;
    command_t evaluation;
    char *job;
    double accuracy; /* what the run said in the end */
    double loss;
} pair_t;

static void
pair_open(pair_t *self)
{
    *self = (pair_t){.accuracy = -1};
    self->job = source_path("examples/digits.json");
    command_open(&self->run);
    command_open(&self->evaluation);
}

static void
pair_close(pair_t *self)
{
    command_close(&self->run);
    command_close(&self->evaluation);
    free(self->job);
}

static void
start_run(pair_t *self, const char *epochs, const char *every)
{
    const char *const arguments[] = {"run",
                                     self->job,
                                     "-o",
                                     "json",
                                     "--checkpoint-dir",
                                     self->run.checkpoints,
                                     "--epochs",
                                     epochs,
                                     "--checkpoint-every",
                                     every,
                                     NULL};
    command_start(&self->run, arguments);
}

static void
end_run(pair_t *self)
{
    int code = command_end(&self->run);
    cr_assert(code == 0 || code == 1, "exit %d", code); /* few epochs miss the target */
    json_t *result = command_result(&self->run);
    self->accuracy = json_number_at(result, "accuracy");
    self->loss = json_number_at(result, "loss");
    json_decref(result);
}

/* `cadre evaluate`; `epochs` NULL: without --follow. */
static void
start_evaluation(pair_t *self, const char *epochs)
{
    const char *const arguments[] = {"evaluate",
                                     self->job,
                                     "-o",
                                     "json",
                                     "--checkpoint-dir",
                                     self->run.checkpoints,
                                     epochs ? "--follow" : NULL, /* or the end */
                                     "--epochs",
                                     epochs,
                                     NULL};
    command_start(&self->evaluation, arguments);
}

/* Waits until the evaluation says that it waits. */
static void
await_idle(const pair_t *self)
{
    bool waits = false;
    for (deadline_t deadline = deadline_in(COMMAND_WAIT_MS); !waits;) {
        cadre_auto(cadre_free) char *errors = command_errors(&self->evaluation);
        waits = strstr(errors, "waiting for a newer checkpoint") != NULL;
        cr_assert(waits || again(deadline));
    }
}

static void
expect_exit(pair_t *self, int wanted)
{
    command_expect_exit(&self->evaluation, command_end(&self->evaluation), wanted);
}

/* The last line is what the run itself found at its end. */
static void
expect_same(pair_t *self)
{
    json_t *last = command_result(&self->evaluation);
    cr_assert_not_null(last);
    cr_expect_float_eq(json_number_at(last, "accuracy"), self->accuracy, 1e-9);
    cr_expect_float_eq(json_number_at(last, "loss"), self->loss, 1e-6 + 1e-4 * self->loss);
    cr_expect_float_eq(json_number_at(last, "rows"), 359, 0);
    json_decref(last);
}

static char *
checkpoint_path(const pair_t *self, int id)
{
    return cadre_asprintf("%s/ckpt-%08d", self->run.checkpoints, id);
}

/* Where a checkpoint is while it is away. */
static char *
away_path(const pair_t *self)
{
    return cadre_asprintf("%s/away", self->run.scratch.path);
}

/* One line of the evaluation per checkpoint, each of a later cut than the one before. */
static int
expect_rising(const pair_t *self)
{
    cadre_auto(cadre_free) char *output = command_output(&self->evaluation);
    double cut = 0;
    double epoch = -1;
    int lines = 0;
    for (char *line = output; *line; lines++) {
        size_t length = strcspn(line, "\n");
        json_t *object = json_loadb(line, length, 0, NULL);
        cr_assert_not_null(object, "line %d is an object", lines);
        cr_expect_gt(json_number_at(object, "cut"), cut);
        cr_expect_gt(json_number_at(object, "epoch"), epoch);
        cut = json_number_at(object, "cut");
        epoch = json_number_at(object, "epoch");
        cr_expect_float_eq(floor(epoch), floor((cut - 1) / CLOSURES), 0, "epoch %g at cut %g",
                           epoch, cut);
        json_decref(object);
        line += length + (line[length] == '\n');
    }
    return lines;
}

Test(conformance_evaluate, D5_the_newest_checkpoint_is_tested)
{
    pair_t pair;
    pair_open(&pair);
    start_evaluation(&pair, NULL);
    expect_exit(&pair, 66);
    start_run(&pair, "3", "0");
    end_run(&pair);
    start_evaluation(&pair, NULL);
    expect_exit(&pair, 0);
    expect_same(&pair);
    cr_expect_eq(expect_rising(&pair), 1);
    pair_close(&pair);
}

/* The run keeps three checkpoints and deletes older ones while they are looked at. */
Test(conformance_evaluate, D5_a_follower_sees_newer_ones_until_the_job_is_complete)
{
    pair_t pair;
    pair_open(&pair);
    start_evaluation(&pair, "300");
    start_run(&pair, "300", "0.05");
    end_run(&pair);
    expect_exit(&pair, 0);
    expect_same(&pair);
    cr_expect_gt(expect_rising(&pair), 1, "also while it trains");
    pair_close(&pair);
}

/* --- a checkpoint that disappears --- */

/* Tells when something in a directory, or that itself, is opened. */
static int
watch_open(const char *directory)
{
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    cr_assert(watch >= 0 && inotify_add_watch(watch, directory, IN_OPEN) >= 0);
    return watch;
}

/* Whether it has told anything since the last call. */
static bool
drain(int watch)
{
    char events[4096];
    bool any = false;
    while (read(watch, events, sizeof(events)) > 0) {
        any = true;
    }
    return any;
}

static bool
has_spoken(const pair_t *self)
{
    cadre_auto(cadre_free) char *output = command_output(&self->evaluation);
    return *output || command_has_ended(&self->evaluation);
}

/* The evaluator retries when a checkpoint disappears while being read, and evaluates it once it
 * stays. */
Test(conformance_evaluate, D5_a_checkpoint_that_is_deleted_under_it_is_no_error)
{
    pair_t pair;
    pair_open(&pair);
    start_run(&pair, "3", "0");
    end_run(&pair);
    cadre_auto(cadre_free) char *there = checkpoint_path(&pair, 1);
    cadre_auto(cadre_free) char *away = away_path(&pair);
    int watch = watch_open(pair.run.checkpoints);
    cr_assert_eq(rename(there, away), 0);
    start_evaluation(&pair, "3");
    int64_t end_ms = cadre_clock_now_ms() + COMMAND_WAIT_MS;
    for (int seen = 0; seen < FLICKERED_OPENS && !has_spoken(&pair);) {
        cr_assert_lt(cadre_clock_now_ms(), end_ms, "it looks");
        for (int i = 0; i < 100; i++) { /* more often than the test looks at the output */
            cr_assert_eq(rename(away, there), 0);
            cr_assert_eq(rename(there, away), 0);
            seen += drain(watch);
        }
    }
    cr_assert_eq(rename(away, there), 0);
    expect_exit(&pair, 0);
    expect_same(&pair);
    close(watch);
    pair_close(&pair);
}

static void
flip_a_byte(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;
    cr_assert(fd >= 0 && pread(fd, &byte, 1, 5000) == 1);
    byte ^= 1;
    cr_assert(pwrite(fd, &byte, 1, 5000) == 1);
    close(fd);
}

Test(conformance_evaluate, D5_a_damaged_checkpoint_is_skipped)
{
    pair_t pair;
    pair_open(&pair);
    start_run(&pair, "3", "0");
    end_run(&pair);
    const char *const more[] = {"run",      pair.job, "--checkpoint-dir", pair.run.checkpoints,
                                "--epochs", "4",      "--resume",         "auto",
                                NULL};
    command_run(&pair.run, more);
    cadre_auto(cadre_free) char *newer = checkpoint_path(&pair, 2);
    cadre_auto(cadre_free) char *file = cadre_asprintf("%s/shard-0.mdb", newer);
    flip_a_byte(file);
    start_evaluation(&pair, NULL);
    expect_exit(&pair, 0);
    expect_same(&pair); /* as the run of three epochs */
    cadre_auto(cadre_free) char *errors = command_errors(&pair.evaluation);
    cr_expect(strstr(errors, "ckpt-00000002 is skipped"), "%s", errors);
    cadre_auto(cadre_free) char *older = checkpoint_path(&pair, 1);
    cadre_auto(cadre_free) char *other = cadre_asprintf("%s/shard-1.mdb", older);
    flip_a_byte(other);
    start_evaluation(&pair, NULL);
    expect_exit(&pair, 65); /* there are some, but none is sound */
    pair_close(&pair);
}

/* Its own ps dies: what it was given must not be taken for what the checkpoint holds. */
Test(conformance_evaluate, D5_a_lost_ps_is_loaded_again)
{
    pair_t pair;
    pair_open(&pair);
    start_run(&pair, "3", "0");
    end_run(&pair);
    cadre_auto(cadre_free) char *there = checkpoint_path(&pair, 1);
    cadre_auto(cadre_free) char *away = away_path(&pair);
    cr_assert_eq(rename(there, away), 0);
    start_evaluation(&pair, "3");
    await_idle(&pair);
    command_signal_task(&pair.evaluation, "ps", 0, SIGKILL);
    cr_assert_eq(rename(away, there), 0);
    expect_exit(&pair, 0);
    expect_same(&pair);
    pair_close(&pair);
}

static void
stop_with(int number)
{
    pair_t pair;
    pair_open(&pair);
    start_evaluation(&pair, "3");
    await_idle(&pair);
    command_signal(&pair.evaluation, number);
    expect_exit(&pair, 128 + number);
    pair_close(&pair);
}

Test(conformance_evaluate, ends_with_the_signal_that_stopped_it)
{
    stop_with(SIGINT);
    stop_with(SIGTERM);
}
