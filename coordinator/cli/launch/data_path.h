/*
 * data_path - dataset descriptions with the paths that workers open.
 *
 * Thread:  any; the functions keep no state.
 *
 * In a job file a path may be absolute, begin with "${DATA}", or be relative. For a cluster on this
 * machine every path becomes absolute here: "${DATA}" is --data DIR, and a relative path belongs to
 * --data DIR if that was given, else to the job file's folder. For a cluster elsewhere only the
 * workers know where their data is: without --data the paths stay relative and each worker looks in
 * its own --data-dir.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_DATA_PATH_H
#define CADRE_COORDINATOR_CLI_LAUNCH_DATA_PATH_H

#include <jansson.h>
#include <stdbool.h>

#include "coordinator/cli/train/job.h"

/* Gives a copy of `description` with its paths resolved, freed by the caller. CADRE_ENOTFOUND, if
 * `local`, when a file cannot be read, or "${DATA}" is used without --data. */
int cadre_data_resolve(const cadre_job_t *job, const json_t *description, bool local,
                       json_t **resolved);

/* Returns the folder that local workers get as --data-dir, absolute, freed by the caller. */
char *cadre_data_folder(const cadre_job_t *job);

#endif
