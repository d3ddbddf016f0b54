#include "ps/core/tables_told.h"

#include <criterion/criterion.h>

TestSuite(tables_told, .timeout = 240);

Test(tables_told, are_in_the_order_of_their_ids_and_the_lowest_where_there_are_too_many)
{
    enum { STEP = 37, TABLES = CADRE_TABLES_TOLD_MAX + 9 }; /* STEP and TABLES have no divisor */
    cadre_tables_told_t told = {.count = 0};
    for (uint64_t i = 0; i < TABLES; i++) {
        const uint64_t id = 1 + i * STEP % TABLES;
        const cadre_table_figures_t figures = {.rows = 100 * id, .unadmitted = id};
        cadre_tables_told_add(&told, id, &figures);
        const uint64_t there = i < CADRE_TABLES_TOLD_MAX ? i + 1 : CADRE_TABLES_TOLD_MAX;
        cr_assert_eq(told.count, there * CADRE_TABLE_TOLD);
    }
    for (uint64_t i = 0; i < CADRE_TABLES_TOLD_MAX; i++) {
        const uint64_t *table = &told.items[i * CADRE_TABLE_TOLD];
        cr_expect_eq(table[0], i + 1);
        cr_expect_eq(table[1 + CADRE_TABLE_COUNTER_rows], 100 * (i + 1));
        cr_expect_eq(table[1 + CADRE_TABLE_COUNTER_unadmitted], i + 1);
    }
}
