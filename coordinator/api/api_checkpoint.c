/* The public calls on checkpoints. */
#include <jansson.h>
#include <stdlib.h>

#include <cadre/coordinator.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/best_checkpoint.h"
#include "coordinator/coordinator.h"
#include "coordinator/core/checkpoint/checkpoint_words.h"

enum { COMMIT_WAIT_MS = 10000 }; /* how long cadre_checkpoint_last waits for a commit under way */

/* Fails with CADRE_EINVALID unless `progress` is NULL or the text of a JSON object. */
static int
check_progress(const char *progress)
{
    json_error_t error;
    json_t *object = progress ? json_loads(progress, JSON_REJECT_DUPLICATES, &error) : NULL;
    bool good = !progress || json_is_object(object);
    json_decref(object);
    return good ? 0 : cadre_fail(CADRE_EINVALID, "progress is no JSON object: %s", progress);
}

/* Under the lock: waits once for a change of the checkpoint under way; the log says what that waits
 * for. */
static int
wait_for_it(cadre_coordinator_t *self, int64_t deadline_ms, int64_t *since_ms)
{
    char waits[CADRE_CHECKPOINT_WAITS_SIZE];
    cadre_checkpoint_waits(&self->core.checkpoint, waits);
    cadre_auto(cadre_free) char *what =
        cadre_asprintf("a checkpoint%s%s", waits[0] ? ", which waits for " : "", waits);
    return cadre_coordinator_wait(self, deadline_ms, what, since_ms);
}

/* Under the lock: waits until no checkpoint is under way. */
static int
await_idle(cadre_coordinator_t *self, int64_t deadline_ms, int64_t *since_ms)
{
    while (self->core.checkpoint.state != CADRE_CHECKPOINT_IDLE) {
        int status = wait_for_it(self, deadline_ms, since_ms);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Under the lock: takes a checkpoint, and waits for its end. It is begun once no other is under
 * way, and has ended when the count of attempts, finished or failed, has gone up by one. */
static int
take(cadre_coordinator_t *self, const char *progress, int64_t deadline_ms, int64_t *since_ms)
{
    const cadre_checkpoint_t *state = &self->core.checkpoint;
    /* The cut of a checkpoint lies between two synchronous steps, so the step that is being filled
     * has to end: with the closures that it has. */
    cadre_coordinator_cut_step_short(self);
    int status = await_idle(self, deadline_ms, since_ms);
    if (status < 0) {
        return status;
    }

    status = cadre_coordinator_usable(self);
    if (status < 0) {
        return status;
    }

    status = cadre_checkpoint_begin(&self->core.checkpoint, progress);
    if (status < 0) {
        return status;
    }

    uint64_t mine = state->attempts + 1;
    while (state->attempts < mine) {
        status = wait_for_it(self, deadline_ms, since_ms);
        if (status < 0) {
            return status;
        }
    }

    if (state->last_status < 0) {
        return cadre_fail(state->last_status, "checkpoint: %s", state->last_text);
    }

    return 0;
}

/* Takes a checkpoint, and gives its id. One that failed because a ps was lost is taken again, until
 * the deadline. */
int
cadre_checkpoint_save(cadre_coordinator_t *self, const char *progress, int64_t timeout_ms,
                      uint64_t *checkpoint)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int64_t since_ms = 0;
    int status = check_progress(progress);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    const cadre_checkpoint_t *state = &self->core.checkpoint;
    do {
        status = take(self, progress, deadline_ms, &since_ms);
    } while (status == CADRE_EUNAVAILABLE && state->ps_lost && !self->core.fatal);

    if (status == 0 && checkpoint) {
        *checkpoint = state->last_id;
    }

    cadre_gate_unlock_and_wake(self->gate);
    return status;
}

/* Asks the callback that gets the cut alone. */
static char *
progress_at_cut(void *context, uint64_t cut, uint64_t of_clients)
{
    const cadre_coordinator_t *self = context;
    (void)of_clients;
    return self->on_progress(self->progress_context, cut);
}

/* Sets the callback that gives the progress record of automatic checkpoints. */
void
cadre_checkpoint_on_progress(cadre_coordinator_t *self, cadre_progress_callback_t callback,
                             void *context)
{
    cadre_gate_lock(self->gate);
    self->on_progress = callback;
    self->progress_context = context;
    cadre_checkpoint_ask_progress(&self->core.checkpoint, callback ? progress_at_cut : NULL, self);
    cadre_gate_unlock(self->gate);
}

/* Sets the callback that gets the cut, and how much of it is of clients. */
void
cadre_checkpoint_on_cut(cadre_coordinator_t *self, cadre_cut_callback_t callback, void *context)
{
    cadre_gate_lock(self->gate);
    cadre_checkpoint_ask_place(&self->core.checkpoint, callback, context);
    cadre_gate_unlock(self->gate);
}

/* Tells what the job was resumed from; false when it was not resumed. */
bool
cadre_checkpoint_resumed(const cadre_coordinator_t *self, const char **path, uint64_t *cut,
                         const char **progress)
{
    if (!self->resumed_path) {
        return false;
    }
    if (path) {
        *path = self->resumed_path;
    }
    if (cut) {
        *cut = self->resumed_cut;
    }
    if (progress) {
        *progress = self->resumed_progress;
    }

    return true;
}

uint64_t
cadre_checkpoint_next(const cadre_coordinator_t *self, uint64_t from)
{
    cadre_gate_lock(self->gate);
    uint64_t next = cadre_sequences_next(&self->resumed_sequences, from);
    cadre_gate_unlock(self->gate);
    return next;
}

int
cadre_checkpoint_mark_best(cadre_coordinator_t *self, uint64_t checkpoint)
{
    return cadre_best_checkpoint_mark(self, checkpoint);
}

char *
cadre_checkpoint_best(cadre_coordinator_t *self)
{
    return cadre_best_checkpoint_path(self);
}

/* Returns the path of the newest checkpoint that is committed, or was resumed. */
char *
cadre_checkpoint_last(cadre_coordinator_t *self)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(COMMIT_WAIT_MS);
    int64_t since_ms = 0;

    cadre_gate_lock(self->gate);
    /* The checkpoint that is being committed may be on disk by now: a caller that got the path of
     * the one before would find a newer one there. */
    while (self->core.checkpoint.state == CADRE_CHECKPOINT_COMMITTING &&
           cadre_coordinator_wait(self, deadline_ms, "a checkpoint's commit", &since_ms) == 0) {
    }

    const char *path = self->core.checkpoint.last_path;
    char *copy = path ? cadre_strdup(path) : NULL;

    cadre_gate_unlock(self->gate);
    return copy;
}
