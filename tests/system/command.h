/*
 * command - one run of `cadre` in a test: its output, its tasks, its end.
 *
 * What it prints goes to files in a scratch directory, which also holds its session and, with
 * command_checkpoints, its checkpoints. A test may start one after the other in the same directory.
 *
 * Owner:   a test.
 * Thread:  the test's main one.
 */
#ifndef CADRE_TESTS_SYSTEM_COMMAND_H
#define CADRE_TESTS_SYSTEM_COMMAND_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tests/system/scratch.h"

enum { COMMAND_WAIT_MS = 600000 }; /* for the end of a run, on a busy machine with sanitizers */

typedef struct {
    scratch_t scratch;
    char *checkpoints; /* a directory for --checkpoint-dir */
    char *output;      /* file with the last run's stdout */
    char *errors;      /* and with its stderr */
    pid_t pid;         /* 0 when none runs */
    int runs;
} command_t;

void command_open(command_t *self);

/* Ends what still runs. */
void command_close(command_t *self);

/* Starts `cadre` with these arguments, NULL-ended. */
void command_start(command_t *self, const char *const *arguments);

/* Waits for the end: the exit code, or minus the signal. */
int command_end(command_t *self);

/* Both. */
int command_run(command_t *self, const char *const *arguments);

/* Ends the test with what the command has printed unless `code`, of one of the two above, is
 * `wanted`. */
void command_expect_exit(const command_t *self, int code, int wanted);

/* stdout and stderr of the last run so far, freed by the caller. */
char *command_output(const command_t *self);
char *command_errors(const command_t *self);

/* The ends of both, for the message of a test that fails; freed by the caller. */
char *command_words(const command_t *self);

/* The last line of stdout as an object, which the caller decrefs; NULL when it is none. */
json_t *command_result(const command_t *self);

/* A number in an object by a path such as "closures.finished" or "updates.0.applied"; -1 when there
 * is none. */
double json_number_at(const json_t *object, const char *path);

/* The process of a task of the run under way; 0 when it does not run. */
pid_t command_task(const command_t *self, const char *role, int index);

/* Sends a signal to a task of the run under way, which must run; its process. After SIGSTOP the
 * task stands still when the call returns. */
pid_t command_signal_task(const command_t *self, const char *role, int index, int number);

/* What `cadre status -o FORMAT` ("json", "text") says of the run under way, freed by the caller;
 * NULL when it has ended, or has not said yet where its coordinator is. */
char *command_status(const command_t *self, const char *format);

/* Waits until the run has committed a checkpoint, or has ended. */
void command_wait_checkpoint(const command_t *self);

/* Waits until it has committed one with a higher number than `last`, or has ended; the number of
 * the newest. */
long command_wait_checkpoint_after(const command_t *self, long last);

/* Whether the run has ended; command_end still takes its end. */
bool command_has_ended(const command_t *self);

/* Sends a signal to `cadre` itself. */
void command_signal(const command_t *self, int number);

#endif
