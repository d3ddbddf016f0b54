#include "worker/core/worker_builds.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum { BUILD_RETRY_MS = 1000 };

/* Returns the call that builds a resource, in the form of a CLOSURE. `drops` is that of the
 * directory: the building function finds the variables that exist now, not those that existed when
 * the resource was created. */
cadre_message_t
cadre_worker_builds_call(const cadre_directory_t *directory, const cadre_resource_entry_t *entry)
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
                                                .drops = directory->drops};
    for (size_t i = 0; i < entry->message.chunk_count; i++) {
        cadre_message_add_chunk(&message, cadre_chunk_ref(entry->message.chunks[i]));
    }
    return message;
}

/* Returns whether this worker lacks the native function of the resource. Such a resource is never
 * built here; the coordinator gives closures that name it to other workers. */
static bool
lacks_function(const cadre_directory_t *directory, const cadre_resource_entry_t *entry)
{
    const cadre_function_entry_t *function =
        cadre_directory_function(directory, (uint32_t)entry->message.resource.function);
    return function && function->lacking;
}

/* Returns the next resource that is to be built now, and marks it as being built; NULL at the end,
 * with the time of the earliest later build in *due_ms. `*cursor`: where in the map to go on, 0 at
 * first. */
const cadre_resource_entry_t *
cadre_worker_builds_next(cadre_directory_t *directory, uint64_t now_ms, size_t *cursor,
                         uint64_t *due_ms)
{
    if (directory->resources_unbuilt == 0) {
        return NULL;
    }
    cadre_resource_entry_t *entry = NULL;
    while ((entry = cadre_u64_map_next(&directory->resources, cursor))) {
        if (entry->state != CADRE_RESOURCE_UNBUILT || lacks_function(directory, entry)) {
            continue;
        }
        if (now_ms >= entry->due_ms) {
            cadre_directory_build(directory, entry);
            return entry;
        }
        *due_ms = entry->due_ms < *due_ms ? entry->due_ms : *due_ms;
    }
    return NULL;
}

/* Returns the entry of the resource that the run builds. */
static cadre_resource_entry_t *
resource_of(const cadre_directory_t *directory, const cadre_run_t *run)
{
    return cadre_directory_resource(directory, run->call.builds->message.resource.id);
}

/* Gives a build up before its end, to be tried again. */
void
cadre_worker_builds_again(cadre_directory_t *directory, const cadre_run_t *run, uint64_t now_ms)
{
    cadre_directory_build_again(directory, resource_of(directory, run), now_ms + BUILD_RETRY_MS);
}

/* Returns whether a failed build is not to be tried again: the function's fault, or the device has
 * failed CADRE_BUILD_TRIES_MAX times. A cancelled build failed by nobody's fault. */
static bool
failed_for_good(cadre_resource_entry_t *entry, const cadre_run_t *run,
                const cadre_run_outcome_t *outcome)
{
    if (cadre_closure_call_is_cancelled(&run->call)) {
        return false;
    }
    if (outcome->failure == CADRE_FAILURE_DEVICE) {
        return cadre_resource_entry_tried(entry) >= CADRE_BUILD_TRIES_MAX;
    }
    return outcome->failure == CADRE_FAILURE_USER;
}

/* Notes how a build has ended: the resource is built, has failed for good, or is to be built again.
 * A function that has put and returned nothing has built an empty holding. */
void
cadre_worker_builds_end(cadre_directory_t *directory, const cadre_run_t *run,
                        cadre_run_outcome_t *outcome, cadre_worker_effects_t *effects,
                        uint64_t now_ms)
{
    cadre_resource_entry_t *entry = resource_of(directory, run);
    const char *name = entry->message.resource.name;
    if (outcome->status == 0) {
        cadre_directory_built(directory, entry,
                              outcome->holding ? outcome->holding : cadre_holding_new(name));
        outcome->holding = NULL;
    } else if (failed_for_good(entry, run, outcome)) {
        char text[CADRE_TEXT_SIZE_MAX + 1];
        snprintf(text, sizeof(text),
                 "resource %.100s was not built on worker %" PRIu32 " by function %.100s: %s", name,
                 cadre_session_task(effects->session)->index,
                 run->call.function ? run->call.function->name : "",
                 outcome->text[0] ? outcome->text : cadre_status_text(outcome->status));
        cadre_directory_build_failed(directory, entry, text);
    } else {
        cadre_worker_builds_again(directory, run, now_ms);
    }
    cadre_worker_effects_hurry(effects); /* closures that name the resource wait for this news */
}

/* Gives a run what was built for the resources that its closure names. Returns CADRE_EAGAIN while
 * one of these is not built, CADRE_EINVALID and *text when one has failed for good. */
int
cadre_worker_builds_give(const cadre_directory_t *directory, cadre_run_t *run, const char **text)
{
    const cadre_u64s_t *ids = &run->call.message.closure.resources;
    for (size_t i = 0; i < ids->count; i++) {
        const cadre_resource_entry_t *entry = cadre_directory_resource(directory, ids->items[i]);
        if (entry && entry->state == CADRE_RESOURCE_FAILED) {
            *text = entry->text;
            return CADRE_EINVALID;
        }
        if (!entry || entry->state != CADRE_RESOURCE_BUILT) {
            return CADRE_EAGAIN;
        }
    }
    /* Nothing to give, or given before: a waiting run is looked at more than once. */
    if (ids->count == 0 || run->call.holdings) {
        return 0;
    }
    const cadre_holding_t **holdings = cadre_calloc(ids->count, sizeof(*holdings));
    for (size_t i = 0; i < ids->count; i++) {
        holdings[i] = cadre_directory_resource(directory, ids->items[i])->holding;
    }
    cadre_closure_call_give_holdings(&run->call, holdings);
    return 0;
}

/* Has the shell destroy what was built for one resource: a destructor may take its time. */
void
cadre_worker_builds_release(cadre_holding_t *holding, cadre_worker_effects_t *effects)
{
    if (holding) {
        cadre_worker_effects_emit(
            effects, &(cadre_worker_event_t){.kind = CADRE_WORKER_RELEASE, .holding = holding});
    }
}

/* Has the shell destroy what was built for all resources of the directory. */
void
cadre_worker_builds_release_all(cadre_directory_t *directory, cadre_worker_effects_t *effects)
{
    cadre_resource_entry_t *entry = NULL;
    for (size_t cursor = 0; (entry = cadre_u64_map_next(&directory->resources, &cursor));) {
        cadre_worker_builds_release(cadre_resource_entry_release(entry), effects);
    }
}
