#include "worker/slot/row_lookups.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(row_lookups, .timeout = 240);

enum { WIDTH = 4 };

/* Finds what a program needs that looks up `table`, which is one or a variable of as many rows, by
 * ids of this dtype. */
static int
look_up(bool is_table, cadre_dtype_t dtype)
{
    static char name[] = "table";
    const cadre_variable_entry_t entry = {
        .name = name,
        .dtype = CADRE_F32,
        .wire = CADRE_F32,
        .rank = is_table ? 1 : 2,
        .shape = {is_table ? WIDTH : CADRE_PROGRAM_TABLE_ROWS, is_table ? 0 : WIDTH},
        .rows = is_table ? CADRE_TABLE_KEYS : CADRE_PROGRAM_TABLE_ROWS,
        .takes_rows = true,
        .is_table = is_table,
        .partitions = 1};
    const cadre_variable_entry_t *entries[] = {&entry};
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t ids = cadre_op_arg(p, "ids", dtype, (cadre_dim_t[]){cadre_dim_symbol("B")}, 1);
    cadre_op_result(p, "rows", cadre_op_take(p, cadre_op_table(p, name, WIDTH), ids));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    cadre_row_lookups_t lookups = {0};
    int status = cadre_row_lookups_init(&lookups, p, entries);
    cadre_row_lookups_fini(&lookups);
    return status;
}

Test(row_lookups, by_keys_of_i64_are_for_tables)
{
    cr_expect_eq(look_up(true, CADRE_I64), 0, "%s", cadre_error_text());
    cr_expect_eq(look_up(true, CADRE_I32), 0, "%s", cadre_error_text());
    cr_expect_eq(look_up(false, CADRE_I32), 0, "%s", cadre_error_text());
    cr_assert_eq(look_up(false, CADRE_I64), CADRE_EINVALID);
    cr_assert_str_eq(
        cadre_error_text(),
        "program model looks up table by ids of i64, which are keys, and it is no table");
}
