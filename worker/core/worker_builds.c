/*
 * worker_builds - resources: a function runs once here for each, before any closure that names it.
 *
 * A build is a run like a closure's, on a slot, but with an id above those of closures: it is in no
 * list of what is held, is not cancelled by anybody but the end of the session, pushes nothing, and
 * its end is told by the next HEARTBEAT, at once. One that fails by its function's fault has failed
 * for good and fails the closures that name it, and so has one on which the device has failed
 * CADRE_BUILD_TRIES_MAX times; any other (a shard was away) is tried again.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/core/worker_state.h"

enum { BUILD_RETRY_MS = 1000 };

/* A call of the resource's function, with what the RESOURCE says, borrowed from it. It finds the
 * variables that are there now, not when the resource was made. */
static cadre_message_t
build_message(const cadre_worker_core_t *self, const cadre_resource_entry_t *entry)
{
    const cadre_resource_message_t *resource = &entry->message.resource;
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE,
                               .incarnation = entry->message.incarnation,
                               .epoch = entry->message.epoch};
    message.closure = (cadre_closure_message_t){.id = CADRE_BUILD_IDS | resource->id,
                                                .attempt = 1,
                                                .function = resource->function,
                                                .flags = CADRE_CLOSURE_WANTS_RESULTS,
                                                .seed = resource->seed,
                                                .variables = resource->variables,
                                                .names = resource->names,
                                                .tensors = resource->tensors,
                                                .generations = resource->generations,
                                                .workers = resource->workers,
                                                .drops = self->directory.drops};
    for (size_t i = 0; i < entry->message.chunk_count; i++) {
        cadre_message_add_chunk(&message, cadre_chunk_ref(entry->message.chunks[i]));
    }
    return message;
}

/* It is not built here then, and the coordinator gives closures that name it to others. */
static bool
lacks_function(const cadre_worker_core_t *self, const cadre_resource_entry_t *entry)
{
    const cadre_function_entry_t *function =
        cadre_directory_function(&self->directory, (uint32_t)entry->message.resource.function);
    return function && function->lacking;
}

uint64_t
cadre_worker_build(cadre_worker_core_t *self, uint64_t now_ms)
{
    uint64_t due_ms = UINT64_MAX;
    if (self->session_state != CADRE_WORKER_STATE_MEMBER ||
        self->directory.resources_unbuilt == 0) {
        return due_ms;
    }
    cadre_resource_entry_t *entry = NULL;
    for (size_t cursor = 0; (entry = cadre_u64_map_next(&self->directory.resources, &cursor));) {
        if (entry->state != CADRE_RESOURCE_UNBUILT || lacks_function(self, entry)) {
            continue;
        }
        if (now_ms < entry->due_ms) {
            due_ms = entry->due_ms < due_ms ? entry->due_ms : due_ms;
            continue;
        }
        cadre_message_t message = build_message(self, entry);
        cadre_directory_mark_resource(&self->directory, entry, CADRE_RESOURCE_BUILDING);
        cadre_worker_begin_build(self, &message, entry, now_ms);
    }
    return due_ms;
}

void
cadre_worker_unbuild(cadre_worker_core_t *self, const cadre_run_t *run, uint64_t now_ms)
{
    cadre_resource_entry_t *entry =
        cadre_directory_resource(&self->directory, run->builds->message.resource.id);
    entry->due_ms = now_ms + BUILD_RETRY_MS;
    cadre_directory_mark_resource(&self->directory, entry, CADRE_RESOURCE_UNBUILT);
}

/* Whether it is not to be tried again. */
static bool
failed_for_good(cadre_resource_entry_t *entry, const cadre_run_t *run,
                const cadre_run_outcome_t *outcome)
{
    if (atomic_load(&run->cancelled)) {
        return false;
    }
    if (outcome->failure == CADRE_FAILURE_DEVICE) {
        return ++entry->tries >= CADRE_BUILD_TRIES_MAX;
    }
    return outcome->failure == CADRE_FAILURE_USER;
}

void
cadre_worker_built(cadre_worker_core_t *self, const cadre_run_t *run, cadre_run_outcome_t *outcome,
                   uint64_t now_ms)
{
    cadre_resource_entry_t *entry =
        cadre_directory_resource(&self->directory, run->builds->message.resource.id);
    const cadre_resource_message_t *resource = &entry->message.resource;
    if (outcome->status == 0) {
        entry->holding = outcome->holding ? outcome->holding : cadre_holding_new(resource->name);
        outcome->holding = NULL;
        cadre_directory_mark_resource(&self->directory, entry, CADRE_RESOURCE_BUILT);
    } else if (failed_for_good(entry, run, outcome)) {
        snprintf(entry->text, sizeof(entry->text),
                 "resource %.100s was not built on worker %" PRIu32 " by function %.100s: %s",
                 resource->name, self->options.task.index, run->function ? run->function->name : "",
                 outcome->text[0] ? outcome->text : cadre_status_text(outcome->status));
        cadre_directory_mark_resource(&self->directory, entry, CADRE_RESOURCE_FAILED);
    } else {
        cadre_worker_unbuild(self, run, now_ms);
    }
    cadre_worker_hurry_heartbeat(self, now_ms); /* the coordinator waits for it with closures */
}

int
cadre_worker_take_resources(cadre_worker_core_t *self, cadre_run_t *run, const char **text)
{
    const cadre_u64s_t *ids = &run->message.closure.resources;
    for (size_t i = 0; i < ids->count; i++) {
        const cadre_resource_entry_t *entry =
            cadre_directory_resource(&self->directory, ids->items[i]);
        if (entry && entry->state == CADRE_RESOURCE_FAILED) {
            *text = entry->text;
            return CADRE_EINVALID;
        }
        if (!entry || entry->state != CADRE_RESOURCE_BUILT) {
            return CADRE_EAGAIN;
        }
    }
    if (ids->count > 0 && !run->holdings) {
        run->holdings = cadre_calloc(ids->count, sizeof(*run->holdings));
        for (size_t i = 0; i < ids->count; i++) {
            run->holdings[i] = cadre_directory_resource(&self->directory, ids->items[i])->holding;
        }
    }
    return 0;
}

void
cadre_worker_release(cadre_worker_core_t *self, cadre_holding_t *holding)
{
    if (holding) {
        cadre_worker_emit(
            self, &(cadre_worker_event_t){.kind = CADRE_WORKER_RELEASE, .holding = holding});
    }
}

void
cadre_worker_release_all(cadre_worker_core_t *self)
{
    cadre_resource_entry_t *entry = NULL;
    for (size_t cursor = 0; (entry = cadre_u64_map_next(&self->directory.resources, &cursor));) {
        cadre_worker_release(self, entry->holding);
        entry->holding = NULL;
    }
}
