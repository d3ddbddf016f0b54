#include "worker/core/value_cache.h"

#include <criterion/criterion.h>

TestSuite(value_cache, .timeout = 240);

static void
put(cadre_value_cache_t *cache, uint32_t partition, uint64_t generation, uint64_t version)
{
    cadre_chunk_t *chunk = cadre_chunk_new_copy(&version, sizeof(version));
    cadre_cached_value_t value = {
        .generation = generation, .version = version, .chunks = &chunk, .chunk_count = 1};
    cadre_value_cache_put(cache, 1, partition, &value);
    cadre_chunk_unref(&chunk); /* the cache has its own */
}

static uint64_t
version_of(const cadre_value_cache_t *cache, uint32_t partition, uint64_t generation)
{
    const cadre_cached_value_t *value = cadre_value_cache_get(cache, 1, partition, generation);
    if (!value) {
        return 0;
    }
    cr_expect_eq(*(uint64_t *)cadre_chunk_data(value->chunks[0]), value->version);
    return value->version;
}

Test(value_cache, keeps_the_newest_version_of_each_partition)
{
    cadre_value_cache_t cache = {0};
    put(&cache, 0, 1, 5);
    put(&cache, 1, 1, 9);
    put(&cache, 0, 1, 7);
    put(&cache, 0, 1, 6); /* an answer that was overtaken */
    cr_expect_eq(version_of(&cache, 0, 1), 7);
    cr_expect_eq(version_of(&cache, 1, 1), 9);
    cr_expect_eq(version_of(&cache, 2, 1), 0);
    cadre_value_cache_fini(&cache);
    cr_expect_eq(version_of(&cache, 0, 1), 0);
}

Test(value_cache, knows_nothing_of_another_generation)
{
    cadre_value_cache_t cache = {0};
    put(&cache, 0, 1, 5);
    cr_expect_eq(version_of(&cache, 0, 2), 0);
    put(&cache, 0, 2, 3); /* the restored shard counts from its checkpoint */
    cr_expect_eq(version_of(&cache, 0, 2), 3);
    cr_expect_eq(version_of(&cache, 0, 1), 0);
    cadre_value_cache_fini(&cache);
}

Test(value_cache, a_number_stands_for_one_content)
{
    cadre_value_cache_t cache = {.content_last = 41};
    const uint64_t first[] = {1, 5, 1, 9};
    const uint64_t one_moved[] = {1, 5, 1, 10};
    const uint64_t other_moved[] = {1, 6, 1, 10};
    const uint64_t restored[] = {2, 6, 1, 10}; /* the same versions, counted by another shard */
    cr_expect_eq(cadre_value_cache_content(&cache, 1, first, 2), 42);
    cr_expect_eq(cadre_value_cache_content(&cache, 1, first, 2), 42);
    cr_expect_eq(cadre_value_cache_content(&cache, 1, one_moved, 2), 43);
    cr_expect_eq(cadre_value_cache_content(&cache, 1, one_moved, 2), 43);
    cr_expect_eq(cadre_value_cache_content(&cache, 1, other_moved, 2), 44);
    cr_expect_eq(cadre_value_cache_content(&cache, 1, restored, 2), 45);
    cr_expect_eq(cadre_value_cache_content(&cache, 1, first, 2), 46, "no number comes back");
    cadre_value_cache_fini(&cache);
}

Test(value_cache, numbers_are_of_one_variable_and_go_on_in_the_next_session)
{
    cadre_value_cache_t cache = {0};
    const uint64_t pairs[] = {1, 5};
    cr_expect_eq(cadre_value_cache_content(&cache, 1, pairs, 1), 1);
    cr_expect_eq(cadre_value_cache_content(&cache, 2, pairs, 1), 2);
    cr_expect_eq(cadre_value_cache_content(&cache, 1, pairs, 1), 1);
    cadre_value_cache_fini(&cache);
    cr_expect_eq(cadre_value_cache_content(&cache, 1, pairs, 1), 3);
    cadre_value_cache_fini(&cache);
}

Test(value_cache, forgets_every_partition_of_a_variable_and_no_other)
{
    cadre_value_cache_t cache = {.content_last = 41};
    cadre_chunk_t *chunk = cadre_chunk_new(8);
    const cadre_cached_value_t other = {
        .generation = 1, .version = 3, .chunks = &chunk, .chunk_count = 1};
    const uint64_t pairs[] = {1, 5};
    put(&cache, 0, 1, 5);
    put(&cache, 1, 2, 6);
    cadre_value_cache_put(&cache, 2, 0, &other);
    cr_expect_eq(cadre_value_cache_content(&cache, 1, pairs, 1), 42);
    cadre_value_cache_forget(&cache, 1, 3);
    cr_expect_eq(version_of(&cache, 0, 1), 0);
    cr_expect_eq(version_of(&cache, 1, 2), 0);
    cr_expect_not_null(cadre_value_cache_get(&cache, 2, 0, 1));
    cr_expect_eq(cadre_value_cache_content(&cache, 1, pairs, 1), 43);
    cadre_chunk_unref(&chunk);
    cadre_value_cache_fini(&cache);
}
