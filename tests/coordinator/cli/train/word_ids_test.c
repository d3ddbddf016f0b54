#include "coordinator/cli/train/word_ids.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/training_plan.h"

TestSuite(word_ids, .timeout = 240);

/* What the ids of a dataset description mean. */
static char *
words_of(const char *train)
{
    json_t *value = json_loads(train, 0, NULL);
    cr_assert(value, "%s", train);
    char *text = cadre_word_ids_text(value);
    json_decref(value);
    return text;
}

/* Resumes with one dataset description what was trained with another. */
static int
resume(const char *before, const char *now)
{
    cadre_auto(cadre_free) char *was = words_of(before);
    cadre_auto(cadre_free) char *is = words_of(now);
    const cadre_training_place_t place = {.epoch = 2, .pass = 2, .words = was};
    cadre_auto(cadre_free) char *progress = cadre_training_place_encode(&place);
    cadre_training_place_t found;
    cr_assert_eq(cadre_training_place_decode(progress, &found), 0, "%s", cadre_error_text());
    cr_assert_null(found.words);
    return cadre_word_ids_check("c/ckpt-3", progress, is);
}

#define COLUMNS(hash, seed)                                                                        \
    "{\"columns\": [\"n\", {\"column\": \"genres\", \"items\": 2, \"hash\": " hash                 \
    ", \"hash_seed\": " seed "}, {\"column\": 4, \"hash\": 9}]}"

Test(word_ids, are_the_same_or_a_job_is_not_resumed)
{
    static const struct {
        const char *before;
        const char *now;
        const char *error; /* NULL: it goes on */
    } cases[] = {
        {"{}", "{}", NULL},
        {"{}", COLUMNS("9", "0"), NULL},
        {COLUMNS("9", "0"), "{}", NULL},
        {COLUMNS("9", "0"), COLUMNS("9", "0"), NULL},
        {COLUMNS("9", "0"), COLUMNS("10", "0"),
         "c/ckpt-3 was trained with \"hash\" 9 of column \"genres\", and data.train has 10: its "
         "rows would be those of other words. Set it back, or begin anew with --resume never"},
        {COLUMNS("9", "0"), COLUMNS("9", "1"), "\"hash_seed\" 0 of column \"genres\""},
        {COLUMNS("9", "0"), "{\"columns\": [{\"column\": 4, \"hash\": 8}]}",
         "\"hash\" 9 of column \"4\", and data.train has 8"},
        {"{\"buckets\": 100}", "{\"buckets\": 100, \"first_row\": 7}", NULL},
        {"{\"buckets\": 100}", "{\"buckets\": 101}",
         "trained with \"buckets\" 100, and data.train has 101"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        const int status = resume(cases[i].before, cases[i].now);
        cr_expect_eq(status, cases[i].error ? CADRE_ECONFIG : 0, "%zu: %s", i, cadre_error_text());
        cr_expect(!cases[i].error || strstr(cadre_error_text(), cases[i].error), "%zu: %s", i,
                  cadre_error_text());
    }
}

Test(word_ids, of_records_that_say_nothing_are_not_compared)
{
    static const char *const records[] = {NULL, "{}", "no JSON", "{\"words\": 3}",
                                          "{\"words\": {\"columns\": {\"genres\": 4}}}"};
    cadre_auto(cadre_free) char *words = words_of(COLUMNS("9", "0"));
    for (size_t i = 0; i < CADRE_COUNT_OF(records); i++) {
        cr_expect_eq(cadre_word_ids_check("c", records[i], words), 0, "%zu", i);
    }
}
