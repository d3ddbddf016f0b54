#include <stdio.h>

#include "worker/core/worker_state.h"

void
cadre_worker_forget_batches(cadre_worker_core_t *self, const cadre_run_t *run)
{
    if (run->message.closure.batches.count > 0) {
        cadre_worker_emit(self, &(cadre_worker_event_t){.kind = CADRE_WORKER_FORGET,
                                                        .closure = cadre_run_id(run)});
    }
}

void
cadre_worker_send_report(cadre_worker_core_t *self, cadre_run_t *run)
{
    run->report_after = self->contact.asked;
    cadre_outbox_repeat(&self->outbox, &run->report);
}

/* Keeps the report until it is acknowledged, and sends it. */
static void
report(cadre_worker_core_t *self, cadre_run_t *run, cadre_message_t *message)
{
    cadre_run_set_state(run, CADRE_RUN_REPORTING);
    cadre_outbox_entry_init(&run->report, &self->coordinator, message);
    cadre_worker_send_report(self, run);
    cadre_worker_forget_batches(self, run);
}

void
cadre_worker_report_failure(cadre_worker_core_t *self, cadre_run_t *run, cadre_failure_t failure,
                            int status, const char *text)
{
    char cut[CADRE_TEXT_SIZE_MAX + 1];
    snprintf(cut, sizeof(cut), "%s", text);
    cadre_message_t message = cadre_worker_message(self, CADRE_MESSAGE_CLOSURE_FAILED);
    message.closure_failed = (cadre_closure_failed_message_t){.id = cadre_run_id(run),
                                                              .attempt = run->attempt,
                                                              .reason = failure,
                                                              .status = (uint64_t)-status,
                                                              .shard = run->failed_shard,
                                                              .text = cut};
    bool is_returned = failure == CADRE_FAILURE_RETURNED || failure == CADRE_FAILURE_UNABLE;
    self->counters[is_returned ? CADRE_WORKER_COUNTER_cancelled : CADRE_WORKER_COUNTER_failed]++;
    report(self, run, &message);
}

void
cadre_worker_report_done(cadre_worker_core_t *self, cadre_run_t *run,
                         const cadre_run_outcome_t *outcome, uint64_t now_ms)
{
    cadre_message_t message = cadre_worker_message(self, CADRE_MESSAGE_CLOSURE_DONE);
    message.closure_done =
        (cadre_closure_done_message_t){.id = cadre_run_id(run),
                                       .attempt = run->attempt,
                                       .updates = run->totals.updates,
                                       .duplicates = run->totals.duplicates,
                                       .staleness = run->totals.staleness,
                                       .compute_us = outcome->compute_us,
                                       .total_us = 1000 * (now_ms - run->totals.arrived_ms)};
    if (outcome->results && run->message.closure.flags & CADRE_CLOSURE_WANTS_RESULTS) {
        size_t names = 0;
        while (outcome->names[names]) {
            names++;
        }
        message.closure_done.names = (cadre_strs_t){outcome->names, names};
        message.closure_done.tensors = cadre_tensor_list_items(outcome->results);
        cadre_tensor_list_add_chunks(outcome->results, &message);
        cadre_worker_keep_results(self, run, outcome->results, names);
    }
    self->counters[CADRE_WORKER_COUNTER_finished]++;
    self->counters[CADRE_WORKER_COUNTER_examples] += outcome->examples;
    self->counters[CADRE_WORKER_COUNTER_compute_us] += outcome->compute_us;
    report(self, run, &message);
}

void
cadre_worker_resend_reports(cadre_worker_core_t *self, uint64_t number)
{
    cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        if (run->state == CADRE_RUN_REPORTING && run->report_after < number) {
            cadre_worker_send_report(self, run);
        }
    }
}

void
cadre_worker_on_ack(cadre_worker_core_t *self, const cadre_message_t *message)
{
    const cadre_ack_message_t *ack = &message->ack;
    for (size_t i = 0; i + 1 < ack->reports.count; i += 2) {
        cadre_run_t *run = cadre_u64_map_get(&self->runs, ack->reports.items[i]);
        if (!run || run->state != CADRE_RUN_REPORTING ||
            run->attempt != ack->reports.items[i + 1]) {
            continue;
        }
        cadre_recent_t recent = {cadre_run_id(run), run->attempt};
        self->recent[recent.closure % CADRE_RECENT_MAX] = recent;
        cadre_u64_map_take(&self->runs, cadre_run_id(run));
        cadre_run_destroy(&run);
    }
    cadre_worker_resend_reports(self, message->request);
}

bool
cadre_worker_acknowledged_before(const cadre_worker_core_t *self, uint64_t closure,
                                 uint64_t attempt)
{
    const cadre_recent_t *recent = &self->recent[closure % CADRE_RECENT_MAX];
    return recent->closure == closure && recent->attempt >= attempt;
}
