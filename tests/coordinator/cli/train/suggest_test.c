#include "coordinator/cli/train/suggest.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(suggest, .timeout = 240);

static const char *const words[] = {"learning_rate", "momentum", NULL, "type", "ps"};

static const char *
nearest(const char *word)
{
    const char *found = cadre_suggest(word, words, CADRE_COUNT_OF(words));
    return found ? found : "";
}

/* Whether `word` is taken for `meant`, of which it may be a third of the letters away. */
static bool
suggests(const char *meant, const char *word)
{
    return cadre_suggest(word, &meant, 1) != NULL;
}

Test(suggest, counts_insertions_deletions_replacements_and_swaps)
{
    cr_expect(suggests("same", "same") && suggests("", ""));
    cr_expect(suggests("cat", "cart") && suggests("cart", "cat") && suggests("cat", "cut"));
    cr_expect(suggests("type", "tpye"), "a swap is one change");
    cr_expect(suggests("sitting...", "kitten...") && !suggests("sitting", "kitten"));
    cr_expect_not(suggests("abc", ""));
}

Test(suggest, names_the_nearest_word)
{
    cr_assert_str_eq(nearest("learning_rat"), "learning_rate");
    cr_assert_str_eq(nearest("lerning_rte"), "learning_rate");
    cr_assert_str_eq(nearest("tpye"), "type");
    cr_assert_str_eq(nearest("pss"), "ps");
}

Test(suggest, says_nothing_about_a_word_that_is_far_from_all)
{
    cr_assert_str_eq(nearest("banana"), "");
    cr_assert_str_eq(nearest("xx"), "");
}

Test(suggest, does_not_compare_a_word_over_its_limit)
{
    char word[CADRE_SUGGEST_SIZE_MAX + 2];
    memset(word, 'a', sizeof(word));
    word[CADRE_SUGGEST_SIZE_MAX] = '\0';
    cr_assert(suggests(word, word));
    word[CADRE_SUGGEST_SIZE_MAX] = 'a';
    word[CADRE_SUGGEST_SIZE_MAX + 1] = '\0';
    cr_assert_not(suggests(word, word));
}
