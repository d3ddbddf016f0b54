#include "common/base/u64_map.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/random.h"

TestSuite(u64_map, .timeout = 240);

Test(u64_map, is_empty_when_zeroed)
{
    cadre_u64_map_t map = {0};
    cr_assert_null(cadre_u64_map_get(&map, 1));
    cr_assert_null(cadre_u64_map_take(&map, 1));
    cr_assert_eq(map.count, 0u);
    cadre_u64_map_fini(&map);
}

/* Against a plain array over a small key space, so that keys collide and gaps are closed all the
 * time. */
Test(u64_map, agrees_with_an_array_over_random_operations)
{
    enum { KEYS = 200, OPERATIONS = 200000 };
    static int values[KEYS];
    void *expected[KEYS] = {0};
    size_t count = 0;
    cadre_u64_map_t map = {0};
    cadre_random_t random;
    cadre_random_init(&random, 7, 1);
    for (int i = 0; i < OPERATIONS; i++) {
        uint64_t key = cadre_random_below(&random, KEYS);
        void *value = &values[cadre_random_below(&random, KEYS)];
        switch (cadre_random_below(&random, 3)) {
        case 0:
            cr_assert_eq(cadre_u64_map_put(&map, key, value), expected[key]);
            count += expected[key] ? 0 : 1;
            expected[key] = value;
            break;
        case 1:
            cr_assert_eq(cadre_u64_map_take(&map, key), expected[key]);
            count -= expected[key] ? 1 : 0;
            expected[key] = NULL;
            break;
        default:
            cr_assert_eq(cadre_u64_map_get(&map, key), expected[key]);
        }
        cr_assert_eq(map.count, count);
    }
    size_t walked = 0;
    for (size_t cursor = 0; cadre_u64_map_next(&map, &cursor);) {
        walked++;
    }
    cr_assert_eq(walked, count);
    cadre_u64_map_fini(&map);
}
