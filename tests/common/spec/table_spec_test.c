#include "common/spec/table_spec.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(table_spec, .timeout = 60);

static void
expect(const cadre_table_spec_t *spec, int status, const char *text)
{
    cr_assert_eq(cadre_table_spec_check(spec), status, "%s", text);
    cr_assert(status == 0 || strstr(cadre_error_text(), text), "\"%s\" lacks \"%s\"",
              cadre_error_text(), text);
}

Test(table_spec, is_good_with_a_number_of_columns_alone)
{
    cadre_table_spec_t spec = cadre_table_spec(1);
    expect(&spec, 0, "");
    spec.dim = CADRE_TABLE_DIM_MAX;
    expect(&spec, 0, "");
    spec.dim++;
    expect(&spec, CADRE_EINVALID, "dim is 8193, not 1 to 8192");
    spec.dim = 0;
    expect(&spec, CADRE_EINVALID, "dim is 0");
}

Test(table_spec, refuses_what_rows_cannot_have)
{
    cadre_table_spec_t spec = cadre_table_spec(4);
    spec.storage = CADRE_F64;
    expect(&spec, CADRE_EDTYPE, "f32 or bf16");

    static const char *const initializers[] = {"glorot_uniform", "glorot_normal", "he_uniform",
                                               "he_normal"};
    for (size_t i = 0; i < CADRE_COUNT_OF(initializers); i++) {
        spec = cadre_table_spec(4);
        cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, initializers[i]), 0);
        expect(&spec, CADRE_EINVALID, "depends on the number of rows");
    }

    static const char *const optimizers[] = {"nesterov", "rmsprop", "adamw", "add",
                                             "delayed_nesterov"};
    for (size_t i = 0; i < CADRE_COUNT_OF(optimizers); i++) {
        spec = cadre_table_spec(4);
        cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, optimizers[i]), 0);
        expect(&spec, CADRE_EINVALID, "is not for tables");
    }

    spec = cadre_table_spec(4);
    spec.optimizer.average_momentum = 0.9;
    expect(&spec, CADRE_EINVALID, "no average");
    spec = cadre_table_spec(4);
    spec.optimizer.delay_compensation = 1;
    expect(&spec, CADRE_EINVALID, "does not keep the rows that were pulled");
    spec = cadre_table_spec(4);
    spec.row_wise = true;
    expect(&spec, CADRE_EINVALID, "row_wise is for adagrad, not for sgd");
}

Test(table_spec, refuses_bad_numbers)
{
    const double bad[] = {-1, (double)NAN, (double)INFINITY};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_table_spec_t spec = cadre_table_spec(4);
        spec.group_lasso = bad[i];
        expect(&spec, CADRE_EINVALID, "group_lasso is");
        spec = cadre_table_spec(4);
        spec.norm_min = bad[i];
        expect(&spec, CADRE_EINVALID, "norm_min is");
    }
}

Test(table_spec, refuses_limits_that_are_out_of_range)
{
    cadre_table_spec_t spec = cadre_table_spec(4);
    spec.admit_after = CADRE_TABLE_ADMIT_MAX;
    expect(&spec, 0, "");
    spec.admit_after++;
    expect(&spec, CADRE_EINVALID, "admit_after is 256, at most 255");

    spec = cadre_table_spec(4);
    spec.rows_max = CADRE_TABLE_ROWS_MAX;
    expect(&spec, 0, "");
    spec.rows_max++;
    expect(&spec, CADRE_EINVALID, "rows_max is 2147483648");

    spec = cadre_table_spec(4);
    spec.when_full = CADRE_TABLE_EVICT_LRU;
    expect(&spec, CADRE_EINVALID, "needs rows_max");
    spec.rows_max = 1;
    expect(&spec, 0, "");
    spec.when_full = 4;
    expect(&spec, CADRE_EINVALID, "no policy");
    spec.when_full = 0;
    expect(&spec, CADRE_EINVALID, "no policy");
}

Test(table_spec, spreads_keys_evenly_over_shards)
{
    enum { KEYS = 100000, SHARDS = 7 };
    const uint64_t distances[] = {1, 7, 1 << 20, UINT64_C(1) << 40};
    for (size_t d = 0; d < CADRE_COUNT_OF(distances); d++) {
        uint32_t counts[SHARDS] = {0};
        for (uint64_t i = 0; i < KEYS; i++) {
            const uint32_t shard = cadre_table_shard(i * distances[d], SHARDS);
            cr_assert_lt(shard, SHARDS);
            counts[shard]++;
        }
        for (size_t i = 0; i < SHARDS; i++) {
            cr_assert_float_eq(counts[i], (double)KEYS / SHARDS, 600, "%u", counts[i]);
        }
    }
    cr_assert_eq(cadre_table_shard(12345, 1), 0);
}

/* Rows are found by it in checkpoints and by other processes: it never changes. */
Test(table_spec, mixes_keys_as_splitmix64_does)
{
    cr_assert_eq(cadre_table_mix(0), 0);
    cr_assert_eq(cadre_table_mix(UINT64_C(0x9E3779B97F4A7C15)), UINT64_C(0xE220A8397B1DCDAF));
}
