/* Through the core: when a checkpoint begins and cuts, and when it is left out. */
#include "coordinator/checkpoint.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(checkpoint_when, .timeout = 20);

/* A job with checkpoints on, two variables on one ps, and a worker. */
static fixture_t *
job(void)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_join_ps(self);
    fixture_hello(self, &worker);
    fixture_add_variable(self, "w", 5, 1);
    fixture_add_variable(self, "b", 1, 1);
    self->core.checkpoint.enabled = true;
    fixture_turn(self);
    fixture_clear(self);
    return self;
}

static cadre_checkpoint_state_t
state_of(const fixture_t *self)
{
    return self->core.checkpoint.state;
}

static void
stored(fixture_t *self, cadre_store_order_kind_t kind, int status, const char *text)
{
    cadre_store_answer_t answer = {.kind = kind, .checkpoint = 9, .status = status, .text = text};
    cadre_core_stored(&self->core, &answer, self->now_ms);
    fixture_turn(self);
}

/* --- variables of the checkpoint that was resumed --- */

Test(checkpoint_when, a_resumed_variable_is_whole_before_the_cut)
{
    fixture_t *self = job();
    cadre_checkpoint_await(&self->core.checkpoint, "later");
    cadre_checkpoint_await(&self->core.checkpoint, "w");
    cadre_variable_t *later = fixture_add_variable(self, "later", 3, 1);
    later->created = false;
    self->core.creating = true;
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), 0);
    fixture_turn(self);
    stored(self, CADRE_STORE_OPEN, 0, "/ckpt/.tmp-9");
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_OPENING, "it may be on some shards only");
    cr_assert_eq(fixture_count(self, NULL, CADRE_MESSAGE_SNAPSHOT), 0);
    later->created = true;
    self->core.creating = false;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_SNAPSHOT);
    cr_assert_eq(self->core.checkpoint.variable_count, 3);
    cr_assert_not(fixture_logged(self, "variables_left_out"));
    fixture_destroy(&self);
}

Test(checkpoint_when, a_resumed_variable_that_cannot_be_created_holds_up_no_cut)
{
    fixture_t *self = job();
    cadre_checkpoint_await(&self->core.checkpoint, "later");
    cadre_variable_t *later = fixture_add_variable(self, "later", 3, 1);
    later->created = false;
    self->core.creating = true;
    cr_assert_eq(cadre_checkpoint_begin(&self->core, NULL), 0);
    fixture_turn(self);
    stored(self, CADRE_STORE_OPEN, 0, "/ckpt/.tmp-9");
    cadre_catalogue_drop_variable(&self->core.catalogue, later);
    self->core.creating = false;
    fixture_turn(self);
    cr_assert_eq(state_of(self), CADRE_CHECKPOINT_SNAPSHOT);
    cr_assert_eq(self->core.checkpoint.variable_count, 2);
    fixture_destroy(&self);
}
