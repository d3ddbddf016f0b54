/* Through the core: where shards begin that are restored, and what is lost or made up for then */
#include "coordinator/core/shards/recovery.h"

#include "tests/coordinator/recovery_fixture.h"

TestSuite(recovery_points, .timeout = 240);

static void
commit(fixture_t *self, const char *path, uint64_t cut, uint64_t assigns)
{
    cadre_restore_point_t point = {.path = cadre_strdup(path),
                                   .cut = cut,
                                   .assigns = assigns,
                                   .unsaved = self->core.replay.unsaved,
                                   .assigned = cadre_calloc(2, sizeof(*point.assigned))};
    for (int i = 0; i < 2; i++) {
        point.assigned[i] = self->core.recovery.places[i].assigned;
    }
    cadre_recovery_on_commit(&self->core.recovery, &point);
}

/* Two commits, closures 1 and 2 below the first, 3 between them, 4 since; then ps 1 is lost and
 * another process is there. */
static fixture_t *
job_with_two_commits_of(cadre_recovery_t recovery, cadre_task_t *worker, cadre_task_t *next)
{
    fixture_t *self = job(1);
    *worker = fixture_worker(0);
    self->core.options.recovery = recovery;
    if (recovery == CADRE_RECOVERY_RELAXED) {
        cadre_replay_stop(&self->core.replay);
    }
    run(self, worker, 2, 2);
    commit(self, "/a", 3, 0);
    run(self, worker, 1, 2);
    commit(self, "/b", 4, 0);
    run(self, worker, 1, 2);
    lose(self, 1);
    fixture_clear(self);
    *next = replace(self, 1);
    const cadre_message_t *restore = fixture_sent(self, next, CADRE_MESSAGE_RESTORE, 0);
    cr_assert_str_eq(restore->restore.path, "/b");
    cr_assert_eq(restore->restore.cut, recovery == CADRE_RECOVERY_RELAXED ? 5 : 4);
    return self;
}

static fixture_t *
job_with_two_commits(cadre_task_t *worker, cadre_task_t *next)
{
    return job_with_two_commits_of(CADRE_RECOVERY_REPLAY, worker, next);
}

Test(recovery_points, only_what_the_newest_checkpoint_lacks_runs_again)
{
    cadre_task_t worker, next;
    fixture_t *self = job_with_two_commits(&worker, &next);
    answer_restore(self, &next, 0);
    answer_last(self, &next, CADRE_MESSAGE_CREATE, 0);
    cr_assert_str_eq(sent(self), "4:2");
    cr_assert(says(self, "ps_restored", "closures=1 assignments=0 "), "%s",
              said(self, "ps_restored"));
    done(self, &worker, 4, 2, 1);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery));
    cr_assert(says(self, "replay_done", "closures=1 assignments=0 "), "%s",
              said(self, "replay_done"));
    fixture_destroy(&self);
}

Test(recovery_points, a_checkpoint_that_cannot_be_read_is_passed_over_for_the_one_before)
{
    cadre_task_t worker, next;
    fixture_t *self = job_with_two_commits(&worker, &next);
    answer_restore(self, &next, CADRE_ECORRUPT);
    cr_assert_eq(self->core.fatal, 0);
    cr_assert(fixture_logged(self, "checkpoint_fallback"));
    const cadre_message_t *restore = fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 1);
    cr_assert_str_eq(restore->restore.path, "/a");
    cr_assert_eq(restore->restore.cut, 3);
    cr_assert_eq(restore->restore.generation, 3);
    answer_restore(self, &next, 0);
    answer_last(self, &next, CADRE_MESSAGE_CREATE, 0);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "3:2 4:2");
    done(self, &worker, 3, 2, 1);
    done(self, &worker, 4, 2, 1);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery));
    commit(self, "/c", 5, 0);
    cr_assert_eq(self->core.replay.kept.count, 1, "what came after /b is kept for it");
    fixture_destroy(&self);
}

Test(recovery_points, when_the_one_before_cannot_be_read_either_the_job_ends)
{
    cadre_task_t worker, next;
    fixture_t *self = job_with_two_commits(&worker, &next);
    answer_restore(self, &next, CADRE_ECORRUPT);
    answer_restore(self, &next, CADRE_EIO);
    cr_assert_eq(self->core.fatal, CADRE_EIO);
    cr_assert(strstr(self->core.fatal_text, "a flipped bit"));
    fixture_destroy(&self);
}

Test(recovery_points, an_assignment_that_a_shard_began_with_is_not_made_again)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_task_t other = fixture_ps(0);
    const float value[4] = {1, 2, 3, 4};
    commit(self, "/a", 1, 0);
    assign(self, CADRE_ASSIGN_ADD, value);
    commit(self, "/b", 1, 2);
    run(self, &worker, 1, 2);
    lose(self, 1);
    fixture_clear(self);
    cadre_task_t next = replace(self, 1);
    answer_restore(self, &next, CADRE_ECORRUPT);
    answer_restore(self, &next, 0);
    answer_last(self, &next, CADRE_MESSAGE_CREATE, 0);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &next, CADRE_MESSAGE_ASSIGN), 1, "/a is without it");
    cr_assert_eq(fixture_count(self, &other, CADRE_MESSAGE_ASSIGN), 0, "this one has it");
    cr_assert(says(self, "ps_restored", "closures=1 assignments=2 "), "%s",
              said(self, "ps_restored"));
    fixture_destroy(&self);
}

/* The last part that was assigned before the newest cut is on the shard that stays. */
Test(recovery_points, the_last_assignment_before_a_cut_is_not_made_again_on_who_has_it)
{
    fixture_t *self = job(1);
    cadre_task_t other = fixture_ps(1);
    const float value[4] = {1, 2, 3, 4};
    commit(self, "/a", 1, 0);
    assign(self, CADRE_ASSIGN_ADD, value);
    commit(self, "/b", 1, 2);
    lose(self, 0);
    fixture_clear(self);
    cadre_task_t next = replace(self, 0);
    answer_restore(self, &next, CADRE_ECORRUPT);
    answer_restore(self, &next, 0);
    answer_last(self, &next, CADRE_MESSAGE_CREATE, 0);
    fixture_turn(self);
    answer_last(self, &next, CADRE_MESSAGE_ASSIGN, 0);
    fixture_turn(self);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery));
    cr_assert_eq(fixture_count(self, &other, CADRE_MESSAGE_ASSIGN), 0);
    fixture_destroy(&self);
}

/* The newest checkpoint has the assignment, and could not be read. */
Test(recovery_points,
     a_pass_from_the_checkpoint_before_is_waited_for_though_the_newest_lacks_nothing)
{
    fixture_t *self = job(1);
    const float value[4] = {1, 2, 3, 4};
    commit(self, "/a", 1, 0);
    assign(self, CADRE_ASSIGN_ADD, value);
    commit(self, "/b", 1, 2);
    lose(self, 1);
    fixture_clear(self);
    cadre_task_t next = replace(self, 1);
    answer_restore(self, &next, CADRE_ECORRUPT);
    answer_restore(self, &next, 0);
    answer_last(self, &next, CADRE_MESSAGE_CREATE, 0);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &next, CADRE_MESSAGE_ASSIGN), 1);
    cr_assert_not(cadre_recovery_is_settled(&self->core.recovery));
    answer_last(self, &next, CADRE_MESSAGE_ASSIGN, 0);
    fixture_turn(self);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery));
    fixture_destroy(&self);
}

Test(recovery_points, what_the_shard_began_with_is_not_said_to_run_again)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    const float value[4] = {1, 2, 3, 4};
    run(self, &worker, 2, 2);
    assign(self, CADRE_ASSIGN_ADD, value);
    commit(self, "/a", 3, 2);
    lose(self, 1);
    fixture_clear(self);
    restore(self, 1);
    cr_assert_eq(self->core.replay.kept.count, 2, "for when /a cannot be read");
    cr_assert(says(self, "ps_restored", "closures=0 assignments=0 "), "%s",
              said(self, "ps_restored"));
    fixture_destroy(&self);
}

/* --- between a drop and the checkpoint before it --- */

/* Two commits, "w" dropped between them, and a closure since the second; ps 0 was restored from
 * that one, and does not have "w". */
static fixture_t *
job_with_a_drop_between_commits(void)
{
    fixture_t *self = job(1);
    cadre_core_t *core = &self->core;
    cadre_task_t worker = fixture_worker(0);
    run(self, &worker, 1, 2);
    commit(self, "/a", 2, 0);
    run(self, &worker, 1, 2);
    cadre_core_drop_variable(core, core->catalogue.variables[0]);
    fixture_turn(self);
    cr_assert_eq(core->drops.retired, 1);
    commit(self, "/b", 3, 0);
    core->recovery.points.at[0].variable_count = 1;
    core->recovery.points.at[0].drops = 1;
    run(self, &worker, 1, 2);
    lose(self, 0);
    fixture_clear(self);
    cadre_task_t ps = replace(self, 0);
    cr_assert_str_eq(fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0)->restore.path, "/b");
    cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_CREATE), 0);
    answer_restore(self, &ps, 0);
    cr_assert_eq(core->recovery.places[0].state, CADRE_PLACE_READY);
    done(self, &worker, 3, 2, 1);
    fixture_clear(self);
    return self;
}

/* ps 1 is lost, and its successor cannot read the second. */
static cadre_task_t
go_back(fixture_t *self)
{
    lose(self, 1);
    cadre_task_t next = replace(self, 1);
    answer_restore(self, &next, CADRE_ECORRUPT);
    cr_assert_str_eq(fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 1)->restore.path, "/a");
    return next;
}

/* Closures that run again from the first name "w". */
Test(recovery_points, who_began_without_what_was_dropped_goes_back_with_who_goes_back_behind_it)
{
    fixture_t *self = job_with_a_drop_between_commits();
    cadre_task_t first = next_ps(0);
    go_back(self);
    cr_assert_eq(fixture_count(self, &first, CADRE_MESSAGE_RESTORE), 1);
    cr_assert_str_eq(fixture_sent(self, &first, CADRE_MESSAGE_RESTORE, 0)->restore.path, "/a");
    cr_assert_eq(self->core.recovery.places[0].state, CADRE_PLACE_RESTORING);
    answer_restore(self, &first, 0);
    cr_assert_eq(fixture_sent(self, &first, CADRE_MESSAGE_CREATE, 0)->create.variable, 1);
    fixture_destroy(&self);
}

Test(recovery_points, who_comes_back_without_what_was_dropped_is_restored_behind_it)
{
    fixture_t *self = job_with_a_drop_between_commits();
    cadre_task_t first = next_ps(0);
    uint64_t generation = self->core.recovery.places[0].generation;
    fixture_gone(self, &first);
    fixture_turn(self);
    go_back(self);
    hello_again(self, &first, generation);
    fixture_turn(self);
    cr_assert_str_eq(fixture_sent(self, &first, CADRE_MESSAGE_RESTORE, 0)->restore.path, "/a");
    fixture_destroy(&self);
}

Test(recovery_points, who_is_lost_while_closures_from_before_a_drop_run_again_begins_behind_it)
{
    fixture_t *self = job_with_a_drop_between_commits();
    cadre_task_t first = next_ps(0);
    cadre_task_t next = go_back(self);
    const cadre_task_t both[] = {first, next};
    for (size_t i = 0; i < 2; i++) {
        answer_restore(self, &both[i], 0);
        answer_last(self, &both[i], CADRE_MESSAGE_CREATE, 0);
        answer_last(self, &both[i], CADRE_MESSAGE_RETIRE, 0);
    }
    cr_assert(self->core.replay.active);
    fixture_clear(self);
    fixture_gone(self, &first);
    fixture_turn(self);
    cadre_task_t last = {CADRE_ROLE_PS, 0, 4000};
    fixture_hello(self, &last);
    fixture_turn(self);
    cr_assert_str_eq(fixture_sent(self, &last, CADRE_MESSAGE_RESTORE, 0)->restore.path, "/a");
    fixture_destroy(&self);
}

/* --- the other ways --- */

Test(recovery_points, rolling_back_restores_every_shard)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_task_t other = fixture_ps(0);
    self->core.options.recovery = CADRE_RECOVERY_ROLLBACK;
    run(self, &worker, 2, 2);
    lose(self, 1);
    fixture_clear(self);
    restore(self, 1);
    cr_assert_eq(fixture_sent(self, &other, CADRE_MESSAGE_RESTORE, 0)->restore.generation, 2);
    fixture_reply(self, &other, fixture_sent(self, &other, CADRE_MESSAGE_RESTORE, 0));
    fixture_turn(self);
    fixture_reply(self, &other, fixture_sent(self, &other, CADRE_MESSAGE_CREATE, 0));
    fixture_turn(self);
    const cadre_message_t *away = fixture_sent(self, &worker, CADRE_MESSAGE_SHARD, 0);
    cr_assert_eq(away->shard.index, 0);
    cr_assert_str_eq(away->shard.address, "");
    cr_assert_eq(away->shard.generation, 1, "the new one is announced when it is there");
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_SHARD), 3);
    cr_assert_eq(self->core.totals.ps_restored, 2);
    fixture_destroy(&self);
}

Test(recovery_points, rolling_back_takes_every_shard_to_the_cut_that_all_can_begin_with)
{
    cadre_task_t worker, next;
    fixture_t *self = job_with_two_commits_of(CADRE_RECOVERY_ROLLBACK, &worker, &next);
    cadre_task_t other = fixture_ps(0);
    cr_assert_str_eq(fixture_sent(self, &other, CADRE_MESSAGE_RESTORE, 0)->restore.path, "/b");
    answer_restore(self, &other, 0);
    answer_restore(self, &next, CADRE_ECORRUPT);
    cr_assert_str_eq(fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 1)->restore.path, "/a");
    cr_assert_str_eq(fixture_sent(self, &other, CADRE_MESSAGE_RESTORE, 1)->restore.path, "/a");
    answer_restore(self, &other, 0);
    answer_last(self, &other, CADRE_MESSAGE_CREATE, 0);
    answer_restore(self, &next, 0);
    answer_last(self, &next, CADRE_MESSAGE_CREATE, 0);
    fixture_turn(self);
    cr_assert_str_eq(sent(self), "3:2 4:2");
    cr_assert_eq(self->core.recovery.places[0].state, CADRE_PLACE_READY);
    fixture_clear(self);
    fixture_gone(self, &other);
    fixture_turn(self);
    other = replace(self, 0);
    cr_assert_str_eq(fixture_sent(self, &other, CADRE_MESSAGE_RESTORE, 0)->restore.path, "/a",
                     "not the one that cannot be read by all");
    cr_assert_str_eq(fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 0)->restore.path, "/a");
    fixture_destroy(&self);
}

Test(recovery_points, a_shard_that_was_away_during_a_rollback_goes_back_too)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_task_t other = fixture_ps(0);
    self->core.options.recovery = CADRE_RECOVERY_ROLLBACK;
    run(self, &worker, 2, 2);
    lose(self, 0);
    lose(self, 1);
    restore(self, 1);
    fixture_clear(self);
    hello_again(self, &other, 1);
    fixture_turn(self);
    cr_assert_not(fixture_logged(self, "ps_reconnected"), "it holds what was done since the cut");
    cr_assert_str_eq(fixture_sent(self, &other, CADRE_MESSAGE_RESTORE, 0)->restore.path, "");
    cr_assert_eq(fixture_sent(self, &other, CADRE_MESSAGE_RESTORE, 0)->restore.generation, 2);
    fixture_destroy(&self);
}

Test(recovery_points, rolling_back_leaves_whole_shards_alone_once_nothing_is_kept)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_task_t other = fixture_ps(0);
    self->core.options.recovery = CADRE_RECOVERY_ROLLBACK;
    run(self, &worker, 2, 2);
    cadre_replay_stop(&self->core.replay);
    lose(self, 1);
    fixture_clear(self);
    restore(self, 1);
    cr_assert_eq(fixture_count(self, &other, CADRE_MESSAGE_RESTORE), 0);
    cr_assert_eq(self->core.recovery.places[0].state, CADRE_PLACE_READY);
    cr_assert_eq(self->core.totals.ps_restored, 1);
    fixture_destroy(&self);
}

Test(recovery_points, relaxed_runs_nothing_again_and_counts_what_it_costs)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_replay_stop(&self->core.replay);
    self->core.options.recovery = CADRE_RECOVERY_RELAXED;
    run(self, &worker, 3, 2);
    lose(self, 1);
    cr_assert(cadre_recovery_is_settled(&self->core.recovery));
    fixture_clear(self);
    restore(self, 1);
    cr_assert_str_eq(sent(self), "");
    cr_assert_eq(self->core.totals.closures_at_risk, 3);
    cadre_task_t next = next_ps(1);
    cr_assert_eq(fixture_sent(self, &next, CADRE_MESSAGE_RESTORE, 0)->restore.cut, 4);
    run(self, &worker, 1, 2);
    fixture_gone(self, &next);
    fixture_turn(self);
    restore(self, 1);
    cr_assert_eq(self->core.totals.closures_at_risk, 4, "each closure once");
    fixture_destroy(&self);
}

Test(recovery_points, relaxed_says_what_the_checkpoint_before_costs_and_counts_it_once)
{
    cadre_task_t worker, next;
    fixture_t *self = job_with_two_commits_of(CADRE_RECOVERY_RELAXED, &worker, &next);
    answer_restore(self, &next, CADRE_ECORRUPT);
    cr_assert(says(self, "checkpoint_fallback", "what was done since is lost on it"), "%s",
              said(self, "checkpoint_fallback"));
    answer_restore(self, &next, 0);
    answer_last(self, &next, CADRE_MESSAGE_CREATE, 0);
    cr_assert(
        says(self, "ps_restored", "closures_at_risk=2 assignments_at_risk=0 next=\"what they "),
        "%s", said(self, "ps_restored"));
    cr_assert_eq(self->core.totals.closures_at_risk, 2);
    run(self, &worker, 1, 2);
    fixture_gone(self, &next);
    fixture_turn(self);
    fixture_clear(self);
    restore(self, 1);
    cr_assert(says(self, "ps_restored", "cut=4 "), "that may be read again");
    cr_assert(says(self, "ps_restored", "closures_at_risk=2 "), "%s", said(self, "ps_restored"));
    cr_assert_eq(self->core.totals.closures_at_risk, 3);
    commit(self, "/c", 6, 0);
    run(self, &worker, 1, 2);
    fixture_gone(self, &next);
    fixture_turn(self);
    fixture_clear(self);
    next = replace(self, 1);
    answer_restore(self, &next, CADRE_ECORRUPT);
    answer_restore(self, &next, 0);
    answer_last(self, &next, CADRE_MESSAGE_CREATE, 0);
    cr_assert(says(self, "ps_restored", "closures_at_risk=3 "), "%s", said(self, "ps_restored"));
    cr_assert_eq(self->core.totals.closures_at_risk, 4, "two since /b were counted before");
    fixture_destroy(&self);
}

Test(recovery_points, relaxed_says_which_assignments_it_costs)
{
    fixture_t *self = job(1);
    const float value[4] = {1, 2, 3, 4};
    cadre_replay_stop(&self->core.replay);
    self->core.options.recovery = CADRE_RECOVERY_RELAXED;
    assign(self, CADRE_ASSIGN_SET, value);
    fixture_clear(self);
    commit(self, "/a", 1, 0);
    assign(self, CADRE_ASSIGN_ADD, value);
    lose(self, 1);
    fixture_clear(self);
    restore(self, 1);
    cr_assert(says(self, "ps_restored",
                   "closures_at_risk=0 assignments_at_risk=1 "
                   "next=\"what was assigned to it since the cut is lost\""),
              "%s", said(self, "ps_restored"));
    commit(self, "/b", 1, 0);
    cadre_task_t next = next_ps(1);
    fixture_gone(self, &next);
    fixture_turn(self);
    fixture_clear(self);
    restore(self, 1);
    cr_assert(says(self, "ps_restored", "assignments_at_risk=0 next=\"nothing is lost\""), "%s",
              said(self, "ps_restored"));
    fixture_destroy(&self);
}

Test(recovery_points, assignments_that_are_kept_no_more_are_said_to_be_lost)
{
    fixture_t *self = job(1);
    const float value[4] = {1, 2, 3, 4};
    assign(self, CADRE_ASSIGN_SET, value);
    self->core.replay.size_bytes += CADRE_REPLAY_SIZE_MAX;
    fixture_turn(self);
    cr_assert(says(self, "replay_disabled", "closures=0 assignments=2 "), "%s",
              said(self, "replay_disabled"));
    lose(self, 1);
    fixture_clear(self);
    restore(self, 1);
    cr_assert(says(self, "ps_restored", "assignments_at_risk=1 next=\"what was assigned"), "%s",
              said(self, "ps_restored"));
    fixture_destroy(&self);
}

Test(recovery_points, without_checkpoints_keeping_ends_at_its_bound)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    run(self, &worker, 2, 2);
    self->core.replay.size_bytes += CADRE_REPLAY_SIZE_MAX;
    fixture_turn(self);
    cr_assert(fixture_logged(self, "replay_disabled"));
    cr_assert_eq(self->core.replay.kept.count, 0);
    run(self, &worker, 1, 2);
    lose(self, 1);
    restore(self, 1);
    cr_assert_eq(self->core.totals.closures_at_risk, 3);
    fixture_destroy(&self);
}
