/*
 * field - where a chaos test does its damage: a job (job.c, or another), its ps and its workers,
 * each a process that can be killed, paused and started again, like a supervisor would.
 *
 * Everything lies in one scratch directory: sockets, logs, checkpoints, the board. Whatever goes
 * wrong ends the test's process with a message, the job's state as JSON and the ends of the logs.
 *
 * Owner:   a test.
 * Thread:  the main one, which the processes die with.
 */
#ifndef CADRE_TESTS_CHAOS_FIELD_H
#define CADRE_TESTS_CHAOS_FIELD_H

#include <stdbool.h>
#include <sys/types.h>

#include "tests/chaos/board.h"
#include "tests/system/scratch.h"

enum {
    FIELD_TASKS_MAX = 8,    /* of one role */
    FIELD_WORDS_MAX = 6,    /* that a test puts before a program, or into its environment */
    FIELD_WAIT_MS = 120000, /* for what should take a moment, on a busy machine with sanitizers */
};

typedef enum { FIELD_JOB, FIELD_PS, FIELD_WORKER, FIELD_ROLE_COUNT } field_role_t;

/* What a test may change about a process that is about to start. The strings are the test's. */
typedef struct {
    const char *before[FIELD_WORDS_MAX];      /* words in front of the program, NULL-ended */
    const char *environment[FIELD_WORDS_MAX]; /* "NAME=value", NULL-ended */
    const char *coordinator;                  /* what a task dials */
    const char *address;                      /* what a ps binds */
    const char *after[FIELD_WORDS_MAX];       /* words behind a task's own, NULL-ended */
} field_start_t;

typedef void (*field_prepare_t)(void *context, field_role_t role, int index, field_start_t *start);

typedef struct {
    int ps;
    int workers;
    const char *job;     /* its program; NULL: chaos_job */
    bool checkpoints;    /* into the scratch directory */
    board_t settings;    /* lease, seed and so on; zero for defaults */
    const char *address; /* of the coordinator; NULL: ipc in the scratch directory */
    field_prepare_t prepare;
    void *context;
} field_options_t;

typedef struct {
    scratch_t scratch;
    field_options_t options;
    board_t *board;
    char *board_path;
    pid_t pids[FIELD_ROLE_COUNT][FIELD_TASKS_MAX]; /* 0 where none runs */
    bool may_be_killed[FIELD_ROLE_COUNT]
                      [FIELD_TASKS_MAX]; /* by SIGKILL, without the test's doing */
} field_t;

/* Starts everything and waits until closures end. */
void field_open(field_t *self, const field_options_t *options);

/* The two halves of it: the directory and the board; the processes. */
void field_prepare(field_t *self, const field_options_t *options);
void field_begin(field_t *self);

/* Tells the job to finish, waits for its verdict and until every task has left; the board as it was
 * last into `last`, unless that is NULL. */
void field_close(field_t *self, board_t *last);

/* Its last part, for whoever has seen to the end of every process. */
void field_fini(field_t *self);

int field_count(const field_t *self, field_role_t role);

/* Starts a process that does not run. The job resumes from its checkpoints, if it has any. */
void field_start(field_t *self, field_role_t role, int index);

/* Sends a signal. After SIGKILL the process is gone when the call returns, after SIGSTOP it stands
 * still. */
void field_signal(field_t *self, field_role_t role, int index, int number);

/* One round of what a supervisor does: a process that ended by itself ends the test, unless it
 * may_be_killed and was; then its pid is 0. Also ends the test when the job says that it failed. */
void field_tend(field_t *self);

/* Tends until `ms` have passed: the time between two faults. */
void field_spend(field_t *self, int64_t ms);

/* Whether something is so; `context` is the caller's. */
typedef bool (*field_condition_t)(field_t *self, void *context);

/* Tends until it is so, FIELD_WAIT_MS at most; ends the test with `what` otherwise. */
void field_await(field_t *self, const char *what, field_condition_t condition, void *context);

/* Waits until `closures` more have finished than now. */
void field_await_progress(field_t *self, uint64_t closures);

/* Waits until every task that runs is a member. */
void field_await_whole(field_t *self);

/* Waits until everything scheduled so far has ended and was found to count; the job checks it. */
void field_await_fence(field_t *self);

/* Makes keys for a field in a directory of `scratch`: "CADRE_KEYS=DIRECTORY", for the environment
 * of its processes; freed by the caller. */
char *field_make_keys(const scratch_t *scratch);

/* Ends the test. */
_Noreturn void field_fail(field_t *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
