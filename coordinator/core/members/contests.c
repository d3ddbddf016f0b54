#include "coordinator/core/members/contests.h"

#include <string.h>

static void
take_out(cadre_contests_t *self, size_t at)
{
    self->count--;
    memmove(&self->items[at], &self->items[at + 1], (self->count - at) * sizeof(*self->items));
}

/* Returns since when the task has asked for its place: a first time is noted as now. A full list
 * loses its oldest entry. */
uint64_t
cadre_contests_since(cadre_contests_t *self, const cadre_task_t *task, uint64_t now_ms)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->items[i].task.incarnation == task->incarnation) {
            return self->items[i].since_ms;
        }
    }

    if (self->count == CADRE_CONTESTS_MAX) {
        take_out(self, 0);
    }

    self->items[self->count++] = (cadre_contest_t){.task = *task, .since_ms = now_ms};
    return now_ms;
}

/* Moves the begin of each contest by `ms`, in which the coordinator heard nobody; to now at the
 * latest. */
void
cadre_contests_excuse(cadre_contests_t *self, uint64_t ms, uint64_t now_ms)
{
    for (size_t i = 0; i < self->count; i++) {
        uint64_t since_ms = self->items[i].since_ms + ms;
        self->items[i].since_ms = since_ms < now_ms ? since_ms : now_ms;
    }
}

/* Takes out the contest of the task with this incarnation, if there is one. */
void
cadre_contests_forget(cadre_contests_t *self, uint64_t incarnation)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->items[i].task.incarnation == incarnation) {
            take_out(self, i);
            return;
        }
    }
}

/* Takes out the contest that began first, and gives its task; false: there is none. */
bool
cadre_contests_pop(cadre_contests_t *self, cadre_task_t *task)
{
    if (self->count == 0) {
        return false;
    }
    *task = self->items[0].task;
    take_out(self, 0);
    return true;
}
