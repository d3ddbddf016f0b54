/*
 * future - how a closure has ended, and its results, for the program that scheduled it.
 *
 * A future holds a reference to the results of its closure (coordinator/core/closures/results.h),
 * which say whether and how the closure has ended. The results point back to the future, so that
 * its descriptor can be made readable. Both are used only under the gate's lock. Tensors stay
 * encoded until they are fetched.
 */
#include "coordinator/api/future.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/coordinator.h"
#include "coordinator/event_fd.h"

/* Makes the future of a closure, whose results both share from now on. */
cadre_future_t *
cadre_future_new(cadre_coordinator_t *coordinator, cadre_closure_t *closure)
{
    cadre_future_t *self = cadre_calloc(1, sizeof(*self));
    self->gate = cadre_gate_ref(coordinator->gate);
    self->coordinator = coordinator;
    /* The closure is borrowed, until the results say that it has ended. */
    self->closure = closure;
    self->fd = -1;
    self->results = cadre_results_new();
    cadre_results_set_future(self->results, self);
    closure->results = cadre_results_ref(self->results);
    cadre_results_set_turn(self->results, closure->turn);
    return self;
}

/* Frees the memory of a future, which no results point to any more. */
static void
destroy(cadre_future_t *self)
{
    cadre_event_fd_close(self->fd);
    cadre_gate_unref(&self->gate);
    free(self);
}

cadre_results_t *
cadre_future_results(const cadre_future_t *self, const cadre_coordinator_t *coordinator)
{
    return self && self->gate == coordinator->gate ? self->results : NULL;
}

/* Destroys a future: takes it out of its completion queue, and tells a closure that still runs that
 * its results are not wanted, unless they are arguments of other closures. */
void
cadre_future_destroy(cadre_future_t **self_p)
{
    cadre_future_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return;
    }

    *self_p = NULL;
    cadre_gate_lock(self->gate);
    cadre_completion_leave(&self->entry);
    cadre_results_set_future(self->results, NULL);
    if (!self->results->ended) {
        /* References beside the closure's and this one are those of arguments of other closures. */
        self->closure->wants_results = self->results->references > 2;
    }

    cadre_results_unref(&self->results);
    cadre_gate_unlock(self->gate);
    destroy(self);
}

/* Under the lock: notes that the caller is about to wait for the closure's end. It schedules
 * nothing meanwhile, so the synchronous step that is being filled must not wait for more closures.
 * A caller that only looks (a timeout of 0) may do so at any time, and changes no step. */
static void
expect_end(cadre_future_t *self, int64_t timeout_ms)
{
    if (timeout_ms != 0 && !self->results->ended && !self->gate->closed) {
        cadre_coordinator_cut_step_short(self->coordinator);
    }
}

/* Under the lock: returns whether the future's closure has ended, or never will. */
static bool
is_over(const void *context)
{
    const cadre_future_t *self = context;
    return self->results->ended || self->coordinator->core.fatal < 0;
}

/* Under the lock: waits until the closure has ended; returns 0 or the status with which it failed.
 * A future outlives its coordinator: once the gate is closed only the gate is touched. */
static int
wait_locked(cadre_future_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    while (!self->results->ended) {
        int status = self->gate->closed ? cadre_gate_wait(self->gate, deadline_ms)
                                        : cadre_coordinator_usable(self->coordinator);
        if (status < 0) {
            return status;
        }
        cadre_gate_question_t question = {.is_over = is_over, .context = self};
        status = cadre_coordinator_wait_until(self->coordinator, deadline_ms, "a closure",
                                              &since_ms, &question);
        if (status < 0) {
            return self->gate->closed || self->results->ended
                       ? status
                       : cadre_coordinator_fail_waiting(self->coordinator, self->closure, status);
        }
    }

    const cadre_results_t *results = self->results;
    return results->status < 0 ? cadre_fail(results->status, "%s", results->text) : 0;
}

static int
check(const cadre_future_t *self)
{
    return self ? 0 : cadre_fail(CADRE_EINVALID, "this is no future: NULL");
}

/* Waits for the end of the closure; returns how it ended. */
int
cadre_future_wait(cadre_future_t *self, int64_t timeout_ms)
{
    int status = check(self);
    if (status < 0) {
        return status;
    }
    cadre_gate_lock(self->gate);
    expect_end(self, timeout_ms);
    status = wait_locked(self, cadre_gate_deadline_ms(timeout_ms));
    cadre_gate_unlock(self->gate);
    return status;
}

/* Waits for the end of the closure, and copies one of its results into `value`. */
int
cadre_future_fetch(cadre_future_t *self, const char *name, cadre_tensor_t *value,
                   int64_t timeout_ms)
{
    cadre_auto(cadre_tensor_list_fini) cadre_tensor_list_t list = {.count = 0};
    size_t position = 0;
    int status = check(self);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    expect_end(self, timeout_ms);
    status = wait_locked(self, cadre_gate_deadline_ms(timeout_ms));
    cadre_gate_unlock(self->gate);
    if (status < 0) {
        return status;
    }

    /* The results have ended and never change: no lock. */
    status = cadre_results_find(self->results, name, &position);
    if (status < 0) {
        return status;
    }

    status = cadre_tensor_list_part(&self->results->tensors, position, &list);
    if (status < 0) {
        return status;
    }

    /* A tensor is decoded from the chunks of a message; the list is that of one tensor. */
    cadre_message_t message = {.chunks = list.chunks, .chunk_count = list.chunk_count};
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    status = cadre_tensor_list_decode(cadre_tensor_list_items(&list), &message,
                                      CADRE_RESULT_SIZE_MAX, &tensors, &count);
    if (status == 0 && value) {
        cadre_tensor_fini(value);
        *value = tensors[0];
        tensors[0] = (cadre_tensor_t){0};
    }

    cadre_tensors_fini(&tensors, count);
    return status;
}

/* Fetches a result of one element as a number. */
int
cadre_future_fetch_number(cadre_future_t *self, const char *name, double *number,
                          int64_t timeout_ms)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
    int status = cadre_future_fetch(self, name, &value, timeout_ms);
    if (status < 0) {
        return status;
    }
    return cadre_tensor_number(&value, number);
}

/* Waits for all futures, within one deadline; returns the first failure in their order. */
int
cadre_future_wait_all(cadre_future_t *const *futures, size_t count, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    for (size_t i = 0; i < count; i++) {
        if (!futures || !futures[i]) {
            return cadre_fail(CADRE_EINVALID, "future %zu of %zu is NULL", i, count);
        }
    }

    for (size_t i = 0; i < count; i++) {
        cadre_gate_lock(futures[i]->gate);
        expect_end(futures[i], timeout_ms);
        int status = wait_locked(futures[i], deadline_ms);
        cadre_gate_unlock(futures[i]->gate);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* Under the lock: opens the future's descriptor at its first use; it is readable if the closure has
 * ended. */
static int
ensure_fd(cadre_future_t *self)
{
    if (self->fd >= 0) {
        return 0;
    }

    int status = cadre_event_fd_open(&self->fd);
    if (status < 0) {
        return status;
    }
    if (self->results->ended) {
        cadre_event_fd_set(self->fd);
    }

    return 0;
}

/* Gives the descriptor that becomes readable when the closure ends. */
int
cadre_future_fd(cadre_future_t *self, int *fd)
{
    int status = check(self);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    status = ensure_fd(self);
    if (status == 0 && fd) {
        *fd = self->fd;
    }

    cadre_gate_unlock(self->gate);
    return status;
}

/* Under the lock: puts the future into a completion queue, among those whose closures have ended if
 * its own has. */
int
cadre_future_add_to(cadre_future_t *self, cadre_completion_t *completion)
{
    if (!self || self->gate != completion->gate) {
        return cadre_fail(CADRE_EINVALID, "this is no future of the same coordinator");
    }
    if (self->entry.completion) {
        return cadre_fail(CADRE_EEXISTS, "the future is in a completion queue already");
    }
    cadre_completion_enter(completion, &self->entry, self, self->results->ended);
    return 0;
}

/* Returns the id of the closure, which is freed once it has ended: then its results know the id. */
uint64_t
cadre_future_closure_id(const cadre_future_t *self)
{
    if (!self) {
        return 0;
    }
    cadre_gate_lock(self->gate);
    uint64_t id = self->results->ended ? self->results->closure_id : self->closure->id;
    cadre_gate_unlock(self->gate);
    return id;
}
