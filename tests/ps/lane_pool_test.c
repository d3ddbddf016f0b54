#include "ps/lane_pool.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(lane_pool, .timeout = 240);

enum { COUNT = 1000, RUNS = 2000 };

static void
count_up(void *argument, size_t index)
{
    int *calls = argument;
    calls[index]++;
}

Test(lane_pool, calls_once_for_every_index_run_after_run)
{
    static const unsigned lanes[] = {1, 2, 3, 16, CADRE_LANES_MAX};
    for (size_t i = 0; i < CADRE_COUNT_OF(lanes); i++) {
        static int calls[COUNT];
        cadre_lane_pool_t *pool = NULL;
        cr_assert_eq(cadre_lane_pool_open(lanes[i], &pool), 0, "%s", cadre_error_text());
        cadre_lanes_t all = cadre_lane_pool_lanes(pool);
        int runs = lanes[i] > 16 ? 20 : RUNS;
        for (int run = 0; run < runs; run++) {
            cadre_lanes_run(&all, (size_t)(run % COUNT), count_up, calls);
        }
        for (int k = 0; k < COUNT; k++) {
            int wanted = 0;
            for (int run = 0; run < runs; run++) {
                wanted += run % COUNT > k;
            }
            cr_assert_eq(calls[k], wanted, "%u lanes, index %d", lanes[i], k);
            calls[k] = 0;
        }
        cadre_lane_pool_destroy(&pool);
        cr_assert_null(pool);
    }
}

Test(lane_pool, has_a_limit_with_a_name)
{
    cadre_lane_pool_t *pool = NULL;
    cr_assert_eq(cadre_lane_pool_open(0, &pool), CADRE_EINVALID);
    cr_assert_eq(cadre_lane_pool_open(CADRE_LANES_MAX + 1, &pool), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "257 lanes are not in 1..256");
    cadre_lane_pool_destroy(&pool);
}

Test(lane_pool, without_lanes_the_caller_does_all)
{
    int calls[3] = {0};
    cadre_lanes_t none = {.run = NULL};
    cadre_lanes_run(&none, 3, count_up, calls);
    cr_assert(calls[0] == 1 && calls[1] == 1 && calls[2] == 1);
}
