#include "coordinator/cli/train/layer_ids.h"

#include <math.h>

#include "tests/worker/device/run_program.h"

TestSuite(layer_ids, .timeout = 240);

enum { IDS = 6, UNITS = 2, BATCH = 4, ITEMS = 3 };

static const float ids[BATCH][ITEMS] = {{1, 4, 0}, {5, 5, 2}, {0, 0, 0}, {3, 1, 0}};
static const float values[BATCH][ITEMS] = {{1, 1, 0}, {0.5F, 2, 1}, {0, 0, 0}, {-1, 1, 0}};

/* Runs a bag of the combiner over the ids above, with or without values, and a table whose row i is
 * [i, 10 i]. */
static cadre_tensor_t
run_bag(cadre_combiner_t combiner, bool has_values)
{
    float rows[IDS][UNITS];
    for (int i = 0; i < IDS; i++) {
        rows[i][0] = (float)i;
        rows[i][1] = (float)(10 * i);
    }
    const cadre_tensor_t tensors[] = {
        cadre_tensor_view(CADRE_F32, (void *)rows, (const int64_t[]){IDS, UNITS}, 2),
        cadre_tensor_view(CADRE_F32, (void *)(uintptr_t)ids, (const int64_t[]){BATCH, ITEMS}, 2),
        cadre_tensor_view(CADRE_F32, (void *)(uintptr_t)values, (const int64_t[]){BATCH, ITEMS}, 2),
    };
    cadre_layer_t layer = cadre_layer_of(CADRE_LAYER_EMBEDDING_BAG);
    layer.combiner = combiner;
    cadre_program_t *p = cadre_program_new("bag");
    cadre_node_t table = arg_like(p, "rows", &tensors[0]);
    cadre_layer_items_t items = {.batch = cadre_dim(BATCH), .ids = arg_like(p, "ids", &tensors[1])};
    cadre_node_t weights = arg_like(p, "values", &tensors[2]);
    items.values = has_values ? weights : items.values;
    return run_once(p, cadre_layer_ids_bag(p, &layer, &items, table), tensors);
}

Test(layer_ids, a_bag_is_a_sum_a_mean_or_that_by_the_root_of_the_number)
{
    for (int combiner = CADRE_COMBINER_SUM; combiner <= CADRE_COMBINER_SQRTN; combiner++) {
        for (int weighted = 0; weighted < 2; weighted++) {
            cadre_auto(cadre_tensor_fini) cadre_tensor_t made =
                run_bag((cadre_combiner_t)combiner, weighted);
            for (int b = 0; b < BATCH; b++) {
                double sum = 0;
                double weight = 0;
                double square = 0;
                for (int i = 0; i < ITEMS; i++) {
                    const double value = weighted ? (double)values[b][i] : 1;
                    sum += value * (double)ids[b][i];
                    weight += value;
                    square += value * value;
                }
                const double by[] = {1, weight, sqrt(square)};
                const double wanted = by[combiner] == 0 ? 0 : sum / by[combiner];
                cr_expect_float_eq(f32_at(&made, UNITS * b), wanted, 1e-5, "%d %d %d", combiner,
                                   weighted, b);
                cr_expect_float_eq(f32_at(&made, UNITS * b + 1), 10 * wanted, 1e-4);
            }
        }
    }
}

enum { FIELDS = 2 };

/* Returns what a layer over a table of two fields, or none, looks up in the numbers x
 * [rows, columns]. */
static cadre_tensor_t
place_in(size_t fields, bool keys, const float *x, const int64_t shape[2])
{
    cadre_layer_t layer = cadre_layer_of(CADRE_LAYER_EMBEDDING);
    layer.table.is_table = true;
    layer.keys = keys;
    layer.field_count = fields;
    const cadre_tensor_t given = cadre_tensor_view(CADRE_F32, x, shape, 2);
    cadre_program_t *p = cadre_program_new("ids");
    return run_once(p, cadre_layer_ids_place(p, &layer, arg_like(p, "x", &given)), &given);
}

static cadre_tensor_t
place(bool keys, const float *x, int64_t rows, int64_t columns)
{
    return place_in(FIELDS, keys, x, (const int64_t[]){rows, columns});
}

/* From 2^24 on f32 has no odd numbers: an id there would be looked up as its neighbour. */
Test(layer_ids, of_a_table_are_exact_as_numbers)
{
    static const float x[2][FIELDS] = {{16777215, 16777216}, {2e7F, 2.5F}};
    cadre_auto(cadre_tensor_fini) cadre_tensor_t made =
        place_in(0, false, &x[0][0], (const int64_t[]){2, FIELDS});
    cr_assert_eq(made.dtype, CADRE_I32);
    const int32_t *ids_made = made.data;
    cr_expect_eq(ids_made[0], 16777215);
    cr_expect(ids_made[1] < 0 && ids_made[2] < 0 && ids_made[3] < 0);
}

/* What is no id may be no key either: it is an i32 below 0, which a lookup refuses. */
Test(layer_ids, of_columns_of_a_table_are_keys_apart)
{
    static const float x[3][FIELDS] = {{5, 5}, {16777215, 0}, {-1, 2.5F}};
    cadre_auto(cadre_tensor_fini) cadre_tensor_t made = place(false, &x[0][0], 3, FIELDS);
    cr_assert_eq(made.dtype, CADRE_I32);
    const int32_t *ids_made = made.data;
    cr_expect(ids_made[0] == 5 && ids_made[1] == (1 << 24) + 5);
    cr_expect(ids_made[2] == 16777215 && ids_made[3] == 1 << 24);
    cr_expect(ids_made[4] < 0 && ids_made[5] < 0);
}

Test(layer_ids, of_keys_have_all_bits_and_differ_from_column_to_column)
{
    static const float x[2][3 * FIELDS] = {{1, 2, 3, 1, 2, 3},
                                           {16777215, 16777215, 65535, 0, 0, 32768}};
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t key = 1 | 2ULL << 24 | 3ULL << 48;
    const uint64_t wanted[2][FIELDS] = {{key, key + step}, {UINT64_MAX, (1ULL << 63) + step}};
    cadre_auto(cadre_tensor_fini) cadre_tensor_t made = place(true, &x[0][0], 2, 3 * FIELDS);
    cr_assert(made.dtype == CADRE_I64 && made.rank == 2 && made.shape[1] == FIELDS);
    cr_assert_arr_eq(made.data, wanted, sizeof(wanted));
}
