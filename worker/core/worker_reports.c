#include "worker/core/worker_reports.h"

#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"

typedef struct {
    uint64_t closure;
    uint64_t attempt;
} recent_t;

struct cadre_worker_reports {
    cadre_worker_effects_t *effects;
    cadre_worker_counters_t *counters;
    cadre_kept_values_t *kept;
    recent_t recent[CADRE_RECENT_MAX]; /* acknowledged closures, id at id % CADRE_RECENT_MAX: since
                                          ids ascend, a new one replaces the oldest */
};

cadre_worker_reports_t *
cadre_worker_reports_new(cadre_worker_effects_t *effects, cadre_worker_counters_t *counters,
                         cadre_kept_values_t *kept)
{
    cadre_worker_reports_t *self = cadre_calloc(1, sizeof(*self));
    self->effects = effects;
    self->counters = counters;
    self->kept = kept;
    return self;
}

void
cadre_worker_reports_destroy(cadre_worker_reports_t **self_p)
{
    cadre_free(self_p);
}

void
cadre_worker_reports_clear(cadre_worker_reports_t *self)
{
    memset(self->recent, 0, sizeof(self->recent));
}

/* Tells the shell that it may drop the batches (rows of datasets) of a run, if it had any. */
void
cadre_worker_reports_forget_batches(cadre_worker_reports_t *self, const cadre_run_t *run)
{
    if (run->call.message.closure.batches.count > 0) {
        cadre_worker_effects_emit(
            self->effects,
            &(cadre_worker_event_t){.kind = CADRE_WORKER_FORGET, .closure = cadre_run_id(run)});
    }
}

/* Sends the report of a run, again or for the first time. The number of the last HELLO or HEARTBEAT
 * is noted: if a later one is answered, and the report is not acknowledged, it was lost. */
void
cadre_worker_reports_send(cadre_worker_reports_t *self, cadre_run_t *run)
{
    cadre_run_note_sent(run, cadre_session_asked(self->effects->session));
    cadre_outbox_repeat(&self->effects->outbox, &run->report);
}

/* Makes a run REPORTING: keeps its report until it is acknowledged, and sends it. */
static void
report(cadre_worker_reports_t *self, cadre_run_t *run, cadre_message_t *message)
{
    cadre_run_report(run, &CADRE_WORKER_COORDINATOR, message);
    cadre_worker_reports_send(self, run);
    cadre_worker_reports_forget_batches(self, run);
}

/* Reports that a run has failed. `failure`: whose fault it was; a closure that is handed back
 * (RETURNED, UNABLE) counts as cancelled, not as failed. */
void
cadre_worker_reports_failed(cadre_worker_reports_t *self, cadre_run_t *run, cadre_failure_t failure,
                            int status, const char *text)
{
    char cut[CADRE_TEXT_SIZE_MAX + 1];
    snprintf(cut, sizeof(cut), "%s", text);
    cadre_message_t message =
        cadre_worker_effects_message(self->effects, CADRE_MESSAGE_CLOSURE_FAILED);
    message.closure_failed = (cadre_closure_failed_message_t){.id = cadre_run_id(run),
                                                              .attempt = run->attempt,
                                                              .reason = failure,
                                                              .status = (uint64_t)-status,
                                                              .shard = run->failed_shard,
                                                              .text = cut};
    bool is_returned = failure == CADRE_FAILURE_RETURNED || failure == CADRE_FAILURE_UNABLE;
    cadre_worker_counters_note(self->counters, is_returned ? CADRE_WORKER_COUNTER_cancelled
                                                           : CADRE_WORKER_COUNTER_failed);
    report(self, run, &message);
}

/* Keeps the results of a run that has ended well, for closures that take them as arguments. Nothing
 * is tried where all results together are too small to be kept. */
static void
keep_results(cadre_worker_reports_t *self, const cadre_run_t *run,
             const cadre_tensor_list_t *results, size_t count)
{
    for (size_t i = 0; i < count && results->size_bytes >= CADRE_KEPT_VALUE_SIZE_MIN; i++) {
        const uint64_t key[3] = {cadre_run_id(run), run->attempt, i};
        cadre_kept_values_put(self->kept, key, results, i);
    }
}

/* Reports that a run has ended well, with its results if the program wants them. `outcome->names`
 * ends with NULL. */
void
cadre_worker_reports_done(cadre_worker_reports_t *self, cadre_run_t *run,
                          const cadre_run_outcome_t *outcome, uint64_t now_ms)
{
    cadre_message_t message =
        cadre_worker_effects_message(self->effects, CADRE_MESSAGE_CLOSURE_DONE);
    message.closure_done =
        (cadre_closure_done_message_t){.id = cadre_run_id(run),
                                       .attempt = run->attempt,
                                       .updates = run->totals.updates,
                                       .duplicates = run->totals.duplicates,
                                       .staleness = run->totals.staleness,
                                       .compute_us = outcome->compute_us,
                                       .total_us = 1000 * (now_ms - run->totals.arrived_ms)};
    if (outcome->results && run->call.message.closure.flags & CADRE_CLOSURE_WANTS_RESULTS) {
        size_t names = 0;
        while (outcome->names[names]) {
            names++;
        }
        message.closure_done.names = (cadre_strs_t){outcome->names, names};
        message.closure_done.tensors = cadre_tensor_list_items(outcome->results);
        cadre_tensor_list_add_chunks(outcome->results, &message);
        keep_results(self, run, outcome->results, names);
    }
    cadre_worker_counters_note(self->counters, CADRE_WORKER_COUNTER_finished);
    cadre_worker_counters_add(self->counters, CADRE_WORKER_COUNTER_examples, outcome->examples);
    cadre_worker_counters_add(self->counters, CADRE_WORKER_COUNTER_compute_us, outcome->compute_us);
    report(self, run, &message);
}

void
cadre_worker_reports_acknowledged(cadre_worker_reports_t *self, const cadre_run_t *run)
{
    recent_t recent = {cadre_run_id(run), run->attempt};
    self->recent[recent.closure % CADRE_RECENT_MAX] = recent;
}

/* Returns whether a CLOSURE is a late copy: its attempt, or a later one, has been acknowledged,
 * among the last CADRE_RECENT_MAX closures. */
bool
cadre_worker_reports_has(const cadre_worker_reports_t *self, uint64_t closure, uint64_t attempt)
{
    const recent_t *recent = &self->recent[closure % CADRE_RECENT_MAX];
    return recent->closure == closure && recent->attempt >= attempt;
}
