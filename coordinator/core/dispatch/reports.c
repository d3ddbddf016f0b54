#include "coordinator/core/dispatch/reports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/core/dispatch/acks.h"
#include "coordinator/core/dispatch/overruns.h"

enum {
    RESEND_CLOSURE_MS = 3000,  /* not heard of by then: it is sent again */
    REST_MS = 1000,            /* no new work for a worker that could not do what it had */
    TOTAL_US_MAX = 1000000000, /* a closure that takes longer says no more of a worker's rate */
};

void
cadre_reports_init(cadre_reports_t *self, const cadre_reports_links_t *links)
{
    *self = (cadre_reports_t){.links = *links};
}

/* --- who may report --- */

static bool
is_on(const cadre_closure_t *closure, const cadre_member_t *worker, uint64_t attempt)
{
    return closure->state == CADRE_CLOSURE_IN_FLIGHT && closure->worker == worker &&
           closure->attempt == attempt;
}

/* Returns whether the worker was given this attempt of a closure that is not done with. Anything
 * else it says of it is refused: a report ends a closure, and only who ran it knows how. The first
 * refusals are logged, then ever fewer. */
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

/* Returns the closure of a report that counts, NULL when it has ended before or is not the worker's
 * to end. */
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

void
cadre_reports_on_done(cadre_reports_t *self, cadre_member_t *worker, const cadre_message_t *message)
{
    const cadre_closure_done_message_t *done = &message->closure_done;
    cadre_acks_add(worker, done->id, done->attempt);
    cadre_overruns_on_report(worker, done->id);
    if (message->chunk_count > 0) {
        cadre_acks_hurry(worker); /* it keeps the results until then */
    }
    cadre_closure_t *closure = find_reported(self, worker, done->id, done->attempt);
    if (!closure) {
        return;
    }

    bool has_updates = done->updates + done->duplicates > 0;
    bool is_stale = done->attempt <= closure->stale && has_updates;
    if (is_stale && !is_on(closure, worker, done->attempt)) {
        return; /* another attempt is under way */
    }
    worker->ended++;
    if (is_stale) {
        cadre_attempts_put_back(self->links.attempts, closure);
        return;
    }

    worker->took_us += done->total_us < TOTAL_US_MAX ? done->total_us : TOTAL_US_MAX;
    if (is_on(closure, worker, done->attempt)) {
        cadre_backups_note_done(self->links.backups, worker, closure);
    }
    if (closure->kept) {
        cadre_attempts_finish_again(self->links.attempts, closure, worker);
        return;
    }
    if (closure->in_step && has_updates) {
        cadre_steps_hold(self->links.steps, closure, worker, message);
        return;
    }
    const cadre_closure_end_t end = {.message = message};
    cadre_attempts_finish(self->links.attempts, closure, worker, &end);
}

/* --- attempts that failed --- */

/* Returns whether a closure that failed runs again. One on which devices fail does so a limited
 * number of times. */
static bool
runs_again(const cadre_closure_t *closure, const cadre_closure_failed_message_t *failed)
{
    return failed->reason == CADRE_FAILURE_RETURNED || failed->reason == CADRE_FAILURE_UNABLE ||
           (failed->reason == CADRE_FAILURE_DEVICE &&
            closure->device_failures + 1 < CADRE_DEVICE_TRIES_MAX);
}

static void
let_rest(const cadre_reports_t *self, cadre_member_t *worker)
{
    worker->rest_until_ms = self->links.effects->now_ms + REST_MS;
}

/* Puts a closure back that needed a shard which is not there, was restored under it, or cannot be
 * reached from this worker. */
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
        let_rest(self, worker); /* there is no reason that we know */
    }
    cadre_attempts_put_back(self->links.attempts, closure);
}

/* Takes what a worker that handed a closure back unrun says about itself. */
static void
note_returned(cadre_member_t *worker, cadre_closure_t *closure, uint64_t status)
{
    if (status == (uint64_t)-CADRE_ENOTFOUND) {
        cadre_closure_sender_note_lacked(closure, worker->task.incarnation);
    }
    if (status == (uint64_t)-CADRE_ECLOSED) {
        cadre_membership_drain(worker); /* it would hand back whatever it is given */
    }
}

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

uint32_t
cadre_reports_on_failed(cadre_reports_t *self, cadre_member_t *worker,
                        const cadre_closure_failed_message_t *failed)
{
    cadre_acks_add(worker, failed->id, failed->attempt);
    cadre_overruns_on_report(worker, failed->id);
    cadre_acks_hurry(worker);
    cadre_closure_t *closure = find_reported(self, worker, failed->id, failed->attempt);
    if (!closure || !is_on(closure, worker, failed->attempt)) {
        return 0; /* an attempt that no longer counts */
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

/* --- what workers hold --- */

static int
compare_ids(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Takes the death of this worker back, which was counted against a closure that it still holds: it
 * was cut off, not dead. */
static void
acquit(cadre_reports_t *self, cadre_closure_t *closure, const cadre_member_t *worker)
{
    if (cadre_suspicion_forgive(&closure->suspicion, worker->task.incarnation) &&
        !cadre_suspicion_is_strong(&closure->suspicion)) {
        cadre_apart_acquit(self->links.apart, closure);
    }
}

/* Tells a worker that says HELLO to stop what has ended or runs elsewhere. One that is queued again
 * may go on: the first attempt to report counts. */
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

/* Sends what the worker should have and does not hold; `ids` are sorted. */
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
            cadre_attempts_put_back(self->links.attempts, closure); /* it would be found stale */
        } else {
            cadre_closure_sender_send(self->links.sender, worker, closure);
        }
    }
}

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
