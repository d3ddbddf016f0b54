/*
 * The shim itself: that threads take turns as told, and that wrong kernels are found out.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/worker/cuda_shim/shim/shim.h"
#include "tests/worker/cuda_shim/shim_kernels.h"

enum { BLOCKS = 3, THREADS = 96, COUNT = BLOCKS * THREADS };

TestSuite(shim, .timeout = 240);

static const cadre_shim_order_t orders[] = {CADRE_SHIM_FORWARD, CADRE_SHIM_BACKWARD,
                                            CADRE_SHIM_RANDOM};

Test(shim, runs_threads_and_blocks_in_the_order_that_was_set)
{
    int began[COUNT];
    cadre_shim_set_order(CADRE_SHIM_FORWARD, 0);
    cr_assert_eq(shim_kernel_order(began, BLOCKS, THREADS), 0);
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(began[i], i);
    }
    cadre_shim_set_order(CADRE_SHIM_BACKWARD, 0);
    cr_assert_eq(shim_kernel_order(began, BLOCKS, THREADS), 0);
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(began[i], COUNT - 1 - i);
    }
}

Test(shim, a_random_order_runs_each_thread_once_and_follows_its_seed)
{
    int first[COUNT];
    int again[COUNT];
    int other[COUNT];
    cadre_shim_set_order(CADRE_SHIM_RANDOM, 1);
    cr_assert_eq(shim_kernel_order(first, BLOCKS, THREADS), 0);
    cadre_shim_set_order(CADRE_SHIM_RANDOM, 1);
    cr_assert_eq(shim_kernel_order(again, BLOCKS, THREADS), 0);
    cadre_shim_set_order(CADRE_SHIM_RANDOM, 2);
    cr_assert_eq(shim_kernel_order(other, BLOCKS, THREADS), 0);
    cr_assert_eq(memcmp(first, again, sizeof(first)), 0);
    cr_assert_neq(memcmp(first, other, sizeof(first)), 0);
    int seen[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        seen[first[i]]++;
    }
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(seen[i], 1);
    }
}

Test(shim, a_barrier_holds_all_threads_of_a_block_in_each_order)
{
    for (int order = 0; order < 3; order++) {
        cadre_shim_set_order(orders[order], 5);
        int out[COUNT];
        cr_assert_eq(shim_kernel_reverse(out, BLOCKS, THREADS, 1), 0);
        for (int i = 0; i < COUNT; i++) {
            cr_assert_eq(out[i], THREADS - 1 - i % THREADS);
        }
        cr_assert_eq(shim_kernel_reverse(out, BLOCKS, THREADS, 0), 0);
        int wrong = 0;
        for (int i = 0; i < COUNT; i++) {
            wrong += out[i] != THREADS - 1 - i % THREADS;
        }
        cr_assert_gt(wrong, 0);
    }
    cr_assert_eq(cadre_shim_waits(), 3 * COUNT);
}

Test(shim, shared_memory_is_poison_when_a_block_begins)
{
    int found[BLOCKS];
    for (int launch = 0; launch < 2; launch++) {
        cr_assert_eq(shim_kernel_finds_poison(found, BLOCKS, THREADS), 0);
        for (int i = 0; i < BLOCKS; i++) {
            cr_assert_eq(found[i], 1);
        }
    }
}

Test(shim, lanes_of_a_warp_swap_values)
{
    for (int order = 0; order < 3; order++) {
        cadre_shim_set_order(orders[order], 5);
        int out[COUNT];
        cr_assert_eq(shim_kernel_sum_xor(out, BLOCKS, THREADS), 0);
        for (int i = 0; i < COUNT; i++) {
            cr_assert_eq(out[i], 31 * 32 / 2);
        }
        cr_assert_eq(shim_kernel_sum_down(out, BLOCKS, THREADS), 0);
        for (int i = 0; i < COUNT; i++) {
            cr_assert_eq(out[i], 31 * 32 / 2);
        }
        int key[COUNT];
        for (int i = 0; i < COUNT; i++) {
            key[i] = i * i % 7;
        }
        cr_assert_eq(shim_kernel_rank_in_match(key, out, BLOCKS, THREADS), 0);
        for (int i = 0; i < COUNT; i++) {
            int rank = 0;
            for (int k = i / 32 * 32; k < i; k++) {
                rank += key[k] == key[i];
            }
            cr_assert_eq(out[i], rank);
        }
        cr_assert_eq(shim_kernel_atomic_sum(out, BLOCKS, THREADS), 0);
        cr_assert_eq(out[0], COUNT * (COUNT - 1) / 2);
    }
}

static void
expect_fault(int status, const char *text)
{
    cr_assert_lt(status, 0);
    const char *fault = cadre_shim_take_fault();
    cr_assert_not_null(fault);
    cr_assert_not_null(strstr(fault, text), "%s", fault);
    cr_assert_not_null(strstr(fault, "shim_kernels.cpp:"), "%s", fault);
    cr_assert_null(cadre_shim_take_fault());
}

Test(shim, finds_barriers_and_warp_operations_that_not_all_reach)
{
    for (int order = 0; order < 3; order++) {
        int out[COUNT];
        cadre_shim_set_order(orders[order], 5);
        expect_fault(shim_kernel_some_skip_barrier(out, BLOCKS, THREADS), "not all threads");
        expect_fault(shim_kernel_different_barriers(out, BLOCKS, THREADS), "different barriers");
        expect_fault(shim_kernel_some_skip_shuffle(out, BLOCKS, THREADS), "not all lanes");
        expect_fault(shim_kernel_foreign_mask(out, BLOCKS, THREADS), "leaves it out");
        expect_fault(shim_kernel_sum_xor(out, 1, 40), "there is not");
        /* And goes on after each. */
        cr_assert_eq(shim_kernel_reverse(out, BLOCKS, THREADS, 1), 0);
        cr_assert_eq(out[0], THREADS - 1);
    }
}

Test(shim, runs_nothing_after_a_fault_until_it_is_taken)
{
    int out[COUNT];
    cr_assert_lt(shim_kernel_some_skip_barrier(out, BLOCKS, THREADS), 0);
    cr_assert_lt(shim_kernel_reverse(out, BLOCKS, THREADS, 1), 0);
    cr_assert_not_null(cadre_shim_take_fault());
    cr_assert_eq(shim_kernel_reverse(out, BLOCKS, THREADS, 1), 0);
}

Test(shim, refuses_launches_that_no_gpu_takes)
{
    int out[1];
    cr_assert_lt(shim_kernel_atomic_sum(out, 0, 32), 0);
    cr_assert_not_null(cadre_shim_take_fault());
    cr_assert_lt(shim_kernel_atomic_sum(out, 1, CADRE_SHIM_BLOCK_MAX + 1), 0);
    cr_assert_not_null(cadre_shim_take_fault());
    cr_assert_eq(shim_kernel_atomic_sum(out, 1, CADRE_SHIM_BLOCK_MAX), 0);
}
