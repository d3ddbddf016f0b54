/*
 * job_strategy - sets the settings that the strategy of a job implies: how many ps and workers,
 * which consistency, how many closures in a step.
 *
 * A setting that nobody gave is set. Otherwise origins are compared (flag over environment over job
 * file): a strategy of a higher origin than the setting replaces it, or leaves it out where it is
 * for another consistency; a setting of the same or a higher origin with another value contradicts
 * the strategy and is refused. Not so the counts and devices of `cluster` beside a strategy in one
 * job file: the strategy replaces those that it has no use for, so that one file serves all five.
 * What of the file is replaced `overruled` of the job says.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JOB_STRATEGY_H
#define CADRE_COORDINATOR_CLI_TRAIN_JOB_STRATEGY_H

#include <cadre/strategy.h>

#include "coordinator/cli/train/job.h"

/* The devices and tasks that a job finds: what its strategy is applied to. */
typedef struct {
    int64_t devices; /* of this host, for workers; 0: only the CPU, which any number of workers
                          share: as many as the job says, else one */
    bool is_choice;  /* fewer workers than devices are allowed, and use the first devices */
    int64_t workers; /* workers of a cluster that runs already and lists them; 0: no such cluster */
    bool has_shards_beside_workers; /* that cluster lists workers alone, each with a ps beside it:
                                       its strategy is multi_worker unless the job names one */
    bool has_shards;                /* that cluster lists its ps, so their number is not set */
    bool is_one_process; /* the tasks are threads of one process, which has one ps, and a slot for
                            each worker */
} cadre_job_places_t;

/* Return the strategy of the job, as a number and as its word in job files. */
cadre_strategy_t cadre_job_strategy(const cadre_job_t *self);
const char *cadre_job_strategy_word(const cadre_job_t *self);

/* Returns whether the strategy of the job has one worker for each device of the host, so that the
 * devices must be counted. */
bool cadre_job_counts_devices(const cadre_job_t *self);

/* Returns whether all tasks of the job's strategy run on one host, so that one process may hold
 * them. */
bool cadre_job_is_of_one_host(const cadre_job_t *self);

/* Returns whether the job asks for several ps, in a place that counts as much as the strategy's. */
bool cadre_job_insists_on_shards(const cadre_job_t *self);

/* Return how many workers the strategy of the job has in these places, and how many slots each has
 * where the strategy is synchronous. */
int64_t cadre_job_workers(const cadre_job_t *self, const cadre_job_places_t *places);
int64_t cadre_job_slots(const cadre_job_t *self);

/* Returns whether ps and worker of the job, once it has its places, are threads of `cadre run`. */
bool cadre_job_is_in_one_process(const cadre_job_t *self);

/* Takes the first of the devices that the job lists where its strategy has one worker. Fails with
 * CADRE_ECONFIG when the list counts as much as the strategy's word. */
int cadre_job_choose_device(cadre_job_t *self);

/* Sets the settings that the job's strategy and consistency imply. Fails with CADRE_ECONFIG, and a
 * text that names both, when a setting contradicts the strategy, or is for another consistency, and
 * when the strategy has more workers than it can have. */
int cadre_job_follow_strategy(cadre_job_t *self, const cadre_job_places_t *places);

/* Returns what to tell the user of a job that has its places when its closures run one after the
 * other on several workers, because nothing says training.step_closures of "sync" or
 * training.staleness_bound of "bounded"; NULL when there is nothing to tell. Freed by the
 * caller. */
char *cadre_job_pace_warning(const cadre_job_t *self);

#endif
