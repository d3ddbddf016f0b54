#include "coordinator/coordinator.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "coordinator/core/dispatch/waiting.h"
#include "coordinator/event_fd.h"

enum { WAITING_LOG_MS = 5000 };

/* Name of the lock file in the checkpoint directory. */
static const char LOCK_NAME[] = "coordinator.lock";

int
cadre_coordinator_usable(cadre_coordinator_t *self)
{
    if (self->core.fatal) {
        return cadre_fail(self->core.fatal, "%s", self->core.fatal_text);
    }
    return 0;
}

/* Waits for a change that the question is about (NULL: any), under the lock. Logs what is waited
 * for each WAITING_LOG_MS, counted by the caller's *since_ms, which is 0 at first. */
int
cadre_coordinator_wait_until(cadre_coordinator_t *self, int64_t deadline_ms, const char *what,
                             int64_t *since_ms, cadre_gate_question_t *question)
{
    int64_t now_ms = cadre_clock_now_ms();
    char text[CADRE_WAITING_TEXT_SIZE];

    /* tells what the whole job waits for, if there is such a thing, instead of `what` */
    what = cadre_waiting_words(&self->core.waiting, what, text);
    if (*since_ms == 0) {
        *since_ms = now_ms;
    } else if (now_ms - *since_ms >= WAITING_LOG_MS) {
        *since_ms = now_ms;
        if (deadline_ms == INT64_MAX) {
            cadre_effects_log(&self->core.effects, 'I', "waiting",
                              "for=\"%s\" ps=%u workers=%u queued=%zu in_flight=%zu limit=none",
                              what, self->core.membership.ps_joined,
                              self->core.membership.worker_count,
                              cadre_closure_queue_all_waiting(&self->core.queue),
                              cadre_closure_queue_all_in_flight(&self->core.queue));
        } else {
            cadre_effects_log(
                &self->core.effects, 'I', "waiting",
                "for=\"%s\" ps=%u workers=%u queued=%zu in_flight=%zu left_ms=%" PRId64, what,
                self->core.membership.ps_joined, self->core.membership.worker_count,
                cadre_closure_queue_all_waiting(&self->core.queue),
                cadre_closure_queue_all_in_flight(&self->core.queue), deadline_ms - now_ms);
        }
    }

    int status = cadre_gate_wait_until(self->gate, deadline_ms, question);
    return status < 0 ? cadre_fail_within(status, "waiting for %s", what) : 0;
}

int
cadre_coordinator_wait(cadre_coordinator_t *self, int64_t deadline_ms, const char *what,
                       int64_t *since_ms)
{
    return cadre_coordinator_wait_until(self, deadline_ms, what, since_ms, NULL);
}

int
cadre_coordinator_wait_while_usable(cadre_coordinator_t *self, int64_t deadline_ms,
                                    const char *what, int64_t *since_ms)
{
    int status = cadre_coordinator_usable(self);
    if (status < 0) {
        return status;
    }
    return cadre_coordinator_wait(self, deadline_ms, what, since_ms);
}

/* Under the lock: waits until an assignment may be made. It is kept, to be repeated when a shard is
 * restored (docs/protocol.md, I3). While so much is kept that new closures wait for a checkpoint
 * (`replay.holds`), it waits too; and while it would come before closures of an open cut. */
int
cadre_coordinator_await_room(cadre_coordinator_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    const cadre_core_t *core = &self->core;
    while (core->replay.holds || !cadre_checkpoint_may_assign(&core->checkpoint)) {
        const char *what =
            core->replay.holds ? "room for a replay" : "closures of a checkpoint to be handed out";
        int status = cadre_coordinator_wait_while_usable(self, deadline_ms, what, &since_ms);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Returns `status`; where it is a timeout, the error text is made to name the closures that have
 * not ended. */
int
cadre_coordinator_fail_unended(cadre_coordinator_t *self, const cadre_waited_t *waited, int status)
{
    if (status != CADRE_ETIMEOUT) {
        return status;
    }
    char before[CADRE_WAITING_TEXT_SIZE];
    char closures[CADRE_WAITING_CLOSURES_SIZE];
    snprintf(before, sizeof(before), "%s", cadre_error_text());
    cadre_waiting_closures(&self->core.waiting, waited, (uint64_t)cadre_clock_now_ms(), closures);
    return cadre_fail(status, "%s: %s", before, closures);
}

int
cadre_coordinator_fail_waiting(cadre_coordinator_t *self, const cadre_closure_t *closure,
                               int status)
{
    if (status != CADRE_ETIMEOUT) {
        return status;
    }
    char before[CADRE_WAITING_TEXT_SIZE];
    char words[CADRE_WAITING_CLOSURE_SIZE];
    snprintf(before, sizeof(before), "%s", cadre_error_text());
    cadre_waiting_closure(&self->core.waiting, closure, (uint64_t)cadre_clock_now_ms(), words);
    return cadre_fail(status, "%s: %s", before, words);
}

/* Waits until every request of the operation is answered. Gives the operation up when the wait
 * fails. */
int
cadre_coordinator_await(cadre_coordinator_t *self, cadre_operation_t *operation,
                        int64_t deadline_ms, const char *what)
{
    int64_t since_ms = 0;
    while (operation->pending > 0) {
        int status = cadre_coordinator_wait_while_usable(self, deadline_ms, what, &since_ms);
        if (status < 0) {
            cadre_operations_give_up(&self->core.operations, operation);
            return status;
        }
    }

    return operation->status < 0 ? cadre_fail(operation->status, "%s: %s", what, operation->text)
                                 : 0;
}

/* Takes the lock of the checkpoint directory, or makes sure that it is still held. */
int
cadre_coordinator_lock_checkpoints(cadre_coordinator_t *self)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", self->checkpoint_dir, LOCK_NAME);
    cadre_auto(cadre_free) char *what =
        cadre_asprintf("the checkpoint directory %s", self->checkpoint_dir);
    cadre_lock_file_t *lock = &self->checkpoint_lock;
    return lock->path ? cadre_lock_file_keep(lock, what, self->job)
                      : cadre_lock_file_open(lock, path, what, self->job);
}

/* Lets the synchronous step under way end with the closures that it has; the actor is woken to act
 * on that. */
void
cadre_coordinator_cut_step_short(cadre_coordinator_t *self)
{
    if (self->core.options.consistency != CADRE_SYNC) {
        return;
    }
    cadre_closure_queue_cut_short(&self->core.queue);
    cadre_gate_unlock_and_wake(self->gate);
    cadre_gate_lock(self->gate);
}

/* Tells futures that their closures have ended, by their descriptors and completion queues. */
void
cadre_coordinator_tell_ended(cadre_coordinator_t *self)
{
    cadre_results_t *results = NULL;
    while ((results = cadre_effects_take_ended(&self->core.effects))) {
        if (results->future) {
            cadre_event_fd_set(results->future->fd);
            cadre_completion_finish(&results->future->entry);
        }
        cadre_results_unref(&results);
    }
}
