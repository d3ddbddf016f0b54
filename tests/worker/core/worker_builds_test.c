/* Resources in the worker's core: built once, before their closures, told by the next heartbeat. */
#include "worker/core/worker_builds.h"

#include "tests/worker/core_fixture.h"

TestSuite(worker_builds, .timeout = 240);

static void
resource(fixture_t *self, uint64_t id)
{
    static const char *const names[] = {"a"};
    uint64_t items[] = {CADRE_F32, 0};
    cadre_message_t message = {.type = CADRE_MESSAGE_RESOURCE};
    message.resource = (cadre_resource_message_t){.id = id,
                                                  .name = "r",
                                                  .function = 1,
                                                  .seed = 9,
                                                  .variables = 1,
                                                  .names = {names, 1},
                                                  .tensors = {items, 2},
                                                  .workers = 5};
    cadre_message_add_chunk(&message, cadre_chunk_new(4));
    fixture_tell(self, message);
}

static void
closure(fixture_t *self, uint64_t id, uint64_t first, uint64_t second)
{
    uint64_t ids[] = {first, second};
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    message.closure = (cadre_closure_message_t){.id = id,
                                                .attempt = 1,
                                                .function = 1,
                                                .steps = 1,
                                                .variables = 1,
                                                .resources = {ids, second ? 2 : 1}};
    fixture_tell(self, message);
}

static void
end_build(fixture_t *self, cadre_run_t *run, int status, cadre_failure_t failure)
{
    cr_assert_not_null(run->call.builds);
    cadre_holding_t *holding =
        status == 0 ? cadre_holding_new(run->call.builds->message.resource.name) : NULL;
    cadre_run_outcome_t outcome = {
        .status = status, .text = "why", .failure = failure, .holding = holding};
    cadre_worker_core_finish(self->core, run, &outcome, self->now_ms);
}

/* What the next heartbeat, which is due at once, says; bit id - 1 for each resource. */
static void
expect_told(fixture_t *self, uint64_t known, uint64_t built)
{
    cadre_message_t message = {0};
    fixture_pass(self, 0);
    cr_assert(take_message(self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    const cadre_u64s_t *lists[] = {&message.heartbeat.known, &message.heartbeat.built};
    const uint64_t wanted[] = {known, built};
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(lists[i]->count, wanted[i] ? 1 : 0);
        cr_expect_eq(lists[i]->count ? lists[i]->items[0] : 0, wanted[i]);
    }
    cr_expect_eq(message.heartbeat.held.count, 0, "a build is no closure");
    cadre_message_fini(&message);
}

Test(worker_builds, a_resource_is_built_at_once_and_told)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    resource(&self, 1); /* said again */
    cadre_run_t *run = started(&self);
    cr_assert(run && run->call.builds);
    cr_expect_null(started(&self), "once");
    cr_expect_eq(run->call.message.closure.workers, 5);
    cr_expect_eq(run->call.message.closure.names.count, 1);
    cr_expect_eq(run->call.message.chunk_count, 1);
    cr_expect_eq(run->call.message.incarnation, FIXTURE_SESSION);
    end_build(&self, run, 0, 0);
    cr_expect_null(started(&self));
    expect_told(&self, 1, 1);
    fixture_fini(&self);
}

Test(worker_builds, closures_wait_for_what_they_name_and_for_nothing_else)
{
    fixture_t self;
    fixture_join(&self, 2, 0);
    drop_everything(&self);
    resource(&self, 1);
    cadre_run_t *build = started(&self);
    closure(&self, 1, 1, 2); /* 2 is not known */
    closure(&self, 2, 1, 0);
    fixture_closure(&self, 3, 1);
    cadre_run_t *third = started(&self);
    cr_assert(third && cadre_run_id(third) == 3 && !third->call.holdings);
    end_build(&self, build, 0, 0);
    cadre_run_t *second = started(&self);
    cr_assert(second && cadre_run_id(second) == 2);
    cr_expect_str_eq(second->call.holdings[0]->name, "r");
    cr_expect_not_null(cadre_closure_call_holding(&second->call, "r"));
    cr_expect_null(cadre_closure_call_holding(&second->call, "other"));
    finish(&self, third, 0);
    resource(&self, 2);
    build = started(&self);
    finish(&self, second, 0);
    end_build(&self, build, 0, 0);
    cadre_run_t *first = started(&self);
    cr_assert(first && cadre_run_id(first) == 1);
    finish(&self, first, 0);
    fixture_fini(&self);
}

Test(worker_builds, a_build_goes_before_closures_that_wait_for_a_slot)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    fixture_closure(&self, 1, 1);
    fixture_closure(&self, 2, 1);
    cadre_run_t *run = started(&self);
    resource(&self, 1);
    finish(&self, run, 0);
    run = started(&self);
    cr_assert(run && run->call.builds);
    end_build(&self, run, 0, 0);
    run = started(&self);
    cr_assert(run && cadre_run_id(run) == 2);
    finish(&self, run, 0);
    fixture_fini(&self);
}

Test(worker_builds, a_resource_that_failed_fails_its_closures_and_is_told_as_built)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    closure(&self, 7, 1, 0);
    end_build(&self, started(&self), CADRE_EFUNCTION, CADRE_FAILURE_USER);
    cadre_message_t message = {0};
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.id, 7);
    cr_expect_eq(message.closure_failed.status, -CADRE_EINVALID);
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_USER);
    cr_expect_str_eq(message.closure_failed.text,
                     "resource r was not built on worker 3 by function f: why");
    cadre_message_fini(&message);
    fixture_acknowledge(&self, 7, 1);
    expect_told(&self, 1, 1);
    fixture_fini(&self);
}

Test(worker_builds, a_build_that_is_not_to_blame_is_tried_again)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    end_build(&self, started(&self), CADRE_EUNAVAILABLE, CADRE_FAILURE_SHARD);
    expect_told(&self, 1, 0);
    cr_expect_null(started(&self), "not at once");
    fixture_pass(&self, 1000);
    cadre_run_t *run = started(&self);
    cr_assert(run && run->call.builds);
    drop_everything(&self);
    end_build(&self, run, 0, 0);
    expect_told(&self, 1, 1);
    fixture_fini(&self);
}

/* Begins the build that is due and has it fail so; a try that is not the last. */
static void
try_in_vain(fixture_t *self, cadre_failure_t failure)
{
    cadre_run_t *run = started(self);
    cr_assert(run && run->call.builds);
    drop_everything(self);
    end_build(self, run, CADRE_ENOMEMORY, failure);
    expect_told(self, 1, 0);
    cr_expect_null(started(self), "not at once");
    fixture_pass(self, 1000);
}

Test(worker_builds, a_build_on_which_the_device_fails_too_often_has_failed)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    for (int i = 0; i < CADRE_BUILD_TRIES_MAX - 1; i++) {
        try_in_vain(&self, CADRE_FAILURE_DEVICE);
        try_in_vain(&self, CADRE_FAILURE_SHARD); /* is not counted */
    }
    cadre_run_t *run = started(&self);
    cr_assert(run && run->call.builds, "below the limit");
    closure(&self, 7, 1, 0);
    drop_everything(&self);
    end_build(&self, run, CADRE_ENOMEMORY, CADRE_FAILURE_DEVICE);
    cadre_message_t message = {0};
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.id, 7);
    cr_expect_eq(message.closure_failed.status, -CADRE_EINVALID);
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_USER);
    cr_expect_str_eq(message.closure_failed.text,
                     "resource r was not built on worker 3 by function f: why");
    cadre_message_fini(&message);
    fixture_acknowledge(&self, 7, 1);
    expect_told(&self, 1, 1);
    fixture_pass(&self, 5000);
    cr_expect_null(started(&self), "never again");
    fixture_fini(&self);
}

Test(worker_builds, a_build_that_ends_well_at_its_last_try_is_built)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    for (int i = 0; i < CADRE_BUILD_TRIES_MAX - 1; i++) {
        try_in_vain(&self, CADRE_FAILURE_DEVICE);
    }
    end_build(&self, started(&self), 0, 0);
    closure(&self, 7, 1, 0);
    cadre_run_t *run = started(&self);
    cr_assert(run && cadre_run_id(run) == 7);
    finish(&self, run, 0);
    fixture_fini(&self);
}

Test(worker_builds, no_number_of_shards_away_fails_a_build)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    for (int i = 0; i < 2 * CADRE_BUILD_TRIES_MAX; i++) {
        try_in_vain(&self, CADRE_FAILURE_SHARD);
    }
    cadre_run_t *run = started(&self);
    cr_assert(run && run->call.builds);
    end_build(&self, run, 0, 0);
    fixture_fini(&self);
}

/* Resource 2 is told as built while 1 hangs, and what names only 2 begins. */
Test(worker_builds, a_build_that_hangs_holds_up_its_slot_and_nothing_else)
{
    fixture_t self;
    fixture_join(&self, 2, 0);
    drop_everything(&self);
    resource(&self, 1);
    resource(&self, 2);
    cadre_run_t *first = started(&self);
    cadre_run_t *second = started(&self);
    cr_assert(first && first->call.builds && second && second->call.builds);
    end_build(&self, second, 0, 0);
    expect_told(&self, 3, 2);
    closure(&self, 7, 2, 0);
    cadre_run_t *run = started(&self);
    cr_assert(run && cadre_run_id(run) == 7);
    finish(&self, run, 0);
    end_build(&self, first, 0, 0);
    fixture_fini(&self);
}

Test(worker_builds, builds_that_wait_for_a_slot_go_in_the_order_they_came)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    fixture_closure(&self, 1, 1);
    fixture_closure(&self, 2, 1);
    cadre_run_t *run = started(&self);
    for (uint64_t id = 1; id <= 3; id++) {
        resource(&self, id);
    }
    finish(&self, run, 0);
    for (uint64_t id = 1; id <= 3; id++) {
        run = started(&self);
        cr_assert(run && run->call.builds);
        cr_expect_eq(run->call.builds->message.resource.id, id);
        end_build(&self, run, 0, 0);
    }
    run = started(&self);
    cr_assert(run && cadre_run_id(run) == 2);
    finish(&self, run, 0);
    fixture_fini(&self);
}

/* Before it has come to a slot: for good when it is the user's failure, else it is tried again. */
Test(worker_builds, a_build_that_is_given_up_ends_by_whose_fault_it_was)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 2); /* has the slot */
    cadre_run_t *run = started(&self);
    resource(&self, 1);
    cadre_run_t *build = cadre_worker_core_run(self.core, CADRE_BUILD_IDS | 1);
    cadre_worker_core_give_up(self.core, build, CADRE_FAILURE_RETURNED, CADRE_ECLOSED, "later",
                              self.now_ms);
    expect_told(&self, 3, 0);
    fixture_pass(&self, 1000);
    drop_everything(&self);
    build = cadre_worker_core_run(self.core, CADRE_BUILD_IDS | 1);
    cr_assert_not_null(build, "it is tried again");
    cadre_worker_core_give_up(self.core, build, CADRE_FAILURE_USER, CADRE_EDATA, "why",
                              self.now_ms);
    expect_told(&self, 3, 1);
    fixture_pass(&self, 5000);
    cr_expect_null(cadre_worker_core_run(self.core, CADRE_BUILD_IDS | 1), "never again");
    end_build(&self, run, 0, 0);
    fixture_fini(&self);
}

Test(worker_builds, a_build_pushes_nothing_and_is_cancelled_by_nobody)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    cadre_run_t *run = started(&self);
    fixture_cancel(&self, cadre_run_id(run));
    cr_expect_not(cadre_closure_call_is_cancelled(&run->call));
    push(&self, run);
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_PUSHED, &event));
    cr_expect_eq(event.status, CADRE_EFULL);
    cr_expect_not_null(strstr(event.text, "pushes nothing"));
    end_build(&self, run, 0, 0);
    fixture_closure(&self, CADRE_BUILD_IDS | 1, 1); /* nobody's closure has such an id */
    cr_expect_null(started(&self));
    fixture_fini(&self);
}

Test(worker_builds, what_was_held_is_released_when_another_session_begins)
{
    fixture_t self;
    fixture_join(&self, 2, 0);
    drop_everything(&self);
    resource(&self, 1);
    end_build(&self, started(&self), 0, 0);
    resource(&self, 2);
    cadre_run_t *run = started(&self);
    cr_assert(run && run->call.builds);
    self.session++;
    cadre_worker_core_connected(self.core, self.now_ms);
    fixture_welcome(&self);
    cr_expect(cadre_closure_call_is_cancelled(&run->call), "the session is over");
    end_build(&self, run, 0, 0);
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_RELEASE, &event), "of the build under way");
    cadre_holding_destroy(&event.holding);
    fixture_welcome(&self);
    cr_assert(take_event(&self, CADRE_WORKER_RELEASE, &event), "of the one that was built");
    cadre_holding_destroy(&event.holding);
    drop_everything(&self);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    expect_told(&self, 0, 0);
    fixture_fini(&self);
}

Test(worker_builds, who_drains_builds_nothing_more_and_leaves)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    resource(&self, 2);
    cadre_run_t *run = started(&self);
    cadre_worker_core_drain(self.core, "away", self.now_ms);
    resource(&self, 3);
    fixture_pass(&self, 5000);
    cr_expect_not(happened(&self, CADRE_WORKER_LEFT), "a slot is still at it");
    end_build(&self, run, 0, 0);
    fixture_pass(&self, 2000);
    cr_expect(happened(&self, CADRE_WORKER_LEFT));
    fixture_fini(&self);
}

/* --- what is gone --- */

static void
gone(fixture_t *self, cadre_defined_t of, uint64_t id)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = id, .name = "", .last = id, .of = of};
    fixture_tell(self, message);
    fixture_pass(self, 1000);
}

Test(worker_builds, a_resource_that_is_gone_is_released_when_no_run_uses_it)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    end_build(&self, started(&self), 0, 0);
    closure(&self, 1, 1, 0);
    cadre_run_t *user = started(&self);
    cr_assert(user && user->call.holdings);
    gone(&self, CADRE_DEFINED_RESOURCE, 1);
    cr_expect_not(happened(&self, CADRE_WORKER_RELEASE), "a run of an ended closure uses it");
    finish(&self, user, 0);
    fixture_acknowledge(&self, 1, 1);
    fixture_pass(&self, 1000);
    cr_expect(happened(&self, CADRE_WORKER_RELEASE));
    fixture_fini(&self);
}

Test(worker_builds, a_resource_that_is_gone_before_its_build_ends_is_released_after_it)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    resource(&self, 1);
    cadre_run_t *build = started(&self);
    resource(&self, 2); /* waits for the slot */
    gone(&self, CADRE_DEFINED_RESOURCE, 1);
    end_build(&self, build, 0, 0);
    cadre_run_t *second = started(&self);
    cr_assert(second && second->call.builds->message.resource.id == 2);
    fixture_pass(&self, 1000);
    cr_expect(happened(&self, CADRE_WORKER_RELEASE));
    end_build(&self, second, 0, 0);
    fixture_fini(&self);
}

Test(worker_builds, a_resource_that_is_gone_is_not_built)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    drop_everything(&self);
    fixture_closure(&self, 1, 1);
    cadre_run_t *run = started(&self);
    resource(&self, 1);
    gone(&self, CADRE_DEFINED_RESOURCE, 1);
    finish(&self, run, 0);
    cadre_run_t *next = started(&self);
    if (next) { /* it stood before the slot already */
        end_build(&self, next, 0, 0);
    }
    fixture_pass(&self, 1000);
    cr_expect_null(started(&self));
    fixture_fini(&self);
}
