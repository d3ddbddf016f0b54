#include "worker/core/row_cache.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(row_cache, .timeout = 240);

enum { ROW_SIZE = 8, ROOM = 4 << 10 };

static cadre_row_source_t
source_of(uint32_t partition, uint64_t generation)
{
    return (cadre_row_source_t){.variable = 2,
                                .partition = partition,
                                .generation = generation,
                                .row_size_bytes = ROW_SIZE};
}

static const cadre_row_source_t SOURCE = {2, 0, 1, ROW_SIZE};

/* Puts a row whose values are this number. */
static void
put(cadre_row_cache_t *cache, const cadre_row_source_t *source, uint64_t version, uint64_t key,
    uint64_t value)
{
    cadre_row_cache_put(cache, source, version, 1, &key, &value);
}

/* Puts it twice, after which it is kept. */
static void
keep(cadre_row_cache_t *cache, const cadre_row_source_t *source, uint64_t version, uint64_t key,
     uint64_t value)
{
    put(cache, source, version, key, value);
    put(cache, source, version, key, value);
}

/* Returns the value of a row, and its version; UINT64_MAX where it is not there. */
static uint64_t
find(cadre_row_cache_t *cache, const cadre_row_source_t *source, uint64_t key, uint64_t *version)
{
    cadre_held_row_t row = {.values = NULL};
    uint64_t value = UINT64_MAX;
    if (cadre_row_cache_find(cache, source, 1, &key, &row) == 1) {
        memcpy(&value, row.values, sizeof(value));
        *version = row.version;
    }
    return value;
}

static bool
has(cadre_row_cache_t *cache, const cadre_row_source_t *source, uint64_t key)
{
    uint64_t version = 0;
    return find(cache, source, key, &version) != UINT64_MAX;
}

Test(row_cache, keeps_a_row_that_comes_a_second_time)
{
    cadre_row_cache_t *cache = cadre_row_cache_new(ROOM, false);
    uint64_t version = 0;
    cr_expect_not(has(cache, &SOURCE, 0));
    put(cache, &SOURCE, 7, 0, 70);
    cr_expect_not(has(cache, &SOURCE, 0));
    put(cache, &SOURCE, 8, 0, 80);
    cr_expect_eq(find(cache, &SOURCE, 0, &version), 80);
    cr_expect_eq(version, 8);
    put(cache, &SOURCE, 12, 0, 120);
    cr_expect_eq(find(cache, &SOURCE, 0, &version), 120);
    cr_expect_eq(version, 12);
    cadre_row_cache_destroy(&cache);
}

Test(row_cache, keeps_the_newest_of_answers_in_any_order)
{
    cadre_row_cache_t *cache = cadre_row_cache_new(ROOM, false);
    uint64_t version = 0;
    keep(cache, &SOURCE, 9, 1, 90);
    put(cache, &SOURCE, 12, 1, 120);
    put(cache, &SOURCE, 10, 1, 100);
    cr_expect_eq(find(cache, &SOURCE, 1, &version), 120);
    cr_expect_eq(version, 12);
    keep(cache, &SOURCE, 3, 5, 30); /* before the first that was ever put */
    cr_expect(!has(cache, &SOURCE, 5) || find(cache, &SOURCE, 5, &version) == 30);
    cr_expect(!has(cache, &SOURCE, 5) || version == 3);
    keep(cache, &SOURCE, 3 + (1ULL << 33), 5, 31); /* and more versions later than a row counts */
    cr_expect_eq(find(cache, &SOURCE, 5, &version), 31);
    cr_expect_eq(version, 3 + (1ULL << 33));
    cadre_row_cache_destroy(&cache);
}

Test(row_cache, drops_rows_of_another_generation)
{
    cadre_row_cache_t *cache = cadre_row_cache_new(ROOM, false);
    const cadre_row_source_t later = source_of(0, 2);
    keep(cache, &SOURCE, 9, 1, 90);
    cr_expect(has(cache, &SOURCE, 1));
    cr_expect_not(has(cache, &later, 1));
    keep(cache, &later, 2, 1, 20);
    cr_expect(has(cache, &later, 1));
    cr_expect_not(has(cache, &SOURCE, 1), "a late answer brings nothing back");
    cadre_row_cache_destroy(&cache);
}

Test(row_cache, tells_partitions_and_tables_apart)
{
    cadre_row_cache_t *cache = cadre_row_cache_new(ROOM, false);
    const cadre_row_source_t other = source_of(1, 1);
    uint64_t version = 0;
    put(cache, &other, 1, 4, 40);
    keep(cache, &SOURCE, 9, 1, 90);
    keep(cache, &other, 4, 1, 41);
    cr_expect_eq(find(cache, &SOURCE, 1, &version), 90);
    cr_expect_eq(find(cache, &other, 1, &version), 41);
    cadre_row_cache_forget(cache, 2, 1);
    cr_expect_not(has(cache, &SOURCE, 1));
    cr_expect(has(cache, &other, 1));
    cadre_row_cache_clear(cache);
    cr_expect_not(has(cache, &other, 1));
    cadre_row_cache_destroy(&cache);
}

Test(row_cache, stays_in_its_memory_and_drops_rows_that_are_not_wanted)
{
    cadre_row_cache_t *cache = cadre_row_cache_new(ROOM, false);
    keep(cache, &SOURCE, 1, 0, 1);
    for (uint64_t key = 1; key < 400; key++) {
        keep(cache, &SOURCE, 1, key, key);
        cadre_row_cache_judge(cache, &SOURCE, 1, 1); /* which keeps it off a pause */
        cr_assert(has(cache, &SOURCE, 0), "a row that is wanted all the time goes at %lu", key);
    }
    size_t kept = 0;
    for (uint64_t key = 0; key < 400; key++) {
        cadre_row_cache_judge(cache, &SOURCE, 1, 1);
        kept += has(cache, &SOURCE, key);
    }
    cr_expect_leq(cadre_row_cache_size_bytes(cache), ROOM);
    cr_expect_gt(cadre_row_cache_size_bytes(cache), ROOM / 2);
    cr_expect(kept > 60 && kept <= ROOM / (ROW_SIZE + 16), "%zu rows", kept);
    for (uint32_t partition = 1; partition < 6; partition++) {
        const cadre_row_source_t source = source_of(partition, 1);
        keep(cache, &source, 1, 0, 1);
        keep(cache, &source, 1, 0, 1);
        cr_expect(has(cache, &source, 0));
        cr_expect_leq(cadre_row_cache_size_bytes(cache), ROOM);
    }
    cadre_row_cache_destroy(&cache);
}

Test(row_cache, keeps_nothing_where_there_is_no_room)
{
    const size_t sizes[] = {0, 100};
    for (size_t i = 0; i < 2; i++) {
        cadre_row_cache_t *cache = cadre_row_cache_new(sizes[i], false);
        keep(cache, &SOURCE, 1, 0, 1);
        cr_expect_not(has(cache, &SOURCE, 0));
        cr_expect_eq(cadre_row_cache_size_bytes(cache), 0);
        cadre_row_cache_destroy(&cache);
    }
}

/* Pulls key 0, a row that is kept, until its source is paused, `most` times at most; how often. */
static size_t
pull_until_pause(cadre_row_cache_t *cache, size_t unchanged_every, size_t most)
{
    for (size_t i = 1; i <= most; i++) {
        if (!has(cache, &SOURCE, 0)) {
            return i;
        }
        cadre_row_cache_judge(cache, &SOURCE, 1, i % unchanged_every == 0);
        put(cache, &SOURCE, i, 0, 1);
    }
    return most + 1;
}

Test(row_cache, pauses_where_rows_change_all_the_time_and_tries_again)
{
    cadre_row_cache_t *cache = cadre_row_cache_new(64 << 20, false);
    keep(cache, &SOURCE, 0, 0, 1);
    cr_expect_gt(pull_until_pause(cache, 8, 50000), 50000, "one of eight is worth asking");
    const size_t trial = pull_until_pause(cache, 100000, 50000);
    cr_expect_leq(trial, 2 * 4096 + 1);
    size_t pause = 1;
    while (pause < 1000000 && !has(cache, &SOURCE, 0)) {
        pause++;
    }
    cr_expect_geq(pause, 30 * 4096);
    cr_expect_lt(pause, 70 * 4096);
    cadre_row_cache_destroy(&cache);
}

Test(row_cache, pauses_where_rows_do_not_come_again)
{
    cadre_row_cache_t *cache = cadre_row_cache_new(ROOM, false);
    keep(cache, &SOURCE, 1, 0, 1);
    for (uint64_t key = 1; key < 1000; key++) {
        (void)has(cache, &SOURCE, key);
        put(cache, &SOURCE, 1, key, key);
    }
    cr_expect_not(has(cache, &SOURCE, 0));
    cadre_row_cache_destroy(&cache);
}
