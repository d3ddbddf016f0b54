#include "ps/core/shard_rows.h"

#include <math.h>

#include "tests/ps/shard_fixture.h"

TestSuite(shard_rows, .timeout = 240);

/* Element i of variable 1 becomes i, that of variable 2 1000000 + i. */
static void
count_elements(fixture_t *self)
{
    float *numbers = cadre_calloc(ROWS * COLUMNS, sizeof(float));
    for (int variable = 1; variable <= 2; variable++) {
        cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
        message.assign = (cadre_assign_message_t){.sequence = (uint64_t)variable,
                                                  .generation = GENERATION,
                                                  .variable = (uint64_t)variable};
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            numbers[i] = (float)(variable == 1 ? i : 1000000 + i);
        }
        const size_t first = variable == 1 ? CHUNK_ROWS * COLUMNS : 4;
        cadre_message_add_chunk(&message, cadre_chunk_new_copy(numbers, first * sizeof(float)));
        if (variable == 1) {
            cadre_message_add_chunk(
                &message, cadre_chunk_new_copy(numbers + first,
                                               (ROWS - CHUNK_ROWS) * COLUMNS * sizeof(float)));
        }
        cr_assert_eq(reply_to(self, &THE_COORDINATOR, &message), 0);
    }
    free(numbers);
}

/* PULL of such records, with the ids that they say; the caller ends `answer`. */
static int
pull_rows(fixture_t *self, const cadre_task_t *from, cadre_u64s_t records, const uint64_t *ids,
          cadre_message_t *answer)
{
    cadre_message_t message = question(CADRE_MESSAGE_PULL, from);
    message.pull = (cadre_pull_message_t){.generation = GENERATION, .rows = records};
    size_t id_count = 0;
    for (size_t i = 0; i < records.count; i += 4) {
        id_count += records.items[i + 2] == CADRE_ROWS_LISTED ? records.items[i + 3] : 0;
    }
    if (id_count > 0) {
        cadre_message_add_chunk(&message, cadre_chunk_new_copy(ids, id_count * sizeof(*ids)));
    }
    const size_t expected = cadre_shard_answer_size(self->shard, &message);
    ask(self, from, &message, answer);
    cr_assert_eq(answer->type, CADRE_MESSAGE_VALUES);
    size_t size_bytes = 0;
    for (size_t k = 0; k < answer->chunk_count; k++) {
        size_bytes += cadre_chunk_size_bytes(answer->chunks[k]);
    }
    cr_assert(answer->values.status > 0 || size_bytes == expected, "admission knows the size");
    return -(int)answer->values.status;
}

Test(shard_rows, gives_rows_of_several_partitions_in_the_order_that_is_asked)
{
    fixture_t self = open_filled_shard();
    cadre_message_t answer;
    const uint64_t records[] = {1, 0, CADRE_ROWS_LISTED, 3, 2, 0, 0, 2, 1, 0, 261, 2};
    const uint64_t ids[] = {299, 0, 299};
    const int wanted[] = {299, 0, 299};
    count_elements(&self);
    cr_assert_eq(pull_rows(&self, &THE_COORDINATOR, (cadre_u64s_t){records, 12}, ids, &answer), 0,
                 "%s", answer.values.text);
    cr_assert_eq(answer.values.partitions.count, 6);
    for (size_t i = 0; i < 3; i++) {
        cr_expect_eq(answer.values.partitions.items[2 * i], 1, "its version");
        cr_expect_eq(answer.values.partitions.items[2 * i + 1], 1);
    }
    const float *rows = cadre_chunk_data(answer.chunks[0]);
    for (int i = 0; i < 3 * COLUMNS; i++) {
        cr_assert_eq(rows[i], (float)(wanted[i / COLUMNS] * COLUMNS + i % COLUMNS));
    }
    rows = cadre_chunk_data(answer.chunks[1]);
    cr_assert_eq(rows[0], 1000000);
    cr_assert_eq(rows[3], 1000003);
    rows = cadre_chunk_data(answer.chunks[2]); /* one of each chunk of the partition */
    cr_assert_eq(rows[0], 261 * COLUMNS);
    cr_assert_eq(rows[2 * COLUMNS - 1], 263 * COLUMNS - 1);
    cr_assert_eq(COUNTER(&self, pull_bytes), 5 * COLUMNS * 4 + 16);
    cadre_message_fini(&answer);
    close_shard(&self);
}

Test(shard_rows, gives_workers_rows_in_the_wire_dtype)
{
    fixture_t self = open_shard(NULL);
    cadre_message_t answer;
    uint64_t shape[2];
    const uint64_t records[] = {1, 0, CADRE_ROWS_LISTED, 2};
    const uint64_t ids[] = {299, 261};
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, ROWS, COLUMNS, shape);
    message.wire = CADRE_BF16;
    cr_assert_eq(create(&self, &message), 0);
    cr_assert_eq(pull_rows(&self, &THE_WORKER, (cadre_u64s_t){records, 4}, ids, &answer), 0);
    cr_assert_eq(answer.chunk_count, 1);
    cr_assert_eq(cadre_chunk_size_bytes(answer.chunks[0]), 2 * 2 * COLUMNS);
    const uint16_t *words = cadre_chunk_data(answer.chunks[0]);
    cr_assert_eq(words[0], 0x3f80, "1 as bf16");
    cr_assert_eq(words[2 * COLUMNS - 1], 0x3f80);
    cadre_message_fini(&answer);
    close_shard(&self);
}

Test(shard_rows, a_row_larger_than_a_chunk_goes_into_several)
{
    enum { WIDE = CADRE_CHUNK_SIZE_MAX / 4 * 2 + 5 };
    fixture_t self = open_shard(NULL);
    cadre_message_t answer;
    uint64_t shape[2];
    const uint64_t record[] = {1, 0, 1, 1};
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, 3, WIDE, shape);
    cr_assert_eq(create(&self, &message), 0);
    cr_assert_eq(pull_rows(&self, &THE_COORDINATOR, (cadre_u64s_t){record, 4}, NULL, &answer), 0);
    cr_assert_eq(answer.chunk_count, 3);
    cr_assert_eq(cadre_chunk_size_bytes(answer.chunks[2]), 20);
    cr_assert(all_are(answer.chunks, 3, 1));
    cadre_message_fini(&answer);
    close_shard(&self);
}

static int
status_of(fixture_t *self, const uint64_t *record, uint64_t id, const char *part_of_text)
{
    cadre_message_t answer;
    int status = pull_rows(self, &THE_COORDINATOR, (cadre_u64s_t){record, 4}, &id, &answer);
    cr_assert_eq(answer.chunk_count, 0, "all rows or one status");
    cr_assert_eq(answer.values.partitions.count, 0);
    cr_assert(strstr(answer.values.text, part_of_text), "%s", answer.values.text);
    cadre_message_fini(&answer);
    return status;
}

Test(shard_rows, refuses_with_one_status)
{
    fixture_t self = open_filled_shard();
    const uint64_t listed[] = {1, 0, CADRE_ROWS_LISTED, 1};
    const uint64_t behind[] = {1, 0, 299, 2};
    const uint64_t unknown[] = {4, 0, 0, 1};
    const uint64_t many[] = {1, 0, 0, CADRE_ROWS_MAX + 1};
    cr_assert_eq(status_of(&self, listed, 300, "row 300"), CADRE_EINVALID);
    cr_assert_eq(status_of(&self, listed, UINT64_MAX, "weights"), CADRE_EINVALID);
    cr_assert_eq(status_of(&self, behind, 0, "row 300"), CADRE_EINVALID);
    cr_assert_eq(status_of(&self, unknown, 0, ""), CADRE_ENOTFOUND);
    cr_assert_eq(status_of(&self, many, 0, "in parts"), CADRE_ETOOLARGE);
    cr_assert_eq(COUNTER(&self, pull_bytes), 0);
    close_shard(&self);
}

Test(shard_rows, refuses_more_bytes_than_one_answer_has)
{
    enum { ROW = CADRE_ROWS_SIZE_MAX / 4 / 4 }; /* elements: four rows are the limit */
    fixture_t self = open_shard(NULL);
    cadre_message_t answer;
    uint64_t shape[2];
    uint64_t record[] = {1, 0, 0, 4};
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, 5, ROW, shape);
    cr_assert_eq(create(&self, &message), 0);
    cr_assert_eq(pull_rows(&self, &THE_COORDINATOR, (cadre_u64s_t){record, 4}, NULL, &answer), 0);
    cadre_message_fini(&answer);
    record[3] = 5;
    cr_assert_eq(status_of(&self, record, 0, "in parts"), CADRE_ETOOLARGE);
    close_shard(&self);
}

/* --- rows that are assigned --- */

/* ASSIGN of rows of variable 2, [2, 2], by one record: row i of `values` for ids[i]. */
static int
assign_after(fixture_t *self, uint64_t sequence, cadre_assign_mode_t mode, const uint64_t *ids,
             const float *values, uint64_t checkpoint)
{
    const uint64_t record[] = {2, 0, CADRE_ROWS_LISTED, 3};
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){.sequence = sequence,
                                              .generation = GENERATION,
                                              .mode = mode,
                                              .variable = 2,
                                              .checkpoint = checkpoint,
                                              .cut = checkpoint * 10,
                                              .rows = {record, 4}};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(ids, 3 * sizeof(*ids)));
    cadre_message_add_chunk(&message, cadre_chunk_new_copy(values, 6 * sizeof(float)));
    return reply_to(self, &THE_COORDINATOR, &message);
}

static int
assign(fixture_t *self, uint64_t sequence, cadre_assign_mode_t mode, const uint64_t *ids,
       const float *values)
{
    return assign_after(self, sequence, mode, ids, values, 0);
}

static void
expect_small(fixture_t *self, const float wanted[4])
{
    cadre_message_t answer;
    pull(self, 2, 0, &answer);
    const float *got = cadre_chunk_data(answer.chunks[0]);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(got[i], wanted[i], "%d: %g, not %g", i, (double)got[i], (double)wanted[i]);
    }
    cadre_message_fini(&answer);
}

static const uint64_t LAST_TWICE[] = {1, 1, 1};
static const uint64_t BOTH[] = {1, 0, 1};
static const float SIX[] = {1, 2, 3, 4, 5, 6};

Test(shard_rows, a_row_that_is_named_again_is_changed_again_and_others_stay)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(assign(&self, 1, CADRE_ASSIGN_SET, LAST_TWICE, SIX), 0);
    expect_small(&self, (const float[]){1, 1, 5, 6});
    cr_assert_eq(assign(&self, 2, CADRE_ASSIGN_ADD, LAST_TWICE, SIX), 0);
    expect_small(&self, (const float[]){1, 1, 14, 18});
    cr_assert_eq(assign(&self, 3, CADRE_ASSIGN_SUB, BOTH, SIX), 0);
    expect_small(&self, (const float[]){-2, -3, 8, 10});
    cr_assert_eq(cadre_partition_version(cadre_shard_partition(self.shard, 2, 0)), 3);
    cr_assert_eq(cadre_partition_steps(cadre_shard_partition(self.shard, 2, 0)), 0);
    cr_assert_eq(COUNTER(&self, assigned), 3);
    cr_assert(values_are(&self, 1, 1), "the other variable");
    close_shard(&self);
}

Test(shard_rows, rows_are_assigned_once)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(assign(&self, 1, CADRE_ASSIGN_ADD, BOTH, SIX), 0);
    cr_assert_eq(assign(&self, 1, CADRE_ASSIGN_ADD, BOTH, SIX), 0);
    expect_small(&self, (const float[]){4, 5, 7, 9});
    cr_assert_eq(COUNTER(&self, assigned), 1);
    close_shard(&self);
}

Test(shard_rows, whoever_holds_a_chunk_keeps_its_version)
{
    fixture_t self = open_filled_shard();
    cadre_message_t held;
    pull(&self, 2, 0, &held);
    cr_assert_eq(assign(&self, 1, CADRE_ASSIGN_SET, BOTH, SIX), 0);
    cr_assert(all_are(held.chunks, 1, 1));
    expect_small(&self, (const float[]){3, 4, 5, 6});
    cadre_message_fini(&held);
    close_shard(&self);
}

/* What a snapshot of the open cut holds of variable 2. */
static void
expect_image(fixture_t *self, uint64_t checkpoint, const float wanted[4])
{
    cr_assert_eq(close_cut(self, checkpoint, checkpoint * 10, "/draft", GENERATION), 0);
    cadre_shard_snapshot_t *taken = cadre_shard_effects_take_snapshot(&self->effects);
    cr_assert_not_null(taken);
    for (size_t i = 0; i < taken->part_count; i++) {
        if (taken->parts[i].spec.variable == 2) {
            cr_assert_arr_eq(cadre_chunk_data(taken->parts[i].references.values[0]), wanted, 16);
        }
    }
    cadre_shard_snapshot_destroy(&taken);
}

Test(shard_rows, rows_from_before_a_cut_are_in_it_and_later_ones_are_not)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(open_cut(&self, 7, 70, GENERATION), 0);
    cr_assert_eq(assign_after(&self, 1, CADRE_ASSIGN_SET, BOTH, SIX, 6), 0);
    cr_assert_eq(assign_after(&self, 2, CADRE_ASSIGN_ADD, BOTH, SIX, 7), 0);
    expect_image(&self, 7, (const float[]){3, 4, 5, 6});
    cr_assert_eq(assign_after(&self, 3, CADRE_ASSIGN_SET, BOTH, SIX, 8), 0);
    expect_image(&self, 8, (const float[]){6, 8, 11, 14});
    close_shard(&self);
}

static int
refused(fixture_t *self, const uint64_t *records, size_t count, size_t floats, float value)
{
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){
        .sequence = 1, .generation = GENERATION, .variable = 2, .rows = {records, count}};
    cadre_message_add_chunk(&message, new_floats(floats, value));
    return reply_to(self, &THE_COORDINATOR, &message);
}

Test(shard_rows, a_bad_assignment_changes_nothing)
{
    fixture_t self = open_filled_shard();
    const uint64_t good[] = {2, 0, 0, 2};
    const uint64_t behind[] = {2, 0, 1, 2};
    const uint64_t other[] = {1, 0, 0, 2};
    const uint64_t both[] = {2, 0, 0, 1, 2, 0, 1, 1};
    const uint64_t unknown[] = {2, 5, 0, 2};
    cr_expect_eq(refused(&self, good, 4, 4, NAN), CADRE_ENOTFINITE);
    cr_expect_eq(refused(&self, good, 4, 3, 9), CADRE_ESHAPE);
    cr_expect_eq(refused(&self, good, 3, 4, 9), CADRE_EMALFORMED);
    cr_expect_eq(refused(&self, behind, 4, 4, 9), CADRE_EINVALID);
    cr_expect_eq(refused(&self, other, 4, 4, 9), CADRE_EINVALID);
    cr_expect_eq(refused(&self, both, 8, 2, 9), CADRE_ESHAPE, "a chunk is missing");
    cr_expect_eq(refused(&self, unknown, 4, 4, 9), CADRE_ENOTFOUND);
    cr_expect_eq(COUNTER(&self, assigned), 0);
    expect_small(&self, (const float[]){1, 1, 1, 1});
    cr_expect_eq(refused(&self, good, 4, 4, 9), 0);
    expect_small(&self, (const float[]){9, 9, 9, 9});
    close_shard(&self);
}
