#include "common/spec/strategy_spec.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(strategy_spec, .timeout = 240);

Test(strategy_spec, has_a_row_for_each_word_of_the_list)
{
    static const char *const words[] = {
#define X(name, number, word) word,
        CADRE_STRATEGY_LIST(X)
#undef X
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(words); i++) {
        cadre_strategy_t strategy = 0;
        cr_expect_eq(cadre_strategy_parse(words[i], &strategy), 0, "%s", cadre_error_text());
        cr_expect_eq((size_t)strategy, i + 1);
        cr_expect_str_eq(cadre_strategy_spec((int64_t)strategy)->word, words[i]);
    }
    cr_expect_null(cadre_strategy_spec((int64_t)CADRE_COUNT_OF(words) + 1));
    cr_expect_null(cadre_strategy_spec(-1));
    cr_expect_str_eq(cadre_strategy_spec(0)->word, "parameter_server");
}

Test(strategy_spec, of_another_word_is_refused_with_the_choices)
{
    static const char *const bad[] = {"", "Mirrored", "mirror", "local|central"};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_strategy_t strategy = CADRE_STRATEGY_LOCAL;
        cr_expect_eq(cadre_strategy_parse(bad[i], &strategy), CADRE_EINVALID, "%s", bad[i]);
        cr_expect_not_null(strstr(cadre_error_text(), "parameter_server|multi_worker|mirrored|"));
        cr_expect_eq(strategy, CADRE_STRATEGY_LOCAL);
    }
}
