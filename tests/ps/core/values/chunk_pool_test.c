#include "ps/core/values/chunk_pool.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"

TestSuite(chunk_pool, .timeout = 240);

static void *
put_new(cadre_chunk_pool_t *pool, size_t size_bytes)
{
    cadre_chunk_t *chunk = cadre_chunk_new(size_bytes);
    void *data = cadre_chunk_data(chunk);
    cadre_chunk_pool_put(pool, &chunk);
    cr_assert_null(chunk);
    return data;
}

Test(chunk_pool, hands_out_what_was_put_of_the_same_size)
{
    cadre_auto(cadre_chunk_pool_destroy) cadre_chunk_pool_t *pool = cadre_chunk_pool_new(1 << 20);
    void *data = put_new(pool, 4096);
    cr_assert_eq(cadre_chunk_pool_size_bytes(pool), 4096);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *other = cadre_chunk_pool_take(pool, 4092);
    cr_assert_neq(cadre_chunk_data(other), data);
    cr_assert_eq(cadre_chunk_size_bytes(other), 4092);
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *same = cadre_chunk_pool_take(pool, 4096);
    cr_assert_eq(cadre_chunk_data(same), data);
    cr_assert(cadre_chunk_alone(same));
    cr_assert_eq(cadre_chunk_pool_size_bytes(pool), 0);
}

Test(chunk_pool, keeps_a_chunk_back_while_somebody_holds_it)
{
    cadre_auto(cadre_chunk_pool_destroy) cadre_chunk_pool_t *pool = cadre_chunk_pool_new(1 << 20);
    cadre_chunk_t *held = cadre_chunk_new(64);
    cadre_chunk_t *reference = cadre_chunk_ref(held);
    cadre_chunk_pool_put(pool, &reference);
    void *free_one = put_new(pool, 64);

    cadre_chunk_t *taken = cadre_chunk_pool_take(pool, 64);
    cr_assert_eq(cadre_chunk_data(taken), free_one, "the younger one is free");
    cadre_chunk_t *fresh = cadre_chunk_pool_take(pool, 64);
    cr_assert_neq(fresh, held);
    cadre_chunk_unref(&fresh);
    cadre_chunk_unref(&taken);

    void *data = cadre_chunk_data(held);
    cadre_chunk_unref(&held);
    taken = cadre_chunk_pool_take(pool, 64);
    cr_assert_eq(cadre_chunk_data(taken), data);
    cadre_chunk_unref(&taken);
}

Test(chunk_pool, drops_the_oldest_beyond_its_bytes)
{
    cadre_auto(cadre_chunk_pool_destroy) cadre_chunk_pool_t *pool = cadre_chunk_pool_new(300);
    put_new(pool, 100);
    put_new(pool, 100);
    put_new(pool, 100);
    cr_assert_eq(cadre_chunk_pool_size_bytes(pool), 300);
    void *youngest = put_new(pool, 100);
    cr_assert_eq(cadre_chunk_pool_size_bytes(pool), 300);
    put_new(pool, 301);
    put_new(pool, 8);
    cr_assert_eq(cadre_chunk_pool_size_bytes(pool), 300, "another size does not push these out");
    bool found = false;
    for (int i = 0; i < 3; i++) {
        cadre_auto(cadre_chunk_unref) cadre_chunk_t *chunk = cadre_chunk_pool_take(pool, 100);
        found |= cadre_chunk_data(chunk) == youngest;
    }
    cr_assert(found);
    cr_assert_eq(cadre_chunk_pool_size_bytes(pool), 0);
}

Test(chunk_pool, keeps_a_bounded_number_of_sizes_and_chunks)
{
    cadre_auto(cadre_chunk_pool_destroy) cadre_chunk_pool_t *pool = cadre_chunk_pool_new(1 << 20);
    for (size_t size_bytes = 1; size_bytes <= CADRE_CHUNK_POOL_CLASSES; size_bytes++) {
        put_new(pool, size_bytes);
    }
    size_t full = cadre_chunk_pool_size_bytes(pool);
    cr_assert_eq(full, CADRE_CHUNK_POOL_CLASSES * (CADRE_CHUNK_POOL_CLASSES + 1) / 2);
    put_new(pool, 1000);
    cr_assert_eq(cadre_chunk_pool_size_bytes(pool), full);
    cadre_chunk_t *chunk = cadre_chunk_pool_take(pool, 1);
    put_new(pool, 1000);
    cr_assert_eq(cadre_chunk_pool_size_bytes(pool), full - 1 + 1000, "an empty size makes room");
    cadre_chunk_unref(&chunk);
    for (int i = 0; i < 100000; i++) {
        put_new(pool, 2);
    }
    cr_assert_lt(cadre_chunk_pool_size_bytes(pool), full + 2000);
}
