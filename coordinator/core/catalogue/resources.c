/*
 * resources - which workers build what, which have it, and resources that kill those who build
 * them.
 *
 * A resource is told to every worker when it is created and to every worker that joins; each
 * builds it by itself and says so with its heartbeats. A worker that is lost while it had resources
 * to build may have been killed by any of them, or by a closure, or by something else: that is
 * judged as for closures (suspicion.h), and a resource that is suspect is tried alone like them
 * (dispatch/trials.h). Only its trials count from there on, so that whatever kills many workers at
 * once is not taken for a resource. Where it is proved to kill, its closures fail. Any worker that
 * builds it clears it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/core/coordinator_core.h"

static void
send_resource(cadre_core_t *self, const cadre_member_t *member, const cadre_resource_t *resource)
{
    const cadre_closure_t *call = resource->call;
    cadre_message_t message = cadre_effects_message(&self->effects, CADRE_MESSAGE_RESOURCE);
    message.resource =
        (cadre_resource_message_t){.id = resource->id,
                                   .name = resource->name,
                                   .function = call->function,
                                   .seed = resource->seed,
                                   .variables = call->variables,
                                   .names = {(const char *const *)call->names, call->name_count},
                                   .tensors = cadre_tensor_list_items(&call->tensors),
                                   .generations = self->recovery.announced,
                                   .workers = self->membership.worker_places};
    cadre_tensor_list_add_chunks(&call->tensors, &message);
    cadre_effects_send(&self->effects, &member->task, &message);
}

static void
tell(cadre_core_t *self, cadre_member_t *member, const cadre_resource_t *resource)
{
    send_resource(self, member, resource);
    cadre_resource_set_put(&member->resources_told, resource->id);
    member->resources_ms = self->effects.now_ms;
}

static bool
is_suspect(const cadre_resource_t *resource)
{
    return !resource->error && cadre_suspicion_is_strong(&resource->suspicion);
}

/* What it has not been told yet and may build beside everything else. */
static void
tell_rest(cadre_core_t *self, cadre_member_t *member)
{
    bool alone = cadre_member_is_alone(member, self->effects.now_ms);
    for (uint32_t i = 0; i < self->catalogue.resource_count && !alone; i++) {
        const cadre_resource_t *resource = self->catalogue.resources[i];
        if (!resource->error && !is_suspect(resource) &&
            !cadre_resource_set_has(&member->resources_told, resource->id)) {
            tell(self, member, resource);
        }
    }
}

void
cadre_core_announce_resource(cadre_core_t *self)
{
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        if (self->membership.workers[i]) {
            tell_rest(self, self->membership.workers[i]);
        }
    }
}

/* Whether it was told to build this and has not said yet that it has. */
static bool
builds(const cadre_member_t *member, const cadre_resource_t *resource)
{
    return cadre_resource_is_under_way(resource, &member->resources_told, &member->abilities);
}

void
cadre_resources_brief(cadre_core_t *self, cadre_member_t *member)
{
    for (uint32_t i = 0; i < self->catalogue.resource_count; i++) {
        if (builds(member, self->catalogue.resources[i])) {
            tell(self, member, self->catalogue.resources[i]); /* the first may not have arrived */
        }
    }
    tell_rest(self, member);
}

/* --- resources that kill --- */

static void
end_trial(cadre_core_t *self, cadre_resource_t *resource)
{
    cadre_member_t *member = cadre_membership_find(&self->membership, resource->trial);
    resource->trial = 0;
    if (member) {
        member->trial = 0;
        tell_rest(self, member);
    }
}

void
cadre_resources_on_lack(cadre_core_t *self, cadre_member_t *member)
{
    if (member->trial == 0) {
        return;
    }
    cadre_resource_t *resource = self->catalogue.resources[member->trial - 1];
    if (!cadre_resource_is_buildable(resource, &member->abilities)) {
        end_trial(self, resource);
    }
}

/* It was suspect and is no more: everybody builds it again. */
static void
clear(cadre_core_t *self, cadre_resource_t *resource)
{
    self->resources_suspect--;
    end_trial(self, resource);
    cadre_core_announce_resource(self);
}

static const char *
function_name(const cadre_core_t *self, const cadre_resource_t *resource)
{
    return self->catalogue.functions[resource->call->function - 1]->name;
}

static void
fail(cadre_core_t *self, cadre_resource_t *resource)
{
    char victims[CADRE_CLOSURE_ERROR_SIZE];
    cadre_suspicion_text(&resource->suspicion, victims, sizeof(victims));
    resource->error = cadre_asprintf("resource %s: %u workers died while they built it by function "
                                     "%s: %.400s",
                                     resource->name, resource->suspicion.deaths,
                                     function_name(self, resource), victims);
    self->resources_suspect--;
    self->resources_failed++;
    cadre_effects_log(&self->effects, 'E', "resource_failed", "resource=%s why=\"%s\"",
                      resource->name, resource->error);
    cadre_effects_note_progress(&self->effects);
}

/* A worker died that had it to build. */
static void
blame(cadre_core_t *self, cadre_resource_t *resource, const cadre_member_t *member)
{
    cadre_suspicion_t *suspicion = &resource->suspicion;
    bool was_suspect = is_suspect(resource);
    if (resource->error || (was_suspect && member->trial != resource->id)) {
        return;
    }
    const cadre_death_t death = cadre_membership_death(&self->membership, member,
                                                       member->resources_ms, self->effects.now_ms);
    cadre_suspicion_add(suspicion, &death);
    self->resources_suspect += !was_suspect && is_suspect(resource);
    cadre_effects_log(&self->effects, 'W', "resource_suspect",
                      "resource=%s function=%s worker=%u process=%u deaths=%u expected=%.1f",
                      resource->name, function_name(self, resource), member->index, member->process,
                      suspicion->deaths, suspicion->expected);
    if (cadre_suspicion_is_proved(suspicion)) {
        fail(self, resource);
    }
}

void
cadre_resources_lost(cadre_core_t *self, cadre_member_t *member, bool died)
{
    for (uint32_t i = 0; i < self->catalogue.resource_count && died; i++) {
        if (builds(member, self->catalogue.resources[i])) {
            blame(self, self->catalogue.resources[i], member);
        }
    }
    if (member->trial) {
        self->catalogue.resources[member->trial - 1]->trial = 0;
        member->trial = 0;
    }
}

void
cadre_resources_forgive(cadre_core_t *self, uint64_t incarnation)
{
    for (uint32_t i = 0; i < self->catalogue.resource_count; i++) {
        cadre_resource_t *resource = self->catalogue.resources[i];
        bool was_suspect = is_suspect(resource);
        if (resource->error || !cadre_suspicion_forgive(&resource->suspicion, incarnation)) {
            continue;
        }
        if (was_suspect && !is_suspect(resource)) {
            clear(self, resource);
        }
    }
}

static void
on_built(cadre_core_t *self, cadre_member_t *member, cadre_resource_t *resource)
{
    bool was_suspect = is_suspect(resource);
    cadre_resource_set_put(&member->abilities.built, resource->id);
    cadre_suspicion_clear(&resource->suspicion);
    if (was_suspect) {
        clear(self, resource);
    }
}

void
cadre_resources_on_heartbeat(cadre_core_t *self, cadre_member_t *member,
                             const cadre_heartbeat_message_t *heartbeat)
{
    const cadre_resource_set_t known = cadre_resource_set_of(heartbeat->known);
    const cadre_resource_set_t built = cadre_resource_set_of(heartbeat->built);
    bool due = self->effects.now_ms >= member->resources_ms + self->options.resend_ms;
    for (uint32_t i = 0; i < self->catalogue.resource_count; i++) {
        cadre_resource_t *resource = self->catalogue.resources[i];
        if (cadre_resource_set_has(&known, resource->id)) {
            cadre_resource_set_put(&member->resources_told,
                                   resource->id); /* when it was here before */
        } else if (due && cadre_resource_set_has(&member->resources_told, resource->id)) {
            tell(self, member, resource);
        }
        if (cadre_resource_set_has(&built, resource->id) &&
            !cadre_resource_set_has(&member->abilities.built, resource->id)) {
            on_built(self, member, resource);
        }
    }
    tell_rest(self, member); /* what was announced while it was alone with a suspect */
}

/* --- trials --- */

static bool
names(const cadre_closure_t *closure, const cadre_resource_t *resource)
{
    for (size_t i = 0; i < closure->resource_count; i++) {
        if (closure->resources[i] == resource->id) {
            return true;
        }
    }
    return false;
}

/* Whether a closure waits for it: nobody is to die for what nobody uses. */
static bool
is_wanted(const cadre_core_t *self, const cadre_resource_t *resource)
{
    const cadre_closure_t *again = cadre_closure_log_first(&self->replay.redo);
    return cadre_closure_lanes_naming(&self->queue.lanes, resource->id) ||
           (again && names(again, resource));
}

/* Begins its trial, or goes on with it: the worker has to end first what it runs. */
/* A build that waits for a shard which its worker does not reach would keep all others from theirs:
 * it goes on there, and somebody else tries too. */
static void
leave_unreachable(cadre_core_t *self, cadre_resource_t *resource)
{
    const cadre_member_t *member = cadre_membership_find(&self->membership, resource->trial);
    if (member && !cadre_shard_set_is_empty(&member->unreachable)) {
        end_trial(self, resource);
    }
}

static void
try(cadre_core_t *self, cadre_resource_t *resource)
{
    leave_unreachable(self, resource);
    cadre_member_t *member =
        cadre_trials_resource(&self->trials, resource, is_wanted(self, resource));
    if (!member) {
        return;
    }
    if (cadre_resource_set_has(&member->resources_told, resource->id)) {
        tell_rest(self, member); /* where it has been alone for long */
    } else if (member->in_flight.count == 0) {
        tell(self, member, resource);
        member->alone_until_ms = self->effects.now_ms + CADRE_ALONE_MS;
    }
}

/* Ends what names a resource that has failed. */
static void
refuse(cadre_core_t *self, const cadre_resource_t *resource)
{
    cadre_closure_t *closure = NULL;
    while ((closure = cadre_closure_lanes_naming(&self->queue.lanes, resource->id))) {
        cadre_attempts_refuse(&self->attempts, closure,
                              cadre_fail(CADRE_EPOISON, "%s", resource->error));
    }
    while ((closure = cadre_closure_log_first(&self->replay.redo)) && names(closure, resource)) {
        cadre_replay_take_out(&self->replay, closure);
        cadre_attempts_give_up(&self->attempts, closure, CADRE_EPOISON, resource->error);
    }
}

void
cadre_resources_tick(cadre_core_t *self)
{
    if (self->resources_suspect == 0 && self->resources_failed == 0) {
        return;
    }
    for (uint32_t i = 0; i < self->catalogue.resource_count; i++) {
        if (self->catalogue.resources[i]->error) {
            refuse(self, self->catalogue.resources[i]);
        }
    }
    /* The least suspect first: those that are innocent are built and out of the way. */
    for (uint32_t deaths = CADRE_SUSPECT_DEATHS, left = self->resources_suspect; left > 0;
         deaths++) {
        for (uint32_t i = 0; i < self->catalogue.resource_count && left > 0; i++) {
            cadre_resource_t *resource = self->catalogue.resources[i];
            if (is_suspect(resource) && resource->suspicion.deaths == deaths) {
                try(self, resource);
                left--;
            }
        }
    }
}
