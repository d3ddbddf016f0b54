#include "ps/core/table/sighting_sketch.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(sighting_sketch, .timeout = 240);

enum { DOUBLINGS = CADRE_SIGHTING_DOUBLINGS };

/* How many keys the largest layers count. */
static const uint64_t MOST_KEYS = (uint64_t)CADRE_SIGHTING_LAYER_KEYS << DOUBLINGS;

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

/* Each of many keys is seen once, and what is counted for some of them at three times, too. */
Test(sighting_sketch, never_counts_too_low_and_seldom_too_high_however_many_keys_there_are)
{
    enum { KEYS = 2500000, SOME = 1000, TIMES = 3 };
    cadre_sighting_sketch_t *sketch = cadre_sighting_sketch_new();
    uint64_t second = 0;
    uint64_t third = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        const uint32_t count = cadre_sighting_sketch_see(sketch, key);
        cr_assert_geq(count, 1);
        second += count >= 2;
        third += count >= 3;
        if (key % (KEYS / TIMES) < SOME) {
            cadre_sighting_sketch_see(sketch, UINT64_MAX - key % (KEYS / TIMES));
        }
    }
    cr_expect_eq(cadre_sighting_sketch_begun(sketch), 5);
    cr_expect_lt(second, KEYS / 25, "%llu", (unsigned long long)second);
    cr_expect_lt(third, KEYS / 1000, "%llu", (unsigned long long)third);
    cr_expect_lt(cadre_sighting_sketch_size_bytes(sketch), (uint64_t)KEYS * 14);
    for (uint64_t key = 0; key < KEYS; key++) {
        cr_assert_geq(cadre_sighting_sketch_count(sketch, key), 1);
    }
    for (uint64_t key = 0; key < SOME; key++) {
        cr_assert_geq(cadre_sighting_sketch_count(sketch, UINT64_MAX - key), TIMES);
    }
    cadre_sighting_sketch_destroy(&sketch);
}

/* Keys that came before do not raise counters of a key that others have raised already. */
Test(sighting_sketch, adds_no_more_to_a_full_layer_than_it_must)
{
    enum { TIMES = 8 };
    cadre_sighting_sketch_t *sketch = cadre_sighting_sketch_new();
    uint64_t too_high = 0;
    for (int i = 0; i < TIMES; i++) {
        for (uint64_t key = 0; key < CADRE_SIGHTING_LAYER_KEYS; key++) {
            cadre_sighting_sketch_see(sketch, key);
        }
    }
    cr_assert_eq(cadre_sighting_sketch_begun(sketch), 1);
    for (uint64_t key = 0; key < CADRE_SIGHTING_LAYER_KEYS; key++) {
        too_high += cadre_sighting_sketch_count(sketch, key) > TIMES;
    }
    cr_expect_lt(too_high, CADRE_SIGHTING_LAYER_KEYS / 500, "%llu", (unsigned long long)too_high);
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

/* A key that is seen again and again takes the place of one key. */
Test(sighting_sketch, begins_a_layer_after_so_many_keys_not_sightings)
{
    cadre_sighting_sketch_t *sketch = NULL;
    cr_assert_eq(cadre_sighting_sketch_restore(1, CADRE_SIGHTING_LAYER_KEYS - 2, &sketch), 0);
    for (int i = 0; i < 100; i++) {
        cadre_sighting_sketch_see(sketch, 1);
    }
    cadre_sighting_sketch_see(sketch, 2);
    cr_expect_eq(cadre_sighting_sketch_begun(sketch), 1);
    cr_expect_eq(cadre_sighting_sketch_keys(sketch), CADRE_SIGHTING_LAYER_KEYS);
    cr_expect_eq(cadre_sighting_sketch_see(sketch, 3), 1);
    cr_expect_eq(cadre_sighting_sketch_begun(sketch), 2);
    cr_expect_eq(cadre_sighting_sketch_keys(sketch), 1);
    cr_expect_eq(cadre_sighting_sketch_see(sketch, 1), 101, "layers are added");
    cadre_sighting_sketch_destroy(&sketch);
}

/* Returns a key that a layer in which one block is not zero has counted. */
static uint64_t
counted_key(const cadre_sighting_sketch_t *sketch)
{
    uint64_t key = 1000;
    while (cadre_sighting_sketch_count(sketch, key) == 0) {
        key++;
    }
    return key;
}

Test(sighting_sketch, forgets_the_oldest_layers_beyond_its_size_and_uses_their_blocks_again)
{
    uint8_t ones[CADRE_SIGHTING_BLOCK_SIZE];
    cadre_sighting_sketch_t *sketch = NULL;
    memset(ones, 1, sizeof(ones));
    cr_assert_eq(cadre_sighting_sketch_restore(DOUBLINGS + 1, MOST_KEYS - 1, &sketch), 0);
    cr_assert_eq(cadre_sighting_sketch_load(sketch, 0, ones, sizeof(ones)), 0);
    const uint64_t old = counted_key(sketch);
    cr_assert_eq(cadre_sighting_sketch_see(sketch, 1), 1);
    const uint64_t size = cadre_sighting_sketch_size_bytes(sketch);
    cr_assert_eq(cadre_sighting_sketch_begun(sketch), DOUBLINGS + 1);

    cr_assert_eq(cadre_sighting_sketch_see(sketch, 2), 1);
    cr_expect_eq(cadre_sighting_sketch_begun(sketch), DOUBLINGS + 2);
    cr_expect_eq(cadre_sighting_sketch_positions(sketch),
                 CADRE_SIGHTING_SIZE_MAX / CADRE_SIGHTING_BLOCK_SIZE);
    cr_expect_eq(cadre_sighting_sketch_count(sketch, old), 0);
    cr_expect_eq(cadre_sighting_sketch_count(sketch, 1), 1);
    cr_expect_leq(cadre_sighting_sketch_size_bytes(sketch), size + (64 << 10));
    for (uint64_t key = 3; key < 200000; key++) {
        cr_assert_eq(cadre_sighting_sketch_count(sketch, key), 0, "blocks that are used again");
    }
    cadre_sighting_sketch_destroy(&sketch);
}

/* --- copies, saving and loading --- */

Test(sighting_sketch, a_copy_goes_its_own_way)
{
    cadre_sighting_sketch_t *sketch = cadre_sighting_sketch_new();
    for (uint64_t key = 0; key < 1000; key++) {
        cadre_sighting_sketch_see(sketch, key);
    }
    cadre_sighting_sketch_t *copy = cadre_sighting_sketch_copy(sketch);
    for (uint64_t key = 0; key < 500; key++) {
        cadre_sighting_sketch_see(sketch, key);
        cadre_sighting_sketch_see(copy, 999 - key);
    }
    for (uint64_t key = 0; key < 1000; key++) {
        cr_assert_eq(cadre_sighting_sketch_count(sketch, key), key < 500 ? 2 : 1);
        cr_assert_eq(cadre_sighting_sketch_count(copy, key), key < 500 ? 1 : 2);
    }
    cadre_sighting_sketch_destroy(&sketch);
    cr_assert_eq(cadre_sighting_sketch_see(copy, 999), 3);
    cadre_sighting_sketch_destroy(&copy);
}

Test(sighting_sketch, goes_on_from_its_blocks)
{
    enum { KEYS = 200000 };
    cadre_sighting_sketch_t *sketch = cadre_sighting_sketch_new();
    cadre_sighting_sketch_t *loaded = NULL;
    for (uint64_t key = 0; key < KEYS; key++) {
        cadre_sighting_sketch_see(sketch, key);
    }
    cr_assert_eq(cadre_sighting_sketch_restore(cadre_sighting_sketch_begun(sketch),
                                               cadre_sighting_sketch_keys(sketch), &loaded),
                 0);
    const uint32_t positions = cadre_sighting_sketch_positions(sketch);
    cr_assert_eq(positions, 3 * CADRE_SIGHTING_FIRST_BLOCKS);
    for (uint32_t i = 0; i < positions; i++) {
        const cadre_chunk_t *block = cadre_sighting_sketch_block(sketch, i);
        cr_assert_eq(cadre_sighting_sketch_load(loaded, i, cadre_chunk_data(block),
                                                cadre_chunk_size_bytes(block)),
                     0);
    }
    for (uint64_t key = 0; key < 2 * KEYS; key++) {
        cr_assert_eq(cadre_sighting_sketch_see(sketch, key),
                     cadre_sighting_sketch_see(loaded, key));
    }
    cr_expect_eq(cadre_sighting_sketch_size_bytes(sketch),
                 cadre_sighting_sketch_size_bytes(loaded));
    cadre_sighting_sketch_destroy(&sketch);
    cadre_sighting_sketch_destroy(&loaded);
}

Test(sighting_sketch, refuses_what_no_sketch_has)
{
    static const uint8_t zeros[CADRE_SIGHTING_BLOCK_SIZE];
    cadre_sighting_sketch_t *sketch = NULL;
    cr_expect_eq(cadre_sighting_sketch_restore(0, 0, &sketch), CADRE_ECORRUPT);
    cr_expect_eq(cadre_sighting_sketch_restore(UINT64_MAX, 0, &sketch), CADRE_ECORRUPT);
    cr_expect_eq(cadre_sighting_sketch_restore(1, CADRE_SIGHTING_LAYER_KEYS + 1, &sketch),
                 CADRE_ECORRUPT);
    cr_assert_eq(cadre_sighting_sketch_restore(1, CADRE_SIGHTING_LAYER_KEYS, &sketch), 0);
    cr_expect_eq(
        cadre_sighting_sketch_load(sketch, CADRE_SIGHTING_FIRST_BLOCKS, zeros, sizeof(zeros)),
        CADRE_ECORRUPT);
    cr_expect_eq(cadre_sighting_sketch_load(sketch, 0, zeros, sizeof(zeros) - 1), CADRE_ECORRUPT);
    cr_expect_eq(cadre_sighting_sketch_load(sketch, 0, zeros, sizeof(zeros)), 0);
    cr_expect_eq(cadre_sighting_sketch_load(sketch, 0, zeros, sizeof(zeros)), CADRE_ECORRUPT);
    cadre_sighting_sketch_destroy(&sketch);
}
