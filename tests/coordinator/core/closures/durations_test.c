/* What is usual, from durations that ended lately. */
#include "coordinator/core/closures/durations.h"

#include <criterion/criterion.h>

TestSuite(durations, .timeout = 60);

Test(durations, none_have_no_quantile)
{
    cadre_durations_t self = {.total = 0};
    cr_assert_eq(cadre_durations_quantile(&self, 50), 0);
}

Test(durations, short_ones_are_exact)
{
    cadre_durations_t self = {.total = 0};
    for (uint64_t i = 1; i <= 10; i++) {
        cadre_durations_add(&self, i);
    }
    cr_assert_eq(cadre_durations_quantile(&self, 50), 5);
    cr_assert_eq(cadre_durations_quantile(&self, 91), 10);
    cr_assert_eq(cadre_durations_quantile(&self, 100), 10);
}

/* Of each duration alone the quantile is not below it, and not more than a sixteenth above it. */
Test(durations, a_quantile_is_right_to_a_sixteenth)
{
    for (uint64_t duration = 1; duration < 14000000; duration += 1 + duration / 7) {
        cadre_durations_t self = {.total = 0};
        cadre_durations_add(&self, duration);
        uint64_t quantile = cadre_durations_quantile(&self, 95);
        cr_assert(quantile >= duration && quantile <= duration + duration / 16, "%llu: %llu",
                  (unsigned long long)duration, (unsigned long long)quantile);
    }
}

Test(durations, what_is_too_long_for_a_bucket_is_in_the_last_one)
{
    cadre_durations_t self = {.total = 0};
    cadre_durations_add(&self, UINT64_MAX);
    cadre_durations_add(&self, 1ULL << 40);
    cr_assert_eq(self.counts[CADRE_DURATIONS_BUCKETS - 1], 2);
    cr_assert_gt(cadre_durations_quantile(&self, 50), 4ULL * 3600 * 1000);
}

Test(durations, what_was_usual_long_ago_fades)
{
    cadre_durations_t self = {.total = 0};
    for (int i = 0; i < CADRE_DURATIONS_WINDOW; i++) {
        cadre_durations_add(&self, 1000);
    }
    for (int i = 0; i < 3 * CADRE_DURATIONS_WINDOW; i++) {
        cadre_durations_add(&self, 10);
    }
    cr_assert_eq(cadre_durations_quantile(&self, 50), 10);
    cr_assert_leq(self.total, CADRE_DURATIONS_WINDOW);
}
