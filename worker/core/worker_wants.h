/*
 * worker_wants - what a worker asks the coordinator for, because what it was told has been lost:
 * definitions that closures miss, and news of shards that are away or do not answer.
 *
 * Owner:   the worker core. Thread: its.
 */
#ifndef CADRE_WORKER_CORE_WORKER_WANTS_H
#define CADRE_WORKER_CORE_WORKER_WANTS_H

#include "worker/core/worker_runs.h"

enum { CADRE_WANT_RETRY_MS = 1000 };

/* Zeroed memory: nothing was asked for yet. */
typedef struct {
    uint64_t due_ms; /* nothing is asked for before this time */
} cadre_worker_wants_t;

/* Asks for what is missing now, at most every CADRE_WANT_RETRY_MS. */
void cadre_worker_wants_ask(cadre_worker_wants_t *self, const cadre_directory_t *directory,
                            const cadre_worker_runs_t *runs, const cadre_worker_values_t *values,
                            cadre_worker_effects_t *effects, uint64_t now_ms);

/* Asks for one piece of the rows of a dataset from memory. */
void cadre_worker_wants_rows(cadre_worker_effects_t *effects, uint32_t dataset, uint64_t piece);

#endif
