#include "coordinator/core/effects/log_budget.h"

#include <criterion/criterion.h>

#include "common/base/limits.h"

static size_t
take_many(cadre_log_budget_t *self, const char *event, size_t count, uint64_t now_ms)
{
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        taken += cadre_log_budget_take(self, event, now_ms);
    }
    return taken;
}

Test(log_budget, has_a_burst_and_then_a_line_per_interval_of_each_event)
{
    cadre_log_budget_t budget = {.count = 0};
    const uint64_t begin_ms = 1000000;
    cr_expect_eq(take_many(&budget, "one", 2 * CADRE_LOG_BURST, begin_ms), CADRE_LOG_BURST);
    cr_expect_eq(take_many(&budget, "other", CADRE_LOG_BURST, begin_ms), CADRE_LOG_BURST);
    cr_expect_eq(take_many(&budget, "one", 10, begin_ms + 3 * CADRE_LOG_INTERVAL_MS), 3);
    cr_expect_eq(take_many(&budget, "one", 2 * CADRE_LOG_BURST,
                           begin_ms + 2 * (uint64_t)CADRE_LOG_BURST * CADRE_LOG_INTERVAL_MS),
                 CADRE_LOG_BURST);
}

Test(log_budget, tells_how_many_were_left_out)
{
    cadre_log_budget_t budget = {.count = 0};
    uint64_t held = 0;
    take_many(&budget, "one", CADRE_LOG_BURST, 0);
    cr_expect_null(cadre_log_budget_tell(&budget, 0, &held));
    take_many(&budget, "one", 5, 0);
    cr_expect_str_eq(cadre_log_budget_tell(&budget, 0, &held), "one");
    cr_expect_eq(held, 5);
    take_many(&budget, "one", 7, 0);
    cr_expect_null(cadre_log_budget_tell(&budget, CADRE_DROPPED_LOG_MS - 1, &held));
    cr_expect_str_eq(cadre_log_budget_tell(&budget, CADRE_DROPPED_LOG_MS, &held), "one");
    cr_expect_eq(held, 7);
    cr_expect_null(cadre_log_budget_tell(&budget, CADRE_DROPPED_LOG_MS, &held));
}
