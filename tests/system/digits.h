/*
 * digits - a run of `cadre run examples/digits.json` in a test, with two ps and two workers: how it
 * is started, disturbed, and what it must end with.
 *
 * Owner:   a test.
 * Thread:  the test's main one. What does not hold ends the test with a message.
 */
#ifndef CADRE_TESTS_SYSTEM_DIGITS_H
#define CADRE_TESTS_SYSTEM_DIGITS_H

#include "tests/system/command.h"

enum {
    DIGITS_CLOSURES = 45, /* of one epoch: 1,438 rows in batches of 32 */
    DIGITS_ROWS = 1438,   /* that are trained on */
};

/* One held-out row of 359 is 0.28 points, and the order of updates is not the same in two runs: 4
 * rows. On a larger set see adult in run_failures_test.c. */
#define DIGITS_TOLERANCE (4.5 / 359)

typedef struct {
    command_t command;
    char *job;
    const char *arguments[32];
    size_t count;
    int epochs;
} digits_t;

/* Checkpoints are in the scratch directory; nothing is started yet. A sanitizer's build runs half
 * of many epochs. */
void digits_open(digits_t *self, int epochs);
void digits_close(digits_t *self);

/* A flag with its value for the next start. */
void digits_add(digits_t *self, const char *flag, const char *value);

void digits_start(digits_t *self);

/* Starts it with a checkpoint every so many seconds ("0.1") and waits for the first one. */
void digits_start_to_checkpoint(digits_t *self, const char *every_s);

/* Waits for the end, which must be exit code `wanted`: otherwise its output is shown. */
void digits_expect_end(digits_t *self, int wanted);

/* Runs to the end, with every closure applied exactly once on both shards and the accuracy of the
 * example. The result, which the caller decrefs. */
json_t *digits_expect_finished(digits_t *self);

/* Takes the run up again where its newest checkpoint is: the same totals as without a stop. */
void digits_expect_resumed(digits_t *self);

/* The run before has left only checkpoints that verify, and can be taken up again. */
void digits_expect_resumable(digits_t *self);

/* Waits until a run that goes on has said these words. */
void digits_wait_said(const digits_t *self, const char *words);

/* stderr has these words in it. */
void digits_expect_said(const digits_t *self, const char *words);

/* The last line of stderr is the command that takes the run up again. */
void digits_expect_next(const digits_t *self);

/* `cadre checkpoint verify` finds nothing. */
void digits_expect_checkpoints_intact(digits_t *self);

/* A number of the result that must be exactly so. */
void digits_expect_number(const json_t *result, const char *path, double wanted);

/* Kills the tasks of `tasks` ("ps/0", "worker/1"), `tasks` after `tasks`, one every `every_ms`,
 * until the run ends or `kills_max` were killed; then waits for its end. How many were. */
int digits_kill(const command_t *command, const char *const *tasks, size_t count, int kills_max,
                int64_t every_ms);

#endif
