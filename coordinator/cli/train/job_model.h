/*
 * job_model - the section "model" of a job file, beyond its plain settings.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JOB_MODEL_H
#define CADRE_COORDINATOR_CLI_TRAIN_JOB_MODEL_H

#include <stdbool.h>

#include "coordinator/cli/train/job.h"
#include "coordinator/cli/train/json_source.h"

/* Reads widths and layers of the model, and checks that its type has these keys and can learn the
 * job's kind of label. The plain settings and the section "data" must have been read before. Fails
 * with CADRE_ECONFIG and the place in the file. */
int cadre_job_model_read(cadre_job_t *job, const cadre_json_source_t *source);

/* Returns whether the model as a whole is one over items: linear, logistic or a factorization
 * machine over ids, fields or a table. */
bool cadre_job_is_over_items(const cadre_job_t *job);

#endif
