#include "common/base/name_map.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(name_map, .timeout = 240);

enum { NAMES = 20000 };

static char names[NAMES][16];

static void
make_names(void)
{
    for (int i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof(names[i]), "v%d", i);
    }
}

Test(name_map, an_empty_one_has_nothing)
{
    cadre_name_map_t map = {0};
    cr_expect_null(cadre_name_map_get(&map, "a"));
    cr_expect_null(cadre_name_map_take(&map, "a"));
    cadre_name_map_fini(&map);
}

Test(name_map, finds_what_was_put_and_nothing_else)
{
    cadre_name_map_t map = {0};
    make_names();
    for (int i = 0; i < NAMES; i += 2) {
        cadre_name_map_put(&map, names[i], names[i]);
    }
    for (int i = 0; i < NAMES; i++) {
        cr_assert_eq(cadre_name_map_get(&map, names[i]), i % 2 == 0 ? names[i] : NULL);
    }
    cr_expect_eq(map.count, NAMES / 2);
    cadre_name_map_fini(&map);
}

Test(name_map, what_is_taken_out_leaves_the_rest_where_it_is_found)
{
    cadre_name_map_t map = {0};
    make_names();
    for (int i = 0; i < NAMES; i++) {
        cadre_name_map_put(&map, names[i], names[i]);
    }
    for (int i = 0; i < NAMES; i += 3) {
        cr_assert_eq(cadre_name_map_take(&map, names[i]), names[i]);
    }
    for (int i = 0; i < NAMES; i++) {
        cr_assert_eq(cadre_name_map_get(&map, names[i]), i % 3 ? names[i] : NULL);
    }
    cadre_name_map_put(&map, names[0], names[1]);
    cr_expect_eq(cadre_name_map_get(&map, names[0]), names[1]);
    cadre_name_map_fini(&map);
}
