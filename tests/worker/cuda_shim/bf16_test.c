/*
 * bf16 inside programs by the CUDA kernels: casts and movement, the CPU's very bits.
 */
#include "tests/worker/cuda_shim/compare.h"

TestSuite(bf16, .timeout = 240);

static const cadre_dtype_t dtypes[] = {CADRE_F32, CADRE_I32, CADRE_BF16};

static void
check_casts(cadre_tensor_t *x)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(dtypes); i++) {
        cadre_program_t *p = cadre_program_new("cast");
        cr_assert_eq(compare(p, cadre_op_cast(p, arg_like(p, "x", x), dtypes[i]), x, 0), 0);
    }
}

Test(bf16, casts_any_number_of_elements)
{
    static const int64_t counts[] = {1, 2, 3, 4, 5, 7, 1023, 1024, 1025, 4099, 40009};
    for (size_t i = 0; i < CADRE_COUNT_OF(counts); i++) {
        for (size_t k = 0; k < CADRE_COUNT_OF(dtypes); k++) {
            cadre_tensor_t x = random_tensor(dtypes[k], &counts[i], 1, 1);
            check_casts(&x);
            cadre_tensor_fini(&x);
        }
    }
}

Test(bf16, casts_what_is_odd)
{
    float numbers[] = {0,        -0.0F, 0x1.01p0F, 0x1.03p0F, 0x1.ffp127F, 3e9F,
                       INFINITY, NAN,   -1e-45F,   -INFINITY, -2.7F};
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 1, .shape = {11}, .data = numbers};
    check_casts(&x);
    int32_t integers[] = {0, 257, 259, -257, INT32_MAX, INT32_MIN, 16777217};
    x = (cadre_tensor_t){.dtype = CADRE_I32, .rank = 1, .shape = {7}, .data = integers};
    check_casts(&x);
    uint16_t words[] = {0x3f80, 0xbf81, 0x7f80, 0xff80, 0x7fc1, 0x4f00, 0xcf00, 0x0001, 0x8000};
    x = (cadre_tensor_t){.dtype = CADRE_BF16, .rank = 1, .shape = {9}, .data = words};
    check_casts(&x);
}

static const int64_t shapes[][4] = {
    {1, 1, 1, 1}, {1, 1, 7, 1}, {1, 3, 5, 8}, {2, 9, 4, 12}, {3, 37, 2, 41}, {2, 33, 1, 64},
};

/* Tiles, vectors and single words: each order of axes, each axis for the rest. */
Test(bf16, moves_in_every_way)
{
    static const int orders[][4] = {{3, 1, 0, 2}, {0, 2, 1, 3}, {1, 2, 3, 0}, {0, 1, 3, 2}};
    for (size_t i = 0; i < CADRE_COUNT_OF(shapes); i++) {
        cadre_tensor_t x = random_tensor(CADRE_BF16, shapes[i], 4, 1);
        for (size_t k = 0; k < CADRE_COUNT_OF(orders); k++) {
            cadre_program_t *p = cadre_program_new("transpose");
            cr_assert_eq(compare(p, cadre_op_transpose(p, arg_like(p, "x", &x), orders[k]), &x, 0),
                         0);
        }
        for (int axis = 0; axis < 4; axis++) {
            cadre_program_t *p = cadre_program_new("movement");
            cadre_node_t node = arg_like(p, "x", &x);
            cadre_node_t joined = cadre_op_concat(p, (cadre_node_t[]){node, node, node}, 3, axis);
            cadre_node_t padded = cadre_op_pad(p, joined, axis, 4, axis);
            cadre_node_t y = cadre_op_slice(p, padded, axis, 3, 2 * shapes[i][axis] + 1);
            cr_assert_eq(compare(p, y, &x, 0), 0);
            cadre_dim_t dims[4];
            for (int k = 0; k < 4; k++) {
                dims[k] = cadre_dim(k == axis ? 9 * shapes[i][k] : shapes[i][k]);
            }
            p = cadre_program_new("broadcast");
            node = cadre_op_slice(p, arg_like(p, "x", &x), axis, shapes[i][axis] - 1, 1);
            cr_assert_eq(compare(p, cadre_op_broadcast(p, node, dims, 4), &x, 0), 0);
        }
        cadre_tensor_fini(&x);
    }
}

Test(bf16, takes_rows_of_any_length)
{
    static const int64_t lengths[] = {1, 2, 3, 4, 8, 13, 64};
    int32_t places[] = {4, 0, 2, 2, 4, 1, 3, 0, 0};
    for (size_t i = 0; i < CADRE_COUNT_OF(lengths); i++) {
        for (int outside = 0; outside < 2; outside++) {
            cadre_tensor_t x[2] = {random_tensor(CADRE_BF16, (int64_t[]){5, lengths[i]}, 2, 1),
                                   {.dtype = CADRE_I32, .rank = 1, .shape = {9}, .data = places}};
            places[5] = outside ? 5 : 1;
            cadre_program_t *p = cadre_program_new("take");
            cadre_node_t table = arg_like(p, "table", &x[0]);
            cadre_node_t y = cadre_op_take(p, table, arg_like(p, "index", &x[1]));
            cr_assert_eq(compare(p, y, x, 0), outside ? CADRE_EDATA : 0);
            cadre_tensor_fini(&x[0]);
        }
    }
}
