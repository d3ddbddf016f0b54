#include "coordinator/core/provisioning/row_plan.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/tensor/split.h"
#include "common/wire/row_list.h"

TestSuite(row_plan, .timeout = 240);

static cadre_variable_t
variable_of(int64_t rows, size_t row_size_bytes, uint32_t partitions, uint16_t *shards)
{
    return (cadre_variable_t){.id = 3,
                              .rows = rows,
                              .row_size_bytes = row_size_bytes,
                              .partitions = partitions,
                              .shards = shards};
}

/* Passes when the messages name each row of the request once, at its place. */
static void
expect_all(const cadre_row_plan_t *plan)
{
    size_t at = 0;
    for (size_t m = 0; m < plan->message_count; m++) {
        const cadre_row_plan_message_t *planned = &plan->messages[m];
        cadre_row_part_t records[CADRE_ROW_PARTS_MAX];
        cadre_message_t message = {.type = CADRE_MESSAGE_PULL};
        cadre_chunk_t *ids = cadre_row_plan_name(plan, planned, records);
        if (ids) {
            cadre_message_add_chunk(&message, ids);
        }
        const cadre_u64s_t items = cadre_row_part_list(records, planned->part_count);
        cadre_row_list_t list;
        cadre_part_rows_t rows;
        cr_assert_eq(cadre_row_list_init(&list, &items, &message), 0);
        while (cadre_row_list_next(&list, &rows)) {
            cr_assert_eq(plan->variable->shards[rows.partition], planned->shard);
            for (size_t k = 0; k < rows.count; k++, at++) {
                const size_t position = plan->order[at];
                const int64_t row = (int64_t)cadre_part_rows_at(&rows, k);
                cr_assert_eq(row,
                             plan->ids ? plan->ids[position] : plan->first_row + (int64_t)position);
                cr_assert_eq(
                    cadre_split_part(plan->variable->rows, plan->variable->partitions, row),
                    (int64_t)rows.partition);
            }
        }
        cadre_message_fini(&message);
    }
    cr_assert_eq(at, plan->count);
}

Test(row_plan, asks_each_shard_once_and_keeps_the_order_within_a_partition)
{
    uint16_t shards[] = {0, 1, 2, 0, 1};
    const cadre_variable_t variable = variable_of(13, 16, 5, shards); /* 3, 3, 3, 2, 2 */
    const int64_t ids[] = {12, 0, 9, 4, 2, 0, 7};
    cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, &variable, ids, 0, 7);
    expect_all(&plan);
    cr_assert_eq(plan.message_count, 3);
    cr_assert_eq(plan.messages[0].row_count, 4, "0, 2, 0 and 9");
    const size_t order[] = {1, 4, 5, 2};
    cr_assert_arr_eq(plan.order, order, sizeof(order));
    cadre_row_plan_fini(&plan);
}

Test(row_plan, names_spans_by_two_numbers)
{
    uint16_t shards[] = {0, 1, 0, 1};
    const cadre_variable_t variable = variable_of(10, 16, 4, shards); /* 3, 3, 2, 2 */
    cadre_row_plan_t plan;
    cadre_row_part_t records[CADRE_ROW_PARTS_MAX];
    cadre_row_plan_init(&plan, &variable, NULL, 1, 8);
    expect_all(&plan);
    cr_assert_eq(plan.message_count, 2);
    cr_assert_null(cadre_row_plan_name(&plan, &plan.messages[0], records));
    cr_assert_eq(records[0].first, 1);
    cr_assert_eq(records[0].count, 2);
    cr_assert_eq(records[1].first, 6);
    cr_assert_eq(records[1].count, 2);
    cadre_row_plan_fini(&plan);
}

static void
expect_messages(int64_t rows, size_t row_size_bytes, uint32_t partitions, size_t expected)
{
    static uint16_t shards[CADRE_ROW_PARTS_MAX + 1];
    const cadre_variable_t variable = variable_of(rows, row_size_bytes, partitions, shards);
    cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, &variable, NULL, 0, (size_t)rows);
    expect_all(&plan);
    cr_assert_eq(plan.message_count, expected, "%zu messages", plan.message_count);
    cadre_row_plan_fini(&plan);
}

Test(row_plan, cuts_at_each_limit_of_a_message)
{
    expect_messages(CADRE_ROWS_MAX, 4, 1, 1);
    expect_messages(CADRE_ROWS_MAX + 1, 4, 1, 2);
    expect_messages(4, CADRE_ROWS_SIZE_MAX / 4, 2, 1);
    expect_messages(5, CADRE_ROWS_SIZE_MAX / 4, 2, 2);
    expect_messages(2, CADRE_ROWS_SIZE_MAX + 1, 1, 2); /* each alone */
    expect_messages(CADRE_ROW_PARTS_MAX, 4, CADRE_ROW_PARTS_MAX, 1);
    expect_messages(CADRE_ROW_PARTS_MAX + 1, 4, CADRE_ROW_PARTS_MAX + 1, 2);
}

Test(row_plan, asks_for_rows_of_a_table_by_key_where_its_hash_puts_them)
{
    enum { COUNT = 1000, SHARDS = 3 };
    uint16_t shards[] = {0, 1, 2};
    cadre_table_spec_t table = cadre_table_spec(4);
    cadre_variable_t variable = variable_of(0, 16, SHARDS, shards);
    variable.table = &table;
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(COUNT, sizeof(*keys));
    for (uint64_t i = 0; i < COUNT; i++) {
        keys[i] = UINT64_MAX - i / 2; /* in a row, beyond INT64_MAX, each twice */
    }

    cadre_row_plan_t plan;
    cadre_row_plan_init(&plan, &variable, (const int64_t *)keys, 0, COUNT);
    cr_assert_eq(plan.message_count, SHARDS);
    size_t at = 0;
    for (size_t m = 0; m < plan.message_count; m++) {
        cadre_row_part_t records[CADRE_ROW_PARTS_MAX];
        cadre_chunk_t *chunk = cadre_row_plan_name(&plan, &plan.messages[m], records);
        cr_assert_eq(plan.messages[m].part_count, 1);
        cr_assert_eq(records[0].first, CADRE_ROWS_LISTED);
        cr_assert_eq(records[0].partition, m);
        cr_assert_eq(cadre_chunk_size_bytes(chunk), records[0].count * sizeof(uint64_t));
        const uint64_t *named = cadre_chunk_data(chunk);
        for (size_t k = 0; k < records[0].count; k++, at++) {
            cr_assert_eq(named[k], keys[plan.order[at]]);
            cr_assert_eq(cadre_table_shard(named[k], SHARDS), m);
        }
        cadre_chunk_unref(&chunk);
    }
    cr_assert_eq(at, COUNT);
    cadre_row_plan_fini(&plan);
}
