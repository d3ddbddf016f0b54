/* Closures that take results of others, through the core: who gets them, and what is told. */
#include "coordinator/core/dispatch/closure_sender.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(closure_sender, .timeout = 240);

enum { BIG = 1000, SMALL = 4 }; /* numbers of 8 bytes */

/* Schedules a closure that takes "r" of each of two others (NULL: none); what it gives. */
static cadre_results_t *
schedule(fixture_t *self, cadre_results_t *from, cadre_results_t *from_too)
{
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    closure->results = cadre_results_new();
    closure->wants_results = true;
    if (from) {
        cadre_closure_add_argument(closure, "a", "r", from);
    }
    if (from_too) {
        cadre_closure_add_argument(closure, "b", "r", from_too);
    }
    fixture_watch(self, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    return closure->results;
}

/* A worker reports the closure, which gives `count` numbers, and `beside` others if not 0. */
static void
done_with_two(fixture_t *self, const cadre_task_t *from, uint64_t id, uint64_t attempt,
              int64_t count, int64_t beside)
{
    static const char *const names[] = {"r", "beside"};
    static int64_t numbers[BIG];
    const cadre_tensor_t tensors[] = {
        {.dtype = CADRE_I64, .rank = 1, .shape = {count}, .data = numbers},
        {.dtype = CADRE_I64, .rank = 1, .shape = {beside}, .data = numbers}};
    size_t results = beside ? 2 : 1;
    cadre_tensor_list_t list = {.count = 0};
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_CLOSURE_DONE);
    cr_assert_eq(cadre_tensor_list_encode(tensors, results, CADRE_RESULT_SIZE_MAX, &list), 0);
    message.closure_done =
        (cadre_closure_done_message_t){.id = id,
                                       .attempt = attempt,
                                       .names = {names, results},
                                       .tensors = cadre_tensor_list_items(&list)};
    cadre_tensor_list_add_chunks(&list, &message);
    fixture_say(self, from, &message);
    cadre_tensor_list_fini(&list);
    fixture_turn(self);
}

static void
done_with(fixture_t *self, const cadre_task_t *from, uint64_t id, uint64_t attempt, int64_t count)
{
    done_with_two(self, from, id, attempt, count, 0);
}

static void
expect_told(const cadre_message_t *message, size_t value, uint64_t closure, uint64_t attempt,
            uint64_t told)
{
    cr_assert_not_null(message);
    cr_assert_gt(message->closure.values.count, 4 * value);
    const uint64_t *items = message->closure.values.items + 4 * value;
    cr_expect_eq(items[0], closure);
    cr_expect_eq(items[1], attempt);
    cr_expect_eq(items[2], 0);
    cr_expect_eq(items[3], told);
}

Test(closure_sender, a_closure_goes_where_its_argument_is_which_is_not_told)
{
    fixture_t *self = cluster(2);
    cadre_task_t first = fixture_worker(0);
    cadre_results_t *results = cadre_results_ref(schedule(self, NULL, NULL));
    schedule(self, results, NULL);
    fixture_turn(self);
    cr_expect_eq(fixture_count(self, NULL, CADRE_MESSAGE_CLOSURE), 1, "the other is blocked");
    fixture_clear(self);
    done_with(self, &first, 1, 1, BIG);
    for (int i = 0; i < 3; i++) { /* whose turn it is does not matter */
        const cadre_message_t *sent = fixture_sent(self, &first, CADRE_MESSAGE_CLOSURE, 0);
        expect_told(sent, 0, 1, 1, 0);
        cr_expect_eq(sent->chunk_count, 0);
        cr_expect_str_eq(sent->closure.names.items[0], "a");
        uint64_t id = sent->closure.id;
        fixture_clear(self);
        fixture_done(self, &first, id, 1);
        fixture_turn(self);
        if (i < 2) {
            schedule(self, results, NULL);
            fixture_turn(self);
        }
    }
    cadre_results_unref(&results);
    fixture_destroy(&self);
}

Test(closure_sender, another_worker_is_told_once)
{
    fixture_t *self = cluster(2);
    cadre_task_t first = fixture_worker(0);
    cadre_task_t second = fixture_worker(1);
    cadre_results_t *results = cadre_results_ref(schedule(self, NULL, NULL));
    fixture_turn(self);
    done_with(self, &first, 1, 1, BIG);
    cadre_membership_find(&self->core.membership, first.incarnation)->draining = true;
    fixture_clear(self);
    schedule(self, results, results);
    schedule(self, results, NULL);
    fixture_turn(self);
    const cadre_message_t *sent = fixture_sent(self, &second, CADRE_MESSAGE_CLOSURE, 0);
    expect_told(sent, 0, 1, 1, 1);
    expect_told(sent, 1, 1, 1, 1); /* it may keep less than a message tells */
    cr_expect_eq(sent->chunk_count, 2);
    sent = fixture_sent(self, &second, CADRE_MESSAGE_CLOSURE, 1);
    expect_told(sent, 0, 1, 1, 0);
    cr_expect_eq(sent->chunk_count, 0);
    cadre_results_unref(&results);
    fixture_destroy(&self);
}

Test(closure_sender, small_values_are_always_told)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    schedule(self, schedule(self, NULL, NULL), NULL);
    fixture_turn(self);
    fixture_clear(self);
    done_with_two(self, &worker, 1, 1, SMALL, BIG);
    const cadre_message_t *sent = fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 0);
    expect_told(sent, 0, 1, 1, 1);
    cr_expect_eq(sent->chunk_count, 1);
    fixture_destroy(&self);
}

Test(closure_sender, a_worker_that_lacks_a_value_is_told)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    schedule(self, schedule(self, NULL, NULL), NULL);
    fixture_turn(self);
    done_with(self, &worker, 1, 1, BIG);
    fixture_clear(self);
    cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_CLOSURE_FAILED);
    message.closure_failed = (cadre_closure_failed_message_t){.id = 2,
                                                              .attempt = 1,
                                                              .reason = CADRE_FAILURE_RETURNED,
                                                              .status = (uint64_t)-CADRE_ENOTFOUND,
                                                              .text = ""};
    fixture_say(self, &worker, &message);
    fixture_turn(self);
    const cadre_message_t *sent = fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 0);
    expect_told(sent, 0, 1, 1, 1);
    cr_expect_eq(sent->closure.attempt, 2);
    cr_expect_eq(self->ended_count, 1);
    fixture_destroy(&self);
}

/* The attempt that counts is the one that was believed, whoever else ran it. */
Test(closure_sender, only_the_worker_that_was_believed_has_the_value)
{
    fixture_t *self = cluster(2);
    cadre_task_t first = fixture_worker(0);
    cadre_task_t second = fixture_worker(1);
    schedule(self, schedule(self, NULL, NULL), NULL);
    fixture_turn(self);
    fixture_failed(self, &first, 1, 1, CADRE_FAILURE_RETURNED, "");
    cadre_membership_find(&self->core.membership, first.incarnation)->draining = true;
    fixture_turn(self);
    cr_assert_not_null(fixture_sent(self, &second, CADRE_MESSAGE_CLOSURE, 0));
    fixture_clear(self);
    done_with(self, &first, 1, 1, BIG); /* it had run it after all */
    expect_told(fixture_sent(self, &second, CADRE_MESSAGE_CLOSURE, 0), 0, 1, 1, 1);
    fixture_destroy(&self);
}

/* A closure that takes a value dies with its workers: it gets it again, and in the end it is poison
 * like any other. */
Test(closure_sender, a_lost_closure_gets_its_values_again_until_it_is_poison)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    schedule(self, schedule(self, NULL, NULL), NULL);
    fixture_turn(self);
    done_with(self, &worker, 1, 1, BIG);
    for (uint64_t i = 1; i <= CADRE_POISON_DEATHS; i++) {
        cr_assert_eq(self->ended_count, 1, "after %d deaths", (int)i - 1);
        fixture_clear(self);
        fixture_gone(self, &worker);
        worker.incarnation++;
        fixture_hello(self, &worker);
        fixture_turn(self);
        if (i < CADRE_POISON_DEATHS) {
            expect_told(fixture_sent(self, &worker, CADRE_MESSAGE_CLOSURE, 0), 0, 1, 1, 1);
        }
    }
    cr_assert_eq(self->ended_count, 2);
    cr_expect_eq(self->ended[1].status, CADRE_EPOISON);
    fixture_destroy(&self);
}

Test(closure_sender, arguments_that_cannot_be_had_name_the_function)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    schedule(self, schedule(self, NULL, NULL), NULL);
    fixture_turn(self);
    fixture_done(self, &worker, 1, 1); /* without results */
    fixture_turn(self);
    cr_assert_eq(self->ended_count, 2);
    cr_expect_eq(self->ended[1].status, CADRE_ENOTFOUND);
    cr_expect(strstr(self->ended[1].text, "function work: argument a: closure 1"), "%s",
              self->ended[1].text);
    fixture_destroy(&self);
}

/* What kept closures take counts once, and goes with the last of them. */
Test(closure_sender, values_that_are_kept_for_a_replay_count_once)
{
    fixture_t *self = cluster(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_results_t *results = schedule(self, NULL, NULL);
    schedule(self, results, NULL);
    schedule(self, results, results);
    fixture_turn(self);
    done_with(self, &worker, 1, 1, BIG);
    cr_expect_eq(self->core.replay.size_bytes, 0, "it pushed nothing");
    for (uint64_t id = 2; id <= 3; id++) {
        cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_CLOSURE_DONE);
        message.closure_done = (cadre_closure_done_message_t){.id = id, .attempt = 1, .updates = 1};
        fixture_say(self, &worker, &message);
    }
    cr_expect_gt(self->core.replay.size_bytes, 8 * BIG);
    cr_expect_lt(self->core.replay.size_bytes, 2 * 8 * BIG);
    cadre_replay_commit(&self->core.replay, 4, 1, 0);
    cr_expect_eq(self->core.replay.old_bytes, self->core.replay.size_bytes);
    cadre_replay_commit(&self->core.replay, 4, 3, 0);
    cr_expect_gt(self->core.replay.size_bytes, 8 * BIG, "the second has it still");
    cadre_replay_commit(&self->core.replay, 4, 4, 0);
    cr_expect_eq(self->core.replay.size_bytes, 0);
    fixture_destroy(&self);
}
