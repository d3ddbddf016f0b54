/*
 * job_local - the local steps of a job: training.local_steps and the section "training.inner".
 *
 * A closure of a job with local steps runs training.local_steps steps of an inner optimizer, and
 * pushes how far they led as one gradient for the outer optimizer, which runs on the ps. With a
 * section "training.inner" that is the inner optimizer and "optimizer" the outer one; without it
 * "optimizer" is the inner one, and the outer is sgd with the learning rate 1, which takes over
 * what the closure came to.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JOB_LOCAL_H
#define CADRE_COORDINATOR_CLI_TRAIN_JOB_LOCAL_H

#include "coordinator/cli/train/job.h"
#include "coordinator/cli/train/json_source.h"

/* Reads the section "training.inner" into job->inner_spec, if the file has it. The plain settings,
 * its "type" among them, must have been read before. Fails with CADRE_ECONFIG and a text that names
 * the place in the file. */
int cadre_job_local_read(cadre_job_t *job, const cadre_json_source_t *source);

/* Checks that the settings of a job with local steps go together, once all were set. CADRE_ECONFIG
 * with the file and what to do. */
int cadre_job_local_check(const cadre_job_t *job);

/* Returns whether closures of the job run an optimizer of their own. */
bool cadre_job_is_local(const cadre_job_t *job);

/* Returns the optimizer that closures run, of a job with local steps. */
cadre_optimizer_spec_t cadre_job_inner(const cadre_job_t *job);

/* Returns the outer optimizer of a job with local steps, which takes how far each closure came for
 * a gradient. Where it is sgd and the file gives no learning rate, that is 1. */
cadre_optimizer_spec_t cadre_job_outer(const cadre_job_t *job);

#endif
