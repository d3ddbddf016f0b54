#include "coordinator/core/shards/replay.h"

#include <criterion/criterion.h>

TestSuite(replay, .timeout = 240);

static void
note(cadre_replay_t *self, uint32_t shard, uint64_t position)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_ASSIGN};
    cadre_replay_note_assign(self, shard, position, &message);
}

static void
keep_as(cadre_replay_t *self, uint64_t id, uint64_t number)
{
    cadre_closure_t *closure = cadre_closure_new(1);
    closure->id = id;
    closure->number = number;
    closure->attempt = 1;
    closure->state = CADRE_CLOSURE_ENDED;
    cadre_replay_keep(self, closure);
}

static void
keep(cadre_replay_t *self, uint64_t id)
{
    keep_as(self, id, id);
}

/* Puts the next closure in flight for a worker that has nothing; NULL: none. */
static cadre_closure_t *
take_out(cadre_replay_t *self)
{
    const cadre_abilities_t abilities = {.built = {.words = {0}}};
    const cadre_membership_t nobody = {.worker_count = 0};
    cadre_closure_t *closure = cadre_replay_next(self, 0, &abilities, NULL, &nobody);
    if (closure) {
        cadre_replay_take_out(self, closure);
    }
    return closure;
}

static uint64_t
take(cadre_replay_t *self)
{
    cadre_closure_t *closure = take_out(self);
    uint64_t id = closure ? closure->id : 0;
    if (closure) {
        cadre_replay_done(self, closure);
    }
    return id;
}

Test(replay, a_pass_that_begins_anew_waits_for_its_first_assignment_again)
{
    cadre_replay_t self;
    cadre_replay_init(&self, true, false);
    for (uint64_t id = 1; id <= 3; id++) {
        keep(&self, id);
    }
    note(&self, 0, 2);
    note(&self, 1, 3);
    cadre_replay_begin(&self, 1, 0);
    cr_assert_eq(take(&self), 1);
    cr_assert_eq(cadre_replay_next_assign(&self)->position, 2);
    cadre_replay_assigned(&self);
    cr_assert_eq(take(&self), 2);
    cr_assert_eq(cadre_replay_next_assign(&self)->position, 3);
    cadre_replay_begin(&self, 1, 0); /* and the later one has not been answered */
    cr_assert_eq(cadre_replay_limit(&self), 2);
    cr_assert_eq(take(&self), 1);
    cr_assert_eq(take(&self), 0, "2 comes after the first assignment");
    cr_assert_null(cadre_replay_next_assign(&self), "one place at a time");
    cadre_replay_assigned(&self);
    cr_assert_eq(cadre_replay_next_assign(&self)->position, 2);
    cadre_replay_assigned(&self);
    cr_assert_eq(take(&self), 2);
    cr_assert_eq(cadre_replay_next_assign(&self)->position, 3);
    cadre_replay_assigned(&self);
    cr_assert_not(cadre_replay_ends(&self));
    cr_assert_eq(take(&self), 3);
    cr_assert(cadre_replay_ends(&self));
    cadre_replay_fini(&self);
}

/* 1 and 4 had their ids before the others were handed out, and were handed out after the
 * assignment. */
Test(replay, an_assignment_comes_before_what_was_handed_out_after_it_whatever_its_id)
{
    cadre_replay_t self;
    cadre_replay_init(&self, true, false);
    keep_as(&self, 1, 3);
    keep_as(&self, 2, 1);
    keep_as(&self, 3, 2);
    keep_as(&self, 4, 4);
    note(&self, 0, 3);
    cadre_replay_begin(&self, 1, 0);
    cr_assert_eq(take(&self), 2);
    cr_assert_null(cadre_replay_next_assign(&self));
    cr_assert_eq(take(&self), 3);
    cr_assert_eq(take(&self), 0);
    cr_assert_not_null(cadre_replay_next_assign(&self));
    cadre_replay_assigned(&self);
    cr_assert_eq(take(&self), 1);
    cr_assert_eq(take(&self), 4);
    cr_assert(cadre_replay_ends(&self));
    cadre_replay_fini(&self);
}

Test(replay, a_cut_divides_what_is_kept_by_ids_whatever_was_handed_out_first)
{
    cadre_replay_t self;
    cadre_replay_init(&self, true, false);
    keep_as(&self, 2, 3); /* below the cut, and handed out last */
    keep_as(&self, 1, 1);
    keep_as(&self, 3, 2);
    cadre_replay_commit(&self, 3, 1, 0);
    cr_assert_eq(self.old_count, 2);
    cr_assert(cadre_replay_has_work(&self, 3, 0));
    cr_assert_not(cadre_replay_has_work(&self, 4, 0));
    cadre_replay_commit(&self, 4, 3, 0);
    cr_assert_eq(self.kept.count, 1);
    cadre_replay_begin(&self, 3, 0);
    cr_assert_eq(take(&self), 3);
    cr_assert(cadre_replay_ends(&self));
    cadre_replay_fini(&self);
}

Test(replay, what_the_commit_before_covers_goes_and_the_rest_is_in_order)
{
    cadre_replay_t self;
    cadre_replay_init(&self, true, false);
    const uint64_t ids[] = {5, 1, 4, 2, 3}; /* as they end */
    for (size_t i = 0; i < 5; i++) {
        keep(&self, ids[i]);
    }
    cadre_replay_commit(&self, 4, 1, 0);
    cr_assert_eq(self.kept.count, 5);
    cr_assert_eq(self.old_count, 3);
    cadre_replay_commit(&self, 6, 4, 0);
    cr_assert_eq(self.kept.count, 2);
    cr_assert_eq(cadre_replay_lowest(&self, 1), 4);
    cr_assert_eq(cadre_replay_lowest(&self, 5), 5);
    cr_assert_eq(cadre_replay_lowest(&self, 6), UINT64_MAX);
    cr_assert(cadre_replay_has_work(&self, 5, 0));
    cr_assert_not(cadre_replay_has_work(&self, 6, 0));
    cadre_replay_begin(&self, 4, 0);
    cr_assert_eq(take(&self), 4);
    cr_assert_eq(take(&self), 5);
    cr_assert(cadre_replay_ends(&self));
    cadre_replay_fini(&self);
}

Test(replay, a_pass_counts_what_it_runs_again_and_not_what_is_kept_for_an_older_cut)
{
    cadre_replay_t self;
    cadre_replay_init(&self, true, false);
    for (uint64_t id = 1; id <= 5; id++) {
        keep(&self, id);
    }
    note(&self, 0, 2);
    note(&self, 0, 6);
    cadre_replay_begin(&self, 4, 1);
    cr_assert_eq(self.pass_count, 2);
    cr_assert_eq(cadre_replay_pass_assigns(&self), 1);
    cr_assert_eq(take(&self), 4);
    cadre_closure_t *held = take_out(&self);
    cadre_replay_begin(&self, 3, 0); /* another shard begins further back */
    cr_assert_eq(self.pass_count, 3, "the one in flight runs again too");
    cr_assert_eq(cadre_replay_pass_assigns(&self), 2);
    cadre_replay_done(&self, held);
    cadre_replay_fini(&self);
}
