/*
 * launcher_core - the decisions of the local launcher: which task to start when, what follows from
 * the end of a task, and how the job ends. launcher.c starts processes and waits for them.
 *
 * Owner:   one launcher.
 * Thread:  the launcher's only.
 *
 * A ps or worker that dies is started again, at once when it had run for a while, otherwise after a
 * delay that doubles from 0.1 to 2 s, so that a task that cannot start does not spin. The
 * coordinator restores the shard of a new ps. When a task may not be started again - the restarts
 * are used up, or its exit code says that it would fail in the same way - the job goes on without a
 * worker, and ends without a ps: no other ps has its shard. A program that ends, ends the job with
 * its own exit code. A ps or worker that exits with 0 was told to by its coordinator: no task is
 * started for it. A worker that exits with 143 was drained by SIGTERM, and stays away as long as
 * another worker is left to do the work; the last worker is started again, and so is a ps.
 *
 * A task that lives but is not heard by the coordinator (stopped, or stuck) does no work and holds
 * its place: it is killed, so that another process can take the place. That is done only
 * CADRE_LAUNCHER_SILENT_MS after its lease has run out: a task that is only paused comes back
 * before without any loss.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_LAUNCHER_CORE_H
#define CADRE_COORDINATOR_CLI_LAUNCH_LAUNCHER_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/cli/terminal/exit_code.h"

enum {
    CADRE_LAUNCHER_STEADY_MS = 1000, /* a task that ran for so long counts as started well */
    CADRE_LAUNCHER_DELAY_MIN_MS = 100,
    CADRE_LAUNCHER_DELAY_MAX_MS = 2000,
    CADRE_LAUNCHER_DISMISSED_MS = 5000, /* a ps that exits with 0 is started again if the job has
                                           not ended by then */
    /* A running task is killed when it is not heard for so long after its lease has run out; a ps
     * after half of ps_timeout_ms, if that is less. */
    CADRE_LAUNCHER_SILENT_MS = 20000,
};

typedef enum {
    CADRE_LAUNCH_PS,
    CADRE_LAUNCH_WORKER,
    CADRE_LAUNCH_PROGRAM,
} cadre_launch_role_t;

typedef enum {
    CADRE_LAUNCH_WAITING, /* is started at `due_ms` */
    CADRE_LAUNCH_RUNNING,
    CADRE_LAUNCH_ENDED, /* has ended and is not started again */
} cadre_launch_state_t;

typedef struct {
    cadre_launch_role_t role;
    uint32_t index;
    cadre_launch_state_t state;
    int64_t due_ms;
    int64_t started_ms;
    uint32_t starts;
    uint32_t quick_ends; /* ends in a row within CADRE_LAUNCHER_STEADY_MS of the start */
    bool was_heard;      /* the coordinator has heard this process */
    int64_t silent_ms; /* for how long nothing was heard of it; -1: it was heard at the last look */
    bool given_up;     /* nothing was heard of it for too long: its process is being killed */
} cadre_launch_task_t;

typedef enum {
    CADRE_LAUNCH_EXPECTED, /* the job is ending, or its coordinator told the task to leave */
    CADRE_LAUNCH_DRAINED,  /* the worker was told to leave (SIGTERM), and another worker is left */
    CADRE_LAUNCH_RESTART,  /* start it again after `delay_ms`; `restarts` were used, this one
                              included */
    CADRE_LAUNCH_GIVE_UP,  /* the worker stays away; the other tasks go on */
    CADRE_LAUNCH_END_JOB,  /* the job ends with `exit_code` */
} cadre_launch_outcome_t;

typedef struct {
    cadre_launch_outcome_t outcome;
    int64_t delay_ms;
    int64_t restarts;
    bool used_up; /* GIVE_UP or END_JOB because of the limit on restarts */
    bool last;    /* RESTART of a worker that was told to leave, because no other worker is left */
    int exit_code;
} cadre_launch_decision_t;

typedef struct {
    cadre_launch_task_t *tasks; /* ps, workers, then the program if there is one */
    size_t task_count;
    int64_t restarts_max; /* negative: no limit */
    int64_t restarts;
    /* How long after its lease a silent ps is killed: at first CADRE_LAUNCHER_SILENT_MS; the caller
     * may lower it. */
    int64_t ps_silent_max_ms;
    bool stopping; /* the job is ending: no task is started any more */
} cadre_launcher_core_t;

/* Starts with all tasks due at once. `program`: the user's program is one of them. */
void cadre_launcher_core_init(cadre_launcher_core_t *self, uint32_t ps, uint32_t workers,
                              bool program, int64_t restarts_max);
void cadre_launcher_core_fini(cadre_launcher_core_t *self);

/* Takes the next task that is due, which then counts as running; false when none is. */
bool cadre_launcher_core_next(cadre_launcher_core_t *self, int64_t now_ms, size_t *task);

/* Returns the milliseconds until a task is due; -1 when no task waits. */
int64_t cadre_launcher_core_wait_ms(const cadre_launcher_core_t *self, int64_t now_ms);

/* Decides what follows from the end of a running task. */
cadre_launch_decision_t cadre_launcher_core_ended(cadre_launcher_core_t *self, size_t task,
                                                  cadre_process_end_t end, int64_t now_ms);

/* Notes whether the coordinator hears a running ps or worker, `elapsed_ms` after the last look.
 * Returns true, once for each process, when it is to be killed. */
bool cadre_launcher_core_look(cadre_launcher_core_t *self, size_t task, bool heard,
                              int64_t elapsed_ms);

/* Ends the job: waiting tasks are not started any more, and every end of a task is expected. */
void cadre_launcher_core_stop(cadre_launcher_core_t *self);

size_t cadre_launcher_core_running(const cadre_launcher_core_t *self);

/* Returns "ps", "worker" or "program". */
const char *cadre_launch_role_text(cadre_launch_role_t role);

#endif
