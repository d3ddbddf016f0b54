/* Results of closures as arguments of others in the worker's core: what is kept, found and lacked.
 */
#include "worker/core/closure_run.h"

#include "tests/worker/core_fixture.h"

TestSuite(closure_run, .timeout = 240);

enum { NUMBERS = 1000 }; /* of 8 bytes: more than the smallest value that is kept */

/* A list of one tensor, NUMBERS times `number`. */
static cadre_tensor_list_t
list_of(int64_t number)
{
    static int64_t numbers[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = number;
    }
    cadre_tensor_t tensor = {.dtype = CADRE_I64, .rank = 1, .shape = {NUMBERS}, .data = numbers};
    cadre_tensor_list_t list = {.count = 0};
    cr_assert_eq(cadre_tensor_list_encode(&tensor, 1, CADRE_RESULT_SIZE_MAX, &list), 0);
    return list;
}

/* Closure `id` takes result 0 of an attempt of `from` as "a"; it is `told` when that is not NULL.
 */
static void
closure_with(fixture_t *self, uint64_t id, uint64_t from, uint64_t attempt, const int64_t *told)
{
    static const char *const names[] = {"a"};
    const uint64_t values[] = {from, attempt, 0, told != NULL};
    cadre_tensor_list_t list = {.count = 0};
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    if (told) {
        list = list_of(*told);
    }
    message.closure = (cadre_closure_message_t){.id = id,
                                                .attempt = 1,
                                                .function = 1,
                                                .steps = 1,
                                                .variables = 1,
                                                .names = {names, 1},
                                                .tensors = cadre_tensor_list_items(&list),
                                                .values = {values, 4}};
    cadre_tensor_list_add_chunks(&list, &message);
    fixture_tell(self, message);
    cadre_tensor_list_fini(&list);
}

/* Runs closure `id`, which gives `number`, to its end. */
static void
give(fixture_t *self, uint64_t id, uint64_t attempt, uint64_t flags, int64_t number)
{
    static const char *const names[] = {"r", NULL};
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    message.closure = (cadre_closure_message_t){
        .id = id, .attempt = attempt, .function = 1, .steps = 1, .flags = flags, .variables = 1};
    fixture_tell(self, message);
    cadre_run_t *run = started(self);
    cr_assert_not_null(run);
    cadre_tensor_list_t list = list_of(number);
    cadre_run_outcome_t outcome = {.text = "", .names = names, .results = &list};
    cadre_worker_core_finish(self->core, run, &outcome, self->now_ms);
    cadre_tensor_list_fini(&list);
}

/* The closure that is started has `number` as its argument; it is ended. */
static void
expect_started_with(fixture_t *self, int64_t number)
{
    cadre_run_t *run = started(self);
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    cr_assert_not_null(run);
    cr_assert_eq(cadre_closure_call_tensors(&run->call, &tensors, &count), 0, "%s",
                 cadre_error_text());
    cr_assert_eq(count, 1);
    cr_expect_eq(((const int64_t *)tensors[0].data)[NUMBERS - 1], number);
    cadre_tensors_fini(&tensors, count);
    finish(self, run, 0);
}

static void
expect_handed_back(fixture_t *self, uint64_t id)
{
    cadre_message_t message = {0};
    cr_assert_null(started(self));
    do {
        cadre_message_fini(&message);
        cr_assert(take_message(self, CADRE_MESSAGE_CLOSURE_FAILED, -1, &message));
    } while (message.closure_failed.id != id);
    cr_expect_eq(message.closure_failed.reason, CADRE_FAILURE_RETURNED);
    cr_expect_eq(message.closure_failed.status, (uint64_t)-CADRE_ENOTFOUND);
    cadre_message_fini(&message);
}

Test(closure_run, what_was_computed_here_need_not_be_told)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    give(&self, 1, 2, CADRE_CLOSURE_WANTS_RESULTS, 41);
    fixture_acknowledge(&self, 1, 2);
    closure_with(&self, 2, 1, 2, NULL);
    expect_started_with(&self, 41);
    closure_with(&self, 3, 1, 1, NULL); /* what another attempt gave */
    expect_handed_back(&self, 3);
    give(&self, 4, 1, 0, 42); /* nobody wants it */
    closure_with(&self, 5, 4, 1, NULL);
    expect_handed_back(&self, 5);
    fixture_fini(&self);
}

Test(closure_run, what_was_told_once_need_not_be_told_again)
{
    const int64_t number = 7;
    fixture_t self;
    fixture_join(&self, 1, 0);
    closure_with(&self, 2, 1, 1, NULL);
    expect_handed_back(&self, 2);
    closure_with(&self, 3, 1, 1, &number);
    expect_started_with(&self, 7);
    closure_with(&self, 4, 1, 1, NULL);
    expect_started_with(&self, 7);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    cadre_message_t message = {0};
    cr_assert(take_message(&self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    cr_expect_eq(message.heartbeat.counters.items[CADRE_WORKER_COUNTER_values_found], 1);
    cr_expect_eq(message.heartbeat.counters.items[CADRE_WORKER_COUNTER_values_missed], 1);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

/* Ids of two sessions overlap. */
Test(closure_run, another_session_begins_without_values)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    give(&self, 1, 1, CADRE_CLOSURE_WANTS_RESULTS, 41);
    fixture_acknowledge(&self, 1, 1);
    self.session++;
    cadre_worker_core_connected(self.core, self.now_ms);
    fixture_welcome(&self);
    fixture_shard(&self, 0, FIXTURE_PS, 1);
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    fixture_variable(&self, 4);
    fixture_function(&self);
    closure_with(&self, 2, 1, 1, NULL);
    expect_handed_back(&self, 2);
    fixture_fini(&self);
}

Test(closure_run, lists_that_do_not_agree_are_counted_as_malformed)
{
    static const char *const names[] = {"a"};
    const uint64_t values[] = {1, 1, 0, 1, 2, 1, 0, 1};
    fixture_t self;
    fixture_join(&self, 1, 0);
    for (size_t count = 7; count <= 8; count++) {
        cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
        message.closure = (cadre_closure_message_t){.id = 5,
                                                    .attempt = 1,
                                                    .function = 1,
                                                    .steps = 1,
                                                    .variables = 1,
                                                    .names = {names, 1},
                                                    .values = {values, count}};
        fixture_tell(&self, message);
        cr_expect_null(started(&self));
    }
    drop_everything(&self);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    cadre_message_t message = {0};
    cr_assert(take_message(&self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    cr_expect_eq(message.heartbeat.counters.items[CADRE_WORKER_COUNTER_malformed], 2);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

/* It would ask for it with a WANT that has no room for the number. */
Test(closure_run, a_dataset_that_nothing_can_be_called_is_refused)
{
    fixture_t self;
    fixture_join(&self, 1, 0);
    fixture_batch_closure(&self, 5, UINT64_C(1) << 32);
    cr_expect_null(started(&self));
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    cadre_message_t message = {0};
    drop_everything(&self);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    cr_assert(take_message(&self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    cr_expect_eq(message.heartbeat.counters.items[CADRE_WORKER_COUNTER_malformed], 1);
    cadre_message_fini(&message);
    fixture_fini(&self);
}
