#include "coordinator/core/effects/effects.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"

void
cadre_effects_init(cadre_effects_t *self, uint64_t incarnation, uint64_t epoch, uint64_t now_ms)
{
    *self = (cadre_effects_t){.incarnation = incarnation, .epoch = epoch, .now_ms = now_ms};
}

/* Frees the output that nobody took. Results that were not taken lose the reference that was added
 * for them. */
void
cadre_effects_fini(cadre_effects_t *self)
{
    cadre_outbox_fini(&self->outbox);
    free(self->items);
    self->items = NULL;
    cadre_results_t *results = NULL;
    while ((results = cadre_effects_take_ended(self))) {
        cadre_results_unref(&results);
    }
    free(self->ended);
    self->ended = NULL;
}

void
cadre_effects_set_time(cadre_effects_t *self, uint64_t now_ms)
{
    self->now_ms = now_ms;
}

/* --- called by the classes of the core, to emit output --- */

cadre_message_t
cadre_effects_message(const cadre_effects_t *self, cadre_message_type_t type)
{
    return (cadre_message_t){.type = type, .incarnation = self->incarnation, .epoch = self->epoch};
}

void
cadre_effects_send(cadre_effects_t *self, const cadre_task_t *to, cadre_message_t *message)
{
    cadre_outbox_send(&self->outbox, to, message);
}

/* Queues an effect for the shell, a copy of *effect. An empty queue begins at index 0 again, so
 * that the array does not grow for ever. */
void
cadre_effects_emit(cadre_effects_t *self, const cadre_effect_t *effect)
{
    if (self->count == 0) {
        self->first = 0;
    }
    size_t end = self->first + self->count;
    self->items = cadre_grow(self->items, end, &self->capacity, sizeof(*self->items));
    self->items[end] = *effect;
    self->count++;
}

/* Queues the results of a closure that has ended, with a reference, for the future that waits for
 * them. An empty queue begins at index 0 again. */
void
cadre_effects_emit_ended(cadre_effects_t *self, cadre_results_t *results)
{
    if (self->ended_count == 0) {
        self->ended_first = 0;
    }
    if (self->ended_first + self->ended_count == self->ended_capacity) {
        self->ended_capacity = self->ended_capacity ? 2 * self->ended_capacity : 64;
        self->ended = cadre_realloc(self->ended, self->ended_capacity, sizeof(cadre_results_t *));
    }
    self->ended[self->ended_first + self->ended_count++] = cadre_results_ref(results);
}

/* Queues a log line of event `name`, unless there were too many lines of this event. */
void
cadre_effects_log(cadre_effects_t *self, char level, const char *name, const char *format, ...)
{
    cadre_effect_t line = {.kind = CADRE_EFFECT_LOG, .level = level, .name = name};
    va_list arguments;
    if (!cadre_log_budget_take(&self->log_budget, name, self->now_ms)) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(line.text, sizeof(line.text), format, arguments);
    va_end(arguments);
    cadre_effects_emit(self, &line);
}

/* Logs, for each event of which lines were left out, how many they were. */
void
cadre_effects_tell_held_lines(cadre_effects_t *self)
{
    uint64_t held = 0;
    const char *name = NULL;
    while ((name = cadre_log_budget_tell(&self->log_budget, self->now_ms, &held))) {
        cadre_effects_log(self, 'W', "log_suppressed",
                          "event=%s count=%" PRIu64 " why=\"more than %d at once\"", name, held,
                          CADRE_LOG_BURST);
    }
}

void
cadre_effects_note_progress(cadre_effects_t *self)
{
    self->progress = true;
}

/* --- called by the shell, to take the output --- */

/* Takes the oldest effect out; false when there is none. */
bool
cadre_effects_take(cadre_effects_t *self, cadre_effect_t *effect)
{
    if (self->count == 0) {
        return false;
    }
    *effect = self->items[self->first++];
    self->count--;
    return true;
}

/* Takes out the results of the closure that ended first, with a reference; NULL when there are no
 * more. */
cadre_results_t *
cadre_effects_take_ended(cadre_effects_t *self)
{
    if (self->ended_count == 0) {
        return NULL;
    }
    self->ended_count--;
    return self->ended[self->ended_first++];
}

bool
cadre_effects_take_progress(cadre_effects_t *self)
{
    bool progress = self->progress;
    self->progress = false;
    return progress;
}

cadre_outbox_t
cadre_effects_take_outbox(cadre_effects_t *self)
{
    cadre_outbox_t outbox = self->outbox;
    self->outbox = (cadre_outbox_t){.entries = NULL};
    return outbox;
}
