#include "worker/slot/work_queue.h"

#include <criterion/criterion.h>
#include <pthread.h>

#include "common/system/clock.h"

TestSuite(work_queue, .timeout = 240);

/* A list of `count` works. */
static cadre_work_t *
works(size_t count)
{
    cadre_work_t *first = NULL;
    for (size_t i = count; i > 0; i--) {
        cadre_work_t *work = cadre_work_new(NULL);
        work->examples = i;
        work->next = first;
        first = work;
    }
    return first;
}

Test(work_queue, gives_works_in_order)
{
    cadre_work_queue_t *queue = cadre_work_queue_new();
    cadre_work_queue_put(queue, works(3));
    cadre_work_queue_put(queue, NULL);
    cadre_work_queue_put(queue, works(1));
    const uint64_t expected[] = {1, 2, 3, 1};
    for (size_t i = 0; i < 4; i++) {
        cadre_work_t *work = cadre_work_queue_take(queue, NULL);
        cr_expect_eq(work->examples, expected[i]);
        cadre_work_destroy(&work);
    }
    cr_expect_null(cadre_work_queue_clear(queue));
    cadre_work_queue_destroy(&queue);
}

Test(work_queue, can_be_cleared_and_filled_again)
{
    cadre_work_queue_t *queue = cadre_work_queue_new();
    cadre_work_queue_put(queue, works(2));
    cadre_work_t *work = cadre_work_queue_clear(queue);
    size_t count = 0;
    while (work) {
        cadre_work_t *next = work->next;
        cadre_work_destroy(&work);
        work = next;
        count++;
    }
    cr_expect_eq(count, 2);
    cadre_work_queue_put(queue, works(1));
    work = cadre_work_queue_take(queue, NULL);
    cr_expect_not_null(work);
    cadre_work_destroy(&work);
    cadre_work_queue_put(queue, works(2)); /* destroyed with it */
    cadre_work_queue_destroy(&queue);
}

static void *
take_all(void *argument)
{
    cadre_work_queue_t *queue = argument;
    uint64_t sum = 0;
    cadre_work_t *work = NULL;
    cadre_look_t look = {.mean_us = 0};
    while ((work = cadre_work_queue_take(queue, &look))) {
        sum += work->examples;
        cadre_work_destroy(&work);
    }
    return (void *)(uintptr_t)sum;
}

Test(work_queue, gives_each_work_to_one_of_several_threads)
{
    cadre_work_queue_t *queue = cadre_work_queue_new();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, take_all, queue), 0);
    }
    for (int i = 0; i < 20000; i++) {
        cadre_work_queue_put(queue, works(1 + (size_t)i % 3));
    }
    cadre_work_queue_put(queue, works(1000));
    for (cadre_work_t *rest = works(1); rest;) {
        /* All taken: only then may it be closed, because what is left would be destroyed. */
        cadre_work_t *left = cadre_work_queue_clear(queue);
        if (!left) {
            cadre_work_destroy(&rest);
        } else {
            cadre_work_queue_put(queue, left);
        }
    }
    cadre_work_queue_close(queue);
    uint64_t sum = 0;
    for (int i = 0; i < 4; i++) {
        void *part = NULL;
        cr_assert_eq(pthread_join(threads[i], &part), 0);
        sum += (uint64_t)(uintptr_t)part;
    }
    uint64_t expected = 1000 * 1001 / 2;
    for (uint64_t i = 0; i < 20000; i++) {
        expected += (1 + i % 3) * (2 + i % 3) / 2;
    }
    cr_expect_eq(sum, expected);
    cadre_work_queue_destroy(&queue);
}

enum { REST_US = 30000, LONG_US = 200 * 1000000, LONG_MS = 100000 };

/* Rests, and returns for how long, in milliseconds. */
static int64_t
rest(cadre_work_queue_t *queue, size_t low, uint32_t rest_us)
{
    int64_t begun_ms = cadre_clock_now_ms();
    cadre_work_queue_rest(queue, low, rest_us);
    return cadre_clock_now_ms() - begun_ms;
}

Test(work_queue, lets_rest_for_the_time_only_while_works_wait)
{
    cadre_work_queue_t *queue = cadre_work_queue_new();
    cr_expect_lt(rest(queue, 1, LONG_US), LONG_MS, "none waits");
    cadre_work_queue_put(queue, works(3));
    cr_expect_lt(rest(queue, 4, LONG_US), LONG_MS, "below");
    cr_expect_geq(rest(queue, 3, REST_US), REST_US / 1000 - 1, "at the number");
    cadre_work_t *work = cadre_work_queue_clear(queue);
    cr_expect_lt(rest(queue, 1, LONG_US), LONG_MS, "cleared");
    cadre_work_queue_put(queue, work);
    cadre_work_queue_destroy(&queue);
}

static void *
take_one(void *argument)
{
    cadre_work_t *work = cadre_work_queue_take(argument, NULL);
    cadre_work_destroy(&work);
    return NULL;
}

static void *
disturb(void *argument)
{
    cadre_work_queue_disturb(argument);
    return NULL;
}

/* Rests while another thread does something; returns for how long. */
static int64_t
rest_beside(cadre_work_queue_t *queue, size_t low, void *(*does)(void *))
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, does, queue), 0);
    int64_t rested_ms = rest(queue, low, LONG_US);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    return rested_ms;
}

Test(work_queue, a_rest_ends_when_slots_have_taken_enough_and_when_it_is_disturbed)
{
    cadre_work_queue_t *queue = cadre_work_queue_new();
    cadre_work_queue_put(queue, works(3));
    cr_expect_lt(rest_beside(queue, 3, take_one), LONG_MS);
    cr_expect_lt(rest_beside(queue, 1, disturb), LONG_MS);
    cadre_work_queue_disturb(queue);
    cr_expect_lt(rest(queue, 1, LONG_US), LONG_MS, "disturbed before it began");
    cr_expect_geq(rest(queue, 1, REST_US), REST_US / 1000 - 1, "only the next one");
    cadre_work_queue_destroy(&queue);
}

Test(work_queue, the_first_failure_of_a_work_stays)
{
    cadre_work_t *work = cadre_work_new(NULL);
    cadre_work_end(work, 0, CADRE_FAILURE_USER, "");
    cr_expect_eq(work->status, 0);
    cadre_work_end(work, CADRE_EUNAVAILABLE, CADRE_FAILURE_SHARD, "ps 1");
    cadre_work_end(work, CADRE_EFUNCTION, CADRE_FAILURE_USER, "and then");
    cr_expect_eq(work->status, CADRE_EUNAVAILABLE);
    cr_expect_eq(work->failure, CADRE_FAILURE_SHARD);
    cr_expect_str_eq(work->text, "ps 1");
    cadre_work_destroy(&work);
}
