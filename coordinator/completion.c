#include "coordinator/completion.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "coordinator/event_fd.h"

cadre_completion_t *
cadre_completion_new(cadre_gate_t *gate, cadre_coordinator_t *coordinator)
{
    cadre_completion_t *self = cadre_calloc(1, sizeof(*self));
    self->gate = cadre_gate_ref(gate);
    self->coordinator = coordinator;
    self->fd = -1;
    return self;
}

/* Takes all futures out of the queue and frees it; the futures stay their owners'. */
void
cadre_completion_free(cadre_completion_t *self)
{
    while (self->waiting.first) {
        cadre_completion_leave(self->waiting.first);
    }
    while (self->finished.first) {
        cadre_completion_leave(self->finished.first);
    }
    cadre_event_fd_close(self->fd);
    free(self);
}

/* --- the two lists --- */

static cadre_completion_list_t *
list_of(const cadre_completion_entry_t *entry)
{
    return entry->is_finished ? &entry->completion->finished : &entry->completion->waiting;
}

/* Appends the entry to the list that it belongs to. */
static void
push(cadre_completion_entry_t *entry)
{
    cadre_completion_list_t *list = list_of(entry);
    entry->next = NULL;
    entry->previous = list->last;
    if (list->last) {
        list->last->next = entry;
    } else {
        list->first = entry;
    }
    list->last = entry;
    list->count++;
}

/* Takes the entry out of the list that it stands in. */
static void
take_out(cadre_completion_entry_t *entry)
{
    cadre_completion_list_t *list = list_of(entry);
    if (entry->previous) {
        entry->previous->next = entry->next;
    } else {
        list->first = entry->next;
    }

    if (entry->next) {
        entry->next->previous = entry->previous;
    } else {
        list->last = entry->previous;
    }
    list->count--;
}

/* Makes the descriptor readable or not after a change by one: only counts 0 and 1 change it. */
static void
show(cadre_completion_t *self)
{
    /* An fd of -1 was never asked for: both calls then do nothing. */
    if (self->finished.count == 0) {
        cadre_event_fd_clear(self->fd);
    } else if (self->finished.count == 1) {
        cadre_event_fd_set(self->fd);
    }
}

/* --- futures --- */

/* Puts a future into the queue. `is_finished`: its closure has ended. */
void
cadre_completion_enter(cadre_completion_t *self, cadre_completion_entry_t *entry,
                       cadre_future_t *future, bool is_finished)
{
    cadre_assert(!entry->completion);
    *entry = (cadre_completion_entry_t){
        .completion = self, .future = future, .is_finished = is_finished};
    push(entry);
    show(self);
}

/* Moves a future whose closure has ended to the finished ones; does nothing where it is in no
 * queue. */
void
cadre_completion_finish(cadre_completion_entry_t *entry)
{
    if (entry->completion && !entry->is_finished) {
        take_out(entry);
        entry->is_finished = true;
        push(entry);
        show(entry->completion);
    }
}

/* Takes a future out of its queue; does nothing where it is in none. */
void
cadre_completion_leave(cadre_completion_entry_t *entry)
{
    cadre_completion_t *completion = entry->completion;
    if (completion) {
        take_out(entry);
        *entry = (cadre_completion_entry_t){.completion = NULL};
        show(completion);
    }
}

/* Takes out the future whose closure ended first, and returns it; NULL: none has ended. */
cadre_future_t *
cadre_completion_pop(cadre_completion_t *self)
{
    cadre_completion_entry_t *first = self->finished.first;
    cadre_future_t *future = first ? first->future : NULL;
    if (first) {
        cadre_completion_leave(first);
    }
    return future;
}

/* Opens the descriptor of the queue unless it is open; it is readable at once where a closure has
 * ended. */
int
cadre_completion_ensure_fd(cadre_completion_t *self)
{
    if (self->fd >= 0) {
        return 0;
    }
    int status = cadre_event_fd_open(&self->fd);
    if (status == 0 && self->finished.count > 0) {
        cadre_event_fd_set(self->fd);
    }
    return status;
}
