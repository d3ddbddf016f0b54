/* Functions and resources that were dropped: when they go, and who is told. */
#include "coordinator/core/shards/removals.h"

#include "tests/coordinator/recovery_fixture.h"

TestSuite(removals, .timeout = 240);

/* The last record that a worker was told. */
static const cadre_variable_message_t *
last_record(const fixture_t *self, const cadre_task_t *worker)
{
    size_t count = fixture_count(self, worker, CADRE_MESSAGE_VARIABLE);
    return count ? &fixture_sent(self, worker, CADRE_MESSAGE_VARIABLE, count - 1)->variable : NULL;
}

/* Commits two checkpoints of everything so far: the first is what a shard may have to begin with
 * when the second cannot be read. */
static void
commit_twice(fixture_t *self)
{
    for (int i = 0; i < 2; i++) {
        cadre_core_t *core = &self->core;
        cadre_restore_point_t point = {.path = cadre_strdup("/ckpt/9"),
                                       .cut = core->begun.next_id,
                                       .assigns = cadre_replay_assigns(&core->replay),
                                       .unsaved = core->replay.unsaved,
                                       .variable_count = core->catalogue.variable_count,
                                       .drops = core->drops.retired};
        cadre_recovery_on_commit(&core->recovery, &point);
    }
    fixture_turn(self);
}

Test(removals, a_function_that_no_closure_names_goes_at_once)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_function_t *function = fixture_function(self);
    cr_assert_eq(cadre_core_drop_function(&self->core, function), 0);
    fixture_turn(self);
    cr_expect(function->removed);
    const cadre_variable_message_t *told = last_record(self, &worker);
    cr_assert(told && told->id == function->id && told->last == told->id);
    cr_expect(told->of == CADRE_DEFINED_FUNCTION && told->partitions == 0 && told->drop == 0);
    cr_expect_neq(fixture_function(self)->id, function->id, "registered again it is another one");
    fixture_destroy(&self);
}

Test(removals, a_function_stays_while_a_closure_from_before_runs_tagged_ones_too)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_function_t *function = fixture_function(self);
    cadre_closure_t *tagged = cadre_closure_new(function->id);
    tagged->tag = 7;
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, tagged), 0);
    fixture_schedule(self, 1);
    cr_assert_eq(cadre_core_drop_function(&self->core, function), 0);
    fixture_turn(self);
    done(self, &worker, 1, 1, 0);
    cr_expect_not(function->removed, "the tagged one has not ended");
    worker = fixture_worker(7);
    fixture_hello(self, &worker);
    fixture_turn(self);
    cr_expect_gt(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 0, "it needs the function");
    done(self, &worker, fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 0)->closure.id, 1, 0);
    cr_expect(function->removed);
    fixture_destroy(&self);
}

Test(removals, a_function_stays_for_closures_that_may_run_again)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_function_t *function = fixture_function(self);
    run(self, &worker, 3, 2);
    cr_assert_eq(cadre_core_drop_function(&self->core, function), 0);
    fixture_turn(self);
    cr_expect_not(function->removed, "three closures are kept for a replay");
    cadre_function_t *later = fixture_function(self);
    run(self, &worker, 1, 2);
    cr_assert_eq(cadre_core_drop_function(&self->core, later), 0);
    commit_twice(self);
    cr_expect(function->removed);
    cr_expect(later->removed, "its closure is below the cuts, too");
    fixture_destroy(&self);
}

/* As many closures end between two drops as were put: a barrier of the queue serves again. */
Test(removals, a_second_drop_waits_for_its_own_closures)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_function_t *first = fixture_function(self);
    cr_assert_eq(cadre_core_drop_function(&self->core, first), 0);
    fixture_turn(self);
    cr_expect(first->removed);
    cadre_function_t *second = fixture_function(self);
    run(self, &worker, 2, 2);
    cr_assert_eq(cadre_core_drop_function(&self->core, second), 0);
    fixture_turn(self);
    cr_expect_not(second->removed);
    fixture_destroy(&self);
}

/* Runs a closure of a client, which pushes `updates` and has no place among those of the job. */
static void
run_of_client(fixture_t *self, const cadre_task_t *worker, cadre_closure_group_t *group,
              uint64_t updates)
{
    const uint64_t id = self->core.begun.next_id;
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    closure->group = cadre_closure_group_ref(group);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    fixture_turn(self);
    done(self, worker, id, 1, updates);
}

Test(removals, a_second_drop_waits_for_closures_of_clients)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_closure_group_t *group = cadre_closure_group_new_unpaced();
    cadre_function_t *first = fixture_function(self);
    cr_assert_eq(cadre_core_drop_function(&self->core, first), 0);
    fixture_turn(self);
    cr_expect(first->removed);
    cadre_function_t *second = fixture_function(self);
    run_of_client(self, &worker, group, 2);
    cr_assert_eq(cadre_core_drop_function(&self->core, second), 0);
    fixture_turn(self);
    cr_expect_not(second->removed, "a closure of a client is kept for a replay");
    commit_twice(self);
    cr_expect(second->removed);
    cadre_closure_group_unref(&group);
    fixture_destroy(&self);
}

Test(removals, a_drop_waits_for_no_closure_of_a_client_from_after_it)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_closure_group_t *group = cadre_closure_group_new_unpaced();
    const uint64_t id = self->core.begun.next_id;
    cadre_function_t *function = fixture_function(self);
    fixture_schedule(self, 0);
    fixture_turn(self);
    cr_assert_eq(cadre_core_drop_function(&self->core, function), 0);
    run_of_client(self, &worker, group, 2);
    cr_expect_not(function->removed, "a closure that names it runs");
    done(self, &worker, id, 1, 0);
    cr_expect(function->removed, "what is kept cannot name it");
    cadre_closure_group_unref(&group);
    fixture_destroy(&self);
}

static cadre_resource_t *
add_resource(fixture_t *self)
{
    cadre_resource_t *resource = NULL;
    cadre_closure_t *call = cadre_closure_new(fixture_function(self)->id);
    cr_assert_eq(cadre_catalogue_add_resource(&self->core.catalogue, "r", &call, &resource), 0);
    cadre_resources_announce(&self->core.resources);
    fixture_turn(self);
    return resource;
}

Test(removals, a_resource_goes_before_the_function_that_builds_it)
{
    fixture_t *self = job(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_resource_t *resource = add_resource(self);
    cadre_function_t *function = fixture_function(self);
    cr_expect_eq(cadre_core_drop_function(&self->core, function), CADRE_ESTATE);
    cr_expect_not_null(strstr(cadre_error_text(), "builds resource r"));
    cadre_core_drop_resource(&self->core, resource);
    cr_expect_eq(cadre_core_drop_function(&self->core, function), 0);
    fixture_turn(self);
    cr_expect(resource->removed && function->removed);
    const cadre_variable_message_t *told = last_record(self, &worker);
    cr_assert(told && told->of == CADRE_DEFINED_FUNCTION);
    fixture_clear(self);
    cadre_task_t later = fixture_worker(1);
    fixture_hello(self, &later);
    fixture_turn(self);
    cr_expect_eq(fixture_count(self, &later, CADRE_MESSAGE_FUNCTION), 0);
    cr_expect_eq(fixture_count(self, &later, CADRE_MESSAGE_RESOURCE), 0);
    cr_expect_not_null(add_resource(self), "the name is free");
    fixture_destroy(&self);
}

Test(removals, a_closure_that_names_what_was_dropped_is_refused)
{
    fixture_t *self = job(1);
    cadre_resource_t *resource = add_resource(self);
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    closure->resources = cadre_calloc(1, sizeof(*closure->resources));
    closure->resources[closure->resource_count++] = resource->id;
    cr_expect_eq(cadre_catalogue_check_names(&self->core.catalogue, closure), 0);
    cadre_core_drop_resource(&self->core, resource);
    cr_expect_eq(cadre_catalogue_check_names(&self->core.catalogue, closure), CADRE_EINVALID);
    closure->resource_count = 0;
    cr_expect_eq(cadre_catalogue_check_names(&self->core.catalogue, closure), 0);
    cr_assert_eq(cadre_core_drop_function(&self->core, fixture_function(self)), 0);
    cr_expect_eq(cadre_catalogue_check_names(&self->core.catalogue, closure), CADRE_EINVALID);
    cadre_closure_destroy(&closure);
    fixture_destroy(&self);
}
