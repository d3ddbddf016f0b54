#include "worker/slot/row_access.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(row_access, .timeout = 240);

enum { ROWS = 9, WIDTH = 2 };

static char name[] = "table";

static cadre_variable_entry_t
entry(void)
{
    return (cadre_variable_entry_t){.name = name,
                                    .dtype = CADRE_F32,
                                    .wire = CADRE_F32,
                                    .rank = 2,
                                    .shape = {ROWS, WIDTH},
                                    .rows = ROWS,
                                    .row_size_bytes = WIDTH * sizeof(float),
                                    .wire_row_size_bytes = WIDTH * sizeof(float),
                                    .partitions = 2}; /* which begin at 0 and 5 */
}

Test(row_access, lists_rows_once_and_gives_them_as_they_were_asked_for)
{
    const cadre_variable_entry_t variable = entry();
    const int64_t ids[] = {7, 2, 7};
    const float listed[] = {20, 21, 70, 71}; /* rows 2 and 7 */
    const float expected[] = {70, 71, 20, 21, 70, 71};
    float rows[6];
    cadre_row_access_t access;
    cr_assert_eq(cadre_row_access_init(&access, &variable, ids, 3), 0);
    cr_assert_eq(access.rows.count, 2);
    cadre_row_access_gather(&access, sizeof(float) * WIDTH, listed, rows);
    cr_assert_arr_eq(rows, expected, sizeof(rows));
    cadre_row_access_fini(&access);
}

Test(row_access, adds_up_the_gradients_of_a_row)
{
    const cadre_variable_entry_t variable = entry();
    const int64_t ids[] = {7, 6, 7};
    const float gradients[] = {1, 2, 3, 4, 5, 6};
    cadre_row_access_t access;
    cr_assert_eq(cadre_row_access_init(&access, &variable, ids, 3), 0);
    cadre_row_access_cover(&access, &variable);
    cr_assert_eq(access.rows.count, 3);
    cr_assert_arr_eq(access.rows.ids, ((uint64_t[]){0, 6, 7}), 24);
    cadre_auto(cadre_free) float *sums = cadre_row_access_sum(&access, &variable, gradients, false);
    cr_assert_arr_eq(sums, ((float[]){0, 0, 3, 4, 6, 8}), 24);

    cadre_auto(cadre_free) float *all = cadre_row_access_sum(&access, &variable, gradients, true);
    const float expected[ROWS * WIDTH] = {[12] = 3, [13] = 4, [14] = 6, [15] = 8};
    cr_assert_arr_eq(all, expected, sizeof(expected));
    cadre_row_access_fini(&access);
}

Test(row_access, refuses_what_are_no_rows)
{
    cadre_variable_entry_t variable = entry();
    cadre_row_access_t access;
    cr_expect_eq(cadre_row_access_init(&access, &variable, (int64_t[]){0}, 0), CADRE_EINVALID);
    cadre_row_access_fini(&access);
    cr_expect_eq(cadre_row_access_init(&access, &variable, (int64_t[]){8, ROWS}, 2), CADRE_EDATA);
    cr_expect_str_eq(cadre_error_text(), "table: row 9 at 1 is not in 0..8");
    cadre_row_access_fini(&access);
    cr_expect_eq(cadre_row_access_init(&access, &variable, (int64_t[]){-1}, 1), CADRE_EDATA);
    cadre_row_access_fini(&access);
    variable.rank = 0;
    cr_expect_eq(cadre_row_access_init(&access, &variable, (int64_t[]){0}, 1), CADRE_EINVALID);
    cadre_row_access_fini(&access);
}

Test(row_access, of_a_table_takes_all_bits_as_keys)
{
    cadre_variable_entry_t variable = entry();
    variable.is_table = true;
    variable.partitions = 1;
    const int64_t ids[] = {-1, INT64_MAX, 2};
    cadre_row_access_t access;
    cr_assert_eq(cadre_row_access_init(&access, &variable, ids, 3), 0, "%s", cadre_error_text());
    cr_assert_eq(access.rows.count, 3);
    cr_assert_arr_eq(access.rows.ids, ((uint64_t[]){2, INT64_MAX, UINT64_MAX}), 24);
    cadre_row_access_fini(&access);
}
