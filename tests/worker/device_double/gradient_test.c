/*
 * The gradient of each operation against difference quotients.
 */
#include "tests/worker/device_double/gradient_check.h"

TestSuite(gradient, .timeout = 240);

/* ---- one operation each ---- */

#define MAP1(function)                                                                             \
    static cadre_node_t build_##function(cadre_program_t *p)                                       \
    {                                                                                              \
        return cadre_op_##function(p, matrix(p, "x", 3, 4));                                       \
    }
MAP1(neg)
MAP1(exp)
MAP1(log)
MAP1(sqrt)
MAP1(rsqrt)
MAP1(recip)
MAP1(square)
MAP1(abs)
MAP1(relu)
MAP1(sigmoid)
MAP1(tanh)
MAP1(gelu)
MAP1(softplus)

Test(gradient, of_each_function_of_one_element)
{
    check_gradient("neg", build_neg);
    check_gradient("exp", build_exp);
    check_gradient("recip", build_recip);
    check_gradient("square", build_square);
    check_gradient("abs", build_abs);
    check_gradient("relu", build_relu);
    check_gradient("sigmoid", build_sigmoid);
    check_gradient("tanh", build_tanh);
    check_gradient("gelu", build_gelu);
    check_gradient("softplus", build_softplus);
}

Test(gradient, of_functions_of_positive_elements)
{
    check_signed("log", build_log, 1);
    check_signed("sqrt", build_sqrt, 1);
    check_signed("rsqrt", build_rsqrt, 1);
}

#define MAP2(function)                                                                             \
    static cadre_node_t build_##function(cadre_program_t *p)                                       \
    {                                                                                              \
        return cadre_op_##function(p, matrix(p, "a", 3, 4), matrix(p, "b", 3, 4));                 \
    }                                                                                              \
    static cadre_node_t build_##function##_row(cadre_program_t *p)                                 \
    {                                                                                              \
        return cadre_op_##function(p, matrix(p, "a", 3, 4), vector(p, "b", 4));                    \
    }                                                                                              \
    static cadre_node_t build_##function##_column(cadre_program_t *p)                              \
    {                                                                                              \
        return cadre_op_##function(p, matrix(p, "a", 3, 1), var(p, "b", 3, 2, 3, 4));              \
    }                                                                                              \
    static cadre_node_t build_##function##_cross(cadre_program_t *p)                               \
    {                                                                                              \
        return cadre_op_##function(p, var(p, "a", 3, 2, 1, 4), var(p, "b", 3, 1, 3, 1));           \
    }
MAP2(add)
MAP2(sub)
MAP2(mul)
MAP2(div)
MAP2(max)
MAP2(min)

#define CHECK_MAP2(function)                                                                       \
    check_gradient(#function, build_##function);                                                   \
    check_gradient(#function " row", build_##function##_row);                                      \
    check_gradient(#function " column", build_##function##_column);                                \
    check_gradient(#function " cross", build_##function##_cross)

Test(gradient, of_each_function_of_two_elements_and_broadcasting)
{
    CHECK_MAP2(add);
    CHECK_MAP2(sub);
    CHECK_MAP2(mul);
    CHECK_MAP2(div);
    CHECK_MAP2(max);
    CHECK_MAP2(min);
}

static cadre_node_t
build_where(cadre_program_t *p)
{
    cadre_node_t condition = cadre_op_gt(p, matrix(p, "c", 3, 4), cadre_op_const_f32(p, 0));
    return cadre_op_where(p, condition, vector(p, "yes", 4), matrix(p, "no", 3, 1));
}

static cadre_node_t
build_same_twice(cadre_program_t *p)
{
    cadre_node_t x = matrix(p, "x", 3, 4);
    return cadre_op_mul(p, x, cadre_op_add(p, x, cadre_op_mul(p, x, x)));
}

static cadre_node_t
build_detach(cadre_program_t *p)
{
    cadre_node_t x = matrix(p, "x", 3, 4);
    cadre_node_t y = matrix(p, "y", 3, 4);
    /* The difference quotient of y alone is right: x enters once more, detached from nothing. */
    return cadre_op_add(p, cadre_op_mul(p, x, x),
                        cadre_op_mul(p, cadre_op_detach(p, cadre_op_sign(p, x)), y));
}

Test(gradient, of_where_of_shared_nodes_and_of_detached_ones)
{
    check_gradient("where", build_where);
    check_gradient("same twice", build_same_twice);
    check_gradient("detach", build_detach);
}

static int flip_left;
static int flip_right;

static cadre_node_t
build_matmul(cadre_program_t *p)
{
    cadre_node_t a = flip_left ? matrix(p, "a", 4, 3) : matrix(p, "a", 3, 4);
    cadre_node_t b = flip_right ? matrix(p, "b", 2, 4) : matrix(p, "b", 4, 2);
    return cadre_op_matmul_transposed(p, a, flip_left, b, flip_right);
}

static cadre_node_t
build_batched_matmul(cadre_program_t *p)
{
    cadre_node_t a = flip_left ? var(p, "a", 3, 2, 4, 3) : var(p, "a", 3, 2, 3, 4);
    cadre_node_t b = flip_right ? var(p, "b", 3, 2, 5, 4) : var(p, "b", 3, 2, 4, 5);
    return cadre_op_matmul_transposed(p, a, flip_left, b, flip_right);
}

static cadre_node_t
build_shared_matmul(cadre_program_t *p)
{
    return cadre_op_matmul(p, var(p, "a", 3, 2, 3, 4), matrix(p, "b", 4, 2));
}

Test(gradient, of_matmul_with_each_transposition)
{
    for (flip_left = 0; flip_left < 2; flip_left++) {
        for (flip_right = 0; flip_right < 2; flip_right++) {
            check_gradient("matmul", build_matmul);
            check_gradient("batched matmul", build_batched_matmul);
        }
    }
    check_gradient("shared matmul", build_shared_matmul);
}

static int axis_of_test;

#define REDUCE(function)                                                                           \
    static cadre_node_t build_##function(cadre_program_t *p)                                       \
    {                                                                                              \
        return cadre_op_##function(p, var(p, "x", 3, 2, 3, 4), axis_of_test);                      \
    }
REDUCE(sum)
REDUCE(mean)
REDUCE(reduce_max)

static cadre_node_t
build_sum_all(cadre_program_t *p)
{
    return cadre_op_sum_all(p, cadre_op_square(p, var(p, "x", 3, 2, 3, 4)));
}

static cadre_node_t
build_mean_all(cadre_program_t *p)
{
    return cadre_op_mean_all(p, cadre_op_square(p, var(p, "x", 3, 2, 3, 4)));
}

Test(gradient, of_each_reduction_over_each_axis)
{
    for (axis_of_test = -1; axis_of_test < 3; axis_of_test++) {
        check_gradient("sum", build_sum);
        check_gradient("mean", build_mean);
        check_gradient("max", build_reduce_max);
    }
    check_gradient("sum of all", build_sum_all);
    check_gradient("mean of all", build_mean_all);
}

static cadre_node_t
build_broadcast(cadre_program_t *p)
{
    cadre_dim_t dims[3] = {cadre_dim(2), cadre_dim(3), cadre_dim(4)};
    return cadre_op_broadcast(p, matrix(p, "x", 3, 1), dims, 3);
}

static cadre_node_t
build_reshape(cadre_program_t *p)
{
    cadre_dim_t dims[2] = {cadre_dim(2), cadre_dim(6)};
    return cadre_op_square(p, cadre_op_reshape(p, matrix(p, "x", 3, 4), dims, 2));
}

static cadre_node_t
build_transpose(cadre_program_t *p)
{
    return cadre_op_transpose(p, var(p, "x", 3, 2, 3, 4), (int[]){2, 0, 1});
}

static cadre_node_t
build_concat(cadre_program_t *p)
{
    cadre_node_t parts[3] = {matrix(p, "a", 3, 1), matrix(p, "b", 3, 4), matrix(p, "c", 3, 2)};
    return cadre_op_square(p, cadre_op_concat(p, parts, 3, -1));
}

static cadre_node_t
build_concat_of_batches(cadre_program_t *p)
{
    cadre_node_t y = cadre_op_matmul(p, batch(p, "x", CADRE_F32, 3), matrix(p, "w", 3, 2));
    cadre_node_t parts[2] = {y, cadre_op_square(p, y)};
    cadre_node_t all = cadre_op_concat(p, parts, 2, 0);
    return cadre_op_pad(p, cadre_op_slice(p, all, 0, 1, 1), 0, 1, 2);
}

static cadre_node_t
build_slice(cadre_program_t *p)
{
    return cadre_op_slice(p, var(p, "x", 3, 2, 4, 3), 1, 1, 2);
}

static cadre_node_t
build_pad(cadre_program_t *p)
{
    return cadre_op_pad(p, var(p, "x", 3, 2, 4, 3), 1, 1, 2);
}

Test(gradient, of_each_movement)
{
    check_gradient("broadcast", build_broadcast);
    check_gradient("reshape", build_reshape);
    check_gradient("transpose", build_transpose);
    check_gradient("concat", build_concat);
    check_gradient("concat of batches", build_concat_of_batches);
    check_gradient("slice", build_slice);
    check_gradient("pad", build_pad);
}

static cadre_node_t
build_softmax(cadre_program_t *p)
{
    return cadre_op_softmax(p, matrix(p, "x", 3, 4));
}

static cadre_node_t
build_log_softmax(cadre_program_t *p)
{
    return cadre_op_log_softmax(p, matrix(p, "x", 3, 4));
}

static cadre_node_t
build_xent(cadre_program_t *p)
{
    cadre_node_t logits =
        cadre_op_matmul(p, batch(p, "x", CADRE_F32, 3), matrix(p, "w", 3, CLASSES));
    return cadre_op_xent(p, logits, batch(p, "label", CADRE_I32, 0));
}

static cadre_node_t
build_rownorm(cadre_program_t *p)
{
    return cadre_op_rownorm(p, matrix(p, "x", 3, 19), 1e-5F);
}

/* An eps that counts, and few elements: where a mistake in the variance shows most. */
static cadre_node_t
build_rownorm_of_two(cadre_program_t *p)
{
    return cadre_op_rownorm(p, var(p, "x", 3, 2, 3, 2), 0.5F);
}

Test(gradient, of_row_operations)
{
    check_gradient("rownorm", build_rownorm);
    check_gradient("rownorm of two", build_rownorm_of_two);
    check_gradient("softmax", build_softmax);
    check_gradient("log softmax", build_log_softmax);
    check_gradient("xent", build_xent);
}

typedef struct {
    int64_t image[4];
    int kernel[2];
    int stride;
    int padding;
} windows_t;

static const windows_t windows[] = {
    {{2, 3, 3, 1}, {2, 2}, 1, 0}, {{1, 4, 5, 2}, {3, 2}, 1, 1}, {{2, 5, 4, 1}, {2, 3}, 2, 1},
    {{1, 4, 4, 3}, {1, 1}, 3, 0}, {{1, 2, 2, 1}, {4, 4}, 1, 2}, {{1, 6, 6, 1}, {2, 2}, 3, 0},
};
static const windows_t *windows_of_test;

static cadre_node_t
image_of_test(cadre_program_t *p)
{
    return cadre_op_var(p, "x", windows_of_test->image, 4);
}

static cadre_node_t
build_im2col(cadre_program_t *p)
{
    return cadre_op_im2col(p, image_of_test(p), windows_of_test->kernel, windows_of_test->stride,
                           windows_of_test->padding);
}

/* Its gradient is a col2im, whose own is checked here: the loss has a gradient in it. */
static cadre_node_t
build_col2im(cadre_program_t *p)
{
    cadre_node_t x = image_of_test(p);
    cadre_node_t columns = build_im2col(p);
    cadre_node_t loss = to_number(p, cadre_op_mul(p, columns, cadre_op_square(p, columns)));
    cadre_node_t slope = {0};
    cadre_op_gradient(p, loss, &x, 1, &slope);
    return cadre_op_square(p, slope);
}

Test(gradient, of_windows_of_images_and_of_their_adjoint)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(windows); i++) {
        windows_of_test = &windows[i];
        check_gradient("im2col", build_im2col);
        check_gradient("col2im", build_col2im);
    }
}

static cadre_node_t
build_gradient_penalty(cadre_program_t *p)
{
    cadre_node_t x = matrix(p, "x", 3, 4);
    cadre_node_t y =
        cadre_op_mean_all(p, cadre_op_tanh(p, cadre_op_matmul(p, x, matrix(p, "w", 4, 2))));
    cadre_node_t slope = {0};
    cadre_op_gradient(p, y, &x, 1, &slope);
    return cadre_op_add(p, y, cadre_op_sum_all(p, cadre_op_square(p, slope)));
}

Test(gradient, of_a_gradient)
{
    check_gradient("gradient penalty", build_gradient_penalty);
}
