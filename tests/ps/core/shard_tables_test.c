/*
 * shard_tables_test - tables by messages: rows pulled, pushed, assigned; every refusal changes
 * nothing.
 */
#include "ps/core/shard_tables.h"

#include <math.h>

#include "tests/ps/table_fixture.h"

TestSuite(shard_tables, .timeout = 240);

static const uint64_t SOME[] = {3, 5, UINT64_MAX};

Test(shard_tables, gives_first_values_and_makes_no_row_of_a_pull)
{
    fixture_t self = open_table();
    const uint64_t keys[] = {7, 2, 7, UINT64_MAX};
    float values[4 * DIM];
    cr_assert_eq(pull_keys(&self, 0, 4, keys, values), 0);
    for (size_t i = 0; i < 4 * DIM; i++) {
        cr_expect_eq(values[i], 1);
    }
    cr_expect_eq(table_figures(&self).rows, 0);
    cr_expect_eq(COUNTER(&self, rows_pulled), 4);
    close_shard(&self);
}

Test(shard_tables, applies_gradients_by_key_and_counts_a_version)
{
    fixture_t self = open_table();
    cadre_message_t answer;
    float gradient[3 * DIM] = {2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4};
    uint64_t record[4];
    cadre_message_t message = push_keys_message(1, 0, 3, SOME, gradient, record);
    ask(&self, &THE_WORKER, &message, &answer);
    cr_assert_eq(answer.applied.status, 0, "%s", answer.applied.text);
    cr_assert_eq(answer.applied.versions.count, 1);
    cr_expect_eq(answer.applied.versions.items[0], 1);
    cadre_message_fini(&answer);
    cr_expect(key_is(&self, 3, -1) && key_is(&self, 5, -2) && key_is(&self, UINT64_MAX, -3));
    cr_expect(key_is(&self, 4, 1));
    cr_expect_eq(table_figures(&self).rows, 3);
    cr_expect_eq(push_keys(&self, 1, 3, SOME, 1), CADRE_EDUPLICATE);
    cr_expect_eq(COUNTER(&self, applied), 1);
    cr_expect_eq(COUNTER(&self, rows_pushed), 3);
    close_shard(&self);
}

/* Pushes what `message` says and expects it to be refused, with nothing changed. */
static void
expect_refused(fixture_t *self, cadre_message_t *message, int wanted, const char *what)
{
    const cadre_table_figures_t before = table_figures(self);
    const uint64_t refused = COUNTER(self, refused);
    const int status = push(self, message);
    cr_expect_eq(status, wanted, "%s: %d, not %d", what, status, wanted);
    const cadre_table_figures_t after = table_figures(self);
    cr_expect(memcmp(&before, &after, sizeof(before)) == 0, "%s", what);
    cr_expect_eq(COUNTER(self, refused), refused + 1, "%s", what);
    cr_expect(key_is(self, 3, 0) && key_is(self, 4, 1), "%s", what);
}

/* A table in which 3, 5 and the last key have 0. */
static fixture_t
open_pushed(void)
{
    fixture_t self = open_table();
    cr_assert_eq(push_keys(&self, 1, 3, SOME, 1), 0);
    return self;
}

Test(shard_tables, refuses_bad_updates_and_changes_nothing)
{
    fixture_t self = open_pushed();
    static const float gradient[3 * DIM] = {1};
    const float bad[3 * DIM] = {[3 * DIM - 1] = NAN};
    const uint64_t down[] = {3, 5, 4};
    const uint64_t twice[] = {3, 3, 5};
    uint64_t record[8];

    cadre_message_t message = push_keys_message(2, 0, 3, down, gradient, record);
    expect_refused(&self, &message, CADRE_EINVALID, "keys that do not ascend");
    message = push_keys_message(2, 0, 3, twice, gradient, record);
    expect_refused(&self, &message, CADRE_EINVALID, "a key twice");
    message = push_keys_message(2, 0, 3, SOME, bad, record);
    expect_refused(&self, &message, CADRE_ENOTFINITE, "NaN");
    message = push_keys_message(2, 0, 3, SOME, gradient, record);
    record[3] = 2;
    expect_refused(&self, &message, CADRE_ESHAPE, "chunks of more keys than it says");
    message = push_keys_message(2, 0, 3, SOME, gradient, record);
    record[3] = 0;
    expect_refused(&self, &message, CADRE_EMALFORMED, "no key");
    message = push_keys_message(2, 0, 3, SOME, gradient, record);
    record[3] = CADRE_TABLE_KEYS_MAX + 1;
    expect_refused(&self, &message, CADRE_ETOOLARGE, "too many keys");
    message = push_keys_message(2, 0, 3, SOME, gradient, record);
    record[2] = 2;
    expect_refused(&self, &message, CADRE_EINVALID, "a version that is not there yet");
    message = push_keys_message(2, 1, 3, SOME, gradient, record);
    expect_refused(&self, &message, CADRE_ENOTFOUND, "a part of another shard");
    message = push_keys_message(2, 0, 3, SOME, gradient, record);
    cadre_message_add_chunk(&message, new_floats(1, 1));
    expect_refused(&self, &message, CADRE_ESHAPE, "a chunk too many");
    message = push_keys_message(2, 0, 3, SOME, gradient, record);
    memcpy(record + 4, record, 4 * sizeof(*record));
    message.push.rows.count = 8;
    expect_refused(&self, &message, CADRE_EINVALID, "the table twice");

    uint64_t whole[] = {TABLE, 0, 1};
    message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    message.push =
        (cadre_push_message_t){.update = 2, .generation = GENERATION, .partitions = {whole, 3}};
    cadre_message_add_chunk(&message, new_floats(DIM, 1));
    expect_refused(&self, &message, CADRE_ESHAPE, "a whole gradient");
    close_shard(&self);
}

Test(shard_tables, counts_an_update_without_keys)
{
    fixture_t self = open_pushed();
    const cadre_table_figures_t before = table_figures(&self);
    uint64_t part[] = {TABLE, 0, 0}; /* a version that says nothing: no row was pulled */
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    cadre_message_t answer;
    message.push =
        (cadre_push_message_t){.update = 2, .generation = GENERATION, .partitions = {part, 3}};
    ask(&self, &THE_WORKER, &message, &answer);
    cr_assert_eq(answer.applied.status, 0, "%s", answer.applied.text);
    cr_expect_eq(answer.applied.versions.items[0], before.version + 1);
    cr_expect_eq(answer.applied.staleness, 0);
    cadre_message_fini(&answer);
    const cadre_table_figures_t after = table_figures(&self);
    cr_expect_eq(after.steps, before.steps + 1);
    cr_expect_eq(after.rows, before.rows);
    cr_expect(key_is(&self, 3, 0) && key_is(&self, 4, 1));
    close_shard(&self);
}

Test(shard_tables, names_the_variable_that_is_bad_behind_a_table_without_keys)
{
    fixture_t self = open_filled_shard();
    table_create_t table;
    cr_assert_eq(create(&self, &table_create(&table, 0, 1)->message), 0);
    uint64_t parts[] = {TABLE, 0, 0, 2, 0, 0};
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    cadre_message_t answer;
    message.push =
        (cadre_push_message_t){.update = 2, .generation = GENERATION, .partitions = {parts, 6}};
    cadre_message_add_chunk(&message, new_floats(4, NAN));
    ask(&self, &THE_WORKER, &message, &answer);
    cr_expect_eq(answer.applied.status, (uint64_t)-CADRE_ENOTFINITE);
    cr_expect(strstr(answer.applied.text, "other"), "%s", answer.applied.text);
    cadre_message_fini(&answer);
    close_shard(&self);
}

/* Pulls a slot of one key as the coordinator does; the caller ends the answer. */
static void
pull_slot(fixture_t *self, uint64_t slot, uint64_t key, cadre_message_t *answer)
{
    const uint64_t listed[] = {TABLE, 0, CADRE_ROWS_LISTED, 1};
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_COORDINATOR);
    message.pull = (cadre_pull_message_t){
        .generation = GENERATION, .rows = {listed, 4}, .slot = slot, .absence = 1};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(&key, sizeof(key)));
    ask(self, &THE_COORDINATOR, &message, answer);
}

Test(shard_tables, gives_slots_by_key)
{
    const double parameters[] = {1, 0.5, 1e-7};
    const uint64_t keys[] = {7, UINT64_MAX - 1};
    cadre_message_t answer;
    for (uint64_t row_wise = 0; row_wise < 2; row_wise++) {
        fixture_t self = open_shard(NULL);
        table_create_t table;
        cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
        table_create(&table, 0, 1)->message.optimizer = CADRE_OPTIMIZER_ADAGRAD;
        table.message.optimizer_parameters = (cadre_f64s_t){parameters, 3};
        table.table[1] = row_wise;
        cr_assert_eq(create(&self, &table.message), 0, "%s", cadre_error_text());
        cr_assert_eq(push_keys(&self, 1, 2, keys, 2), 0);
        for (int i = 0; i < 3; i++) { /* the third has no row */
            const uint64_t key = i < 2 ? keys[i] : 8;
            pull_slot(&self, 1, key, &answer);
            cr_assert_eq(answer.values.status, 0, "%s", answer.values.text);
            cr_assert_eq(answer.chunk_count, 1);
            const size_t width = row_wise ? 1 : DIM;
            cr_assert_eq(cadre_chunk_size_bytes(answer.chunks[0]), width * sizeof(float));
            const float *numbers = cadre_chunk_data(answer.chunks[0]);
            for (size_t k = 0; k < width; k++) {
                cr_expect_eq(numbers[k], i < 2 ? 4.5F : 0.5F, "%g", (double)numbers[k]);
            }
            cr_expect_eq(answer.values.absent.items[0], i == 2);
            cadre_message_fini(&answer);
        }
        pull_slot(&self, 2, 7, &answer);
        cr_expect_eq(answer.values.status, -CADRE_EINVALID);
        cr_expect(strstr(answer.values.text, "slot 1 of its 1 slots"), "%s", answer.values.text);
        cadre_message_fini(&answer);
        close_shard(&self);
    }
}

Test(shard_tables, refuses_bad_pulls)
{
    fixture_t self = open_pushed();
    const uint64_t stretch[] = {TABLE, 0, 3, 1};
    const uint64_t listed[] = {TABLE, 0, CADRE_ROWS_LISTED, 1};
    const uint64_t whole[] = {TABLE, 0, 0};
    cadre_message_t answer;
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
    message.pull = (cadre_pull_message_t){.generation = GENERATION, .rows = {stretch, 4}};
    ask(&self, &THE_WORKER, &message, &answer);
    cr_expect_eq(answer.values.status, -CADRE_EINVALID);
    cadre_message_fini(&answer);

    message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
    message.pull = (cadre_pull_message_t){.generation = GENERATION, .partitions = {whole, 3}};
    ask(&self, &THE_WORKER, &message, &answer);
    cr_expect_eq(answer.values.status, -CADRE_EINVALID);
    cadre_message_fini(&answer);

    message = question(CADRE_MESSAGE_PULL, &THE_COORDINATOR);
    message.pull =
        (cadre_pull_message_t){.generation = GENERATION, .rows = {listed, 4}, .average = 1};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(SOME, sizeof(SOME[0])));
    ask(&self, &THE_COORDINATOR, &message, &answer);
    cr_expect_eq(answer.values.status, -CADRE_EINVALID);
    cadre_message_fini(&answer);
    close_shard(&self);
}

Test(shard_tables, refuses_rows_beyond_its_limit)
{
    fixture_t self = open_shard(NULL);
    table_create_t table;
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    table_create(&table, 0, 1)->table[3] = 3;
    cr_assert_eq(create(&self, &table.message), 0, "%s", cadre_error_text());
    cr_assert_eq(push_keys(&self, 1, 3, SOME, 1), 0);
    const uint64_t other[] = {3, 6};
    cr_expect_eq(push_keys(&self, 2, 2, other, 1), CADRE_EFULL);
    cr_expect(key_is(&self, 3, 0) && key_is(&self, 6, 1));
    cr_expect_eq(push_keys(&self, 2, 3, SOME, 1), 0, "the update may come again");
    close_shard(&self);
}

/* Counts how often lanes were to run. */
static void
run_counted(void *context, size_t count, void (*each)(void *argument, size_t index), void *argument)
{
    size_t *runs = context;
    ++*runs;
    for (size_t i = count; i-- > 0;) {
        each(argument, i);
    }
}

Test(shard_tables, hands_large_updates_and_pulls_to_lanes)
{
    enum { MANY = CADRE_LANES_ALONE_COUNT / DIM };
    size_t runs = 0;
    fixture_t self = {.request = 100};
    const cadre_shard_options_t options = {
        .incarnation = PS, .size_bytes_max = 64 << 20, .table_lanes = {&runs, run_counted}};
    table_create_t table;
    self.shard = cadre_shard_new(&options);
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cr_assert_eq(create(&self, &table_create(&table, 0, 1)->message), 0);
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(MANY, sizeof(*keys));
    cadre_auto(cadre_free) float *gradient = cadre_calloc((size_t)MANY * DIM, sizeof(*gradient));
    for (uint64_t i = 0; i < MANY; i++) {
        keys[i] = 3 * i;
        gradient[i * DIM] = 1;
    }

    for (uint64_t update = 1; update <= 2; update++) {
        uint64_t record[4];
        cadre_message_t message = push_keys_message(update, 0, MANY, keys, gradient, record);
        cr_assert_eq(push(&self, &message), 0, "%s", cadre_error_text());
        cr_expect_eq(runs, 2 * update, "to check and to apply");
    }
    for (uint64_t key = 0; key < 3 * MANY; key += 3 * 1000) {
        float values[DIM];
        cr_assert_eq(pull_keys(&self, 0, 1, &key, values), 0);
        cr_expect_eq(values[0], -1);
        cr_expect_eq(values[1], 1);
    }
    uint64_t record[4];
    cadre_message_t message = push_keys_message(3, 0, MANY - 1, keys, gradient, record);
    cr_assert_eq(push(&self, &message), 0);
    cr_expect_eq(runs, 4, "one key less is a small update");

    cadre_auto(cadre_free) float *values = cadre_calloc((size_t)MANY * DIM, sizeof(*values));
    cr_assert_eq(pull_keys(&self, 0, MANY, keys, values), 0);
    cr_expect_eq(runs, 5, "a large pull");
    cr_expect_eq(values[(MANY - 1) * (size_t)DIM], -1);
    cr_assert_eq(pull_keys(&self, 0, MANY - 1, keys, values), 0);
    cr_expect_eq(runs, 5, "one key less is a small pull");
    close_shard(&self);
}

Test(shard_tables, counts_memory_and_refuses_what_does_not_fit)
{
    enum { AT_ONCE = 500 };
    fixture_t self = {.request = 100};
    const cadre_shard_options_t options = {.incarnation = PS, .size_bytes_max = 1 << 20};
    table_create_t table;
    self.shard = cadre_shard_new(&options);
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cr_assert_eq(create(&self, &table_create(&table, 0, 1)->message), 0);

    uint64_t keys[AT_ONCE];
    int status = 0;
    uint64_t update = 1;
    for (; status == 0; update++) {
        for (uint64_t i = 0; i < AT_ONCE; i++) {
            keys[i] = update * AT_ONCE + i;
        }
        status = push_keys(&self, update, AT_ONCE, keys, 1);
        const cadre_shard_figures_t figures = cadre_shard_figures(self.shard);
        cr_assert_eq(figures.size_bytes, table_figures(&self).size_bytes);
        cr_assert_eq(figures.tables.size_bytes, figures.size_bytes);
        cr_assert_eq(figures.told.count, CADRE_TABLE_TOLD);
        cr_assert_eq(figures.told.items[0], TABLE);
        cr_assert_eq(figures.told.items[1 + CADRE_TABLE_COUNTER_rows], figures.tables.rows);
        cr_assert_leq(figures.size_bytes, options.size_bytes_max);
    }
    cr_assert_eq(status, CADRE_EFULL, "%s", cadre_error_text());
    const cadre_table_figures_t figures = table_figures(&self);
    cr_assert_eq(figures.rows, (update - 2) * AT_ONCE);
    cr_assert_gt(figures.size_bytes, options.size_bytes_max / 2);
    for (uint64_t i = 0; i < AT_ONCE; i++) {
        keys[i] = AT_ONCE + i;
    }
    cr_expect_eq(push_keys(&self, update, AT_ONCE, keys, 1), 0, "which makes no row");

    cadre_message_t message = question(CADRE_MESSAGE_RETIRE, &THE_COORDINATOR);
    message.retire = (cadre_retire_message_t){.variable = TABLE, .generation = GENERATION};
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_expect_eq(cadre_shard_figures(self.shard).told.count, 0, "dropped, though still here");
    message = question(CADRE_MESSAGE_DROP, &THE_COORDINATOR);
    message.drop = (cadre_drop_message_t){.variable = TABLE, .generation = GENERATION};
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    const cadre_shard_figures_t after = cadre_shard_figures(self.shard);
    cr_expect_eq(after.size_bytes, 0);
    cr_expect_eq(after.tables.rows, 0);
    cr_expect_eq(after.told.count, 0);
    cr_expect_eq(after.tables.created, figures.created);
    close_shard(&self);
}

Test(shard_tables, assigns_by_key_whatever_admission_says)
{
    fixture_t self = open_shard(NULL);
    table_create_t table;
    uint64_t record[4];
    const float two[3 * DIM] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    const uint64_t again[] = {5, 3, 5};
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    table_create(&table, 0, 1)->table[2] = 2;
    cr_assert_eq(create(&self, &table.message), 0, "%s", cadre_error_text());
    cr_assert_eq(push_keys(&self, 1, 3, SOME, 1), 0);
    cr_assert(key_is(&self, 3, 1), "was seen once only");

    cadre_message_t message =
        assign_keys_message(1, CADRE_ASSIGN_SET, &(keyed_rows_t){0, 3, SOME, two}, record);
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0, "%s", cadre_error_text());
    cr_expect(key_is(&self, 3, 2) && key_is(&self, UINT64_MAX, 2));
    message = assign_keys_message(2, CADRE_ASSIGN_ADD, &(keyed_rows_t){0, 3, again, two}, record);
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_expect(key_is(&self, 5, 6) && key_is(&self, 3, 4), "one that is named again is added again");
    message = assign_keys_message(3, CADRE_ASSIGN_SUB, &(keyed_rows_t){0, 1, again, two}, record);
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_expect(key_is(&self, 5, 4));
    message = assign_keys_message(3, CADRE_ASSIGN_SUB, &(keyed_rows_t){0, 1, again, two}, record);
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_expect(key_is(&self, 5, 4), "a repeated one changes nothing");
    cr_expect_eq(table_figures(&self).rows, 3);
    cr_expect_eq(table_figures(&self).version, 4);
    cr_expect_eq(table_figures(&self).steps, 1);

    const float bad[DIM] = {INFINITY};
    message = assign_keys_message(4, CADRE_ASSIGN_SET, &(keyed_rows_t){0, 1, again, bad}, record);
    cr_expect_eq(reply_to(&self, &THE_COORDINATOR, &message), CADRE_ENOTFINITE);
    const float zero[DIM] = {0};
    message = assign_keys_message(5, CADRE_ASSIGN_DIV, &(keyed_rows_t){0, 1, again, zero}, record);
    cr_expect_eq(reply_to(&self, &THE_COORDINATOR, &message), CADRE_EINVALID);
    cr_expect_eq(table_figures(&self).version, 4);
    message = assign_keys_message(6, CADRE_ASSIGN_MUL, &(keyed_rows_t){0, 1, again, two}, record);
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_expect(key_is(&self, 5, 8));
    message = assign_keys_message(7, CADRE_ASSIGN_MIN, &(keyed_rows_t){0, 1, again, two}, record);
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_expect(key_is(&self, 5, 2));
    close_shard(&self);
}

Test(shard_tables, takes_an_update_in_parts)
{
    fixture_t self = open_table();
    const float gradient[3 * DIM] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t record[4];
    cadre_message_t reserve = question(CADRE_MESSAGE_RESERVE, &THE_WORKER);
    reserve.request = 7;
    reserve.reserve = (cadre_reserve_message_t){
        .update = 1, .generation = GENERATION, .size_bytes = 3 * (8 + DIM * sizeof(float))};
    cadre_shard_receive(self.shard, CADRE_PLANE_DATA, &THE_WORKER, &reserve, &self.effects);
    cadre_outbox_entry_t entry;
    cr_assert(cadre_outbox_pop(&self.effects.outbox, &entry), "the GRANT");
    cadre_outbox_entry_fini(&entry);

    cadre_message_t whole = push_keys_message(1, 0, 3, SOME, gradient, record);
    for (size_t part = 0; part < 2; part++) {
        cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
        message.request = 7;
        message.push = whole.push;
        message.push.part = part;
        message.push.parts = 2;
        message.push.rows.count = part == 0 ? 4 : 0;
        cadre_message_add_chunk(&message, cadre_chunk_ref(whole.chunks[part]));
        cadre_shard_receive(self.shard, CADRE_PLANE_DATA, &THE_WORKER, &message, &self.effects);
    }
    cadre_message_fini(&whole);
    cr_assert(cadre_outbox_pop(&self.effects.outbox, &entry), "APPLIED");
    cadre_outbox_entry_fini(&entry);
    cr_expect(key_is(&self, 3, 0) && key_is(&self, UINT64_MAX, 0));
    close_shard(&self);
}

/* Gives the values that a snapshot has of a key; false when it has no row. */
static bool
snapshot_has(const cadre_table_snapshot_t *snapshot, const cadre_table_record_t *record,
             uint64_t wanted, float *value)
{
    for (size_t i = 0; i < snapshot->rows.count; i++) {
        for (uint32_t place = 0; place < record->page_rows; place++) {
            uint64_t key = 0;
            const void *values = NULL;
            if (cadre_table_page_row(record, cadre_chunk_data(snapshot->rows.chunks[i]), place,
                                     &key, &values) &&
                key == wanted) {
                memcpy(value, values, sizeof(*value));
                return true;
            }
        }
    }
    return false;
}

Test(shard_tables, applies_stragglers_to_the_image_of_an_open_cut_too)
{
    fixture_t self = open_pushed();
    const uint64_t other[] = {4, 5};
    const float two[DIM] = {2, 2, 2, 2};
    uint64_t record[4];
    cr_assert_eq(open_cut(&self, 1, 10, GENERATION), 0);
    cr_assert_eq(push_keys(&self, 12, 3, SOME, 1), 0);
    cr_assert_eq(push_keys(&self, 2, 2, other, 4), 0, "a straggler");
    cadre_message_t message =
        assign_keys_message(1, CADRE_ASSIGN_SET, &(keyed_rows_t){0, 1, SOME, two}, record);
    message.assign.checkpoint = 1;
    message.assign.cut = 10;
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_assert_eq(close_cut(&self, 1, 10, "/draft", GENERATION), 0);
    cr_expect(key_is(&self, 3, 2) && key_is(&self, 4, -3) && key_is(&self, 5, -5));

    cadre_shard_snapshot_t *taken = cadre_shard_effects_take_snapshot(&self.effects);
    cr_assert_eq(taken->part_count, 1);
    cadre_table_snapshot_t snapshot;
    cadre_table_record_t described;
    cadre_table_snapshot(taken->parts[0].table, 0, 1, &snapshot);
    cadre_table_describe(taken->parts[0].table, &snapshot, &described);
    float value = 0;
    cr_expect(snapshot_has(&snapshot, &described, 3, &value) && value == 0);
    cr_expect(snapshot_has(&snapshot, &described, 4, &value) && value == -3);
    cr_expect(snapshot_has(&snapshot, &described, 5, &value) && value == -4);
    cr_expect_eq(described.rows, 4);
    cr_expect_eq(described.version, 2);
    cadre_table_snapshot_fini(&snapshot);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_tables, sums_the_rows_of_a_synchronous_step)
{
    fixture_t self = open_table();
    const float ones[3 * DIM] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const uint64_t other[] = {4, 5};
    uint64_t record[4];
    for (uint64_t update = 1; update <= 3; update++) {
        cadre_message_t message = update == 1
                                      ? push_keys_message(update, 0, 3, SOME, ones, record)
                                      : push_keys_message(update, 0, 2, other, ones, record);
        message.push.step = 1;
        cr_assert_eq(push(&self, &message), 0, "%s", cadre_error_text());
    }
    cr_assert_eq(table_figures(&self).rows, 0, "they are held");

    const uint64_t updates[] = {1, 2, 2, 1, 3, 1};
    cadre_message_t message = question(CADRE_MESSAGE_END_STEP, &THE_COORDINATOR);
    message.end_step =
        (cadre_end_step_message_t){.step = 1, .updates = {updates, 6}, .generation = GENERATION};
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_expect(key_is(&self, 3, 0.5F) && key_is(&self, 4, 0.5F) && key_is(&self, 5, 0));
    cr_expect_eq(table_figures(&self).steps, 1);
    cr_expect_eq(table_figures(&self).rows, 4);
    close_shard(&self);
}

/* Held updates are applied without a check, so their rows have room from the beginning. */
Test(shard_tables, refuses_an_update_of_a_step_whose_rows_would_not_fit_beside_what_is_held)
{
    enum { AT_ONCE = 500, UPDATES_MAX = 200 };
    fixture_t self = {.request = 100};
    const cadre_shard_options_t options = {.incarnation = PS, .size_bytes_max = 1 << 20};
    table_create_t table;
    uint64_t ends[2 * UPDATES_MAX];
    self.shard = cadre_shard_new(&options);
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cr_assert_eq(create(&self, &table_create(&table, 0, 1)->message), 0);

    uint64_t keys[AT_ONCE];
    uint64_t record[4];
    static const float gradient[AT_ONCE * DIM];
    int status = 0;
    uint64_t held = 0;
    for (; status == 0 && held < UPDATES_MAX; held += status == 0) {
        for (uint64_t i = 0; i < AT_ONCE; i++) {
            keys[i] = held * AT_ONCE + i;
        }
        cadre_message_t message = push_keys_message(held + 1, 0, AT_ONCE, keys, gradient, record);
        message.push.step = 1;
        status = push(&self, &message);
        ends[2 * held] = held + 1;
        ends[2 * held + 1] = 1;
    }
    cr_assert_eq(status, CADRE_EFULL, "%s", cadre_error_text());
    cr_assert_gt(held, 2);

    cadre_message_t message = question(CADRE_MESSAGE_END_STEP, &THE_COORDINATOR);
    message.end_step = (cadre_end_step_message_t){
        .step = 1, .updates = {ends, 2 * held}, .generation = GENERATION};
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_expect_eq(table_figures(&self).rows, held * AT_ONCE);
    cr_expect_leq(cadre_shard_figures(self.shard).size_bytes, options.size_bytes_max);
    close_shard(&self);
}

Test(shard_tables, takes_bf16_on_the_wire)
{
    fixture_t self = open_shard(NULL);
    table_create_t table;
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    table_create(&table, 0, 1)->message.wire = CADRE_BF16;
    cr_assert_eq(create(&self, &table.message), 0, "%s", cadre_error_text());

    const uint16_t gradient[DIM] = {0x3f80, 0x4000, 0x4040, 0xbf80}; /* 1, 2, 3, -1 */
    const uint64_t record[] = {TABLE, 0, 0, 1};
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    message.push =
        (cadre_push_message_t){.update = 1, .generation = GENERATION, .rows = {record, 4}};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(SOME, sizeof(SOME[0])));
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(gradient, sizeof(gradient)));
    cr_assert_eq(push(&self, &message), 0, "%s", cadre_error_text());

    const uint64_t asked[] = {TABLE, 0, CADRE_ROWS_LISTED, 1};
    cadre_message_t answer;
    message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
    message.pull = (cadre_pull_message_t){.generation = GENERATION, .rows = {asked, 4}};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(SOME, sizeof(SOME[0])));
    ask(&self, &THE_WORKER, &message, &answer);
    const uint16_t values[DIM] = {0, 0xbf80, 0xc000, 0x4000}; /* 0, -1, -2, 2 */
    cr_assert_eq(cadre_chunk_size_bytes(answer.chunks[0]), sizeof(values));
    cr_expect_arr_eq(cadre_chunk_data(answer.chunks[0]), values, sizeof(values));
    cadre_message_fini(&answer);
    close_shard(&self);
}

Test(shard_tables, tells_the_counters_of_a_table)
{
    fixture_t self = open_pushed();
    cadre_message_t answer;
    cadre_message_t message = question(CADRE_MESSAGE_COUNT, &THE_COORDINATOR);
    message.count.variable = TABLE;
    ask(&self, &THE_COORDINATOR, &message, &answer);
    cr_assert_eq(answer.reply.status, 0);
    cr_assert_eq(answer.reply.counters.count, CADRE_TABLE_COUNTER_COUNT);
    cr_expect_eq(answer.reply.counters.items[CADRE_TABLE_COUNTER_rows], 3);
    cr_expect_eq(answer.reply.counters.items[CADRE_TABLE_COUNTER_created], 3);
    cr_expect_eq(answer.reply.counters.items[CADRE_TABLE_COUNTER_size_bytes],
                 table_figures(&self).size_bytes);
    cadre_message_fini(&answer);
    message = question(CADRE_MESSAGE_COUNT, &THE_COORDINATOR);
    message.count.variable = 1;
    cr_expect_eq(reply_to(&self, &THE_COORDINATOR, &message), CADRE_ENOTFOUND);
    close_shard(&self);
}

Test(shard_tables, knows_a_table_that_is_created_again_and_refuses_bad_ones)
{
    fixture_t self = open_table();
    table_create_t table;
    cr_expect_eq(create(&self, &table_create(&table, 0, 1)->message), 0);
    table_create(&table, 0, 1)->table[3] = 9;
    cr_expect_eq(create(&self, &table.message), CADRE_EEXISTS);

    table_create(&table, 0, 1)->message.variable = 9;
    table.message.table.count = 5;
    cr_expect_eq(create(&self, &table.message), CADRE_EINVALID, "half of its numbers");
    table_create(&table, 0, 1)->message.variable = 9;
    table.table[4] = 7;
    cr_expect_eq(create(&self, &table.message), CADRE_EINVALID, "an unknown policy");
    table_create(&table, 0, 1)->message.variable = 9;
    table.table[0] = CADRE_I32;
    cr_expect_eq(create(&self, &table.message), CADRE_EDTYPE, "rows of whole numbers");
    table_create(&table, 0, 1)->message.variable = 9;
    table.shape[0] = 0;
    cr_expect_eq(create(&self, &table.message), CADRE_EINVALID, "rows without numbers");
    table_create(&table, 0, 1)->message.variable = 9;
    table.message.rows = 3;
    cr_expect_eq(create(&self, &table.message), CADRE_ESHAPE, "a number of rows");
    table_create(&table, 1, 2)->message.variable = 9;
    table.message.shard = 0;
    cr_expect_eq(create(&self, &table.message), CADRE_EINVALID, "a part of another shard");
    cr_expect_eq(cadre_shard_partition_count(self.shard), 1);
    close_shard(&self);
}
