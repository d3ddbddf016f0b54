/* How variables are cut and placed, by the ids of docs/conformance.md (P). */
#include "coordinator/core/catalogue/partitioner.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/tensor/split.h"

TestSuite(partitioner, .timeout = 240);

enum { F32 = 4, SHARDS = 4 };

/* The number of parts of a f32 variable of `rows` by `columns` on SHARDS shards, or the failure. */
static int
parts_of(cadre_variable_options_t options, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    uint32_t count = 0;
    int status = cadre_partitioner_count(&options, shape, 2, F32, SHARDS, &count);
    return status < 0 ? status : (int)count;
}

static cadre_variable_options_t
by_bytes(cadre_partitioner_t kind, int64_t bytes, int most)
{
    return (cadre_variable_options_t){.partitioner = kind, .bytes = bytes, .max_partitions = most};
}

static cadre_variable_options_t
fixed(int count)
{
    return (cadre_variable_options_t){.partitioner = CADRE_PARTITION_FIXED, .count = count};
}

static int
given(const int64_t *parts, int part_count, int64_t rows)
{
    cadre_variable_options_t options = {
        .partitioner = CADRE_PARTITION_GIVEN, .parts = parts, .part_count = part_count};
    return parts_of(options, rows, 3);
}

Test(partitioner, P1_fixed_cuts_into_so_many_but_never_more_than_rows)
{
    cr_assert_eq(parts_of(fixed(1), 10, 3), 1);
    cr_assert_eq(parts_of(fixed(9), 10, 3), 9);
    cr_assert_eq(parts_of(fixed(10), 10, 3), 10);
    cr_assert_eq(parts_of(fixed(11), 10, 3), 10);
    cr_assert_eq(parts_of(fixed(0), 10, 3), SHARDS, "as many as shards");
}

Test(partitioner, P2_no_part_is_under_the_minimum_size)
{
    /* 10 rows of 40 bytes. */
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MIN_BYTES, 100, 0), 10, 10), 4);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MIN_BYTES, 101, 0), 10, 10), 3, "rounds down");
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MIN_BYTES, 400, 0), 10, 10), 1);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MIN_BYTES, 401, 0), 10, 10), 1, "at least one");
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MIN_BYTES, 1, 0), 10, 10), SHARDS,
                 "as many as shards unless said otherwise");
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MIN_BYTES, 1, 7), 10, 10), 7);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MIN_BYTES, 1, 70), 10, 10), 10, "rows");
}

Test(partitioner, P3_no_part_is_over_the_maximum_size_unless_there_would_be_too_many)
{
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 400, 100), 10, 10), 1);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 399, 100), 10, 10), 2);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 160, 100), 10, 10), 3, "4 + 4 + 2");
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 159, 100), 10, 10), 4, "3 rows each");
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 40, 100), 10, 10), 10);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 39, 100), 10, 10), 10,
                 "a row is the least");
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 40, 6), 10, 10), 6);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 40, 0), 10, 10), SHARDS);
}

static void
assert_split(int64_t rows, int64_t parts, const int64_t *expected)
{
    int64_t first = 0;
    for (int64_t i = 0; i < parts; i++) {
        cr_assert_eq(cadre_split_rows(rows, parts, i), expected[i]);
        cr_assert_eq(cadre_split_first(rows, parts, i), first);
        first += expected[i];
    }
    cr_assert_eq(first, rows);
}

Test(partitioner, P4_the_first_parts_have_one_row_more)
{
    assert_split(13, 5, (const int64_t[]){3, 3, 3, 2, 2});
    assert_split(10, 4, (const int64_t[]){3, 3, 2, 2});
    assert_split(10, 5, (const int64_t[]){2, 2, 2, 2, 2});
    assert_split(3, 3, (const int64_t[]){1, 1, 1});
}

Test(partitioner, P5_more_parts_than_rows_become_one_per_row)
{
    cr_assert_eq(parts_of(fixed(1000), 3, 1), 3);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MIN_BYTES, 1, 1000), 3, 100), 3);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 1, 1000), 3, 100), 3);
}

Test(partitioner, P6_small_variables_and_scalars_stay_whole)
{
    uint32_t count = 0;
    cadre_variable_options_t options = fixed(4);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MIN_BYTES, 256 << 10, 0), 100, 10), 1);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 256 << 10, 0), 100, 10), 1);
    cr_assert_eq(cadre_partitioner_count(&options, NULL, 0, F32, SHARDS, &count), 0);
    cr_assert_eq(count, 1);
}

Test(partitioner, cuts_as_a_job_file_does_unless_it_is_told_otherwise)
{
    const cadre_variable_options_t none = {.size = sizeof(none)};
    cr_assert_eq(parts_of(none, 1 << 16, 1), 1, "256 KiB");
    cr_assert_eq(parts_of(none, 1 << 17, 1), 2);
    cr_assert_eq(parts_of(none, 1 << 22, 1), SHARDS);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 0, 0), (1 << 16) + 1, 1), 2);
}

Test(partitioner, P11_given_parts_must_have_one_entry_per_axis_and_cut_the_first_only)
{
    cr_assert_eq(given((const int64_t[]){2, 1}, 2, 4), 2);
    cr_assert_eq(given((const int64_t[]){4, 1}, 2, 4), 4);
    cr_assert_eq(given((const int64_t[]){5, 1}, 2, 4), CADRE_EINVALID, "more parts than rows");
    cr_assert_eq(given((const int64_t[]){1}, 0, 4), CADRE_EINVALID, "[]");
    cr_assert_eq(given(NULL, 2, 4), CADRE_EINVALID);
    cr_assert_eq(given((const int64_t[]){0, 1}, 2, 4), CADRE_EINVALID);
    cr_assert_eq(given((const int64_t[]){-1, 1}, 2, 4), CADRE_EINVALID);
    cr_assert_eq(given((const int64_t[]){2, 2}, 2, 4), CADRE_EINVALID);
    cr_assert_eq(given((const int64_t[]){1, 0}, 2, 4), CADRE_EINVALID);
    cr_assert_eq(given((const int64_t[]){2, 1, 1}, 3, 4), CADRE_EINVALID);
    cr_assert_eq(given((const int64_t[]){2}, 1, 4), CADRE_EINVALID);
}

Test(partitioner, P11_bad_options_are_refused)
{
    cr_assert_eq(parts_of(fixed(-1), 4, 1), CADRE_EINVALID);
    cr_assert_eq(parts_of((cadre_variable_options_t){.count = 2}, 4, 1), CADRE_EINVALID);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, -5, 0), 4, 1), CADRE_EINVALID);
    cr_assert_eq(parts_of(by_bytes(CADRE_PARTITION_MAX_BYTES, 5, -1), 4, 1), CADRE_EINVALID);
    cr_assert_eq(parts_of(by_bytes((cadre_partitioner_t)9, 5, 0), 4, 1), CADRE_EINVALID);
}

Test(partitioner, a_variable_has_at_most_so_many_parts)
{
    const int64_t rows = CADRE_PARTITIONS_PER_VARIABLE_MAX * 2;
    cr_assert_eq(parts_of(fixed(CADRE_PARTITIONS_PER_VARIABLE_MAX - 1), rows, 1),
                 CADRE_PARTITIONS_PER_VARIABLE_MAX - 1);
    cr_assert_eq(parts_of(fixed(CADRE_PARTITIONS_PER_VARIABLE_MAX), rows, 1),
                 CADRE_PARTITIONS_PER_VARIABLE_MAX);
    cr_assert_eq(parts_of(fixed(CADRE_PARTITIONS_PER_VARIABLE_MAX + 1), rows, 1), CADRE_EINVALID);
}

Test(placement, P7_round_robin_goes_over_the_shards_in_turn, .timeout = 240)
{
    cadre_placement_t self;
    cadre_placement_init(&self, 3, true);
    const uint32_t expected[] = {0, 1, 2, 0};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(cadre_placement_place(&self, i == 0 ? 1000000 : 1, true), expected[i]);
    }
    cadre_placement_fini(&self);
}

Test(placement, P8_by_bytes_a_large_part_counts_for_what_it_is, .timeout = 240)
{
    cadre_placement_t self;
    cadre_placement_init(&self, 3, false);
    cr_assert_eq(cadre_placement_place(&self, 1 << 30, true), 0);
    cr_assert_eq(cadre_placement_place(&self, 1, true), 1);
    cr_assert_eq(cadre_placement_place(&self, 2, true), 2);
    cr_assert_eq(cadre_placement_place(&self, 5, true), 1);
    cr_assert_eq(cadre_placement_place(&self, 1, true), 2);
    cadre_placement_add(&self, 2, 100);
    cr_assert_eq(cadre_placement_place(&self, 1, true), 1, "what is put there counts too");
    cadre_placement_fini(&self);
}

/* Two shards are two messages where one does for a small model. */
Test(placement, a_shard_is_filled_before_the_one_behind_it, .timeout = 240)
{
    cadre_placement_t self;
    cadre_placement_init(&self, 3, false);
    cadre_placement_set_fill(&self, 100);
    cr_assert_eq(cadre_placement_place(&self, 60, true), 0);
    cr_assert_eq(cadre_placement_place(&self, 40, true), 0);
    cr_assert_eq(cadre_placement_place(&self, 1, true), 1);
    cr_assert_eq(cadre_placement_place(&self, 1000, true), 2,
                 "too large for any: the least loaded");
    cr_assert_eq(cadre_placement_place(&self, 99, true), 1);
    cr_assert_eq(cadre_placement_place(&self, 1, true), 0, "all are full");
    cadre_placement_take(&self, 0, 61);
    cadre_placement_take(&self, 2, 1000);
    cr_assert_eq(cadre_placement_place(&self, 5, false), 2, "parts of a variable are spread");
    cr_assert_eq(cadre_placement_place(&self, 60, true), 0, "there is room again");
    cadre_placement_fini(&self);
}

Test(placement, P8_the_largest_load_is_within_one_part_of_the_smallest, .timeout = 240)
{
    cadre_placement_t self;
    uint64_t largest_part = 0;
    uint64_t state = 1;
    cadre_placement_init(&self, 5, false);
    for (int i = 0; i < 1000; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        uint64_t size = 1 + (state >> 33) % 100000;
        largest_part = size > largest_part ? size : largest_part;
        cr_assert_lt(cadre_placement_place(&self, size, true), 5);
        uint64_t least = UINT64_MAX;
        uint64_t most = 0;
        for (uint32_t k = 0; k < 5; k++) {
            least = self.load_bytes[k] < least ? self.load_bytes[k] : least;
            most = self.load_bytes[k] > most ? self.load_bytes[k] : most;
        }
        cr_assert_leq(most - least, largest_part);
    }
    cadre_placement_fini(&self);
}
