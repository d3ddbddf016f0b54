/*
 * job_metrics - writes the metrics of the job that the coordinator serves (docs/metrics.md).
 *
 * Owner:   the coordinator core; it only looks. Thread: under the coordinator's lock.
 *
 * Up to CADRE_METRICS_TASKS_MAX tasks of each role, those with the lowest indexes, have metrics of
 * their own; one gauge counts the others. So have the first CADRE_TABLES_TOLD_MAX tables.
 */
#ifndef CADRE_COORDINATOR_CORE_JOB_METRICS_H
#define CADRE_COORDINATOR_CORE_JOB_METRICS_H

#include "common/base/metrics_text.h"
#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/dispatch/reach.h"
#include "coordinator/core/dispatch/reports.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/members/rights.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/replay.h"

/* The objects that it looks at; borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_totals_t *totals;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_rights_t *rights;
    const cadre_closure_queue_t *queue;
    const cadre_attempts_t *attempts;
    const cadre_reports_t *reports;
    const cadre_reach_t *reach;
    const cadre_replay_t *replay;
    const cadre_shard_recovery_t *recovery;
    const cadre_checkpoint_t *checkpoint;
} cadre_job_metrics_t;

/* Adds the metrics of the job to `text`. */
void cadre_job_metrics_write(const cadre_job_metrics_t *self, uint64_t now_ms,
                             cadre_metrics_text_t *text);

#endif
