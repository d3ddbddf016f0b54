#include "ps/core/table/row_index.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/spec/table_spec.h"

TestSuite(row_index, .timeout = 240);

/* Pages with rows that have a key and four bytes, and their index. */
typedef struct {
    cadre_chunk_pool_t *pool;
    cadre_row_pages_t *pages;
    cadre_row_index_t *index;
} fixture_t;

static fixture_t
set_up(void)
{
    const cadre_row_layout_t layout = {.value_size = 4};
    fixture_t f = {.pool = cadre_chunk_pool_new(1 << 20)};
    f.pages = cadre_row_pages_new(&layout, f.pool);
    f.index = cadre_row_index_new(f.pages);
    return f;
}

static void
tear_down(fixture_t *f)
{
    cadre_row_index_destroy(&f->index);
    cadre_row_pages_destroy(&f->pages);
    cadre_chunk_pool_destroy(&f->pool);
}

static uint32_t
add(fixture_t *f, uint64_t key)
{
    const uint32_t row = cadre_row_pages_add(f->pages, key);
    cadre_row_index_add(f->index, row);
    return row;
}

static void
drop(fixture_t *f, uint32_t row)
{
    cadre_row_index_remove(f->index, row);
    cadre_row_pages_remove(f->pages, row);
}

/* The key whose mixed bits are `hash`: SplitMix64's finalizer backwards. */
static uint64_t
key_of_hash(uint64_t hash)
{
    hash = (hash ^ hash >> 31 ^ hash >> 62) * UINT64_C(0x319642B2D24D8EC3);
    hash = (hash ^ hash >> 27 ^ hash >> 54) * UINT64_C(0x96DE1B173F119089);
    return hash ^ hash >> 30 ^ hash >> 60;
}

static void
check_all(const fixture_t *f, size_t count, const uint64_t *keys, const uint32_t *expected)
{
    uint32_t *found = cadre_calloc(count, sizeof(*found));
    cadre_row_index_find_all(f->index, count, keys, found);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(found[i], expected[i], "key %zu", i);
        cr_assert_eq(cadre_row_index_find(f->index, keys[i]), expected[i]);
    }
    free(found);
}

/* Random additions and removals beside an array of so many keys; first more of the ones, then of
 * the others. */
static void
follow_an_array(uint64_t seed, size_t count, uint64_t distance)
{
    const size_t operations = 7 * count;
    fixture_t f = set_up();
    uint64_t *keys = cadre_calloc(count, sizeof(*keys));
    uint32_t *rows = cadre_calloc(count, sizeof(*rows));
    for (size_t i = 0; i < count; i++) {
        keys[i] = distance > 0 ? i * distance : key_of_hash((uint64_t)i << 40 | 77);
        rows[i] = CADRE_ROW_NONE;
    }

    cadre_random_t random;
    cadre_random_init(&random, seed, 1);
    for (size_t i = 0; i < operations; i++) {
        const size_t key = cadre_random_below(&random, count);
        const bool grow = cadre_random_below(&random, 10) < (i < operations / 2 ? 8 : 2);
        if (grow && rows[key] == CADRE_ROW_NONE) {
            rows[key] = add(&f, keys[key]);
        } else if (!grow && rows[key] != CADRE_ROW_NONE) {
            drop(&f, rows[key]);
            rows[key] = CADRE_ROW_NONE;
        }
        if (i % 40000 == 39999) {
            check_all(&f, count, keys, rows);
        }
    }
    check_all(&f, count, keys, rows);

    free(keys);
    free(rows);
    tear_down(&f);
}

Test(row_index, finds_what_was_added_and_not_removed)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        follow_an_array(seed, 30000, 1);
        follow_an_array(seed, 30000, UINT64_C(1) << 48);
    }
}

Test(row_index, finds_keys_that_were_made_to_have_the_same_bits)
{
    follow_an_array(5, 6000, 0); /* each is looked for among all */
}

Test(row_index, keeps_its_list_short_for_keys_that_were_made_to_have_the_same_bits)
{
    enum { KEYS = 20000 };
    fixture_t f = set_up();
    for (uint64_t i = 0; i < KEYS; i++) {
        add(&f, key_of_hash(i << 40 | 77));
    }
    cr_assert_lt(cadre_row_index_size_bytes(f.index), KEYS * 8 + 4096);
    tear_down(&f);
}

Test(row_index, takes_at_most_eight_bytes_for_a_key_at_any_size)
{
    enum { KEYS = 300000 };
    fixture_t f = set_up();
    for (uint64_t i = 1; i <= KEYS; i++) {
        add(&f, i);
        if (i > 1000 && i % 1000 == 0) {
            cr_assert_lt((double)cadre_row_index_size_bytes(f.index) / (double)i, 8.5, "%llu keys",
                         (unsigned long long)i);
        }
    }
    tear_down(&f);
}

Test(row_index, takes_as_many_bytes_with_room_that_was_made_ahead)
{
    enum { KEYS = 300000 };
    for (uint64_t reserved = 0; reserved <= KEYS; reserved += KEYS / 2) {
        fixture_t f = set_up();
        cadre_row_index_reserve(f.index, reserved);
        const uint64_t before = cadre_row_index_size_bytes(f.index);
        cr_assert_geq(before, reserved * 5);
        for (uint64_t i = 1; i <= KEYS; i++) {
            cr_assert_eq(add(&f, i), i - 1);
        }
        const uint64_t after = cadre_row_index_size_bytes(f.index);
        cr_assert_lt((double)after / KEYS, 8.5);
        cr_assert(reserved < KEYS || after == before, "no segment was split or written again");
        for (uint64_t i = 1; i <= KEYS; i++) {
            cr_assert_eq(cadre_row_index_find(f.index, i), i - 1);
        }
        tear_down(&f);
    }
}

/* With one number of keys at which all are split it is five at 33,280 already, and more later. */
Test(row_index, splits_few_segments_for_some_hundred_keys)
{
    enum { KEYS = 1 << 21, RUN = 256, SPLITS_MAX = 4 };
    fixture_t f = set_up();
    for (uint64_t first = 0; first < KEYS; first += RUN) {
        const size_t before = cadre_row_index_segments(f.index);
        for (uint64_t i = 0; i < RUN; i++) {
            add(&f, first + i);
        }
        cr_assert_leq(cadre_row_index_segments(f.index), before + SPLITS_MAX, "at %llu keys",
                      (unsigned long long)first);
    }
    tear_down(&f);
}
