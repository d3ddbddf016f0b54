/*
 * supervisor - the main thread of `cadre run` and `cadre train`: starts the cluster and the
 * trainer, listens to both and to signals, and says what happens.
 *
 * Owner:   main; one per process.
 * Thread:  the main thread. It starts every task, reaps it, and is the only writer to terminal and
 *          events file; the trainer has a thread of its own and talks to it in notices.
 *
 * Signals come through a descriptor, never a handler. The first SIGINT or SIGTERM stops after a
 * checkpoint, a second one half a second later or more kills.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_SUPERVISOR_H
#define CADRE_COORDINATOR_CLI_LAUNCH_SUPERVISOR_H

#include <stdbool.h>

#include "coordinator/cli/launch/launcher.h"
#include "coordinator/cli/train/job.h"

enum {
    CADRE_SUPERVISOR_LEAVE_MS = 3000, /* for tasks to leave; then SIGTERM */
    CADRE_SUPERVISOR_KILL_MS = 5000,  /* since the end of the job; then SIGKILL */
    CADRE_SUPERVISOR_SECOND_MS =
        500, /* after the first SIGINT or SIGTERM; from then on another one kills */
};

typedef struct {
    const cadre_job_t *job;                 /* NULL: a program of the user's */
    const cadre_launcher_options_t *launch; /* NULL: the cluster exists */
    const char *trace_place; /* what names the folder of traces, for messages; NULL without one */
    const char *address;     /* where to bind; NULL: as the environment says, or the launcher */
    const char *keys;        /* of connections over tcp; NULL: as the environment says */
    bool insecure;           /* they may be without */
    int ps_count;            /* 0: as the environment says */
    bool json;               /* the result as JSON on stdout */
    char log_level;     /* 'D', 'I', 'W', 'E': events of the coordinator below it are not shown */
    const char *events; /* file, or NULL */
    const char *http;   /* where the coordinator answers about itself, or NULL */
    char **command;     /* the user's own, for telling how to go on; NULL-terminated */
} cadre_supervisor_options_t;

/* Runs the job or program and gives the exit code; every error was said. */
int cadre_supervise(const cadre_supervisor_options_t *options);

#endif
