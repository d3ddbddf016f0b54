/*
 * briefing - telling workers what closures refer to: shards, variables, functions, datasets;
 * resources.c does for resources.
 *
 * Everything is told when it comes to be and to every worker that joins; a worker that misses
 * something asks (WANT).
 */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/wire_dtype.h"
#include "coordinator/coordinator_core.h"

static void
send_variable(cadre_core_t *self, const cadre_member_t *member, const cadre_variable_t *variable)
{
    uint64_t shape[CADRE_RANK_MAX];
    uint64_t *shards = cadre_calloc(CADRE_VARIABLE_SHARDS_MAX, sizeof(*shards));
    for (int i = 0; i < variable->rank; i++) {
        shape[i] = (uint64_t)variable->shape[i];
    }
    for (uint32_t first = 0; first < variable->partitions; first += CADRE_VARIABLE_SHARDS_MAX) {
        uint32_t count = variable->partitions - first;
        count = count < CADRE_VARIABLE_SHARDS_MAX ? count : CADRE_VARIABLE_SHARDS_MAX;
        for (uint32_t i = 0; i < count; i++) {
            shards[i] = variable->shards[first + i];
        }
        cadre_message_t message = cadre_core_message(self, CADRE_MESSAGE_VARIABLE);
        message.variable = (cadre_variable_message_t){
            .id = variable->id,
            .name = variable->name,
            .dtype = variable->dtype,
            .wire = cadre_wire_dtype_encode(variable->dtype, variable->wire),
            .shape = {shape, (size_t)variable->rank},
            .partitions = variable->partitions,
            .first = first,
            .shards = {shards, count}};
        cadre_outbox_send(&self->outbox, &member->task, &message);
    }
    free(shards);
}

/* No variable has the ids from `first` to `last`. */
static void
send_vacancy(cadre_core_t *self, const cadre_member_t *member, uint32_t first, uint32_t last)
{
    cadre_message_t message = cadre_core_message(self, CADRE_MESSAGE_VARIABLE);
    message.variable = (cadre_variable_message_t){.id = first, .name = "", .last = last};
    cadre_outbox_send(&self->outbox, &member->task, &message);
}

/* Every id from `first` on, but for a variable that is being created. */
static void
send_variables(cadre_core_t *self, const cadre_member_t *member, uint32_t first)
{
    const cadre_catalogue_t *catalogue = &self->catalogue;
    for (uint32_t id = first; id <= catalogue->variable_count; id++) {
        uint32_t last = id;
        if (catalogue->variables[id - 1]->created) {
            send_variable(self, member, catalogue->variables[id - 1]);
        }
        if (cadre_catalogue_is_vacant(catalogue, id)) {
            while (last < catalogue->variable_count &&
                   cadre_catalogue_is_vacant(catalogue, last + 1)) {
                last++;
            }
            send_vacancy(self, member, id, last);
        }
        id = last;
    }
}

static void
send_function(cadre_core_t *self, const cadre_member_t *member, const cadre_function_t *function)
{
    cadre_message_t message = cadre_core_message(self, CADRE_MESSAGE_FUNCTION);
    message.function = (cadre_function_message_t){
        .id = function->id, .kind = function->kind, .name = function->name, .hash = function->hash};
    size_t size_bytes = function->program ? cadre_chunk_size_bytes(function->program) : 0;
    for (size_t at = 0; at < size_bytes; at += CADRE_CHUNK_SIZE_MAX) {
        size_t size =
            size_bytes - at < CADRE_CHUNK_SIZE_MAX ? size_bytes - at : CADRE_CHUNK_SIZE_MAX;
        const char *bytes = cadre_chunk_data(function->program);
        cadre_message_add_chunk(&message, cadre_chunk_new_copy(bytes + at, size));
    }
    cadre_outbox_send(&self->outbox, &member->task, &message);
}

static void
send_dataset(cadre_core_t *self, const cadre_member_t *member, const cadre_dataset_t *dataset)
{
    cadre_message_t message = cadre_core_message(self, CADRE_MESSAGE_DATASET);
    message.dataset = (cadre_dataset_message_t){.id = dataset->id, .name = dataset->name};
    cadre_message_add_chunk(
        &message, cadre_chunk_new_copy(dataset->description, strlen(dataset->description)));
    cadre_outbox_send(&self->outbox, &member->task, &message);
}

/* Where a shard is, or that it is away; nothing of one that was never there. */
static void
send_shard(cadre_core_t *self, const cadre_member_t *member, uint32_t shard)
{
    const cadre_member_t *ps = self->membership.ps[shard];
    const cadre_place_t *place = &self->shards[shard];
    cadre_message_t message = cadre_core_message(self, CADRE_MESSAGE_SHARD);
    if (place->state == CADRE_PLACE_READY) {
        message.shard = (cadre_shard_message_t){.index = shard,
                                                .address = ps->address,
                                                .incarnation = ps->task.incarnation,
                                                .generation = place->generation};
    } else if (place->lost_once) {
        message.shard =
            (cadre_shard_message_t){.index = shard, .address = "", .generation = place->announced};
    } else {
        return; /* told when it comes */
    }
    cadre_outbox_send(&self->outbox, &member->task, &message);
}

void
cadre_core_brief(cadre_core_t *self, cadre_member_t *member)
{
    for (uint32_t i = 0; i < self->options.ps_count; i++) {
        send_shard(self, member, i);
    }
    send_variables(self, member, 1);
    for (uint32_t i = 0; i < self->catalogue.function_count; i++) {
        send_function(self, member, self->catalogue.functions[i]);
    }
    for (uint32_t i = 0; i < self->catalogue.dataset_count; i++) {
        send_dataset(self, member, self->catalogue.datasets[i]);
    }
    cadre_resources_brief(self, member);
}

/* Calls `send` for every worker there is. */
#define FOR_EACH_WORKER(self, member)                                                              \
    for (uint32_t worker_ = 0; worker_ < (self)->membership.worker_capacity; worker_++)            \
        if (((member) = (self)->membership.workers[worker_]))

void
cadre_core_announce_shard(cadre_core_t *self, uint32_t shard)
{
    const cadre_member_t *member = NULL;
    FOR_EACH_WORKER(self, member)
    {
        send_shard(self, member, shard);
    }
}

void
cadre_core_announce_variable(cadre_core_t *self, const cadre_variable_t *variable)
{
    const cadre_member_t *member = NULL;
    FOR_EACH_WORKER(self, member)
    {
        send_variable(self, member, variable);
    }
}

void
cadre_core_announce_vacancy(cadre_core_t *self, uint32_t id)
{
    const cadre_member_t *member = NULL;
    FOR_EACH_WORKER(self, member)
    {
        send_vacancy(self, member, id, id);
    }
}

void
cadre_core_announce_function(cadre_core_t *self, const cadre_function_t *function)
{
    const cadre_member_t *member = NULL;
    FOR_EACH_WORKER(self, member)
    {
        send_function(self, member, function);
    }
}

void
cadre_core_announce_dataset(cadre_core_t *self, const cadre_dataset_t *dataset)
{
    const cadre_member_t *member = NULL;
    FOR_EACH_WORKER(self, member)
    {
        send_dataset(self, member, dataset);
    }
}

void
cadre_core_on_want(cadre_core_t *self, const cadre_member_t *member,
                   const cadre_want_message_t *want)
{
    const cadre_catalogue_t *catalogue = &self->catalogue;
    uint64_t id = want->id;
    switch ((cadre_want_t)want->kind) {
    case CADRE_WANT_SHARD:
        if (id < self->options.ps_count) {
            send_shard(self, member, (uint32_t)id);
        }
        break;
    case CADRE_WANT_VARIABLE: /* that one and those after it: whoever misses one mostly misses more
                               */
        if (id >= 1 && id <= catalogue->variable_count) {
            send_variables(self, member, (uint32_t)id);
        }
        break;
    case CADRE_WANT_FUNCTION:
        if (id >= 1 && id <= catalogue->function_count) {
            send_function(self, member, catalogue->functions[id - 1]);
        }
        break;
    case CADRE_WANT_DATASET:
        if (id >= 1 && id <= catalogue->dataset_count) {
            send_dataset(self, member, catalogue->datasets[id - 1]);
        }
        break;
    }
}
