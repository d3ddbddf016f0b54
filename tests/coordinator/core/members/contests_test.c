#include "coordinator/core/members/contests.h"

#include <criterion/criterion.h>

TestSuite(contests, .timeout = 240);

static cadre_task_t
task(uint64_t incarnation)
{
    return (cadre_task_t){CADRE_ROLE_PS, 0, incarnation};
}

Test(contests, know_since_when_each_asks_until_it_is_answered)
{
    cadre_contests_t self = {.count = 0};
    cadre_task_t first = task(1);
    cadre_task_t second = task(2);
    cr_assert_eq(cadre_contests_since(&self, &first, 100), 100);
    cr_assert_eq(cadre_contests_since(&self, &second, 200), 200);
    cr_assert_eq(cadre_contests_since(&self, &first, 300), 100);
    cadre_contests_forget(&self, 1);
    cadre_contests_forget(&self, 7);
    cr_assert_eq(cadre_contests_since(&self, &first, 400), 400);
    cadre_task_t out;
    cr_assert(cadre_contests_pop(&self, &out));
    cr_assert_eq(out.incarnation, 2);
    cr_assert(cadre_contests_pop(&self, &out));
    cr_assert_not(cadre_contests_pop(&self, &out));
}

Test(contests, beyond_their_number_the_oldest_begins_anew)
{
    cadre_contests_t self = {.count = 0};
    for (uint64_t i = 0; i <= CADRE_CONTESTS_MAX; i++) {
        cadre_task_t asking = task(i + 1);
        cadre_contests_since(&self, &asking, 100 + i);
    }
    cr_assert_eq(self.count, CADRE_CONTESTS_MAX);
    cadre_task_t last = task(CADRE_CONTESTS_MAX + 1);
    cr_assert_eq(cadre_contests_since(&self, &last, 900), 100 + CADRE_CONTESTS_MAX);
    cadre_task_t first = task(1);
    cr_assert_eq(cadre_contests_since(&self, &first, 900), 900);
}
