/*
 * The rules of the closure queue, by the ids of docs/conformance.md (Q). Every test runs with the
 * default capacity and with 2. `put`, `join` and `done` ask the queue as the API's calls do, and
 * answer CADRE_EAGAIN where those would block.
 */
#include "coordinator/core/closures/closure_queue.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "coordinator/gate.h"

TestSuite(closure_queue, .timeout = 240);

#define QUEUE_TEST(name)                                                                           \
    static void name(size_t capacity);                                                             \
    Test(closure_queue, name)                                                                      \
    {                                                                                              \
        name(CADRE_CLOSURE_QUEUE_MAX);                                                             \
        name(2);                                                                                   \
    }                                                                                              \
    static void name(size_t capacity)

enum { ENDED_MAX = 512 };

/* What became of the first closures that ended, told apart by their function. */
typedef struct {
    size_t count;
    uint32_t number[ENDED_MAX];
    int status[ENDED_MAX];
} ended_t;

/* Takes what has ended since the last call; gives `ended`. */
static ended_t *
drain(cadre_closure_queue_t *queue, ended_t *ended)
{
    cadre_closure_t *closure = NULL;
    while ((closure = cadre_closure_queue_take_ended(queue))) {
        cr_assert_eq(closure->state, CADRE_CLOSURE_ENDED);
        if (ended->count < ENDED_MAX) {
            ended->number[ended->count] = closure->function;
            ended->status[ended->count] = closure->end_status;
        }
        ended->count++;
        cadre_closure_destroy(&closure);
    }
    return ended;
}

static int
put_tagged(cadre_closure_queue_t *queue, uint32_t number, uint32_t tag)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    int status = cadre_closure_queue_raise(queue, text);
    if (status < 0) {
        return status;
    }
    cadre_closure_t *closure = cadre_closure_new(number);
    closure->tag = tag;
    status = cadre_closure_queue_put(queue, closure);
    if (status < 0) {
        cadre_closure_destroy(&closure);
    }
    return status;
}

static int
put(cadre_closure_queue_t *queue, uint32_t number)
{
    return put_tagged(queue, number, CADRE_TAG_NONE);
}

static int
join(cadre_closure_queue_t *queue, char *text)
{
    return cadre_closure_queue_done(queue) ? cadre_closure_queue_raise(queue, text) : CADRE_EAGAIN;
}

static int
done(cadre_closure_queue_t *queue, bool *is_done)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    int status = cadre_closure_queue_raise(queue, text);
    *is_done = status == 0 && cadre_closure_queue_done(queue);
    return status == CADRE_EAGAIN ? 0 : status;
}

static cadre_closure_t *
take(cadre_closure_queue_t *queue, uint32_t number)
{
    cadre_closure_t *closure = cadre_closure_queue_take(queue, 0, CADRE_QUEUE_NEW_TOO);
    cr_assert_not_null(closure, "nothing where %u was expected", number);
    cr_assert_eq(closure->function, number, "%u where %u was expected", closure->function, number);
    cr_assert_eq(closure->state, CADRE_CLOSURE_IN_FLIGHT);
    return closure;
}

static void
finish(cadre_closure_queue_t *queue, cadre_closure_t *closure)
{
    cadre_closure_queue_finish(queue, closure, &(cadre_closure_end_t){.status = 0});
}

static void
fail(cadre_closure_queue_t *queue, cadre_closure_t *closure, int status, const char *text)
{
    cadre_closure_queue_finish(queue, closure,
                               &(cadre_closure_end_t){.status = status, .text = text});
}

static void
assert_clean(cadre_closure_queue_t *queue, uint32_t number)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cr_assert_eq(join(queue, text), 0);
    cr_assert_eq(put(queue, number), 0);
    finish(queue, take(queue, number));
    cr_assert_eq(join(queue, text), 0);
}

QUEUE_TEST(Q1_what_was_put_comes_out_and_what_is_put_back_comes_out_again)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    bool is_done = false;
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_null(cadre_closure_queue_take(&queue, 0, CADRE_QUEUE_NEW_TOO));
    cr_assert_eq(put(&queue, 1), 0);
    cadre_closure_t *closure = take(&queue, 1);
    cr_assert_null(cadre_closure_queue_take(&queue, 0, CADRE_QUEUE_NEW_TOO));
    cr_assert_eq(done(&queue, &is_done), 0);
    cr_assert_not(is_done, "done while in flight");
    cr_assert_eq(join(&queue, text), CADRE_EAGAIN);
    cadre_closure_queue_put_back(&queue, closure);
    cr_assert_eq(done(&queue, &is_done), 0);
    cr_assert_not(is_done);
    cr_assert_eq(take(&queue, 1), closure);
    finish(&queue, closure);
    cr_assert_eq(done(&queue, &is_done), 0);
    cr_assert(is_done);
    cr_assert_eq(join(&queue, text), 0);
    cr_assert_eq(drain(&queue, &ended)->count, 1);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q2_two_consumers_that_put_back_their_first_item_process_each_item_its_share)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, capacity);
    int taken[3] = {0};
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put(&queue, 2), 0);
    cadre_closure_t *first = take(&queue, 1);
    cadre_closure_t *second = take(&queue, 2);
    cadre_closure_queue_put_back(&queue, first);
    cadre_closure_queue_put_back(&queue, second);
    for (int i = 0; i < 2; i++) {
        cadre_closure_t *closure =
            cadre_closure_queue_take(&queue, (uint32_t)i, CADRE_QUEUE_NEW_TOO);
        taken[closure->function]++;
        finish(&queue, closure);
    }
    cr_assert_eq(taken[1], 1);
    cr_assert_eq(taken[2], 1);
    cr_assert_eq(drain(&queue, &ended)->count, 2);
    cr_assert(cadre_closure_queue_done(&queue));
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q3_waiting_after_all_has_finished_returns_at_once)
{
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(join(&queue, text), 0, "with nothing scheduled");
    cr_assert_eq(put(&queue, 1), 0);
    finish(&queue, take(&queue, 1));
    cr_assert_eq(join(&queue, text), 0);
    cr_assert_eq(join(&queue, text), 0);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q4_waiting_blocks_until_the_failing_item_in_flight_reports_then_raises_its_error)
{
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    bool is_done = false;
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cadre_closure_t *closure = take(&queue, 1);
    cr_assert_eq(join(&queue, text), CADRE_EAGAIN);
    fail(&queue, closure, CADRE_EDATA, "line 7 is no number");
    cr_assert_eq(join(&queue, text), CADRE_EDATA);
    cr_assert_str_eq(text, "line 7 is no number");
    cr_assert_eq(done(&queue, &is_done), 0);
    cr_assert(is_done);
    cadre_closure_queue_fini(&queue);
}

/* One in flight has failed while two were queued. */
static void
fail_before_two(cadre_closure_queue_t *queue, ended_t *ended)
{
    cr_assert_eq(put(queue, 1), 0);
    cadre_closure_t *closure = take(queue, 1);
    cr_assert_eq(put(queue, 2), 0);
    cr_assert_eq(put(queue, 3), 0);
    fail(queue, closure, CADRE_EFUNCTION, "first");
    cr_assert_eq(drain(queue, ended)->count, 3);
    for (size_t i = 0; i < 3; i++) {
        int expected = ended->number[i] == 1 ? CADRE_EFUNCTION : CADRE_ECANCELLED;
        cr_assert_eq(ended->status[i], expected);
    }
}

QUEUE_TEST(Q5_after_a_failure_the_next_put_raises_it_and_the_queue_is_clean)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, capacity);
    fail_before_two(&queue, &ended);
    cr_assert_eq(put(&queue, 4), CADRE_EFUNCTION);
    assert_clean(&queue, 5);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q6_after_a_failure_waiting_raises_it_and_the_queue_is_clean)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cadre_closure_queue_init(&queue, capacity);
    fail_before_two(&queue, &ended);
    cr_assert_eq(join(&queue, text), CADRE_EFUNCTION);
    assert_clean(&queue, 5);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q7_done_is_false_while_something_is_in_flight_then_raises)
{
    cadre_closure_queue_t queue;
    bool is_done = true;
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put(&queue, 2), 0);
    cadre_closure_t *failing = take(&queue, 1);
    cadre_closure_t *other = take(&queue, 2);
    fail(&queue, failing, CADRE_EFUNCTION, "first");
    cr_assert_eq(done(&queue, &is_done), 0);
    cr_assert_not(is_done);
    finish(&queue, other);
    cr_assert_eq(done(&queue, &is_done), CADRE_EFUNCTION);
    assert_clean(&queue, 5);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q8_the_first_failure_is_raised_only_after_the_other_has_ended)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put(&queue, 2), 0);
    cadre_closure_t *failing = take(&queue, 1);
    cadre_closure_t *other = take(&queue, 2);
    cr_assert_eq(put(&queue, 3), 0);
    fail(&queue, failing, CADRE_EFUNCTION, "first");
    cr_assert_eq(drain(&queue, &ended)->count, 2, "the queued one is cancelled at once");
    cr_assert_eq(join(&queue, text), CADRE_EAGAIN);
    cr_assert_eq(cadre_closure_queue_raise(&queue, text), CADRE_EAGAIN);
    fail(&queue, other, CADRE_ECANCELLED, "cancelled");
    cr_assert_eq(join(&queue, text), CADRE_EFUNCTION);
    cr_assert_str_eq(text, "first", "the cancellation is not counted");
    cadre_closure_queue_fini(&queue);
}

Test(closure_queue, Q8_with_two_failures_the_first_is_raised_and_the_others_are_counted)
{
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    char longest[CADRE_CLOSURE_ERROR_SIZE];
    cadre_closure_t *closures[3];
    cadre_closure_queue_init(&queue, 4);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(put(&queue, i + 1), 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        closures[i] = take(&queue, i + 1);
    }
    fail(&queue, closures[0], CADRE_EFUNCTION, "first");
    fail(&queue, closures[1], CADRE_EDATA, "second");
    cr_assert_eq(join(&queue, text), CADRE_EAGAIN);
    fail(&queue, closures[2], CADRE_EDEVICE, "third");
    cr_assert_eq(join(&queue, text), CADRE_EFUNCTION);
    cr_assert_str_eq(text, "first (and 2 more failed)");
    cr_assert_eq(join(&queue, text), 0);
    /* The count fits behind the longest text there can be. */
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put(&queue, 2), 0);
    closures[0] = take(&queue, 1);
    closures[1] = take(&queue, 2);
    fail(&queue, closures[0], CADRE_EFUNCTION, longest);
    fail(&queue, closures[1], CADRE_EFUNCTION, longest);
    cr_assert_eq(join(&queue, text), CADRE_EFUNCTION);
    cr_assert(strstr(text, "(and 1 more failed)"));
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q9_the_same_through_put_and_the_item_being_put_is_refused)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put(&queue, 2), 0);
    cadre_closure_t *failing = take(&queue, 1);
    cadre_closure_t *other = take(&queue, 2);
    cr_assert_eq(put(&queue, 3), 0);
    fail(&queue, failing, CADRE_EFUNCTION, "first");
    cr_assert_eq(put(&queue, 4), CADRE_EAGAIN, "blocks until the other has ended");
    cadre_closure_queue_put_back(&queue, other);
    cr_assert_eq(drain(&queue, &ended)->count, 3);
    cr_assert_eq(drain(&queue, &ended)->number[2], 2);
    cr_assert_eq(drain(&queue, &ended)->status[2], CADRE_ECANCELLED,
                 "what is put back now is cancelled");
    cr_assert_eq(put(&queue, 4), CADRE_EFUNCTION);
    cr_assert_null(cadre_closure_queue_take(&queue, 0, CADRE_QUEUE_NEW_TOO), "4 was never queued");
    assert_clean(&queue, 5);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q10_an_error_is_raised_once_then_cleared_and_a_new_one_is_raised_again)
{
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    bool is_done = false;
    cadre_closure_queue_init(&queue, capacity);
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(put(&queue, 1), 0);
        fail(&queue, take(&queue, 1), CADRE_EFUNCTION, "again");
        cr_assert_eq(join(&queue, text), CADRE_EFUNCTION);
        cr_assert_str_eq(text, "again");
        cr_assert_eq(join(&queue, text), 0);
        cr_assert_eq(done(&queue, &is_done), 0);
        cr_assert(is_done);
        assert_clean(&queue, 2);
    }
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q12_tagged_work_comes_first_goes_to_its_worker_only_and_join_does_not_wait_for_it)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put_tagged(&queue, 2, 7), 0);
    cr_assert_eq(put_tagged(&queue, 3, 8), 0);
    cadre_closure_t *closure = cadre_closure_queue_take(&queue, 8, CADRE_QUEUE_NEW_TOO);
    cr_assert_eq(closure->function, 3);
    cadre_closure_queue_put_back(&queue, closure);
    cr_assert_eq(cadre_closure_queue_take(&queue, 8, CADRE_QUEUE_NEW_TOO), closure,
                 "put back: for 8 again");
    finish(&queue, take(&queue, 1));
    cr_assert_null(cadre_closure_queue_take(&queue, 0, CADRE_QUEUE_NEW_TOO), "2 is for 7");
    cr_assert_null(cadre_closure_queue_take(&queue, 9, CADRE_QUEUE_NEW_TOO));
    cr_assert(cadre_closure_queue_done(&queue));
    cr_assert_eq(join(&queue, text), 0, "3 in flight and 2 queued are not waited for");
    finish(&queue, closure);
    cadre_closure_queue_close(&queue);
    cr_assert_eq(drain(&queue, &ended)->number[2], 2);
    cr_assert_eq(drain(&queue, &ended)->status[2], CADRE_ECLOSED);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q12_a_failure_of_tagged_work_is_raised_and_waits_for_common_work_in_flight)
{
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put_tagged(&queue, 2, 0), 0);
    cadre_closure_t *tagged = take(&queue, 2);
    cadre_closure_t *common = take(&queue, 1);
    fail(&queue, tagged, CADRE_EFUNCTION, "tagged");
    cr_assert_eq(cadre_closure_queue_raise(&queue, text), CADRE_EAGAIN);
    finish(&queue, common);
    cr_assert_eq(join(&queue, text), CADRE_EFUNCTION);
    cr_assert_str_eq(text, "tagged");
    assert_clean(&queue, 3);
    cadre_closure_queue_fini(&queue);
}

static void
put_with(cadre_closure_queue_t *queue, uint32_t number, cadre_priority_t priority, uint32_t tag)
{
    cadre_closure_t *closure = cadre_closure_new(number);
    closure->priority = priority;
    closure->tag = tag;
    cr_assert_eq(cadre_closure_queue_put(queue, closure), 0, "number %u", number);
}

Test(closure_queue, Q15_what_waits_comes_out_by_priority_and_then_in_order)
{
    static const cadre_priority_t low = CADRE_PRIORITY_LOW;
    static const cadre_priority_t normal = CADRE_PRIORITY_NORMAL;
    static const cadre_priority_t high = CADRE_PRIORITY_HIGH;
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, 100);
    put_with(&queue, 1, low, CADRE_TAG_NONE);
    put_with(&queue, 2, normal, CADRE_TAG_NONE);
    put_with(&queue, 3, high, CADRE_TAG_NONE);
    put_with(&queue, 4, normal, CADRE_TAG_NONE);
    put_with(&queue, 5, high, CADRE_TAG_NONE);
    put_with(&queue, 6, low, 0); /* for the worker that takes: in front, by priority too */
    put_with(&queue, 7, high, 0);
    static const uint32_t order[] = {7, 6, 3, 5, 2, 4, 1};
    cadre_closure_t *taken[7];
    for (size_t i = 0; i < 4; i++) {
        taken[i] = take(&queue, order[i]);
    }
    taken[2]->id = 1; /* begun: it comes before whatever is new */
    cadre_closure_queue_put_back(&queue, taken[2]);
    put_with(&queue, 8, high, CADRE_TAG_NONE);
    taken[2] = take(&queue, 3);
    finish(&queue, take(&queue, 8));
    for (size_t i = 4; i < 7; i++) {
        taken[i] = take(&queue, order[i]);
    }
    for (size_t i = 0; i < 7; i++) {
        finish(&queue, taken[i]);
    }
    cadre_closure_queue_fini(&queue);
}

Test(closure_queue, Q16_a_high_one_finds_room_in_a_queue_that_is_full_with_others)
{
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, 2);
    put_with(&queue, 1, CADRE_PRIORITY_NORMAL, CADRE_TAG_NONE);
    put_with(&queue, 2, CADRE_PRIORITY_LOW, CADRE_TAG_NONE);
    cr_expect_eq(put(&queue, 3), CADRE_EAGAIN);
    put_with(&queue, 4, CADRE_PRIORITY_HIGH, CADRE_TAG_NONE);
    put_with(&queue, 5, CADRE_PRIORITY_HIGH, CADRE_TAG_NONE);
    cadre_closure_t *beyond = cadre_closure_new(6);
    beyond->priority = CADRE_PRIORITY_HIGH;
    cr_expect_eq(cadre_closure_queue_put(&queue, beyond), CADRE_EAGAIN, "it has an end, too");
    cadre_closure_destroy(&beyond);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q13_what_is_put_back_comes_out_before_what_waits)
{
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put(&queue, 2), 0);
    cadre_closure_t *first = take(&queue, 1);
    cadre_closure_t *second = take(&queue, 2);
    cr_assert_eq(put(&queue, 3), 0);
    cr_assert_eq(put(&queue, 4), 0);
    cadre_closure_queue_put_back(&queue, second);
    cadre_closure_queue_put_back(&queue, first);
    for (uint32_t number = 1; number <= 4; number++) {
        finish(&queue, take(&queue, number));
    }
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(Q14_after_a_failure_nothing_queued_is_taken_and_nothing_put_back_is_run_again)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put(&queue, 2), 0);
    cadre_closure_t *failing = take(&queue, 1);
    cadre_closure_t *other = take(&queue, 2);
    cr_assert_eq(put(&queue, 3), 0);
    cr_assert_eq(put(&queue, 4), 0);
    fail(&queue, failing, CADRE_EFUNCTION, "first");
    cr_assert_null(cadre_closure_queue_take(&queue, 0, CADRE_QUEUE_NEW_TOO));
    cadre_closure_queue_put_back(&queue, other);
    cr_assert_null(cadre_closure_queue_take(&queue, 0, CADRE_QUEUE_NEW_TOO));
    cr_assert_eq(drain(&queue, &ended)->count, 4);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(a_full_queue_takes_no_more_until_something_is_taken)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, capacity);
    for (size_t i = 0; i < capacity; i++) {
        cr_assert_eq(put(&queue, 1), 0);
    }
    cr_assert_eq(put(&queue, 2), CADRE_EAGAIN);
    cadre_closure_t *closure = take(&queue, 1);
    cr_assert_eq(put(&queue, 2), 0);
    cr_assert_eq(put(&queue, 3), CADRE_EAGAIN);
    cadre_closure_queue_put_back(&queue, closure);
    cr_assert_eq(queue.lanes.common, capacity + 1, "what was accepted before is not refused now");
    cr_assert_eq(put(&queue, 3), CADRE_EAGAIN);
    cadre_closure_queue_close(&queue);
    cr_assert_eq(drain(&queue, &ended)->count, capacity + 1);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(tagged_work_has_room_of_its_own)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    (void)capacity;
    cadre_closure_queue_init(&queue, 2);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put(&queue, 2), 0);
    cr_assert_eq(put(&queue, 3), CADRE_EAGAIN);
    cr_assert_eq(put_tagged(&queue, 4, 0), 0);
    cr_assert_eq(put_tagged(&queue, 5, 0), 0);
    cr_assert_eq(put_tagged(&queue, 6, 0), CADRE_EAGAIN, "tagged work is bounded too");
    cadre_closure_queue_close(&queue);
    cr_assert_eq(drain(&queue, &ended)->count, 4);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(with_redo_only_nothing_new_comes_out)
{
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put_tagged(&queue, 2, 0), 0);
    cr_assert_null(cadre_closure_queue_take(&queue, 0, UINT64_MAX));
    cadre_closure_t *tagged = take(&queue, 2);
    cadre_closure_t *common = take(&queue, 1);
    tagged->id = 1;
    common->id = 2;
    cr_assert_eq(put(&queue, 3), 0);
    cadre_closure_queue_put_back(&queue, common);
    cadre_closure_queue_put_back(&queue, tagged);
    cr_assert_eq(cadre_closure_queue_take(&queue, 0, UINT64_MAX), tagged);
    cr_assert_eq(cadre_closure_queue_take(&queue, 0, UINT64_MAX), common);
    cr_assert_null(cadre_closure_queue_take(&queue, 0, UINT64_MAX), "3 is new");
    finish(&queue, tagged);
    finish(&queue, common);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(cancel_ends_what_is_queued_and_refuses_new_work_until_the_rest_has_ended)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cadre_closure_queue_init(&queue, capacity);
    cadre_closure_queue_cancel(&queue);
    cr_assert_eq(put(&queue, 1), 0, "with nothing in flight it is over at once");
    cadre_closure_t *closure = take(&queue, 1);
    cr_assert_eq(put(&queue, 2), 0);
    cadre_closure_queue_cancel(&queue);
    cr_assert_eq(drain(&queue, &ended)->count, 1);
    cr_assert_eq(drain(&queue, &ended)->status[0], CADRE_ECANCELLED);
    cr_assert_eq(put(&queue, 3), CADRE_EAGAIN);
    cadre_closure_queue_put_back(&queue, closure);
    cr_assert_eq(drain(&queue, &ended)->count, 2);
    cr_assert_eq(join(&queue, text), 0, "a cancellation is no error");
    assert_clean(&queue, 4);
    cadre_closure_queue_fini(&queue);
}

QUEUE_TEST(a_closure_that_is_queued_again_can_be_finished)
{
    ended_t ended = {0};
    cadre_closure_queue_t queue;
    cadre_closure_queue_init(&queue, capacity);
    cr_assert_eq(put(&queue, 1), 0);
    cr_assert_eq(put(&queue, 2), 0);
    cadre_closure_t *closure = take(&queue, 1);
    cadre_closure_queue_put_back(&queue, closure);
    finish(&queue, closure);
    cr_assert_eq(drain(&queue, &ended)->count, 1);
    finish(&queue, take(&queue, 2));
    cr_assert(cadre_closure_queue_done(&queue));
    cadre_closure_queue_fini(&queue);
}

/* --- Q11 --- */

enum { CONSUMERS = 10, ACTIONS = 20, PUT_BACK_EVERY = 4, WAIT_MS = 120000 };

typedef struct {
    cadre_gate_t *gate;
    cadre_closure_queue_t queue;
    ended_t ended;
} shared_t;

/* Twenty actions: each takes a closure, then puts it back or, three times of four, finishes it. */
static void *
consume(void *argument)
{
    shared_t *shared = argument;
    int64_t deadline_ms = cadre_gate_deadline_ms(WAIT_MS);
    for (int i = 0; i < ACTIONS; i++) {
        cadre_gate_lock(shared->gate);
        cadre_closure_t *closure = NULL;
        int status = 0;
        while (status == 0 &&
               !(closure = cadre_closure_queue_take(&shared->queue, 0, CADRE_QUEUE_NEW_TOO))) {
            status = cadre_gate_wait(shared->gate, deadline_ms);
        }
        cadre_gate_broadcast(shared->gate);
        cadre_gate_unlock_and_wake(shared->gate);
        if (!closure) {
            return argument;
        }
        cadre_gate_lock(shared->gate);
        if (i % PUT_BACK_EVERY == 0) {
            cadre_closure_queue_put_back(&shared->queue, closure);
        } else {
            finish(&shared->queue, closure);
        }
        cadre_gate_broadcast(shared->gate);
        cadre_gate_unlock_and_wake(shared->gate);
    }
    return NULL;
}

QUEUE_TEST(Q11_ten_threads_that_take_put_back_and_finish_drain_the_queue)
{
    enum { CLOSURES = CONSUMERS * (ACTIONS - ACTIONS / PUT_BACK_EVERY) };
    shared_t shared = {.ended = {.count = 0}};
    pthread_t threads[CONSUMERS];
    int64_t deadline_ms = cadre_gate_deadline_ms(WAIT_MS);
    char text[CADRE_CLOSURE_ERROR_SIZE];
    cr_assert_eq(cadre_gate_open(&shared.gate), 0);
    cadre_closure_queue_init(&shared.queue, capacity);
    for (int i = 0; i < CONSUMERS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, consume, &shared), 0);
    }
    cadre_gate_lock(shared.gate);
    int status = 0;
    for (uint32_t i = 0; i < CLOSURES && status == 0; i++) {
        while (status == 0 && put(&shared.queue, i) == CADRE_EAGAIN) {
            status = cadre_gate_wait(shared.gate, deadline_ms);
        }
        cadre_gate_broadcast(shared.gate);
    }
    while (status == 0 && join(&shared.queue, text) == CADRE_EAGAIN) {
        status = cadre_gate_wait(shared.gate, deadline_ms);
    }
    cadre_gate_unlock(shared.gate);
    cr_assert_eq(status, 0);
    for (int i = 0; i < CONSUMERS; i++) {
        void *stuck = NULL;
        pthread_join(threads[i], &stuck);
        cr_assert_null(stuck, "a consumer found nothing to take");
    }
    cr_assert_eq(drain(&shared.queue, &shared.ended)->count, CLOSURES);
    bool seen[CLOSURES] = {false};
    for (size_t i = 0; i < CLOSURES; i++) {
        cr_assert_not(seen[drain(&shared.queue, &shared.ended)->number[i]], "ended twice");
        seen[drain(&shared.queue, &shared.ended)->number[i]] = true;
        cr_assert_eq(drain(&shared.queue, &shared.ended)->status[i], 0);
    }
    cadre_closure_queue_fini(&shared.queue);
    cadre_gate_unref(&shared.gate);
}
