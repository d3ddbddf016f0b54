/*
 * job_metrics - what the coordinator tells of the job: figures as metrics, and why it is not ready.
 *
 * Owner:   none.
 * Thread:  under the coordinator's lock.
 *
 * Part of the core. Tasks are told one by one up to CADRE_METRICS_TASKS_MAX of each role, those
 * with the lowest indexes; how many are not is told too.
 */
#ifndef CADRE_COORDINATOR_CORE_JOB_METRICS_H
#define CADRE_COORDINATOR_CORE_JOB_METRICS_H

#include "common/base/metrics_text.h"
#include "coordinator/core/coordinator_core.h"

enum { CADRE_JOB_UNREADY_SIZE = 256 };

/* Why the job cannot go on now, in words; "" when every shard is ready. */
void cadre_job_unready(const cadre_core_t *core, char text[CADRE_JOB_UNREADY_SIZE]);

void cadre_job_metrics(const cadre_core_t *core, uint64_t now_ms, cadre_metrics_text_t *text);

#endif
