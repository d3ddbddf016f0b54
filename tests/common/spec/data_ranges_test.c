#include "common/spec/data_ranges.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/memory.h"

TestSuite(data_ranges, .timeout = 240);

/* Each batch comes once, in turn from each range, those of a range one behind the other, and what
 * the rows do not fill comes last. */
static void
check_epoch(int64_t rows, int64_t batch_size, int64_t ranges)
{
    const int64_t batches = (rows + batch_size - 1) / batch_size;
    const int64_t whole = rows / batch_size;
    cadre_auto(cadre_free) int *seen = cadre_calloc((size_t)batches + 1, sizeof(*seen));
    cadre_auto(cadre_free) int64_t *next = cadre_calloc((size_t)ranges, sizeof(*next));
    for (int64_t batch = 0; batch < batches; batch++) {
        const int64_t first = cadre_data_range_position(rows, batch_size, ranges, batch);
        cr_assert(first >= 0 && first < rows && first % batch_size == 0);
        cr_assert_eq(seen[first / batch_size]++, 0, "%" PRId64, first);
        const int64_t count = rows - first < batch_size ? rows - first : batch_size;
        const int64_t range = cadre_data_range_of(rows, ranges, true, first, count);
        cr_assert_eq(count < batch_size, batch == whole);
        if (batch == whole) {
            /* of the last one, or the last that has a whole batch */
            cr_assert(range < ranges && (range >= whole - 1 || range == ranges - 1));
            continue;
        }
        cr_assert_eq(range, batch % ranges, "batch %" PRId64 " of %" PRId64, batch, batches);
        cr_assert(batch < ranges || first == next[range]);
        next[range] = first + batch_size;
    }
}

Test(data_ranges, give_each_batch_once_in_turn)
{
    for (int64_t rows = 1; rows < 200; rows++) {
        for (int64_t batch_size = 1; batch_size < 12; batch_size++) {
            for (int64_t ranges = 1; ranges < 10; ranges++) {
                check_epoch(rows, batch_size, ranges);
            }
        }
    }
    check_epoch(1000003, 128, 256);
    check_epoch(5, 128, 256);
}

Test(data_ranges, of_one_leave_the_order_alone)
{
    for (int64_t batch = 0; batch < 8; batch++) {
        cr_expect_eq(cadre_data_range_position(100, 13, 1, batch), batch * 13);
    }
    cr_expect_eq(cadre_data_range_of(100, 1, true, 91, 9), 0);
}

Test(data_ranges, of_a_file_in_its_own_order_are_pieces_in_turn)
{
    const int64_t rows = 100 * CADRE_DATA_PIECE_ROWS;
    for (int64_t piece = 0; piece < 100; piece++) {
        const int64_t first = piece * CADRE_DATA_PIECE_ROWS;
        cr_expect_eq(cadre_data_range_of(rows, 8, false, first, 7), piece % 8);
        cr_expect_eq(cadre_data_range_of(rows, 8, false, first + CADRE_DATA_PIECE_ROWS - 1, 7),
                     piece % 8);
    }
}
