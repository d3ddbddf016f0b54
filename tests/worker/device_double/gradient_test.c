/*
 * Gradient checks: the executor built in double, numeric differences with eps 1e-5 against the
 * gradients that cadre_gradient builds. In float the same check fails correct models.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "common/graph/program_data.h"
#include "common/memory.h"
#include "common/random.h"
#include "common/tensor.h"
#include "worker/device/device.h"

TestSuite(gradient, .timeout = 60);

enum { ROWS = 5, CLASSES = 4, VARIABLES_MAX = 16 };

static const double eps = 1e-5;
static const double tolerance = 1e-5;

/* A node that depends on variables made by var(); of any shape. */
typedef cadre_node_t build_t(cadre_program_t *p);

typedef struct {
    cadre_program_t *program; /* decoded from its encoded form, as a worker has it */
    cadre_slot_t *slot;
    cadre_tensor_t arguments[CADRE_ARGUMENTS_MAX];
    void *variables[VARIABLES_MAX]; /* of doubles */
    void *gradients[VARIABLES_MAX]; /* per push */
    int64_t counts[VARIABLES_MAX];
} check_t;

static cadre_node_t
var(cadre_program_t *p, const char *name, int rank, int64_t a, int64_t b, int64_t c)
{
    int64_t shape[3] = {a, b, c};
    return cadre_var(p, name, shape, rank);
}

static cadre_node_t
vector(cadre_program_t *p, const char *name, int64_t size)
{
    return var(p, name, 1, size, 0, 0);
}

static cadre_node_t
matrix(cadre_program_t *p, const char *name, int64_t rows, int64_t columns)
{
    return var(p, name, 2, rows, columns, 0);
}

static cadre_node_t
batch(cadre_program_t *p, const char *name, cadre_dtype_t dtype, int64_t width)
{
    cadre_dim_t dims[2] = {cadre_sym("B"), cadre_dim(width)};
    return cadre_arg(p, name, dtype, dims, width > 0 ? 2 : 1);
}

/* Values in 0.2 to 1.2, alternating in sign when `sign` is -1: away from the kinks at 0. */
static void
fill(double *values, int64_t count, uint64_t stream, int sign)
{
    for (int64_t i = 0; i < count; i++) {
        double value = 0.2 + (double)cadre_random_uniform(7, stream, (uint64_t)i);
        bool flip = sign < 0 && cadre_random_uniform(8, stream, (uint64_t)i) < 0.5F;
        values[i] = flip ? -value : value;
    }
}

static void
make_argument(const cadre_program_argument_t *argument, uint64_t stream, cadre_tensor_t *tensor)
{
    int64_t shape[CADRE_PROGRAM_RANK_MAX] = {0};
    for (int i = 0; i < argument->shape.rank; i++) {
        cadre_extent_t extent = argument->shape.extents[i];
        shape[i] = extent.factor * (extent.symbol < 0 ? 1 : ROWS);
    }
    cadre_dtype_t dtype = argument->dtype == CADRE_F32 ? CADRE_F64 : CADRE_I32;
    cr_assert_eq(cadre_tensor_init(tensor, dtype, shape, argument->shape.rank), 0);
    int64_t count = cadre_tensor_count(tensor);
    if (dtype == CADRE_F64) {
        fill(tensor->data, count, stream, -1);
        return;
    }
    int32_t *labels = tensor->data;
    for (int64_t i = 0; i < count; i++) {
        labels[i] = (int32_t)((i * 3 + 1) % CLASSES);
    }
}

/* The loss: the node itself if it is a number, else its product with fixed random weights. */
static cadre_node_t
to_number(cadre_program_t *p, cadre_node_t y)
{
    if (p->status < 0) {
        return y;
    }
    cadre_extents_t shape = cadre_program_at(p, y)->shape;
    if (shape.rank == 0) {
        return y;
    }
    cadre_node_t weights = cadre_program_emit_rand(p, &shape);
    return cadre_sum_all(p, cadre_mul(p, y, cadre_add(p, weights, cadre_const_f32(p, 0.5F))));
}

static double
run(check_t *check)
{
    cadre_tensor_t result = {0};
    cadre_slot_run_t request = {.program = check->program,
                                .arguments = check->arguments,
                                .argument_count = cadre_program_argument_count(check->program),
                                .variables = (const void *const *)check->variables,
                                .seed = 42,
                                .gradients = check->gradients,
                                .results = &result};
    int status = cadre_slot_run(check->slot, &request);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    double loss = *(double *)result.data;
    cadre_tensor_fini(&result);
    return loss;
}

static void
prepare(check_t *check, const char *name, build_t *build, int sign)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new(name);
    cadre_node_t loss = to_number(p, build(p));
    cadre_minimize(p, loss);
    cadre_result(p, "loss", loss);
    cr_assert_eq(cadre_program_finish(p), 0, "%s: %s", name, cadre_error_text());
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    cr_assert_eq(cadre_program_decode(bytes, size_bytes, &check->program), 0);
    for (int i = 0; i < cadre_program_argument_count(p); i++) {
        make_argument(cadre_program_argument(p, i), 100 + (uint64_t)i, &check->arguments[i]);
    }
    for (int i = 0; i < cadre_program_variable_count(p); i++) {
        const cadre_program_variable_t *variable = cadre_program_variable(p, i);
        check->counts[i] = 1;
        for (int axis = 0; axis < variable->rank; axis++) {
            check->counts[i] *= variable->shape[axis];
        }
        check->variables[i] = cadre_calloc((size_t)check->counts[i], sizeof(double));
        fill(check->variables[i], check->counts[i], 200 + (uint64_t)i, sign);
    }
    for (int i = 0; i < cadre_program_push_count(p); i++) {
        int64_t count = check->counts[cadre_program_push(p, i)->variable];
        check->gradients[i] = cadre_calloc((size_t)count, sizeof(double));
    }
}

static void
compare(check_t *check, const char *name, int push, double *wanted)
{
    int variable = cadre_program_push(check->program, push)->variable;
    for (int64_t i = 0; i < check->counts[variable]; i++) {
        double *value = (double *)check->variables[variable] + i;
        double kept = *value;
        *value = kept + eps;
        double above = run(check);
        *value = kept - eps;
        double below = run(check);
        *value = kept;
        double numeric = (above - below) / (2 * eps);
        double allowed = tolerance * fmax(1, fabs(numeric));
        cr_assert(fabs(numeric - wanted[i]) <= allowed,
                  "%s: gradient of %s at %d is %.9g, the difference quotient %.9g", name,
                  cadre_program_variable(check->program, variable)->name, (int)i, wanted[i],
                  numeric);
    }
}

static void
check_signed(const char *name, build_t *build, int sign)
{
    check_t check = {0};
    cadre_device_t *device = NULL;
    cadre_slot_options_t options = {.poison = true};
    cr_assert_eq(cadre_device_open("cpu", 1, &device), 0);
    cr_assert_eq(cadre_slot_open(device, &options, &check.slot), 0);
    prepare(&check, name, build, sign);
    cr_assert_gt(cadre_program_push_count(check.program), 0);
    for (int i = 0; i < cadre_program_push_count(check.program); i++) {
        run(&check); /* leaves the gradients at the values as they are */
        int64_t count = check.counts[cadre_program_push(check.program, i)->variable];
        double *wanted = cadre_calloc((size_t)count, sizeof(double));
        for (int64_t k = 0; k < count; k++) {
            wanted[k] = ((double *)check.gradients[i])[k];
        }
        compare(&check, name, i, wanted);
        free(wanted);
    }
    for (int i = 0; i < VARIABLES_MAX; i++) {
        free(check.variables[i]);
        free(check.gradients[i]);
    }
    for (int i = 0; i < cadre_program_argument_count(check.program); i++) {
        cadre_tensor_fini(&check.arguments[i]);
    }
    cadre_slot_close(&check.slot);
    cadre_device_close(&device);
    cadre_program_destroy(&check.program);
}

static void
check_gradient(const char *name, build_t *build)
{
    check_signed(name, build, -1);
}

/* ---- one operation each ---- */

#define MAP1(function)                                                                             \
    static cadre_node_t build_##function(cadre_program_t *p)                                       \
    {                                                                                              \
        return cadre_##function(p, matrix(p, "x", 3, 4));                                          \
    }
MAP1(neg)
MAP1(exp)
MAP1(logarithm)
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
    check_signed("log", build_logarithm, 1);
    check_signed("sqrt", build_sqrt, 1);
    check_signed("rsqrt", build_rsqrt, 1);
}

#define MAP2(function)                                                                             \
    static cadre_node_t build_##function(cadre_program_t *p)                                       \
    {                                                                                              \
        return cadre_##function(p, matrix(p, "a", 3, 4), matrix(p, "b", 3, 4));                    \
    }                                                                                              \
    static cadre_node_t build_##function##_row(cadre_program_t *p)                                 \
    {                                                                                              \
        return cadre_##function(p, matrix(p, "a", 3, 4), vector(p, "b", 4));                       \
    }                                                                                              \
    static cadre_node_t build_##function##_column(cadre_program_t *p)                              \
    {                                                                                              \
        return cadre_##function(p, matrix(p, "a", 3, 1), var(p, "b", 3, 2, 3, 4));                 \
    }                                                                                              \
    static cadre_node_t build_##function##_cross(cadre_program_t *p)                               \
    {                                                                                              \
        return cadre_##function(p, var(p, "a", 3, 2, 1, 4), var(p, "b", 3, 1, 3, 1));              \
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
    cadre_node_t condition = cadre_gt(p, matrix(p, "c", 3, 4), cadre_const_f32(p, 0));
    return cadre_where(p, condition, vector(p, "yes", 4), matrix(p, "no", 3, 1));
}

static cadre_node_t
build_same_twice(cadre_program_t *p)
{
    cadre_node_t x = matrix(p, "x", 3, 4);
    return cadre_mul(p, x, cadre_add(p, x, cadre_mul(p, x, x)));
}

static cadre_node_t
build_detach(cadre_program_t *p)
{
    cadre_node_t x = matrix(p, "x", 3, 4);
    cadre_node_t y = matrix(p, "y", 3, 4);
    /* The difference quotient of y alone is right: x enters once more, detached from nothing. */
    return cadre_add(p, cadre_mul(p, x, x), cadre_mul(p, cadre_detach(p, cadre_sign(p, x)), y));
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
    return cadre_matmul_transposed(p, a, flip_left, b, flip_right);
}

static cadre_node_t
build_batched_matmul(cadre_program_t *p)
{
    cadre_node_t a = flip_left ? var(p, "a", 3, 2, 4, 3) : var(p, "a", 3, 2, 3, 4);
    cadre_node_t b = flip_right ? var(p, "b", 3, 2, 5, 4) : var(p, "b", 3, 2, 4, 5);
    return cadre_matmul_transposed(p, a, flip_left, b, flip_right);
}

static cadre_node_t
build_shared_matmul(cadre_program_t *p)
{
    return cadre_matmul(p, var(p, "a", 3, 2, 3, 4), matrix(p, "b", 4, 2));
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
        return cadre_##function(p, var(p, "x", 3, 2, 3, 4), axis_of_test);                         \
    }
REDUCE(sum)
REDUCE(mean)
REDUCE(reduce_max)

static cadre_node_t
build_sum_all(cadre_program_t *p)
{
    return cadre_sum_all(p, cadre_square(p, var(p, "x", 3, 2, 3, 4)));
}

static cadre_node_t
build_mean_all(cadre_program_t *p)
{
    return cadre_mean_all(p, cadre_square(p, var(p, "x", 3, 2, 3, 4)));
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
    return cadre_broadcast(p, matrix(p, "x", 3, 1), dims, 3);
}

static cadre_node_t
build_reshape(cadre_program_t *p)
{
    cadre_dim_t dims[2] = {cadre_dim(2), cadre_dim(6)};
    return cadre_square(p, cadre_reshape(p, matrix(p, "x", 3, 4), dims, 2));
}

static cadre_node_t
build_transpose(cadre_program_t *p)
{
    return cadre_transpose(p, var(p, "x", 3, 2, 3, 4), (int[]){2, 0, 1});
}

static cadre_node_t
build_concat(cadre_program_t *p)
{
    cadre_node_t parts[3] = {matrix(p, "a", 3, 1), matrix(p, "b", 3, 4), matrix(p, "c", 3, 2)};
    return cadre_square(p, cadre_concat(p, parts, 3, -1));
}

static cadre_node_t
build_concat_of_batches(cadre_program_t *p)
{
    cadre_node_t y = cadre_matmul(p, batch(p, "x", CADRE_F32, 3), matrix(p, "w", 3, 2));
    cadre_node_t parts[2] = {y, cadre_square(p, y)};
    cadre_node_t all = cadre_concat(p, parts, 2, 0);
    return cadre_pad(p, cadre_slice(p, all, 0, 1, 1), 0, 1, 2);
}

static cadre_node_t
build_slice(cadre_program_t *p)
{
    return cadre_slice(p, var(p, "x", 3, 2, 4, 3), 1, 1, 2);
}

static cadre_node_t
build_pad(cadre_program_t *p)
{
    return cadre_pad(p, var(p, "x", 3, 2, 4, 3), 1, 1, 2);
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
    return cadre_softmax(p, matrix(p, "x", 3, 4));
}

static cadre_node_t
build_log_softmax(cadre_program_t *p)
{
    return cadre_log_softmax(p, matrix(p, "x", 3, 4));
}

static cadre_node_t
build_xent(cadre_program_t *p)
{
    cadre_node_t logits = cadre_matmul(p, batch(p, "x", CADRE_F32, 3), matrix(p, "w", 3, CLASSES));
    return cadre_xent(p, logits, batch(p, "label", CADRE_I32, 0));
}

Test(gradient, of_row_operations)
{
    check_gradient("softmax", build_softmax);
    check_gradient("log softmax", build_log_softmax);
    check_gradient("xent", build_xent);
}

static cadre_node_t
build_gradient_penalty(cadre_program_t *p)
{
    cadre_node_t x = matrix(p, "x", 3, 4);
    cadre_node_t y = cadre_mean_all(p, cadre_tanh(p, cadre_matmul(p, x, matrix(p, "w", 4, 2))));
    cadre_node_t slope = {0};
    cadre_gradient(p, y, &x, 1, &slope);
    return cadre_add(p, y, cadre_sum_all(p, cadre_square(p, slope)));
}

Test(gradient, of_a_gradient)
{
    check_gradient("gradient penalty", build_gradient_penalty);
}

/* ---- models ---- */

static cadre_node_t
linear(cadre_program_t *p, int64_t outputs)
{
    cadre_node_t x = batch(p, "x", CADRE_F32, 3);
    return cadre_dense(p, x, matrix(p, "w", 3, outputs), vector(p, "b", outputs));
}

static cadre_node_t
build_linear(cadre_program_t *p)
{
    return cadre_mse(p, linear(p, 2), batch(p, "y", CADRE_F32, 2));
}

static cadre_node_t
build_linear_mae(cadre_program_t *p)
{
    return cadre_mae(p, linear(p, 2), batch(p, "y", CADRE_F32, 2));
}

static cadre_node_t
build_logistic(cadre_program_t *p)
{
    return cadre_sigmoid_cross_entropy(p, linear(p, 1), batch(p, "y", CADRE_F32, 0));
}

static cadre_node_t
build_softmax_regression(cadre_program_t *p)
{
    return cadre_softmax_cross_entropy(p, linear(p, CLASSES), batch(p, "y", CADRE_I32, 0));
}

Test(gradient, of_linear_and_logistic_models)
{
    check_gradient("linear", build_linear);
    check_gradient("linear mae", build_linear_mae);
    check_gradient("logistic", build_logistic);
    check_gradient("softmax regression", build_softmax_regression);
}

static cadre_node_t (*activation_of_test)(cadre_program_t *p, cadre_node_t x);
static float dropout_of_test;

static cadre_node_t
build_mlp(cadre_program_t *p)
{
    cadre_node_t x = batch(p, "x", CADRE_F32, 3);
    cadre_node_t h = cadre_dense(p, x, matrix(p, "w1", 3, 6), vector(p, "b1", 6));
    h = cadre_dropout(p, activation_of_test(p, h), dropout_of_test, 1);
    h = activation_of_test(p, cadre_dense(p, h, matrix(p, "w2", 6, 5), vector(p, "b2", 5)));
    cadre_node_t logits = cadre_dense(p, h, matrix(p, "w3", 5, CLASSES), vector(p, "b3", CLASSES));
    return cadre_softmax_cross_entropy(p, logits, batch(p, "label", CADRE_I32, 0));
}

static cadre_node_t
leaky(cadre_program_t *p, cadre_node_t x)
{
    return cadre_max(p, x, cadre_mul(p, x, cadre_const_f32(p, 0.25F)));
}

Test(gradient, of_deep_models_with_each_activation_and_dropout)
{
    cadre_node_t (*activations[])(cadre_program_t *, cadre_node_t) = {
        cadre_relu, cadre_sigmoid, cadre_tanh, cadre_gelu, cadre_softplus, leaky};
    for (size_t i = 0; i < CADRE_COUNT_OF(activations); i++) {
        activation_of_test = activations[i];
        dropout_of_test = 0;
        check_gradient("mlp", build_mlp);
        dropout_of_test = 0.4F;
        check_gradient("mlp with dropout", build_mlp);
    }
}
