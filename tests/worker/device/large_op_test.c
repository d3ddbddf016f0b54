/*
 * Operations beyond the blocks, tiles and lanes in which the CPU device works, against plain loops
 * in double.
 */
#include <math.h>
#include <string.h>

#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(large_op, .timeout = 240);

static const int64_t sizes[] = {1, 2, 10, 31, 32, 33, 255, 256, 257, 511, 512, 513, 1025, 3000};

static void
expect_near(const char *what, int64_t size, int64_t index, double got, double wanted)
{
    cr_assert(fabs(got - wanted) <= 2e-6 * fmax(1, fabs(wanted)),
              "%s, size %d at %d: %.9g, not %.9g", what, (int)size, (int)index, got, wanted);
}

/* ---- rows ---- */

static void
check_probabilities(const cadre_tensor_t *x, const cadre_tensor_t *labels)
{
    int64_t size = x->shape[1];
    cadre_program_t *p = cadre_program_new("rows");
    cadre_node_t node = arg_like(p, "x", x);
    cadre_node_t label = arg_like(p, "label", labels);
    cadre_op_result(p, "softmax", cadre_op_softmax(p, node));
    cadre_op_result(p, "log_softmax", cadre_op_log_softmax(p, node));
    cadre_op_result(p, "xent", cadre_op_xent(p, node, label));
    cadre_tensor_t results[3] = {0};
    const cadre_tensor_t arguments[] = {*x, *labels};
    cr_assert_eq(try_once(p, arguments, results), 0, "%s", cadre_error_text());
    for (int64_t row = 0; row < x->shape[0]; row++) {
        double sum = 0;
        for (int64_t i = 0; i < size; i++) {
            sum += exp((double)f32_at(x, row * size + i));
        }
        for (int64_t i = 0; i < size; i++) {
            int64_t at = row * size + i;
            double wanted = (double)f32_at(x, at) - log(sum);
            expect_near("softmax", size, at, (double)f32_at(&results[0], at), exp(wanted));
            expect_near("log_softmax", size, at, (double)f32_at(&results[1], at), wanted);
        }
        double mine = (double)f32_at(x, row * size + i32_at(labels, row));
        expect_near("xent", size, row, (double)f32_at(&results[2], row), log(sum) - mine);
    }
    for (int i = 0; i < 3; i++) {
        cadre_tensor_fini(&results[i]);
    }
}

Test(large_op, makes_probabilities_of_rows_of_any_length)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes); i++) {
        cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){131, sizes[i]}, 2, 1);
        cadre_tensor_t labels = random_tensor(CADRE_I32, (int64_t[]){131}, 1, 2);
        for (int64_t row = 0; row < 131; row++) {
            ((int32_t *)labels.data)[row] %= (int32_t)sizes[i];
        }
        check_probabilities(&x, &labels);
        cadre_tensor_fini(&x);
        cadre_tensor_fini(&labels);
    }
}

Test(large_op, finds_the_largest_and_keeps_nan_wherever_it_is)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes); i++) {
        int64_t size = sizes[i];
        cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){2 * size, size}, 2, 3);
        for (int64_t row = 0; row < size; row++) { /* one large at each place, one NaN at each */
            ((float *)x.data)[row * size + row] = 5;
            ((float *)x.data)[(size + row) * size + row] = NAN;
        }
        cadre_program_t *p = cadre_program_new("max");
        cadre_tensor_t y = run_once(p, cadre_op_reduce_max(p, arg_like(p, "x", &x), 1), &x);
        for (int64_t row = 0; row < size; row++) {
            cr_assert_eq(f32_at(&y, row), 5, "size %d, place %d", (int)size, (int)row);
            cr_assert(isnan(f32_at(&y, size + row)), "size %d, place %d", (int)size, (int)row);
        }
        cadre_tensor_fini(&y);
        cadre_tensor_fini(&x);
    }
}

/* The first of equal ones; NaN is no larger than anything, and nothing larger than NaN. */
static int32_t
place_of_largest(const cadre_tensor_t *x, int64_t row)
{
    int64_t size = x->shape[1];
    int64_t best = 0;
    for (int64_t i = 1; i < size; i++) {
        best = f32_at(x, row * size + i) > f32_at(x, row * size + best) ? i : best;
    }
    return (int32_t)best;
}

Test(large_op, finds_the_place_of_the_largest_wherever_nan_is)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes); i++) {
        int64_t size = sizes[i];
        cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){2 * size, size}, 2, 3);
        for (int64_t row = 0; row < size; row++) { /* two equal ones, the second of them last */
            ((float *)x.data)[row * size + row] = 5;
            ((float *)x.data)[row * size + size - 1] = 5;
            ((float *)x.data)[(size + row) * size + row] = NAN;
        }
        cadre_program_t *p = cadre_program_new("argmax");
        cadre_tensor_t y = run_once(p, cadre_op_argmax(p, arg_like(p, "x", &x), 1), &x);
        for (int64_t row = 0; row < 2 * size; row++) {
            cr_assert_eq(i32_at(&y, row), place_of_largest(&x, row), "size %d, row %d", (int)size,
                         (int)row);
        }
        cadre_tensor_fini(&y);
        cadre_tensor_fini(&x);
    }
}

/* ---- elements ---- */

enum { FORMS = 4, FORM_ROWS = 3 };

/* Of the output's shape, a number, a row or a column. */
static cadre_tensor_t
tensor_of_form(size_t form, int64_t columns, uint64_t stream)
{
    const int64_t shapes[FORMS][2] = {{FORM_ROWS, columns}, {1, 1}, {1, columns}, {FORM_ROWS, 1}};
    return random_tensor(CADRE_F32, shapes[form], 2, stream);
}

/* What element `k` of `out` is made of in `x`. */
static float
form_at(const cadre_tensor_t *x, const cadre_tensor_t *out, int64_t k)
{
    int64_t row = x->shape[0] > 1 ? k / out->shape[1] : 0;
    int64_t column = x->shape[1] > 1 ? k % out->shape[1] : 0;
    return f32_at(x, row * x->shape[1] + column);
}

/* where(c, yes, no), and a sum whose output is whole. */
static void
check_forms(int64_t columns, size_t forms)
{
    cadre_tensor_t x[4] = {tensor_of_form(0, columns, 1), tensor_of_form(forms % FORMS, columns, 2),
                           tensor_of_form(forms / FORMS % FORMS, columns, 3),
                           tensor_of_form(forms / FORMS / FORMS, columns, 4)};
    for (int64_t k = 0; k < cadre_tensor_count(&x[1]); k++) {
        ((float *)x[1].data)[k] = f32_at(&x[1], k) > 0 ? 0.5F : 0;
    }
    cadre_program_t *p = cadre_program_new("forms");
    cadre_node_t one = arg_like(p, "one", &x[0]);
    cadre_node_t c = arg_like(p, "c", &x[1]);
    cadre_node_t yes = arg_like(p, "yes", &x[2]);
    cadre_op_result(p, "where", cadre_op_where(p, c, yes, arg_like(p, "no", &x[3])));
    cadre_op_result(p, "sum", cadre_op_add(p, one, yes));
    cadre_tensor_t y[2] = {0};
    cr_assert_eq(try_once(p, x, y), 0, "%s", cadre_error_text());
    for (int64_t k = 0; k < cadre_tensor_count(&y[0]); k++) {
        const cadre_tensor_t *from = form_at(&x[1], &y[0], k) != 0 ? &x[2] : &x[3];
        cr_assert_eq(f32_at(&y[0], k), form_at(from, &y[0], k),
                     "where, %d columns, forms %d, element %d", (int)columns, (int)forms, (int)k);
    }
    for (int64_t k = 0; k < cadre_tensor_count(&y[1]); k++) {
        cr_assert_eq(f32_at(&y[1], k), f32_at(&x[0], k) + form_at(&x[2], &y[1], k),
                     "sum, %d columns, forms %d, element %d", (int)columns, (int)forms, (int)k);
    }
    for (int i = 0; i < 4; i++) {
        cadre_tensor_fini(&x[i]);
    }
    cadre_tensor_fini(&y[0]);
    cadre_tensor_fini(&y[1]);
}

Test(large_op, walks_numbers_rows_and_columns_in_pieces_of_any_length)
{
    static const int64_t columns[] = {2, 10, 127, 513, 8191, 8192, 8193, 20000};
    for (size_t i = 0; i < CADRE_COUNT_OF(columns); i++) {
        for (size_t forms = 0; forms < (size_t)FORMS * FORMS * FORMS; forms++) {
            check_forms(columns[i], forms);
        }
    }
}

/* ---- sums ---- */

static void
check_sum_over_rows(int64_t rows, int64_t columns)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){rows, columns}, 2, 4);
    cadre_program_t *p = cadre_program_new("sum");
    cadre_node_t one = cadre_op_add(p, arg_like(p, "x", &x), cadre_op_const_f32(p, 1));
    cadre_tensor_t y = run_once(p, cadre_op_sum(p, one, 0), &x);
    for (int64_t i = 0; i < columns; i++) {
        double wanted = 0;
        for (int64_t row = 0; row < rows; row++) {
            wanted += (double)(f32_at(&x, row * columns + i) + 1);
        }
        expect_near("sum over rows", columns, i, (double)f32_at(&y, i), wanted);
    }
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&x);
}

Test(large_op, sums_over_many_rows_to_six_digits)
{
    check_sum_over_rows(1000003, 3);
    check_sum_over_rows(70001, 33);
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes); i++) {
        check_sum_over_rows(65, sizes[i]);
    }
}

/* ---- movement ---- */

static void
check_transpose(cadre_dtype_t dtype, const int64_t shape[3], const int order[3])
{
    cadre_tensor_t x = random_tensor(dtype, shape, 3, 5);
    cadre_program_t *p = cadre_program_new("transpose");
    cadre_tensor_t y = run_once(p, cadre_op_transpose(p, arg_like(p, "x", &x), order), &x);
    const int64_t strides[3] = {shape[1] * shape[2], shape[2], 1};
    int64_t at = 0;
    for (int64_t i = 0; i < shape[order[0]]; i++) {
        for (int64_t j = 0; j < shape[order[1]]; j++) {
            for (int64_t k = 0; k < shape[order[2]]; k++, at++) {
                int64_t from =
                    i * strides[order[0]] + j * strides[order[1]] + k * strides[order[2]];
                cr_assert_eq(((int32_t *)y.data)[at], ((int32_t *)x.data)[from], "element %d",
                             (int)at);
            }
        }
    }
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&x);
}

Test(large_op, transposes_by_tiles)
{
    static const int orders[][3] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const int64_t shapes[][3] = {{3, 31, 33}, {2, 64, 32}, {33, 1, 65}, {70, 5, 40}};
    for (size_t i = 0; i < CADRE_COUNT_OF(orders); i++) {
        for (size_t k = 0; k < CADRE_COUNT_OF(shapes); k++) {
            check_transpose(CADRE_F32, shapes[k], orders[i]);
            check_transpose(CADRE_I32, shapes[k], orders[i]);
        }
    }
}

Test(large_op, draws_the_numbers_of_its_stream)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes); i++) {
        cadre_program_t *p = cadre_program_new("rand");
        cadre_extents_t shape = {.rank = 1, .extents = {cadre_extent_number(sizes[i])}};
        cadre_program_emit_rand(p, &shape);
        cadre_node_t node = cadre_program_emit_rand(p, &shape); /* the second of its kind */
        uint64_t stream = UINT64_C(0x72616e64) << 32 |
                          (uint64_t)cadre_program_at(p, node)->attributes[CADRE_RAND_STREAM];
        cadre_tensor_t y = run_once(p, node, NULL);
        for (int64_t k = 0; k < sizes[i]; k++) {
            cr_assert_eq(f32_at(&y, k), cadre_random_uniform(9, stream, (uint64_t)k));
        }
        cadre_tensor_fini(&y);
    }
}
