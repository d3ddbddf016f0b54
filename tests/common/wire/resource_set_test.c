#include "common/wire/resource_set.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(resource_set, .timeout = 240);

Test(resource_set, has_what_was_put_at_both_ends_of_each_word)
{
    const uint64_t ids[] = {1, 64, 65, CADRE_RESOURCES_MAX};
    cadre_resource_set_t set = {.words = {0}};
    cr_expect(cadre_resource_set_has_all(&set, ids, 0), "of none it has all");
    for (int i = 0; i < 4; i++) {
        cr_expect_not(cadre_resource_set_has_all(&set, ids, (size_t)i + 1));
        cadre_resource_set_put(&set, ids[i]);
        cr_expect(cadre_resource_set_has_all(&set, ids, (size_t)i + 1));
    }
    cr_expect_not(cadre_resource_set_has(&set, 2));
    cr_expect_not(cadre_resource_set_has(&set, 63));
    cr_expect_not(cadre_resource_set_has(&set, 66));
}

Test(resource_set, what_is_no_id_is_in_no_set)
{
    cadre_resource_set_t set;
    memset(&set, 0xff, sizeof(set));
    cr_expect(cadre_resource_set_has(&set, 1));
    cr_expect_not(cadre_resource_set_has(&set, 0));
    cr_expect_not(cadre_resource_set_has(&set, CADRE_RESOURCES_MAX + 1));
    cr_expect_not(cadre_resource_set_has(&set, UINT64_MAX));
}

Test(resource_set, is_as_short_a_list_as_can_be_and_comes_back)
{
    cadre_resource_set_t set = {.words = {0}};
    cr_expect_eq(cadre_resource_set_list(&set).count, 0);
    cadre_resource_set_put(&set, 64);
    cr_expect_eq(cadre_resource_set_list(&set).count, 1);
    cadre_resource_set_put(&set, 129);
    cadre_u64s_t list = cadre_resource_set_list(&set);
    cr_expect_eq(list.count, 3);
    cadre_resource_set_t back = cadre_resource_set_of(list);
    cr_expect_arr_eq(back.words, set.words, sizeof(set.words));
    cadre_resource_set_put(&set, CADRE_RESOURCES_MAX);
    cr_expect_eq(cadre_resource_set_list(&set).count, CADRE_RESOURCE_WORDS);
}
