/*
 * job_optimizer - the section "optimizer" of a job file, beyond its plain settings: parameters and
 * the schedule of the learning rate.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JOB_OPTIMIZER_H
#define CADRE_COORDINATOR_CLI_TRAIN_JOB_OPTIMIZER_H

#include "coordinator/cli/train/job.h"
#include "coordinator/cli/train/json_source.h"

/* Reads what the optimizer of this type takes, its schedule included, into
 * job->optimizer_spec; plain settings were read before. CADRE_ECONFIG with the place. */
int cadre_job_optimizer_read(cadre_job_t *job, const cadre_json_source_t *source);

#endif
