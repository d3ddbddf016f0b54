/*
 * data_path - dataset descriptions with the paths that workers open.
 *
 * Thread:  any; the functions keep no state.
 *
 * In a job file a path may be absolute, begin with "${DATA}", or be relative. For a cluster on this
 * machine every path becomes absolute here: "${DATA}" is --data DIR, and what is relative belongs
 * to
 * --data DIR when that was given, else to the job file's folder. For a cluster elsewhere only the
 * workers know where their data is: without --data the paths stay relative and each worker looks in
 * its own --data-dir.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_DATA_PATH_H
#define CADRE_COORDINATOR_CLI_LAUNCH_DATA_PATH_H

#include <jansson.h>
#include <stdbool.h>

#include "coordinator/cli/train/job.h"

/* A copy of `description` with its paths resolved, freed by the caller. When `local` each file must
 * be readable, and "${DATA}" needs a folder: CADRE_ENOTFOUND. */
int cadre_data_resolve(const cadre_job_t *job, const json_t *description, bool local,
                       json_t **resolved);

/* The folder that local workers get as --data-dir, absolute, freed by the caller. */
char *cadre_data_folder(const cadre_job_t *job);

#endif
