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

#include "coordinator/cli/verb.h"

enum { CADRE_NATIVES_MAX = 64 }; /* --native flags; more are refused */

typedef struct {
    bool local;                       /* `run`; else `train` */
    const char *job_file;             /* NULL with a program */
    char **program;                   /* what stands behind "--", NULL-terminated; or NULL */
    char *natives[CADRE_NATIVES_MAX]; /* absolute */
    size_t native_count;
    const char *address; /* train: where to bind */
    const char *keys;    /* train: directory; or NULL */
    bool insecure;       /* train: --insecure-transport */
    const char *events;
    const char *http; /* where the coordinator answers about itself; NULL: nowhere */
    bool json;
    bool keep_session;
    char log_level;
    cadre_verb_setting_t settings[CADRE_JOB_SETTINGS_MAX]; /* in the order of the command line */
    size_t setting_count;
    char **command; /* the whole command as typed, "cadre" first; NULL-terminated */
} cadre_run_flags_t;

/* Reads argv; ends the process with usage (exit 2) or help (exit 0) where that is due.
 * CADRE_EINVALID or CADRE_ENOTFOUND for a flag's value. */
int cadre_run_flags_read(cadre_run_flags_t *self, bool local, int argc, char **argv);

void cadre_run_flags_fini(cadre_run_flags_t *self);

/* Makes the job: defaults, the file if there is one, environment, flags. CADRE_EINVALID for a flag,
 * CADRE_ECONFIG for anything else, CADRE_ENOTFOUND. */
int cadre_run_flags_job(const cadre_run_flags_t *self, cadre_job_t *job);

#endif
