/* What each step of a drop waits for, and who is told. */
#include "coordinator/core/shards/drops.h"

#include "tests/coordinator/recovery_fixture.h"

TestSuite(drops, .timeout = 240);

enum { PS = 2 };

/* A checkpoint of everything so far is committed. */
static void
commit(fixture_t *self)
{
    cadre_core_t *core = &self->core;
    cadre_restore_point_t point = {.path = cadre_strdup("/ckpt/9"),
                                   .cut = core->begun.next_id,
                                   .assigns = cadre_replay_assigns(&core->replay),
                                   .unsaved = core->replay.unsaved,
                                   .variable_count = core->catalogue.variable_count,
                                   .drops = core->drops.retired};
    cadre_recovery_on_commit(&core->recovery, &point);
    fixture_turn(self);
}

static void
reply_to_all(fixture_t *self, cadre_message_type_t type)
{
    for (uint32_t i = 0; i < PS; i++) {
        cadre_task_t ps = fixture_ps(i);
        cr_assert_eq(fixture_count(self, &ps, type), 1);
        fixture_reply(self, &ps, fixture_sent(self, &ps, type, 0));
    }
    fixture_turn(self);
}

static const cadre_message_t *
last_variable(const fixture_t *self, const cadre_task_t *worker)
{
    size_t count = fixture_count(self, worker, CADRE_MESSAGE_VARIABLE);
    return count ? fixture_sent(self, worker, CADRE_MESSAGE_VARIABLE, count - 1) : NULL;
}

/* A job whose worker has run `count` closures, all of which ended before "w" was dropped. */
static fixture_t *
job_with_drop(uint32_t count)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    run(self, &worker, count, 2);
    cadre_core_drop_variable(&self->core, self->core.catalogue.variables[0]);
    fixture_turn(self);
    cr_assert_eq(self->core.drops.retired, 1);
    return self;
}

Test(drops, waits_for_every_closure_from_before_tagged_ones_too)
{
    fixture_t *self = job(1);
    cadre_core_t *core = &self->core;
    cadre_task_t worker = fixture_worker(0);
    cadre_variable_t *variable = core->catalogue.variables[0];
    cadre_closure_t *tagged = cadre_closure_new(fixture_function(self)->id);
    tagged->tag = 7;
    cr_assert_eq(cadre_closure_queue_put(&core->queue, tagged), 0);
    fixture_schedule(self, 1);
    cr_assert_eq(cadre_core_drop_variable(core, variable), 1);
    cadre_closure_t *later = fixture_schedule(self, 2);
    cr_expect_eq(later->drops, 1);
    fixture_turn(self);
    const cadre_message_t *told = last_variable(self, &worker);
    cr_expect(told->variable.id == 1 && told->variable.drop == 1 && !told->variable.partitions);
    cr_expect_eq(fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 0)->closure.drops, 0);
    done(self, &worker, 1, 1, 0);
    cr_expect_eq(core->drops.retired, 0, "the tagged one has not ended");
    fixture_clear(self);
    worker = fixture_worker(7);
    fixture_hello(self, &worker);
    fixture_turn(self);
    const cadre_message_t *closure = fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 0);
    done(self, &worker, closure->closure.id, 1, 0);
    cr_expect_eq(core->drops.retired, 1);
    cr_expect_null(cadre_catalogue_variable(&core->catalogue, "w"));
    fixture_destroy(&self);
}

Test(drops, keeps_the_values_until_no_closure_that_may_run_again_can_name_them)
{
    fixture_t *self = job_with_drop(3);
    cadre_core_t *core = &self->core;
    cadre_task_t worker = fixture_worker(0);
    cr_expect_eq(fixture_sent(self, NULL, CADRE_MESSAGE_RETIRE, 0)->retire.variable, 1);
    cr_expect_eq(fixture_sent(self, NULL, CADRE_MESSAGE_RETIRE, 0)->retire.checkpoint, 0);
    reply_to_all(self, CADRE_MESSAGE_RETIRE);
    commit(self);
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_DROP), 0, "the point before needs it");
    fixture_clear(self);
    commit(self);
    cr_expect_eq(core->drops.done, 1);
    cr_expect(cadre_catalogue_is_vacant(&core->catalogue, 1));
    reply_to_all(self, CADRE_MESSAGE_DROP);
    const cadre_message_t *told = last_variable(self, &worker);
    cr_expect(told->variable.id == 1 && told->variable.last == 1 && told->variable.drop == 0);
    fixture_destroy(&self);
}

Test(drops, are_done_in_turn_as_what_each_waits_for_goes)
{
    fixture_t *self = job(1);
    cadre_core_t *core = &self->core;
    cadre_task_t worker = fixture_worker(0);
    cadre_variable_t *later = fixture_add_variable(self, "v", 4, 2);
    run(self, &worker, 1, 2);
    cadre_core_drop_variable(core, core->catalogue.variables[0]);
    fixture_turn(self);
    commit(self);
    run(self, &worker, 1, 2);
    cadre_core_drop_variable(core, later);
    fixture_turn(self);
    cr_assert_eq(core->drops.retired, 2);
    commit(self);
    cr_expect_eq(core->drops.done, 1);
    cr_expect(cadre_catalogue_is_vacant(&core->catalogue, 1));
    cr_expect_not(cadre_catalogue_is_vacant(&core->catalogue, 2));
    commit(self);
    cr_expect_eq(core->drops.done, 2);
    fixture_destroy(&self);
}

Test(drops, an_open_cut_that_holds_it_is_waited_for)
{
    fixture_t *self = job(1);
    cadre_core_t *core = &self->core;
    core->checkpoint.state = CADRE_CHECKPOINT_WRITING;
    core->checkpoint.id = 9;
    cadre_core_drop_variable(core, core->catalogue.variables[0]);
    cadre_core_advance_drops(core);
    cr_expect_eq(core->drops.retired, 1);
    cr_expect_eq(core->drops.done, 0);
    core->checkpoint.drops = 1; /* the next one */
    cadre_core_advance_drops(core);
    cr_expect_eq(core->drops.done, 1);
    core->checkpoint.state = CADRE_CHECKPOINT_IDLE;
    fixture_turn(self);
    cr_expect_eq(fixture_sent(self, NULL, CADRE_MESSAGE_RETIRE, 0)->retire.checkpoint, 9);
    fixture_destroy(&self);
}

/* The message of that type for variable `id` since the last clear, or NULL. */
static const cadre_message_t *
create_of(const fixture_t *self, const cadre_task_t *ps, uint64_t id)
{
    const cadre_message_t *message = NULL;
    for (size_t i = 0; (message = fixture_sent(self, ps, CADRE_MESSAGE_CREATE, i)); i++) {
        if (message->create.variable == id) {
            break;
        }
    }
    return message;
}

/* Loses ps 0 and has it restored. */
static cadre_task_t
restore_first(fixture_t *self)
{
    lose(self, 0);
    fixture_clear(self);
    restore(self, 0);
    return next_ps(0);
}

/* No closure that may run again names it, so its values go before any checkpoint. */
Test(drops, an_assignment_to_what_is_gone_is_not_repeated)
{
    fixture_t *self = job(1);
    const float value[4] = {1, 2, 3, 4};
    assign(self, CADRE_ASSIGN_SET, value);
    cadre_core_drop_variable(&self->core, self->core.catalogue.variables[0]);
    fixture_turn(self);
    cr_assert(cadre_catalogue_is_vacant(&self->core.catalogue, 1));
    cadre_task_t ps = restore_first(self);
    cr_expect_eq(fixture_count(self, &ps, CADRE_MESSAGE_ASSIGN), 0);
    cr_expect(cadre_recovery_is_settled(&self->core.recovery));
    fixture_destroy(&self);
}

Test(drops, a_shard_that_begins_before_the_drop_has_it_again_and_is_told)
{
    fixture_t *self = job_with_drop(3);
    cadre_core_t *core = &self->core;
    reply_to_all(self, CADRE_MESSAGE_RETIRE);
    cadre_variable_t *next = fixture_add_variable(self, "w", 4, 2);
    cr_expect(next->again && next->id == 2);
    cadre_task_t ps = restore_first(self);
    cr_expect_eq(create_of(self, &ps, 1)->create.fresh, 0);
    cr_expect_eq(create_of(self, &ps, 2)->create.fresh, 1, "what is called w there is the other");
    cr_assert_eq(fixture_count(self, &ps, CADRE_MESSAGE_RETIRE), 1);
    cr_expect_eq(core->recovery.places[0].state, CADRE_PLACE_RESTORING);
    answer_last(self, &ps, CADRE_MESSAGE_RETIRE, 0);
    cr_expect_eq(core->recovery.places[0].state, CADRE_PLACE_READY);
    cr_expect_eq(core->replay.redo.count + core->replay.in_flight, 3);
    fixture_destroy(&self);
}

/* A shard keeps the checkpoint open that it began with, and would look there. */
Test(drops, what_is_created_after_a_checkpoint_of_this_session_is_not_looked_for_there)
{
    fixture_t *self = job(1);
    cadre_core_t *core = &self->core;
    commit(self);
    cadre_task_t ps = restore_first(self);
    cr_expect_eq(create_of(self, &ps, 1)->create.fresh, 0, "the checkpoint holds this one");
    cadre_variable_t *next = fixture_add_variable(self, "v", 4, 2);
    cadre_operation_t operation = {.pending = 0};
    cadre_operations_create(&core->operations, next, &operation);
    fixture_turn(self);
    cr_expect_eq(create_of(self, &ps, 2)->create.fresh, 1);
    cadre_operations_give_up(&core->operations, &operation);
    fixture_destroy(&self);
}

/* Of a checkpoint that was resumed the core knows no ids: a shard looks for every name there. */
Test(drops, what_is_created_in_a_resumed_job_is_looked_for_in_its_checkpoint)
{
    fixture_t *self = job(1);
    cadre_core_t *core = &self->core;
    free(core->recovery.points.at[0].path);
    core->recovery.points.at[0].path = cadre_strdup("/ckpt/8");
    cadre_task_t ps = restore_first(self);
    cr_expect_eq(create_of(self, &ps, 1)->create.fresh, 0);
    cadre_variable_t *next = fixture_add_variable(self, "v", 4, 2);
    cadre_operation_t operation = {.pending = 0};
    cadre_operations_create(&core->operations, next, &operation);
    fixture_turn(self);
    cr_expect_eq(create_of(self, &ps, 2)->create.fresh, 0);
    cadre_operations_give_up(&core->operations, &operation);
    fixture_destroy(&self);
}

Test(drops, a_shard_that_begins_after_the_drop_does_not_have_it)
{
    fixture_t *self = job_with_drop(3);
    cadre_core_t *core = &self->core;
    reply_to_all(self, CADRE_MESSAGE_RETIRE);
    fixture_add_variable(self, "w", 4, 2);
    commit(self);
    cadre_task_t ps = restore_first(self);
    cr_expect_null(create_of(self, &ps, 1));
    cr_expect_eq(create_of(self, &ps, 2)->create.fresh, 0, "the checkpoint holds this one");
    cr_expect_eq(fixture_count(self, &ps, CADRE_MESSAGE_RETIRE), 0);
    cr_expect_eq(core->recovery.places[0].state, CADRE_PLACE_READY);
    fixture_destroy(&self);
}
