/*
 * worker_reports - reports to the coordinator of closures that have ended.
 *
 * Owner:   the worker's runs. Thread: the network actor's.
 *
 * A report is kept with its run until it is acknowledged. It goes out again when the coordinator
 * has answered a HELLO or HEARTBEAT that was said after it, and has not acknowledged it.
 */
#ifndef CADRE_WORKER_CORE_WORKER_REPORTS_H
#define CADRE_WORKER_CORE_WORKER_REPORTS_H

#include "worker/core/closure_run.h"
#include "worker/core/worker_effects.h"

enum { CADRE_RECENT_MAX = 1024 }; /* acknowledged closures remembered against late duplicates */

typedef struct {
    int status; /* 0, or why it failed; the failures of pull and push included */
    const char *text;
    cadre_failure_t failure;            /* for a failure */
    const char *const *names;           /* of the results */
    const cadre_tensor_list_t *results; /* or NULL */
    uint64_t compute_us;
    uint64_t examples;
    cadre_holding_t *holding; /* of a build, or NULL: the core's from now on */
} cadre_run_outcome_t;

typedef struct cadre_worker_reports cadre_worker_reports_t;

/* The other objects are borrowed. */
cadre_worker_reports_t *cadre_worker_reports_new(cadre_worker_effects_t *effects,
                                                 cadre_worker_counters_t *counters,
                                                 cadre_kept_values_t *kept);
void cadre_worker_reports_destroy(cadre_worker_reports_t **self_p);

/* Forgets what was acknowledged: closures of another session count from 1 again. */
void cadre_worker_reports_clear(cadre_worker_reports_t *self);

/* Each makes a run REPORTING, and sends its report. A run that ends well leaves its results to
 * those that are here. */
void cadre_worker_reports_done(cadre_worker_reports_t *self, cadre_run_t *run,
                               const cadre_run_outcome_t *outcome, uint64_t now_ms);
void cadre_worker_reports_failed(cadre_worker_reports_t *self, cadre_run_t *run,
                                 cadre_failure_t failure, int status, const char *text);

/* Sends the report of a run again. */
void cadre_worker_reports_send(cadre_worker_reports_t *self, cadre_run_t *run);

/* Remembers that the run's report was acknowledged. */
void cadre_worker_reports_acknowledged(cadre_worker_reports_t *self, const cadre_run_t *run);

/* Whether a CLOSURE is a late copy: that attempt, or a later one, has been acknowledged. */
bool cadre_worker_reports_has(const cadre_worker_reports_t *self, uint64_t closure,
                              uint64_t attempt);

/* A run has ended: the shell may drop its batches. */
void cadre_worker_reports_forget_batches(cadre_worker_reports_t *self, const cadre_run_t *run);

#endif
