/* Native functions that are not here, and what the coordinator is told of data. */
#include "tests/worker/core_fixture.h"
#include "worker/core/worker_core.h"

TestSuite(worker_lacks, .timeout = 60);

static cadre_registry_t *registry;

/* A member that has the native function "noop" and not "f". */
static void
join_without(fixture_t *self)
{
    registry = cadre_registry_new();
    fixture_init_with(self, 1, 0, registry);
    fixture_brief(self);
}

static void
leave(fixture_t *self)
{
    fixture_fini(self);
    cadre_registry_destroy(&registry);
}

/* The last of those that went out, with the one that is due now. */
static cadre_message_t
last_heartbeat(fixture_t *self)
{
    cadre_message_t last = {0};
    cadre_message_t message;
    cadre_worker_core_tick(self->core, self->now_ms);
    while (take_message(self, CADRE_MESSAGE_HEARTBEAT, -1, &message)) {
        cadre_message_fini(&last);
        last = message;
    }
    cr_assert_eq(last.type, CADRE_MESSAGE_HEARTBEAT);
    return last;
}

static void
expect_one_lacking(fixture_t *self)
{
    cadre_message_t message = last_heartbeat(self);
    cr_assert_eq(message.heartbeat.lacks.count, 1);
    cr_expect_eq(message.heartbeat.lacks.items[0], 1);
    cadre_message_fini(&message);
}

Test(worker_lacks, says_at_once_and_with_each_heartbeat_which_functions_are_not_here)
{
    fixture_t self;
    join_without(&self);
    cadre_worker_event_t event;
    cr_assert(take_event(&self, CADRE_WORKER_LACKS, &event));
    cr_expect(event.index == 1 && strcmp(event.text, "f") == 0);
    expect_one_lacking(&self);
    self.now_ms += FIXTURE_HEARTBEAT_MS;
    fixture_function(&self); /* told again */
    expect_one_lacking(&self);
    cr_expect_not(happened(&self, CADRE_WORKER_LACKS));
    leave(&self);
}

Test(worker_lacks, a_function_that_is_here_is_not_lacking)
{
    fixture_t self;
    join_without(&self);
    expect_one_lacking(&self);
    cadre_message_t message = {.type = CADRE_MESSAGE_FUNCTION};
    message.function =
        (cadre_function_message_t){.id = 2, .kind = CADRE_FUNCTION_NATIVE, .name = "noop"};
    fixture_tell(&self, message);
    message = (cadre_message_t){.type = CADRE_MESSAGE_FUNCTION};
    message.function =
        (cadre_function_message_t){.id = 3, .kind = CADRE_FUNCTION_PROGRAM, .name = "f"};
    cadre_message_add_chunk(&message, cadre_chunk_new_copy("{}", 2));
    fixture_tell(&self, message);
    self.now_ms += FIXTURE_HEARTBEAT_MS;
    expect_one_lacking(&self);
    leave(&self);
}

Test(worker_lacks, hands_a_closure_back_before_anything_else_of_it_is_there)
{
    fixture_t self;
    join_without(&self);
    fixture_shard(&self, 1, FIXTURE_PS + 1, 2);
    drop_everything(&self);
    self.generations[0] = 99; /* so that it would wait for news of a shard */
    fixture_closure(&self, 1, 1);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_UNABLE);
    cr_expect_eq(message.closure_failed.status, (uint64_t)-CADRE_ENOTFOUND);
    cr_expect_str_eq(message.closure_failed.text,
                     "this worker has no native function f (--native FILE)");
    cadre_message_fini(&message);
    cr_expect_not(happened(&self, CADRE_WORKER_START));
    leave(&self);
}

static void
tell_resource(fixture_t *self)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_RESOURCE};
    message.resource = (cadre_resource_message_t){.id = 1, .name = "r", .function = 1};
    fixture_tell(self, message);
}

static void
expect_unbuilt(fixture_t *self)
{
    self->now_ms += 5000;
    cadre_message_t message = last_heartbeat(self);
    cr_expect_not(happened(self, CADRE_WORKER_START));
    cr_expect_eq(message.heartbeat.known.count, 1);
    cr_expect_eq(message.heartbeat.built.count, 0, "nor has it failed to");
    cadre_message_fini(&message);
}

Test(worker_lacks, does_not_build_a_resource_whose_function_is_not_here)
{
    fixture_t self;
    join_without(&self);
    tell_resource(&self);
    expect_unbuilt(&self);
    leave(&self);
}

Test(worker_lacks, does_not_build_it_when_the_function_is_told_later)
{
    fixture_t self;
    registry = cadre_registry_new();
    fixture_init_with(&self, 1, 0, registry);
    cadre_worker_core_connected(self.core, self.now_ms);
    fixture_welcome(&self);
    fixture_shard(&self, 0, FIXTURE_PS, 1);
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    fixture_variable(&self, 4);
    tell_resource(&self);
    fixture_function(&self);
    expect_unbuilt(&self);
    leave(&self);
}

Test(worker_lacks, answers_for_a_dataset_again_when_it_is_told_again)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    cadre_message_t message;
    for (int told = 1; told <= 3; told++) {
        message = (cadre_message_t){.type = CADRE_MESSAGE_DATASET};
        message.dataset = (cadre_dataset_message_t){.id = 9, .name = "data"};
        cadre_message_add_chunk(&message, cadre_chunk_new_copy("{}", 2));
        fixture_tell(&self, message);
        cr_expect_eq(happened(&self, CADRE_WORKER_OPEN_DATASET), told == 1);
        if (told == 2) {
            cr_expect_not(sent(&self, CADRE_MESSAGE_DATASET_READY), "it is still being read");
            cadre_dataset_ready_message_t ready = {.rows = 100, .text = "", .hash = 4711};
            cadre_worker_core_dataset_opened(self.core, 9, &ready, self.now_ms);
            cr_expect(sent(&self, CADRE_MESSAGE_DATASET_READY));
        }
    }
    cr_assert(take_message(&self, CADRE_MESSAGE_DATASET_READY, -1, &message));
    cr_expect(message.dataset_ready.id == 9 && message.dataset_ready.hash == 4711);
    cadre_message_fini(&message);
    fixture_fini(&self);
}
