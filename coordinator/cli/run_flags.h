/*
 * run_flags - the command line of `cadre run` and `cadre train`.
 *
 * Owner:   the caller; ended with cadre_run_flags_fini.
 * Thread:  the main thread.
 */
#ifndef CADRE_COORDINATOR_CLI_RUN_FLAGS_H
#define CADRE_COORDINATOR_CLI_RUN_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/cli/setting_flags.h"

enum { CADRE_NATIVES_MAX = 64 }; /* most --native flags */

typedef struct {
    bool local;                       /* the verb is `run`; else `train` */
    const char *job_file;             /* job file; NULL if a program is given */
    char **program;                   /* arguments behind "--", NULL-terminated; NULL: none */
    char *natives[CADRE_NATIVES_MAX]; /* absolute paths of --native */
    size_t native_count;
    const char *address; /* train: where to bind */
    const char *keys;    /* train: directory of keys; NULL: none given */
    bool insecure;       /* train: --insecure-transport */
    const char *events;
    const char *http; /* address of the coordinator's HTTP server; NULL: none */
    bool json;
    bool keep_session;
    char log_level;
    cadre_given_settings_t settings;
    /* The first flag that only a job file has a use for, and what a program does in its place;
     * NULL: there is none. */
    const char *job_only;
    const char *in_program;
    char **command; /* the whole command as typed, "cadre" first; NULL-terminated */
} cadre_run_flags_t;

/* Reads the command line. Ends the process after a usage error (exit 2) or --help (exit 0). Fails
 * with CADRE_EINVALID for a flag that is not written out, or that does not go with a program. */
int cadre_run_flags_read(cadre_run_flags_t *self, bool local, int argc, char **argv);

void cadre_run_flags_fini(cadre_run_flags_t *self);

/* Makes the job: defaults, overridden by the job file if there is one, by the environment, and by
 * flags. Fails with CADRE_EINVALID for a bad flag, CADRE_ENOTFOUND when the job file cannot be
 * opened, CADRE_ECONFIG for anything else. */
int cadre_run_flags_job(const cadre_run_flags_t *self, cadre_job_t *job);

#endif
