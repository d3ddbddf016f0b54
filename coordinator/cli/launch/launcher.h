/*
 * launcher - a cluster of processes on this machine, for as long as one job.
 *
 * Owner:   a supervisor.
 * Thread:  one, which must live as long as the tasks: the kernel kills a task when the thread that
 *          started it ends.
 *
 * Each task runs in a process group of its own (Ctrl-C reaches the launcher only), its output goes
 * to a log file in the session directory, and it is killed when the launcher is gone, however that
 * went. The user's program is different: it keeps the terminal and the launcher's group. Its tasks
 * wait for its next session when one ends: it may open a coordinator several times.
 *
 * Between fork and exec only calls are made that are safe there: other threads, ZeroMQ's among
 * them, may hold any lock at that moment.
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
    int64_t slots;
    int64_t ps_lanes;           /* 0: half of the CPUs */
    int64_t shard_timeout_s;    /* of the workers, as cadre-worker takes it */
    const char *device;         /* of the workers, as cadre-worker takes it; NULL: its default */
    int64_t math;               /* likewise: position in CADRE_MATH_WORDS */
    const char *trace;          /* folder for the workers' traces (trace_folder.h); NULL: none */
    int64_t restarts_max;       /* negative: no limit */
    int64_t ps_timeout_ms;      /* of the coordinator */
    const char *const *natives; /* shared objects for the workers */
    size_t native_count;
    const char *data_dir;           /* for the workers; NULL: none */
    const char *checkpoint_dirs[2]; /* where ps may write and read checkpoints; NULL: none more.
                                       Without any the ps go by their default */
    bool keep_session;
    char *const *program; /* the user's command, NULL-terminated; NULL: none */
} cadre_launcher_options_t;

/* A task that ended. */
typedef struct {
    cadre_launch_role_t role;
    uint32_t index;
    int pid;
    cadre_process_end_t end;
    cadre_launch_decision_t decision;
    int64_t log_from;  /* where in its log this process began to write */
    int64_t silent_ms; /* it was killed because it had not been heard for so long; 0: it was not */
} cadre_launcher_report_t;

/* Returns what the settings of a job say of its tasks, for the caller to add what is no setting.
 * Texts stay the job's. */
cadre_launcher_options_t cadre_launcher_options(const cadre_job_t *job);

/* Makes the session; starts nothing yet. The options must live as long as the launcher.
 * CADRE_EUNAVAILABLE when cadre-ps or cadre-worker is not beside this executable, CADRE_EIO. */
int cadre_launcher_open(const cadre_launcher_options_t *options, cadre_launcher_t **out);

/* Kills what still runs, waits for it, and removes the session unless that is to be kept. */
void cadre_launcher_close(cadre_launcher_t **self_p);

/* A task as it stands. */
typedef struct {
    cadre_launch_role_t role;
    uint32_t index;
    int pid;        /* 0 when it does not run */
    bool has_ended; /* some process of it has, the last one so: */
    cadre_process_end_t end;
    int64_t log_from; /* where in its log the last process began to write */
} cadre_launcher_task_t;

/* Task `number`; false when there are not so many. */
bool cadre_launcher_task(const cadre_launcher_t *self, size_t number, cadre_launcher_task_t *task);

const cadre_session_t *cadre_launcher_session(const cadre_launcher_t *self);

/* Where the coordinator of this cluster binds; valid as long as the launcher. */
const char *cadre_launcher_address(const cadre_launcher_t *self);

/* Starts what is due. CADRE_EIO when no process can be made. */
int cadre_launcher_start(cadre_launcher_t *self, int64_t now_ms);

/* Milliseconds until cadre_launcher_start has something to do; -1: nothing waits. */
int64_t cadre_launcher_wait_ms(const cadre_launcher_t *self, int64_t now_ms);

/* Takes one task that has ended; false when there is none. Call it until then after SIGCHLD. */
bool cadre_launcher_reap(cadre_launcher_t *self, int64_t now_ms, cadre_launcher_report_t *report);

/* Notes whether the coordinator hears task `number`, which runs, `elapsed_ms` after the look
 * before; kills one that has been silent for too long (launcher_core.h). */
void cadre_launcher_look(cadre_launcher_t *self, size_t number, bool heard, int64_t elapsed_ms);

/* Ends are expected from now on, nothing is started any more. */
void cadre_launcher_stop(cadre_launcher_t *self);

/* Sends `signal` to every running ps and worker, or to the program. */
void cadre_launcher_signal(cadre_launcher_t *self, int signal);
void cadre_launcher_signal_program(cadre_launcher_t *self, int signal);

size_t cadre_launcher_running(const cadre_launcher_t *self);

/* The folder that this executable is in, freed by the caller; NULL when /proc does not say. */
char *cadre_launcher_binary_folder(void);

#endif
