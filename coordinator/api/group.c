/* The public calls of groups of closures. */
#include "coordinator/api/group.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/coordinator.h"
#include "coordinator/options.h"

struct cadre_group {
    cadre_gate_t *gate;
    cadre_coordinator_t *coordinator; /* valid while the gate is not closed */
    cadre_closure_group_t *closures;  /* shared with the closures of the group */
};

/* Makes an empty group; without `out` only checks the options. */
int
cadre_group_create(cadre_coordinator_t *coordinator, const cadre_group_options_t *given,
                   cadre_group_t **out)
{
    cadre_group_options_t options = cadre_group_options();
    int status =
        given ? cadre_options_take(given, &options, sizeof(options), "cadre_group_options_t") : 0;
    if (status < 0) {
        return status;
    }
    if (options.after_error != CADRE_GROUP_STOPS && options.after_error != CADRE_GROUP_GOES_ON) {
        return cadre_fail(CADRE_EINVALID, "after_error %d: CADRE_GROUP_STOPS or _GOES_ON",
                          (int)options.after_error);
    }
    if (!out) {
        return 0;
    }

    cadre_group_t *self = cadre_calloc(1, sizeof(*self));
    self->gate = cadre_gate_ref(coordinator->gate);
    self->coordinator = coordinator;
    self->closures = cadre_closure_group_new(options.after_error == CADRE_GROUP_GOES_ON);
    *out = self;
    return 0;
}

/* Destroys the handle of a group. Its closures go on, and keep the state of the group until the
 * last has ended; only their futures tell how they end. */
void
cadre_group_destroy(cadre_group_t **self_p)
{
    cadre_group_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return;
    }

    *self_p = NULL;
    cadre_gate_lock(self->gate);
    cadre_closure_group_forsake(self->closures);
    cadre_closure_group_unref(&self->closures);
    cadre_gate_unlock(self->gate);
    cadre_gate_unref(&self->gate);
    free(self);
}

/* Gives a reference to the state of the group that a call names: NULL for no group, an error for a
 * group of another coordinator. */
int
cadre_group_closures(const cadre_group_t *self, const cadre_coordinator_t *coordinator,
                     cadre_closure_group_t **out)
{
    *out = NULL;
    if (!self) {
        return 0;
    }
    if (self->gate != coordinator->gate) {
        return cadre_fail(CADRE_EINVALID, "this is no group of this coordinator");
    }

    *out = cadre_closure_group_ref(self->closures);
    return 0;
}

/* Raises the group's pending error, and wakes calls that wait: after it the group takes closures
 * again. */
int
cadre_group_raise(cadre_coordinator_t *coordinator, cadre_closure_group_t *closures)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    int status = cadre_closure_queue_raise_of(closures, text);
    if (status == 0 || status == CADRE_EAGAIN) {
        return status;
    }
    cadre_gate_broadcast(coordinator->gate);
    return cadre_fail(status, "%s", text);
}

static int
check(const cadre_group_t *self)
{
    return self ? 0 : cadre_fail(CADRE_EINVALID, "this is no group: NULL");
}

/* Waits, under the gate's lock, for the next change. A group may outlive its coordinator, which is
 * not touched once the gate is closed: cadre_gate_wait then says CADRE_ECLOSED. The text of a
 * timeout names closures of the group that have not ended. */
static int
wait(cadre_group_t *self, int64_t deadline_ms, const char *what, int64_t *since_ms)
{
    if (self->gate->closed) {
        return cadre_gate_wait(self->gate, deadline_ms);
    }
    int status =
        cadre_coordinator_wait_while_usable(self->coordinator, deadline_ms, what, since_ms);
    return self->gate->closed
               ? status
               : cadre_coordinator_fail_unended(self->coordinator,
                                                &(cadre_waited_t){.group = self->closures}, status);
}

/* Waits, under the gate's lock, until all closures that were scheduled before `barrier` have
 * ended. */
static int
wait_for(cadre_group_t *self, uint64_t barrier, int64_t deadline_ms, const char *what)
{
    int64_t since_ms = 0;
    while (!cadre_barriers_passed(&self->closures->barriers, barrier)) {
        int status = wait(self, deadline_ms, what, &since_ms);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Waits, under the gate's lock, until the updates of closures that have ended are on their shards:
 * closures that run again for a lost ps must have ended too (docs/protocol.md, I2). With a closed
 * gate, `wait` returns why. */
static int
wait_for_shards(cadre_group_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    while (self->gate->closed || !cadre_recovery_is_settled(&self->coordinator->core.recovery)) {
        int status = wait(self, deadline_ms, "closures to run again", &since_ms);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Joins the group, under the gate's lock: waits for its closures, then for their updates, and
 * raises the first error when cancelled closures have ended too. */
static int
join(cadre_group_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    uint64_t barrier = cadre_barriers_set(&self->closures->barriers);
    int status = wait_for(self, barrier, deadline_ms, "closures of a group to end");
    if (status < 0) {
        return status;
    }
    status = wait_for_shards(self, deadline_ms);
    if (status < 0) {
        return status;
    }

    status = cadre_group_raise(self->coordinator, self->closures);
    while (status == CADRE_EAGAIN) {
        status = wait(self, deadline_ms, "cancelled closures to end", &since_ms);
        if (status < 0) {
            return status;
        }
        status = cadre_group_raise(self->coordinator, self->closures);
    }

    return status;
}

/* Waits for the closures of the group scheduled so far, and raises their first error. The
 * synchronous step that is being filled ends with the closures it has: the caller schedules no more
 * while it waits. */
int
cadre_group_join(cadre_group_t *self, int64_t timeout_ms)
{
    int status = check(self);
    if (status < 0) {
        return status;
    }

    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    if (!self->gate->closed) {
        cadre_coordinator_cut_step_short(self->coordinator);
    }
    status = join(self, deadline_ms);
    cadre_gate_unlock(self->gate);
    return status;
}

/* Cancels, under the gate's lock, the closures of the group, tells the futures of those that were
 * queued, and waits until those that were handed out have ended. */
static int
cancel(cadre_group_t *self, int64_t deadline_ms)
{
    if (self->gate->closed) {
        return cadre_gate_wait(self->gate, deadline_ms);
    }

    cadre_core_cancel_group(&self->coordinator->core, self->closures);
    cadre_coordinator_tell_ended(self->coordinator);
    cadre_gate_broadcast(self->gate);
    uint64_t barrier = cadre_barriers_set(&self->closures->barriers);
    return wait_for(self, barrier, deadline_ms, "cancelled closures to end");
}

/* Cancels the closures of the group, and waits until none runs any more. */
int
cadre_group_cancel(cadre_group_t *self, int64_t timeout_ms)
{
    int status = check(self);
    if (status < 0) {
        return status;
    }

    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    status = cancel(self, deadline_ms);
    cadre_gate_unlock_and_wake(self->gate);
    return status;
}

/* Returns the group's counters; zeros for NULL. */
cadre_group_totals_t
cadre_group_totals(cadre_group_t *self)
{
    if (!self) {
        return (cadre_group_totals_t){.scheduled = 0};
    }
    cadre_gate_lock(self->gate);
    cadre_group_totals_t totals = self->closures->totals;
    cadre_gate_unlock(self->gate);
    return totals;
}
