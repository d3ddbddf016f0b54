#include "common/tensor/split.h"

#include <criterion/criterion.h>

TestSuite(split, .timeout = 240);

static void
expect(int64_t rows, int64_t parts, const int64_t *expected)
{
    int64_t first = 0;
    for (int64_t i = 0; i < parts; i++) {
        cr_assert_eq(cadre_split_first(rows, parts, i), first);
        cr_assert_eq(cadre_split_rows(rows, parts, i), expected[i]);
        first += expected[i];
    }
    cr_assert_eq(first, rows);
}

Test(split, P4_gives_the_first_parts_one_row_more)
{
    expect(13, 5, (int64_t[]){3, 3, 3, 2, 2});
    expect(10, 4, (int64_t[]){3, 3, 2, 2});
    expect(8, 4, (int64_t[]){2, 2, 2, 2});
    expect(1, 1, (int64_t[]){1});
    expect(0, 1, (int64_t[]){0});
}

Test(split, finds_the_part_of_each_row)
{
    for (int64_t rows = 1; rows <= 13; rows++) {
        for (int64_t parts = 1; parts <= rows; parts++) {
            for (int64_t row = 0; row < rows; row++) {
                const int64_t part = cadre_split_part(rows, parts, row);
                cr_assert(cadre_split_first(rows, parts, part) <= row);
                cr_assert(row < cadre_split_first(rows, parts, part + 1));
            }
        }
    }
}
