#include "worker/slot/id_list.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/spec/table_spec.h"

TestSuite(id_list, .timeout = 240);

static const cadre_row_lookup_t of_take = {.op = CADRE_OP_TAKE};
static const cadre_row_lookup_t of_bag = {.op = CADRE_OP_BAG, .pads = true};

static cadre_tensor_t
ids_of(int32_t *data, int64_t count)
{
    return cadre_tensor_view(CADRE_I32, data, &count, 1);
}

/* Adds ids of a take or bag from a table of `rows` rows; returns where its positions begin. */
static size_t
add(cadre_id_list_t *self, const cadre_row_lookup_t *lookup, int32_t *data, int64_t count,
    int64_t rows)
{
    const cadre_tensor_t ids = ids_of(data, count);
    size_t first = 0;
    cr_assert_eq(cadre_id_list_add(self, lookup, &ids, rows, &first), 0, "%s", cadre_error_text());
    return first;
}

static void
expect_ids(const cadre_id_list_t *self, const uint64_t *ids, size_t count)
{
    cr_assert_eq(self->count, count);
    cr_assert_arr_eq(self->ids, ids, count * sizeof(*ids));
}

Test(id_list, lists_each_id_once_and_says_where_it_stands)
{
    cadre_id_list_t list = {0};
    cadre_id_list_begin(&list);
    int32_t first[] = {7, 3, 7, 0};
    int32_t second[] = {3, 9};
    cr_assert_eq(add(&list, &of_take, first, 4, 10), 0);
    cr_assert_eq(add(&list, &of_take, second, 2, 10), 4);
    cadre_id_list_finish(&list);
    expect_ids(&list, (uint64_t[]){0, 3, 7, 9}, 4);
    const int32_t positions[] = {2, 1, 2, 0, 1, 3};
    cr_assert_arr_eq(list.positions, positions, sizeof(positions));
    cadre_id_list_fini(&list);
}

Test(id_list, keeps_padding_and_lists_no_row_for_it)
{
    cadre_id_list_t list = {0};
    int32_t ids[] = {-1, 4, -1};
    cadre_id_list_begin(&list);
    add(&list, &of_bag, ids, 3, 5);
    cadre_id_list_finish(&list);
    expect_ids(&list, (uint64_t[]){4}, 1);
    cr_assert_arr_eq(list.positions, ((int32_t[]){-1, 0, -1}), 3 * sizeof(int32_t));

    cadre_id_list_begin(&list); /* of the run before nothing is left */
    int32_t none[] = {-1};
    add(&list, &of_bag, none, 1, 5);
    cadre_id_list_finish(&list);
    cr_assert_eq(list.count, 0);
    cr_assert_eq(list.positions[0], -1);
    cadre_id_list_fini(&list);
}

/* Expects ids to be refused with this text. */
static void
expect_refusal(const cadre_row_lookup_t *lookup, const cadre_tensor_t *ids, const char *text)
{
    cadre_id_list_t list = {0};
    size_t first = 0;
    cadre_id_list_begin(&list);
    cr_assert_eq(cadre_id_list_add(&list, lookup, ids, 5, &first), CADRE_EDATA);
    cr_assert_str_eq(cadre_error_text(), text);
    cadre_id_list_fini(&list);
}

Test(id_list, refuses_ids_out_of_range_as_devices_do)
{
    int32_t data[] = {0, 4, 5, 0, 0, 0};
    const cadre_tensor_t ids = ids_of(data, 6);
    const cadre_tensor_t rows = cadre_tensor_view(CADRE_I32, data, (int64_t[]){3, 2}, 2);
    const cadre_row_lookup_t of_scatter = {.op = CADRE_OP_SCATTER};
    expect_refusal(&of_take, &ids, "take: index 5 at 2 is not in 0..4");
    expect_refusal(&of_take, &rows, "take: index 5 in row 1 at 0 is not in 0..4");
    expect_refusal(&of_bag, &ids, "bag: index 5 at 2 is not in -1..4");
    expect_refusal(&of_scatter, &ids, "scatter: index 5 at 2 is not in 0..4");
    data[2] = -1;
    expect_refusal(&of_take, &ids, "take: index -1 at 2 is not in 0..4");
    data[2] = -2;
    expect_refusal(&of_bag, &ids, "bag: index -2 at 2 is not in -1..4");
}

/* Keys of i64 are all 64 bits of theirs: -1 too, but in a bag. */
Test(id_list, takes_each_i64_as_a_key)
{
    int64_t data[] = {INT64_MIN, 1, -1, INT64_MAX, 1, INT64_MIN + 1};
    const cadre_tensor_t ids = cadre_tensor_view(CADRE_I64, data, (int64_t[]){6}, 1);
    cadre_id_list_t list = {0};
    size_t first = 0;
    cadre_id_list_begin(&list);
    cr_assert_eq(cadre_id_list_add(&list, &of_take, &ids, 1, &first), 0);
    cadre_id_list_finish(&list);
    expect_ids(&list, (uint64_t[]){1, INT64_MAX, 1ULL << 63, (1ULL << 63) + 1, UINT64_MAX}, 5);
    cr_assert_arr_eq(list.positions, ((int32_t[]){2, 0, 4, 1, 0, 3}), 6 * sizeof(int32_t));

    cadre_id_list_begin(&list);
    cr_assert_eq(cadre_id_list_add(&list, &of_bag, &ids, 1, &first), 0);
    cadre_id_list_finish(&list);
    expect_ids(&list, (uint64_t[]){1, INT64_MAX, 1ULL << 63, (1ULL << 63) + 1}, 4);
    cr_assert_arr_eq(list.positions, ((int32_t[]){2, 0, -1, 1, 0, 3}), 6 * sizeof(int32_t));
    cadre_id_list_fini(&list);
}

Test(id_list, covers_partitions_that_nothing_reads)
{
    cadre_id_list_t list = {0};
    int32_t ids[] = {5, 4, 5};
    cadre_id_list_begin(&list);
    add(&list, &of_take, ids, 3, 13);
    cadre_id_list_finish(&list);
    cadre_id_list_cover(&list, 13, 5); /* partitions begin at 0, 3, 6, 9 and 11 */
    expect_ids(&list, (uint64_t[]){0, 4, 5, 6, 9, 11}, 6);
    cr_assert_arr_eq(list.positions, ((int32_t[]){2, 1, 2}), 3 * sizeof(int32_t));
    cadre_id_list_cover(&list, 13, 5);
    cr_assert_eq(list.count, 6);
    cadre_id_list_fini(&list);
}

/* Many ids of many digits, most of them more than once. */
Test(id_list, of_many_ids_is_ascending_and_has_all)
{
    enum { COUNT = 20000, ROWS = 1 << 30 };
    static int32_t ids[COUNT];
    cadre_random_t random;
    cadre_random_init(&random, 11, 1);
    for (int i = 0; i < COUNT; i++) {
        ids[i] = i % 3 == 0 && i > 0 ? ids[i / 3] : (int32_t)cadre_random_below(&random, ROWS);
    }
    cadre_id_list_t list = {0};
    cadre_id_list_begin(&list);
    add(&list, &of_take, ids, COUNT, ROWS);
    cadre_id_list_finish(&list);
    for (size_t i = 1; i < list.count; i++) {
        cr_assert_lt(list.ids[i - 1], list.ids[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(list.ids[list.positions[i]], (uint64_t)ids[i]);
    }
    cadre_id_list_fini(&list);
}

Test(id_list, is_spread_over_the_shards_of_a_table)
{
    enum { COUNT = 50, SHARDS = 3 };
    cadre_id_list_t list = {0};
    int32_t ids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ids[i] = 1000 - 13 * (i % 40);
    }
    cadre_id_list_begin(&list);
    add(&list, &of_take, ids, COUNT, INT64_C(1) << 31);
    cadre_id_list_finish(&list);
    cadre_id_list_spread(&list, SHARDS);
    cr_assert_eq(list.count, 40);
    for (size_t i = 1; i < list.count; i++) {
        const uint32_t before = cadre_table_shard(list.ids[i - 1], SHARDS);
        const uint32_t shard = cadre_table_shard(list.ids[i], SHARDS);
        cr_assert(before < shard || (before == shard && list.ids[i - 1] < list.ids[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(list.ids[list.positions[i]], (uint64_t)ids[i]);
    }
    cadre_id_list_fini(&list);
}
