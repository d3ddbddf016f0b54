#include "coordinator/core/effects/log_budget.h"

#include <string.h>

#include "common/base/limits.h"

/* Returns the entry of an event, which is added if need be; NULL when there is no room for another
 * one. */
static cadre_log_spent_t *
find(cadre_log_budget_t *self, const char *event)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->events[i].event == event || strcmp(self->events[i].event, event) == 0) {
            return &self->events[i];
        }
    }
    if (self->count == CADRE_LOG_EVENTS_MAX) {
        return NULL;
    }
    cadre_log_spent_t *added = &self->events[self->count++];
    *added = (cadre_log_spent_t){.event = event};
    return added;
}

/* Returns whether a line of the event may be written now; counts it as held back where not.
 * `spent_ms` is the time up to which lines so far have used up one line per interval; it may run
 * ahead of now by a burst. */
bool
cadre_log_budget_take(cadre_log_budget_t *self, const char *event, uint64_t now_ms)
{
    const uint64_t burst_ms = (uint64_t)CADRE_LOG_BURST * CADRE_LOG_INTERVAL_MS;
    cadre_log_spent_t *spent = find(self, event);
    /* more kinds of events than there is room for: this one has no limit */
    if (!spent) {
        return true;
    }
    uint64_t after_ms =
        (spent->spent_ms > now_ms ? spent->spent_ms : now_ms) + CADRE_LOG_INTERVAL_MS;
    if (after_ms > now_ms + burst_ms) {
        spent->held++;
        return false;
    }
    spent->spent_ms = after_ms;
    return true;
}

/* Returns an event with lines that were held back and not told of yet, and how many; NULL: none is
 * due. */
const char *
cadre_log_budget_tell(cadre_log_budget_t *self, uint64_t now_ms, uint64_t *held)
{
    for (size_t i = 0; i < self->count; i++) {
        cadre_log_spent_t *spent = &self->events[i];
        if (spent->held > 0 && now_ms >= spent->tell_due_ms) {
            spent->tell_due_ms = now_ms + CADRE_DROPPED_LOG_MS;
            *held = spent->held;
            spent->held = 0;
            return spent->event;
        }
    }
    return NULL;
}
