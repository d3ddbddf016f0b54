#include "worker/core/kept_values.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"

TestSuite(kept_values, .timeout = 240);

#define KEY(closure, attempt, result) ((const uint64_t[]){(closure), (attempt), (result)})

/* Keeps a tensor of `size_bytes` bytes, all `fill`. */
static void
put(cadre_kept_values_t *values, const uint64_t key[3], size_t size_bytes, uint8_t fill)
{
    uint8_t *bytes = cadre_calloc(size_bytes, 1);
    memset(bytes, fill, size_bytes);
    cadre_tensor_t tensor = {
        .dtype = CADRE_U8, .rank = 1, .shape = {(int64_t)size_bytes}, .data = bytes};
    cadre_tensor_list_t list = {.count = 0};
    cr_assert_eq(cadre_tensor_list_encode(&tensor, 1, SIZE_MAX, &list), 0);
    cadre_kept_values_put(values, key, &list, 0);
    cadre_tensor_list_fini(&list);
    free(bytes);
}

/* The first byte of a value; -1 when it is not there. */
static int
look(cadre_kept_values_t *values, const uint64_t key[3])
{
    cadre_kept_value_t *value = cadre_kept_values_take(values, key);
    int found = value ? *(const uint8_t *)cadre_chunk_data(value->tensor.chunks[0]) : -1;
    cadre_kept_value_unref(&value);
    return found;
}

Test(kept_values, are_known_by_closure_attempt_and_result)
{
    cadre_kept_values_t values = {.size_max = 1 << 20};
    put(&values, KEY(7, 1, 0), 5000, 10);
    put(&values, KEY(7, 1, 1), 5000, 11);
    put(&values, KEY(8, 1, 0), 5000, 12);
    cr_expect_eq(look(&values, KEY(7, 1, 0)), 10);
    cr_expect_eq(look(&values, KEY(7, 1, 1)), 11);
    cr_expect_eq(look(&values, KEY(8, 1, 0)), 12);
    cr_expect_eq(look(&values, KEY(7, 2, 0)), -1);
    put(&values, KEY(7, 2, 0), 6000, 13);
    cr_expect_eq(look(&values, KEY(7, 2, 0)), 13);
    cr_expect_eq(look(&values, KEY(7, 1, 0)), -1, "the attempt that came last");
    cr_expect_eq(values.size_bytes, 16000);
    cr_expect_eq(look(&values, KEY(7, 1, CADRE_RESULTS_MAX)), -1, "at the place of another");
    cadre_kept_values_clear(&values);
    cr_expect_eq(values.size_bytes, 0);
    cr_expect_eq(look(&values, KEY(8, 1, 0)), -1);
}

Test(kept_values, the_one_that_was_used_longest_ago_goes)
{
    cadre_kept_values_t values = {.size_max = 15000};
    put(&values, KEY(1, 1, 0), 5000, 1);
    put(&values, KEY(2, 1, 0), 5000, 2);
    put(&values, KEY(3, 1, 0), 5000, 3);
    cr_expect_eq(look(&values, KEY(1, 1, 0)), 1, "all three at the limit, and this one used");
    put(&values, KEY(4, 1, 0), 4096, 4);
    cr_expect_eq(look(&values, KEY(2, 1, 0)), -1);
    cr_expect_eq(look(&values, KEY(1, 1, 0)), 1);
    cr_expect_eq(look(&values, KEY(3, 1, 0)), 3);
    cr_expect_eq(values.size_bytes, 14096);
    put(&values, KEY(5, 1, 0), 15000, 5);
    cr_expect_eq(values.size_bytes, 15000, "that one alone");
    put(&values, KEY(6, 1, 0), 15001, 6);
    cr_expect_eq(look(&values, KEY(6, 1, 0)), -1, "too large for all");
    cr_expect_eq(look(&values, KEY(5, 1, 0)), 5);
    cadre_kept_values_clear(&values);
}

Test(kept_values, small_ones_are_not_kept)
{
    cadre_kept_values_t values = {.size_max = 1 << 20};
    put(&values, KEY(1, 1, 0), CADRE_KEPT_VALUE_SIZE_MIN - 1, 1);
    put(&values, KEY(2, 1, 0), CADRE_KEPT_VALUE_SIZE_MIN, 2);
    cr_expect_eq(look(&values, KEY(1, 1, 0)), -1);
    cr_expect_eq(look(&values, KEY(2, 1, 0)), 2);
    cadre_kept_values_clear(&values);
}

Test(kept_values, what_was_taken_stays_when_it_is_driven_out)
{
    cadre_kept_values_t values = {.size_max = 6000};
    put(&values, KEY(1, 1, 0), 5000, 1);
    cadre_kept_value_t *value = cadre_kept_values_take(&values, KEY(1, 1, 0));
    put(&values, KEY(2, 1, 0), 5000, 2);
    cr_expect_eq(look(&values, KEY(1, 1, 0)), -1);
    cr_expect_eq(*(const uint8_t *)cadre_chunk_data(value->tensor.chunks[0]), 1);
    cadre_kept_values_clear(&values);
    cr_expect_eq(*(const uint8_t *)cadre_chunk_data(value->tensor.chunks[0]), 1);
    cadre_kept_value_unref(&value);
}
