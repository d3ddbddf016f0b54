#include "coordinator/core/closures/barriers.h"

#include <criterion/criterion.h>

TestSuite(barriers, .timeout = 240);

Test(barriers, one_that_nothing_was_put_before_is_passed)
{
    cadre_barriers_t self;
    cadre_barriers_init(&self);
    uint64_t barrier = cadre_barriers_set(&self);
    cr_expect(cadre_barriers_passed(&self, barrier));
    uint64_t interval = cadre_barriers_enter(&self);
    cr_expect(cadre_barriers_passed(&self, barrier), "what comes after it does not matter");
    cadre_barriers_leave(&self, interval);
    cadre_barriers_fini(&self);
}

Test(barriers, is_passed_when_all_before_it_have_ended_in_any_order)
{
    cadre_barriers_t self;
    uint64_t intervals[4];
    cadre_barriers_init(&self);
    intervals[0] = cadre_barriers_enter(&self);
    intervals[1] = cadre_barriers_enter(&self);
    uint64_t first = cadre_barriers_set(&self);
    intervals[2] = cadre_barriers_enter(&self);
    uint64_t second = cadre_barriers_set(&self);
    intervals[3] = cadre_barriers_enter(&self);
    cadre_barriers_leave(&self, intervals[2]);
    cadre_barriers_leave(&self, intervals[0]);
    cr_expect_not(cadre_barriers_passed(&self, first));
    cr_expect_not(cadre_barriers_passed(&self, second), "what comes before the first counts too");
    cadre_barriers_leave(&self, intervals[1]);
    cr_expect(cadre_barriers_passed(&self, first));
    cr_expect(cadre_barriers_passed(&self, second));
    cadre_barriers_leave(&self, intervals[3]);
    cadre_barriers_fini(&self);
}

Test(barriers, that_are_set_without_anything_between_them_take_no_memory)
{
    cadre_barriers_t self;
    cadre_barriers_init(&self);
    uint64_t interval = cadre_barriers_enter(&self);
    uint64_t barrier = cadre_barriers_set(&self);
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(cadre_barriers_set(&self), barrier);
    }
    cr_expect_eq(self.count, 2);
    cadre_barriers_leave(&self, interval);
    cr_expect(cadre_barriers_passed(&self, barrier));
    cadre_barriers_fini(&self);
}

/* The oldest closure lives while others come, are waited for and end. */
Test(barriers, many_intervals_are_kept_in_order_while_an_old_one_is_not_empty)
{
    enum { COUNT = 1000 };
    static uint64_t intervals[COUNT];
    static uint64_t barriers[COUNT];
    cadre_barriers_t self;
    cadre_barriers_init(&self);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            intervals[i] = cadre_barriers_enter(&self);
            barriers[i] = cadre_barriers_set(&self);
        }
        for (int i = COUNT - 1; i > 0; i--) {
            cadre_barriers_leave(&self, intervals[i]);
            cr_assert_not(cadre_barriers_passed(&self, barriers[i]));
        }
        cadre_barriers_leave(&self, intervals[0]);
        cr_assert(cadre_barriers_passed(&self, barriers[COUNT - 1]));
        for (int i = 0; i < 100 * COUNT; i++) {
            uint64_t interval = cadre_barriers_enter(&self);
            uint64_t barrier = cadre_barriers_set(&self);
            cadre_barriers_leave(&self, interval);
            cr_assert(cadre_barriers_passed(&self, barrier));
        }
        cr_assert_leq(self.capacity, 2048, "empty ones are given back");
    }
    cadre_barriers_fini(&self);
}
