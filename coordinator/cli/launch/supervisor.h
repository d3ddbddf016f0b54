/*
 * supervisor - the main thread of `cadre run` and `cadre train`: starts the cluster and the
 * trainer, takes their notices and the process's signals, and reports to the user.
 *
 * Owner:   main; one per process.
 * Thread:  the main thread. It starts and reaps every task, and alone writes to terminal and events
 *          file; the trainer has a thread of its own and sends notices to the main thread.
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
    CADRE_SUPERVISOR_LEAVE_MS = 3000, /* how long tasks have to leave before they get SIGTERM */
    /* How long after the end of the job tasks are killed (SIGKILL). */
    CADRE_SUPERVISOR_KILL_MS = 5000,
    /* A SIGINT or SIGTERM that comes so long after the first one, or later, kills. */
    CADRE_SUPERVISOR_SECOND_MS = 500,
};

typedef struct {
    const cadre_job_t *job;                 /* NULL: a program of the user */
    const cadre_launcher_options_t *launch; /* NULL: the cluster exists already */
    /* The setting or flag that names the trace folder, for error texts; NULL: no traces. */
    const char *trace_place;
    const char *address; /* address to bind; NULL: from the environment, or the launcher */
    const char *keys;    /* directory of keys; NULL: from the environment */
    bool insecure;       /* tcp connections need no keys */
    int ps_count;        /* number of ps; 0: from the environment */
    bool json;           /* print the result as JSON on stdout */
    char log_level;      /* 'D', 'I', 'W', 'E': events of the coordinator below it are not shown */
    const char *events;  /* file, or NULL */
    const char *http;    /* address of the coordinator's HTTP server; NULL: none */
    char **command;      /* the command as the user typed it, for hints; NULL-terminated */
} cadre_supervisor_options_t;

/* Runs the job or program, prints every error, and returns the exit code. */
int cadre_supervise(const cadre_supervisor_options_t *options);

#endif
