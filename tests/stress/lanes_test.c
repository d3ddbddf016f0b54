/* lanes_test - runs of all lengths on a pool of lanes, for the thread sanitizer to watch. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "ps/lane_pool.h"

enum { LANES = 4, RUNS = 20000, COUNT_MAX = 64 };

static void
add_one(void *argument, size_t index)
{
    long *numbers = argument;
    numbers[index]++;
}

int
main(void)
{
    long numbers[COUNT_MAX] = {0};
    long wanted[COUNT_MAX] = {0};
    cadre_lane_pool_t *pool = NULL;
    if (cadre_lane_pool_open(LANES, &pool) < 0) {
        fprintf(stderr, "no lanes\n");
        return 1;
    }
    cadre_lanes_t lanes = cadre_lane_pool_lanes(pool);
    for (size_t run = 0; run < RUNS; run++) {
        size_t count = run % (COUNT_MAX + 1);
        cadre_lanes_run(&lanes, count, add_one, numbers);
        for (size_t i = 0; i < count; i++) {
            wanted[i]++;
        }
    }
    cadre_lane_pool_destroy(&pool);
    for (size_t i = 0; i < COUNT_MAX; i++) {
        if (numbers[i] != wanted[i]) {
            fprintf(stderr, "index %zu: %ld calls, not %ld\n", i, numbers[i], wanted[i]);
            return 1;
        }
    }
    return 0;
}
