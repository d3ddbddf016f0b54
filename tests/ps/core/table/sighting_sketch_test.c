#include "ps/core/table/sighting_sketch.h"

#include <criterion/criterion.h>

TestSuite(sighting_sketch, .timeout = 240);

Test(sighting_sketch, counts_each_key_exactly_where_there_are_few)
{
    cadre_sighting_sketch_t *sketch = cadre_sighting_sketch_new();
    for (uint64_t key = 0; key < 1000; key++) {
        for (uint64_t i = 1; i <= key % 7; i++) {
            cr_assert_eq(cadre_sighting_sketch_see(sketch, key), i);
        }
    }
    for (uint64_t key = 0; key < 1000; key++) {
        cr_assert_eq(cadre_sighting_sketch_count(sketch, key), key % 7);
    }
    cadre_sighting_sketch_destroy(&sketch);
}

Test(sighting_sketch, never_counts_too_low_and_seldom_too_high)
{
    enum { KEYS = 200000 };
    cadre_sighting_sketch_t *sketch = cadre_sighting_sketch_new();
    for (uint64_t key = 0; key < KEYS; key++) {
        cadre_sighting_sketch_see(sketch, key);
    }
    uint64_t too_high = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        cr_assert_geq(cadre_sighting_sketch_count(sketch, key), 1);
        too_high += cadre_sighting_sketch_count(sketch, key) > 1;
    }
    cr_assert_lt(too_high, KEYS / 20);
    cadre_sighting_sketch_destroy(&sketch);
}

Test(sighting_sketch, stops_at_what_a_byte_holds)
{
    cadre_sighting_sketch_t *sketch = cadre_sighting_sketch_new();
    for (uint32_t i = 1; i <= 300; i++) {
        cr_assert_eq(cadre_sighting_sketch_see(sketch, 5), i < 255 ? i : 255);
    }
    cadre_sighting_sketch_destroy(&sketch);
}

Test(sighting_sketch, halves_all_counters_after_many_sightings)
{
    cadre_sighting_sketch_t *sketch = cadre_sighting_sketch_new();
    for (int i = 0; i < 100; i++) {
        cadre_sighting_sketch_see(sketch, 1);
    }
    for (int i = 100; i < CADRE_SIGHTING_RESET; i++) {
        cadre_sighting_sketch_see(sketch, 2);
    }
    cr_assert_eq(cadre_sighting_sketch_count(sketch, 1), 100);
    cr_assert_eq(cadre_sighting_sketch_see(sketch, 3), 1);
    cr_assert_eq(cadre_sighting_sketch_count(sketch, 1), 50);
    cadre_sighting_sketch_destroy(&sketch);
}
