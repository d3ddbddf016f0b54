/*
 * job_file - reads a job file (docs/job-file.md) into a job, strictly: an unknown key, a value of
 * the wrong type or out of range is an error with file, line and column.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JOB_FILE_H
#define CADRE_COORDINATOR_CLI_TRAIN_JOB_FILE_H

#include "coordinator/cli/train/job.h"

/* Reads the file into a job that cadre_job_init has made; after a failure the job is half set, and
 * the caller still ends it. Fails with CADRE_ENOTFOUND when the file cannot be opened, CADRE_EIO
 * when it cannot be read, and CADRE_ECONFIG when its content is wrong. */
int cadre_job_file_read(cadre_job_t *job, const char *path);

/* Reads a job from a text in memory; `file` is its path in messages, whose folder is the job's. */
int cadre_job_file_parse(cadre_job_t *job, const char *file, const char *text);

#endif
