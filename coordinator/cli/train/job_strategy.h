/*
 * job_strategy - the strategy of a job as settings: how many ps and workers, which consistency,
 * which step.
 *
 * What is implied is set where nothing else was. It wins over a setting of lower rank than its own
 * word has (a flag over the environment, that over the file), and contradicts one of the same or a
 * higher rank.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JOB_STRATEGY_H
#define CADRE_COORDINATOR_CLI_TRAIN_JOB_STRATEGY_H

#include <cadre/strategy.h>

#include "coordinator/cli/train/job.h"

/* What there is to place tasks on. */
typedef struct {
    int64_t devices; /* for workers of this host; 0: its CPU, which counts as so many devices as
                          the job has workers, as one where it does not say */
    bool is_choice;  /* a job may take the first of them only */
    int64_t workers; /* that a cluster lists which exists already; 0: none does, or it is open */
    bool has_shards_beside_workers; /* each of which brings one: multi_worker, unless the job says
                                       another strategy */
    bool has_shards;                /* the cluster has the ps that it has */
} cadre_job_places_t;

/* Returns the strategy that the job names; its word, as job files have it. */
cadre_strategy_t cadre_job_strategy(const cadre_job_t *self);
const char *cadre_job_strategy_word(const cadre_job_t *self);

/* Returns whether the strategy has a worker for each device of a host. */
bool cadre_job_counts_devices(const cadre_job_t *self);

/* Sets what the job's strategy implies. CADRE_ECONFIG where a setting contradicts it, with a text
 * that names both. */
int cadre_job_follow_strategy(cadre_job_t *self, const cadre_job_places_t *places);

#endif
