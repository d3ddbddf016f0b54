#include "common/wire/shard_set.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(shard_set, .timeout = 240);

Test(shard_set, has_what_was_put_at_both_ends_of_each_word)
{
    const uint64_t shards[] = {0, 63, 64, CADRE_SHARDS_MAX - 1};
    cadre_shard_set_t set = {.words = {0}};
    cr_expect(cadre_shard_set_is_empty(&set));
    for (int i = 0; i < 4; i++) {
        cr_expect_not(cadre_shard_set_has(&set, shards[i]));
        cadre_shard_set_put(&set, shards[i]);
        cr_expect(cadre_shard_set_has(&set, shards[i]));
    }
    cr_expect_not(cadre_shard_set_has(&set, 1));
    cr_expect_not(cadre_shard_set_has(&set, 62));
    cr_expect_not(cadre_shard_set_has(&set, 65));
    cr_expect_not(cadre_shard_set_is_empty(&set));
}

Test(shard_set, what_is_no_shard_is_in_no_set)
{
    cadre_shard_set_t set;
    memset(&set, 0xff, sizeof(set));
    cr_expect_not(cadre_shard_set_has(&set, CADRE_SHARDS_MAX));
    cr_expect_not(cadre_shard_set_has(&set, UINT64_MAX));
}

Test(shard_set, meets_another_where_both_have_a_shard)
{
    cadre_shard_set_t left = {.words = {0}};
    cadre_shard_set_t right = {.words = {0}};
    cadre_shard_set_put(&left, 7);
    cadre_shard_set_put(&right, 7 + 64);
    cr_expect_not(cadre_shard_set_meets(&left, &right));
    cadre_shard_set_put(&right, 7);
    cr_expect(cadre_shard_set_meets(&left, &right));
}

Test(shard_set, is_as_short_a_list_as_can_be_and_comes_back)
{
    cadre_shard_set_t set = {.words = {0}};
    cr_expect_eq(cadre_shard_set_list(&set).count, 0);
    cadre_shard_set_put(&set, 63);
    cr_expect_eq(cadre_shard_set_list(&set).count, 1);
    cadre_shard_set_put(&set, 128);
    cadre_u64s_t list = cadre_shard_set_list(&set);
    cr_expect_eq(list.count, 3);
    cadre_shard_set_t back = cadre_shard_set_of(list);
    cr_expect_arr_eq(back.words, set.words, sizeof(set.words));
}
