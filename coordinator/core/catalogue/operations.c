/*
 * operations - what the API does on shards: create, read, assign, count. Each is one request per
 * part, or per shard, and ends when all are answered.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/split.h"
#include "coordinator/core/coordinator_core.h"

/* One request of an operation has ended. The first failure is kept. */
static void
one_ended(cadre_operation_t *operation, int status, const char *text)
{
    operation->pending--;
    if (status < 0 && operation->status == 0) {
        operation->status = status;
        snprintf(operation->text, sizeof(operation->text), "%s", text);
    }
}

static void
on_reply(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    (void)detail;
    cadre_operation_t *operation = context;
    if (!reply || reply->type != CADRE_MESSAGE_REPLY) {
        one_ended(operation, status < 0 ? status : CADRE_EMALFORMED,
                  "a shard answered out of turn");
    } else {
        one_ended(operation, -(int)reply->reply.status, reply->reply.text);
    }
}

static void
on_created(void *context, uint64_t variable, const cadre_message_t *reply, int status)
{
    cadre_operation_t *operation = context;
    on_reply(context, variable, reply, status);
    if (operation->status < 0 && operation->failed == 0) {
        operation->failed = (uint32_t)variable;
    }
}

void
cadre_core_create_variable(cadre_core_t *self, const cadre_variable_t *variable,
                           cadre_operation_t *operation)
{
    operation->pending += variable->partitions;
    for (uint32_t i = 0; i < variable->partitions; i++) {
        uint64_t shape[CADRE_RANK_MAX];
        uint32_t shard = variable->shards[i];
        cadre_message_t message = cadre_catalogue_create_message(variable, i, shape);
        message.incarnation = self->options.incarnation;
        message.epoch = self->options.epoch;
        message.create.generation = self->recovery.places[shard].generation;
        message.create.fresh = cadre_recovery_is_fresh(&self->recovery, shard, variable);
        cadre_shard_requests_ask(&self->requests, shard, &message, on_created, operation,
                                 variable->id);
    }
}

/* --- drop --- */

static void
on_dropped(void *context, uint64_t variable, const cadre_message_t *reply, int status)
{
    cadre_core_t *self = context;
    bool answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    if (answered ? reply->reply.status != 0 : status != CADRE_ECANCELLED) {
        cadre_effects_log(&self->effects, 'E', "variable_not_dropped",
                          "variable=%" PRIu64 " why=\"%.200s\"", variable,
                          answered ? reply->reply.text : "a shard answered out of turn");
    }
}

/* Asks each shard that has a part of the variable to forget it. */
static void
ask_drops(cadre_core_t *self, const cadre_variable_t *variable)
{
    for (uint32_t shard = 0; shard < self->options.ps_count; shard++) {
        if (!cadre_variable_is_on(variable, shard)) {
            continue;
        }
        cadre_message_t message = cadre_effects_message(&self->effects, CADRE_MESSAGE_DROP);
        message.drop = (cadre_drop_message_t){.variable = variable->id,
                                              .generation = self->recovery.places[shard].generation,
                                              .shard = shard};
        cadre_shard_requests_ask(&self->requests, shard, &message, on_dropped, self, variable->id);
    }
}

void
cadre_core_forget_variable(cadre_core_t *self, cadre_variable_t *variable)
{
    ask_drops(self, variable);
    cadre_core_unlist_variable(self, variable);
}

void
cadre_core_unlist_variable(cadre_core_t *self, cadre_variable_t *variable)
{
    uint32_t id = variable->id;
    cadre_catalogue_drop_variable(&self->catalogue, variable);
    cadre_announcements_add_vacancy(&self->announcements, id);
}

/* --- read --- */

static size_t
part_offset(const cadre_variable_t *variable, uint64_t part)
{
    return variable->row_size_bytes *
           (size_t)cadre_split_first(variable->rows, variable->partitions, (int64_t)part);
}

static void
on_values(void *context, uint64_t part, const cadre_message_t *reply, int status)
{
    cadre_operation_t *operation = context;
    const cadre_variable_t *variable = operation->variable;
    if (!reply || reply->type != CADRE_MESSAGE_VALUES) {
        one_ended(operation, status < 0 ? status : CADRE_EMALFORMED,
                  "a shard answered out of turn");
        return;
    }
    if (reply->values.status != 0) {
        one_ended(operation, -(int)reply->values.status, reply->values.text);
        return;
    }
    size_t offset = part_offset(variable, part);
    size_t end = part_offset(variable, part + 1);
    size_t given = 0;
    for (size_t i = 0; i < reply->chunk_count; i++) {
        given += cadre_chunk_size_bytes(reply->chunks[i]);
    }
    if (given != end - offset) {
        one_ended(operation, CADRE_EMALFORMED, "a shard sent a part of another size");
        return;
    }
    char *to = (char *)operation->target + offset;
    for (size_t i = 0; i < reply->chunk_count; i++) {
        size_t size_bytes = cadre_chunk_size_bytes(reply->chunks[i]);
        memcpy(to, cadre_chunk_data(reply->chunks[i]), size_bytes);
        to += size_bytes;
    }
    one_ended(operation, 0, "");
}

void
cadre_core_read_variable(cadre_core_t *self, const cadre_variable_t *variable,
                         cadre_operation_t *operation)
{
    operation->pending = variable->partitions;
    operation->variable = variable;
    for (uint32_t i = 0; i < variable->partitions; i++) {
        uint32_t shard = variable->shards[i];
        uint64_t items[] = {variable->id, i, 0};
        cadre_message_t message = cadre_effects_message(&self->effects, CADRE_MESSAGE_PULL);
        message.pull = (cadre_pull_message_t){.generation = self->recovery.places[shard].generation,
                                              .partitions = {items, 3}};
        cadre_shard_requests_ask(&self->requests, shard, &message, on_values, operation, i);
        cadre_shard_requests_expect(&self->requests, shard,
                                    part_offset(variable, (uint64_t)i + 1) -
                                        part_offset(variable, i));
    }
}

/* --- assign --- */

void
cadre_core_assign_variable(cadre_core_t *self, const cadre_variable_t *variable,
                           cadre_assign_mode_t mode, const void *bytes,
                           cadre_operation_t *operation)
{
    *operation = (cadre_operation_t){.pending = variable->partitions, .variable = variable};
    for (uint32_t i = 0; i < variable->partitions; i++) {
        uint32_t shard = variable->shards[i];
        cadre_message_t message = cadre_effects_message(&self->effects, CADRE_MESSAGE_ASSIGN);
        message.assign = (cadre_assign_message_t){
            .sequence = cadre_recovery_next_assignment(&self->recovery, shard),
            .generation = self->recovery.places[shard].generation,
            .mode = mode,
            .variable = variable->id,
            .partition = i};
        cadre_checkpoint_after(&self->checkpoint, UINT64_MAX, &message.assign.checkpoint,
                               &message.assign.cut);
        cadre_chunk_layout_t layout;
        int64_t rows = cadre_split_rows(variable->rows, variable->partitions, i);
        if (cadre_chunk_layout_init(&layout, (uint64_t)rows, variable->row_size_bytes) < 0) {
            one_ended(operation, CADRE_ETOOLARGE, cadre_error_text());
            continue;
        }
        const char *from = (const char *)bytes + part_offset(variable, i);
        for (size_t k = 0; k < layout.count; k++) {
            cadre_message_add_chunk(
                &message, cadre_chunk_new_copy(from + cadre_chunk_layout_offset(&layout, k),
                                               cadre_chunk_layout_size(&layout, k)));
        }
        cadre_replay_note_assign(&self->replay, shard, self->begun.next_id, &message);
        cadre_shard_requests_ask(&self->requests, shard, &message, on_reply, operation, i);
    }
}

/* --- count --- */

static void
on_count(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    cadre_operation_t *operation = context;
    on_reply(context, detail, reply, status);
    if (operation->status < 0) {
        return;
    }
    const cadre_u64s_t *counters = &reply->reply.counters;
    cadre_shard_totals_t *totals = operation->target;
    if (counters->count < CADRE_PS_COUNTER_COUNT) {
        operation->status = CADRE_EMALFORMED;
        snprintf(operation->text, sizeof(operation->text), "a shard sent %zu counters, not %d",
                 counters->count, CADRE_PS_COUNTER_COUNT);
        return;
    }
    *totals =
        (cadre_shard_totals_t){.applied = counters->items[CADRE_PS_COUNTER_applied],
                               .duplicate = counters->items[CADRE_PS_COUNTER_duplicate],
                               .refused = counters->items[CADRE_PS_COUNTER_refused],
                               .staleness_max = counters->items[CADRE_PS_COUNTER_staleness_max]};
}

void
cadre_core_count_shard(cadre_core_t *self, uint32_t shard, cadre_operation_t *operation)
{
    operation->pending = 1;
    cadre_message_t message = cadre_effects_message(&self->effects, CADRE_MESSAGE_COUNT);
    cadre_shard_requests_ask(&self->requests, shard, &message, on_count, operation, shard);
}

void
cadre_core_forget(cadre_core_t *self, cadre_operation_t *operation)
{
    cadre_shard_requests_forget(&self->requests, operation);
    operation->pending = 0;
}
