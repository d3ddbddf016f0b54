/*
 * Each operation against a reference written as index arithmetic, over awkward shapes.
 */
#include <math.h>
#include <string.h>

#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(op, .timeout = 240);

static void
expect_near(const char *what, int64_t index, double got, double wanted)
{
    bool same = (isnan(got) && isnan(wanted)) || got == wanted ||
                fabs(got - wanted) <= 2e-6 * fmax(1, fabs(wanted));
    cr_assert(same, "%s at %d: %.9g, not %.9g", what, (int)index, got, wanted);
}

/* The index into a tensor that is broadcast to `out` of the element `index` of `out`. */
static int64_t
broadcast_index(const cadre_tensor_t *out, const cadre_tensor_t *from, int64_t index)
{
    int64_t at = 0;
    int64_t step = 1;
    for (int axis = out->rank - 1; axis >= 0; axis--) {
        int64_t place = index % out->shape[axis];
        int own = axis - (out->rank - from->rank);
        index /= out->shape[axis];
        if (own >= 0) {
            at += from->shape[own] == 1 ? 0 : place * step;
            step *= from->shape[own];
        }
    }
    return at;
}

/* ---- map1 ---- */

typedef struct {
    const char *name;
    cadre_node_t (*build)(cadre_program_t *p, cadre_node_t x);
    double (*reference)(double x);
} map1_case_t;

static double
ref_neg(double x)
{
    return -x;
}
static double
ref_rsqrt(double x)
{
    return 1 / sqrt(x);
}
static double
ref_recip(double x)
{
    return 1 / x;
}
static double
ref_square(double x)
{
    return x * x;
}
static double
ref_sign(double x)
{
    return isnan(x) ? x : (x > 0) - (x < 0);
}
static double
ref_step(double x)
{
    return isnan(x) ? x : x > 0;
}
static double
ref_relu(double x)
{
    return isnan(x) ? x : fmax(x, 0);
}
static double
ref_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double
ref_gelu(double x)
{
    return x * 0.5 * erfc(-x / sqrt(2));
}
static double
ref_dgelu(double x)
{
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846);
}
static double
ref_softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

static const map1_case_t map1_cases[] = {
    {"neg", cadre_op_neg, ref_neg},
    {"exp", cadre_op_exp, exp},
    {"log", cadre_op_log, log},
    {"sqrt", cadre_op_sqrt, sqrt},
    {"rsqrt", cadre_op_rsqrt, ref_rsqrt},
    {"recip", cadre_op_recip, ref_recip},
    {"square", cadre_op_square, ref_square},
    {"abs", cadre_op_abs, fabs},
    {"sign", cadre_op_sign, ref_sign},
    {"step", cadre_op_step, ref_step},
    {"relu", cadre_op_relu, ref_relu},
    {"sigmoid", cadre_op_sigmoid, ref_sigmoid},
    {"tanh", cadre_op_tanh, tanh},
    {"gelu", cadre_op_gelu, ref_gelu},
    {"dgelu", cadre_op_dgelu, ref_dgelu},
    {"softplus", cadre_op_softplus, ref_softplus},
};

Test(op, computes_each_function_of_one_element_and_keeps_nan)
{
    float values[] = {-80, -3.5F, -1, -0.25F, -1e-6F, 0, 1e-6F, 0.25F, 1, 3.5F, 80, NAN, 2};
    int64_t count = (int64_t)CADRE_COUNT_OF(values);
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 1, .shape = {count}, .data = values};
    for (size_t i = 0; i < CADRE_COUNT_OF(map1_cases); i++) {
        const map1_case_t *one = &map1_cases[i];
        cadre_program_t *p = cadre_program_new(one->name);
        cadre_tensor_t y = run_once(p, one->build(p, arg_like(p, "x", &x)), &x);
        for (int64_t k = 0; k < count; k++) {
            expect_near(one->name, k, f32_at(&y, k), (float)one->reference((double)values[k]));
        }
        cadre_tensor_fini(&y);
    }
}

/* ---- map2 and where ---- */

typedef struct {
    int left_rank;
    int64_t left[4];
    int right_rank;
    int64_t right[4];
} pair_t;

static const pair_t pairs[] = {
    {0, {0}, 0, {0}},
    {1, {7}, 1, {7}},
    {1, {7}, 0, {0}},
    {0, {0}, 1, {7}},
    {2, {5, 7}, 1, {7}},
    {2, {5, 1}, 2, {5, 7}},
    {2, {1, 7}, 2, {5, 1}},
    {3, {2, 3, 5}, 2, {3, 1}},
    {3, {2, 1, 5}, 3, {1, 3, 1}},
    {4, {2, 3, 4, 5}, 4, {1, 3, 1, 5}},
    {4, {2, 1, 4, 1}, 3, {3, 1, 5}},
    {4, {1, 1, 1, 1}, 1, {33}},
};

typedef struct {
    const char *name;
    cadre_node_t (*build)(cadre_program_t *p, cadre_node_t left, cadre_node_t right);
} map2_case_t;

static const map2_case_t map2_cases[] = {
    {"add", cadre_op_add}, {"sub", cadre_op_sub}, {"mul", cadre_op_mul}, {"div", cadre_op_div},
    {"max", cadre_op_max}, {"min", cadre_op_min}, {"gt", cadre_op_gt},   {"eq", cadre_op_eq},
};

static float
ref_map2(const char *name, float a, float b)
{
    switch (name[0] << 8 | name[1]) {
    case 'a' << 8 | 'd':
        return a + b;
    case 's' << 8 | 'u':
        return a - b;
    case 'm' << 8 | 'u':
        return a * b;
    case 'd' << 8 | 'i':
        return a / b;
    case 'm' << 8 | 'a':
        return isnan(a) || isnan(b) ? NAN : fmaxf(a, b);
    case 'm' << 8 | 'i':
        return isnan(a) || isnan(b) ? NAN : fminf(a, b);
    case 'g' << 8 | 't':
        return a > b;
    default:
        return a == b;
    }
}

Test(op, broadcasts_each_function_of_two_elements)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(pairs) * CADRE_COUNT_OF(map2_cases); i++) {
        const pair_t *pair = &pairs[i / CADRE_COUNT_OF(map2_cases)];
        const map2_case_t *one = &map2_cases[i % CADRE_COUNT_OF(map2_cases)];
        cadre_tensor_t x[2] = {random_tensor(CADRE_F32, pair->left, pair->left_rank, 1),
                               random_tensor(CADRE_F32, pair->right, pair->right_rank, 2)};
        ((float *)x[0].data)[0] = ((float *)x[1].data)[0]; /* something to be equal */
        cadre_program_t *p = cadre_program_new(one->name);
        cadre_node_t left = arg_like(p, "left", &x[0]);
        cadre_tensor_t y = run_once(p, one->build(p, left, arg_like(p, "right", &x[1])), x);
        for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
            float a = f32_at(&x[0], broadcast_index(&y, &x[0], k));
            float b = f32_at(&x[1], broadcast_index(&y, &x[1], k));
            cr_assert_eq(f32_at(&y, k), ref_map2(one->name, a, b), "%s, shapes %d, element %d",
                         one->name, (int)(i / CADRE_COUNT_OF(map2_cases)), (int)k);
        }
        cadre_tensor_fini(&y);
        cadre_tensor_fini(&x[0]);
        cadre_tensor_fini(&x[1]);
    }
}

Test(op, lets_nan_through_functions_of_two_elements)
{
    float left[] = {NAN, 1, NAN};
    float right[] = {1, NAN, NAN};
    cadre_tensor_t x[2] = {{.dtype = CADRE_F32, .rank = 1, .shape = {3}, .data = left},
                           {.dtype = CADRE_F32, .rank = 1, .shape = {3}, .data = right}};
    for (size_t i = 0; i < 6; i++) { /* the comparisons say no */
        cadre_program_t *p = cadre_program_new(map2_cases[i].name);
        cadre_node_t a = arg_like(p, "left", &x[0]);
        cadre_tensor_t y = run_once(p, map2_cases[i].build(p, a, arg_like(p, "right", &x[1])), x);
        for (int64_t k = 0; k < 3; k++) {
            cr_assert(isnan(f32_at(&y, k)), "%s at %d", map2_cases[i].name, (int)k);
        }
        cadre_tensor_fini(&y);
    }
}

Test(op, compares_integers)
{
    int32_t left[] = {1, 16777217, -3, 5};
    int32_t right[] = {1, 16777216, 4, 4};
    cadre_tensor_t x[2] = {{.dtype = CADRE_I32, .rank = 1, .shape = {4}, .data = left},
                           {.dtype = CADRE_I32, .rank = 1, .shape = {4}, .data = right}};
    const float wanted[2][4] = {{1, 0, 0, 0}, {0, 1, 0, 1}};
    for (int greater = 0; greater < 2; greater++) {
        cadre_program_t *p = cadre_program_new("compare");
        cadre_node_t a = arg_like(p, "left", &x[0]);
        cadre_node_t b = arg_like(p, "right", &x[1]);
        cadre_tensor_t y = run_once(p, greater ? cadre_op_gt(p, a, b) : cadre_op_eq(p, a, b), x);
        cr_assert_eq(memcmp(y.data, wanted[greater], sizeof(wanted[0])), 0);
        cadre_tensor_fini(&y);
    }
}

Test(op, chooses_between_broadcast_values)
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
        cadre_tensor_t y = run_once(p, cadre_op_where(p, condition, yes, no), x);
        for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
            const cadre_tensor_t *from =
                f32_at(&x[0], broadcast_index(&y, &x[0], k)) != 0 ? &x[1] : &x[2];
            cr_assert_eq(f32_at(&y, k), f32_at(from, broadcast_index(&y, from, k)));
        }
        cadre_tensor_fini(&y);
        for (int k = 0; k < 3; k++) {
            cadre_tensor_fini(&x[k]);
        }
    }
}

/* ---- reduce ---- */

static double
ref_reduce(int64_t function, const float *x, int64_t size, int64_t step)
{
    double sum = 0;
    int64_t best = 0;
    for (int64_t i = 0; i < size; i++) {
        sum += (double)x[i * step];
        best = x[i * step] > x[best * step] ? i : best;
    }
    return function == CADRE_REDUCE_SUM    ? sum
           : function == CADRE_REDUCE_MEAN ? sum / (double)size
           : function == CADRE_REDUCE_MAX  ? (double)x[best * step]
                                           : (double)best;
}

static void
check_reduce(int64_t function, const cadre_tensor_t *x, int begin, int end)
{
    cadre_program_t *p = cadre_program_new("reduce");
    cadre_node_t node =
        cadre_program_emit_reduce(p, (cadre_reduce_t)function, arg_like(p, "x", x), begin, end);
    cadre_tensor_t y = run_once(p, node, x);
    int64_t size = 1;
    int64_t inner = 1;
    for (int i = begin; i < x->rank; i++) {
        *(i < end ? &size : &inner) *= x->shape[i];
    }
    cr_assert_eq(cadre_tensor_count(&y) * size, cadre_tensor_count(x));
    for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
        const float *first = (const float *)x->data + k / inner * inner * size + k % inner;
        double wanted = ref_reduce(function, first, size, inner);
        double got = y.dtype == CADRE_I32 ? (double)i32_at(&y, k) : (double)f32_at(&y, k);
        expect_near(cadre_op_text(CADRE_OP_REDUCE, function), k, got, wanted);
    }
    cadre_tensor_fini(&y);
}

Test(op, reduces_neighbouring_axes)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){2, 3, 37, 5}, 4, 5);
    for (int64_t function = CADRE_REDUCE_SUM; function <= CADRE_REDUCE_ARGMAX; function++) {
        for (int begin = 0; begin < 4; begin++) {
            for (int end = begin + 1; end <= 4; end++) {
                check_reduce(function, &x, begin, end);
            }
        }
    }
    cadre_tensor_fini(&x);
}

Test(op, sums_a_million_numbers_to_six_digits)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){1000003}, 1, 5);
    for (int64_t i = 0; i < cadre_tensor_count(&x); i++) {
        ((float *)x.data)[i] += 1;
    }
    double wanted = ref_reduce(CADRE_REDUCE_SUM, x.data, 1000003, 1);
    cadre_program_t *p = cadre_program_new("sum");
    cadre_tensor_t y = run_once(p, cadre_op_sum_all(p, arg_like(p, "x", &x)), &x);
    cr_assert_lt(fabs((double)f32_at(&y, 0) / wanted - 1), 2e-6);
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&x);
}

Test(op, keeps_nan_in_a_maximum_and_names_the_first_of_equals)
{
    float values[] = {1, NAN, 3, 2, 2, 2};
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 2, .shape = {2, 3}, .data = values};
    cadre_program_t *p = cadre_program_new("max");
    cadre_tensor_t y = run_once(p, cadre_op_reduce_max(p, arg_like(p, "x", &x), 1), &x);
    cr_assert(isnan(f32_at(&y, 0)));
    cr_assert_eq(f32_at(&y, 1), 2);
    cadre_tensor_fini(&y);
    p = cadre_program_new("argmax");
    y = run_once(p, cadre_op_argmax(p, arg_like(p, "x", &x), -1), &x);
    cr_assert_eq(i32_at(&y, 1), 0);
    cadre_tensor_fini(&y);
}

/* ---- matmul ---- */

static void
check_matmul(int64_t batch, const int64_t size[3], int flip_left, int flip_right)
{
    int64_t rows = size[0];
    int64_t inner = size[1];
    int64_t columns = size[2];
    int64_t left[3] = {batch, flip_left ? inner : rows, flip_left ? rows : inner};
    int64_t right[3] = {batch, flip_right ? columns : inner, flip_right ? inner : columns};
    int skip = batch == 0;
    cadre_tensor_t x[2] = {random_tensor(CADRE_F32, left + skip, 3 - skip, 1),
                           random_tensor(CADRE_F32, right + skip, 3 - skip, 2)};
    cadre_program_t *p = cadre_program_new("matmul");
    cadre_node_t a = arg_like(p, "a", &x[0]);
    cadre_node_t b = arg_like(p, "b", &x[1]);
    cadre_tensor_t y = run_once(p, cadre_op_matmul_transposed(p, a, flip_left, b, flip_right), x);
    cr_assert_eq(cadre_tensor_count(&y), (batch ? batch : 1) * rows * columns);
    for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
        int64_t n = k / (rows * columns);
        int64_t row = k / columns % rows;
        int64_t column = k % columns;
        double sum = 0;
        for (int64_t i = 0; i < inner; i++) {
            int64_t at_a = n * rows * inner + (flip_left ? i * rows + row : row * inner + i);
            int64_t at_b =
                n * inner * columns + (flip_right ? column * inner + i : i * columns + column);
            sum += (double)f32_at(&x[0], at_a) * (double)f32_at(&x[1], at_b);
        }
        expect_near("matmul", k, f32_at(&y, k), sum);
    }
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&x[0]);
    cadre_tensor_fini(&x[1]);
}

Test(op, multiplies_matrices_with_each_transposition)
{
    const int64_t sizes[][3] = {{1, 1, 1}, {3, 4, 5}, {1, 17, 1}, {33, 2, 9}, {8, 40, 1}};
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes); i++) {
        for (int flips = 0; flips < 4; flips++) {
            check_matmul(0, sizes[i], flips & 1, flips >> 1);
            check_matmul(3, sizes[i], flips & 1, flips >> 1);
        }
    }
}

/* ---- movement ---- */

static void
check_transpose(cadre_dtype_t dtype, const int *order)
{
    cadre_tensor_t x = random_tensor(dtype, (int64_t[]){2, 3, 4, 5}, 4, 6);
    int64_t step[4] = {60, 20, 5, 1};
    cadre_program_t *p = cadre_program_new("transpose");
    cadre_tensor_t y = run_once(p, cadre_op_transpose(p, arg_like(p, "x", &x), order), &x);
    for (int64_t k = 0; k < 120; k++) {
        int64_t from = 0;
        int64_t left = k;
        for (int axis = 3; axis >= 0; axis--) {
            cr_assert_eq(y.shape[axis], x.shape[order[axis]]);
            from += left % y.shape[axis] * step[order[axis]];
            left /= y.shape[axis];
        }
        cr_assert_eq(i32_at(&y, k), i32_at(&x, from)); /* the bits, whatever the type */
    }
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&x);
}

Test(op, transposes_in_any_order)
{
    for (int code = 0; code < 256; code++) {
        int order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
        unsigned seen = 1U << order[0] | 1U << order[1] | 1U << order[2] | 1U << order[3];
        if (seen == 15) {
            check_transpose(CADRE_F32, order);
            check_transpose(CADRE_I32, order);
        }
    }
}

Test(op, slices_pads_and_joins_along_each_axis)
{
    for (int i = 0; i < 8; i++) {
        int axis = i / 2;
        cadre_dtype_t dtype = i % 2 ? CADRE_I32 : CADRE_F32;
        cadre_tensor_t x = random_tensor(dtype, (int64_t[]){3, 4, 5, 6}, 4, 6);
        /* What is cut in three and joined again is the same. */
        cadre_program_t *p = cadre_program_new("parts");
        cadre_node_t node = arg_like(p, "x", &x);
        cadre_node_t parts[3] = {cadre_op_slice(p, node, axis, 0, 1),
                                 cadre_op_slice(p, node, axis, 1, 1),
                                 cadre_op_slice(p, node, axis, 2, x.shape[axis] - 2)};
        cadre_tensor_t y = run_once(p, cadre_op_concat(p, parts, 3, axis), &x);
        cr_assert_eq(memcmp(x.data, y.data, cadre_tensor_size_bytes(&x)), 0);
        cadre_tensor_fini(&y);
        /* What is padded and cut again too, and the padding is zero. */
        p = cadre_program_new("padding");
        cadre_node_t padded = cadre_op_pad(p, arg_like(p, "x", &x), axis, 2, 1);
        cadre_op_result(p, "padded", padded);
        cadre_op_result(p, "back", cadre_op_slice(p, padded, axis, 2, x.shape[axis]));
        cadre_op_result(p, "before", cadre_op_slice(p, padded, axis, 0, 2));
        cadre_op_result(p, "after", cadre_op_slice(p, padded, axis, x.shape[axis] + 2, 1));
        cadre_tensor_t results[4] = {0};
        cr_assert_eq(try_once(p, &x, results), 0);
        cr_assert_eq(memcmp(x.data, results[1].data, cadre_tensor_size_bytes(&x)), 0);
        for (int k = 2; k < 4; k++) {
            for (int64_t e = 0; e < cadre_tensor_count(&results[k]); e++) {
                cr_assert_eq(i32_at(&results[k], e), 0);
            }
        }
        for (int k = 0; k < 4; k++) {
            cadre_tensor_fini(&results[k]);
        }
        cadre_tensor_fini(&x);
    }
}

Test(op, broadcasts_and_shares_out)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){3, 1}, 2, 6);
    cadre_extents_t shape = {.rank = 3};
    for (int i = 0; i < 3; i++) {
        shape.extents[i] = cadre_extent_number(i + 2);
    }
    for (int share = 0; share < 2; share++) {
        cadre_program_t *p = cadre_program_new("broadcast");
        cadre_node_t node = arg_like(p, "x", &x);
        cadre_tensor_t y = run_once(p, cadre_program_emit_broadcast(p, node, &shape, share), &x);
        for (int64_t k = 0; k < 24; k++) {
            float value = f32_at(&x, k / 4 % 3);
            cr_assert_eq(f32_at(&y, k), share ? value / 8 : value);
        }
        cadre_tensor_fini(&y);
    }
    cadre_tensor_fini(&x);
}

/* ---- rows ---- */

Test(op, makes_rows_of_probabilities_without_overflow)
{
    float values[] = {1000, 1001, 999, -1000, -1000, -1000, 0, -INFINITY, 0, NAN, 1, 2};
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 2, .shape = {4, 3}, .data = values};
    const double first[3] = {0.244728471, 0.665240956, 0.090030573};
    for (int logarithm = 0; logarithm < 2; logarithm++) {
        cadre_program_t *p = cadre_program_new("softmax");
        cadre_node_t node = arg_like(p, "x", &x);
        cadre_tensor_t y =
            run_once(p, logarithm ? cadre_op_log_softmax(p, node) : cadre_op_softmax(p, node), &x);
        for (int k = 0; k < 3; k++) {
            double one = (double)f32_at(&y, k);
            double two = (double)f32_at(&y, 3 + k);
            expect_near("softmax", k, logarithm ? exp(one) : one, first[k]);
            expect_near("softmax", 3 + k, logarithm ? exp(two) : two, 1.0 / 3);
            cr_assert(isnan(f32_at(&y, 9 + k)));
        }
        expect_near("softmax", 7, (double)f32_at(&y, 7), logarithm ? -INFINITY : 0);
        cadre_tensor_fini(&y);
    }
}

static int
run_xent(int32_t label, float *loss)
{
    float values[] = {0, 0, 1, 2, 3, 4};
    int32_t labels[] = {1, label};
    cadre_tensor_t x[2] = {{.dtype = CADRE_F32, .rank = 2, .shape = {2, 3}, .data = values},
                           {.dtype = CADRE_I32, .rank = 1, .shape = {2}, .data = labels}};
    cadre_program_t *p = cadre_program_new("xent");
    cadre_node_t logits = arg_like(p, "logits", &x[0]);
    cadre_op_result(p, "loss", cadre_op_xent(p, logits, arg_like(p, "label", &x[1])));
    cadre_tensor_t result = {0};
    int status = try_once(p, x, &result);
    if (status == 0) {
        *loss = f32_at(&result, 1);
        cadre_tensor_fini(&result);
    }
    return status;
}

Test(op, refuses_a_label_that_is_no_class)
{
    float loss = 0;
    cr_assert_eq(run_xent(2, &loss), 0);
    expect_near("xent", 1, (double)loss, log(exp(-2) + exp(-1) + 1));
    cr_assert_eq(run_xent(0, &loss), 0);
    cr_assert_eq(run_xent(3, &loss), CADRE_EDATA);
    cr_assert_str_eq(cadre_error_text(), "xent: cross entropy: label 3 in row 1 is not in 0..2");
    cr_assert_eq(run_xent(-1, &loss), CADRE_EDATA);
}

/* ---- other ---- */

Test(op, casts_toward_zero_and_within_range)
{
    float values[] = {1.9F, -1.9F, 3e9F, -3e9F, NAN, 2147483520};
    const int32_t wanted[] = {1, -1, INT32_MAX, INT32_MIN, 0, 2147483520};
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 1, .shape = {6}, .data = values};
    cadre_program_t *p = cadre_program_new("cast");
    cadre_node_t whole = cadre_op_cast(p, arg_like(p, "x", &x), CADRE_I32);
    cadre_op_result(p, "i32", whole);
    cadre_op_result(p, "f32", cadre_op_cast(p, whole, CADRE_F32));
    cadre_tensor_t results[2] = {0};
    cr_assert_eq(try_once(p, &x, results), 0);
    for (int64_t i = 0; i < 6; i++) {
        cr_assert_eq(i32_at(&results[0], i), wanted[i]);
        cr_assert_eq(f32_at(&results[1], i), (float)wanted[i]);
    }
    cadre_tensor_fini(&results[0]);
    cadre_tensor_fini(&results[1]);
}

Test(op, draws_the_same_numbers_for_the_same_seed_only)
{
    cadre_program_t *p = cadre_program_new("rand");
    cadre_dim_t dims[1] = {cadre_dim(1001)};
    cadre_op_result(p, "a", cadre_op_rand_uniform(p, dims, 1));
    cadre_op_result(p, "b", cadre_op_rand_uniform(p, dims, 1));
    cr_assert_eq(cadre_program_finish(p), 0);
    runner_t runner = runner_open(NULL);
    cadre_tensor_t results[3][2] = {0};
    for (int i = 0; i < 3; i++) {
        cadre_slot_run_t run = {.program = p, .seed = i == 2 ? 1U << 31 : 5, .results = results[i]};
        cr_assert_eq(cadre_slot_run(runner.slot, &run), 0);
    }
    double sum = 0;
    for (int64_t k = 0; k < 1001; k++) {
        float value = f32_at(&results[0][0], k);
        cr_assert(value >= 0 && value < 1);
        sum += (double)value;
    }
    cr_assert(fabs(sum / 1001 - 0.5) < 0.05);
    cr_assert_eq(memcmp(results[0][0].data, results[1][0].data, 4004), 0);
    cr_assert_neq(memcmp(results[0][0].data, results[0][1].data, 4004), 0);
    cr_assert_neq(memcmp(results[0][0].data, results[2][0].data, 4004), 0);
    for (int i = 0; i < 6; i++) {
        cadre_tensor_fini(&results[i / 2][i % 2]);
    }
    runner_close(&runner);
    cadre_program_destroy(&p);
}

Test(op, drops_out_the_given_share_and_scales_the_rest)
{
    int64_t count = 20000;
    cadre_tensor_t x = random_tensor(CADRE_F32, &count, 1, 5);
    for (int64_t i = 0; i < count; i++) {
        ((float *)x.data)[i] = 3;
    }
    cadre_program_t *p = cadre_program_new("dropout");
    cadre_node_t node = arg_like(p, "x", &x);
    cr_assert_eq(cadre_op_dropout(p, node, 0.25F, 0).id, node.id);
    cadre_tensor_t y = run_once(p, cadre_op_dropout(p, node, 0.25F, 1), &x);
    int64_t dropped = 0;
    for (int64_t i = 0; i < count; i++) {
        cr_assert(f32_at(&y, i) == 0 || f32_at(&y, i) == 4);
        dropped += f32_at(&y, i) == 0;
    }
    cr_assert(dropped > 4700 && dropped < 5300, "%d dropped", (int)dropped);
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&x);
}
