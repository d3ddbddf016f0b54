#include "coordinator/core/dispatch/attempts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

void
cadre_attempts_init(cadre_attempts_t *self, const cadre_attempts_links_t *links)
{
    *self = (cadre_attempts_t){.links = *links};
}

static const char *
function_name(const cadre_attempts_t *self, const cadre_closure_t *closure)
{
    return self->links.catalogue->functions[closure->function - 1]->name;
}

/* --- the beginning --- */

/* Puts a closure in flight, before a worker gets it. Returns false when an argument's value cannot
 * be had: the closure has ended with that error. */
bool
cadre_attempts_take(cadre_attempts_t *self, cadre_closure_t *closure)
{
    /* the closure has ended before and runs again: its arguments are filled in already */
    if (closure->kept) {
        cadre_replay_take_out(self->links.replay, closure);
        return true;
    }

    int status = cadre_closure_take_values(closure);
    if (status < 0) {
        cadre_attempts_refuse(self, closure, status);
        return false;
    }
    cadre_closure_queue_begin(self->links.queue, closure);
    return true;
}

/* Gives a closure that has none its id. */
static void
give_id(cadre_attempts_t *self, cadre_closure_t *closure)
{
    cadre_begun_add(self->links.begun, closure);
    cadre_pace_note_begun(&self->links.queue->pace, closure->turn);
}

void
cadre_attempts_number(cadre_attempts_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->argument_count == 0);
    give_id(self, closure);
    cadre_closure_lanes_note_id(&self->links.queue->lanes, closure);
}

/* Begins an attempt on `worker` at a closure that was put in flight, and sends it. A closure gets
 * its id at its first attempt, unless it was numbered before. */
void
cadre_attempts_begin(cadre_attempts_t *self, cadre_member_t *worker, cadre_closure_t *closure)
{
    const cadre_attempts_links_t *links = &self->links;
    if (closure->id == 0) {
        give_id(self, closure);
    }
    if (closure->number == 0) {
        cadre_begun_hand_out(links->begun, closure);
    }
    cadre_closure_hand_to(closure, worker->task.incarnation);
    closure->worker = worker;
    closure->begun_ms = links->effects->now_ms;
    closure->is_running = false;
    closure->named_ms = 0;
    closure->missed = 0;

    links->totals->attempts++;
    links->of_clients->attempts += cadre_closure_is_of_client(closure);
    cadre_checkpoint_on_attempt(links->checkpoint, closure->id);
    cadre_closure_list_push(&worker->in_flight, closure);
    cadre_closure_sender_send(links->sender, worker, closure);
}

cadre_closure_t *
cadre_attempts_find(const cadre_attempts_t *self, uint64_t id)
{
    cadre_closure_t *closure = cadre_begun_find(self->links.begun, id);
    return closure ? closure : cadre_replay_find(self->links.replay, id);
}

/* --- the end of an attempt --- */

/* Ends the race of two attempts at a closure, if there is one: the attempt that goes on beside the
 * last one is not tracked any more. Unless it is cancelled it may end the closure still. */
static void
end_race(cadre_attempts_t *self, cadre_closure_t *closure)
{
    if (closure->raced != 0) {
        closure->raced = 0;
        self->racing--;
    }
}

/* Ends the race of a closure that `reporter` has ended, or that has ended without a report (NULL).
 * Cancels the earlier attempt, unless `reporter` has it; the backup is the closure's attempt under
 * way, which the caller ends. The backup has won when another than the holder of the earlier
 * attempt reports success, also where that holder is lost. */
static void
decide_race(cadre_attempts_t *self, cadre_closure_t *closure, const cadre_member_t *reporter,
            int status)
{
    if (closure->raced == 0) {
        return;
    }

    const cadre_member_t *first = cadre_membership_find(self->links.members, closure->raced);
    if (first && first != reporter) {
        cadre_closure_sender_cancel(self->links.sender, first, &closure->id, 1);
    }
    self->backups_won += status == 0 && reporter && reporter != first;
    end_race(self, closure);
}

/* Takes a closure off the list of its worker, which stops being reserved for it. */
static void
leave_worker(cadre_attempts_t *self, cadre_closure_t *closure)
{
    end_race(self, closure);
    cadre_closure_list_remove(&closure->worker->in_flight, closure);
    closure->worker = NULL;
    cadre_apart_end_trial(self->links.apart, closure);
    cadre_effects_note_progress(self->links.effects);
}

/* Takes a closure off its worker, to the front of what is handed out next. */
void
cadre_attempts_put_back(cadre_attempts_t *self, cadre_closure_t *closure)
{
    leave_worker(self, closure);
    if (closure->kept) {
        cadre_replay_put_back(self->links.replay, closure);
    } else {
        cadre_closure_queue_put_back(self->links.queue, closure);
    }
}

/* Takes a closure off its worker until the shard that it needs is back. */
void
cadre_attempts_put_aside(cadre_attempts_t *self, cadre_closure_t *closure)
{
    leave_worker(self, closure);
    if (closure->kept) {
        cadre_replay_put_aside(self->links.replay, closure);
    } else {
        cadre_closure_queue_put_aside(self->links.queue, closure);
    }
}

/* Takes a closure of a synchronous step off its worker and holds it until the step ends. `reporter`
 * has reported it; a worker that still runs it is asked to stop. */
void
cadre_attempts_hold(cadre_attempts_t *self, cadre_closure_t *closure,
                    const cadre_member_t *reporter)
{
    const cadre_member_t *holder =
        closure->state == CADRE_CLOSURE_IN_FLIGHT ? closure->worker : NULL;
    decide_race(self, closure, reporter, 0);
    if (holder) {
        leave_worker(self, closure);
    }
    if (holder && holder != reporter) {
        cadre_closure_sender_cancel(self->links.sender, holder, &closure->id, 1);
    }
    cadre_apart_forget(self->links.apart, closure);
    cadre_closure_queue_hold(self->links.queue, closure);
}

/* Begins a second attempt, on `other`: the closure is in flight there from now on. Of the first
 * attempt only its worker's incarnation is kept (`raced`), to cancel it with; its report counts as
 * that of any earlier attempt does. */
void
cadre_attempts_race(cadre_attempts_t *self, cadre_closure_t *closure, cadre_member_t *other)
{
    const uint64_t first = closure->worker->task.incarnation;
    leave_worker(self, closure);
    cadre_attempts_begin(self, other, closure);
    closure->raced = first;
    self->racing++;
    self->backups++;
}

void
cadre_attempts_move(cadre_attempts_t *self, cadre_closure_t *closure, cadre_member_t *other)
{
    cadre_closure_sender_cancel(self->links.sender, closure->worker, &closure->id, 1);
    leave_worker(self, closure);
    cadre_attempts_begin(self, other, closure);
}

/* --- the end of a closure --- */

/* Counts the end of a closure in the totals of the job; a cancelled one counts as neither finished
 * nor failed. */
static void
count_end(cadre_attempts_t *self, const cadre_closure_t *closure, int status)
{
    const bool is_of_client = cadre_closure_is_of_client(closure);
    if (status == 0) {
        self->links.totals->finished++;
        self->links.of_clients->finished += is_of_client;
        return;
    }
    if (status == CADRE_ECANCELLED) {
        return;
    }

    self->links.totals->failed++;
    self->links.of_clients->failed += is_of_client;
    /* the closure failed before it was begun */
    if (closure->id == 0) {
        cadre_begun_note_refused(self->links.begun);
    }
}

/* Ends a closure, whatever its state. `reporter` (NULL: none) has reported its end; a worker that
 * still runs it is asked to stop. */
void
cadre_attempts_finish(cadre_attempts_t *self, cadre_closure_t *closure,
                      const cadre_member_t *reporter, const cadre_closure_end_t *end)
{
    cadre_member_t *holder = closure->state == CADRE_CLOSURE_IN_FLIGHT ? closure->worker : NULL;
    decide_race(self, closure, reporter, end->status);
    if (holder) {
        cadre_closure_list_remove(&holder->in_flight, closure);
    }
    if (holder && holder != reporter) {
        cadre_closure_sender_cancel(self->links.sender, holder, &closure->id, 1);
    }
    closure->worker = NULL;

    count_end(self, closure, end->status);
    cadre_effects_note_progress(self->links.effects);
    cadre_closure_queue_finish(self->links.queue, closure, end);
}

/* Ends a closure that has run again for a replay, on the report of any attempt at it: the one under
 * way, or an earlier one whose worker was slow. Attempts that are left are cancelled. */
void
cadre_attempts_finish_again(cadre_attempts_t *self, cadre_closure_t *closure,
                            const cadre_member_t *reporter)
{
    if (closure->state != CADRE_CLOSURE_IN_FLIGHT) {
        return; /* an earlier attempt has reported its end already */
    }

    if (closure->worker != reporter) {
        cadre_closure_sender_cancel(self->links.sender, closure->worker, &closure->id, 1);
    }
    decide_race(self, closure, reporter, 0);
    leave_worker(self, closure);
    cadre_apart_forget(self->links.apart, closure);
    cadre_replay_done(self->links.replay, closure);
    self->links.totals->replayed++;
}

/* Ends a closure that cannot run, with `status` and this thread's error text. */
void
cadre_attempts_refuse(cadre_attempts_t *self, cadre_closure_t *closure, int status)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    snprintf(text, sizeof(text), "function %s: %.600s", function_name(self, closure),
             cadre_error_text());
    const cadre_closure_end_t end = {.status = status, .text = text};
    cadre_attempts_finish(self, closure, NULL, &end);
}

/* Ends the replay of a closure that had ended well but fails now: the updates that a restored shard
 * lacks become an error of its group. */
void
cadre_attempts_give_up(cadre_attempts_t *self, cadre_closure_t *closure, int status,
                       const char *why)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    snprintf(text, sizeof(text), "while it ran again for a shard that was restored: %.600s", why);
    cadre_effects_log(self->links.effects, 'E', "replay_failed",
                      "closure=%" PRIu64 " why=\"%.400s\"", closure->id, why);
    cadre_apart_forget(self->links.apart, closure);
    cadre_closure_queue_report(self->links.queue, closure->group, status, text);
    cadre_begun_note_failed(self->links.begun, closure);
    cadre_replay_drop(self->links.replay, closure);
}

/* Ends a closure that failed. A kept one, which has told its end before, makes an error of its
 * group. */
void
cadre_attempts_fail(cadre_attempts_t *self, cadre_closure_t *closure,
                    const cadre_member_t *reporter, const cadre_closure_end_t *end)
{
    if (!closure->kept) {
        cadre_attempts_finish(self, closure, reporter, end);
        return;
    }
    leave_worker(self, closure);
    cadre_attempts_give_up(self, closure, end->status, end->text);
}

/* --- workers that go --- */

/* Ends a closure that is proved to kill its workers, with their names in the error. */
static void
fail_as_poison(cadre_attempts_t *self, cadre_closure_t *closure, const cadre_member_t *worker)
{
    const cadre_suspicion_t *suspicion = &closure->suspicion;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    size_t length =
        (size_t)snprintf(text, sizeof(text),
                         "function %s, closure %" PRIu64 ": %u attempts died with their workers: ",
                         function_name(self, closure), closure->id, suspicion->deaths);
    cadre_suspicion_text(suspicion, text + length, sizeof(text) - length);
    const cadre_closure_end_t end = {.status = CADRE_EPOISON, .text = text};
    cadre_attempts_fail(self, closure, worker, &end);
}

/* Counts the death of a worker against a closure that may have been running there: it runs again,
 * alone if it is suspect, or ends when it is proved to have killed its workers. */
static void
lose_attempt(cadre_attempts_t *self, cadre_closure_t *closure, const cadre_member_t *worker)
{
    cadre_suspicion_t *suspicion = &closure->suspicion;
    const cadre_death_t death = cadre_membership_death(
        self->links.members, worker, closure->begun_ms, self->links.effects->now_ms);
    cadre_suspicion_add(suspicion, &death);
    if (cadre_suspicion_is_proved(suspicion)) {
        fail_as_poison(self, closure, worker);
        return;
    }

    if (cadre_suspicion_is_strong(suspicion)) {
        cadre_effects_log(self->links.effects, 'W', "closure_suspect",
                          "closure=%" PRIu64 " function=%s worker=%u process=%u deaths=%u "
                          "expected=%.1f next=\"it runs alone, on another worker if there is one\"",
                          closure->id, function_name(self, closure), worker->index, worker->process,
                          suspicion->deaths, suspicion->expected);
        cadre_apart_add(self->links.apart, closure);
    }
    cadre_attempts_put_back(self, closure);
}

/* Takes all closures off a worker that goes. If it died, the death counts against those that it may
 * have been running. */
void
cadre_attempts_lose(cadre_attempts_t *self, cadre_member_t *worker, bool died)
{
    /* The newest is put back first, so that all come to stand in their old order at the front of
     * the queue. Only the oldest, as many as the worker has slots, can have been running when it
     * died; the others are not to blame. */
    while (worker->in_flight.last) {
        if (died && worker->in_flight.count <= worker->slots) {
            lose_attempt(self, worker->in_flight.last, worker);
        } else {
            cadre_attempts_put_back(self, worker->in_flight.last);
        }
    }
}

/* --- cancelling --- */

/* Tells a worker to stop those of its closures that are being cancelled, except what runs again for
 * a replay: its updates are needed. `ids` is scratch space for as many ids as closures were
 * begun. */
static void
cancel_on(const cadre_attempts_t *self, const cadre_member_t *worker, uint64_t *ids)
{
    size_t count = 0;
    for (const cadre_closure_t *closure = worker->in_flight.first; closure;
         closure = closure->next) {
        if (!closure->kept && cadre_closure_queue_is_cancelled(self->links.queue, closure)) {
            ids[count++] = closure->id;
        }
    }
    cadre_closure_sender_cancel(self->links.sender, worker, ids, count);
}

/* Tells workers to stop closures that are being cancelled: at once for a new cancel, and again each
 * `resend_ms` until it is over, as a message may be lost. */
void
cadre_attempts_cancel(cadre_attempts_t *self)
{
    uint64_t now_ms = self->links.effects->now_ms;
    if (!cadre_closure_queue_is_cancelling(self->links.queue)) {
        self->cancel_ms = 0;
        return;
    }
    bool is_new = self->cancels != self->links.queue->cancels;
    if (!is_new && self->cancel_ms && now_ms < self->cancel_ms + self->links.options->resend_ms) {
        return;
    }

    /* 0 would mean that nothing is being cancelled */
    self->cancel_ms = now_ms ? now_ms : 1;
    self->cancels = self->links.queue->cancels;
    uint64_t *ids = cadre_calloc(self->links.begun->closures.count, sizeof(*ids));
    for (uint32_t i = 0; i < self->links.members->worker_capacity; i++) {
        if (self->links.members->workers[i]) {
            cancel_on(self, self->links.members->workers[i], ids);
        }
    }
    free(ids);
}

/* Takes all closures off all workers, when the core ends: those in flight go back to the queue,
 * which ends them. */
void
cadre_attempts_clear(cadre_attempts_t *self)
{
    cadre_member_t *member = NULL;
    for (size_t cursor = 0;
         (member = cadre_u64_map_next(&self->links.members->members, &cursor));) {
        while (member->in_flight.first) {
            cadre_closure_t *closure = member->in_flight.first;
            end_race(self, closure);
            cadre_closure_list_remove(&member->in_flight, closure);
            if (closure->kept) {
                cadre_replay_drop(self->links.replay, closure);
            } else {
                cadre_closure_queue_put_back(self->links.queue, closure);
            }
        }
    }
}
