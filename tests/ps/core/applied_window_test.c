#include "ps/core/applied_window.h"

#include <criterion/criterion.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"

TestSuite(applied_window, .timeout = 240);

static bool
is_applied(const cadre_applied_window_t *window, uint64_t id)
{
    return cadre_applied_window_check(window, id) == CADRE_EDUPLICATE;
}

Test(applied_window, says_duplicate_to_an_id_it_has_seen)
{
    cadre_auto(cadre_applied_window_destroy) cadre_applied_window_t *window =
        cadre_applied_window_new(0);
    cr_assert_eq(cadre_applied_window_check(window, 5), 0);
    cr_assert_eq(cadre_applied_window_mark(window, 5), 0);
    cr_assert_eq(cadre_applied_window_mark(window, 5), CADRE_EDUPLICATE);
    cr_assert_eq(cadre_applied_window_check(window, 5), CADRE_EDUPLICATE);
    cr_assert_eq(cadre_applied_window_mark(window, 4), 0);
    cr_assert_eq(cadre_applied_window_mark(window, 6), 0);
    cr_assert_eq(cadre_applied_window_count(window), 3);
}

Test(applied_window, checks_without_changing)
{
    cadre_auto(cadre_applied_window_destroy) cadre_applied_window_t *window =
        cadre_applied_window_new(100);
    size_t size_bytes = cadre_applied_window_size_bytes(window);
    cr_assert_eq(cadre_applied_window_check(window, 1000000), 0);
    cr_assert_eq(cadre_applied_window_count(window), 0);
    cr_assert_eq(cadre_applied_window_size_bytes(window), size_bytes);
}

Test(applied_window, treats_everything_below_its_base_as_settled)
{
    cadre_auto(cadre_applied_window_destroy) cadre_applied_window_t *window =
        cadre_applied_window_new(100);
    cr_assert_eq(cadre_applied_window_mark(window, 99), CADRE_EDUPLICATE);
    cr_assert_eq(cadre_applied_window_mark(window, 0), CADRE_EDUPLICATE);
    cr_assert_eq(cadre_applied_window_mark(window, 100), 0);
    cr_assert_eq(cadre_applied_window_mark(window, 102), 0);

    /* 101 was never applied here: once settled it is a duplicate too. */
    cadre_applied_window_set_base(window, 102);
    cr_assert_eq(cadre_applied_window_mark(window, 101), CADRE_EDUPLICATE);
    cr_assert_eq(cadre_applied_window_mark(window, 102), CADRE_EDUPLICATE);
    cr_assert_eq(cadre_applied_window_mark(window, 103), 0);
    cr_assert_eq(cadre_applied_window_count(window), 2);
}

Test(applied_window, never_moves_its_base_by_itself_nor_back)
{
    cadre_auto(cadre_applied_window_destroy) cadre_applied_window_t *window =
        cadre_applied_window_new(10);
    for (uint64_t id = 10; id < 10000; id++) {
        cr_assert_eq(cadre_applied_window_mark(window, id), 0);
    }
    cr_assert_eq(cadre_applied_window_base(window), 10);
    cadre_applied_window_set_base(window, 500);
    cadre_applied_window_set_base(window, 20);
    cr_assert_eq(cadre_applied_window_base(window), 500);
    cr_assert_eq(cadre_applied_window_count(window), 9500);
}

Test(applied_window, refuses_what_it_could_only_forget)
{
    const uint64_t base = 1000;
    cadre_auto(cadre_applied_window_destroy) cadre_applied_window_t *window =
        cadre_applied_window_new(base);
    cr_assert_eq(cadre_applied_window_mark(window, base + CADRE_APPLIED_WINDOW_MAX), CADRE_EFULL);
    cr_assert_eq(cadre_applied_window_mark(window, UINT64_MAX), CADRE_EFULL);
    cr_assert_eq(cadre_applied_window_mark(window, base + CADRE_APPLIED_WINDOW_MAX - 1), 0);
    cr_assert_eq(cadre_applied_window_mark(window, base), 0);
    cr_assert_eq(cadre_applied_window_size_bytes(window), CADRE_APPLIED_WINDOW_MAX / 8);
    cr_assert_eq(cadre_applied_window_mark(window, base + CADRE_APPLIED_WINDOW_MAX), CADRE_EFULL);
    cadre_applied_window_set_base(window, base + 1);
    cr_assert_eq(cadre_applied_window_mark(window, base + CADRE_APPLIED_WINDOW_MAX), 0);
    cr_assert_eq(cadre_applied_window_count(window), 2);
}

Test(applied_window, works_up_to_the_last_id_there_is)
{
    cadre_auto(cadre_applied_window_destroy) cadre_applied_window_t *window =
        cadre_applied_window_new(UINT64_MAX - 100);
    cr_assert_eq(cadre_applied_window_mark(window, UINT64_MAX), 0);
    cr_assert_eq(cadre_applied_window_mark(window, UINT64_MAX), CADRE_EDUPLICATE);
    cadre_applied_window_set_base(window, UINT64_MAX);
    cr_assert_eq(cadre_applied_window_count(window), 1);
}

Test(applied_window, forgets_all_when_it_begins_anew)
{
    cadre_auto(cadre_applied_window_destroy) cadre_applied_window_t *window =
        cadre_applied_window_new(0);
    for (uint64_t id = 0; id < 9000; id++) {
        cadre_applied_window_mark(window, id);
    }
    cadre_applied_window_set_base(window, 4000);
    cadre_applied_window_reset(window, 3000);
    cr_assert_eq(cadre_applied_window_base(window), 3000);
    cr_assert_eq(cadre_applied_window_count(window), 0);
    cr_assert_eq(cadre_applied_window_mark(window, 2999), CADRE_EDUPLICATE);
    cr_assert_eq(cadre_applied_window_mark(window, 3000), 0);
    cr_assert_eq(cadre_applied_window_mark(window, 8000), 0);
}

/* The base lies within a word of the ring, which so holds ids of both its ends when it grows. */
Test(applied_window, keeps_both_ends_of_the_ring_when_it_grows)
{
    for (uint64_t base = 0; base < 130; base++) {
        cadre_auto(cadre_applied_window_destroy) cadre_applied_window_t *window =
            cadre_applied_window_new(base);
        const uint64_t capacity = 8 * cadre_applied_window_size_bytes(window);
        const uint64_t last = base + capacity - 1;
        cr_assert_eq(cadre_applied_window_mark(window, base), 0);
        cr_assert_eq(cadre_applied_window_mark(window, last), 0);
        cr_assert_eq(8 * cadre_applied_window_size_bytes(window), capacity);
        cr_assert_eq(cadre_applied_window_mark(window, last + 1), 0);
        cr_assert_eq(8 * cadre_applied_window_size_bytes(window), 2 * capacity);
        for (uint64_t id = base; id < base + 2 * capacity; id++) {
            cr_assert_eq(is_applied(window, id), id == base || id == last || id == last + 1,
                         "base %d id %d", (int)base, (int)id);
        }
    }
}

/* Against a plain array of flags: marks near and far, settles in small and large steps, from bases
 * on and off a word's border, through several doublings and many turns of the ring. */
Test(applied_window, agrees_with_a_table_that_never_forgets)
{
    enum { IDS = 400000 };
    static bool applied[IDS];
    for (uint64_t seed = 0; seed < 6; seed++) {
        cadre_random_t random;
        cadre_random_init(&random, seed, 0);
        uint64_t base = cadre_random_below(&random, 200);
        const uint64_t spread = UINT64_C(1) << (8 + 2 * seed);
        cadre_auto(cadre_applied_window_destroy) cadre_applied_window_t *window =
            cadre_applied_window_new(base);
        for (uint64_t id = 0; id < IDS; id++) {
            applied[id] = id < base;
        }
        uint64_t count = 0;
        while (base + 2 * spread < IDS) {
            for (int i = 0; i < 40; i++) {
                uint64_t id = base / 2 + base % 2 + cadre_random_below(&random, base / 2 + spread);
                cr_assert_eq(is_applied(window, id), applied[id]);
                cr_assert_eq(cadre_applied_window_mark(window, id),
                             applied[id] ? CADRE_EDUPLICATE : 0, "seed %d id %d base %d", (int)seed,
                             (int)id, (int)base);
                count += !applied[id];
                applied[id] = true;
            }
            uint64_t next = base + cadre_random_below(&random, spread);
            for (; base < next; base++) {
                count -= applied[base];
                applied[base] = true;
            }
            cadre_applied_window_set_base(window, base);
            cr_assert_eq(cadre_applied_window_count(window), count);
        }
        for (uint64_t id = 0; id < IDS; id++) {
            cr_assert_eq(is_applied(window, id), applied[id]);
        }
    }
}
