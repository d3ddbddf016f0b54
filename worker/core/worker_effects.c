#include "worker/core/worker_effects.h"

const cadre_task_t CADRE_WORKER_COORDINATOR = {CADRE_ROLE_COORDINATOR, 0, 0};

/* Makes the session of the worker; what it says goes into the outbox. */
void
cadre_worker_effects_init(cadre_worker_effects_t *self, const cadre_session_options_t *options)
{
    *self = (cadre_worker_effects_t){.is_hurried = false};
    cadre_queue_init(&self->events, sizeof(cadre_worker_event_t));
    self->session = cadre_session_new(options, &self->outbox);
}

/* Drops the events and messages that the shell has not taken, with what they own, and the
 * session. */
void
cadre_worker_effects_fini(cadre_worker_effects_t *self)
{
    cadre_worker_event_t event;
    while (cadre_worker_effects_take_event(self, &event)) {
        cadre_values_fini(&event.values, event.value_count);
        cadre_holding_destroy(&event.holding);
    }
    cadre_queue_fini(&self->events);
    cadre_session_destroy(&self->session);
    cadre_outbox_fini(&self->outbox);
}

/* --- messages --- */

cadre_message_t
cadre_worker_effects_message(const cadre_worker_effects_t *self, cadre_message_type_t type)
{
    return cadre_session_message(self->session, type);
}

void
cadre_worker_effects_tell(cadre_worker_effects_t *self, cadre_message_t *message)
{
    cadre_session_say(self->session, message);
}

/* --- events --- */

void
cadre_worker_effects_emit(cadre_worker_effects_t *self, const cadre_worker_event_t *event)
{
    cadre_queue_push(&self->events, event);
}

bool
cadre_worker_effects_take_event(cadre_worker_effects_t *self, cadre_worker_event_t *event)
{
    return cadre_queue_pop(&self->events, event);
}

void
cadre_worker_effects_hurry(cadre_worker_effects_t *self)
{
    self->is_hurried = true;
}

/* Returns whether a HEARTBEAT before its time was asked for since the last call. */
bool
cadre_worker_effects_take_hurry(cadre_worker_effects_t *self)
{
    bool is_hurried = self->is_hurried;
    self->is_hurried = false;
    return is_hurried;
}
