/*
 * launcher_core - what the local launcher decides: which task to start when, what the end of a task
 * means, and how the job ends. launcher.c starts processes and waits for them.
 *
 * Owner:   one launcher.
 * Thread:  the launcher's only.
 *
 * A ps or worker that dies is started again, at once when it had run for a while, otherwise after a
 * delay that doubles from 0.1 to 2 s, so that one that cannot start does not spin. The coordinator
 * restores the shard of a new ps. When it may not be started again - the restarts are used up, or
 * what it exits with would come again - the others go on without a worker, and the job ends without
 * a ps: nobody else has its shard. A program that ends, ends the job with its own exit code. A ps
 * or worker that exits with 0 was told to by its coordinator, which knows why: that is no event. A
 * worker that exits with 143 was drained by somebody, and stays away as long as another one is left
 * to do the work; the last one is started again, and so is a ps.
 *
 * A task that lives and is not heard (stopped, or stuck) serves nobody, and holds its place: it is
 * to be killed, so that another process takes it. It has first been a member whose lease ran out,
 * and gets CADRE_LAUNCHER_SILENT_MS more: one that is only paused comes back without any loss.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_LAUNCHER_CORE_H
#define CADRE_COORDINATOR_CLI_LAUNCH_LAUNCHER_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/cli/terminal/exit_code.h"

enum {
    CADRE_LAUNCHER_STEADY_MS = 1000, /* a task that ran that long did not fail to start */
    CADRE_LAUNCHER_DELAY_MIN_MS = 100,
    CADRE_LAUNCHER_DELAY_MAX_MS = 2000,
    CADRE_LAUNCHER_DISMISSED_MS = 5000, /* a ps that ended as if the job were over, and it is not
                                           by then, is started again */
    CADRE_LAUNCHER_SILENT_MS = 20000,   /* after the lease: a running task that is not heard by then
                                           is killed; a ps after half of its ps_timeout if that is
                                           less */
};

typedef enum {
    CADRE_LAUNCH_PS,
    CADRE_LAUNCH_WORKER,
    CADRE_LAUNCH_PROGRAM,
} cadre_launch_role_t;

typedef enum {
    CADRE_LAUNCH_WAITING, /* to be started at `due_ms` */
    CADRE_LAUNCH_RUNNING,
    CADRE_LAUNCH_ENDED, /* for good */
} cadre_launch_state_t;

typedef struct {
    cadre_launch_role_t role;
    uint32_t index;
    cadre_launch_state_t state;
    int64_t due_ms;
    int64_t started_ms;
    uint32_t starts;
    uint32_t quick_ends; /* in a row, before CADRE_LAUNCHER_STEADY_MS */
    bool was_heard;      /* this process, by the coordinator */
    int64_t silent_ms;   /* for which it has been heard no more; -1: it was at the last look */
    bool given_up;       /* it was silent for too long */
} cadre_launch_task_t;

typedef enum {
    CADRE_LAUNCH_EXPECTED, /* the job is ending, or its coordinator told the task to leave */
    CADRE_LAUNCH_DRAINED,  /* somebody told the worker to leave, and another one is left */
    CADRE_LAUNCH_RESTART,  /* after `delay_ms`; `restarts` were used, this one included */
    CADRE_LAUNCH_GIVE_UP,  /* the worker stays away; others go on */
    CADRE_LAUNCH_END_JOB,  /* with `exit_code` */
} cadre_launch_outcome_t;

typedef struct {
    cadre_launch_outcome_t outcome;
    int64_t delay_ms;
    int64_t restarts;
    bool used_up; /* GIVE_UP or END_JOB because of the limit on restarts */
    bool last;    /* RESTART of a worker that was drained, because no other is left */
    int exit_code;
} cadre_launch_decision_t;

typedef struct {
    cadre_launch_task_t *tasks; /* ps, workers, then the program if there is one */
    size_t task_count;
    int64_t restarts_max; /* negative: no limit */
    int64_t restarts;
    int64_t ps_silent_max_ms; /* of CADRE_LAUNCHER_SILENT_MS for a ps; the caller may lower it */
    bool stopping;            /* nothing is started any more */
} cadre_launcher_core_t;

/* Every task waits to be started at once. */
void cadre_launcher_core_init(cadre_launcher_core_t *self, uint32_t ps, uint32_t workers,
                              bool program, int64_t restarts_max);
void cadre_launcher_core_fini(cadre_launcher_core_t *self);

/* The next task that is due, which then counts as running; false when none is. */
bool cadre_launcher_core_next(cadre_launcher_core_t *self, int64_t now_ms, size_t *task);

/* Milliseconds until a task is due; -1 when none waits. */
int64_t cadre_launcher_core_wait_ms(const cadre_launcher_core_t *self, int64_t now_ms);

/* A running task ended. */
cadre_launch_decision_t cadre_launcher_core_ended(cadre_launcher_core_t *self, size_t task,
                                                  cadre_process_end_t end, int64_t now_ms);

/* Notes whether the coordinator hears a running ps or worker, `elapsed_ms` after the look before.
 * True when it is to be killed; once for each process. */
bool cadre_launcher_core_look(cadre_launcher_core_t *self, size_t task, bool heard,
                              int64_t elapsed_ms);

/* The job ends: tasks that wait will not be started, ends are expected from now on. */
void cadre_launcher_core_stop(cadre_launcher_core_t *self);

size_t cadre_launcher_core_running(const cadre_launcher_core_t *self);

/* "ps", "worker", "program". */
const char *cadre_launch_role_text(cadre_launch_role_t role);

#endif
