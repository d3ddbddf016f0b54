/*
 * job_optimizer - the section "optimizer" of a job file, beyond its plain settings: parameters and
 * the schedule of the learning rate.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JOB_OPTIMIZER_H
#define CADRE_COORDINATOR_CLI_TRAIN_JOB_OPTIMIZER_H

#include "coordinator/cli/train/job.h"
#include "coordinator/cli/train/json_source.h"

/* Reads the parameters of the job's optimizer, its schedule included, into job->optimizer_spec. The
 * plain settings of the section must have been read. Fails with CADRE_ECONFIG and the place in the
 * file. */
int cadre_job_optimizer_read(cadre_job_t *job, const cadre_json_source_t *source);

/* Returns the optimizer of a finished job with its learning rate scaled by the rows of one update,
 * as optimizer.scale_with says: linear (Goyal and others 2017, "Accurate, large minibatch SGD"), by
 * rows / base_batch_size, or by the root of that (Krizhevsky 2014, "One weird trick for
 * parallelizing convolutional neural networks"). With consistency sync, one update is made of
 * step_closures batches. Rates that a schedule names are scaled too, except the rate with which a
 * warm-up begins. */
cadre_optimizer_spec_t cadre_job_optimizer_scaled(const cadre_job_t *job);

#endif
