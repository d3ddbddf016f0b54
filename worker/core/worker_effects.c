#include "worker/core/worker_effects.h"

#include <stdlib.h>

#include "common/base/memory.h"

const cadre_task_t CADRE_WORKER_COORDINATOR = {CADRE_ROLE_COORDINATOR, 0, 0};

void
cadre_worker_effects_fini(cadre_worker_effects_t *self)
{
    cadre_worker_event_t event;
    while (cadre_worker_effects_take_event(self, &event)) {
        cadre_values_fini(&event.values, event.value_count);
        cadre_holding_destroy(&event.holding);
    }
    cadre_free(&self->events);
    cadre_outbox_fini(&self->outbox);
}

/* --- messages --- */

void
cadre_worker_effects_speak_as(cadre_worker_effects_t *self, const cadre_task_t *task,
                              uint64_t epoch)
{
    self->task = *task;
    self->epoch = epoch;
}

cadre_message_t
cadre_worker_effects_message(const cadre_worker_effects_t *self, cadre_message_type_t type)
{
    return (cadre_message_t){
        .type = type, .incarnation = self->task.incarnation, .epoch = self->epoch};
}

void
cadre_worker_effects_tell(cadre_worker_effects_t *self, cadre_message_t *message)
{
    cadre_outbox_send(&self->outbox, &CADRE_WORKER_COORDINATOR, message);
}

void
cadre_worker_effects_ask(cadre_worker_effects_t *self, cadre_message_t *message)
{
    self->asked = message->request;
    cadre_worker_effects_tell(self, message);
}

/* --- events --- */

void
cadre_worker_effects_emit(cadre_worker_effects_t *self, const cadre_worker_event_t *event)
{
    if (self->event_count == 0) {
        self->event_first = 0;
    }
    if (self->event_first + self->event_count == self->event_capacity) {
        self->event_capacity = self->event_capacity ? 2 * self->event_capacity : 64;
        self->events = cadre_realloc(self->events, self->event_capacity, sizeof(*self->events));
    }
    self->events[self->event_first + self->event_count++] = *event;
}

bool
cadre_worker_effects_take_event(cadre_worker_effects_t *self, cadre_worker_event_t *event)
{
    if (self->event_count == 0) {
        return false;
    }
    *event = self->events[self->event_first++];
    self->event_count--;
    return true;
}

void
cadre_worker_effects_hurry(cadre_worker_effects_t *self)
{
    self->is_hurried = true;
}

bool
cadre_worker_effects_take_hurry(cadre_worker_effects_t *self)
{
    bool is_hurried = self->is_hurried;
    self->is_hurried = false;
    return is_hurried;
}
