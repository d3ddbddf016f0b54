#include "coordinator/core/provisioning/operations.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/dtype.h"
#include "common/tensor/split.h"
#include "coordinator/core/catalogue/variable_slots.h"

/* Version in a PULL: the sender holds none, so the whole partition is sent. */
enum { HELD_NONE = 0 };

void
cadre_operations_init(cadre_operations_t *self, const cadre_operations_links_t *links)
{
    *self = (cadre_operations_t){.links = *links};
}

/* Returns the generation that a request to `shard` is made for. */
static uint64_t
generation_of(const cadre_operations_t *self, uint32_t shard)
{
    return self->links.recovery->places[shard].generation;
}

/* Counts that one request of an operation has ended. The first failure is kept. */
static void
end_one(cadre_operation_t *operation, int status, const char *text)
{
    operation->pending--;
    if (status < 0 && operation->status == 0) {
        operation->status = status;
        snprintf(operation->text, sizeof(operation->text), "%s", text);
    }
}

/* Takes an answer that only says whether the request was carried out. */
static void
on_reply(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    (void)detail;
    cadre_operation_t *operation = context;
    if (!reply || reply->type != CADRE_MESSAGE_REPLY) {
        end_one(operation, status < 0 ? status : CADRE_EMALFORMED, "a shard answered out of turn");
        return;
    }

    end_one(operation, -(int)reply->reply.status, reply->reply.text);
}

void
cadre_operations_give_up(cadre_operations_t *self, cadre_operation_t *operation)
{
    cadre_shard_requests_forget(self->links.requests, operation);
    operation->pending = 0;
}

/* --- create --- */

/* Takes a shard's answer to CREATE. Keeps the id of the first variable that failed. */
static void
on_created(void *context, uint64_t variable, const cadre_message_t *reply, int status)
{
    cadre_operation_t *operation = context;
    on_reply(context, variable, reply, status);
    if (operation->status < 0 && operation->failed == 0) {
        operation->failed = (uint32_t)variable;
    }
}

/* Asks the shards to create all partitions of the variable; the operation ends with the last
 * answer. */
void
cadre_operations_create(cadre_operations_t *self, const cadre_variable_t *variable,
                        cadre_operation_t *operation)
{
    /* added up: one operation may serve several variables */
    operation->pending += variable->partitions;

    for (uint32_t i = 0; i < variable->partitions; i++) {
        cadre_create_lists_t lists;
        uint32_t shard = variable->shards[i];
        cadre_message_t message = cadre_catalogue_create_message(variable, i, &lists);
        message.incarnation = self->links.options->incarnation;
        message.epoch = self->links.options->epoch;
        message.create.generation = generation_of(self, shard);
        /* fresh: the checkpoint that the shard began with lacks the variable */
        message.create.fresh = cadre_recovery_is_fresh(self->links.recovery, shard, variable);

        cadre_shard_requests_ask(self->links.requests, shard, &message, on_created, operation,
                                 variable->id);
    }
}

/* --- read --- */

/* Returns the offset in bytes at which a partition begins in the whole value; for `part` = number
 * of partitions, the size of the value. */
static size_t
part_offset(const cadre_variable_t *variable, uint64_t part)
{
    return variable->row_size_bytes *
           (size_t)cadre_split_first(variable->rows, variable->partitions, (int64_t)part);
}

/* Takes the VALUES of one partition, and copies them to their place in operation->target. */
static void
on_values(void *context, uint64_t part, const cadre_message_t *reply, int status)
{
    cadre_operation_t *operation = context;
    const cadre_variable_t *variable = operation->variable;
    if (!reply || reply->type != CADRE_MESSAGE_VALUES) {
        end_one(operation, status < 0 ? status : CADRE_EMALFORMED, "a shard answered out of turn");
        return;
    }
    if (reply->values.status != 0) {
        end_one(operation, -(int)reply->values.status, reply->values.text);
        return;
    }

    size_t offset = part_offset(variable, part);
    if (cadre_message_chunks_size_bytes(reply) != part_offset(variable, part + 1) - offset) {
        end_one(operation, CADRE_EMALFORMED, "a shard sent a part of another size");
        return;
    }

    if (operation->steps && reply->values.steps.count != 1) {
        end_one(operation, CADRE_EMALFORMED, "a shard sent no steps of its optimizer");
        return;
    }
    if (operation->steps) {
        operation->steps[part] = reply->values.steps.items[0];
    }

    char *to = (char *)operation->target + offset;
    for (size_t i = 0; i < reply->chunk_count; i++) {
        size_t size_bytes = cadre_chunk_size_bytes(reply->chunks[i]);
        memcpy(to, cadre_chunk_data(reply->chunks[i]), size_bytes);
        to += size_bytes;
    }
    end_one(operation, 0, "");
}

/* Asks the shards for the values of all partitions. */
void
cadre_operations_read(cadre_operations_t *self, const cadre_variable_t *variable,
                      cadre_operation_t *operation)
{
    operation->pending = variable->partitions;
    operation->variable = variable;

    for (uint32_t i = 0; i < variable->partitions; i++) {
        uint32_t shard = variable->shards[i];
        uint64_t items[] = {variable->id, i, HELD_NONE};
        cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_PULL);
        message.pull = (cadre_pull_message_t){.generation = generation_of(self, shard),
                                              .partitions = {items, 3},
                                              .average = operation->average,
                                              .slot = operation->slot};

        cadre_shard_requests_ask(self->links.requests, shard, &message, on_values, operation, i);
        /* time limits allow for the bytes that the answer will have */
        cadre_shard_requests_expect(self->links.requests, shard,
                                    part_offset(variable, (uint64_t)i + 1) -
                                        part_offset(variable, i));
    }
}

/* --- read rows --- */

/* Copies `size_bytes` from the chunks of a message to `to`, from byte `at` of chunk `k` on, and
 * steps behind them. The message has so many. */
static void
take_bytes(const cadre_message_t *message, size_t *k, size_t *at, size_t size_bytes, char *to)
{
    while (size_bytes > 0) {
        const size_t left = cadre_chunk_size_bytes(message->chunks[*k]) - *at;
        const size_t here = size_bytes < left ? size_bytes : left;
        memcpy(to, (const char *)cadre_chunk_data(message->chunks[*k]) + *at, here);
        to += here;
        size_bytes -= here;
        *at += here;
        if (here == left) {
            *k += 1;
            *at = 0;
        }
    }
}

/* Returns the bytes of a row of what is read. */
static size_t
row_size_of(const cadre_operation_t *operation)
{
    const cadre_variable_t *variable = operation->plan->variable;
    return operation->slot > 0
               ? cadre_variable_slots_row_elements(variable) * cadre_dtype_size(variable->dtype)
               : variable->row_size_bytes;
}

/* Takes the VALUES of one message of a plan, and copies each row to its position in
 * operation->target. */
static void
on_rows(void *context, uint64_t number, const cadre_message_t *reply, int status)
{
    cadre_operation_t *operation = context;
    if (!reply || reply->type != CADRE_MESSAGE_VALUES) {
        end_one(operation, status < 0 ? status : CADRE_EMALFORMED, "a shard answered out of turn");
        return;
    }
    if (reply->values.status != 0) {
        end_one(operation, -(int)reply->values.status, reply->values.text);
        return;
    }
    const cadre_row_plan_t *plan = operation->plan;
    const cadre_row_plan_message_t *message = &plan->messages[number];
    const size_t row_size_bytes = row_size_of(operation);
    if (cadre_message_chunks_size_bytes(reply) != message->row_count * row_size_bytes) {
        end_one(operation, CADRE_EMALFORMED, "a shard sent rows of another size");
        return;
    }

    /* The rows of a message stand behind each other in the plan's order. */
    const size_t first = plan->parts[message->first_part].first;
    size_t k = 0;
    size_t at = 0;
    for (size_t i = first; i < first + message->row_count; i++) {
        char *to = (char *)operation->target + plan->order[i] * row_size_bytes;
        take_bytes(reply, &k, &at, row_size_bytes, to);
    }
    end_one(operation, 0, "");
}

/* Asks the shards for the rows of a plan, one PULL for each of its messages. */
void
cadre_operations_read_rows(cadre_operations_t *self, const cadre_row_plan_t *plan,
                           cadre_operation_t *operation)
{
    operation->pending = plan->message_count;
    operation->variable = plan->variable;
    operation->plan = plan;

    for (size_t i = 0; i < plan->message_count; i++) {
        const cadre_row_plan_message_t *planned = &plan->messages[i];
        cadre_row_part_t records[CADRE_ROW_PARTS_MAX];
        cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_PULL);
        cadre_chunk_t *ids = cadre_row_plan_name(plan, planned, records);
        message.pull =
            (cadre_pull_message_t){.generation = generation_of(self, planned->shard),
                                   .average = operation->average,
                                   .slot = operation->slot,
                                   .rows = cadre_row_part_list(records, planned->part_count)};
        if (ids) {
            cadre_message_add_chunk(&message, ids);
        }

        cadre_shard_requests_ask(self->links.requests, planned->shard, &message, on_rows, operation,
                                 i);
        /* time limits allow for the bytes that the answer will have */
        cadre_shard_requests_expect(self->links.requests, planned->shard,
                                    planned->row_count * row_size_of(operation));
    }
}

/* --- assign --- */

/* Adds the rows of one partition to the message, cut into chunks as its shard holds them. */
static int
add_part(const cadre_variable_t *variable, uint32_t part, const void *bytes,
         cadre_message_t *message)
{
    cadre_chunk_layout_t layout;
    int64_t rows = cadre_split_rows(variable->rows, variable->partitions, part);
    int status = cadre_chunk_layout_init(&layout, (uint64_t)rows, variable->row_size_bytes);
    if (status < 0) {
        return status;
    }

    const char *from = (const char *)bytes + part_offset(variable, part);
    for (size_t i = 0; i < layout.count; i++) {
        cadre_message_add_chunk(message,
                                cadre_chunk_new_copy(from + cadre_chunk_layout_offset(&layout, i),
                                                     cadre_chunk_layout_size(&layout, i)));
    }
    return 0;
}

/* Returns an ASSIGN to `shard`, with the next of its sequences. */
static cadre_message_t
assign_message(cadre_operations_t *self, const cadre_variable_t *variable, cadre_assign_mode_t mode,
               uint32_t shard)
{
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_ASSIGN);
    message.assign = (cadre_assign_message_t){
        .sequence = cadre_recovery_next_assignment(self->links.recovery, shard),
        .generation = generation_of(self, shard),
        .mode = mode,
        .variable = variable->id};
    /* UINT64_MAX: an assignment that is made now comes after any open cut */
    cadre_checkpoint_after(self->links.checkpoint, UINT64_MAX, &message.assign.checkpoint,
                           &message.assign.cut);
    return message;
}

/* Sends an ASSIGN. It is kept for a replay: a shard that is restored gets the assignment again, at
 * its place among the closures. */
static void
send_assign(cadre_operations_t *self, uint32_t shard, cadre_message_t *message,
            cadre_operation_t *operation)
{
    cadre_replay_note_assign(self->links.replay, shard, cadre_begun_next_number(self->links.begun),
                             message);
    cadre_shard_requests_ask(self->links.requests, shard, message, on_reply, operation, 0);
}

/* Sends a whole value to the shards of the variable, one ASSIGN for each partition. */
void
cadre_operations_assign(cadre_operations_t *self, const cadre_variable_t *variable,
                        cadre_assign_mode_t mode, const void *bytes, cadre_operation_t *operation)
{
    *operation = (cadre_operation_t){.pending = variable->partitions, .variable = variable};

    for (uint32_t i = 0; i < variable->partitions; i++) {
        uint32_t shard = variable->shards[i];
        cadre_message_t message = assign_message(self, variable, mode, shard);
        message.assign.partition = i;
        if (add_part(variable, i, bytes, &message) < 0) {
            end_one(operation, CADRE_ETOOLARGE, cadre_error_text());
            continue;
        }
        send_assign(self, shard, &message, operation);
    }
}

/* Adds rows of a plan to a message, cut into chunks as a partition of so many rows is. A row that
 * is larger than a chunk goes into several. */
static void
add_rows(const cadre_row_plan_t *plan, const cadre_row_plan_part_t *part, const char *bytes,
         cadre_message_t *message)
{
    const size_t row_size_bytes = plan->variable->row_size_bytes;
    cadre_auto(cadre_free) char *rows = cadre_calloc(part->count, row_size_bytes);
    for (size_t i = 0; i < part->count; i++) {
        memcpy(rows + i * row_size_bytes, bytes + plan->order[part->first + i] * row_size_bytes,
               row_size_bytes);
    }
    cadre_chunk_layout_t layout;
    int status = cadre_chunk_layout_init(&layout, part->count, row_size_bytes);
    cadre_assert(status == 0); /* the plan has bounded it */
    for (size_t k = 0; k < layout.count; k++) {
        cadre_message_add_chunk(message,
                                cadre_chunk_new_copy(rows + cadre_chunk_layout_offset(&layout, k),
                                                     cadre_chunk_layout_size(&layout, k)));
    }
}

/* Sends rows to the shards of the variable, one ASSIGN for each message of the plan. */
void
cadre_operations_assign_rows(cadre_operations_t *self, const cadre_row_plan_t *plan,
                             cadre_assign_mode_t mode, const void *bytes,
                             cadre_operation_t *operation)
{
    *operation = (cadre_operation_t){.pending = plan->message_count, .variable = plan->variable};

    for (size_t i = 0; i < plan->message_count; i++) {
        const cadre_row_plan_message_t *planned = &plan->messages[i];
        cadre_row_part_t records[CADRE_ROW_PARTS_MAX];
        cadre_message_t message = assign_message(self, plan->variable, mode, planned->shard);
        cadre_chunk_t *ids = cadre_row_plan_name(plan, planned, records);
        message.assign.partition = records[0].partition;
        message.assign.rows = cadre_row_part_list(records, planned->part_count);
        if (ids) {
            cadre_message_add_chunk(&message, ids);
        }
        for (size_t k = 0; k < planned->part_count; k++) {
            add_rows(plan, &plan->parts[planned->first_part + k], bytes, &message);
        }
        send_assign(self, planned->shard, &message, operation);
    }
}

/* --- count --- */

/* Takes a shard's counters, for the totals in operation->target. */
static void
on_count(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    cadre_operation_t *operation = context;
    on_reply(context, detail, reply, status);
    if (operation->status < 0) {
        return;
    }

    const cadre_u64s_t *counters = &reply->reply.counters;
    if (counters->count < CADRE_PS_COUNTER_COUNT) {
        operation->status = CADRE_EMALFORMED;
        snprintf(operation->text, sizeof(operation->text), "a shard sent %zu counters, not %d",
                 counters->count, CADRE_PS_COUNTER_COUNT);
        return;
    }

    cadre_shard_totals_t *totals = operation->target;
    *totals =
        (cadre_shard_totals_t){.applied = counters->items[CADRE_PS_COUNTER_applied],
                               .duplicate = counters->items[CADRE_PS_COUNTER_duplicate],
                               .refused = counters->items[CADRE_PS_COUNTER_refused],
                               .staleness_max = counters->items[CADRE_PS_COUNTER_staleness_max]};
}

/* Asks a shard for its counters, for the totals in operation->target. */
void
cadre_operations_count(cadre_operations_t *self, uint32_t shard, cadre_operation_t *operation)
{
    operation->pending = 1;
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_COUNT);
    cadre_shard_requests_ask(self->links.requests, shard, &message, on_count, operation, shard);
}

/* Adds a part's counters of a table to those in operation->target. */
static void
on_table_count(void *context, uint64_t detail, const cadre_message_t *reply, int status)
{
    cadre_operation_t *operation = context;
    on_reply(context, detail, reply, status);
    if (operation->status < 0) {
        return;
    }

    const cadre_u64s_t *counters = &reply->reply.counters;
    if (counters->count < CADRE_TABLE_COUNTER_COUNT) {
        operation->status = CADRE_EMALFORMED;
        snprintf(operation->text, sizeof(operation->text), "a shard sent %zu counters, not %d",
                 counters->count, CADRE_TABLE_COUNTER_COUNT);
        return;
    }

    uint64_t *totals = operation->target;
    for (size_t i = 0; i < CADRE_TABLE_COUNTER_COUNT; i++) {
        const uint64_t most = counters->items[i] > totals[i] ? counters->items[i] : totals[i];
        totals[i] = i == CADRE_TABLE_COUNTER_steps ? most : totals[i] + counters->items[i];
    }
}

/* Asks each shard for the counters of its part of a table. */
void
cadre_operations_count_table(cadre_operations_t *self, const cadre_variable_t *table,
                             cadre_operation_t *operation)
{
    operation->pending = table->partitions;
    memset(operation->target, 0, sizeof(uint64_t) * CADRE_TABLE_COUNTER_COUNT);
    for (uint32_t i = 0; i < table->partitions; i++) {
        cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_COUNT);
        message.count.variable = table->id;
        cadre_shard_requests_ask(self->links.requests, table->shards[i], &message, on_table_count,
                                 operation, i);
    }
}

/* --- retire and drop --- */

/* Logs that a shard refused a request whose answer nobody waits for. A request that was given up
 * because the ps was lost is no refusal: the restore tells the shard what it has to know of
 * variables. */
static void
log_refusal(const cadre_operations_t *self, const char *event, uint64_t variable,
            const cadre_message_t *reply, int status)
{
    bool is_answered = reply && reply->type == CADRE_MESSAGE_REPLY;
    bool is_fine = is_answered ? reply->reply.status == 0 : status == CADRE_ECANCELLED;
    if (is_fine) {
        return;
    }

    cadre_effects_log(self->links.effects, 'E', event, "variable=%" PRIu64 " why=\"%.200s\"",
                      variable, is_answered ? reply->reply.text : "a shard answered out of turn");
}

/* Takes a shard's answer to RETIRE; only a refusal matters. */
static void
on_retired(void *context, uint64_t variable, const cadre_message_t *reply, int status)
{
    log_refusal(context, "variable_retire_failed", variable, reply, status);
}

/* Takes a shard's answer to DROP; only a refusal matters. */
static void
on_dropped(void *context, uint64_t variable, const cadre_message_t *reply, int status)
{
    log_refusal(context, "variable_drop_failed", variable, reply, status);
}

/* Sends RETIRE to each shard that has partitions of a dropped variable: from now on only closures
 * that were queued before name it. */
void
cadre_operations_retire(cadre_operations_t *self, const cadre_variable_t *variable)
{
    /* A cut that is open now was made before the drop, and holds the variable. */
    const cadre_checkpoint_t *checkpoint = self->links.checkpoint;
    uint64_t last = cadre_checkpoint_has_open_cut(checkpoint) ? checkpoint->id : 0;

    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        if (!cadre_variable_is_on(variable, shard)) {
            continue;
        }
        cadre_message_t message =
            cadre_recovery_retire_message(self->links.recovery, variable->id, shard, last);
        cadre_shard_requests_ask(self->links.requests, shard, &message, on_retired, self,
                                 variable->id);
    }
}

/* Asks each shard that has partitions of the variable to forget them. */
void
cadre_operations_drop(cadre_operations_t *self, const cadre_variable_t *variable)
{
    for (uint32_t shard = 0; shard < self->links.options->ps_count; shard++) {
        if (!cadre_variable_is_on(variable, shard)) {
            continue;
        }
        cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_DROP);
        message.drop = (cadre_drop_message_t){
            .variable = variable->id, .generation = generation_of(self, shard), .shard = shard};
        cadre_shard_requests_ask(self->links.requests, shard, &message, on_dropped, self,
                                 variable->id);
    }
}
