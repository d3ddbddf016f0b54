/*
 * Pulls and pushes of some rows of variables.
 */
#include "worker/core/worker_values.h"

#include "common/spec/table_spec.h"
#include "common/wire/row_list.h"
#include "tests/worker/recovery_fixture.h"

TestSuite(worker_rows, .timeout = 240);

/* Variable "t" of `rows` rows of two elements, in as many partitions as there are `shards`. */
static const cadre_variable_entry_t *
define(fixture_t *self, uint64_t rows, const uint64_t *shards, size_t partitions)
{
    const uint64_t shape[] = {rows, 2};
    cadre_message_t message = {.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = 2,
                                                  .name = "t",
                                                  .dtype = CADRE_F32,
                                                  .shape = {shape, 2},
                                                  .partitions = partitions,
                                                  .shards = {shards, partitions},
                                                  .kind = CADRE_VARIABLE_ROWS};
    fixture_tell(self, message);
    const cadre_variable_entry_t *entry = cadre_directory_variable_by_name(
        cadre_worker_core_directory(self->core), "t", 0, &(bool){false});
    cr_assert_not_null(entry);
    cr_assert(entry->takes_rows);
    return entry;
}

/* Two partitions of five rows, on shards 0 and 1. */
static const cadre_variable_entry_t *
define_small(fixture_t *self)
{
    return define(self, 10, (uint64_t[]){0, 1}, 2);
}

static void
pull_rows(fixture_t *self, cadre_run_t *run, const cadre_variable_entry_t *variable,
          const cadre_rows_t *rows)
{
    const cadre_wanted_t wanted = {.variable = variable, .rows = rows};
    cadre_worker_core_pull(self->core, run, &wanted, 1, self->now_ms);
}

/* Takes the next PULL of rows to a shard, which must name `count` rows of one partition; answers it
 * by rows {id, 100 + id}. */
static void
answer_rows(fixture_t *self, uint32_t shard, uint64_t version, size_t count)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_PULL, (int)shard, &message));
    cadre_row_list_t list;
    cadre_part_rows_t rows;
    cr_assert_eq(message.pull.partitions.count, 0);
    cr_assert_eq(cadre_row_list_init(&list, &message.pull.rows, &message), 0, "%s",
                 cadre_error_text());
    cr_assert(cadre_row_list_next(&list, &rows));
    cr_assert_eq(rows.count, count);
    float *values = cadre_calloc(2 * count, sizeof(*values));
    for (size_t i = 0; i < count; i++) {
        values[2 * i] = (float)cadre_part_rows_at(&rows, i);
        values[2 * i + 1] = 100 + values[2 * i];
    }
    cr_assert_not(cadre_row_list_next(&list, &rows));

    uint64_t items[] = {version, 1};
    cadre_message_t answer = {.type = CADRE_MESSAGE_VALUES, .request = message.request};
    answer.values = (cadre_values_message_t){.generation = 1, .partitions = {items, 2}};
    cadre_message_add_chunk(&answer, cadre_chunk_new_copy(values, 2 * count * sizeof(*values)));
    free(values);
    cadre_message_fini(&message);
    fixture_deliver(self, CADRE_ROLE_PS, shard, &answer);
}

/* Expects the value that was pulled to be the rows {id, 100 + id} of these ids. */
static void
expect_rows(fixture_t *self, const cadre_rows_t *rows)
{
    cadre_worker_event_t event = expect_ended(self, CADRE_WORKER_VALUES, 0);
    cr_assert_eq(event.value_count, 1);
    cadre_value_t *value = &event.values[0];
    cr_expect_eq(value->content, 0);
    cr_assert_eq(value->size_bytes, 2 * rows->count * sizeof(float));
    size_t at = 0;
    for (size_t i = 0; i < value->chunk_count; i++) {
        const float *numbers = cadre_chunk_data(value->chunks[i]);
        for (size_t k = 0; k < cadre_chunk_size_bytes(value->chunks[i]) / 8; k++, at++) {
            cr_assert_eq(numbers[2 * k], (float)rows->ids[at]);
            cr_assert_eq(numbers[2 * k + 1], 100 + (float)rows->ids[at]);
        }
    }
    cr_assert_eq(at, rows->count);
    cadre_values_fini(&event.values, event.value_count);
}

Test(worker_rows, V8_pulls_the_rows_of_each_shard_and_joins_them_in_their_order)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_variable_entry_t *t = define_small(&self);
    const cadre_rows_t rows = {.ids = (uint64_t[]){0, 4, 5, 9}, .count = 4};
    for (int i = 0; i < 2; i++) { /* rows are not kept: the second pull asks for all of them */
        pull_rows(&self, run, t, &rows);
        answer_rows(&self, 0, 7, 2);
        cr_expect_not(happened(&self, CADRE_WORKER_VALUES));
        answer_rows(&self, 1, 8, 2);
        expect_rows(&self, &rows);
    }
    cr_expect_eq(cadre_worker_core_figures(self.core).counters[CADRE_WORKER_COUNTER_rows_pulled],
                 8);
    fixture_fini(&self);
}

Test(worker_rows, V8_asks_no_shard_that_has_none_of_them)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_rows_t rows = {.ids = (uint64_t[]){6}, .count = 1};
    pull_rows(&self, run, define_small(&self), &rows);
    answer_rows(&self, 1, 7, 1);
    expect_rows(&self, &rows);
    fixture_fini(&self);
}

Test(worker_rows, pulls_whole_variables_and_rows_in_one_operation)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_rows_t rows = {.ids = (uint64_t[]){3}, .count = 1};
    const cadre_wanted_t wanted[] = {{.variable = define_small(&self), .rows = &rows},
                                     {.variable = variable(&self)}};
    cadre_worker_core_pull(self.core, run, wanted, 2, self.now_ms);
    cadre_message_t message;
    answer_rows(&self, 0, 7, 1);
    for (uint32_t shard = 0; shard < 2; shard++) {
        cr_assert(take_message(&self, CADRE_MESSAGE_PULL, (int)shard, &message));
        cr_assert_eq(message.pull.rows.count, 0);
        answer_pull(&self, shard, message.request, 8, (float[]){1, 2});
        cadre_message_fini(&message);
    }
    cadre_worker_event_t event = expect_ended(&self, CADRE_WORKER_VALUES, 0);
    cr_assert_eq(event.value_count, 2);
    cr_expect_str_eq(event.values[0].variable->name, "t");
    cr_expect_eq(event.values[0].size_bytes, 8);
    cr_expect_str_eq(event.values[1].variable->name, "w");
    cr_expect_eq(event.values[1].size_bytes, 16);
    cr_expect_neq(event.values[1].content, 0);
    cadre_values_fini(&event.values, event.value_count);
    fixture_fini(&self);
}

Test(worker_rows, asks_for_more_rows_than_a_message_takes_in_several)
{
    enum { COUNT = CADRE_ROWS_MAX + 3 };
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_variable_entry_t *t = define(&self, 2 * COUNT, (uint64_t[]){0}, 1);
    static uint64_t ids[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        ids[i] = 2 * i;
    }
    const cadre_rows_t rows = {.ids = ids, .count = COUNT};
    pull_rows(&self, run, t, &rows);
    answer_rows(&self, 0, 9, CADRE_ROWS_MAX);
    answer_rows(&self, 0, 8, 3);
    expect_rows(&self, &rows);
    cr_expect_eq(cadre_run_pulled_version(run, 2, 0), 8, "the older one");
    fixture_fini(&self);
}

Test(worker_rows, fails_a_pull_whose_rows_do_not_come)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_rows_t rows = {.ids = (uint64_t[]){1, 2}, .count = 2};
    pull_rows(&self, run, define_small(&self), &rows);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 0, &message));
    answer_pull(&self, 0, message.request, 8, (float[]){1, 2}); /* one row of two */
    cadre_message_fini(&message);
    cr_expect_null(expect_ended(&self, CADRE_WORKER_VALUES, CADRE_EMALFORMED).values);

    pull_rows(&self, run, define_small(&self), &rows);
    cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 0, &message));
    answer_pull(&self, 0, message.request, 8, NULL); /* "unchanged", which rows never are */
    cadre_message_fini(&message);
    cr_expect_null(expect_ended(&self, CADRE_WORKER_VALUES, CADRE_EMALFORMED).values);
    fixture_fini(&self);
}

/* --- push --- */

/* Pushes a gradient of rows {1, 2}, {3, 4} and so on, of which the chunk has two more. */
static void
push_rows(fixture_t *self, cadre_run_t *run, const cadre_variable_entry_t *variable,
          const cadre_rows_t *rows)
{
    cadre_chunk_t *chunk = cadre_chunk_new((rows->count + 2) * 2 * sizeof(float));
    float *numbers = cadre_chunk_data(chunk);
    for (size_t i = 0; i < 2 * (rows->count + 2); i++) {
        numbers[i] = (float)(i + 1);
    }
    const cadre_gradient_t gradient = {.variable = variable, .gradient = chunk, .rows = rows};
    cadre_worker_core_push(self->core, run, &gradient, 1, self->now_ms);
    cadre_chunk_unref(&chunk);
}

Test(worker_rows, pushes_ids_and_rows_to_each_shard)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_variable_entry_t *t = define_small(&self);
    uint64_t ids[] = {0, 4, 9};
    const cadre_rows_t rows = {.ids = ids, .count = 3};
    pull_rows(&self, run, t, &rows);
    answer_rows(&self, 0, 7, 2);
    answer_rows(&self, 1, 8, 1);
    expect_rows(&self, &rows);
    push_rows(&self, run, t, &rows);
    memset(ids, 0xff, sizeof(ids)); /* the slot uses its memory again, the messages do not */

    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 0, &message));
    cr_assert_eq(message.push.partitions.count, 0);
    cr_assert_eq(message.push.rows.count, 4);
    cr_expect_arr_eq(message.push.rows.items, ((uint64_t[]){2, 0, 7, 2}), 32);
    cr_assert_eq(message.chunk_count, 2);
    cr_assert_eq(cadre_chunk_size_bytes(message.chunks[0]), 16);
    cr_expect_arr_eq(cadre_chunk_data(message.chunks[0]), ((uint64_t[]){0, 4}), 16);
    cr_assert_eq(cadre_chunk_size_bytes(message.chunks[1]), 16);
    cr_expect_arr_eq(cadre_chunk_data(message.chunks[1]), ((float[]){1, 2, 3, 4}), 16);
    cadre_message_fini(&message);

    cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 1, &message));
    cr_expect_arr_eq(message.push.rows.items, ((uint64_t[]){2, 1, 8, 1}), 32);
    cr_expect_arr_eq(cadre_chunk_data(message.chunks[0]), ((uint64_t[]){9}), 8);
    cr_assert_eq(cadre_chunk_size_bytes(message.chunks[1]), 8);
    cr_expect_arr_eq(cadre_chunk_data(message.chunks[1]), ((float[]){5, 6}), 8);
    cadre_message_fini(&message);
    cr_expect_eq(cadre_worker_core_figures(self.core).counters[CADRE_WORKER_COUNTER_rows_pushed],
                 3);
    fixture_fini(&self);
}

Test(worker_rows, names_whole_partitions_before_rows)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_rows_t rows = {.ids = (uint64_t[]){2}, .count = 1};
    cadre_chunk_t *some = cadre_chunk_new_copy((float[]){1, 2}, 8);
    cadre_chunk_t *all = cadre_chunk_new_copy((float[]){3, 4, 5, 6}, 16);
    const cadre_gradient_t gradients[] = {
        {.variable = define_small(&self), .gradient = some, .rows = &rows},
        {.variable = variable(&self), .gradient = all}};
    cadre_worker_core_push(self.core, run, gradients, 2, self.now_ms);
    cadre_chunk_unref(&some);
    cadre_chunk_unref(&all);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 0, &message));
    cr_assert_eq(message.push.partitions.count, 3);
    cr_expect_eq(message.push.partitions.items[0], 1);
    cr_assert_eq(message.push.rows.count, 4);
    cr_expect_eq(message.push.rows.items[0], 2);
    cr_assert_eq(message.chunk_count, 3);
    cr_expect_arr_eq(cadre_chunk_data(message.chunks[0]), ((float[]){3, 4}), 8);
    cr_expect_arr_eq(cadre_chunk_data(message.chunks[1]), ((uint64_t[]){2}), 8);
    cr_expect_arr_eq(cadre_chunk_data(message.chunks[2]), ((float[]){1, 2}), 8);
    cadre_message_fini(&message);
    cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 1, &message));
    cr_expect_eq(message.push.partitions.count, 3);
    cr_expect_eq(message.push.rows.count, 0);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

/* Gives the push room on shard 0, and takes its messages: the records and ids that they have. */
static void
take_push(fixture_t *self, size_t *records, size_t *messages, size_t *size_bytes)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_RESERVE, 0, &message));
    *size_bytes = (size_t)message.reserve.size_bytes;
    cadre_message_t grant = {.type = CADRE_MESSAGE_GRANT, .request = message.request};
    cadre_message_fini(&message);
    fixture_deliver(self, CADRE_ROLE_PS, 0, &grant);
    *records = *messages = 0;
    size_t come = 0;
    while (take_message(self, CADRE_MESSAGE_PUSH, 0, &message)) {
        cr_assert_leq(message.push.rows.count, 4 * CADRE_ROW_PARTS_MAX);
        cr_assert_eq(message.push.part, *messages);
        *records += message.push.rows.count / 4;
        for (size_t i = 0; i < message.chunk_count; i++) {
            come += cadre_chunk_size_bytes(message.chunks[i]);
        }
        ++*messages;
        cadre_message_fini(&message);
    }
    cr_assert_eq(come, *size_bytes);
}

Test(worker_rows, pushes_rows_of_more_partitions_than_a_message_names_in_parts)
{
    enum { MANY = 2 * CADRE_ROW_PARTS_MAX + 1 };
    fixture_t self;
    cadre_run_t *run = begin(&self);
    static const uint64_t shards[MANY];
    static uint64_t ids[MANY];
    for (size_t i = 0; i < MANY; i++) {
        ids[i] = 2 * i + 1; /* a row of each partition */
    }
    const cadre_rows_t rows = {.ids = ids, .count = MANY};
    push_rows(&self, run, define(&self, (uint64_t)2 * MANY, shards, MANY), &rows);
    size_t records = 0;
    size_t messages = 0;
    size_t size_bytes = 0;
    take_push(&self, &records, &messages, &size_bytes);
    cr_expect_eq(records, MANY);
    cr_expect_eq(messages, 3);
    cr_expect_eq(size_bytes, MANY * (8 + 8));
    fixture_fini(&self);
}

Test(worker_rows, pushes_all_rows_of_a_partition_under_one_record)
{
    enum { COUNT = CADRE_CHUNK_SIZE_MAX / 8 + 1 };
    fixture_t self;
    cadre_run_t *run = begin(&self);
    static uint64_t ids[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        ids[i] = i;
    }
    const cadre_rows_t rows = {.ids = ids, .count = COUNT};
    push_rows(&self, run, define(&self, COUNT, (uint64_t[]){0}, 1), &rows);
    size_t records = 0;
    size_t messages = 0;
    size_t size_bytes = 0;
    take_push(&self, &records, &messages, &size_bytes);
    cr_expect_eq(records, 1);
    cr_expect_eq(size_bytes, (size_t)COUNT * (8 + 8));
    fixture_fini(&self);
}

Test(worker_rows, refuses_a_gradient_of_fewer_rows_than_it_names)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_rows_t rows = {.ids = (uint64_t[]){1, 2}, .count = 2};
    cadre_chunk_t *chunk = cadre_chunk_new(8);
    const cadre_gradient_t gradient = {
        .variable = define_small(&self), .gradient = chunk, .rows = &rows};
    cadre_worker_core_push(self.core, run, &gradient, 1, self.now_ms);
    cadre_chunk_unref(&chunk);
    expect_ended(&self, CADRE_WORKER_PUSHED, CADRE_ESHAPE);
    fixture_fini(&self);
}

/* --- tables --- */

enum { TABLE_SHARDS = 2, KEYS = 6 };

/* Table "t" of rows of two numbers, a part on each shard. */
static const cadre_variable_entry_t *
define_table(fixture_t *self, cadre_variable_kind_t kind)
{
    static const uint64_t shards[TABLE_SHARDS] = {0, 1};
    const uint64_t dim = 2;
    cadre_message_t message = {.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = 2,
                                                  .name = "t",
                                                  .dtype = CADRE_F32,
                                                  .shape = {&dim, 1},
                                                  .partitions = TABLE_SHARDS,
                                                  .shards = {shards, TABLE_SHARDS},
                                                  .kind = kind};
    fixture_tell(self, message);
    const cadre_variable_entry_t *entry = cadre_directory_variable_by_name(
        cadre_worker_core_directory(self->core), "t", 0, &(bool){false});
    cr_assert_not_null(entry);
    return entry;
}

/* Keys of both shards, those of shard 0 first, ascending on each; how many are on shard 0. */
static size_t
spread_keys(uint64_t keys[KEYS])
{
    size_t count = 0;
    size_t on_first = 0;
    for (uint32_t shard = 0; shard < TABLE_SHARDS; shard++) {
        for (uint64_t key = UINT64_C(1) << 40; count < 3 * (shard + 1); key += 7) {
            if (cadre_table_shard(key, TABLE_SHARDS) == shard) {
                keys[count++] = key;
            }
        }
        on_first = shard == 0 ? count : on_first;
    }
    return on_first;
}

Test(worker_rows, spreads_the_keys_of_a_table_over_the_shards)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_variable_entry_t *t = define_table(&self, CADRE_VARIABLE_TABLE);
    uint64_t keys[KEYS];
    const size_t on_first = spread_keys(keys);
    const cadre_rows_t rows = {.ids = keys, .count = KEYS};
    pull_rows(&self, run, t, &rows);
    answer_rows(&self, 0, 7, on_first);
    answer_rows(&self, 1, 8, KEYS - on_first);
    expect_rows(&self, &rows);
    push_rows(&self, run, t, &rows);
    cadre_message_t message;
    for (uint64_t shard = 0; shard < TABLE_SHARDS; shard++) {
        cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, (int)shard, &message));
        cr_expect_arr_eq(message.push.rows.items, ((uint64_t[]){2, shard, 7 + shard, 3}), 32);
        cr_expect_arr_eq(cadre_chunk_data(message.chunks[0]), &keys[3 * shard], 24);
        cadre_message_fini(&message);
    }
    fixture_fini(&self);
}

/* A part of a counted table of which an update has no key stands in it as a partition without
 * chunks; one of another table does not. */
Test(worker_rows, names_the_parts_of_a_counted_table_without_keys)
{
    for (int counted = 0; counted < 2; counted++) {
        fixture_t self;
        cadre_run_t *run = begin(&self);
        const cadre_variable_entry_t *t =
            define_table(&self, counted ? CADRE_VARIABLE_COUNTED_TABLE : CADRE_VARIABLE_TABLE);
        uint64_t keys[KEYS];
        const size_t on_first = spread_keys(keys);
        const cadre_rows_t rows = {.ids = keys, .count = on_first};
        pull_rows(&self, run, t, &rows);
        answer_rows(&self, 0, 7, on_first);
        expect_rows(&self, &rows);
        push_rows(&self, run, t, &rows);
        cadre_message_t message;
        cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 0, &message));
        cr_expect_eq(message.push.partitions.count, 0);
        cr_expect_arr_eq(message.push.rows.items, ((uint64_t[]){2, 0, 7, 3}), 32);
        cadre_message_fini(&message);
        cr_assert_eq(take_message(&self, CADRE_MESSAGE_PUSH, 1, &message), counted);
        if (counted) {
            cr_expect_eq(message.push.partitions.count, 3);
            cr_expect_arr_eq(message.push.partitions.items, ((uint64_t[]){2, 1, 0}), 24);
            cr_expect_eq(message.push.rows.count, 0);
            cr_expect_eq(message.chunk_count, 0);
            cadre_message_fini(&message);
        }
        fixture_fini(&self);
    }
}

/* Of a part of which it had no key nothing was read, so no age of it is told. */
Test(worker_rows, tells_no_staleness_of_parts_without_keys)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_variable_entry_t *t = define_table(&self, CADRE_VARIABLE_COUNTED_TABLE);
    uint64_t keys[KEYS];
    const size_t on_first = spread_keys(keys);
    const cadre_rows_t rows = {.ids = keys, .count = on_first};
    pull_rows(&self, run, t, &rows);
    answer_rows(&self, 0, 9000, on_first);
    expect_rows(&self, &rows);
    push_rows(&self, run, t, &rows);
    for (uint32_t shard = 0; shard < TABLE_SHARDS; shard++) {
        const uint64_t version = 9001;
        cadre_message_t message;
        cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, (int)shard, &message));
        cadre_message_t answer = {.type = CADRE_MESSAGE_APPLIED, .request = message.request};
        answer.applied = (cadre_applied_message_t){
            .generation = 1, .text = "", .staleness = 0, .versions = {&version, 1}};
        cadre_message_fini(&message);
        fixture_deliver(&self, CADRE_ROLE_PS, shard, &answer);
    }
    const cadre_staleness_t *staleness = cadre_worker_core_figures(self.core).staleness;
    cr_expect_eq(staleness->series[0]->histogram.sum, 0);
    fixture_fini(&self);
}

Test(worker_rows, pulls_and_pushes_no_whole_table)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_variable_entry_t *t = define_table(&self, CADRE_VARIABLE_TABLE);
    pull_rows(&self, run, t, NULL);
    expect_ended(&self, CADRE_WORKER_VALUES, CADRE_EINVALID);
    cadre_chunk_t *chunk = cadre_chunk_new(8);
    const cadre_gradient_t gradient = {.variable = t, .gradient = chunk};
    cadre_worker_core_push(self.core, run, &gradient, 1, self.now_ms);
    cadre_chunk_unref(&chunk);
    expect_ended(&self, CADRE_WORKER_PUSHED, CADRE_EINVALID);

    const cadre_rows_t none = {.ids = (uint64_t[]){0}, .count = 0};
    pull_rows(&self, run, t, &none); /* a batch of nothing but padding */
    cadre_worker_event_t event = expect_ended(&self, CADRE_WORKER_VALUES, 0);
    cr_expect_eq(event.value_count, 1);
    cr_expect_eq(event.values[0].size_bytes, 0);
    cadre_values_fini(&event.values, event.value_count);
    fixture_fini(&self);
}

/* --- rows of tables that the worker holds --- */

/* Table "k" of rows of two elements, on shard 0; defined by the first call. */
static const cadre_variable_entry_t *
held_table(fixture_t *self)
{
    const cadre_directory_t *directory = cadre_worker_core_directory(self->core);
    const uint64_t shape[] = {2};
    const uint64_t shards[] = {0};
    cadre_message_t message = {.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = 3,
                                                  .name = "k",
                                                  .dtype = CADRE_F32,
                                                  .shape = {shape, 1},
                                                  .partitions = 1,
                                                  .shards = {shards, 1},
                                                  .kind = CADRE_VARIABLE_TABLE};
    const cadre_variable_entry_t *entry =
        cadre_directory_variable_by_name(directory, "k", 0, &(bool){false});
    if (!entry) {
        fixture_tell(self, message);
        entry = cadre_directory_variable_by_name(directory, "k", 0, &(bool){false});
    }
    cr_assert(entry && entry->is_table);
    return entry;
}

/* VALUES of table "k": bits of the rows that do not follow, and those that do. */
typedef struct {
    uint64_t version;
    uint64_t generation;
    uint64_t unchanged[2];
    size_t words;
    size_t count;
    float rows[8];
} table_answer_t;

/* Takes the PULL of the table, which must say that rows of these ages below `newest` are held
 * (NULL: none), and answers it. */
static void
answer_table(fixture_t *self, uint64_t newest, const uint16_t *ages, size_t count,
             const table_answer_t *says)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_PULL, 0, &message));
    cr_assert_eq(message.chunk_count, ages ? 2 : 1);
    cr_assert_eq(message.pull.held.count, ages ? 1 : 0);
    if (ages) {
        cr_expect_eq(message.pull.held.items[0], newest);
        cr_assert_eq(cadre_chunk_size_bytes(message.chunks[1]), count * sizeof(*ages));
        cr_expect_arr_eq(cadre_chunk_data(message.chunks[1]), ages, count * sizeof(*ages));
    }
    uint64_t items[] = {says->version, says->count > 0 ? 1 : 0};
    cadre_message_t answer = {.type = CADRE_MESSAGE_VALUES, .request = message.request};
    answer.values = (cadre_values_message_t){.generation = says->generation,
                                             .partitions = {items, 2},
                                             .unchanged = {says->unchanged, says->words}};
    if (says->count > 0) {
        cadre_message_add_chunk(&answer,
                                cadre_chunk_new_copy(says->rows, 2 * says->count * sizeof(float)));
    }
    cadre_message_fini(&message);
    fixture_deliver(self, CADRE_ROLE_PS, 0, &answer);
}

/* Expects the pull to give these numbers. */
static void
expect_numbers(fixture_t *self, const float *numbers, size_t count)
{
    cadre_worker_event_t event = expect_ended(self, CADRE_WORKER_VALUES, 0);
    cr_assert_eq(event.value_count, 1);
    cr_assert_eq(event.values[0].size_bytes, count * sizeof(*numbers));
    cr_assert_eq(event.values[0].chunk_count, 1);
    cr_expect_arr_eq(cadre_chunk_data(event.values[0].chunks[0]), numbers,
                     count * sizeof(*numbers));
    cadre_values_fini(&event.values, event.value_count);
}

static uint64_t
counter(const fixture_t *self, int number)
{
    return cadre_worker_core_figures(self->core).counters[number];
}

/* A run that has pulled keys 3, 5 and 8 of the table twice, at version 7: they are kept. */
static cadre_run_t *
begin_held(fixture_t *self, const cadre_rows_t *rows)
{
    cadre_run_t *run = begin(self);
    const cadre_variable_entry_t *table = held_table(self);
    const table_answer_t all = {7, 1, {0}, 0, 3, {30, 31, 50, 51, 80, 81}};
    for (int i = 0; i < 2; i++) {
        pull_rows(self, run, table, rows);
        answer_table(self, 0, NULL, 3, &all);
        expect_numbers(self, all.rows, 6);
    }
    pull_rows(self, run, table, rows);
    return run;
}

static const uint64_t HELD_KEYS[] = {3, 5, 8, 9};
static const cadre_rows_t HELD = {.ids = HELD_KEYS, .count = 3};

Test(worker_rows, keeps_rows_of_a_table_and_asks_whether_they_have_changed)
{
    fixture_t self;
    cadre_run_t *run = begin_held(&self, &HELD);
    const uint16_t same_age[] = {1, 1, 1, 0};
    answer_table(&self, 7, same_age, 3, &(table_answer_t){9, 1, {5}, 1, 1, {52, 53}});
    expect_numbers(&self, (float[]){30, 31, 52, 53, 80, 81}, 6);
    cr_expect_eq(cadre_run_pulled_version(run, 3, 0), 9);

    /* The kept rows are of version 9 by now, and the new one among them. */
    pull_rows(&self, run, held_table(&self), &(cadre_rows_t){.ids = HELD_KEYS, .count = 4});
    answer_table(&self, 9, same_age, 4, &(table_answer_t){9, 1, {7}, 1, 1, {90, 91}});
    expect_numbers(&self, (float[]){30, 31, 52, 53, 80, 81, 90, 91}, 8);
    pull_rows(&self, run, held_table(&self), &HELD);
    answer_table(&self, 9, same_age, 3, &(table_answer_t){9, 1, {7}, 1, 0, {0}});
    expect_numbers(&self, (float[]){30, 31, 52, 53, 80, 81}, 6);
    cr_expect_eq(counter(&self, CADRE_WORKER_COUNTER_rows_held), 9);
    cr_expect_eq(counter(&self, CADRE_WORKER_COUNTER_rows_unchanged), 8);
    cr_expect_eq(counter(&self, CADRE_WORKER_COUNTER_rows_pulled), 8);
    fixture_fini(&self);
}

Test(worker_rows, says_how_old_each_kept_row_is)
{
    fixture_t self;
    cadre_run_t *run = begin_held(&self, &HELD);
    const uint16_t same_age[] = {1, 1, 1};
    answer_table(&self, 7, same_age, 3, &(table_answer_t){7, 1, {7}, 1, 0, {0}});
    expect_numbers(&self, (float[]){30, 31, 50, 51, 80, 81}, 6);
    pull_rows(&self, run, held_table(&self), &(cadre_rows_t){.ids = (uint64_t[]){5}, .count = 1});
    answer_table(&self, 7, same_age, 1, &(table_answer_t){10, 1, {1}, 1, 0, {0}});
    expect_numbers(&self, (float[]){50, 51}, 2);
    pull_rows(&self, run, held_table(&self), &HELD);
    answer_table(&self, 10, (uint16_t[]){4, 1, 4}, 3,
                 &(table_answer_t){10, 1, {2}, 1, 2, {32, 33, 82, 83}});
    expect_numbers(&self, (float[]){32, 33, 50, 51, 82, 83}, 6);
    fixture_fini(&self);
}

Test(worker_rows, takes_no_row_from_before_that_it_does_not_hold)
{
    const struct {
        const char *what;
        table_answer_t answer;
    } cases[] = {
        {"a row that is not held", {9, 1, {8}, 1, 3, {0}}},
        {"a bit of no row", {9, 1, {1 << 4}, 1, 4, {0}}},
        {"too many bits", {9, 1, {1, 0}, 2, 3, {0}}},
        {"a row too many", {9, 1, {1}, 1, 4, {0}}},
        {"a row too few", {9, 1, {1}, 1, 2, {0}}},
        {"of another generation", {9, 2, {1}, 1, 3, {0}}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture_t self;
        cadre_run_t *run = begin_held(&self, &HELD);
        const uint16_t ages[] = {1, 1, 1, 0};
        answer_table(&self, 7, ages, 3, &(table_answer_t){7, 1, {7}, 1, 0, {0}});
        expect_numbers(&self, (float[]){30, 31, 50, 51, 80, 81}, 6);
        pull_rows(&self, run, held_table(&self), &(cadre_rows_t){.ids = HELD_KEYS, .count = 4});
        answer_table(&self, 7, ages, 4, &cases[i].answer);
        cadre_worker_event_t event = expect_ended(&self, CADRE_WORKER_VALUES, CADRE_EMALFORMED);
        cr_expect_eq(event.value_count, 0, "%s", cases[i].what);
        fixture_fini(&self);
    }
}
