#include "common/tensor/chunk_layout.h"

#include <criterion/criterion.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(chunk_layout, .timeout = 240);

enum { MIB = 1 << 20 };

Test(chunk_layout, cuts_whole_rows_where_a_row_fits)
{
    static const struct {
        uint64_t rows;
        size_t row_size_bytes;
        size_t count;
        size_t stride_bytes;
        size_t last_bytes;
    } cases[] = {
        {1, 4, 1, MIB, 4},
        {MIB / 4 - 1, 4, 1, MIB, MIB - 4},
        {MIB / 4, 4, 1, MIB, MIB},
        {MIB / 4 + 1, 4, 2, MIB, 4},
        {1000, 3000, 3, 349 * 3000, 302 * 3000},
        {3, MIB - 4, 3, MIB - 4, MIB - 4},
        {3, MIB, 3, MIB, MIB},
        {3, MIB / 2 + 4, 3, MIB / 2 + 4, MIB / 2 + 4},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_chunk_layout_t layout;
        cr_assert_eq(cadre_chunk_layout_init(&layout, cases[i].rows, cases[i].row_size_bytes), 0);
        cr_assert_eq(layout.count, cases[i].count, "case %zu", i);
        cr_assert_eq(layout.stride_bytes, cases[i].stride_bytes, "case %zu", i);
        cr_assert_eq(cadre_chunk_layout_size(&layout, layout.count - 1), cases[i].last_bytes,
                     "case %zu", i);
    }
}

Test(chunk_layout, cuts_a_row_that_is_larger_than_a_chunk)
{
    cadre_chunk_layout_t layout;
    cr_assert_eq(cadre_chunk_layout_init(&layout, 3, MIB + 4), 0);
    cr_assert_eq(layout.stride_bytes, MIB);
    cr_assert_eq(layout.count, 4);
    cr_assert_eq(cadre_chunk_layout_offset(&layout, 3), 3 * MIB);
    cr_assert_eq(cadre_chunk_layout_size(&layout, 3), 12);
    cr_assert_eq(layout.stride_bytes % 64, 0);
}

Test(chunk_layout, covers_every_byte_once)
{
    for (size_t row = 4; row < 3 * MIB; row = row * 7 + 4) {
        for (uint64_t rows = 1; rows < 100000; rows = rows * 3 + 1) {
            cadre_chunk_layout_t layout;
            cr_assert_eq(cadre_chunk_layout_init(&layout, rows, row), 0);
            size_t at = 0;
            for (size_t k = 0; k < layout.count; k++) {
                cr_assert_eq(cadre_chunk_layout_offset(&layout, k), at);
                size_t size_bytes = cadre_chunk_layout_size(&layout, k);
                cr_assert(size_bytes > 0 && size_bytes <= CADRE_CHUNK_SIZE_MAX);
                cr_assert_eq(size_bytes % 4, 0);
                at += size_bytes;
            }
            cr_assert_eq(at, rows * row);
        }
    }
}

Test(chunk_layout, has_the_same_elements_in_each_chunk_when_they_are_converted)
{
    for (size_t row = 4; row < 3 * MIB; row = row * 7 + 4) {
        for (uint64_t rows = 0; rows < 100000; rows = rows * 3 + 1) {
            cadre_chunk_layout_t wide;
            cr_assert_eq(cadre_chunk_layout_init(&wide, rows, row), 0);
            cadre_chunk_layout_t converted = cadre_chunk_layout_convert(&wide, 4, 2);
            cadre_chunk_layout_t same = cadre_chunk_layout_convert(&wide, 4, 4);
            cr_assert(same.size_bytes == wide.size_bytes && same.count == wide.count &&
                      same.stride_bytes == wide.stride_bytes);
            cr_assert_eq(converted.size_bytes, wide.size_bytes / 2);
            cr_assert_eq(converted.count, wide.count);
            for (size_t k = 0; k < wide.count; k++) {
                cr_assert_eq(2 * cadre_chunk_layout_offset(&converted, k),
                             cadre_chunk_layout_offset(&wide, k));
                cr_assert_eq(2 * cadre_chunk_layout_size(&converted, k),
                             cadre_chunk_layout_size(&wide, k));
            }
        }
    }
}

Test(chunk_layout, has_no_chunk_for_nothing)
{
    cadre_chunk_layout_t layout;
    cr_assert_eq(cadre_chunk_layout_init(&layout, 0, 64), 0);
    cr_assert_eq(layout.count, 0);
    cr_assert_eq(cadre_chunk_layout_init(&layout, 7, 0), 0);
    cr_assert_eq(layout.count, 0);
    cr_assert_eq(layout.size_bytes, 0);
}

Test(chunk_layout, refuses_more_bytes_than_can_be_counted)
{
    cadre_chunk_layout_t layout;
    cr_assert_eq(cadre_chunk_layout_init(&layout, INT64_MAX, 1), 0);
    cr_assert_eq(cadre_chunk_layout_init(&layout, (uint64_t)INT64_MAX + 1, 1), CADRE_ETOOLARGE);
    cr_assert_eq(cadre_chunk_layout_init(&layout, UINT64_MAX, 8), CADRE_ETOOLARGE);
}
