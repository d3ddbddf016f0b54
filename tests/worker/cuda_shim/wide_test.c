/*
 * f64 and i64 inside programs by the CUDA kernels: the CPU's very bits, but for sums of f64.
 */
#include "tests/worker/cuda_shim/compare.h"

TestSuite(wide, .timeout = 240);

static const cadre_dtype_t wide[] = {CADRE_F64, CADRE_I64};
static const cadre_dtype_t dtypes[] = {CADRE_F32, CADRE_I32, CADRE_BF16, CADRE_F64, CADRE_I64};

static void
check_casts(cadre_tensor_t *x)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(dtypes); i++) {
        cadre_program_t *p = cadre_program_new("cast");
        cr_assert_eq(compare(p, cadre_op_cast(p, arg_like(p, "x", x), dtypes[i]), x, 0), 0);
    }
}

Test(wide, casts_any_number_of_elements)
{
    static const int64_t counts[] = {1, 3, 4, 5, 1025};
    for (size_t i = 0; i < CADRE_COUNT_OF(counts); i++) {
        for (size_t k = 0; k < CADRE_COUNT_OF(dtypes); k++) {
            cadre_tensor_t x = random_tensor(dtypes[k], &counts[i], 1, 1);
            check_casts(&x);
            cadre_tensor_fini(&x);
        }
    }
}

Test(wide, casts_what_is_odd)
{
    double numbers[] = {0,       -0.0, 0x1p53 + 2, 1e300,     -1e300, 0x1p63,
                        -0x1p63, NAN,  INFINITY,   -INFINITY, -2.7,   0x1p31 - 1};
    cadre_tensor_t x = {.dtype = CADRE_F64, .rank = 1, .shape = {12}, .data = numbers};
    check_casts(&x);
    int64_t integers[] = {0,         INT64_MAX,     INT64_MIN, 1 + (INT64_C(1) << 53),
                          INT32_MIN, 1 - INT64_C(2)};
    x = (cadre_tensor_t){.dtype = CADRE_I64, .rank = 1, .shape = {6}, .data = integers};
    check_casts(&x);
}

typedef cadre_node_t map2_t(cadre_program_t *p, cadre_node_t left, cadre_node_t right);
static map2_t *const map2[] = {cadre_op_add, cadre_op_sub, cadre_op_mul, cadre_op_div,
                               cadre_op_max, cadre_op_min, cadre_op_gt,  cadre_op_eq};

static const int64_t shapes[][2][2] = {{{1, 1}, {1, 1}},    {{7, 3}, {7, 3}}, {{5, 8}, {1, 8}},
                                       {{5, 8}, {5, 1}},    {{1, 9}, {6, 1}}, {{33, 4}, {33, 1}},
                                       {{3, 128}, {1, 128}}};

Test(wide, computes_with_whatever_is_broadcast)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(shapes) * CADRE_COUNT_OF(wide); i++) {
        cadre_dtype_t dtype = wide[i % CADRE_COUNT_OF(wide)];
        const int64_t(*shape)[2] = shapes[i / CADRE_COUNT_OF(wide)];
        cadre_tensor_t x[2] = {random_tensor(dtype, shape[0], 2, 1),
                               random_tensor(dtype, shape[1], 2, 2)};
        memset(x[1].data, 0, cadre_dtype_size(dtype)); /* a divisor of 0 */
        for (size_t k = 0; k <= CADRE_COUNT_OF(map2); k++) {
            cadre_program_t *p = cadre_program_new("map2");
            cadre_node_t left = arg_like(p, "left", &x[0]);
            cadre_node_t right = arg_like(p, "right", &x[1]);
            cadre_node_t y = k < CADRE_COUNT_OF(map2)
                                 ? map2[k](p, left, right)
                                 : cadre_op_where(p, cadre_op_gt(p, left, right), right, left);
            cr_assert_eq(compare(p, y, x, 0), 0);
        }
        cadre_tensor_fini(&x[0]);
        cadre_tensor_fini(&x[1]);
    }
}

typedef cadre_node_t reduce_t(cadre_program_t *p, cadre_node_t x, int axis);
static reduce_t *const reduce[] = {cadre_op_sum, cadre_op_reduce_max, cadre_op_mean};

Test(wide, reduces_rows_columns_and_what_lies_between)
{
    static const int64_t volumes[][3] = {
        {1, 1, 1}, {3, 5, 1}, {2, 9, 33}, {17000, 1, 1}, {1, 600, 3}};
    for (size_t i = 0; i < CADRE_COUNT_OF(volumes) * CADRE_COUNT_OF(wide); i++) {
        cadre_dtype_t dtype = wide[i % CADRE_COUNT_OF(wide)];
        cadre_tensor_t x = random_tensor(dtype, volumes[i / CADRE_COUNT_OF(wide)], 3, 1);
        for (int axis = 0; axis < 3; axis++) {
            for (size_t k = 0; k < (dtype == CADRE_F64 ? 3U : 2U); k++) {
                cadre_program_t *p = cadre_program_new("reduce");
                cadre_node_t y = reduce[k](p, arg_like(p, "x", &x), axis);
                double tolerance = dtype == CADRE_F64 && k != 1 ? 1e-12 : 0;
                cr_assert_eq(compare(p, y, &x, tolerance), 0);
            }
        }
        cadre_tensor_fini(&x);
    }
}

Test(wide, moves_in_every_way)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 8}, {37, 2, 41}};
    int32_t places[] = {0, 0, 0};
    cadre_tensor_t x[2] = {{0}, {.dtype = CADRE_I32, .rank = 1, .shape = {3}, .data = places}};
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes) * CADRE_COUNT_OF(wide); i++) {
        const int64_t *size = sizes[i / CADRE_COUNT_OF(wide)];
        x[0] = random_tensor(wide[i % CADRE_COUNT_OF(wide)], size, 3, 1);
        places[1] = (int32_t)size[0] - 1;
        cadre_program_t *p = cadre_program_new("transpose");
        cadre_node_t y = cadre_op_transpose(p, arg_like(p, "x", &x[0]), (int[]){2, 0, 1});
        cr_assert_eq(compare(p, y, x, 0), 0);
        p = cadre_program_new("take");
        y = arg_like(p, "x", &x[0]);
        cr_assert_eq(compare(p, cadre_op_take(p, y, arg_like(p, "index", &x[1])), x, 0), 0);
        for (int axis = 0; axis < 3; axis++) {
            p = cadre_program_new("movement");
            y = arg_like(p, "x", &x[0]);
            y = cadre_op_concat(p, (cadre_node_t[]){y, y}, 2, axis);
            y = cadre_op_slice(p, cadre_op_pad(p, y, axis, 4, 1), axis, 3, size[axis] + 1);
            cr_assert_eq(compare(p, y, x, 0), 0);
            p = cadre_program_new("broadcast");
            y = cadre_op_slice(p, arg_like(p, "x", &x[0]), axis, size[axis] - 1, 1);
            const cadre_dim_t dims[] = {cadre_dim(axis == 0 ? 5 : size[0]),
                                        cadre_dim(axis == 1 ? 5 : size[1]),
                                        cadre_dim(axis == 2 ? 5 : size[2])};
            cr_assert_eq(compare(p, cadre_op_broadcast(p, y, dims, 3), x, 0), 0);
        }
        cadre_tensor_fini(&x[0]);
    }
}
