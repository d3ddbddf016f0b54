/* What becomes of a part while a load has its partition. */
#include "ps/core/shard_parts.h"

#include <criterion/criterion.h>

#include "common/base/status.h"

TestSuite(shard_parts, .timeout = 240);

enum { COUNT = 3 };

/* A vector of zeros, updated by sgd with a learning rate of 1. */
static cadre_partition_spec_t
vector_spec(void)
{
    cadre_partition_spec_t spec = {.variable = 1,
                                   .dtype = CADRE_F32,
                                   .wire = CADRE_F32,
                                   .rank = 1,
                                   .shape = {COUNT},
                                   .rows = COUNT};
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "zeros"), 0);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, "sgd"), 0);
    cr_assert_eq(cadre_optimizer_spec_set(&spec.optimizer, "learning_rate", 1), 0);
    return spec;
}

/* The same with a change of the learning rate, as a CREATE has it that comes later. */
static cadre_partition_spec_t
longer_spec(const cadre_partition_spec_t *spec, uint64_t updates, double rate)
{
    cadre_partition_spec_t longer = *spec;
    cr_assert_eq(cadre_schedule_spec_extend(&longer.optimizer.schedule, updates, rate), 0, "%s",
                 cadre_error_text());
    return longer;
}

/* Writes the values of a part whose partition was lent, as a load does, and gives it back. */
static void
load_zeros(cadre_shard_part_t *part, cadre_partition_t *partition)
{
    cadre_partition_initialise(partition, -1, 0);
    cadre_table_t *none = NULL;
    cadre_shard_part_return(part, &partition, &none, (cadre_table_base_t){.checkpoint = 0});
}

/* Pushes ones, and expects all values to be `wanted` then. */
static void
expect_after_update(cadre_partition_t *partition, float wanted)
{
    const float ones[COUNT] = {1, 1, 1};
    cadre_chunk_t *chunk = cadre_chunk_new_copy(ones, sizeof(ones));
    float values[COUNT] = {0};
    cadre_partition_apply(partition, &chunk);
    cadre_chunk_unref(&chunk);
    cadre_partition_copy(partition, -1, 0, COUNT, values);
    for (size_t i = 0; i < COUNT; i++) {
        cr_expect_eq(values[i], wanted, "element %zu: %g, not %g", i, (double)values[i],
                     (double)wanted);
    }
}

Test(shard_parts, gives_a_part_the_schedule_that_came_while_it_was_loaded)
{
    const cadre_shard_parts_options_t options = {.size_bytes_max = 1 << 20};
    const cadre_partition_spec_t spec = vector_spec();
    const cadre_partition_spec_t before = longer_spec(&spec, 1, 2);
    const cadre_partition_spec_t now = longer_spec(&before, 2, 4);
    cadre_shard_parts_t *parts = cadre_shard_parts_new(&options);
    cadre_shard_part_t *part = NULL;
    cr_assert_eq(cadre_shard_parts_make(parts, "w", &before, true, &part), 0, "%s",
                 cadre_error_text());

    cadre_partition_t *lent = NULL;
    cadre_table_t *none = NULL;
    cadre_shard_part_lend(part, &lent, &none);
    cr_assert_eq(cadre_shard_part_create_again(part, "w", &now), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_shard_part_create_again(part, "w", &spec), 0, "one from before is late");
    cr_assert_eq(cadre_partition_spec(lent)->optimizer.schedule.boundary_count, 1,
                 "a load has it: nobody else changes it");
    load_zeros(part, lent);
    cadre_shard_parts_add(parts, &part, 0);

    const cadre_shard_part_t *served = NULL;
    cr_assert_eq(cadre_shard_parts_find(parts, 1, 0, &served), 0);
    cr_expect(
        cadre_schedule_spec_equal(&cadre_partition_spec(served->partition)->optimizer.schedule,
                                  &now.optimizer.schedule),
        "it is the longest that came");
    expect_after_update(served->partition, -1);
    expect_after_update(served->partition, -3);
    expect_after_update(served->partition, -7);
    cadre_shard_parts_destroy(&parts);
}

Test(shard_parts, keeps_what_it_had_when_another_part_is_created_while_it_is_loaded)
{
    const cadre_shard_parts_options_t options = {.size_bytes_max = 1 << 20};
    const cadre_partition_spec_t spec = vector_spec();
    cadre_partition_spec_t other = longer_spec(&spec, 1, 2);
    other.initializer.seed = 7;
    cadre_shard_parts_t *parts = cadre_shard_parts_new(&options);
    cadre_shard_part_t *part = NULL;
    cr_assert_eq(cadre_shard_parts_make(parts, "w", &spec, true, &part), 0);

    cadre_partition_t *lent = NULL;
    cadre_table_t *none = NULL;
    cadre_shard_part_lend(part, &lent, &none);
    cr_expect_eq(cadre_shard_part_create_again(part, "w", &other), CADRE_EEXISTS);
    cr_expect_eq(cadre_shard_part_create_again(part, "v", &spec), CADRE_EEXISTS);
    load_zeros(part, lent);
    cadre_partition_t *partition = part->partition;
    cadre_shard_parts_add(parts, &part, 0);
    expect_after_update(partition, -1);
    expect_after_update(partition, -2);
    cadre_shard_parts_destroy(&parts);
}

/* The part of a table that a load has: it gets `rows` rows. */
static cadre_shard_part_t *
load_table(cadre_shard_parts_t *parts, uint64_t variable, cadre_shard_part_t *part, uint64_t rows)
{
    enum { DIM = 64 };
    float numbers[DIM] = {0};
    cadre_partition_t *none = NULL;
    cadre_table_t *table = NULL;
    cadre_partition_spec_t spec = vector_spec();
    spec.variable = variable;
    spec.partitions = 1;
    spec.table = cadre_table_spec(DIM);
    if (!part) {
        cr_assert_eq(cadre_shard_parts_make(parts, "t", &spec, true, &part), 0, "%s",
                     cadre_error_text());
        return part;
    }
    cadre_shard_part_lend(part, &none, &table);
    for (uint64_t key = 0; key < rows; key++) {
        const cadre_table_update_t update = {.count = 1, .keys = &key, .numbers = numbers};
        cadre_table_push(table, &update);
    }
    cadre_shard_part_return(part, &none, &table, (cadre_table_base_t){.checkpoint = 0});
    return part;
}

Test(shard_parts, refuses_a_table_that_was_loaded_beside_another_and_has_no_room)
{
    const cadre_shard_parts_options_t options = {.size_bytes_max = 1 << 20};
    cadre_shard_parts_t *parts = cadre_shard_parts_new(&options);
    cadre_shard_part_t *first = load_table(parts, 1, NULL, 0);
    cadre_shard_part_t *second = load_table(parts, 2, NULL, 0);
    const uint64_t room = cadre_shard_parts_room(parts);
    load_table(parts, 1, first, 2000);
    load_table(parts, 2, second, 2000);
    cr_assert_leq(cadre_table_figures(second->table).size_bytes, room, "each fits alone");
    cr_expect_eq(cadre_shard_parts_add_loaded(parts, &first, 0), 0, "%s", cadre_error_text());
    cr_expect_eq(cadre_shard_parts_add_loaded(parts, &second, 0), CADRE_EFULL);
    cr_expect_null(second);
    cr_expect_leq(cadre_shard_parts_size_bytes(parts), options.size_bytes_max);
    cadre_shard_parts_destroy(&parts);
}
