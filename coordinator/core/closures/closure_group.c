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
cadre_closure_group_new_unpaced(void)
{
    cadre_closure_group_t *self = cadre_closure_group_new(true);
    self->is_unpaced = true;
    return self;
}

cadre_closure_group_t *
cadre_closure_group_ref(cadre_closure_group_t *self)
{
    self->references++;
    return self;
}

/* Drops one reference; the last one frees the group. */
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

/* Counts a closure of the group that has ended with `status`. */
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

/* Counts a closure that is in flight no longer. Returns whether that ends the cancelling of the
 * group. */
bool
cadre_closure_group_leave_flight(cadre_closure_group_t *self)
{
    self->in_flight--;
    const bool ends = self->cancelling && self->in_flight == 0;
    self->cancelling = self->cancelling && !ends;
    return ends;
}

/* Begins to cancel the group. Returns false where nothing of it is in flight, or it is being
 * cancelled already. */
bool
cadre_closure_group_cancel(cadre_closure_group_t *self)
{
    const bool begins = !self->cancelling && self->in_flight > 0;
    self->cancelling = self->cancelling || begins;
    return begins;
}

/* Puts the group in front of a list of groups that are to be cancelled; a group is in the list
 * once. */
void
cadre_closure_group_push_failing(cadre_closure_group_t *self, cadre_closure_group_t **list)
{
    if (!self->is_failing) {
        self->is_failing = true;
        self->next_failing = *list;
        *list = self;
    }
}

/* Takes the first group out of the list; NULL: the list is empty. */
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

/* Keeps the first error since the last one was raised, and counts those that follow. */
void
cadre_closure_group_note_error(cadre_closure_group_t *self, int status, const char *text)
{
    if (self->error_count++ == 0) {
        self->error = status;
        snprintf(self->error_text, sizeof(self->error_text), "%s", text);
    }
}

/* Takes the group's error out: returns the status of the first failure, 0 for none, and writes its
 * text with the number of further failures. The text is cut so that the number fits. */
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
