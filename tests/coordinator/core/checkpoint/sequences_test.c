#include "coordinator/core/checkpoint/sequences.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"

TestSuite(sequences, .timeout = 240);

Test(sequences, says_which_number_is_the_next_that_is_not_there)
{
    cadre_sequences_t self = {.count = 0};
    cr_expect_eq(cadre_sequences_next(&self, 1), 1);
    cadre_sequences_add(&self, 1, 1);
    cadre_sequences_add(&self, 2, 2);
    cadre_sequences_add(&self, 5, 5);
    cr_expect_eq(self.count, 2);
    cr_expect_eq(cadre_sequences_next(&self, 1), 3);
    cr_expect_eq(cadre_sequences_next(&self, 3), 3);
    cr_expect_eq(cadre_sequences_next(&self, 5), 6);
    cr_expect_eq(cadre_sequences_next(&self, 0), 0);
    cadre_sequences_add(&self, 3, 4);
    cr_expect_eq(self.count, 1);
    cr_expect_eq(cadre_sequences_next(&self, 1), 6);
    cadre_sequences_add(&self, CADRE_SEQUENCE_MAX, CADRE_SEQUENCE_MAX);
    cr_expect_eq(cadre_sequences_next(&self, CADRE_SEQUENCE_MAX), CADRE_SEQUENCE_MAX + 1);
    cadre_sequences_fini(&self);
}

/* In any order, beside a table of what is there. */
Test(sequences, holds_what_was_added_and_nothing_else)
{
    enum { NUMBERS = 300 };
    for (uint64_t seed = 0; seed < 50; seed++) {
        cadre_random_t random;
        bool there[NUMBERS + 2] = {false};
        cadre_sequences_t self = {.count = 0};
        cadre_random_init(&random, seed, 1);
        for (int i = 0; i < 120; i++) {
            uint64_t first = 1 + cadre_random_next_u64(&random) % NUMBERS;
            uint64_t last = first + cadre_random_next_u64(&random) % 4;
            last = last < NUMBERS ? last : NUMBERS;
            for (uint64_t k = first; k <= last; k++) {
                there[k] = true;
            }
            cadre_sequences_add(&self, first, last);
        }
        size_t ranges = 0;
        for (uint64_t k = 1; k <= NUMBERS; k++) {
            cr_assert_eq(cadre_sequences_next(&self, k) == k, !there[k], "number %d", (int)k);
            ranges += there[k] && !there[k - 1];
        }
        cr_assert_eq(self.count, ranges, "as few as can be");
        cadre_sequences_fini(&self);
    }
}

Test(sequences, survives_being_written_and_read)
{
    cadre_sequences_t self = {.count = 0};
    cadre_sequences_t more = {.count = 0};
    cadre_sequences_t read = {.count = 0};
    cadre_sequences_add(&self, 1, 700);
    cadre_sequences_add(&more, 702, 702);
    cadre_sequences_add(&more, 701, 701);
    cadre_sequences_add(&more, 900, CADRE_SEQUENCE_MAX);
    cadre_sequences_merge(&self, &more);
    cr_expect_eq(more.count, 0);
    json_t *list = cadre_sequences_json(&self);
    cr_assert_eq(cadre_sequences_read(&read, list), 0, "%s", cadre_error_text());
    cr_expect_eq(read.count, 2);
    cr_expect_eq(cadre_sequences_next(&read, 1), 703);
    json_decref(list);
    cadre_sequences_fini(&self);
    cadre_sequences_fini(&read);
}

Test(sequences, refuses_a_list_that_nobody_of_us_wrote)
{
    static const char *const bad[] = {"{}",        "[1]",        "[0, 3]",       "[3, 2]",
                                      "[1, 2, 3]", "[1, \"2\"]", "[1, 5, 5, 9]", "[-1, 4]"};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_sequences_t self = {.count = 0};
        json_error_t error;
        json_t *list = json_loads(bad[i], 0, &error);
        cr_assert_not_null(list);
        cr_expect_eq(cadre_sequences_read(&self, list), CADRE_EMALFORMED, "%s", bad[i]);
        json_decref(list);
        cadre_sequences_fini(&self);
    }
}
