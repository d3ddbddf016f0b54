#include "common/base/permutation.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/memory.h"

TestSuite(permutation, .timeout = 240);

static void
check_bijection(uint64_t count, uint64_t seed, uint64_t epoch)
{
    cadre_permutation_t order;
    cadre_permutation_init(&order, count, seed, epoch);
    cadre_auto(cadre_free) bool *seen = cadre_calloc(count, sizeof(*seen));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row = cadre_permutation_at(&order, i);
        cr_assert_lt(row, count, "count %" PRIu64, count);
        cr_assert_not(seen[row], "count %" PRIu64 ": %" PRIu64 " comes twice", count, row);
        seen[row] = true;
    }
}

Test(permutation, visits_each_number_once_for_every_small_count)
{
    for (uint64_t count = 0; count <= 300; count++) {
        for (uint64_t seed = 0; seed < 10; seed++) {
            check_bijection(count, seed, 3 * seed);
        }
    }
}

Test(permutation, visits_each_number_once_beside_powers_of_two)
{
    for (int bits = 1; bits <= 17; bits++) {
        uint64_t power = UINT64_C(1) << bits;
        check_bijection(power - 1, 7, 1);
        check_bijection(power, 7, 1);
        check_bijection(power + 1, 7, 1);
    }
    check_bijection(100000, UINT64_MAX, UINT64_MAX);
}

Test(permutation, works_at_the_largest_count)
{
    cadre_permutation_t order;
    uint64_t count = UINT64_C(1) << 62;
    cadre_permutation_init(&order, count, 1, 1);
    uint64_t high = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        cr_assert_lt(cadre_permutation_at(&order, count - 1 - i), count);
        high += cadre_permutation_at(&order, i) >= count / 2;
    }
    cr_assert(high > 400 && high < 600, "%" PRIu64 " of 1000 are in the upper half", high);
}

Test(permutation, refuses_a_position_at_the_count, .signal = SIGABRT)
{
    cadre_permutation_t order;
    cadre_permutation_init(&order, 5, 1, 1);
    cadre_permutation_at(&order, 5);
}

/* How many positions hold the same number in both orders. */
static uint64_t
same_places(uint64_t count, uint64_t seed, uint64_t epoch, uint64_t other_seed,
            uint64_t other_epoch)
{
    cadre_permutation_t left;
    cadre_permutation_t right;
    cadre_permutation_init(&left, count, seed, epoch);
    cadre_permutation_init(&right, count, other_seed, other_epoch);
    uint64_t same = 0;
    for (uint64_t i = 0; i < count; i++) {
        same += cadre_permutation_at(&left, i) == cadre_permutation_at(&right, i);
    }
    return same;
}

Test(permutation, repeats_itself_and_differs_by_seed_and_by_epoch)
{
    cr_assert_eq(same_places(10000, 1, 2, 1, 2), 10000);
    cr_assert_lt(same_places(10000, 1, 2, 2, 2), 10);
    cr_assert_lt(same_places(10000, 1, 2, 1, 3), 10);
    cr_assert_lt(same_places(10000, 1, 2, 2, 1), 10);
    cr_assert_lt(same_places(10000, 1, 2, 1 + (UINT64_C(1) << 32), 2), 10);
    cr_assert_lt(same_places(10000, 1, 2, 1, 2 + (UINT64_C(1) << 32)), 10);
}

/* The order is part of what a resumed job relies on: a change here changes running jobs. The
 * numbers come from a second implementation, in Python. */
Test(permutation, keeps_its_order_from_release_to_release)
{
    static const uint64_t expected[] = {1, 5, 2, 3, 0, 8, 4, 7, 6, 9};
    cadre_permutation_t order;
    cadre_permutation_init(&order, 10, 42, 1);
    for (uint64_t i = 0; i < CADRE_COUNT_OF(expected); i++) {
        cr_expect_eq(cadre_permutation_at(&order, i), expected[i], "%" PRIu64 ": %" PRIu64, i,
                     cadre_permutation_at(&order, i));
    }
}

/* In a good shuffle the number at a position says nothing about the position: each of 16 x 16
 * cells (sixteenth of the positions, sixteenth of the numbers) gets 1/256 of all. The sum over the
 * cells of (got - expected)^2 / expected is then about 225 with a deviation of 21. */
Test(permutation, looks_shuffled)
{
    enum { CELLS = 16, PER_CELL = 64 };
    const uint64_t count = CELLS * CELLS * PER_CELL - 5;
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        cadre_permutation_t order;
        cadre_permutation_init(&order, count, 5, epoch);
        int got[CELLS][CELLS] = {{0}};
        uint64_t neighbours = 0;
        uint64_t before = UINT64_MAX - 1;
        for (uint64_t i = 0; i < count; i++) {
            uint64_t row = cadre_permutation_at(&order, i);
            got[i * CELLS / count][row * CELLS / count]++;
            neighbours += row == before + 1;
            before = row;
        }
        double sum = 0;
        for (int i = 0; i < CELLS * CELLS; i++) {
            double off = got[i / CELLS][i % CELLS] - PER_CELL;
            sum += off * off / PER_CELL;
        }
        cr_expect(sum > 130 && sum < 330, "epoch %" PRIu64 ": %f", epoch, sum);
        cr_expect_lt(neighbours, 10, "epoch %" PRIu64 ": %" PRIu64, epoch, neighbours);
    }
}

/* Small counts are the weak side of a Feistel network: all orders of 4 must turn up. */
Test(permutation, gives_every_order_of_four)
{
    bool seen[256] = {false};
    int orders = 0;
    for (uint64_t epoch = 0; epoch < 2000; epoch++) {
        cadre_permutation_t order;
        cadre_permutation_init(&order, 4, 9, epoch);
        uint64_t code = 0;
        for (uint64_t i = 0; i < 4; i++) {
            code = code * 4 + cadre_permutation_at(&order, i);
        }
        orders += !seen[code];
        seen[code] = true;
    }
    cr_assert_eq(orders, 24, "%d", orders);
}
