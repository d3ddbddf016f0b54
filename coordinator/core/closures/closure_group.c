#include "coordinator/core/closures/closure_group.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"

void
cadre_closure_group_init(cadre_closure_group_t *self)
{
    *self = (cadre_closure_group_t){.references = 1, .is_heard = true};
    cadre_barriers_init(&self->barriers);
}

void
cadre_closure_group_fini(cadre_closure_group_t *self)
{
    cadre_barriers_fini(&self->barriers);
}

cadre_closure_group_t *
cadre_closure_group_new(bool goes_on)
{
    cadre_closure_group_t *self = cadre_calloc(1, sizeof(*self));
    cadre_closure_group_init(self);
    self->goes_on = goes_on;
    return self;
}

cadre_closure_group_t *
cadre_closure_group_ref(cadre_closure_group_t *self)
{
    self->references++;
    return self;
}

void
cadre_closure_group_unref(cadre_closure_group_t **self_p)
{
    cadre_closure_group_t *self = *self_p;
    *self_p = NULL;
    if (!self || --self->references > 0) {
        return;
    }
    cadre_closure_group_fini(self);
    free(self);
}

void
cadre_closure_group_forsake(cadre_closure_group_t *self)
{
    self->is_heard = false;
}

void
cadre_closure_group_note_put(cadre_closure_group_t *self)
{
    self->totals.scheduled++;
}

void
cadre_closure_group_note_end(cadre_closure_group_t *self, int status)
{
    if (status == 0) {
        self->totals.finished++;
    } else if (status == CADRE_ECANCELLED || status == CADRE_ECLOSED) {
        self->totals.cancelled++;
    } else {
        self->totals.failed++;
    }
}

void
cadre_closure_group_begin(cadre_closure_group_t *self)
{
    self->in_flight++;
}

bool
cadre_closure_group_leave_flight(cadre_closure_group_t *self)
{
    self->in_flight--;
    const bool ends = self->cancelling && self->in_flight == 0;
    self->cancelling = self->cancelling && !ends;
    return ends;
}

bool
cadre_closure_group_cancel(cadre_closure_group_t *self)
{
    const bool begins = !self->cancelling && self->in_flight > 0;
    self->cancelling = self->cancelling || begins;
    return begins;
}

void
cadre_closure_group_push_failing(cadre_closure_group_t *self, cadre_closure_group_t **list)
{
    if (!self->is_failing) {
        self->is_failing = true;
        self->next_failing = *list;
        *list = self;
    }
}

cadre_closure_group_t *
cadre_closure_group_pop_failing(cadre_closure_group_t **list)
{
    cadre_closure_group_t *self = *list;
    if (self) {
        *list = self->next_failing;
        self->next_failing = NULL;
        self->is_failing = false;
    }
    return self;
}

void
cadre_closure_group_note_error(cadre_closure_group_t *self, int status, const char *text)
{
    if (self->error_count++ == 0) {
        self->error = status;
        snprintf(self->error_text, sizeof(self->error_text), "%s", text);
    }
}

int
cadre_closure_group_take_error(cadre_closure_group_t *self, char *text)
{
    int error = self->error;
    if (self->error_count > 1) {
        snprintf(text, CADRE_CLOSURE_ERROR_SIZE, "%.700s (and %zu more failed)", self->error_text,
                 self->error_count - 1);
    } else if (error < 0) {
        snprintf(text, CADRE_CLOSURE_ERROR_SIZE, "%s", self->error_text);
    }

    self->error = 0;
    self->error_count = 0;
    return error;
}
