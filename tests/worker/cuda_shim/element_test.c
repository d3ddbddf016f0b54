/*
 * map1, map2, where and cast by the CUDA kernels.
 */
#include "tests/worker/cuda_shim/compare.h"

TestSuite(element, .timeout = 240);

typedef cadre_node_t map1_t(cadre_program_t *p, cadre_node_t x);
typedef cadre_node_t map2_t(cadre_program_t *p, cadre_node_t left, cadre_node_t right);

static map1_t *const map1_functions[] = {
    cadre_op_neg,   cadre_op_exp,   cadre_op_log,    cadre_op_sqrt,
    cadre_op_rsqrt, cadre_op_recip, cadre_op_square, cadre_op_abs,
    cadre_op_sign,  cadre_op_step,  cadre_op_relu,   cadre_op_sigmoid,
    cadre_op_tanh,  cadre_op_gelu,  cadre_op_dgelu,  cadre_op_softplus};

static map2_t *const map2_functions[] = {cadre_op_add, cadre_op_sub, cadre_op_mul, cadre_op_div,
                                         cadre_op_max, cadre_op_min, cadre_op_gt,  cadre_op_eq};

Test(element, each_function_of_one_element)
{
    float values[] = {-80, -3.5F, -1, -0.25F, -1e-6F, 0, 1e-6F, 0.25F, 1, 3.5F, 80, NAN, INFINITY};
    for (size_t i = 0; i < CADRE_COUNT_OF(map1_functions); i++) {
        cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 1, .shape = {13}, .data = values};
        cadre_program_t *p = cadre_program_new("map1");
        cr_assert_eq(compare(p, map1_functions[i](p, arg_like(p, "x", &x)), &x, 1e-6), 0);
    }
}

Test(element, any_number_of_elements)
{
    static const int64_t counts[] = {1, 3, 4, 5, 1023, 1024, 1025, 4099};
    for (size_t i = 0; i < CADRE_COUNT_OF(counts); i++) {
        cadre_tensor_t x = random_tensor(CADRE_F32, &counts[i], 1, 1);
        cadre_program_t *p = cadre_program_new("map1");
        /* Two steps, so that the second one works in place. */
        cadre_node_t y = cadre_op_neg(p, cadre_op_abs(p, arg_like(p, "x", &x)));
        cr_assert_eq(compare(p, y, &x, 1e-6), 0);
        cadre_tensor_fini(&x);
    }
}

typedef struct {
    int left_rank;
    int64_t left[4];
    int right_rank;
    int64_t right[4];
} pair_t;

static const pair_t pairs[] = {
    {0, {0}, 0, {0}},
    {1, {7}, 1, {7}},
    {1, {8}, 0, {0}},
    {0, {0}, 1, {7}},
    {2, {5, 1}, 2, {5, 7}},
    {2, {1, 7}, 2, {5, 1}},
    {2, {64, 12}, 1, {12}}, /* a bias: vectors */
    {2, {64, 12}, 2, {64, 1}},
    {3, {2, 3, 8}, 2, {3, 1}},
    {3, {2, 1, 5}, 3, {1, 3, 1}},
    {4, {2, 3, 4, 8}, 4, {1, 3, 1, 8}},
    {4, {2, 3, 4, 5}, 4, {1, 3, 1, 5}},
    {4, {2, 1, 4, 1}, 3, {3, 1, 5}},
    {4, {1, 1, 1, 1}, 1, {33}},
    {4, {7, 1, 6, 4}, 3, {5, 1, 4}},
};

static void
check_pair(const pair_t *pair, map2_t *function, cadre_dtype_t dtype)
{
    cadre_tensor_t x[2] = {random_tensor(dtype, pair->left, pair->left_rank, 1),
                           random_tensor(dtype, pair->right, pair->right_rank, 2)};
    ((int32_t *)x[0].data)[0] = ((int32_t *)x[1].data)[0]; /* something to be equal */
    cadre_program_t *p = cadre_program_new("map2");
    cadre_node_t left = arg_like(p, "left", &x[0]);
    cr_assert_eq(compare(p, function(p, left, arg_like(p, "right", &x[1])), x, 1e-6), 0);
    cadre_tensor_fini(&x[0]);
    cadre_tensor_fini(&x[1]);
}

Test(element, broadcasts_each_function_of_two_elements)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(pairs); i++) {
        for (size_t k = 0; k < CADRE_COUNT_OF(map2_functions); k++) {
            check_pair(&pairs[i], map2_functions[k], CADRE_F32);
        }
        check_pair(&pairs[i], cadre_op_gt, CADRE_I32);
        check_pair(&pairs[i], cadre_op_eq, CADRE_I32);
    }
}

Test(element, keeps_nan_in_functions_of_two_elements)
{
    float left[] = {NAN, 1, NAN, 2};
    float right[] = {1, NAN, NAN, 3};
    cadre_tensor_t x[2] = {{.dtype = CADRE_F32, .rank = 1, .shape = {4}, .data = left},
                           {.dtype = CADRE_F32, .rank = 1, .shape = {4}, .data = right}};
    for (size_t k = 0; k < CADRE_COUNT_OF(map2_functions); k++) {
        cadre_program_t *p = cadre_program_new("nan");
        cadre_node_t a = arg_like(p, "left", &x[0]);
        cr_assert_eq(compare(p, map2_functions[k](p, a, arg_like(p, "right", &x[1])), x, 1e-6), 0);
    }
}

Test(element, chooses_between_broadcast_values)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(pairs); i++) {
        cadre_tensor_t x[3] = {
            random_tensor(CADRE_F32, pairs[i].left, pairs[i].left_rank, 1),
            random_tensor(CADRE_F32, pairs[i].right, pairs[i].right_rank, 2),
            random_tensor(CADRE_F32, pairs[i].left, pairs[i].left_rank, 3),
        };
        for (int64_t k = 0; k < cadre_tensor_count(&x[0]); k++) {
            ((float *)x[0].data)[k] = f32_at(&x[0], k) > 0 ? 0.5F : 0;
        }
        cadre_program_t *p = cadre_program_new("where");
        cadre_node_t condition = arg_like(p, "c", &x[0]);
        cadre_node_t yes = arg_like(p, "yes", &x[1]);
        cadre_node_t no = arg_like(p, "no", &x[2]);
        cr_assert_eq(compare(p, cadre_op_where(p, condition, yes, no), x, 0), 0);
        for (int k = 0; k < 3; k++) {
            cadre_tensor_fini(&x[k]);
        }
    }
}

Test(element, casts_toward_zero_and_within_range)
{
    float numbers[] = {-2.7F, 2.7F, NAN, 3e9F, -3e9F, INFINITY, -INFINITY, 2147483520.0F, 0, -0.0F};
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 1, .shape = {10}, .data = numbers};
    cadre_program_t *p = cadre_program_new("to_i32");
    cr_assert_eq(compare(p, cadre_op_cast(p, arg_like(p, "x", &x), CADRE_I32), &x, 0), 0);
    int32_t integers[] = {INT32_MIN, INT32_MAX, 16777217, -5, 0};
    x = (cadre_tensor_t){.dtype = CADRE_I32, .rank = 1, .shape = {5}, .data = integers};
    p = cadre_program_new("to_f32");
    cr_assert_eq(compare(p, cadre_op_cast(p, arg_like(p, "x", &x), CADRE_F32), &x, 0), 0);
}
