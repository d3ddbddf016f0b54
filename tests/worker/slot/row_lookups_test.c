#include "worker/slot/row_lookups.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(row_lookups, .timeout = 240);

enum { ROWS = 9, WIDTH = 4 };

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

static cadre_variable_entry_t
entry_of(char *name, bool is_table)
{
    return (cadre_variable_entry_t){.name = name,
                                    .dtype = CADRE_F32,
                                    .wire = CADRE_F32,
                                    .rank = is_table ? 1 : 2,
                                    .shape = {is_table ? WIDTH : ROWS, is_table ? 0 : WIDTH},
                                    .rows = is_table ? CADRE_TABLE_KEYS : ROWS,
                                    .takes_rows = true,
                                    .is_table = is_table,
                                    .partitions = 2};
}

/* The norm of a gradient over some rows is rounded by which they are: a variable travels whole
 * then, so that what a job computes follows from neither its partitions nor the ids of others. */
Test(row_lookups, what_is_clipped_by_a_norm_travels_whole_but_for_tables)
{
    static char names[3][8] = {"table", "clipped", "free"};
    const cadre_variable_entry_t entries[3] = {entry_of(names[0], true), entry_of(names[1], false),
                                               entry_of(names[2], false)};
    const cadre_variable_entry_t *variables[] = {&entries[0], &entries[1], &entries[2]};
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t ids = cadre_op_arg(p, "ids", CADRE_I32, (cadre_dim_t[]){cadre_dim_symbol("B")}, 1);
    const cadre_node_t nodes[3] = {cadre_op_table(p, names[0], WIDTH),
                                   cadre_op_var(p, names[1], (int64_t[]){ROWS, WIDTH}, 2),
                                   cadre_op_var(p, names[2], (int64_t[]){ROWS, WIDTH}, 2)};
    cadre_node_t rows = cadre_op_take(p, nodes[0], ids);
    for (int i = 1; i < 3; i++) {
        rows = cadre_op_mul(p, rows, cadre_op_take(p, nodes[i], ids));
    }
    cadre_node_t gradients[3];
    cadre_op_gradient(p, cadre_op_mean_all(p, cadre_op_square(p, rows)), nodes, 3, gradients);
    cadre_op_clip_by_global_norm(p, gradients, 2, 1.0F);
    for (int i = 0; i < 3; i++) {
        cadre_op_push(p, nodes[i], gradients[i]);
    }
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());

    cadre_row_lookups_t lookups = {0};
    cr_assert_eq(cadre_row_lookups_init(&lookups, p, variables), 0, "%s", cadre_error_text());
    cr_assert(lookups.made);
    cr_expect_geq(lookups.made->variables[0], 0);
    cr_expect_eq(lookups.made->variables[1], -1);
    cr_expect_geq(lookups.made->variables[2], 0);
    cadre_row_lookups_fini(&lookups);
}
