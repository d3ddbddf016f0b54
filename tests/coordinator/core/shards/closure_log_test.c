#include "coordinator/core/shards/closure_log.h"

#include <criterion/criterion.h>

#include "common/base/random.h"
#include "common/system/clock.h"

TestSuite(closure_log, .timeout = 240);

static cadre_closure_t *
new_closure(uint64_t number)
{
    cadre_closure_t *closure = cadre_closure_new(1);
    closure->number = number;
    return closure;
}

static void
drain(cadre_closure_log_t *log)
{
    cadre_closure_t *closure = NULL;
    while ((closure = cadre_closure_log_first(log))) {
        cadre_closure_log_take(log, closure);
        cadre_closure_destroy(&closure);
    }
    cadre_closure_log_fini(log);
}

Test(closure_log, an_empty_one_has_no_first)
{
    cadre_closure_log_t log = {.count = 0};
    cr_assert_null(cadre_closure_log_first(&log));
    cadre_closure_log_fini(&log);
}

Test(closure_log, gives_what_came_in_any_order_by_number)
{
    enum { COUNT = 5000, SPARSE = 37 };
    cadre_closure_log_t log = {.count = 0};
    cadre_random_t random;
    uint64_t numbers[COUNT];
    cadre_random_init(&random, 7, 1);
    for (uint64_t i = 0; i < COUNT; i++) {
        numbers[i] = 1 + SPARSE * i;
    }
    for (uint64_t i = COUNT - 1; i > 0; i--) {
        uint64_t other = cadre_random_below(&random, i + 1);
        uint64_t kept = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = kept;
    }
    for (size_t i = 0; i < COUNT; i++) {
        cadre_closure_log_put(&log, new_closure(numbers[i]));
    }
    cr_assert_eq(log.count, COUNT);
    uint64_t expected = 1;
    const cadre_closure_t *closure = cadre_closure_log_first(&log);
    for (; closure; closure = cadre_closure_log_next(&log, closure)) {
        cr_assert_eq(closure->number, expected);
        expected += SPARSE;
    }
    cr_assert_eq(expected, 1 + SPARSE * COUNT);
    drain(&log);
}

Test(closure_log, what_is_taken_out_may_come_back_in_front_of_the_first)
{
    cadre_closure_log_t log = {.count = 0};
    for (uint64_t number = 5000; number < 5010; number++) {
        cadre_closure_log_put(&log, new_closure(number));
    }
    cadre_closure_t *first = cadre_closure_log_first(&log);
    cadre_closure_log_take(&log, first);
    cr_assert_eq(cadre_closure_log_first(&log)->number, 5001);
    cadre_closure_log_put(&log, first);
    cr_assert_eq(cadre_closure_log_first(&log)->number, 5000);
    cadre_closure_log_put(&log, new_closure(3)); /* far below every block */
    cr_assert_eq(cadre_closure_log_first(&log)->number, 3);
    cr_assert_eq(cadre_closure_log_next(&log, cadre_closure_log_first(&log))->number, 5000);
    drain(&log);
}

/* With a sorted list each took milliseconds at this distance: minutes for all of them. */
Test(closure_log, closures_that_end_very_late_cost_what_others_cost)
{
    enum { COUNT = 400000, LATE = 20000, FIRST_LATE = COUNT / 2 };
    cadre_closure_log_t log = {.count = 0};
    for (uint64_t number = 1; number <= COUNT; number++) {
        if (number < FIRST_LATE || number >= FIRST_LATE + LATE) {
            cadre_closure_log_put(&log, new_closure(number));
        }
    }
    int64_t begin_ms = cadre_clock_now_ms();
    for (uint64_t number = FIRST_LATE; number < FIRST_LATE + LATE; number++) {
        cadre_closure_log_put(&log, new_closure(number));
    }
    cr_assert_lt(cadre_clock_now_ms() - begin_ms, 5000);
    cr_assert_eq(log.count, COUNT);
    drain(&log);
}
