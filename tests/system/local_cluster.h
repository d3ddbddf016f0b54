/*
 * local_cluster - a coordinator in the test's process, ps and workers as processes beside it.
 *
 * The tasks are the programs of $CADRE_BIN_DIR; workers load the native functions of
 * tests/conformance. Sockets, logs and checkpoints are in one scratch directory. The coordinator's
 * events are lines of coordinator.log there.
 *
 * Owner:   a test.
 * Thread:  the test's main one.
 */
#ifndef CADRE_TESTS_SYSTEM_LOCAL_CLUSTER_H
#define CADRE_TESTS_SYSTEM_LOCAL_CLUSTER_H

#include <cadre/coordinator.h>
#include <stdio.h>
#include <sys/types.h>

#include "tests/system/scratch.h"

enum {
    LOCAL_TASKS_MAX = 8,    /* of one role */
    LOCAL_WAIT_MS = 120000, /* for anything that should take a moment, on a busy machine */
    LOCAL_LEASE_MS = 10000, /* unless the options say otherwise */
};

typedef enum { LOCAL_PS, LOCAL_WORKER, LOCAL_ROLE_COUNT } local_role_t;

typedef struct {
    int ps;
    int workers;
    int slots;                               /* of a worker; 0: its default */
    bool trace;                              /* each worker writes local_cluster_trace */
    bool open_indexes;                       /* the coordinator chooses the tasks' indexes */
    cadre_coordinator_options_t coordinator; /* zero for defaults; `address`, `ps_count` and `log`
                                                are the cluster's */
} local_cluster_options_t;

typedef struct {
    scratch_t scratch;
    local_cluster_options_t options;
    cadre_coordinator_t *coordinator;
    char *address;
    char *native;
    FILE *log;
    pid_t tasks[LOCAL_ROLE_COUNT][LOCAL_TASKS_MAX]; /* 0 where none runs */
} local_cluster_t;

/* Opens the coordinator, starts the tasks and waits until all have joined. */
void local_cluster_open(local_cluster_t *self, const local_cluster_options_t *options);

/* Closes the coordinator, and ends the test with a message unless every task then leaves by itself;
 * the directory goes too. */
void local_cluster_close(local_cluster_t *self);

/* The two halves of close and open, for a job that is taken up again: the directory, and so the
 * checkpoints in it, stay. */
void local_cluster_end_job(local_cluster_t *self);
void local_cluster_begin_job(local_cluster_t *self, const local_cluster_options_t *options);

/* Starts a task that does not run. */
void local_cluster_start(local_cluster_t *self, local_role_t role, int index);

/* Sends a signal to a task. After SIGKILL it is gone when the call returns, after SIGSTOP it stands
 * still. */
void local_cluster_signal(local_cluster_t *self, local_role_t role, int index, int number);

/* Waits for the end of a task; what waitpid said. */
int local_cluster_reap(local_cluster_t *self, local_role_t role, int index);

/* SIGKILL and start. */
void local_cluster_restart(local_cluster_t *self, local_role_t role, int index);

/* Waits until the coordinator counts exactly that many workers. */
void local_cluster_wait_workers(local_cluster_t *self, int workers);

/* Waits until at least that many workers were lost since the job began. It must be the closed
 * connection which tells, none by a lease that ran out; but where the coordinator has stood still
 * (local_pause): then tasks may come back over another connection. */
void local_cluster_wait_lost(local_cluster_t *self, uint64_t lost);

/* Path of a worker's trace, freed by the caller; the process that started last has it. */
char *local_cluster_trace(const local_cluster_t *self, int index);

/* Whether the coordinator has logged a line with this text in it. */
bool local_cluster_logged(const local_cluster_t *self, const char *text);

/* A directory for checkpoints in the scratch directory of a cluster that is not open yet would have
 * no place: with this value of options.coordinator.checkpoint_dir the cluster makes one. */
extern const char *const local_checkpoints;

#endif
