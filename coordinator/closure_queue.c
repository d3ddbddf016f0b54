#include "coordinator/closure_queue.h"

#include <stdio.h>

#include "common/assert.h"

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
    cadre_closure_list_t *lists[] = {&self->common, &self->tagged};
    for (int i = 0; i < 2; i++) {
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

cadre_closure_t *
cadre_closure_queue_take(cadre_closure_queue_t *self, uint32_t worker, bool redo_only)
{
    cadre_closure_t *closure = self->tagged.first;
    while (closure && (closure->tag != worker || (redo_only && closure->id == 0))) {
        closure = closure->next;
    }
    if (!closure) {
        closure = self->common.first;
        if (!closure || (redo_only && closure->id == 0)) {
            return NULL;
        }
    }
    cadre_closure_list_remove(list_of(self, closure), closure);
    closure->state = CADRE_CLOSURE_IN_FLIGHT;
    (*in_flight_of(self, closure))++;
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

void
cadre_closure_queue_put_back(cadre_closure_queue_t *self, cadre_closure_t *closure)
{
    cadre_assert(closure->state == CADRE_CLOSURE_IN_FLIGHT);
    (*in_flight_of(self, closure))--;
    if (self->cancelling) {
        settle(self);
        end(self, closure, &(cadre_closure_end_t){.status = CADRE_ECANCELLED, .text = "cancelled"});
        return;
    }
    closure->state = CADRE_CLOSURE_QUEUED;
    cadre_closure_list_push_front(list_of(self, closure), closure);
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
    return self->common.count == 0 && self->in_flight == 0;
}
