#include "coordinator/core/checkpoint/restoration.h"

#include "common/base/status.h"
#include "tests/coordinator/checkpoint_fixture.h"

TestSuite(restoration, .timeout = 60);

static const cadre_sequences_t NONE = {.count = 0};

static int
check(fixture_t *self, const char **what)
{
    return cadre_restoration_check(&self->core.restoration, what);
}

static void
expect_wait(fixture_t *self, const char *expected)
{
    const char *what = NULL;
    cr_assert_eq(check(self, &what), CADRE_EAGAIN);
    cr_assert_str_eq(what, expected);
}

static void
expect_refusal(fixture_t *self, const char *expected)
{
    const char *what = NULL;
    cr_assert_eq(check(self, &what), CADRE_ESTATE);
    cr_assert(strstr(cadre_error_text(), expected), "%s", cadre_error_text());
}

static void
begin(fixture_t *self, uint64_t id, const char *path)
{
    const char *what = NULL;
    cr_assert_eq(check(self, &what), 0);
    cadre_restoration_begin(&self->core.restoration,
                            &(cadre_restoration_target_t){path, id, &NONE});
    fixture_turn(self);
}

/* Runs the first closure, which pushes an update, to its end. */
static void
run_first(fixture_t *self)
{
    cadre_task_t worker = fixture_worker(0);
    fixture_schedule(self, 1);
    fixture_turn(self);
    if (!fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 0)) {
        worker = fixture_worker(1);
    }
    cadre_message_t done = fixture_message(&worker, CADRE_MESSAGE_CLOSURE_DONE);
    done.closure_done = (cadre_closure_done_message_t){.id = 1, .attempt = 1, .updates = 1};
    fixture_say(self, &worker, &done);
    fixture_turn(self);
    fixture_clear(self);
}

Test(restoration, sends_every_shard_to_the_checkpoint_past_all_ids_so_far)
{
    fixture_t *self = job();
    run_first(self);
    cr_assert_eq(self->core.replay.kept.count, 1);
    begin(self, 4, "/ckpt/ckpt-4");
    for (uint32_t shard = 0; shard < PS; shard++) {
        cadre_task_t ps = fixture_ps(shard);
        const cadre_message_t *sent = fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0);
        cr_assert_str_eq(sent->restore.path, "/ckpt/ckpt-4");
        cr_assert_eq(sent->restore.cut, 2);
        cr_assert_eq(sent->restore.generation, 2);
    }
    cr_assert_eq(self->core.replay.kept.count, 0, "nothing runs again");
    cr_assert_eq(self->core.recovery.points.at[0].id, 4);
    cr_assert_null(self->core.recovery.points.at[1].path, "what was before is no way back");
    cr_assert(fixture_logged(self, "going_back"));
    expect_wait(self, "shards to be restored");
    fixture_destroy(&self);
}

Test(restoration, is_refused_while_the_program_has_closures)
{
    fixture_t *self = job();
    fixture_schedule(self, 1);
    expect_refusal(self, "queued or in flight");
    fixture_turn(self);
    expect_refusal(self, "queued or in flight");
    fixture_destroy(&self);
}

Test(restoration, is_refused_before_what_was_resumed_is_there)
{
    fixture_t *self = job();
    cadre_checkpoint_await(&self->core.checkpoint, "later");
    cadre_checkpoint_await(&self->core.checkpoint, "w");
    expect_refusal(self, "variable later was resumed");
    fixture_destroy(&self);
}

Test(restoration, is_refused_without_variables)
{
    fixture_t *self = fixture_new_cluster(1, 1);
    expect_refusal(self, "no variables");
    fixture_destroy(&self);
}

Test(restoration, waits_for_an_assignment_that_may_come_before_or_after)
{
    fixture_t *self = job();
    float value = 3;
    cadre_operation_t operation = {.pending = 0};
    cadre_operations_assign(&self->core.operations, self->core.catalogue.variables[1],
                            CADRE_ASSIGN_SET, &value, &operation);
    fixture_turn(self);
    expect_wait(self, "an assignment to be answered");
    cadre_operations_give_up(&self->core.operations, &operation);
    expect_wait(self, "an assignment to be answered");
    fixture_destroy(&self);
}

Test(restoration, does_not_wait_for_a_read)
{
    fixture_t *self = job();
    float value = 0;
    cadre_operation_t operation = {.target = &value};
    cadre_operations_read(&self->core.operations, self->core.catalogue.variables[1], &operation);
    fixture_turn(self);
    begin(self, 4, "/ckpt/ckpt-4");
    cadre_operations_give_up(&self->core.operations, &operation);
    fixture_destroy(&self);
}

Test(restoration, waits_for_a_variable_that_comes_or_goes)
{
    fixture_t *self = job();
    self->core.catalogue.creating = 1;
    expect_wait(self, "a variable to be created");
    self->core.catalogue.creating = 0;
    cadre_core_drop_variable(&self->core, self->core.catalogue.variables[1]);
    expect_wait(self, "a variable to be dropped");
    fixture_turn(self);
    begin(self, 4, "/ckpt/ckpt-4");
    fixture_destroy(&self);
}

Test(restoration, waits_for_a_shard_that_is_away)
{
    fixture_t *self = job();
    cadre_task_t ps = fixture_ps(1);
    fixture_gone(self, &ps);
    fixture_turn(self);
    expect_wait(self, "shards to be restored");
    fixture_destroy(&self);
}

/* What the store was told to delete before it learns that the checkpoint is spared may be that
 * one. */
Test(restoration, waits_for_a_checkpoint_and_for_what_the_store_deletes_then)
{
    fixture_t *self = job();
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    expect_wait(self, "a checkpoint to end");
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    cr_assert_eq(last_order(self)->kind, CADRE_STORE_RETAIN);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_IDLE);
    expect_wait(self, "a checkpoint to end");
    stored(self, CADRE_STORE_RETAIN, 9, CADRE_EIO, "bad");
    begin(self, 4, "/ckpt/ckpt-4");
    fixture_destroy(&self);
}

Test(restoration, finds_what_is_spared_and_what_it_began_with_kept)
{
    fixture_t *self = job();
    cadre_checkpoint_spare(&self->core.checkpoint, 4);
    bring_to(self, CADRE_CHECKPOINT_COMMITTING);
    stored(self, CADRE_STORE_COMMIT, 9, 0, "/ckpt/ckpt-9");
    cr_assert_eq(last_order(self)->checkpoint, 4, "it is about to be read");
    stored(self, CADRE_STORE_RETAIN, 9, 0, "");
    begin(self, 4, "/ckpt/ckpt-4");
    cadre_checkpoint_spare(&self->core.checkpoint, 0);
    cr_assert_eq(self->core.recovery.points.at[0].id, 4);
    fixture_destroy(&self);
}

/* The sequence numbers of the checkpoint are those of the next one. */
Test(restoration, takes_the_numbers_of_closures_of_the_checkpoint)
{
    fixture_t *self = job();
    cadre_sequences_t held = {.count = 0};
    cadre_sequences_add(&self->core.checkpoint.held, 1, 9);
    cadre_sequences_add(&held, 2, 3);
    cadre_restoration_begin(&self->core.restoration,
                            &(cadre_restoration_target_t){"/ckpt/ckpt-4", 4, &held});
    cr_assert_eq(cadre_sequences_next(&self->core.checkpoint.held, 1), 1);
    cr_assert_eq(cadre_sequences_next(&self->core.checkpoint.held, 2), 4);
    cr_assert_eq(self->core.checkpoint.saved, 0, "another checkpoint is due");
    cadre_sequences_fini(&held);
    fixture_destroy(&self);
}
