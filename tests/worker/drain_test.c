#include "worker/drain.h"

#include <criterion/criterion.h>

TestSuite(drain, .timeout = 240);

Test(drain, has_the_first_reason_and_its_deadline)
{
    cadre_drain_t drain = {.reason = NULL};
    cr_expect(cadre_drain_begin(&drain, "its device is lost", 100));
    cr_expect_not(cadre_drain_begin(&drain, "it was told to", 50));
    cr_expect_str_eq(drain.reason, "its device is lost");
    cr_expect_eq(drain.due_ms, 100);
}

Test(drain, hands_back_once_what_has_not_begun)
{
    cadre_drain_t drain = {.reason = NULL};
    cr_expect_not(cadre_drain_clears(&drain, false), "it does not drain");
    cr_expect(cadre_drain_clears(&drain, true), "the coordinator has asked for it");
    cr_expect_not(cadre_drain_clears(&drain, true));

    cadre_drain_t own = {.reason = NULL};
    (void)cadre_drain_begin(&own, "it was told to", 100);
    cr_expect(cadre_drain_clears(&own, false));
    cr_expect_not(cadre_drain_clears(&own, true));
}

Test(drain, ends_when_nobody_listens_or_its_time_is_over)
{
    static const struct {
        bool heard;
        size_t works;
        uint64_t now_ms;
        cadre_drain_state_t state;
    } cases[] = {
        {true, 0, 99, CADRE_DRAIN_GOES_ON},     {true, 2, 99, CADRE_DRAIN_GOES_ON},
        {false, 2, 99, CADRE_DRAIN_GOES_ON},    {false, 0, 99, CADRE_DRAIN_ALONE},
        {false, 0, 100, CADRE_DRAIN_ALONE},     {true, 2, 100, CADRE_DRAIN_TIMED_OUT},
        {false, 2, 100, CADRE_DRAIN_TIMED_OUT}, {true, 0, 100, CADRE_DRAIN_TIMED_OUT},
    };
    cadre_drain_t drain = {.reason = NULL};
    cr_expect_eq(cadre_drain_state(&drain, false, 0, 100), CADRE_DRAIN_GOES_ON);
    (void)cadre_drain_begin(&drain, "it was told to", 100);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_expect_eq(cadre_drain_state(&drain, cases[i].heard, cases[i].works, cases[i].now_ms),
                     cases[i].state, "%zu", i);
    }
}
