/*
 * reports - what workers say of their closures, and what becomes of those of a worker that goes.
 *
 * Closures of a worker that is lost go back to the front of the queue under the same ids; the first
 * attempt to report ends a closure, whichever it is - unless the attempt began before a shard was
 * restored (closure->stale): what it pushed may be lost, so the closure runs again. Closures that
 * have ended and are kept for a replay (coordinator/core/shards/replay.h) take the same way, but
 * their end is not told again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/core/coordinator_core.h"

enum {
    RESEND_CLOSURE_MS = 3000,  /* not heard of by then: it is sent again */
    REST_MS = 1000,            /* no new work for a worker that could not do what it had */
    ACKS_WAIT_MAX = 256,       /* reports that are acknowledged later, together */
    TOTAL_US_MAX = 1000000000, /* a closure that takes longer says no more of a worker's rate */
};

static void
acknowledge(cadre_member_t *member, uint64_t id, uint64_t attempt)
{
    if (member->ack_items + 2 > member->ack_capacity) {
        member->ack_capacity = member->ack_capacity ? 2 * member->ack_capacity : 64;
        member->acks = cadre_realloc(member->acks, member->ack_capacity, sizeof(*member->acks));
    }
    member->acks[member->ack_items++] = id;
    member->acks[member->ack_items++] = attempt;
}

/* The last ACK answers a HEARTBEAT, if one has come: what the worker reported before it, and is not
 * acknowledged by then, never came. */
void
cadre_dispatch_send_acks(cadre_core_t *self, cadre_member_t *member)
{
    size_t at = 0;
    while (at < member->ack_items || member->ack_due) {
        size_t items = member->ack_items - at;
        items = items < CADRE_HELD_MAX ? items : CADRE_HELD_MAX;
        cadre_message_t message = cadre_effects_message(&self->effects, CADRE_MESSAGE_ACK);
        bool is_last = at + items == member->ack_items;
        message.request = is_last ? member->ack_request : 0;
        message.ack.reports = (cadre_u64s_t){items > 0 ? member->acks + at : NULL, items};
        cadre_effects_send(&self->effects, &member->task, &message);
        member->ack_due = false;
        at += items;
    }
    member->ack_items = 0;
    member->ack_request = 0;
}

/* Whether its reports are to be acknowledged now. While a worker runs more of its closures that can
 * wait: the ACK travels with the next ones, or answers the next HEARTBEAT, before which the worker
 * repeats nothing. */
static bool
is_ack_due(const cadre_core_t *self, const cadre_member_t *member)
{
    return member->ack_due || self->stopping || member->draining || member->in_flight.count == 0 ||
           member->ack_items >= 2 * ACKS_WAIT_MAX;
}

void
cadre_dispatch_acknowledge(cadre_core_t *self)
{
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        cadre_member_t *member = self->membership.workers[i];
        if (member && is_ack_due(self, member)) {
            cadre_dispatch_send_acks(self, member);
        }
    }
}

static void
tell_cancel(cadre_core_t *self, const cadre_member_t *member, const uint64_t *ids, size_t count)
{
    for (size_t at = 0; at < count; at += CADRE_HELD_MAX) {
        size_t items = count - at < CADRE_HELD_MAX ? count - at : CADRE_HELD_MAX;
        cadre_message_t message = cadre_effects_message(&self->effects, CADRE_MESSAGE_CANCEL);
        message.cancel.ids = (cadre_u64s_t){ids + at, items};
        cadre_effects_send(&self->effects, &member->task, &message);
    }
}

/* Ends a closure, wherever it is. */
static void
finish(cadre_core_t *self, cadre_closure_t *closure, const cadre_member_t *reporter,
       const cadre_closure_end_t *end)
{
    cadre_member_t *holder = closure->state == CADRE_CLOSURE_IN_FLIGHT ? closure->worker : NULL;
    if (holder) {
        cadre_closure_list_remove(&holder->in_flight, closure);
        if (holder != reporter) {
            tell_cancel(self, holder, &closure->id, 1);
        }
    }
    if (end->status == 0) {
        self->totals.finished++;
    } else if (end->status != CADRE_ECANCELLED) {
        self->totals.failed++;
        if (closure->id == 0) {
            cadre_begun_note_refused(&self->begun);
        }
    }
    closure->worker = NULL;
    cadre_effects_note_progress(&self->effects);
    cadre_closure_queue_finish(&self->queue, closure, end);
}

/* Begun, and to be ended or run again; NULL for one that is done with. */
static cadre_closure_t *
find(const cadre_core_t *self, uint64_t id)
{
    cadre_closure_t *closure = cadre_begun_find(&self->begun, id);
    return closure ? closure : cadre_replay_find(&self->replay, id);
}

/* Takes a closure off its worker. */
static void
leave_worker(cadre_core_t *self, cadre_closure_t *closure)
{
    cadre_closure_list_remove(&closure->worker->in_flight, closure);
    closure->worker = NULL;
    cadre_apart_end_trial(&self->apart, closure);
    cadre_effects_note_progress(&self->effects);
}

/* Gives a closure in flight back to whoever handed it out, who may end it. */
static void
put_back(cadre_core_t *self, cadre_closure_t *closure)
{
    leave_worker(self, closure);
    if (closure->kept) {
        cadre_replay_put_back(&self->replay, closure);
    } else {
        cadre_closure_queue_put_back(&self->queue, closure);
    }
}

/* The same, but it waits until a shard is back. */
static void
put_aside(cadre_core_t *self, cadre_closure_t *closure)
{
    leave_worker(self, closure);
    if (closure->kept) {
        cadre_replay_put_aside(&self->replay, closure);
    } else {
        cadre_closure_queue_put_aside(&self->queue, closure);
    }
}

void
cadre_dispatch_put_back(cadre_core_t *self, cadre_closure_t *closure)
{
    put_back(self, closure);
}

void
cadre_dispatch_tell_cancel(cadre_core_t *self, const cadre_member_t *member, uint64_t id)
{
    tell_cancel(self, member, &id, 1);
}

static bool
is_on(const cadre_closure_t *closure, const cadre_member_t *member, uint64_t attempt)
{
    return closure->state == CADRE_CLOSURE_IN_FLIGHT && closure->worker == member &&
           closure->attempt == attempt;
}

/* A kept closure has run again. */
static void
finish_again(cadre_core_t *self, cadre_closure_t *closure)
{
    if (closure->state == CADRE_CLOSURE_IN_FLIGHT) {
        leave_worker(self, closure);
        cadre_apart_forget(&self->apart, closure);
        cadre_replay_done(&self->replay, closure);
        self->totals.replayed++;
    }
}

/* Whether `member` was given this attempt of a closure that is not done with. Anything else it says
 * of it is refused: a report ends a closure, and only who ran it knows how. The first refusals are
 * logged, then ever fewer. */
static bool
may_report(cadre_core_t *self, cadre_member_t *member, const cadre_closure_t *closure,
           uint64_t attempt)
{
    if (cadre_closure_was_handed_to(closure, attempt, member->task.incarnation)) {
        return true;
    }
    self->totals.reports_refused++;
    member->refused++;
    if ((member->refused & (member->refused - 1)) == 0) {
        cadre_effects_log(&self->effects, 'W', "report_refused",
                          "worker=%u process=%u closure=%" PRIu64 " attempt=%" PRIu64
                          " refused=%" PRIu64 " why=\"this worker was not given that attempt\"",
                          member->index, member->process, closure->id, attempt, member->refused);
    }
    return false;
}

void
cadre_dispatch_done(cadre_core_t *self, cadre_member_t *member, const cadre_message_t *message)
{
    const cadre_closure_done_message_t *done = &message->closure_done;
    acknowledge(member, done->id, done->attempt);
    member->ack_due = member->ack_due || message->chunk_count > 0; /* it keeps the results */
    cadre_closure_t *closure = find(self, done->id);
    if (!closure || closure->state == CADRE_CLOSURE_ENDED ||
        !may_report(self, member, closure, done->attempt)) {
        return; /* ended before, or not its to end */
    }
    bool has_updates = done->updates + done->duplicates > 0;
    if (done->attempt <= closure->stale && has_updates) {
        if (is_on(closure, member, done->attempt)) {
            member->ended++;
            put_back(self, closure);
        }
        return;
    }
    member->ended++;
    member->credit_us += done->total_us < TOTAL_US_MAX ? done->total_us : TOTAL_US_MAX;
    if (closure->kept) {
        finish_again(self, closure);
    } else {
        finish(self, closure, member, &(cadre_closure_end_t){.message = message});
    }
}

static const char *
function_name(const cadre_core_t *self, const cadre_closure_t *closure)
{
    return self->catalogue.functions[closure->function - 1]->name;
}

void
cadre_dispatch_refuse(cadre_core_t *self, cadre_closure_t *closure, int status)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    snprintf(text, sizeof(text), "function %s: %.600s", function_name(self, closure),
             cadre_error_text());
    finish(self, closure, NULL, &(cadre_closure_end_t){.status = status, .text = text});
}

void
cadre_dispatch_give_up(cadre_core_t *self, cadre_closure_t *closure, int status, const char *why)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    snprintf(text, sizeof(text), "while it ran again for a shard that was restored: %.600s", why);
    cadre_effects_log(&self->effects, 'E', "replay_failed", "closure=%" PRIu64 " why=\"%.400s\"",
                      closure->id, why);
    cadre_apart_forget(&self->apart, closure);
    cadre_replay_drop(&self->replay, closure);
    cadre_closure_queue_report(&self->queue, status, text);
}

/* A closure in flight fails for good. One that had ended before fails nobody's wait, but the
 * updates that its shard lost are not there: that is an error of the job, raised like any other. */
static void
fail_for_good(cadre_core_t *self, cadre_closure_t *closure, const cadre_member_t *reporter,
              const cadre_closure_end_t *end)
{
    if (!closure->kept) {
        finish(self, closure, reporter, end);
        return;
    }
    leave_worker(self, closure);
    cadre_dispatch_give_up(self, closure, end->status, end->text);
}

void
cadre_dispatch_fail(cadre_core_t *self, cadre_closure_t *closure, int status, const char *text)
{
    fail_for_good(self, closure, NULL, &(cadre_closure_end_t){.status = status, .text = text});
}

/* Whether a closure that failed runs again. One on which devices fail does so a limited number of
 * times. */
static bool
returns(const cadre_closure_t *closure, const cadre_closure_failed_message_t *failed)
{
    return failed->reason == CADRE_FAILURE_RETURNED || failed->reason == CADRE_FAILURE_SHARD ||
           failed->reason == CADRE_FAILURE_UNABLE ||
           (failed->reason == CADRE_FAILURE_DEVICE &&
            closure->device_failures + 1 < CADRE_DEVICE_TRIES_MAX);
}

/* It needed a shard that is not there, was restored under it, or cannot be reached from there. */
static void
return_for_shard(cadre_core_t *self, cadre_member_t *member, cadre_closure_t *closure,
                 const cadre_closure_failed_message_t *failed)
{
    bool is_shard = failed->shard < self->options.ps_count;
    if (is_shard && !cadre_recovery_is_ready(&self->recovery, (uint32_t)failed->shard)) {
        put_aside(self, closure);
        return;
    }
    if (is_shard && failed->status == (uint64_t)-CADRE_ETIMEOUT) {
        cadre_reach_on_returned(self, member, closure, failed->shard);
    } else if (closure->attempt > closure->stale) {
        member->rest_until_ms =
            self->effects.now_ms + REST_MS; /* there is no reason that we know */
    }
    put_back(self, closure);
}

uint32_t
cadre_dispatch_failed(cadre_core_t *self, cadre_member_t *member,
                      const cadre_closure_failed_message_t *failed)
{
    acknowledge(member, failed->id, failed->attempt);
    member->ack_due = true;
    cadre_closure_t *closure = find(self, failed->id);
    if (!closure || closure->state == CADRE_CLOSURE_ENDED ||
        !may_report(self, member, closure, failed->attempt) ||
        !is_on(closure, member, failed->attempt)) {
        return 0; /* an attempt that no longer counts */
    }
    member->ended++;
    if (failed->reason == CADRE_FAILURE_RETURNED && failed->status == (uint64_t)-CADRE_ENOTFOUND) {
        cadre_dispatch_lacked(closure, member->task.incarnation);
    }
    if (failed->reason == CADRE_FAILURE_RETURNED && failed->status == (uint64_t)-CADRE_ECLOSED) {
        cadre_membership_drain(member, false); /* it would hand back whatever it is given */
    }
    if (failed->reason == CADRE_FAILURE_SHARD) {
        return_for_shard(self, member, closure, failed);
        return 0;
    }
    if (returns(closure, failed)) {
        if (failed->reason == CADRE_FAILURE_DEVICE) {
            closure->device_failures++;
            member->rest_until_ms = self->effects.now_ms + REST_MS;
        }
        uint32_t lacked = failed->reason == CADRE_FAILURE_UNABLE ? closure->function : 0;
        put_back(self, closure);
        return lacked;
    }
    char text[CADRE_CLOSURE_ERROR_SIZE];
    int status = failed->status ? -(int)failed->status : CADRE_EFUNCTION;
    snprintf(text, sizeof(text),
             "function %s, closure %" PRIu64 ", attempt %" PRIu64 ", worker %u: %s",
             function_name(self, closure), closure->id, closure->attempt, member->index,
             failed->text[0] ? failed->text : cadre_status_text(status));
    fail_for_good(self, closure, member, &(cadre_closure_end_t){.status = status, .text = text});
    return 0;
}

/* --- workers that go, and what they hold --- */

/* A closure that may have been running on a worker that died: it runs again, alone if it is
 * suspect, or ends when it is proved to have killed them. */
static void
lose_attempt(cadre_core_t *self, cadre_closure_t *closure, const cadre_member_t *member)
{
    cadre_suspicion_t *suspicion = &closure->suspicion;
    const cadre_death_t death =
        cadre_membership_death(&self->membership, member, closure->begun_ms, self->effects.now_ms);
    cadre_suspicion_add(suspicion, &death);
    if (!cadre_suspicion_is_proved(suspicion)) {
        if (cadre_suspicion_is_strong(suspicion)) {
            cadre_effects_log(
                &self->effects, 'W', "closure_suspect",
                "closure=%" PRIu64 " function=%s worker=%u process=%u deaths=%u "
                "expected=%.1f next=\"it runs alone, on another worker if there is one\"",
                closure->id, function_name(self, closure), member->index, member->process,
                suspicion->deaths, suspicion->expected);
            cadre_apart_add(&self->apart, closure);
        }
        put_back(self, closure);
        return;
    }
    char text[CADRE_CLOSURE_ERROR_SIZE];
    size_t length =
        (size_t)snprintf(text, sizeof(text),
                         "function %s, closure %" PRIu64 ": %u attempts died with their workers: ",
                         function_name(self, closure), closure->id, suspicion->deaths);
    cadre_suspicion_text(suspicion, text + length, sizeof(text) - length);
    const cadre_closure_end_t end = {.status = CADRE_EPOISON, .text = text};
    fail_for_good(self, closure, member, &end);
}

void
cadre_dispatch_lost(cadre_core_t *self, cadre_member_t *member, bool died)
{
    /* The newest first, so that at the front they come to stand in their old order. Only the
     * oldest, as many as there are slots, can have been running; the others are not to blame. */
    while (member->in_flight.last) {
        if (died && member->in_flight.count <= member->slots) {
            lose_attempt(self, member->in_flight.last, member);
        } else {
            put_back(self, member->in_flight.last);
        }
    }
}

static int
compare_ids(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

void
cadre_dispatch_compare(cadre_core_t *self, cadre_member_t *member, cadre_u64s_t held, bool all)
{
    uint64_t *ids = cadre_calloc(held.count, sizeof(*ids));
    uint64_t *strangers = cadre_calloc(held.count, sizeof(*strangers));
    size_t stranger_count = 0;
    for (size_t i = 0; i < held.count; i++) {
        ids[i] = held.items[i];
        cadre_closure_t *closure = find(self, ids[i]);
        if (all && closure &&
            cadre_suspicion_forgive(&closure->suspicion, member->task.incarnation) &&
            !cadre_suspicion_is_strong(&closure->suspicion)) {
            cadre_apart_acquit(&self->apart,
                               closure); /* cut off, not dead: the closure did not kill it */
        }
        /* One that is queued again may go on: the first attempt to report counts. */
        bool elsewhere =
            closure && closure->state == CADRE_CLOSURE_IN_FLIGHT && closure->worker != member;
        if (all && (!closure || elsewhere)) {
            strangers[stranger_count++] = ids[i];
        }
    }
    qsort(ids, held.count, sizeof(*ids), compare_ids);
    cadre_closure_t *next = NULL;
    for (cadre_closure_t *closure = member->in_flight.first; closure; closure = next) {
        next = closure->next;
        bool due = all || self->effects.now_ms >= closure->sent_ms + RESEND_CLOSURE_MS;
        if (!due || bsearch(&closure->id, ids, held.count, sizeof(*ids), compare_ids)) {
            continue;
        }
        if (closure->attempt <= closure->stale) {
            put_back(self, closure); /* it would only be found to be stale */
        } else {
            cadre_dispatch_send(self, member, closure);
        }
    }
    tell_cancel(self, member, strangers, stranger_count);
    free(ids);
    free(strangers);
}

void
cadre_dispatch_cancel(cadre_core_t *self)
{
    if (!self->queue.cancelling) {
        self->cancel_ms = 0;
        return;
    }
    if (self->cancel_ms && self->effects.now_ms < self->cancel_ms + self->options.resend_ms) {
        return;
    }
    self->cancel_ms = self->effects.now_ms ? self->effects.now_ms : 1;
    uint64_t *ids = cadre_calloc(self->begun.closures.count, sizeof(*ids));
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        const cadre_member_t *member = self->membership.workers[i];
        size_t count = 0;
        const cadre_closure_t *closure = member ? member->in_flight.first : NULL;
        for (; closure; closure = closure->next) {
            if (!closure->kept) {
                ids[count++] = closure->id;
            }
        }
        if (count > 0) {
            tell_cancel(self, member, ids, count);
        }
    }
    free(ids);
}
