/* What is asked of shards, and what their answers make of it. */
#include "coordinator/core/provisioning/operations.h"

#include "common/wire/row_list.h"
#include "tests/coordinator/core_fixture.h"

TestSuite(operations, .timeout = 240);

static void
reply_with(fixture_t *self, uint32_t shard, const cadre_message_t *question, int status,
           const char *text)
{
    cadre_task_t ps = fixture_ps(shard);
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_REPLY);
    message.request = question->request;
    message.reply = (cadre_reply_message_t){.status = (uint64_t)-status, .text = text};
    fixture_say(self, &ps, &message);
}

Test(operations, a_create_ends_when_every_part_is_answered_with_the_first_failure)
{
    fixture_t *self = fixture_new(2);
    cadre_operation_t operation = {.pending = 0};
    fixture_join_ps(self);
    cadre_variable_t *variable = fixture_add_variable(self, "w", 7, 3);
    cadre_operations_create(&self->core.operations, variable, &operation);
    fixture_turn(self);
    cr_assert_eq(operation.pending, 3);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CREATE), 3);
    const cadre_message_t *creates[3];
    for (size_t i = 0; i < 3; i++) {
        creates[i] = fixture_sent(self, NULL, CADRE_MESSAGE_CREATE, i);
        cr_assert_eq(creates[i]->create.generation, 1);
        cr_assert_eq(creates[i]->epoch, FIXTURE_EPOCH);
    }
    uint32_t shards[3];
    for (size_t i = 0; i < 3; i++) {
        shards[i] = variable->shards[creates[i]->create.partition];
    }
    reply_with(self, shards[0], creates[0], 0, "");
    cadre_effects_take_progress(&self->core.effects);
    reply_with(self, shards[1], creates[1], CADRE_ESHAPE, "the checkpoint holds [6]");
    cr_assert(cadre_effects_take_progress(&self->core.effects));
    cr_assert_eq(operation.pending, 1);
    reply_with(self, shards[2], creates[2], CADRE_EFULL, "later");
    reply_with(self, shards[2], creates[2], 0, "doubled");
    cr_assert_eq(operation.pending, 0);
    cr_assert_eq(operation.status, CADRE_ESHAPE);
    cr_assert_str_eq(operation.text, "the checkpoint holds [6]");
    fixture_destroy(&self);
}

/* Some shards may have it, others not, and a CREATE may still come. */
Test(operations, a_creation_that_is_given_up_is_taken_back_before_its_name_is_used_again)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t worker = fixture_worker(0);
    cadre_operation_t operation = {.pending = 0};
    fixture_join_ps(self);
    fixture_hello(self, &worker);
    cadre_variable_t *variable = fixture_add_variable(self, "w", 7, 2);
    variable->created = false;
    cadre_operations_create(&self->core.operations, variable, &operation);
    fixture_turn(self);
    reply_with(self, 0, fixture_sent(self, NULL, CADRE_MESSAGE_CREATE, 0), 0, "");
    fixture_clear(self);
    cadre_operations_give_up(&self->core.operations, &operation);
    cadre_core_forget_variable(&self->core, variable);
    variable = fixture_add_variable(self, "w", 7, 2);
    cr_assert_eq(variable->id, 2);
    cadre_operations_create(&self->core.operations, variable, &operation);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_DROP), 2, "also where it is not known");
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CREATE), 0,
                 "not before they are answered");
    const cadre_message_t *vacancy = fixture_sent(self, &worker, CADRE_MESSAGE_VARIABLE, 0);
    cr_assert_eq(vacancy->variable.id, 1);
    cr_assert_eq(vacancy->variable.last, 1);
    cr_assert_eq(vacancy->variable.partitions, 0);
    for (uint32_t i = 0; i < 2; i++) {
        cadre_task_t ps = fixture_ps(i);
        const cadre_message_t *drop = fixture_sent(self, &ps, CADRE_MESSAGE_DROP, 0);
        cr_assert_eq(drop->drop.variable, 1);
        cr_assert_eq(drop->drop.generation, 1);
        cr_assert_eq(drop->drop.shard, i);
        reply_with(self, i, drop, 0, "");
    }
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CREATE), 2);
    fixture_destroy(&self);
}

static void
say_values(fixture_t *self, uint32_t shard, const cadre_message_t *question, const float *values,
           size_t count)
{
    cadre_task_t ps = fixture_ps(shard);
    uint64_t items[] = {3, 1};
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_VALUES);
    message.request = question->request;
    message.values = (cadre_values_message_t){.generation = 1, .partitions = {items, 2}};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(values, count * sizeof(float)));
    fixture_say(self, &ps, &message);
}

Test(operations, a_read_puts_the_parts_together_in_order)
{
    fixture_t *self = fixture_new(2);
    float whole[5] = {0};
    cadre_operation_t operation = {.target = whole};
    fixture_join_ps(self);
    cadre_variable_t *variable = fixture_add_variable(self, "w", 5, 2);
    cadre_operations_read(&self->core.operations, variable, &operation);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_PULL), 2);
    const cadre_message_t *pulls[2];
    for (uint32_t i = 0; i < 2; i++) {
        cadre_task_t ps = fixture_ps(i);
        pulls[i] = fixture_sent(self, &ps, CADRE_MESSAGE_PULL, 0);
        cr_assert_eq(pulls[i]->pull.partitions.items[1], i);
    }
    say_values(self, 1, pulls[1], (const float[]){4, 5}, 2);
    say_values(self, 0, pulls[0], (const float[]){1, 2, 3}, 3);
    cr_assert_eq(operation.pending, 0);
    cr_assert_eq(operation.status, 0, "%s", operation.text);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(whole[i], (float)(i + 1));
    }
    fixture_destroy(&self);
}

Test(operations, a_part_of_another_size_is_not_written_over_the_others)
{
    fixture_t *self = fixture_new(1);
    float whole[5] = {0};
    cadre_operation_t operation = {.target = whole};
    cadre_task_t ps = fixture_ps(0);
    fixture_join_ps(self);
    cadre_variable_t *variable = fixture_add_variable(self, "w", 5, 2);
    cadre_operations_read(&self->core.operations, variable, &operation);
    fixture_turn(self);
    say_values(self, 0, fixture_sent(self, &ps, CADRE_MESSAGE_PULL, 0),
               (const float[]){1, 2, 3, 4, 5, 6}, 6);
    cr_assert_eq(operation.status, CADRE_EMALFORMED);
    reply_with(self, 0, fixture_sent(self, &ps, CADRE_MESSAGE_PULL, 1), 0, "a reply to a pull");
    cr_assert_eq(operation.pending, 0);
    cr_assert_eq(whole[0], 0);
    fixture_destroy(&self);
}

Test(operations, rows_come_back_at_their_positions)
{
    fixture_t *self = fixture_new(2);
    float rows[4] = {0};
    cadre_operation_t operation = {.target = rows};
    const int64_t ids[] = {4, 0, 3, 0};
    cadre_row_plan_t plan;
    fixture_join_ps(self);
    cadre_variable_t *variable = fixture_add_variable(self, "w", 5, 2);
    cadre_row_plan_init(&plan, variable, ids, 0, 4);
    cadre_operations_read_rows(&self->core.operations, &plan, &operation);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_PULL), 2, "each shard once");
    const cadre_message_t *pulls[2];
    for (uint32_t i = 0; i < 2; i++) {
        cadre_task_t ps = fixture_ps(i);
        pulls[i] = fixture_sent(self, &ps, CADRE_MESSAGE_PULL, 0);
        cr_assert_eq(pulls[i]->pull.rows.count, 4);
    }
    say_values(self, 1, pulls[1], (const float[]){5, 4}, 2);
    say_values(self, 0, pulls[0], (const float[]){1, 1}, 2);
    cr_assert_eq(operation.pending, 0);
    cr_assert_eq(operation.status, 0, "%s", operation.text);
    const float wanted[] = {5, 1, 4, 1};
    cr_assert_arr_eq(rows, wanted, sizeof(wanted));
    cadre_row_plan_fini(&plan);
    fixture_destroy(&self);
}

Test(operations, rows_of_another_size_are_not_taken)
{
    fixture_t *self = fixture_new(1);
    float rows[2] = {0};
    cadre_operation_t operation = {.target = rows};
    cadre_task_t ps = fixture_ps(0);
    cadre_row_plan_t plan;
    fixture_join_ps(self);
    cadre_row_plan_init(&plan, fixture_add_variable(self, "w", 5, 1), NULL, 1, 2);
    cadre_operations_read_rows(&self->core.operations, &plan, &operation);
    fixture_turn(self);
    say_values(self, 0, fixture_sent(self, &ps, CADRE_MESSAGE_PULL, 0), (const float[]){1, 2, 3},
               3);
    cr_assert_eq(operation.status, CADRE_EMALFORMED);
    cr_assert_eq(rows[0], 0);
    cadre_row_plan_fini(&plan);
    fixture_destroy(&self);
}

Test(operations, assignments_to_a_shard_go_one_after_the_other_by_ascending_sequence)
{
    fixture_t *self = fixture_new(1);
    const float values[] = {1, 2, 3, 4, 5};
    cadre_operation_t first;
    cadre_operation_t second;
    cadre_task_t ps = fixture_ps(0);
    fixture_join_ps(self);
    cadre_variable_t *variable = fixture_add_variable(self, "w", 5, 2);
    cadre_operations_assign(&self->core.operations, variable, CADRE_ASSIGN_SET, values, &first);
    cadre_operations_assign(&self->core.operations, variable, CADRE_ASSIGN_ADD, values, &second);
    for (uint64_t sequence = 1; sequence <= 4; sequence++) {
        fixture_clear(self);
        fixture_turn(self);
        cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_ASSIGN), 1, "one at a time");
        const cadre_message_t *assign = fixture_sent(self, &ps, CADRE_MESSAGE_ASSIGN, 0);
        cr_assert_eq(assign->assign.sequence, sequence);
        cr_assert_eq(assign->assign.partition, (sequence - 1) % 2);
        cr_assert_eq(assign->assign.mode, sequence > 2 ? CADRE_ASSIGN_ADD : CADRE_ASSIGN_SET);
        cr_assert_eq(assign->chunk_count, 1);
        const float *bytes = cadre_chunk_data(assign->chunks[0]);
        cr_assert_eq(bytes[0], sequence % 2 == 1 ? 1.0F : 4.0F);
        reply_with(self, 0, assign, 0, "");
    }
    cr_assert_eq(first.pending + second.pending, 0);
    fixture_destroy(&self);
}

Test(operations, rows_are_assigned_one_message_for_each_shard)
{
    fixture_t *self = fixture_new(2);
    const float values[] = {1, 2, 3, 4};
    const int64_t ids[] = {4, 0, 3, 0};
    cadre_operation_t operation;
    cadre_row_plan_t plan;
    fixture_join_ps(self);
    cadre_variable_t *variable = fixture_add_variable(self, "w", 5, 2);
    cadre_row_plan_init(&plan, variable, ids, 0, 4);
    cadre_operations_assign_rows(&self->core.operations, &plan, CADRE_ASSIGN_ADD, values,
                                 &operation);
    cadre_row_plan_fini(&plan); /* what is sent holds its own */
    fixture_turn(self);
    for (uint32_t i = 0; i < 2; i++) {
        cadre_task_t ps = fixture_ps(i);
        cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_ASSIGN), 1);
        const cadre_message_t *assign = fixture_sent(self, &ps, CADRE_MESSAGE_ASSIGN, 0);
        const float wanted[2][2] = {{2, 4}, {1, 3}};
        cr_assert_eq(assign->assign.sequence, 1);
        cr_assert_eq(assign->assign.mode, CADRE_ASSIGN_ADD);
        cr_assert_eq(assign->assign.partition, i);
        cr_assert_eq(assign->assign.rows.count, 4);
        cr_assert_eq(assign->chunk_count, 2, "ids and rows");
        cr_assert_arr_eq(cadre_chunk_data(assign->chunks[1]), wanted[i], sizeof(wanted[i]));
        reply_with(self, i, assign, 0, "");
    }
    cr_assert_eq(operation.pending, 0);
    fixture_destroy(&self);
}

Test(operations, counters_of_a_shard_come_by_position_and_too_few_are_malformed)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t ps = fixture_ps(0);
    fixture_join_ps(self);
    for (int round = 0; round < 2; round++) {
        cadre_shard_totals_t totals = {0};
        cadre_operation_t operation = {.target = &totals};
        uint64_t counters[CADRE_PS_COUNTER_COUNT] = {0};
        counters[CADRE_PS_COUNTER_applied] = 11;
        counters[CADRE_PS_COUNTER_duplicate] = 22;
        counters[CADRE_PS_COUNTER_refused] = 33;
        counters[CADRE_PS_COUNTER_staleness_max] = 44;
        cadre_operations_count(&self->core.operations, 0, &operation);
        fixture_clear(self);
        fixture_turn(self);
        cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_REPLY);
        message.request = fixture_sent(self, &ps, CADRE_MESSAGE_COUNT, 0)->request;
        message.reply.counters =
            (cadre_u64s_t){counters, CADRE_PS_COUNTER_COUNT - (round == 0 ? 0 : 1)};
        fixture_say(self, &ps, &message);
        cr_assert_eq(operation.pending, 0);
        cr_assert_eq(operation.status, round == 0 ? 0 : CADRE_EMALFORMED);
        cr_assert_eq(totals.applied, round == 0 ? 11 : 0);
        cr_assert_eq(totals.staleness_max, round == 0 ? 44 : 0);
    }
    fixture_destroy(&self);
}

Test(operations, an_operation_that_was_given_up_is_not_touched_again)
{
    fixture_t *self = fixture_new(1);
    cadre_shard_totals_t totals = {0};
    cadre_operation_t operation = {.target = &totals};
    cadre_task_t ps = fixture_ps(0);
    fixture_join_ps(self);
    cadre_operations_count(&self->core.operations, 0, &operation);
    fixture_turn(self);
    cadre_operations_give_up(&self->core.operations, &operation);
    memset(&operation, 0x5a, sizeof(operation));
    cadre_operation_t before = operation;
    reply_with(self, 0, fixture_sent(self, &ps, CADRE_MESSAGE_COUNT, 0), 0, "late");
    cr_assert_eq(memcmp(&before, &operation, sizeof(before)), 0);
    fixture_destroy(&self);
}

/* --- tables --- */

/* A job with a table of rows of 2 numbers on 2 ps, and a key of each. */
static fixture_t *
job_with_table(cadre_variable_t **table, uint64_t keys[2])
{
    fixture_t *self = fixture_new(2);
    fixture_join_ps(self);
    *table = fixture_add_table(self, "users", 2);
    for (uint64_t key = UINT64_MAX; key > UINT64_MAX - 100; key--) {
        keys[cadre_table_shard(key, 2)] = key;
    }
    return self;
}

Test(operations, rows_of_a_table_come_back_at_the_positions_of_their_keys)
{
    cadre_variable_t *table = NULL;
    uint64_t keys[2];
    float rows[6] = {0};
    cadre_operation_t operation = {.target = rows};
    fixture_t *self = job_with_table(&table, keys);
    const uint64_t asked[] = {keys[1], keys[0], keys[1]};
    cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, table, (const int64_t *)asked, 0, 3);
    const float given[2][4] = {{1, 1.5F}, {2, 2.5F, 7, 8}};
    cadre_operations_read_rows(&self->core.operations, &plan, &operation);
    fixture_turn(self);
    for (uint32_t i = 0; i < 2; i++) {
        cadre_task_t ps = fixture_ps(i);
        cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_PULL), 1);
        const cadre_message_t *pull = fixture_sent(self, &ps, CADRE_MESSAGE_PULL, 0);
        const cadre_row_part_list_t list = cadre_row_part_list_view(&pull->pull.rows);
        cr_assert_eq(list.count, 1);
        cr_assert_eq(list.items[0].variable, table->id);
        cr_assert_eq(list.items[0].partition, i);
        cr_assert_eq(list.items[0].first, CADRE_ROWS_LISTED);
        cr_assert_eq(list.items[0].count, i + 1);
        cr_assert_eq(*(const uint64_t *)cadre_chunk_data(pull->chunks[0]), keys[i]);
        say_values(self, i, pull, given[i], 2 * (i + 1));
    }
    cr_assert_eq(operation.pending, 0);
    cr_assert_eq(operation.status, 0, "%s", operation.text);
    const float wanted[] = {2, 2.5F, 1, 1.5F, 7, 8};
    cr_assert_arr_eq(rows, wanted, sizeof(wanted));
    cadre_row_plan_fini(&plan);
    fixture_destroy(&self);
}

Test(operations, rows_of_a_table_are_assigned_by_key_and_kept_for_a_replay)
{
    cadre_variable_t *table = NULL;
    uint64_t keys[2];
    const float values[] = {1, 2, 3, 4};
    cadre_operation_t operation;
    fixture_t *self = job_with_table(&table, keys);
    cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, table, (const int64_t *)keys, 0, 2);
    cadre_operations_assign_rows(&self->core.operations, &plan, CADRE_ASSIGN_SET, values,
                                 &operation);
    cadre_row_plan_fini(&plan);
    fixture_turn(self);
    for (uint32_t i = 0; i < 2; i++) {
        cadre_task_t ps = fixture_ps(i);
        const cadre_message_t *assign = fixture_sent(self, &ps, CADRE_MESSAGE_ASSIGN, 0);
        cr_assert_eq(assign->assign.variable, table->id);
        cr_assert_eq(assign->assign.partition, i);
        cr_assert_eq(assign->chunk_count, 2, "keys and rows");
        cr_assert_eq(*(const uint64_t *)cadre_chunk_data(assign->chunks[0]), keys[i]);
        cr_assert_arr_eq(cadre_chunk_data(assign->chunks[1]), &values[2 * i], 2 * sizeof(float));
        reply_with(self, i, assign, 0, "");
    }
    cr_assert_eq(operation.pending, 0);
    cr_assert_eq(self->core.replay.assign_count, 2);
    fixture_destroy(&self);
}

static void
tell_table(fixture_t *self, uint32_t shard, const uint64_t *counters, size_t count)
{
    cadre_task_t ps = fixture_ps(shard);
    const cadre_message_t *question = fixture_sent(self, &ps, CADRE_MESSAGE_COUNT, 0);
    cr_assert_eq(question->count.variable, 1);
    cadre_message_t message = fixture_message(&ps, CADRE_MESSAGE_REPLY);
    message.request = question->request;
    message.reply.counters = (cadre_u64s_t){counters, count};
    fixture_say(self, &ps, &message);
}

Test(operations, counters_of_a_table_are_summed_but_its_steps_and_too_few_are_malformed)
{
    cadre_variable_t *table = NULL;
    uint64_t keys[2];
    fixture_t *self = job_with_table(&table, keys);
    for (size_t missing = 0; missing < 2; missing++) {
        uint64_t counters[CADRE_TABLE_COUNTER_COUNT];
        uint64_t totals[CADRE_TABLE_COUNTER_COUNT];
        cadre_operation_t operation = {.target = totals};
        memset(totals, 0x5a, sizeof(totals));
        cadre_operations_count_table(&self->core.operations, table, &operation);
        fixture_clear(self);
        fixture_turn(self);
        for (uint32_t shard = 0; shard < 2; shard++) {
            for (uint64_t i = 0; i < CADRE_TABLE_COUNTER_COUNT; i++) {
                counters[i] = 10 * i + 9 - 2 * shard;
            }
            tell_table(self, shard, counters, CADRE_TABLE_COUNTER_COUNT - missing);
        }
        cr_assert_eq(operation.pending, 0);
        cr_assert_eq(operation.status, missing ? CADRE_EMALFORMED : 0);
        for (uint64_t i = 0; missing == 0 && i < CADRE_TABLE_COUNTER_COUNT; i++) {
            cr_assert_eq(totals[i], i == CADRE_TABLE_COUNTER_steps ? 10 * i + 9 : 20 * i + 16);
        }
    }
    fixture_destroy(&self);
}

Test(operations, a_shard_that_is_restored_creates_its_part_of_a_table)
{
    cadre_variable_t *table = NULL;
    uint64_t keys[2];
    fixture_t *self = job_with_table(&table, keys);
    cadre_task_t ps = fixture_ps(1);
    fixture_gone(self, &ps);
    ps.incarnation++;
    fixture_hello(self, &ps);
    fixture_turn(self);
    fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0));
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_CREATE), 1);
    const cadre_create_message_t *create =
        &fixture_sent(self, &ps, CADRE_MESSAGE_CREATE, 0)->create;
    cr_assert_eq(create->partition, 1);
    cr_assert_eq(create->partitions, 2);
    cr_assert_eq(create->table.count, 6);
    fixture_destroy(&self);
}
