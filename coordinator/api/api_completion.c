/* The public calls of completion queues. */
#include <cadre/completion.h>

#include "common/base/status.h"
#include "coordinator/api/future.h"
#include "coordinator/completion.h"
#include "coordinator/coordinator.h"

int
cadre_completion_create(cadre_coordinator_t *coordinator, cadre_completion_t **completion)
{
    if (completion) {
        *completion = cadre_completion_new(coordinator->gate, coordinator);
    }
    return 0;
}

/* Destroys a completion queue; the futures in it stay the caller's. */
void
cadre_completion_destroy(cadre_completion_t **self_p)
{
    cadre_completion_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return;
    }

    *self_p = NULL;
    cadre_gate_t *gate = self->gate;
    cadre_gate_lock(gate);
    cadre_completion_free(self);
    cadre_gate_unlock(gate);
    cadre_gate_unref(&gate);
}

static int
check(const cadre_completion_t *self)
{
    return self ? 0 : cadre_fail(CADRE_EINVALID, "this is no completion queue: NULL");
}

/* Adds a future to the queue. */
int
cadre_completion_add(cadre_completion_t *self, cadre_future_t *future)
{
    int status = check(self);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    status = cadre_future_add_to(future, self);
    cadre_gate_unlock(self->gate);
    return status;
}

/* Fails with a status that ended a wait, under the gate's lock: the text of a timeout names the
 * closure of the future that was added first. */
static int
fail_waiting(const cadre_completion_t *self, int status)
{
    const cadre_completion_entry_t *first = self->waiting.first;
    return self->gate->closed || !first
               ? status
               : cadre_coordinator_fail_waiting(self->coordinator, first->future->closure, status);
}

/* Waits, under the gate's lock, until the closure of a future in the queue has ended, and takes
 * that future out. A queue may outlive its coordinator: once the gate is closed only the gate is
 * touched. */
static int
next(cadre_completion_t *self, int64_t deadline_ms, cadre_future_t **future)
{
    int64_t since_ms = 0;
    cadre_future_t *found = cadre_completion_pop(self);
    while (!found) {
        if (self->waiting.count == 0) {
            return cadre_fail(CADRE_ENOTFOUND, "there is no future in the completion queue");
        }
        int status = self->gate->closed
                         ? cadre_gate_wait(self->gate, deadline_ms)
                         : cadre_coordinator_wait_while_usable(self->coordinator, deadline_ms,
                                                               "a closure", &since_ms);
        if (status < 0) {
            return fail_waiting(self, status);
        }
        found = cadre_completion_pop(self);
    }

    *future = found;
    return 0;
}

/* Takes the future whose closure ended first, waiting for one. Only if it has to wait does the
 * synchronous step that is being filled end with the closures it has: the caller schedules no more
 * while it waits. */
int
cadre_completion_next(cadre_completion_t *self, cadre_future_t **future, int64_t timeout_ms)
{
    int status = check(self);
    if (status < 0) {
        return status;
    }
    if (!future) {
        return cadre_fail(CADRE_EINVALID, "there is nowhere to put the future: NULL");
    }

    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    if (timeout_ms != 0 && self->finished.count == 0 && !self->gate->closed) {
        cadre_coordinator_cut_step_short(self->coordinator);
    }
    status = next(self, deadline_ms, future);
    cadre_gate_unlock(self->gate);
    return status;
}

/* Gives the descriptor that is readable while a future can be taken without waiting. */
int
cadre_completion_fd(cadre_completion_t *self, int *fd)
{
    int status = check(self);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    status = cadre_completion_ensure_fd(self);
    if (status == 0 && fd) {
        *fd = self->fd;
    }
    cadre_gate_unlock(self->gate);
    return status;
}

/* Returns how many futures are in the queue. */
size_t
cadre_completion_count(cadre_completion_t *self)
{
    if (!self) {
        return 0;
    }
    cadre_gate_lock(self->gate);
    size_t count = self->waiting.count + self->finished.count;
    cadre_gate_unlock(self->gate);
    return count;
}
