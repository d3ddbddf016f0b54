/*
 * launcher - starts and ends a cluster of processes on this machine for one job.
 *
 * Owner:   a supervisor.
 * Thread:  one, which must live as long as the tasks: the kernel kills a task when the thread that
 *          started it ends.
 *
 * Each task runs in a process group of its own (Ctrl-C reaches the launcher only), its output goes
 * to a log file in the session directory, and the kernel kills it when the launcher has ended, for
 * whatever reason. The user's program is different: it keeps the terminal and the launcher's
 * process group. When its coordinator closes, the tasks wait for the next session: the program may
 * open a coordinator several times.
 *
 * Between fork and exec only async-signal-safe calls are made: other threads, ZeroMQ's among them,
 * may hold any lock at the moment of the fork.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_LAUNCHER_H
#define CADRE_COORDINATOR_CLI_LAUNCH_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/cli/launch/launcher_core.h"
#include "coordinator/cli/launch/session.h"
#include "coordinator/cli/train/job.h"

typedef struct cadre_launcher cadre_launcher_t;

typedef struct {
    uint32_t ps;
    uint32_t workers;
    bool hosted; /* ps and worker are threads of this process (hosted.h): none is started */
    int64_t slots;
    int64_t threads;            /* compute threads of a worker; 0: its share of the CPUs here */
    int64_t row_cache;          /* MiB of a worker for rows of tables; 0: none */
    int64_t ps_lanes;           /* 0: half of the CPUs */
    int64_t shard_timeout_s;    /* --shard-timeout of the workers */
    const char *device;         /* devices of the workers in turn, a list; NULL: their default */
    int64_t math;               /* --math of the workers: position in CADRE_MATH_WORDS */
    const char *trace;          /* folder for the workers' traces (trace_folder.h); NULL: none */
    int64_t restarts_max;       /* most restarts of all tasks together; negative: no limit */
    int64_t ps_timeout_ms;      /* ps_timeout_ms of the coordinator */
    const char *const *natives; /* shared objects that the workers load */
    size_t native_count;
    const char *data_dir; /* --data-dir of the workers; NULL: none */
    /* Folders in which ps may write and read checkpoints, NULL behind the last. Without any, the
     * ps use their default. */
    const char *checkpoint_dirs[2];
    bool keep_session;
    char *const *program; /* the user's command, NULL-terminated; NULL: none */
    const char *strategy; /* word of the strategy that the program gets in its environment */
} cadre_launcher_options_t;

/* A task that ended. */
typedef struct {
    cadre_launch_role_t role;
    uint32_t index;
    int pid;
    cadre_process_end_t end;
    cadre_launch_decision_t decision;
    int64_t log_from; /* offset in its log at which this process began to write */
    /* For how long the coordinator had not heard the task, if it was killed for that; else 0. */
    int64_t silent_ms;
} cadre_launcher_report_t;

/* Returns the options that follow from a job's settings; the caller adds the others, such as
 * `program`. Texts are borrowed from the job. */
cadre_launcher_options_t cadre_launcher_options(const cadre_job_t *job);

/* Returns how many threads a slot computes with: as the options say, else its share of the CPUs,
 * which are shared by the slots of one worker, or by all workers where these are more. */
int64_t cadre_launcher_threads(const cadre_launcher_options_t *options);

/* Makes the session directory; starts no task yet. The options must live as long as the launcher.
 * Fails with CADRE_EUNAVAILABLE when cadre-ps or cadre-worker is not beside this executable, with
 * CADRE_EIO when the directory cannot be made. */
int cadre_launcher_open(const cadre_launcher_options_t *options, cadre_launcher_t **out);

/* Kills the tasks that still run, waits for their end, and removes the session directory unless
 * `keep_session`. */
void cadre_launcher_close(cadre_launcher_t **self_p);

/* The present state of a task. */
typedef struct {
    cadre_launch_role_t role;
    uint32_t index;
    int pid;        /* process id; 0 when the task does not run */
    bool has_ended; /* a process of this task has ended; `end` says how the last one did */
    cadre_process_end_t end;
    int64_t log_from; /* offset in its log at which the last process began to write */
} cadre_launcher_task_t;

/* Gives the state of task `number`; returns false when there are not so many tasks. */
bool cadre_launcher_task(const cadre_launcher_t *self, size_t number, cadre_launcher_task_t *task);

const cadre_session_t *cadre_launcher_session(const cadre_launcher_t *self);

/* Returns the address at which the coordinator of this cluster binds; valid as long as the
 * launcher. */
const char *cadre_launcher_address(const cadre_launcher_t *self);

/* Starts the tasks that are due. CADRE_EIO when no process can be made. */
int cadre_launcher_start(cadre_launcher_t *self, int64_t now_ms);

/* Returns the milliseconds until a task is due; -1 when no task waits. */
int64_t cadre_launcher_wait_ms(const cadre_launcher_t *self, int64_t now_ms);

/* Reports the end of one task; returns false when no task has ended. After each SIGCHLD it is to be
 * called until it returns false. */
bool cadre_launcher_reap(cadre_launcher_t *self, int64_t now_ms, cadre_launcher_report_t *report);

/* Notes whether the coordinator hears the running task `number`, `elapsed_ms` after the last look;
 * kills a task that has been silent for too long (launcher_core.h). */
void cadre_launcher_look(cadre_launcher_t *self, size_t number, bool heard, int64_t elapsed_ms);

/* Begins the end of the job: from now on tasks are expected to end, and none is started. */
void cadre_launcher_stop(cadre_launcher_t *self);

/* The first sends `signal` to every running ps and worker, the second to the user's program. */
void cadre_launcher_signal(cadre_launcher_t *self, int signal);
void cadre_launcher_signal_program(cadre_launcher_t *self, int signal);

size_t cadre_launcher_running(const cadre_launcher_t *self);

/* Returns the folder that this executable is in, freed by the caller; NULL when /proc does not
 * tell. */
char *cadre_launcher_binary_folder(void);

#endif
