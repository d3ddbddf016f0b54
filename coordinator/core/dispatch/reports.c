#include "coordinator/core/dispatch/reports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/core/dispatch/acks.h"
#include "coordinator/core/dispatch/overruns.h"

enum {
    RESEND_CLOSURE_MS = 3000, /* a closure that its worker does not name by then is sent again */
    /* For so long a worker that could not do what it had gets no new closures. */
    REST_MS = 1000,
    TOTAL_US_MAX = 1000000000, /* a longer closure is counted as so long in a worker's rate */
    HURRY_SIZE = 64 << 10,     /* bytes of results that are acknowledged at once */
};

void
cadre_reports_init(cadre_reports_t *self, const cadre_reports_links_t *links)
{
    *self = (cadre_reports_t){.links = *links};
}

/* --- which reports count --- */

/* Returns whether this attempt is the closure's attempt under way, on this worker. */
static bool
is_on(const cadre_closure_t *closure, const cadre_member_t *worker, uint64_t attempt)
{
    return closure->state == CADRE_CLOSURE_IN_FLIGHT && closure->worker == worker &&
           closure->attempt == attempt;
}

/* Returns whether the worker was given this attempt of the closure. Its report is refused
 * otherwise: a report ends a closure, and only a worker that ran it knows how it ended. The first
 * refusals are logged, then ever fewer (each power of two). */
static bool
may_report(cadre_reports_t *self, cadre_member_t *worker, const cadre_closure_t *closure,
           uint64_t attempt)
{
    if (cadre_closure_was_handed_to(closure, attempt, worker->task.incarnation)) {
        return true;
    }

    self->links.totals->reports_refused++;
    worker->refused++;
    if ((worker->refused & (worker->refused - 1)) == 0) {
        cadre_effects_log(self->links.effects, 'W', "report_refused",
                          "worker=%u process=%u closure=%" PRIu64 " attempt=%" PRIu64
                          " refused=%" PRIu64 " why=\"this worker was not given that attempt\"",
                          worker->index, worker->process, closure->id, attempt, worker->refused);
    }
    return false;
}

/* Returns the closure of a report that counts; NULL when the closure has ended or is held (an
 * attempt has reported its updates, which wait for the end of the step), or the worker may not
 * report it. */
static cadre_closure_t *
find_reported(cadre_reports_t *self, cadre_member_t *worker, uint64_t id, uint64_t attempt)
{
    cadre_closure_t *closure = cadre_attempts_find(self->links.attempts, id);
    if (!closure || closure->state == CADRE_CLOSURE_ENDED || closure->state == CADRE_CLOSURE_HELD ||
        !may_report(self, worker, closure, attempt)) {
        return NULL;
    }
    return closure;
}

/* --- attempts that ended well --- */

/* Takes a worker's report that an attempt has ended well. It is acknowledged in any case, so that
 * the worker repeats it no more; whether it counts is decided here. */
void
cadre_reports_on_done(cadre_reports_t *self, cadre_member_t *worker, const cadre_message_t *message)
{
    const cadre_closure_done_message_t *done = &message->closure_done;
    cadre_acks_add(worker, done->id, done->attempt);
    cadre_overruns_on_report(worker, done->id);
    if (cadre_message_chunks_size_bytes(message) >= HURRY_SIZE) {
        cadre_acks_hurry(worker); /* the worker keeps the results in memory until the ACK */
    }
    cadre_closure_t *closure = find_reported(self, worker, done->id, done->attempt);
    if (!closure) {
        return;
    }

    bool has_updates = done->updates + done->duplicates > 0;
    /* pushed before a shard was restored: the updates may be lost */
    bool is_stale = done->attempt <= closure->stale && has_updates;
    if (is_stale && !is_on(closure, worker, done->attempt)) {
        return; /* another attempt is under way: this one's end changes nothing */
    }
    worker->ended++;
    if (is_stale) {
        cadre_attempts_put_back(self->links.attempts, closure);
        return;
    }

    cadre_dispatcher_note_done(self->links.dispatcher, closure->function, done->total_us);
    worker->took_us += done->total_us < TOTAL_US_MAX ? done->total_us : TOTAL_US_MAX;
    if (is_on(closure, worker, done->attempt)) {
        cadre_backups_note_done(self->links.backups, worker, closure);
    }
    if (closure->kept) {
        cadre_attempts_finish_again(self->links.attempts, closure, worker);
        return;
    }
    if (done->updates > 0) {
        cadre_staleness_histogram_add(&self->staleness, done->staleness);
    }
    if (closure->in_step && has_updates) {
        cadre_steps_hold(self->links.steps, closure, worker, message);
        return;
    }
    const cadre_closure_end_t end = {.message = message};
    cadre_attempts_finish(self->links.attempts, closure, worker, &end);
}

/* --- attempts that failed --- */

/* Returns whether a closure that failed runs again: when it was handed back unrun, or its device
 * failed, which is tried a limited number of times. */
static bool
runs_again(const cadre_closure_t *closure, const cadre_closure_failed_message_t *failed)
{
    return failed->reason == CADRE_FAILURE_RETURNED || failed->reason == CADRE_FAILURE_UNABLE ||
           (failed->reason == CADRE_FAILURE_DEVICE &&
            closure->device_failures + 1 < CADRE_DEVICE_TRIES_MAX);
}

/* Gives the worker no new closures for REST_MS. */
static void
let_rest(const cadre_reports_t *self, cadre_member_t *worker)
{
    worker->rest_until_ms = self->links.effects->now_ms + REST_MS;
}

/* Takes a closure back which needed a shard that is away (it waits aside for it), was restored
 * meanwhile, or cannot be reached by this worker. */
static void
return_for_shard(cadre_reports_t *self, cadre_member_t *worker, cadre_closure_t *closure,
                 const cadre_closure_failed_message_t *failed)
{
    bool is_shard = failed->shard < self->links.options->ps_count;
    if (is_shard && !cadre_recovery_is_ready(self->links.recovery, (uint32_t)failed->shard)) {
        cadre_attempts_put_aside(self->links.attempts, closure);
        return;
    }

    if (is_shard && failed->status == (uint64_t)-CADRE_ETIMEOUT) {
        cadre_reach_on_returned(self->links.reach, worker, closure, failed->shard);
    } else if (closure->attempt > closure->stale) {
        /* No known cause: keeps the worker from handing closures back without a pause. */
        let_rest(self, worker);
    }
    cadre_attempts_put_back(self->links.attempts, closure);
}

/* Notes why a worker handed a closure back unrun: it lacks an argument's value, or it is
 * leaving. */
static void
note_returned(cadre_member_t *worker, cadre_closure_t *closure, uint64_t status)
{
    if (status == (uint64_t)-CADRE_ENOTFOUND) {
        cadre_closure_sender_note_lacked(closure, worker->task.incarnation);
    }
    if (status == (uint64_t)-CADRE_ECLOSED) {
        cadre_membership_drain(worker); /* the worker would hand back every closure that it is
                                         * given */
    }
}

/* Ends a closure with the worker's error, which is named with function, attempt and worker. */
static void
fail(cadre_reports_t *self, cadre_member_t *worker, cadre_closure_t *closure,
     const cadre_closure_failed_message_t *failed)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    int status = failed->status ? -(int)failed->status : CADRE_EFUNCTION;
    snprintf(text, sizeof(text),
             "function %s, closure %" PRIu64 ", attempt %" PRIu64 ", worker %u: %s",
             self->links.catalogue->functions[closure->function - 1]->name, closure->id,
             closure->attempt, worker->index,
             failed->text[0] ? failed->text : cadre_status_text(status));
    const cadre_closure_end_t end = {.status = status, .text = text};
    cadre_attempts_fail(self->links.attempts, closure, worker, &end);
}

/* Takes a worker's report that an attempt failed. Returns the function that the worker turns out to
 * lack; 0: none. */
uint32_t
cadre_reports_on_failed(cadre_reports_t *self, cadre_member_t *worker,
                        const cadre_closure_failed_message_t *failed)
{
    cadre_acks_add(worker, failed->id, failed->attempt);
    cadre_overruns_on_report(worker, failed->id);
    cadre_acks_hurry(worker);
    cadre_closure_t *closure = find_reported(self, worker, failed->id, failed->attempt);
    if (!closure || !is_on(closure, worker, failed->attempt)) {
        return 0; /* an attempt that no longer counts: the closure is elsewhere */
    }

    worker->ended++;
    if (failed->reason == CADRE_FAILURE_RETURNED) {
        note_returned(worker, closure, failed->status);
    }
    if (failed->reason == CADRE_FAILURE_SHARD) {
        return_for_shard(self, worker, closure, failed);
        return 0;
    }
    if (!runs_again(closure, failed)) {
        fail(self, worker, closure, failed);
        return 0;
    }

    if (failed->reason == CADRE_FAILURE_DEVICE) {
        closure->device_failures++;
        let_rest(self, worker);
    }
    uint32_t lacked = failed->reason == CADRE_FAILURE_UNABLE ? closure->function : 0;
    cadre_attempts_put_back(self->links.attempts, closure);
    return lacked;
}

/* --- closures that workers hold --- */

static int
compare_ids(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Takes back a death of this worker that was counted against a closure which it still holds: the
 * worker was cut off, not dead. */
static void
acquit(cadre_reports_t *self, cadre_closure_t *closure, const cadre_member_t *worker)
{
    if (cadre_suspicion_forgive(&closure->suspicion, worker->task.incarnation) &&
        !cadre_suspicion_is_strong(&closure->suspicion)) {
        cadre_apart_acquit(self->links.apart, closure);
    }
}

/* Tells a worker that says HELLO to stop closures that have ended or run elsewhere. A closure that
 * is queued again may go on: the first attempt to report counts. */
static void
cancel_strangers(cadre_reports_t *self, const cadre_member_t *worker, cadre_u64s_t held)
{
    uint64_t *strangers = cadre_calloc(held.count, sizeof(*strangers));
    size_t count = 0;
    for (size_t i = 0; i < held.count; i++) {
        const cadre_closure_t *closure = cadre_attempts_find(self->links.attempts, held.items[i]);
        bool is_elsewhere =
            closure && closure->state == CADRE_CLOSURE_IN_FLIGHT && closure->worker != worker;
        if (!closure || is_elsewhere) {
            strangers[count++] = held.items[i];
        }
    }
    cadre_closure_sender_cancel(self->links.sender, worker, strangers, count);
    free(strangers);
}

/* Sends the worker the closures that it should have and does not hold. `ids`: those that it holds,
 * sorted; `all`: also closures that were sent less than RESEND_CLOSURE_MS ago. */
static void
send_missing(cadre_reports_t *self, cadre_member_t *worker, cadre_u64s_t ids, bool all)
{
    uint64_t now_ms = self->links.effects->now_ms;
    cadre_closure_t *next = NULL;
    for (cadre_closure_t *closure = worker->in_flight.first; closure; closure = next) {
        next = closure->next;
        bool is_due = all || now_ms >= closure->sent_ms + RESEND_CLOSURE_MS;
        if (!is_due || bsearch(&closure->id, ids.items, ids.count, sizeof(uint64_t), compare_ids)) {
            continue;
        }
        if (closure->attempt <= closure->stale) {
            /* The attempt began before a shard was restored: its report would not count. */
            cadre_attempts_put_back(self->links.attempts, closure);
        } else {
            cadre_closure_sender_send(self->links.sender, worker, closure);
        }
    }
}

/* Compares the closures that a worker says it holds with those that it should have. `all`: the list
 * comes with a HELLO, so whatever differs counts at once. */
void
cadre_reports_on_held(cadre_reports_t *self, cadre_member_t *worker, cadre_u64s_t held, bool all)
{
    uint64_t *ids = cadre_calloc(held.count, sizeof(*ids));
    for (size_t i = 0; i < held.count; i++) {
        ids[i] = held.items[i];
        cadre_closure_t *closure = all ? cadre_attempts_find(self->links.attempts, ids[i]) : NULL;
        if (closure) {
            acquit(self, closure, worker);
        }
    }

    qsort(ids, held.count, sizeof(*ids), compare_ids);
    send_missing(self, worker, (cadre_u64s_t){ids, held.count}, all);
    if (all) {
        cancel_strangers(self, worker, held);
    }
    free(ids);
}
