/*
 * worker_reports - reports to the coordinator of closures that have ended.
 *
 * Owner:   the worker's runs. Thread: the network actor's.
 *
 * A report is kept with its run until the coordinator acknowledges it. The report goes out again
 * when the coordinator has answered a HELLO or HEARTBEAT that was sent after the report and has not
 * acknowledged the report: then it was lost.
 */
#ifndef CADRE_WORKER_CORE_WORKER_REPORTS_H
#define CADRE_WORKER_CORE_WORKER_REPORTS_H

#include "worker/core/closure_run.h"
#include "worker/core/worker_effects.h"

enum { CADRE_RECENT_MAX = 1024 }; /* acknowledged closures remembered against late duplicates */

typedef struct {
    int status; /* 0, or why the run failed: in its function, or in a pull or push */
    const char *text;
    cadre_failure_t failure;            /* whose fault it was, where `status` is a failure */
    const char *const *names;           /* names of the results, as many as `results` has */
    const cadre_tensor_list_t *results; /* NULL when there are none */
    uint64_t compute_us;                /* time that the function took on the slot */
    uint64_t examples;                  /* rows in the closure's first batch */
    cadre_holding_t *holding; /* what a build has made, the core's from now on; else NULL */
} cadre_run_outcome_t;

typedef struct cadre_worker_reports cadre_worker_reports_t;

/* The other objects are borrowed. */
cadre_worker_reports_t *cadre_worker_reports_new(cadre_worker_effects_t *effects,
                                                 cadre_worker_counters_t *counters,
                                                 cadre_kept_values_t *kept);
void cadre_worker_reports_destroy(cadre_worker_reports_t **self_p);

/* Forgets what was acknowledged: closures of another session count from 1 again. */
void cadre_worker_reports_clear(cadre_worker_reports_t *self);

/* Make a run REPORTING and send its report: that it ended well, or failed. The results of a run
 * that ended well are kept for other closures (kept_values.h). */
void cadre_worker_reports_done(cadre_worker_reports_t *self, cadre_run_t *run,
                               const cadre_run_outcome_t *outcome, uint64_t now_ms);
void cadre_worker_reports_failed(cadre_worker_reports_t *self, cadre_run_t *run,
                                 cadre_failure_t failure, int status, const char *text);

/* Sends the report of a run again. */
void cadre_worker_reports_send(cadre_worker_reports_t *self, cadre_run_t *run);

/* Remembers that the run's report was acknowledged. */
void cadre_worker_reports_acknowledged(cadre_worker_reports_t *self, const cadre_run_t *run);

/* Returns whether a CLOSURE is a late copy: its attempt, or a later one, has been acknowledged. */
bool cadre_worker_reports_has(const cadre_worker_reports_t *self, uint64_t closure,
                              uint64_t attempt);

/* Tells the shell that it may drop the batches of a run, which has ended. */
void cadre_worker_reports_forget_batches(cadre_worker_reports_t *self, const cadre_run_t *run);

#endif
