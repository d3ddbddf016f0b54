/*
 * rownorm and its gradient against their formulas, written as index arithmetic.
 */
#include <math.h>

#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(norm_op, .timeout = 240);

static const float eps = 1e-5F;

typedef struct {
    int rank;
    int64_t shape[4];
} shape_t;

static const shape_t shapes[] = {
    {1, {1}},     {1, {2}},          {1, {37}},   {2, {3, 1}},    {2, {5, 16}},    {2, {4, 15}},
    {2, {3, 33}}, {4, {2, 3, 2, 5}}, {2, {1, 1}}, {2, {2, 1000}}, {3, {2, 2, 17}},
};

static double
reference_mean(const float *x, int64_t size)
{
    double sum = 0;
    for (int64_t i = 0; i < size; i++) {
        sum += (double)x[i];
    }
    return sum / (double)size;
}

static double
reference_scale(const float *x, int64_t size)
{
    double mean = reference_mean(x, size);
    double sum = 0;
    for (int64_t i = 0; i < size; i++) {
        sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    }
    return 1 / sqrt(sum / (double)size + (double)eps);
}

static void
expect_near(double got, double wanted, double allowed, const char *what)
{
    cr_assert(fabs(got - wanted) <= allowed * fmax(1, fabs(wanted)), "%s: %.9g, not %.9g", what,
              got, wanted);
}

static void
check_rownorm(const cadre_tensor_t *x, double allowed)
{
    int64_t size = x->shape[x->rank - 1];
    const float *values = x->data;
    cadre_program_t *p = cadre_program_new("rownorm");
    /* Twice the negation is the same in the arena, where the output takes its place. */
    cadre_node_t inner = cadre_op_neg(p, cadre_op_neg(p, arg_like(p, "x", x)));
    cadre_tensor_t y = run_once(p, cadre_op_neg(p, cadre_op_rownorm(p, inner, eps)), x);
    for (int64_t i = 0; i < cadre_tensor_count(x); i++) {
        const float *row = values + i / size * size;
        double wanted =
            ((double)values[i] - reference_mean(row, size)) * reference_scale(row, size);
        expect_near(-(double)f32_at(&y, i), wanted, allowed, "rownorm");
    }
    cadre_tensor_fini(&y);
}

Test(norm_op, brings_each_row_to_mean_0_and_variance_1)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(shapes); i++) {
        cadre_tensor_t x = random_tensor(CADRE_F32, shapes[i].shape, shapes[i].rank, 4);
        check_rownorm(&x, 5e-6);
        cadre_tensor_fini(&x);
    }
}

Test(norm_op, keeps_the_variance_of_rows_far_from_zero)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){3, 256}, 2, 4);
    for (int64_t i = 0; i < cadre_tensor_count(&x); i++) {
        ((float *)x.data)[i] += 1000; /* the difference of squares would have lost everything */
    }
    check_rownorm(&x, 1e-3);
    cadre_tensor_fini(&x);
}

Test(norm_op, keeps_nan_in_its_row_and_gives_zeros_for_a_row_of_equals)
{
    float values[] = {1, NAN, 3, 2, 2, 2, 1, 2, 3};
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 2, .shape = {3, 3}, .data = values};
    cadre_program_t *p = cadre_program_new("rownorm");
    cadre_tensor_t y = run_once(p, cadre_op_rownorm(p, arg_like(p, "x", &x), eps), &x);
    for (int64_t i = 0; i < 3; i++) {
        cr_assert(isnan(f32_at(&y, i)));
        cr_assert_eq(f32_at(&y, 3 + i), 0);
        expect_near((double)f32_at(&y, 6 + i), (double)(i - 1) * sqrt(1.5), 1e-4, "third row");
    }
    cadre_tensor_fini(&y);
}

/* The gradient of sum(rownorm(x) g) for x; `in_place` puts g or x where the result may go. */
static void
check_gradient(const shape_t *shape, int in_place)
{
    cadre_tensor_t inputs[2] = {random_tensor(CADRE_F32, shape->shape, shape->rank, 4),
                                random_tensor(CADRE_F32, shape->shape, shape->rank, 5)};
    cadre_program_t *p = cadre_program_new("rownorm_grad");
    cadre_node_t x = arg_like(p, "x", &inputs[0]);
    cadre_node_t g = arg_like(p, "g", &inputs[1]);
    x = in_place == 1 ? cadre_op_neg(p, cadre_op_neg(p, x)) : x;
    g = in_place == 2 ? cadre_op_neg(p, cadre_op_neg(p, g)) : g;
    cadre_node_t slope =
        cadre_program_emit2(p, CADRE_OP_ROWNORM_GRAD, cadre_op_float_bits(eps), g, x);
    cadre_tensor_t result = run_once(p, cadre_op_neg(p, slope), inputs);
    int64_t size = shape->shape[shape->rank - 1];
    for (int64_t i = 0; i < cadre_tensor_count(&result); i++) {
        const float *row = (const float *)inputs[0].data + i / size * size;
        const float *along = (const float *)inputs[1].data + i / size * size;
        double mean = reference_mean(row, size);
        double scale = reference_scale(row, size);
        double product = 0;
        for (int64_t k = 0; k < size; k++) {
            product += (double)along[k] * ((double)row[k] - mean) * scale / (double)size;
        }
        double wanted = scale * ((double)along[i % size] - reference_mean(along, size) -
                                 ((double)row[i % size] - mean) * scale * product);
        expect_near(-(double)f32_at(&result, i), wanted, 2e-5, "rownorm_grad");
    }
    cadre_tensor_fini(&result);
    cadre_tensor_fini(&inputs[0]);
    cadre_tensor_fini(&inputs[1]);
}

Test(norm_op, has_the_gradient_of_the_formula)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(shapes); i++) {
        for (int in_place = 0; in_place < 3 && shapes[i].shape[shapes[i].rank - 1] > 1;
             in_place++) {
            check_gradient(&shapes[i], in_place);
        }
    }
}
