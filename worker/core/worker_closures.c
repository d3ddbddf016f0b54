#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/core/worker_state.h"

static cadre_u64s_t
list_runs(const cadre_worker_core_t *self, bool builds_too)
{
    uint64_t *ids = cadre_calloc(self->runs.count, sizeof(*ids));
    size_t count = 0;
    const cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        if (!run->builds || builds_too) {
            ids[count++] = cadre_run_id(run);
        }
    }
    return (cadre_u64s_t){ids, count};
}

cadre_u64s_t
cadre_worker_held(const cadre_worker_core_t *self)
{
    return list_runs(self, false);
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
    cadre_run_t **at = self->queue_last_p;
    if (run->builds) { /* closures here and elsewhere wait for it; those that came first go first */
        at = &self->queue_first;
        while (*at && (*at)->builds) {
            at = &(*at)->next;
        }
    }
    run->next = *at;
    *at = run;
    if (self->queue_last_p == at) {
        self->queue_last_p = &run->next;
    }
}

/* A waiting run: is everything there that it needs? */
static void
examine(cadre_worker_core_t *self, cadre_run_t *run, uint64_t now_ms)
{
    const cadre_closure_message_t *closure = &run->message.closure;
    char text[CADRE_TEXT_SIZE_MAX];
    const char *why = text;
    run->function = cadre_directory_function(&self->directory, (uint32_t)closure->function);
    if (run->function && run->function->lacking) {
        snprintf(text, sizeof(text), "this worker has no native function %s (--native FILE)",
                 run->function->name);
        cadre_worker_give_up(self, run, CADRE_FAILURE_UNABLE, CADRE_ENOTFOUND, text, now_ms);
        return;
    }
    if (run->loading || cadre_directory_generations(&self->directory) < closure->generations) {
        return;
    }
    if (!run->function || self->directory.variables_complete < closure->variables ||
        self->directory.drops < closure->drops || !shards_known(self)) {
        return;
    }
    const char *dataset = NULL;
    cadre_failure_t failure = CADRE_FAILURE_UNABLE;
    int status = datasets_status(self, run, &dataset);
    snprintf(text, sizeof(text), "dataset %s could not be opened here", dataset ? dataset : "");
    if (status == 0) {
        failure = CADRE_FAILURE_USER;
        status = cadre_worker_take_resources(self, run, &why);
    }
    if (status == CADRE_EAGAIN) {
        return;
    }
    if (status < 0) {
        cadre_worker_give_up(self, run, failure, status, why, now_ms);
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
        cadre_u64s_t held = list_runs(self, true);
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
held_by_slot(const cadre_run_t *run)
{
    return run->state == CADRE_RUN_COMPUTING || run->state == CADRE_RUN_PULLING ||
           run->state == CADRE_RUN_PUSHING;
}

/* Whether a shard was restored since the run's attempt came here: the coordinator runs what was
 * begun before again. */
static bool
is_stale(const cadre_worker_core_t *self, const cadre_run_t *run)
{
    return run->restores < self->directory.restores;
}

/* The directory's `restores` that an attempt was handed out with. One that knew less than we do was
 * overtaken by news of a shard, and counts as older than any. */
static uint64_t
restores_of(const cadre_worker_core_t *self, const cadre_closure_message_t *closure)
{
    bool overtaken = closure->generations < cadre_directory_generations(&self->directory);
    return overtaken ? 0 : self->directory.restores;
}

/* A later attempt of a closure that is here: the coordinator gave this worker up, or a shard was
 * restored. A run that has touched no shard is as good as the new attempt. Any other goes on under
 * its own number, because the coordinator may know of a restored shard and this worker not yet; if
 * both know, there is no use in it. */
static void
later_attempt(cadre_worker_core_t *self, cadre_run_t *run, cadre_message_t *message)
{
    uint64_t attempt = message->closure.attempt;
    bool lags = cadre_directory_generations(&self->directory) < message->closure.generations;
    if (!run->touched && !atomic_load(&run->cancelled) && !lags) {
        run->attempt = attempt;
        run->restores = restores_of(self, &message->closure);
    } else if (!cadre_run_has_newer(run) || attempt > run->newer.closure.attempt) {
        run->newer_restores = restores_of(self, &message->closure);
        cadre_run_keep_newer(run, message);
        if (is_stale(self, run)) {
            atomic_store(&run->cancelled, true);
        }
    }
}

void
cadre_worker_begin_build(cadre_worker_core_t *self, cadre_message_t *message,
                         const cadre_resource_entry_t *entry, uint64_t now_ms)
{
    cadre_run_t *run = cadre_run_new(message, now_ms);
    run->restores = self->directory.restores;
    run->builds = entry;
    cadre_u64_map_put(&self->runs, cadre_run_id(run), run);
    self->waiting++;
    examine(self, run, now_ms);
    fill_slots(self);
}

static void
begin(cadre_worker_core_t *self, cadre_message_t *message, uint64_t restores, bool cancelled,
      uint64_t now_ms)
{
    cadre_run_t *run = cadre_run_new(message, now_ms);
    run->restores = restores;
    cadre_u64_map_put(&self->runs, cadre_run_id(run), run);
    self->waiting++;
    if (self->session_state == CADRE_WORKER_STATE_DRAINING) {
        cadre_worker_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECLOSED, self->leave_reason,
                             now_ms);
    } else if (cancelled) {
        cadre_worker_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED, "cancelled",
                             now_ms);
    } else if (!cadre_worker_take_values(self, run)) {
        cadre_worker_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ENOTFOUND,
                             "a value that it takes is not here", now_ms);
    } else {
        examine(self, run, now_ms);
        fill_slots(self);
    }
}

static void
forget(cadre_worker_core_t *self, cadre_run_t *run)
{
    cadre_u64_map_take(&self->runs, cadre_run_id(run));
    cadre_run_destroy(&run);
}

/* The run has ended without a report: the later attempt takes its place. */
static void
begin_newer(cadre_worker_core_t *self, cadre_run_t *run, uint64_t now_ms)
{
    cadre_message_t message = run->newer;
    uint64_t restores = run->newer_restores;
    bool cancelled = run->newer_cancelled;
    run->newer = (cadre_message_t){0};
    cadre_worker_forget_batches(self, run);
    forget(self, run);
    begin(self, &message, restores, cancelled, now_ms);
}

void
cadre_worker_on_closure(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    const cadre_closure_message_t *closure = &message->closure;
    cadre_run_t *run = cadre_u64_map_get(&self->runs, closure->id);
    if (!cadre_run_accepts(closure)) {
        cadre_worker_core_malformed(self);
        return;
    }
    if (run && run->state == CADRE_RUN_REPORTING && closure->attempt > run->attempt) {
        /* Its report was of an attempt that the coordinator no longer counts: run it again. */
        forget(self, run);
        run = NULL;
    }
    if (run && closure->attempt > run->attempt) {
        later_attempt(self, run, message);
    } else if (run && run->state == CADRE_RUN_REPORTING && closure->attempt == run->attempt) {
        cadre_worker_send_report(self, run);
    } else if (run || cadre_worker_acknowledged_before(self, closure->id, closure->attempt)) {
        return;
    } else if (self->runs.count >= CADRE_HELD_MAX) {
        cadre_worker_core_malformed(self);
    } else {
        begin(self, message, restores_of(self, closure), false, now_ms);
    }
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
    if (run->builds) {
        cadre_run_outcome_t outcome = {.status = status, .text = text, .failure = failure};
        cadre_worker_built(self, run, &outcome, now_ms);
        forget(self, run);
        return;
    }
    cadre_worker_report_failure(self, run, failure, status, text);
}

void
cadre_worker_on_cancel(cadre_worker_core_t *self, const cadre_cancel_message_t *cancel,
                       uint64_t now_ms)
{
    for (size_t i = 0; i < cancel->ids.count; i++) {
        cadre_run_t *run = cadre_u64_map_get(&self->runs, cancel->ids.items[i]);
        if (run && run->builds) {
            continue; /* that is no closure */
        }
        if (run && held_by_slot(run)) {
            atomic_store(&run->cancelled, true);
            run->newer_cancelled = cadre_run_has_newer(run);
        } else if (run && run->state != CADRE_RUN_REPORTING) {
            cadre_worker_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED, "cancelled",
                                 now_ms);
        }
    }
}

void
cadre_worker_hand_back(cadre_worker_core_t *self, uint64_t now_ms)
{
    cadre_u64s_t held = list_runs(self, true);
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
    cadre_u64s_t held = list_runs(self, true);
    for (size_t i = 0; i < held.count; i++) {
        cadre_run_t *run = cadre_u64_map_get(&self->runs, held.items[i]);
        if (held_by_slot(run)) {
            atomic_store(&run->cancelled, true);
            cadre_run_drop_newer(run);
            cadre_worker_abandon(self, run);
            continue;
        }
        if (run->state != CADRE_RUN_REPORTING) {
            detach(self, run);
        }
        if (run->builds) {
            cadre_worker_unbuild(self, run, 0);
        }
        forget(self, run);
    }
    free((void *)held.items);
}

/* --- the end of a run --- */

static void
end_build(cadre_worker_core_t *self, cadre_run_t *run, const cadre_run_outcome_t *outcome,
          uint64_t now_ms)
{
    cadre_run_outcome_t rest = *outcome;
    if (!self->superseded && self->session_state != CADRE_WORKER_STATE_LEFT) {
        cadre_worker_built(self, run, &rest, now_ms);
    }
    cadre_worker_release(self, rest.holding);
    forget(self, run);
    cadre_worker_advance(self, now_ms); /* its closures */
}

void
cadre_worker_core_finish(cadre_worker_core_t *self, cadre_run_t *run,
                         const cadre_run_outcome_t *outcome, uint64_t now_ms)
{
    cadre_assert(run->state == CADRE_RUN_COMPUTING);
    self->slot_in_use[run->slot] = false;
    self->running--;
    if (run->builds) {
        end_build(self, run, outcome, now_ms);
    } else if (self->superseded || self->session_state == CADRE_WORKER_STATE_LEFT) {
        forget(self, run);
    } else if (cadre_run_has_newer(run) && (outcome->status < 0 || is_stale(self, run))) {
        begin_newer(self, run, now_ms);
    } else if (outcome->status == 0) {
        cadre_worker_report_done(self, run, outcome, now_ms);
    } else {
        cadre_failure_t failure = outcome->failure;
        if (outcome->status == CADRE_ECANCELLED && atomic_load(&run->cancelled)) {
            failure = CADRE_FAILURE_RETURNED;
        }
        cadre_worker_report_failure(self, run, failure, outcome->status, outcome->text);
    }
    fill_slots(self);
}
