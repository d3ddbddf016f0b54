#include "coordinator/closure_queue.h"

#include <stdio.h>

#include "common/assert.h"
#include "common/memory.h"

void
cadre_closure_queue_init(cadre_closure_queue_t *self, size_t capacity, cadre_closure_ended_t ended,
                         void *context)
{
    *self = (cadre_closure_queue_t){.capacity = capacity, .ended = ended, .context = context};
}

static cadre_closure_list_t *
list_of(cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    return closure->tag == CADRE_TAG_NONE ? &self->common : &self->tagged;
}

static size_t *
in_flight_of(cadre_closure_queue_t *self, const cadre_closure_t *closure)
{
    return closure->tag == CADRE_TAG_NONE ? &self->in_flight : &self->tagged_in_flight;
}

static void
end(cadre_closure_queue_t *self, cadre_closure_t *closure, const cadre_closure_end_t *how)
{
    closure->state = CADRE_CLOSURE_ENDED;
    self->ended(self->context, closure, how);
}

static void
end_all_queued(cadre_closure_queue_t *self, int status, const char *text)
{
    const cadre_closure_end_t how = {.status = status, .text = text};
    cadre_closure_list_t *lists[] = {&self->aside, &self->common, &self->tagged};
    self->common_aside = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(lists); i++) {
        while (lists[i]->first) {
            cadre_closure_t *closure = lists[i]->first;
            cadre_closure_list_remove(lists[i], closure);
            end(self, closure, &how);
        }
    }
}

void
cadre_closure_queue_fini(cadre_closure_queue_t *self)
{
    cadre_assert(self->in_flight == 0 && self->tagged_in_flight == 0);
    end_all_queued(self, CADRE_ECLOSED, "the coordinator was closed");
}

int
cadre_closure_queue_put(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_closure_list_t *list = list_of(self, closure);
    if (self->cancelling || self->error < 0 || list->count >= self->capacity) {
        return CADRE_EAGAIN;
    }
    cadre_assert(closure->state == CADRE_CLOSURE_NEW);
    closure->state = CADRE_CLOSURE_QUEUED;
    cadre_closure_list_push(list, closure);
    return 0;
}

static bool
may_go(const cadre_closure_t *closure, uint64_t below)
{
    return below == CADRE_QUEUE_NEW_TOO || (closure->id != 0 && closure->id < below);
}

/* The first that may go; those that were begun before stand in front. */
static cadre_closure_t *
first_common(const cadre_closure_queue_t *self, uint64_t below)
{
    cadre_closure_t *closure = self->common.first;
    while (closure && closure->id != 0 && !may_go(closure, below)) {
        closure = closure->next;
    }
    return closure && may_go(closure, below) ? closure : NULL;
}

cadre_closure_t *
cadre_closure_queue_next(const cadre_closure_queue_t *self, uint32_t worker, uint64_t below)
{
    cadre_closure_t *closure = self->tagged.first;
    while (closure && (closure->tag != worker || !may_go(closure, below))) {
        closure = closure->next;
    }
    return closure ? closure : first_common(self, below);
}

void
cadre_closure_queue_begin(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_QUEUED);
    cadre_closure_list_remove(list_of(self, closure), closure);
    closure->state = CADRE_CLOSURE_IN_FLIGHT;
    (*in_flight_of(self, closure))++;
}

cadre_closure_t *
cadre_closure_queue_take(cadre_closure_queue_t *self, uint32_t worker, uint64_t below)
{
    cadre_closure_t *closure = cadre_closure_queue_next(self, worker, below);
    if (closure) {
        cadre_closure_queue_begin(self, closure);
    }
    return closure;
}

/* What must hold whenever something in flight has ended. */
static void
settle(cadre_closure_queue_t *self)
{
    if (self->in_flight == 0 && self->tagged_in_flight == 0) {
        self->cancelling = false;
    }
}

/* Takes a closure out of flight; true when that has ended it, since everything is being cancelled.
 */
static bool
ends_out_of_flight(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_IN_FLIGHT);
    (*in_flight_of(self, closure))--;
    if (self->cancelling) {
        settle(self);
        end(self, closure, &(cadre_closure_end_t){.status = CADRE_ECANCELLED, .text = "cancelled"});
        return true;
    }
    return false;
}

void
cadre_closure_queue_put_back(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    if (!ends_out_of_flight(self, closure)) {
        closure->state = CADRE_CLOSURE_QUEUED;
        cadre_closure_list_push_front(list_of(self, closure), closure);
    }
}

void
cadre_closure_queue_put_aside(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    if (!ends_out_of_flight(self, closure)) {
        closure->state = CADRE_CLOSURE_ASIDE;
        cadre_closure_list_insert(&self->aside, closure);
        self->common_aside += closure->tag == CADRE_TAG_NONE ? 1 : 0;
    }
}

static void
take_from_aside(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_closure_list_remove(&self->aside, closure);
    self->common_aside -= closure->tag == CADRE_TAG_NONE ? 1 : 0;
}

void
cadre_closure_queue_release(cadre_closure_queue_t *self)
{
    while (self->aside.last) {
        cadre_closure_t *closure = self->aside.last;
        take_from_aside(self, closure);
        closure->state = CADRE_CLOSURE_QUEUED;
        cadre_closure_list_push_front(list_of(self, closure), closure);
    }
}

static void
fail(cadre_closure_queue_t *self, const cadre_closure_end_t *how)
{
    if (self->error_count++ == 0) {
        self->error = how->status;
        snprintf(self->error_text, sizeof(self->error_text), "%s", how->text);
    }
    cadre_closure_queue_cancel(self);
}

void
cadre_closure_queue_finish(cadre_closure_queue_t *self, cadre_closure_t *closure,
                           const cadre_closure_end_t *how)
{
    if (closure->state == CADRE_CLOSURE_QUEUED) {
        cadre_closure_list_remove(list_of(self, closure), closure);
    } else if (closure->state == CADRE_CLOSURE_ASIDE) {
        take_from_aside(self, closure);
    } else {
        cadre_assert(closure->state == CADRE_CLOSURE_IN_FLIGHT);
        (*in_flight_of(self, closure))--;
    }
    if (how->status < 0 && how->status != CADRE_ECANCELLED) {
        fail(self, how);
    }
    settle(self);
    end(self, closure, how);
}

void
cadre_closure_queue_report(cadre_closure_queue_t *self, int status, const char *text)
{
    fail(self, &(cadre_closure_end_t){.status = status, .text = text});
}

void
cadre_closure_queue_cancel(cadre_closure_queue_t *self)
{
    self->cancelling = true;
    end_all_queued(self, CADRE_ECANCELLED, "cancelled");
    settle(self);
}

int
cadre_closure_queue_raise(cadre_closure_queue_t *self, char *text)
{
    if (self->error == 0) {
        return 0;
    }
    if (self->in_flight > 0 || self->tagged_in_flight > 0) {
        return CADRE_EAGAIN;
    }
    int error = self->error;
    if (self->error_count > 1) {
        snprintf(text, CADRE_CLOSURE_ERROR_SIZE, "%.700s (and %zu more failed)", self->error_text,
                 self->error_count - 1);
    } else {
        snprintf(text, CADRE_CLOSURE_ERROR_SIZE, "%s", self->error_text);
    }
    self->error = 0;
    self->error_count = 0;
    return error;
}

bool
cadre_closure_queue_done(const cadre_closure_queue_t *self)
{
    return self->common.count == 0 && self->common_aside == 0 && self->in_flight == 0;
}
