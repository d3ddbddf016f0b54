#include "coordinator/core/closures/pace.h"

#include <criterion/criterion.h>

TestSuite(pace, .timeout = 60);

static cadre_pace_t
open_pace(cadre_consistency_t consistency, uint32_t number)
{
    cadre_pace_t self;
    cadre_pace_init(&self, consistency, consistency == CADRE_SYNC ? number : 1,
                    consistency == CADRE_BOUNDED ? number : 0);
    return self;
}

Test(pace, asynchronous_closures_have_no_turn)
{
    cadre_pace_t self = open_pace(CADRE_ASYNC, 0);
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 0);
    cr_assert_eq(cadre_pace_limit(&self), UINT64_MAX);
    cadre_pace_leave(&self, 0);
    cadre_pace_fini(&self);
}

Test(pace, a_bound_lets_so_many_start_beyond_the_oldest)
{
    cadre_pace_t self = open_pace(CADRE_BOUNDED, 2);
    for (uint64_t turn = 1; turn <= 5; turn++) {
        cr_assert_eq(cadre_pace_enter(&self, true, 0), turn);
    }
    cr_expect_eq(cadre_pace_limit(&self), 3);
    cadre_pace_leave(&self, 2);
    cr_expect_eq(cadre_pace_limit(&self), 3, "the oldest is under way");
    cadre_pace_leave(&self, 1);
    cr_expect_eq(cadre_pace_limit(&self), 5);
    for (uint64_t turn = 3; turn <= 5; turn++) {
        cadre_pace_leave(&self, turn);
    }
    cr_expect_eq(cadre_pace_limit(&self), UINT64_MAX);
    cadre_pace_fini(&self);
}

Test(pace, a_step_is_whole_when_all_of_it_are_held)
{
    cadre_pace_t self = open_pace(CADRE_SYNC, 2);
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 1);
    cadre_pace_hold(&self, 1);
    cr_expect_eq(cadre_pace_whole_step(&self), 0, "another belongs to it");
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 1);
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 2);
    cr_expect_eq(cadre_pace_limit(&self), 1);
    cadre_pace_hold(&self, 1);
    cr_expect_eq(cadre_pace_whole_step(&self), 1);
    cr_expect_eq(cadre_pace_limit(&self), 1, "it was not applied");
    cadre_pace_end_step(&self);
    cr_expect_eq(cadre_pace_limit(&self), 2);
    cadre_pace_fini(&self);
}

Test(pace, a_step_that_is_waited_for_ends_with_those_that_it_has)
{
    cadre_pace_t self = open_pace(CADRE_SYNC, 4);
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 1);
    cadre_pace_hold(&self, 1);
    cadre_pace_cut_short(&self);
    cr_expect_eq(cadre_pace_whole_step(&self), 1);
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 2);
    cadre_pace_fini(&self);
}

Test(pace, who_takes_the_result_of_a_step_is_of_the_next)
{
    cadre_pace_t self = open_pace(CADRE_SYNC, 4);
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 1);
    cr_assert_eq(cadre_pace_enter(&self, true, 1), 2);
    cr_assert_eq(cadre_pace_enter(&self, true, 1), 2, "that one is over by then");
    cadre_pace_fini(&self);
}

Test(pace, in_series_steps_of_one_closure_start_behind_each_other)
{
    cadre_pace_t self = open_pace(CADRE_SYNC, 1);
    cadre_pace_set_serial(&self, 2);
    for (uint64_t turn = 1; turn <= 4; turn++) {
        cr_assert_eq(cadre_pace_enter(&self, true, 0), turn);
        cr_expect_not(cadre_pace_is_step(&self, turn), "no shard holds its update");
        cadre_pace_note_begun(&self, turn);
    }
    cr_expect_eq(cadre_pace_limit(&self), 3);
    cr_expect(cadre_pace_is_between_steps(&self));
    cadre_pace_leave(&self, 1);
    cr_expect_eq(cadre_pace_limit(&self), 4);
    cr_expect_eq(cadre_pace_whole_step(&self), 0, "there is no end to tell the shards");
    cadre_pace_fini(&self);
}

Test(pace, in_series_who_is_alone_waits_for_all_before_and_holds_up_all_behind)
{
    cadre_pace_t self = open_pace(CADRE_SYNC, 1);
    cadre_pace_set_serial(&self, 100);
    for (uint64_t turn = 1; turn <= 3; turn++) {
        cr_assert_eq(cadre_pace_enter(&self, true, 0), turn);
    }
    cadre_pace_note_alone(&self, 2);
    cadre_pace_note_alone(&self, 2);
    cr_expect_eq(cadre_pace_limit(&self), 1);
    cadre_pace_leave(&self, 1);
    cr_expect_eq(cadre_pace_limit(&self), 2);
    cadre_pace_leave(&self, 2);
    cr_expect_eq(cadre_pace_limit(&self), 103);
    cadre_pace_leave(&self, 3);
    cadre_pace_fini(&self);
}

Test(pace, those_that_push_nothing_are_between_two_steps)
{
    cadre_pace_t self = open_pace(CADRE_SYNC, 2);
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 1);
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 1);
    cr_assert_eq(cadre_pace_enter(&self, false, 0), 2);
    cr_assert_eq(cadre_pace_enter(&self, false, 2), 2, "it may take the result of its like");
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 3);
    cr_expect(cadre_pace_is_step(&self, 1));
    cr_expect_not(cadre_pace_is_step(&self, 2));
    cadre_pace_leave(&self, 1);
    cadre_pace_leave(&self, 1);
    cr_expect_eq(cadre_pace_limit(&self), 2, "a step whose closures failed has nothing to apply");
    cadre_pace_leave(&self, 2);
    cadre_pace_leave(&self, 2);
    cr_expect_eq(cadre_pace_limit(&self), 3);
    cadre_pace_fini(&self);
}

Test(pace, what_is_held_runs_again_after_a_rollback)
{
    cadre_pace_t self = open_pace(CADRE_SYNC, 1);
    cr_assert_eq(cadre_pace_enter(&self, true, 0), 1);
    cadre_pace_note_begun(&self, 1);
    cr_expect_not(cadre_pace_is_between_steps(&self));
    cadre_pace_hold(&self, 1);
    cadre_pace_unhold(&self, 1);
    cr_expect_eq(cadre_pace_whole_step(&self), 0);
    cadre_pace_hold(&self, 1);
    cadre_pace_end_step(&self);
    cr_expect(cadre_pace_is_between_steps(&self));
    cadre_pace_fini(&self);
}

/* Groups come and go at the front and at the back, many times the room that is kept for them. */
Test(pace, holds_over_many_groups)
{
    cadre_pace_t self = open_pace(CADRE_BOUNDED, 100);
    uint64_t oldest = 1;
    for (uint64_t turn = 1; turn <= 10000; turn++) {
        cr_assert_eq(cadre_pace_enter(&self, true, 0), turn);
        if (turn % 3 != 0) {
            cadre_pace_leave(&self, oldest++);
        }
        cr_assert_eq(cadre_pace_limit(&self), oldest > turn ? UINT64_MAX : oldest + 100);
    }
    cadre_pace_fini(&self);
}
