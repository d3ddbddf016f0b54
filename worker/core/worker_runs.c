#include "worker/core/worker_runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/record_list.h"
#include "worker/core/worker_builds.h"

struct cadre_worker_runs {
    cadre_worker_runs_options_t options;
    cadre_directory_t *directory;
    cadre_worker_values_t *values;
    cadre_worker_effects_t *effects;
    cadre_worker_counters_t *counters;
    cadre_worker_reports_t *reports;
    cadre_kept_values_t kept;
    cadre_u64_map_t runs;     /* by closure id */
    cadre_run_t *queue_first; /* QUEUED, in order of arrival */
    cadre_run_t **queue_last_p;
    size_t waiting;     /* how many runs are in WAITING */
    uint32_t running;   /* runs that were STARTed and have not finished */
    bool *slot_in_use;  /* [options.slots + options.ahead] */
    const char *reason; /* why new closures are handed back; NULL: they are taken */
    bool is_disowned;   /* the session of the runs on slots has ended: no report of their end */
};

/* Returns an object without runs, which borrows the others. There may be `ahead` more runs on slots
 * than there are slots: those wait in the shell's queue. */
cadre_worker_runs_t *
cadre_worker_runs_new(const cadre_worker_runs_options_t *options, cadre_directory_t *directory,
                      cadre_worker_values_t *values, cadre_worker_effects_t *effects,
                      cadre_worker_counters_t *counters)
{
    cadre_worker_runs_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    self->directory = directory;
    self->values = values;
    self->effects = effects;
    self->counters = counters;
    self->reports = cadre_worker_reports_new(effects, counters, &self->kept);
    self->kept.size_max = options->kept_values_max;
    self->queue_last_p = &self->queue_first;
    self->slot_in_use = cadre_calloc((size_t)options->slots + options->ahead, sizeof(bool));
    return self;
}

/* Frees all runs, whatever their state: no slot may be running. */
void
cadre_worker_runs_destroy(cadre_worker_runs_t **self_p)
{
    cadre_worker_runs_t *self = *self_p;
    if (!self) {
        return;
    }
    cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        cadre_run_destroy(&run);
    }
    cadre_u64_map_fini(&self->runs);
    cadre_kept_values_clear(&self->kept);
    cadre_worker_reports_destroy(&self->reports);
    free(self->slot_in_use);
    cadre_free(self_p);
}

/* Begins another session, when no run is left: forgets acknowledged reports and kept results. */
void
cadre_worker_runs_begin_session(cadre_worker_runs_t *self)
{
    cadre_worker_reports_clear(self->reports);
    cadre_kept_values_clear(&self->kept);
}

void
cadre_worker_runs_disown(cadre_worker_runs_t *self, bool is_disowned)
{
    self->is_disowned = is_disowned;
}

/* --- what the core and tests look at --- */

/* Returns the ids of all closures, and with `builds_too` of the builds of resources, in an array
 * that the caller frees. */
static cadre_u64s_t
list_runs(const cadre_worker_runs_t *self, bool builds_too)
{
    uint64_t *ids = cadre_calloc(self->runs.count, sizeof(*ids));
    size_t count = 0;
    const cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        if (!run->call.builds || builds_too) {
            ids[count++] = cadre_run_id(run);
        }
    }
    return (cadre_u64s_t){ids, count};
}

cadre_u64s_t
cadre_worker_runs_held(const cadre_worker_runs_t *self)
{
    return list_runs(self, false);
}

cadre_run_t *
cadre_worker_runs_find(const cadre_worker_runs_t *self, uint64_t id)
{
    return cadre_u64_map_get(&self->runs, id);
}

/* Returns a run that waits for definitions; NULL when none does. A run that waits only for its
 * batches to be read (`loading`) has its definitions. */
const cadre_run_t *
cadre_worker_runs_wanting(const cadre_worker_runs_t *self)
{
    const cadre_run_t *run = NULL;
    for (size_t cursor = 0;
         self->waiting > 0 && (run = cadre_u64_map_next(&self->runs, &cursor));) {
        if (run->state == CADRE_RUN_WAITING && !run->loading) {
            return run;
        }
    }
    return NULL;
}

size_t
cadre_worker_runs_count(const cadre_worker_runs_t *self)
{
    return self->runs.count;
}

size_t
cadre_worker_runs_waiting(const cadre_worker_runs_t *self)
{
    return self->waiting;
}

uint32_t
cadre_worker_runs_running(const cadre_worker_runs_t *self)
{
    return self->running;
}

/* --- from arrival to a slot --- */

/* Returns the failure of the first dataset of the run that could not be opened, with its name in
 * *name; 0 when all are open, CADRE_EAGAIN while one is not opened yet. */
static int
datasets_status(const cadre_worker_runs_t *self, const cadre_run_t *run, const char **name)
{
    const cadre_batch_rows_list_t batches =
        cadre_batch_rows_list_view(&run->call.message.closure.batches);
    for (size_t i = 0; i < batches.count; i++) {
        const cadre_dataset_entry_t *entry =
            cadre_directory_dataset(self->directory, (uint32_t)batches.items[i].dataset);
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

/* Returns whether the coordinator has told of every shard. */
static bool
shards_known(const cadre_worker_runs_t *self)
{
    for (uint32_t i = 0; i < self->directory->shard_count; i++) {
        if (!self->directory->shards[i].known) {
            return false;
        }
    }
    return true;
}

/* Moves a waiting run to the end of the queue for slots. A build goes before all closures (behind
 * earlier builds): closures here and on other workers wait for the resource. */
static void
enqueue(cadre_worker_runs_t *self, cadre_run_t *run)
{
    cadre_run_set_state(run, CADRE_RUN_QUEUED);
    self->waiting--;
    cadre_run_t **at = self->queue_last_p;
    if (run->call.builds) {
        at = &self->queue_first;
        while (*at && (*at)->call.builds) {
            at = &(*at)->next;
        }
    }
    run->next = *at;
    *at = run;
    if (self->queue_last_p == at) {
        self->queue_last_p = &run->next;
    }
}

/* Moves a WAITING run on when everything is there that it needs: to the reading of its batches if
 * it has any, else to the queue. Gives it up when something cannot be had on this worker; otherwise
 * it goes on waiting. */
static void
examine(cadre_worker_runs_t *self, cadre_run_t *run, uint64_t now_ms)
{
    const cadre_closure_message_t *closure = &run->call.message.closure;
    char text[CADRE_TEXT_SIZE_MAX];
    const char *why = text;
    cadre_closure_call_set_function(&run->call, self->directory);
    if (run->call.function && run->call.function->lacking) {
        snprintf(text, sizeof(text), "this worker has no native function %s (--native FILE)",
                 run->call.function->name);
        cadre_worker_runs_give_up(self, run, CADRE_FAILURE_UNABLE, CADRE_ENOTFOUND, text, now_ms);
        return;
    }
    /* A CLOSURE may arrive before SHARD messages that were sent earlier: it names the generations
     * that this worker must know before the closure may run. */
    if (run->loading || cadre_directory_generations(self->directory) < closure->generations) {
        return;
    }
    if (!run->call.function || self->directory->variables_complete < closure->variables ||
        self->directory->drops < closure->drops || !shards_known(self)) {
        return;
    }
    /* A dataset that cannot be opened here may be open on other workers (UNABLE hands the closure
     * back); a resource whose build has failed for good fails its closures (USER). */
    const char *dataset = NULL;
    cadre_failure_t failure = CADRE_FAILURE_UNABLE;
    int status = datasets_status(self, run, &dataset);
    snprintf(text, sizeof(text), "dataset %s could not be opened here", dataset ? dataset : "");
    if (status == 0) {
        failure = CADRE_FAILURE_USER;
        status = cadre_worker_builds_give(self->directory, run, &why);
    }
    /* A dataset is still being opened, or a resource built: the run goes on waiting. */
    if (status == CADRE_EAGAIN) {
        return;
    }
    if (status < 0) {
        cadre_worker_runs_give_up(self, run, failure, status, why, now_ms);
    } else if (closure->batches.count > 0) {
        cadre_run_load(run);
        cadre_worker_effects_emit(
            self->effects,
            &(cadre_worker_event_t){.kind = CADRE_WORKER_LOAD, .run = run, .closure = closure->id});
    } else {
        enqueue(self, run);
    }
}

/* Hands queued runs to the shell to compute (event START), as long as a slot, or a place ahead of
 * the slots, is free. */
static void
fill_slots(cadre_worker_runs_t *self)
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
        cadre_run_set_slot(run, slot);
        cadre_run_set_state(run, CADRE_RUN_COMPUTING);
        cadre_worker_effects_emit(self->effects,
                                  &(cadre_worker_event_t){.kind = CADRE_WORKER_START,
                                                          .run = run,
                                                          .closure = cadre_run_id(run),
                                                          .index = slot});
    }
}

/* Moves runs whose definitions are complete to the queue, and queued runs to free slots. */
void
cadre_worker_runs_advance(cadre_worker_runs_t *self, uint64_t now_ms)
{
    if (self->waiting > 0) {
        /* Goes through a list of ids, since examining a run may end it and others. */
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

/* Returns whether a slot works on the run, or waits for its pull or push. */
static bool
held_by_slot(const cadre_run_t *run)
{
    return run->state == CADRE_RUN_COMPUTING || run->state == CADRE_RUN_PULLING ||
           run->state == CADRE_RUN_PUSHING;
}

/* Returns whether a shard was restored since the run's attempt came here. The coordinator hands
 * such a closure out again, and this attempt's report ends nothing. */
static bool
is_stale(const cadre_worker_runs_t *self, const cadre_run_t *run)
{
    return run->restores < self->directory->restores;
}

/* Returns the count of restores that an attempt belongs to: the directory's; 0, older than any, for
 * a CLOSURE that was sent before a shard changed of which this worker has heard already. */
static uint64_t
restores_of(const cadre_worker_runs_t *self, const cadre_closure_message_t *closure)
{
    bool overtaken = closure->generations < cadre_directory_generations(self->directory);
    return overtaken ? 0 : self->directory->restores;
}

/* Takes a later attempt of a closure that is here already: the coordinator had given this worker
 * up, or a shard was restored. A run that has sent nothing to a shard becomes the new attempt. Any
 * other run goes on, and the new attempt is kept until the run ends: a shard may have been restored
 * of which this worker does not know yet. If it does know, the run is of no use and is
 * cancelled. */
static void
later_attempt(cadre_worker_runs_t *self, cadre_run_t *run, cadre_message_t *message)
{
    uint64_t attempt = message->closure.attempt;
    bool lags = cadre_directory_generations(self->directory) < message->closure.generations;
    if (!run->touched && !cadre_closure_call_is_cancelled(&run->call) && !lags) {
        cadre_run_set_attempt(run, attempt, restores_of(self, &message->closure));
    } else if (!cadre_run_has_newer(run) || attempt > run->newer.closure.attempt) {
        cadre_run_keep_newer(run, message, restores_of(self, &message->closure));
        if (is_stale(self, run)) {
            cadre_closure_call_cancel(&run->call);
        }
    }
}

/* Adds a run of this attempt, in WAITING; takes the message. */
static cadre_run_t *
add(cadre_worker_runs_t *self, cadre_message_t *message, uint64_t restores, uint64_t now_ms)
{
    cadre_run_t *run = cadre_run_new(message, now_ms);
    cadre_run_set_attempt(run, run->attempt, restores);
    cadre_u64_map_put(&self->runs, cadre_run_id(run), run);
    self->waiting++;
    return run;
}

/* Begins the builds of resources that are due, each as a run; returns when the next one is due. */
uint64_t
cadre_worker_runs_build(cadre_worker_runs_t *self, uint64_t now_ms)
{
    const cadre_resource_entry_t *entry = NULL;
    uint64_t due_ms = UINT64_MAX;
    size_t cursor = 0;
    while ((entry = cadre_worker_builds_next(self->directory, now_ms, &cursor, &due_ms))) {
        cadre_message_t message = cadre_worker_builds_call(self->directory, entry);
        cadre_run_t *run = add(self, &message, self->directory->restores, now_ms);
        cadre_closure_call_set_builds(&run->call, entry);
        examine(self, run, now_ms);
        fill_slots(self);
    }
    return due_ms;
}

/* Begins a run of a CLOSURE that came, or was kept as a later attempt: it waits for what it needs,
 * or is handed back at once if the worker drains (`reason`), it was cancelled, or a kept result
 * that it takes as an argument is gone. `restores`: how many restores of shards the attempt knows
 * of. */
static void
begin(cadre_worker_runs_t *self, cadre_message_t *message, uint64_t restores, bool cancelled,
      uint64_t now_ms)
{
    cadre_run_t *run = add(self, message, restores, now_ms);
    if (self->reason) {
        cadre_worker_runs_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECLOSED, self->reason,
                                  now_ms);
    } else if (cancelled) {
        cadre_worker_runs_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED, "cancelled",
                                  now_ms);
    } else if (!cadre_closure_call_take_values(&run->call, &self->kept, self->counters)) {
        cadre_worker_runs_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ENOTFOUND,
                                  "a value that it takes is not here", now_ms);
    } else {
        examine(self, run, now_ms);
        fill_slots(self);
    }
}

/* Takes a run out of the map and frees it. */
static void
forget(cadre_worker_runs_t *self, cadre_run_t *run)
{
    cadre_u64_map_take(&self->runs, cadre_run_id(run));
    cadre_run_destroy(&run);
}

/* Begins the later attempt that was kept, in place of a run that has ended without a report. */
static void
begin_newer(cadre_worker_runs_t *self, cadre_run_t *run, uint64_t now_ms)
{
    cadre_message_t message = cadre_run_take_newer(run);
    uint64_t restores = run->newer_restores;
    bool cancelled = run->newer_cancelled;
    cadre_worker_reports_forget_batches(self->reports, run);
    forget(self, run);
    begin(self, &message, restores, cancelled, now_ms);
}

/* Takes a CLOSURE: a new one, a later attempt of one that is here, or a copy of one that is here or
 * was reported. A copy of a reported one has the report sent again, any other copy is dropped.
 * Returns false for one that is malformed or too many. */
bool
cadre_worker_runs_on_closure(cadre_worker_runs_t *self, cadre_message_t *message, uint64_t now_ms)
{
    const cadre_closure_message_t *closure = &message->closure;
    cadre_run_t *run = cadre_u64_map_get(&self->runs, closure->id);
    if (!cadre_closure_call_accepts(closure)) {
        return false;
    }
    if (run && run->state == CADRE_RUN_REPORTING && closure->attempt > run->attempt) {
        /* The report was of an attempt that the coordinator no longer counts: run the closure
         * again. */
        forget(self, run);
        run = NULL;
    }
    if (run && closure->attempt > run->attempt) {
        later_attempt(self, run, message);
        return true;
    }
    if (run && run->state == CADRE_RUN_REPORTING && closure->attempt == run->attempt) {
        cadre_worker_reports_send(self->reports, run);
        return true;
    }
    if (run || cadre_worker_reports_has(self->reports, closure->id, closure->attempt)) {
        return true;
    }
    if (self->runs.count >= CADRE_HELD_MAX) {
        return false;
    }
    begin(self, message, restores_of(self, closure), false, now_ms);
    return true;
}

/* Takes the answer of the shell to LOAD: the batches of a closure are read, or could not be
 * (`status`). */
void
cadre_worker_runs_loaded(cadre_worker_runs_t *self, uint64_t closure, int status, const char *text,
                         uint64_t now_ms)
{
    cadre_run_t *run = cadre_u64_map_get(&self->runs, closure);
    if (!run || run->state != CADRE_RUN_WAITING || !run->loading) {
        return; /* the run was cancelled or handed back while its batches were read */
    }
    if (status < 0) {
        cadre_worker_runs_give_up(self, run, CADRE_FAILURE_USER, status, text, now_ms);
    } else {
        enqueue(self, run);
    }
    fill_slots(self);
}

/* --- cancelling and leaving --- */

/* Takes a QUEUED run out of the queue for slots. */
static void
remove_from_queue(cadre_worker_runs_t *self, cadre_run_t *run)
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
detach(cadre_worker_runs_t *self, cadre_run_t *run)
{
    if (run->state == CADRE_RUN_QUEUED) {
        remove_from_queue(self, run);
    } else {
        cadre_assert(run->state == CADRE_RUN_WAITING);
        self->waiting--;
    }
}

/* Ends a run that no slot holds, as failed: a closure is reported; a build has failed for good or
 * is tried again, as worker_builds decides. */
void
cadre_worker_runs_give_up(cadre_worker_runs_t *self, cadre_run_t *run, cadre_failure_t failure,
                          int status, const char *text, uint64_t now_ms)
{
    detach(self, run);
    if (run->call.builds) {
        cadre_run_outcome_t outcome = {.status = status, .text = text, .failure = failure};
        cadre_worker_builds_end(self->directory, run, &outcome, self->effects, now_ms);
        forget(self, run);
        return;
    }
    cadre_worker_reports_failed(self->reports, run, failure, status, text);
}

/* Cancels the closures that CANCEL names: one that no slot holds is handed back at once, one on a
 * slot is marked, and its slot looks now and then. One that is not here, or has ended, is left
 * alone. */
void
cadre_worker_runs_on_cancel(cadre_worker_runs_t *self, const cadre_cancel_message_t *cancel,
                            uint64_t now_ms)
{
    for (size_t i = 0; i < cancel->ids.count; i++) {
        cadre_run_t *run = cadre_u64_map_get(&self->runs, cancel->ids.items[i]);
        if (run && run->call.builds) {
            continue; /* a build of a resource, which CANCEL cannot name */
        }
        if (run && held_by_slot(run)) {
            cadre_run_cancel_all(run);
        } else if (run && run->state != CADRE_RUN_REPORTING) {
            cadre_worker_runs_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECANCELLED,
                                      "cancelled", now_ms);
        }
    }
}

/* Hands back every run that no slot holds, and from now on every closure that comes, with
 * `reason`. */
void
cadre_worker_runs_drain(cadre_worker_runs_t *self, const char *reason, uint64_t now_ms)
{
    self->reason = reason;
    cadre_u64s_t held = list_runs(self, true);
    for (size_t i = 0; i < held.count; i++) {
        cadre_run_t *run = cadre_u64_map_get(&self->runs, held.items[i]);
        if (run->state == CADRE_RUN_WAITING || run->state == CADRE_RUN_QUEUED) {
            cadre_worker_runs_give_up(self, run, CADRE_FAILURE_RETURNED, CADRE_ECLOSED, reason,
                                      now_ms);
        }
    }
    free((void *)held.items);
}

/* Drops every run that no slot holds, without a report; cancels the runs on slots and ends their
 * pulls and pushes. For the end of a session, whose coordinator takes no reports. */
void
cadre_worker_runs_drop(cadre_worker_runs_t *self)
{
    cadre_u64s_t held = list_runs(self, true);
    for (size_t i = 0; i < held.count; i++) {
        cadre_run_t *run = cadre_u64_map_get(&self->runs, held.items[i]);
        if (held_by_slot(run)) {
            cadre_closure_call_cancel(&run->call);
            cadre_run_drop_newer(run);
            cadre_worker_values_abandon(self->values, run);
            continue;
        }
        if (run->state != CADRE_RUN_REPORTING) {
            detach(self, run);
        }
        if (run->call.builds) {
            cadre_worker_builds_again(self->directory, run, 0);
        }
        forget(self, run);
    }
    free((void *)held.items);
}

/* --- the end of a run --- */

/* Ends the run of a build. Of a session that is over (`is_disowned`) nothing is noted, and what was
 * built is destroyed. */
static void
end_build(cadre_worker_runs_t *self, cadre_run_t *run, const cadre_run_outcome_t *outcome,
          uint64_t now_ms)
{
    cadre_run_outcome_t rest = *outcome;
    if (!self->is_disowned) {
        cadre_worker_builds_end(self->directory, run, &rest, self->effects, now_ms);
    }
    cadre_worker_builds_release(rest.holding, self->effects);
    forget(self, run);
    cadre_worker_runs_advance(self, now_ms); /* its closures */
}

/* Ends a run that its slot has finished. A build has its own end. A run of a session that is over
 * is dropped. A later attempt that was kept begins, if this one failed or began before a shard was
 * restored. Otherwise the run is reported. */
void
cadre_worker_runs_finish(cadre_worker_runs_t *self, cadre_run_t *run,
                         const cadre_run_outcome_t *outcome, uint64_t now_ms)
{
    cadre_assert(run->state == CADRE_RUN_COMPUTING);
    self->slot_in_use[run->slot] = false;
    self->running--;
    if (run->call.builds) {
        end_build(self, run, outcome, now_ms);
    } else if (self->is_disowned) {
        forget(self, run);
    } else if (cadre_run_has_newer(run) && (outcome->status < 0 || is_stale(self, run))) {
        begin_newer(self, run, now_ms);
    } else if (outcome->status == 0) {
        cadre_worker_reports_done(self->reports, run, outcome, now_ms);
    } else {
        cadre_failure_t failure = outcome->failure;
        /* A cancelled closure is handed back: its function did not fail. */
        if (outcome->status == CADRE_ECANCELLED && cadre_closure_call_is_cancelled(&run->call)) {
            failure = CADRE_FAILURE_RETURNED;
        }
        cadre_worker_reports_failed(self->reports, run, failure, outcome->status, outcome->text);
    }
    fill_slots(self);
}

/* --- reports --- */

/* Sends lost reports again, when the coordinator has answered the HELLO or HEARTBEAT `number`: a
 * report that was sent before it and is not acknowledged was lost. */
void
cadre_worker_runs_resend(cadre_worker_runs_t *self, uint64_t number)
{
    cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        if (run->state == CADRE_RUN_REPORTING && run->report_after < number) {
            cadre_worker_reports_send(self->reports, run);
        }
    }
}

/* Takes ACK: the runs whose reports it names are done with, and freed. An acknowledgement of an
 * earlier attempt's report ends nothing. */
void
cadre_worker_runs_on_ack(cadre_worker_runs_t *self, const cadre_ack_message_t *ack)
{
    const cadre_acknowledged_list_t reports = cadre_acknowledged_list_view(&ack->reports);
    for (size_t i = 0; i < reports.count; i++) {
        const cadre_acknowledged_t *report = &reports.items[i];
        cadre_run_t *run = cadre_u64_map_get(&self->runs, report->closure);
        if (run && run->state == CADRE_RUN_REPORTING && run->attempt == report->attempt) {
            cadre_worker_reports_acknowledged(self->reports, run);
            forget(self, run);
        }
    }
}

/* --- what is gone --- */

/* Returns whether the run needs the function with this id. */
static bool
names_function(const cadre_run_t *run, uint64_t id)
{
    return run->call.message.closure.function == id;
}

/* Returns whether the run uses the resource with this id, or builds it. */
static bool
names_resource(const cadre_run_t *run, uint64_t id)
{
    const cadre_u64s_t *used = &run->call.message.closure.resources;
    for (size_t i = 0; i < used->count; i++) {
        if (used->items[i] == id) {
            return true;
        }
    }
    return run->call.builds && run->call.builds->message.resource.id == id;
}

/* Returns whether any run does so. */
static bool
is_named(const cadre_worker_runs_t *self, bool (*names)(const cadre_run_t *run, uint64_t id),
         uint64_t id)
{
    const cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        if (names(run, id)) {
            return true;
        }
    }
    return false;
}

/* Frees the functions and resources that no closure may name any more, unless a run of a closure
 * that has ended elsewhere still does. */
void
cadre_worker_runs_release_leaving(cadre_worker_runs_t *self)
{
    cadre_leaving_t *functions = &self->directory->functions_leaving;
    for (size_t i = functions->count; i > 0; i--) {
        const uint64_t id = functions->ids[i - 1];
        if (!is_named(self, names_function, id)) {
            cadre_directory_remove_function(self->directory, id);
        }
    }

    cadre_leaving_t *resources = &self->directory->resources_leaving;
    for (size_t i = resources->count; i > 0; i--) {
        const uint64_t id = resources->ids[i - 1];
        if (!is_named(self, names_resource, id)) {
            cadre_worker_builds_release(cadre_directory_remove_resource(self->directory, id),
                                        self->effects);
        }
    }
}
