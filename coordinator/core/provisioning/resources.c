#include "coordinator/core/provisioning/resources.h"

#include "common/base/memory.h"

void
cadre_resources_init(cadre_resources_t *self, const cadre_resources_links_t *links)
{
    *self = (cadre_resources_t){.links = *links};
}

/* Returns whether the resource is suspect, and so built in trials only; one that has failed for
 * good is not built at all. */
static bool
is_suspect(const cadre_resource_t *resource)
{
    return !resource->error && cadre_suspicion_is_strong(&resource->suspicion);
}

/* --- announcements --- */

/* Sends a worker the RESOURCE that tells it to build: function and arguments, and what the worker
 * has to know first (variables, the sum of the generations of all shards). */
static void
send_resource(cadre_resources_t *self, const cadre_member_t *worker,
              const cadre_resource_t *resource)
{
    const cadre_closure_t *call = resource->call;
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_RESOURCE);
    message.resource =
        (cadre_resource_message_t){.id = resource->id,
                                   .name = resource->name,
                                   .function = call->function,
                                   .seed = resource->seed,
                                   .variables = call->variables,
                                   .names = {(const char *const *)call->names, call->name_count},
                                   .tensors = cadre_tensor_list_items(&call->tensors),
                                   .generations = self->links.recovery->announced,
                                   .workers = self->links.members->worker_places};
    cadre_tensor_list_add_chunks(&call->tensors, &message);
    cadre_effects_send(self->links.effects, &worker->task, &message);
}

/* Tells a worker to build the resource, and notes that and when it was told. */
static void
tell(cadre_resources_t *self, cadre_member_t *worker, const cadre_resource_t *resource)
{
    send_resource(self, worker, resource);
    cadre_resource_set_put(&worker->resources_told, resource->id);
    worker->resources_ms = self->links.effects->now_ms;
}

/* Tells a worker to build all resources that it was not told of and that are not suspect; not while
 * it is alone with a trial. */
static void
tell_rest(cadre_resources_t *self, cadre_member_t *worker)
{
    if (cadre_member_is_alone(worker, self->links.effects->now_ms)) {
        return;
    }

    for (uint32_t i = 0; i < self->links.catalogue->resource_count; i++) {
        const cadre_resource_t *resource = self->links.catalogue->resources[i];
        bool was_told = cadre_resource_set_has(&worker->resources_told, resource->id);
        if (!resource->removed && !resource->error && !is_suspect(resource) && !was_told) {
            tell(self, worker, resource);
        }
    }
}

/* Tells all workers to build the resources that they were not told of. */
void
cadre_resources_announce(cadre_resources_t *self)
{
    for (uint32_t i = 0; i < self->links.members->worker_capacity; i++) {
        if (self->links.members->workers[i]) {
            tell_rest(self, self->links.members->workers[i]);
        }
    }
}

/* Returns whether a worker was told to build the resource and has not said yet that it has. */
static bool
builds(const cadre_member_t *worker, const cadre_resource_t *resource)
{
    return cadre_resource_is_under_way(resource, &worker->resources_told, &worker->abilities);
}

/* Tells a worker that says HELLO to build resources: again those that it has not built yet, and the
 * new ones. */
void
cadre_resources_brief(cadre_resources_t *self, cadre_member_t *worker)
{
    for (uint32_t i = 0; i < self->links.catalogue->resource_count; i++) {
        const cadre_resource_t *resource = self->links.catalogue->resources[i];
        if (builds(worker, resource)) {
            tell(self, worker, resource); /* sent again: the first RESOURCE may not have arrived */
        }
    }
    tell_rest(self, worker);
}

/* --- crash attribution --- */

/* Ends the trial of a resource: its worker learns of the resources that were held back from it
 * during the trial. */
static void
end_trial(cadre_resources_t *self, cadre_resource_t *resource)
{
    cadre_member_t *worker = cadre_membership_find(self->links.members, resource->trial);
    resource->trial = 0;
    if (!worker) {
        return;
    }

    worker->trial = 0;
    tell_rest(self, worker);
}

/* Ends the trial on a worker that turns out to lack the function which builds the resource. */
void
cadre_resources_on_lack(cadre_resources_t *self, cadre_member_t *worker)
{
    if (worker->trial == 0) {
        return;
    }

    cadre_resource_t *resource = self->links.catalogue->resources[worker->trial - 1];
    if (!cadre_resource_is_buildable(resource, &worker->abilities)) {
        end_trial(self, resource);
    }
}

/* Ends the trial of a resource that is suspect no more: every worker builds it again. */
static void
clear(cadre_resources_t *self, cadre_resource_t *resource)
{
    self->suspect--;
    end_trial(self, resource);
    cadre_resources_announce(self);
}

/* Ends the trial of a resource that was removed, and forgets what it is blamed for. */
void
cadre_resources_on_removed(cadre_resources_t *self, cadre_resource_t *resource)
{
    self->failed -= resource->error ? 1 : 0;
    cadre_free(&resource->error);
    const bool was_suspect = is_suspect(resource);
    cadre_suspicion_clear(&resource->suspicion);
    if (was_suspect) {
        clear(self, resource);
    }
}

static const char *
function_name(const cadre_resources_t *self, const cadre_resource_t *resource)
{
    return self->links.catalogue->functions[resource->call->function - 1]->name;
}

/* Marks a resource as failed for good, because it killed too many workers: callers that wait for
 * it, and its closures, get this error. */
static void
fail_deadly(cadre_resources_t *self, cadre_resource_t *resource)
{
    char victims[CADRE_CLOSURE_ERROR_SIZE];
    cadre_suspicion_text(&resource->suspicion, victims, sizeof(victims));
    resource->error = cadre_asprintf("resource %s: %u workers died while they built it by function "
                                     "%s: %.400s",
                                     resource->name, resource->suspicion.deaths,
                                     function_name(self, resource), victims);
    self->suspect--;
    self->failed++;

    cadre_effects_log(self->links.effects, 'E', "resource_failed", "resource=%s why=\"%s\"",
                      resource->name, resource->error);
    cadre_effects_note_progress(self->links.effects);
}

/* Counts the death of a worker that had the resource to build. Of a suspect only deaths of the
 * worker that tries it count: what kills many workers at once must not be blamed on it. */
static void
blame(cadre_resources_t *self, cadre_resource_t *resource, const cadre_member_t *worker)
{
    cadre_suspicion_t *suspicion = &resource->suspicion;
    bool was_suspect = is_suspect(resource);
    if (resource->error || (was_suspect && worker->trial != resource->id)) {
        return;
    }

    const cadre_death_t death = cadre_membership_death(
        self->links.members, worker, worker->resources_ms, self->links.effects->now_ms);
    cadre_suspicion_add(suspicion, &death);
    self->suspect += !was_suspect && is_suspect(resource);
    cadre_effects_log(self->links.effects, 'W', "resource_suspect",
                      "resource=%s function=%s worker=%u process=%u deaths=%u expected=%.1f",
                      resource->name, function_name(self, resource), worker->index, worker->process,
                      suspicion->deaths, suspicion->expected);

    if (cadre_suspicion_is_proved(suspicion)) {
        fail_deadly(self, resource);
    }
}

/* Ends the trial on a worker that goes. If it died, its death counts against every resource that it
 * had to build. */
void
cadre_resources_on_lost(cadre_resources_t *self, cadre_member_t *worker, bool died)
{
    for (uint32_t i = 0; died && i < self->links.catalogue->resource_count; i++) {
        cadre_resource_t *resource = self->links.catalogue->resources[i];
        if (builds(worker, resource)) {
            blame(self, resource, worker);
        }
    }

    if (worker->trial) {
        self->links.catalogue->resources[worker->trial - 1]->trial = 0;
        worker->trial = 0;
    }
}

/* Takes back the death of this process, which says HELLO, from all resources that it was counted
 * against. */
void
cadre_resources_forgive(cadre_resources_t *self, uint64_t incarnation)
{
    for (uint32_t i = 0; i < self->links.catalogue->resource_count; i++) {
        cadre_resource_t *resource = self->links.catalogue->resources[i];
        bool was_suspect = is_suspect(resource);
        if (resource->error || !cadre_suspicion_forgive(&resource->suspicion, incarnation)) {
            continue;
        }
        if (was_suspect && !is_suspect(resource)) {
            clear(self, resource);
        }
    }
}

/* Notes that a worker has built a resource, which clears it of all suspicion. */
static void
on_built(cadre_resources_t *self, cadre_member_t *worker, cadre_resource_t *resource)
{
    bool was_suspect = is_suspect(resource);
    cadre_resource_set_put(&worker->abilities.built, resource->id);
    cadre_suspicion_clear(&resource->suspicion);
    if (was_suspect) {
        clear(self, resource);
    }
}

/* Takes from a heartbeat which resources the worker knows of and which it has built; tells it again
 * of those that it does not know. */
void
cadre_resources_on_heartbeat(cadre_resources_t *self, cadre_member_t *worker,
                             const cadre_heartbeat_message_t *heartbeat)
{
    const cadre_resource_set_t known = cadre_resource_set_of(heartbeat->known);
    const cadre_resource_set_t built = cadre_resource_set_of(heartbeat->built);
    uint64_t due_ms = worker->resources_ms + self->links.options->resend_ms;
    bool is_due = self->links.effects->now_ms >= due_ms;

    for (uint32_t i = 0; i < self->links.catalogue->resource_count; i++) {
        cadre_resource_t *resource = self->links.catalogue->resources[i];
        if (cadre_resource_set_has(&known, resource->id)) {
            /* The worker may know it from before it was lost: then it need not be told again. */
            cadre_resource_set_put(&worker->resources_told, resource->id);
        } else if (is_due && !resource->removed &&
                   cadre_resource_set_has(&worker->resources_told, resource->id)) {
            tell(self, worker, resource);
        }

        if (cadre_resource_set_has(&built, resource->id) &&
            !cadre_resource_set_has(&worker->abilities.built, resource->id)) {
            on_built(self, worker, resource);
        }
    }
    tell_rest(self, worker); /* resources that were announced while the worker was alone with a
                              * suspect */
}

/* --- trials --- */

/* Returns whether the suspect `left` is tried before `right`: fewer deaths first, then the
 * older. */
static bool
is_before(const cadre_resource_t *left, const cadre_resource_t *right)
{
    uint32_t left_deaths = left->suspicion.deaths;
    uint32_t right_deaths = right->suspicion.deaths;
    return left_deaths == right_deaths ? left->id < right->id : left_deaths < right_deaths;
}

/* Returns the suspect resource that is tried after `last` (NULL: the first to be tried); NULL:
 * there is none. */
cadre_resource_t *
cadre_resources_next_suspect(const cadre_resources_t *self, const cadre_resource_t *last)
{
    cadre_resource_t *next = NULL;
    for (uint32_t i = 0; self->suspect > 0 && i < self->links.catalogue->resource_count; i++) {
        cadre_resource_t *resource = self->links.catalogue->resources[i];
        bool is_left = is_suspect(resource) && (!last || is_before(last, resource));
        if (is_left && (!next || is_before(resource, next))) {
            next = resource;
        }
    }
    return next;
}

/* Returns whether the closure uses the resource. */
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

/* Returns a closure that uses the resource: a queued one, or the next to run again; NULL: there is
 * none. */
cadre_closure_t *
cadre_resources_find_user(const cadre_resources_t *self, const cadre_resource_t *resource)
{
    cadre_closure_t *queued = cadre_closure_lanes_naming(&self->links.queue->lanes, resource->id);
    if (queued) {
        return queued;
    }

    cadre_closure_t *again = cadre_closure_log_first(&self->links.replay->redo);
    return again && names(again, resource) ? again : NULL;
}

/* Returns whether the resource is to be tried, as a closure waits for it. Ends a trial that is
 * stuck. */
bool
cadre_resources_review_trial(cadre_resources_t *self, cadre_resource_t *resource)
{
    /* A build that waits for a shard which its worker does not reach would hold up the trial for
     * ever. The build goes on there, but another worker tries, too. */
    const cadre_member_t *worker = cadre_membership_find(self->links.members, resource->trial);
    if (worker && !cadre_shard_set_is_empty(&worker->unreachable)) {
        end_trial(self, resource);
    }
    return cadre_resources_find_user(self, resource) != NULL;
}

/* Tells the worker that was chosen for the trial to build the resource, once its closures have
 * ended. */
void
cadre_resources_try(cadre_resources_t *self, cadre_resource_t *resource, cadre_member_t *worker)
{
    if (cadre_resource_set_has(&worker->resources_told, resource->id)) {
        tell_rest(self, worker); /* the worker may have been alone for long enough to build others,
                                  * too */
        return;
    }
    if (worker->in_flight.count > 0) {
        return; /* while the worker runs closures, those could be to blame for its death as well */
    }

    tell(self, worker, resource);
    worker->alone_until_ms = self->links.effects->now_ms + CADRE_ALONE_MS;
}

/* --- resources that kill their workers --- */

/* Returns the resource after `last` (NULL: the first) that has failed for good; NULL: there is
 * none. */
const cadre_resource_t *
cadre_resources_next_failed(const cadre_resources_t *self, const cadre_resource_t *last)
{
    /* The resource with id n is number n - 1. */
    for (uint32_t i = last ? last->id : 0;
         self->failed > 0 && i < self->links.catalogue->resource_count; i++) {
        if (self->links.catalogue->resources[i]->error) {
            return self->links.catalogue->resources[i];
        }
    }
    return NULL;
}
