/*
 * worker_messages - what the core makes of a message, by who sent it and what it is.
 */
#include <stdio.h>

#include "worker/core/worker_state.h"

static int
set_function(cadre_worker_core_t *self, const cadre_message_t *message, uint64_t now_ms)
{
    const cadre_function_message_t *function = &message->function;
    const cadre_registry_t *registry = self->options.registry;
    bool lacking = function->kind == CADRE_FUNCTION_NATIVE && registry &&
                   !cadre_registry_find(registry, function->name);
    bool is_new = !cadre_directory_function(&self->directory, (uint32_t)function->id);
    int status = cadre_directory_set_function(&self->directory, message, lacking);
    if (status == 0 && lacking && is_new) {
        cadre_worker_event_t event = {.kind = CADRE_WORKER_LACKS, .index = (uint32_t)function->id};
        snprintf(event.text, sizeof(event.text), "%s", function->name);
        cadre_worker_emit(self, &event);
        self->heartbeat_due_ms = now_ms; /* so that closures go elsewhere */
    }
    return status;
}

/* One that is there already is told again because the answer was lost, or nobody waits for it any
 * more: that does no harm. */
static int
set_dataset(cadre_worker_core_t *self, const cadre_message_t *message)
{
    uint32_t id = (uint32_t)message->dataset.id;
    bool is_new = false;
    int status = cadre_directory_set_dataset(&self->directory, message, &is_new);
    const cadre_dataset_entry_t *entry = cadre_directory_dataset(&self->directory, id);
    if (status == 0 && is_new) {
        cadre_worker_emit(self,
                          &(cadre_worker_event_t){.kind = CADRE_WORKER_OPEN_DATASET, .index = id});
    } else if (status == 0 && entry->answered) {
        cadre_worker_say_ready(self, entry);
    }
    return status;
}

/* Values of variables that are gone are of no use to anybody. */
static void
forget_values(cadre_worker_core_t *self)
{
    const cadre_variable_entry_t *entry = NULL;
    for (size_t cursor = 0; (entry = cadre_u64_map_next(&self->directory.variables, &cursor));) {
        if (entry->is_gone) {
            cadre_value_cache_forget(&self->cache, entry->id, entry->partitions);
        }
    }
}

static int
take_variables(cadre_worker_core_t *self, const cadre_message_t *message)
{
    uint64_t gone = self->directory.gone;
    int status = message->type == CADRE_MESSAGE_VARIABLE
                     ? cadre_directory_set_variable(&self->directory, &message->variable)
                     : cadre_directory_take_definitions(&self->directory, message);
    if (self->directory.gone > gone) {
        forget_values(self);
    }
    return status;
}

static void
on_definition(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    bool news = false;
    int status = 0;
    if (message->type == CADRE_MESSAGE_SHARD) {
        status = cadre_directory_set_shard(&self->directory, &message->shard, &news);
        if (news) {
            cadre_worker_shard_moved(self, (uint32_t)message->shard.index, now_ms);
        }
        if (status == 0) {
            self->links[message->shard.index].doubted = false;
        }
    } else if (message->type == CADRE_MESSAGE_VARIABLE ||
               message->type == CADRE_MESSAGE_DEFINITIONS) {
        status = take_variables(self, message);
    } else if (message->type == CADRE_MESSAGE_FUNCTION) {
        status = set_function(self, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_RESOURCE) {
        status = cadre_directory_set_resource(&self->directory, message);
        cadre_worker_build(self, now_ms);
    } else {
        status = set_dataset(self, message);
    }
    if (status < 0) {
        cadre_worker_core_malformed(self);
        return;
    }
    cadre_worker_advance(self, now_ms);
}

static void
on_unknown_peer(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->session_state == CADRE_WORKER_STATE_DRAINING && !self->disowned) {
        self->disowned = true;
        cadre_worker_drop_runs(self); /* nor will news of the shards that they wait for */
    }
    cadre_worker_rejoin(self, now_ms);
}

/* Whether a message is of the session that this worker is in; before WELCOME those that end it are.
 */
static bool
is_of_session(const cadre_worker_core_t *self, const cadre_message_t *message)
{
    bool ends = message->type == CADRE_MESSAGE_STOP || message->type == CADRE_MESSAGE_REFUSED;
    return self->session_state == CADRE_WORKER_STATE_HELLO ? ends
                                                           : message->incarnation == self->session;
}

static void
of_session(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    switch (message->type) {
    case CADRE_MESSAGE_SHARD:
    case CADRE_MESSAGE_VARIABLE:
    case CADRE_MESSAGE_DEFINITIONS:
    case CADRE_MESSAGE_FUNCTION:
    case CADRE_MESSAGE_DATASET:
    case CADRE_MESSAGE_RESOURCE:
        on_definition(self, message, now_ms);
        break;
    case CADRE_MESSAGE_CLOSURE:
        cadre_worker_on_closure(self, message, now_ms);
        break;
    case CADRE_MESSAGE_CANCEL:
        cadre_worker_on_cancel(self, &message->cancel, now_ms);
        break;
    case CADRE_MESSAGE_ACK:
        cadre_contact_answered(&self->contact, message->request);
        cadre_worker_on_ack(self, message);
        break;
    case CADRE_MESSAGE_DRAIN:
        cadre_worker_core_drain(self, "drained by the coordinator", now_ms);
        break;
    case CADRE_MESSAGE_REFUSED:
        cadre_worker_be_refused(self, &message->refused);
        break;
    case CADRE_MESSAGE_STOP:
        cadre_worker_core_abandon(self, message->stop.reason);
        break;
    case CADRE_MESSAGE_HELLO:
    case CADRE_MESSAGE_WELCOME:
    case CADRE_MESSAGE_UNKNOWN_PEER:
    case CADRE_MESSAGE_STATUS:
    case CADRE_MESSAGE_STATUS_TEXT:
    case CADRE_MESSAGE_HEARTBEAT:
    case CADRE_MESSAGE_GOODBYE:
    case CADRE_MESSAGE_REPLY:
    case CADRE_MESSAGE_DATASET_READY:
    case CADRE_MESSAGE_WANT:
    case CADRE_MESSAGE_CLOSURE_DONE:
    case CADRE_MESSAGE_CLOSURE_FAILED:
    case CADRE_MESSAGE_CREATE:
    case CADRE_MESSAGE_SETTLE:
    case CADRE_MESSAGE_DROP:
    case CADRE_MESSAGE_RETIRE:
    case CADRE_MESSAGE_SNAPSHOT:
    case CADRE_MESSAGE_CLOSE_CUT:
    case CADRE_MESSAGE_SNAPSHOT_TAKEN:
    case CADRE_MESSAGE_SNAPSHOT_WRITTEN:
    case CADRE_MESSAGE_CHECKPOINT_END:
    case CADRE_MESSAGE_RESTORE:
    case CADRE_MESSAGE_COUNT:
    case CADRE_MESSAGE_PULL:
    case CADRE_MESSAGE_VALUES:
    case CADRE_MESSAGE_PUSH:
    case CADRE_MESSAGE_APPLIED:
    case CADRE_MESSAGE_ASSIGN:
    case CADRE_MESSAGE_PROBE:
    case CADRE_MESSAGE_PROBED:
    case CADRE_MESSAGE_RESERVE:
    case CADRE_MESSAGE_GRANT:
        cadre_worker_core_malformed(self);
        break;
    }
}

static void
from_coordinator(cadre_worker_core_t *self, cadre_message_t *message, uint64_t now_ms)
{
    if (message->type == CADRE_MESSAGE_WELCOME) {
        cadre_worker_on_welcome(self, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_UNKNOWN_PEER) {
        on_unknown_peer(self, now_ms);
    } else if (is_of_session(self, message)) {
        of_session(self, message, now_ms);
    } /* else it will be sent again */
}

/* One that served the shard before may be heard still: it says nothing of who serves it now. */
static void
from_shard(cadre_worker_core_t *self, uint32_t shard, cadre_message_t *message, uint64_t now_ms)
{
    if (message->incarnation != self->directory.shards[shard].task.incarnation) {
        return;
    }
    if (message->type == CADRE_MESSAGE_VALUES) {
        cadre_worker_on_values(self, shard, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_APPLIED) {
        cadre_worker_on_applied(self, shard, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_PROBED) {
        cadre_worker_on_probed(self, shard, message, now_ms);
    } else if (message->type == CADRE_MESSAGE_GRANT) {
        cadre_worker_on_grant(self, shard, message, now_ms);
    } else {
        cadre_worker_core_malformed(self);
    }
}

void
cadre_worker_core_receive(cadre_worker_core_t *self, const cadre_task_t *from,
                          cadre_message_t *message, uint64_t now_ms)
{
    if (self->session_state == CADRE_WORKER_STATE_LEFT) {
        cadre_message_fini(message);
        return;
    }
    if (from->role == CADRE_ROLE_COORDINATOR) {
        self->mute_due_ms = now_ms + CADRE_MUTE_MS;
        from_coordinator(self, message, now_ms);
    } else if (from->index < self->directory.shard_count) {
        from_shard(self, from->index, message, now_ms);
    } else {
        cadre_worker_core_malformed(self);
    }
    cadre_message_fini(message);
}

void
cadre_worker_core_malformed(cadre_worker_core_t *self)
{
    self->counters[CADRE_WORKER_COUNTER_malformed]++;
}
