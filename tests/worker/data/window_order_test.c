#include "worker/data/window_order.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/memory.h"

TestSuite(window_order, .timeout = 240);

enum { ROWS = 10 * CADRE_BLOCK_ROWS + 77 };

static cadre_row_split_t
part(double held_out, bool use_held_out, int64_t rows)
{
    const cadre_data_spec_t spec = {
        .held_out = held_out, .use_held_out = use_held_out, .split_seed = CADRE_SPLIT_SEED};
    cadre_row_split_t split;
    cadre_row_split_init(&split, &spec, rows);
    return split;
}

static int64_t
rows_of(const cadre_row_split_t *split)
{
    return cadre_row_split_before(split, cadre_row_split_blocks(split));
}

/* Each row is in one part, those of a block in the place of the block. */
Test(window_order, has_each_row_in_one_part)
{
    static const double fractions[] = {0.2, 0.0001, 0.9999, 1.0 / 3};
    for (size_t i = 0; i < CADRE_COUNT_OF(fractions); i++) {
        static int seen[ROWS];
        for (int64_t row = 0; row < ROWS; row++) {
            seen[row] = 0;
        }
        const cadre_row_split_t parts[] = {part(fractions[i], true, ROWS),
                                           part(fractions[i], false, ROWS)};
        cr_assert_eq(rows_of(&parts[0]), (int64_t)(ROWS * fractions[i]));
        cr_assert_eq(rows_of(&parts[0]) + rows_of(&parts[1]), ROWS);
        for (size_t p = 0; p < CADRE_COUNT_OF(parts); p++) {
            for (int64_t row = 0; row < rows_of(&parts[p]); row++) {
                const int64_t at = cadre_row_split_at(&parts[p], row);
                const int64_t block = at / CADRE_BLOCK_ROWS;
                cr_assert(row >= cadre_row_split_before(&parts[p], block) &&
                          row < cadre_row_split_before(&parts[p], block + 1));
                seen[at]++;
            }
        }
        for (int64_t row = 0; row < ROWS; row++) {
            cr_assert_eq(seen[row], 1, "row %" PRId64 " of %g", row, fractions[i]);
        }
    }
}

static void
check_order(const cadre_row_split_t *split, int64_t window_blocks)
{
    const int64_t rows = rows_of(split);
    cadre_auto(cadre_window_order_destroy) cadre_window_order_t *order =
        cadre_window_order_new(split, window_blocks);
    cadre_auto(cadre_free) int *seen = cadre_calloc((size_t)rows, sizeof(*seen));
    cadre_window_order_choose(order, 3, 0);
    for (int64_t position = 0; position < rows; position++) {
        const int64_t row = cadre_window_order_at(order, position);
        const int64_t window = cadre_window_order_window(order, position);
        const int64_t block = cadre_row_split_at(split, row) / CADRE_BLOCK_ROWS;
        cr_assert(row >= 0 && row < rows);
        seen[row]++;
        bool is_there = false;
        int64_t one = 0;
        for (int64_t i = 0; cadre_window_order_block(order, window, i, &one); i++) {
            is_there = is_there || one == block;
        }
        cr_assert(is_there, "position %" PRId64, position);
    }
    for (int64_t row = 0; row < rows; row++) {
        cr_assert_eq(seen[row], 1, "row %" PRId64, row);
    }
}

Test(window_order, has_each_row_once_in_a_window_of_its_block)
{
    const cadre_row_split_t whole = part(0, false, ROWS);
    const cadre_row_split_t rest = part(0.1, false, ROWS);
    const cadre_row_split_t few = part(0.0001, true, ROWS); /* most blocks have none */
    const cadre_row_split_t one = part(0, false, 1);
    check_order(&whole, 3);
    check_order(&whole, 1);
    check_order(&whole, 11);
    check_order(&whole, 1000);
    check_order(&rest, 4);
    check_order(&few, 2);
    check_order(&one, 16);
}

/* How often a block comes at each place: each of the 11 should come first in about a tenth of the
 * epochs, and two epochs are not alike within a window either. */
Test(window_order, differs_between_epochs)
{
    enum { EPOCHS = 1100 };
    const cadre_row_split_t whole = part(0, false, ROWS);
    cadre_auto(cadre_window_order_destroy) cadre_window_order_t *order =
        cadre_window_order_new(&whole, 3);
    int first[11] = {0};
    int same = 0;
    int64_t before = -1;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        cadre_window_order_choose(order, 5, epoch);
        const int64_t row = cadre_window_order_at(order, 0);
        int64_t block = 0;
        cr_assert(cadre_window_order_block(order, 0, 0, &block));
        first[block]++;
        same += row == before;
        before = row;
    }
    for (int i = 0; i < 11; i++) {
        cr_expect(first[i] > 60 && first[i] < 140, "block %d was first %d times", i, first[i]);
    }
    cr_expect_lt(same, 5);
}
