#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/assert.h"
#include "common/memory.h"
#include "common/status.h"
#include "worker/worker_state.h"

cadre_u64s_t
cadre_worker_held(const cadre_worker_core_t *self)
{
    uint64_t *ids = cadre_calloc(self->runs.count, sizeof(*ids));
    size_t count = 0;
    const cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        ids[count++] = cadre_run_id(run);
    }
    return (cadre_u64s_t){ids, count};
}

/* --- reports --- */

/* Keeps the report until it is acknowledged, and sends it. */
static void
report(cadre_worker_core_t *self, cadre_run_t *run, cadre_message_t *message, uint64_t now_ms)
{
    cadre_run_set_state(run, CADRE_RUN_REPORTING);
    cadre_outbox_entry_init(&run->report, &self->coordinator, message);
    run->report_ms = now_ms;
    cadre_outbox_repeat(&self->outbox, &run->report);
    if (run->message.closure.batches.count > 0) {
        cadre_worker_emit(self, &(cadre_worker_event_t){.kind = CADRE_WORKER_FORGET,
                                                        .closure = cadre_run_id(run)});
    }
}

static void
report_failure(cadre_worker_core_t *self, cadre_run_t *run, cadre_failure_t failure, int status,
               const char *text, uint64_t now_ms)
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
    self->counters[failure == CADRE_FAILURE_RETURNED ? CADRE_WORKER_COUNTER_cancelled
                                                     : CADRE_WORKER_COUNTER_failed]++;
    report(self, run, &message, now_ms);
}

static void
report_done(cadre_worker_core_t *self, cadre_run_t *run, const cadre_run_outcome_t *outcome,
            uint64_t now_ms)
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
    }
    self->counters[CADRE_WORKER_COUNTER_finished]++;
    self->counters[CADRE_WORKER_COUNTER_examples] += outcome->examples;
    self->counters[CADRE_WORKER_COUNTER_compute_us] += outcome->compute_us;
    report(self, run, &message, now_ms);
}

void
cadre_worker_resend_reports(cadre_worker_core_t *self, uint64_t now_ms)
{
    cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        if (run->state == CADRE_RUN_REPORTING && now_ms >= run->report_ms + self->resend_ms) {
            run->report_ms = now_ms;
            cadre_outbox_repeat(&self->outbox, &run->report);
        }
    }
}

void
cadre_worker_on_ack(cadre_worker_core_t *self, const cadre_ack_message_t *ack)
{
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
}

/* --- from arrival to a slot --- */

/* The first failure of a dataset the run needs, or 0; CADRE_EAGAIN while one is missing. */
static int
datasets_status(const cadre_worker_core_t *self, const cadre_run_t *run, const char **name)
{
    const cadre_u64s_t *batches = &run->message.closure.batches;
    for (size_t i = 0; i < batches->count; i += 4) {
        const cadre_dataset_entry_t *entry =
            cadre_directory_dataset(&self->directory, (uint32_t)batches->items[i]);
        if (!entry || !entry->answered) {
            return CADRE_EAGAIN;
        }
        if (entry->status < 0) {
            *name = entry->name;
            return entry->status;
        }
    }
    return 0;
}

static bool
shards_known(const cadre_worker_core_t *self)
{
    for (uint32_t i = 0; i < self->directory.shard_count; i++) {
        if (!self->directory.shards[i].known) {
            return false;
        }
    }
    return true;
}

static void
enqueue(cadre_worker_core_t *self, cadre_run_t *run)
{
    cadre_run_set_state(run, CADRE_RUN_QUEUED);
    self->waiting--;
    *self->queue_last_p = run;
    self->queue_last_p = &run->next;
}

/* A waiting run: is everything there that it needs? */
static void
examine(cadre_worker_core_t *self, cadre_run_t *run, uint64_t now_ms)
{
    const cadre_closure_message_t *closure = &run->message.closure;
    if (run->loading) {
        return;
    }
    run->function = cadre_directory_function(&self->directory, (uint32_t)closure->function);
    if (!run->function || self->directory.variables_complete < closure->variables ||
        !shards_known(self)) {
        return;
    }
    const char *dataset = "";
    int status = datasets_status(self, run, &dataset);
    if (status == CADRE_EAGAIN) {
        return;
    }
    if (status < 0) {
        char text[CADRE_TEXT_SIZE_MAX];
        snprintf(text, sizeof(text), "dataset %s could not be opened here", dataset);
        cadre_worker_give_up(self, run, CADRE_FAILURE_USER, status, text, now_ms);
    } else if (closure->batches.count > 0) {
        run->loading = true;
        cadre_worker_emit(self, &(cadre_worker_event_t){
                                    .kind = CADRE_WORKER_LOAD, .run = run, .closure = closure->id});
    } else {
        enqueue(self, run);
    }
}

static void
fill_slots(cadre_worker_core_t *self)
{
    while (self->running < self->options.slots + self->options.ahead && self->queue_first) {
        cadre_run_t *run = self->queue_first;
        self->queue_first = run->next;
        if (!self->queue_first) {
            self->queue_last_p = &self->queue_first;
        }
        run->next = NULL;
        uint32_t slot = 0;
        while (self->slot_in_use[slot]) {
            slot++;
        }
        self->slot_in_use[slot] = true;
        self->running++;
        run->slot = slot;
        cadre_run_set_state(run, CADRE_RUN_COMPUTING);
        cadre_worker_emit(self, &(cadre_worker_event_t){.kind = CADRE_WORKER_START,
                                                        .run = run,
                                                        .closure = cadre_run_id(run),
                                                        .index = slot});
    }
}

void
cadre_worker_advance(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->waiting > 0) {
        cadre_u64s_t held = cadre_worker_held(self);
        for (size_t i = 0; i < held.count; i++) {
            cadre_run_t *run = cadre_u64_map_get(&self->runs, held.items[i]);
            if (run->state == CADRE_RUN_WAITING) {
                examine(self, run, now_ms);
            }
        }
        free((void *)held.items);
    }
    fill_slots(self);
}

static bool
acknowledged_before(const cadre_worker_core_t *self, uint64_t closure, uint64_t attempt)
{
    const cadre_recent_t *recent = &self->recent[closure % CADRE_RECENT_MAX];
    return recent->closure == closure && recent->attempt >= attempt;
}

/* A closure that is here already: the coordinator has not heard, or gave it up and took it back. */
static void
again(cadre_worker_core_t *self, cadre_run_t *run, const cadre_closure_message_t *closure,
      uint64_t now_ms)
{
    if (closure->attempt > run->attempt && run->state != CADRE_RUN_REPORTING) {
        run->attempt = closure->attempt; /* the work goes on under the new number */
    } else if (run->state == CADRE_RUN_REPORTING && closure->attempt == run->attempt) {
        run->report_ms = now_ms;
        cadre_outbox_repeat(&self->outbox, &run->report);
    }
}

void
cadre_worker_on_closure(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    const cadre_closure_message_t *closure = &message->closure;
    cadre_run_t *run = cadre_u64_map_get(&self->runs, closure->id);
    if (run && run->state == CADRE_RUN_REPORTING && closure->attempt > run->attempt) {
        /* Its report was of an attempt that the coordinator no longer counts: run it again. */
        cadre_u64_map_take(&self->runs, closure->id);
        cadre_run_destroy(&run);
    }
    if (run) {
        again(self, run, closure, now_ms);
        return;
    }
    if (acknowledged_before(self, closure->id, closure->attempt)) {
        return;
    }
    if (self->runs.count >= CADRE_HELD_MAX || closure->batches.count % 4 != 0) {
        cadre_worker_core_malformed(self);
        return;
    }
    run = cadre_run_new(message, now_ms);
    cadre_u64_map_put(&self->runs, cadre_run_id(run), run);
    self->waiting++;
    if (self->session_state == CADRE_SESSION_DRAINING) {
        cadre_worker_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECLOSED, self->leave_reason,
                             now_ms);
        return;
    }
    examine(self, run, now_ms);
    fill_slots(self);
}

void
cadre_worker_core_loaded(cadre_worker_core_t *self, uint64_t closure, int status, const char *text,
                         uint64_t now_ms)
{
    cadre_run_t *run = cadre_u64_map_get(&self->runs, closure);
    if (!run || run->state != CADRE_RUN_WAITING || !run->loading) {
        return; /* cancelled or handed back meanwhile */
    }
    if (status < 0) {
        cadre_worker_give_up(self, run, CADRE_FAILURE_USER, status, text, now_ms);
    } else {
        enqueue(self, run);
    }
    fill_slots(self);
}

void
cadre_worker_say_ready(cadre_worker_core_t *self, const cadre_dataset_entry_t *entry)
{
    cadre_message_t message = cadre_worker_message(self, CADRE_MESSAGE_DATASET_READY);
    message.dataset_ready = entry->ready;
    cadre_outbox_send(&self->outbox, &self->coordinator, &message);
}

void
cadre_worker_core_dataset_opened(cadre_worker_core_t *self, uint32_t dataset,
                                 const cadre_dataset_ready_message_t *ready, uint64_t now_ms)
{
    cadre_dataset_entry_t *entry = cadre_directory_dataset(&self->directory, dataset);
    if (!entry) {
        return; /* of a session before */
    }
    entry->answered = true;
    entry->status = -(int)ready->status;
    entry->ready = *ready;
    entry->ready.id = dataset;
    snprintf(entry->text, sizeof(entry->text), "%s", ready->text ? ready->text : "");
    entry->ready.text = entry->text;
    cadre_worker_say_ready(self, entry);
    cadre_worker_advance(self, now_ms);
}

/* --- missing definitions --- */

static void
want(cadre_worker_core_t *self, cadre_want_t kind, uint64_t id)
{
    cadre_message_t message = cadre_worker_message(self, CADRE_MESSAGE_WANT);
    message.want = (cadre_want_message_t){.kind = kind, .id = id};
    cadre_outbox_send(&self->outbox, &self->coordinator, &message);
}

static void
want_for(cadre_worker_core_t *self, const cadre_run_t *run)
{
    const cadre_closure_message_t *closure = &run->message.closure;
    if (!cadre_directory_function(&self->directory, (uint32_t)closure->function)) {
        want(self, CADRE_WANT_FUNCTION, closure->function);
    }
    if (self->directory.variables_complete < closure->variables) {
        want(self, CADRE_WANT_VARIABLE, self->directory.variables_complete + 1);
    }
    for (size_t i = 0; i < closure->batches.count; i += 4) {
        if (!cadre_directory_dataset(&self->directory, (uint32_t)closure->batches.items[i])) {
            want(self, CADRE_WANT_DATASET, closure->batches.items[i]);
        }
    }
}

void
cadre_worker_want(cadre_worker_core_t *self, uint64_t now_ms)
{
    for (uint32_t i = 0; i < self->directory.shard_count; i++) {
        if (!self->directory.shards[i].known) {
            want(self, CADRE_WANT_SHARD, i);
        }
    }
    const cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        if (run->state == CADRE_RUN_WAITING && !run->loading) {
            want_for(self, run);
            break; /* one closure's needs at a time: the others mostly miss the same */
        }
    }
    self->want_due_ms = now_ms + CADRE_WANT_RETRY_MS;
}

/* --- cancelling and leaving --- */

static void
remove_from_queue(cadre_worker_core_t *self, cadre_run_t *run)
{
    cadre_run_t **at = &self->queue_first;
    while (*at != run) {
        at = &(*at)->next;
    }
    *at = run->next;
    if (self->queue_last_p == &run->next) {
        self->queue_last_p = at;
    }
    run->next = NULL;
}

/* Takes a run that no slot holds out of WAITING or QUEUED. */
static void
detach(cadre_worker_core_t *self, cadre_run_t *run)
{
    if (run->state == CADRE_RUN_QUEUED) {
        remove_from_queue(self, run);
    } else {
        cadre_assert(run->state == CADRE_RUN_WAITING);
        self->waiting--;
    }
}

void
cadre_worker_give_up(cadre_worker_core_t *self, cadre_run_t *run, cadre_failure_t failure,
                     int status, const char *text, uint64_t now_ms)
{
    detach(self, run);
    report_failure(self, run, failure, status, text, now_ms);
}

static bool
held_by_slot(const cadre_run_t *run)
{
    return run->state == CADRE_RUN_COMPUTING || run->state == CADRE_RUN_PULLING ||
           run->state == CADRE_RUN_PUSHING;
}

void
cadre_worker_on_cancel(cadre_worker_core_t *self, const cadre_cancel_message_t *cancel,
                       uint64_t now_ms)
{
    for (size_t i = 0; i < cancel->ids.count; i++) {
        cadre_run_t *run = cadre_u64_map_get(&self->runs, cancel->ids.items[i]);
        if (run && held_by_slot(run)) {
            atomic_store(&run->cancelled, true);
        } else if (run && run->state != CADRE_RUN_REPORTING) {
            cadre_worker_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED, "cancelled",
                                 now_ms);
        }
    }
}

void
cadre_worker_hand_back(cadre_worker_core_t *self, uint64_t now_ms)
{
    cadre_u64s_t held = cadre_worker_held(self);
    for (size_t i = 0; i < held.count; i++) {
        cadre_run_t *run = cadre_u64_map_get(&self->runs, held.items[i]);
        if (run->state == CADRE_RUN_WAITING || run->state == CADRE_RUN_QUEUED) {
            cadre_worker_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECLOSED,
                                 self->leave_reason, now_ms);
        }
    }
    free((void *)held.items);
}

void
cadre_worker_drop_runs(cadre_worker_core_t *self)
{
    cadre_u64s_t held = cadre_worker_held(self);
    for (size_t i = 0; i < held.count; i++) {
        cadre_run_t *run = cadre_u64_map_get(&self->runs, held.items[i]);
        if (held_by_slot(run)) {
            atomic_store(&run->cancelled, true);
            cadre_worker_abandon(self, run);
            continue;
        }
        if (run->state != CADRE_RUN_REPORTING) {
            detach(self, run);
        }
        cadre_u64_map_take(&self->runs, held.items[i]);
        cadre_run_destroy(&run);
    }
    free((void *)held.items);
}

/* --- the end of a run --- */

void
cadre_worker_core_finish(cadre_worker_core_t *self, cadre_run_t *run,
                         const cadre_run_outcome_t *outcome, uint64_t now_ms)
{
    cadre_assert(run->state == CADRE_RUN_COMPUTING);
    self->slot_in_use[run->slot] = false;
    self->running--;
    if (self->superseded) {
        cadre_u64_map_take(&self->runs, cadre_run_id(run));
        cadre_run_destroy(&run);
    } else if (outcome->status == 0) {
        report_done(self, run, outcome, now_ms);
    } else {
        cadre_failure_t failure = outcome->failure;
        if (outcome->status == CADRE_ECANCELLED && atomic_load(&run->cancelled)) {
            failure = CADRE_FAILURE_RETURNED;
        }
        report_failure(self, run, failure, outcome->status, outcome->text, now_ms);
    }
    fill_slots(self);
}
