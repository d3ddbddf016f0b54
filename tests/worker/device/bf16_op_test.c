/*
 * bf16 on the CPU device: casts, movement, products and gradients, against plain arithmetic.
 */
#include <math.h>

#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(bf16_op, .timeout = 240);

/* The nearest bf16, found by distance: of both neighbours in steps of the last of 8 bits. */
static double
nearest(double x)
{
    int exponent = 0;
    if (x == 0 || !isfinite(x)) {
        return x;
    }
    (void)frexp(x, &exponent);
    double step = ldexp(1, (exponent < -125 ? -125 : exponent) - 8);
    double low = floor(x / step) * step;
    double high = low + step;
    double below = x - low;
    double above = high - x;
    double nearer = below < above || (below == above && fmod(low / step, 2) == 0) ? low : high;
    return fabs(nearer) >= 0x1p128 ? copysign(INFINITY, x) : nearer;
}

static double
number_at(const cadre_tensor_t *tensor, int64_t i)
{
    return tensor->dtype == CADRE_BF16  ? (double)bf16_at(tensor, i)
           : tensor->dtype == CADRE_F32 ? (double)f32_at(tensor, i)
                                        : (double)i32_at(tensor, i);
}

static void
check_cast(const cadre_tensor_t *x, cadre_dtype_t to)
{
    cadre_program_t *p = cadre_program_new("cast");
    cadre_tensor_t y = run_once(p, cadre_op_cast(p, arg_like(p, "x", x), to), x);
    cr_assert_eq(y.dtype, to);
    for (int64_t i = 0; i < cadre_tensor_count(x); i++) {
        double from = number_at(x, i);
        double wanted = to == CADRE_BF16  ? nearest((double)(float)from)
                        : to == CADRE_F32 ? (double)(float)from
                        : isnan(from)     ? 0
                                          : fmax(INT32_MIN, fmin(INT32_MAX, trunc(from)));
        double got = number_at(&y, i);
        cr_assert(got == wanted || (isnan(got) && isnan(wanted)), "%a: %a, not %a", from, got,
                  wanted);
    }
    cadre_tensor_fini(&y);
}

Test(bf16_op, casts_to_the_nearest_and_exactly_back)
{
    float numbers[] = {
        0,           -0.0F,  1,   -1.5F,    0x1.01p0F, 0x1.03p0F, 3e38F, 0x1.fefffep127F,
        0x1.ffp127F, 1e-39F, NAN, INFINITY, -2.75F,    1e9F,      -3e9F, -INFINITY,
        1e-45F};
    cadre_tensor_t odd = {.dtype = CADRE_F32, .rank = 1, .shape = {17}, .data = numbers};
    int32_t integers[] = {0, 1, -255, 256, 257, 259, INT32_MAX, INT32_MIN, 16777217};
    cadre_tensor_t whole = {.dtype = CADRE_I32, .rank = 1, .shape = {9}, .data = integers};
    uint16_t words[] = {0x3f80, 0xbf81, 0x7f80, 0xff80, 0x7fc0, 0x4f00, 0x0001, 0xc2f7, 0x8000};
    cadre_tensor_t half = {.dtype = CADRE_BF16, .rank = 1, .shape = {9}, .data = words};
    cadre_tensor_t many = random_tensor(CADRE_F32, (int64_t[]){4099}, 1, 1);
    const cadre_tensor_t *from[] = {&odd, &whole, &half, &many};
    for (size_t i = 0; i < CADRE_COUNT_OF(from); i++) {
        check_cast(from[i], CADRE_F32);
        check_cast(from[i], CADRE_I32);
        check_cast(from[i], CADRE_BF16);
    }
    cadre_tensor_fini(&many);
}

/* Rounding would make infinity of some, and zero of others. */
Test(bf16_op, keeps_every_nan)
{
    static const uint32_t words[] = {0x7f800001, 0x7fffffff, 0xffffffff, 0xff800001, 0x7fc00000};
    float numbers[CADRE_COUNT_OF(words)];
    memcpy(numbers, words, sizeof(words));
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 1, .shape = {5}, .data = numbers};
    check_cast(&x, CADRE_BF16);
}

/* ---- movement: the bits that the same movement gives for f32, converted ---- */

enum { MOVEMENTS = 9 };

static cadre_node_t
moved(cadre_program_t *p, cadre_node_t x, cadre_node_t index, int which)
{
    cadre_node_t three[3] = {x, cadre_op_slice(p, x, 1, 1, 2), x};
    const cadre_dim_t flat[] = {cadre_dim(5), cadre_dim(15 * 7)};
    const cadre_dim_t large[] = {cadre_dim(4), cadre_dim(15), cadre_dim(5), cadre_dim(7)};
    switch (which) {
    case 0:
        return cadre_op_reshape(p, x, flat, 2);
    case 1:
        return cadre_op_transpose(p, x, (int[]){2, 0, 1});
    case 2:
        return cadre_op_transpose(p, x, (int[]){1, 0, 2});
    case 3:
        return cadre_op_concat(p, three, 3, 1);
    case 4:
        return cadre_op_slice(p, x, 2, 3, 3);
    case 5:
        return cadre_op_pad(p, x, 1, 2, 1);
    case 6:
        return cadre_op_broadcast(p, cadre_op_slice(p, x, 1, 0, 5), large, 4);
    case 7:
        return cadre_op_broadcast(p, cadre_op_slice(p, x, 2, 6, 1), large, 4);
    default:
        return cadre_op_take(p, x, index);
    }
}

Test(bf16_op, moves_as_f32_does)
{
    int32_t places[] = {3, 0, 14, 14, 7, 3, 1};
    cadre_tensor_t x[2] = {random_tensor(CADRE_BF16, (int64_t[]){15, 5, 7}, 3, 1),
                           {.dtype = CADRE_I32, .rank = 1, .shape = {7}, .data = places}};
    for (int which = 0; which < MOVEMENTS; which++) {
        cadre_tensor_t results[2];
        for (int wide = 0; wide < 2; wide++) {
            cadre_program_t *p = cadre_program_new("movement");
            cadre_node_t y = arg_like(p, "x", &x[0]);
            cadre_node_t index = arg_like(p, "index", &x[1]);
            y = moved(p, wide ? cadre_op_cast(p, y, CADRE_F32) : y, index, which);
            results[wide] = run_once(p, y, x);
        }
        cr_assert_eq(results[0].dtype, CADRE_BF16);
        cr_assert_eq(cadre_tensor_count(&results[0]), cadre_tensor_count(&results[1]));
        for (int64_t i = 0; i < cadre_tensor_count(&results[0]); i++) {
            cr_assert_eq(bf16_at(&results[0], i), f32_at(&results[1], i), "movement %d, element %d",
                         which, (int)i);
        }
        cadre_tensor_fini(&results[0]);
        cadre_tensor_fini(&results[1]);
    }
    cadre_tensor_fini(&x[0]);
}

Test(bf16_op, takes_single_numbers_and_refuses_positions_outside)
{
    int32_t places[] = {2, 0, 2};
    cadre_tensor_t x[2] = {random_tensor(CADRE_BF16, (int64_t[]){3}, 1, 1),
                           {.dtype = CADRE_I32, .rank = 1, .shape = {3}, .data = places}};
    for (int outside = 0; outside < 2; outside++) {
        cadre_program_t *p = cadre_program_new("take");
        cadre_node_t table = arg_like(p, "x", &x[0]);
        cadre_op_result(p, "y", cadre_op_take(p, table, arg_like(p, "index", &x[1])));
        cadre_tensor_t y = {0};
        places[1] = outside ? 3 : 0;
        cr_assert_eq(try_once(p, x, &y), outside ? CADRE_EDATA : 0);
        for (int i = 0; i < 3 && !outside; i++) {
            cr_assert_eq(bf16_at(&y, i), bf16_at(&x[0], places[i]));
        }
        cadre_tensor_fini(&y);
    }
    cadre_tensor_fini(&x[0]);
}

Test(bf16_op, refuses_an_argument_of_another_type)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){3}, 1, 1);
    cadre_program_t *p = cadre_program_new("wide");
    cadre_node_t node = cadre_op_arg(p, "x", CADRE_BF16, (cadre_dim_t[]){cadre_dim(3)}, 1);
    cadre_op_result(p, "y", cadre_op_cast(p, node, CADRE_F32));
    cadre_tensor_t y = {0};
    cr_assert_eq(try_once(p, &x, &y), CADRE_EDTYPE);
    cr_assert_str_eq(cadre_error_text(), "wide: argument x is f32, not bf16");
    cadre_tensor_fini(&x);
}

/* ---- products ---- */

static void
check_matmul(const int64_t sizes[3], int64_t batches, int flips)
{
    const int64_t m = sizes[0];
    const int64_t k = sizes[1];
    const int64_t n = sizes[2];
    int64_t left[] = {batches, flips & 1 ? k : m, flips & 1 ? m : k};
    int64_t right[] = {batches, flips & 2 ? n : k, flips & 2 ? k : n};
    cadre_tensor_t x[2] = {random_tensor(CADRE_BF16, left, 3, 1),
                           random_tensor(CADRE_BF16, right, 3, 2)};
    cadre_program_t *p = cadre_program_new("matmul");
    cadre_node_t a = arg_like(p, "a", &x[0]);
    cadre_node_t b = arg_like(p, "b", &x[1]);
    cadre_tensor_t y = run_once(p, cadre_op_matmul_transposed(p, a, flips & 1, b, flips >> 1), x);
    cr_assert_eq(y.dtype, CADRE_F32);
    for (int64_t at = 0; at < batches * m * n; at++) {
        int64_t batch = at / (m * n);
        int64_t row = at / n % m;
        int64_t column = at % n;
        double sum = 0;
        for (int64_t i = 0; i < k; i++) {
            int64_t in_a = batch * m * k + (flips & 1 ? i * m + row : row * k + i);
            int64_t in_b = batch * k * n + (flips & 2 ? column * k + i : i * n + column);
            sum += (double)bf16_at(&x[0], in_a) * (double)bf16_at(&x[1], in_b);
        }
        cr_assert_float_eq(f32_at(&y, at), sum, 1e-5);
    }
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&x[0]);
    cadre_tensor_fini(&x[1]);
}

Test(bf16_op, multiplies_with_sums_in_f32)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {2, 3, 5}, {31, 67, 13}, {64, 8, 1}};
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes); i++) {
        for (int flips = 0; flips < 4; flips++) {
            check_matmul(sizes[i], 1, flips);
            check_matmul(sizes[i], 3, flips);
        }
    }
}

/* Of sum(c y) with y = x w in bf16: c rounded, times the rounded other side. */
Test(bf16_op, rounds_the_gradient_of_a_product_once)
{
    enum { ROWS = 5, INNER = 7, COLUMNS = 3 };
    cadre_tensor_t x[3] = {random_tensor(CADRE_F32, (int64_t[]){ROWS, INNER}, 2, 1),
                           random_tensor(CADRE_F32, (int64_t[]){INNER, COLUMNS}, 2, 2),
                           random_tensor(CADRE_F32, (int64_t[]){ROWS, COLUMNS}, 2, 3)};
    for (int which = 0; which < 2; which++) {
        cadre_program_t *p = cadre_program_new("gradient");
        cadre_node_t nodes[2] = {arg_like(p, "x", &x[0]), arg_like(p, "w", &x[1])};
        cadre_node_t c = arg_like(p, "c", &x[2]);
        cadre_node_t y = cadre_op_matmul(p, cadre_op_cast(p, nodes[0], CADRE_BF16),
                                         cadre_op_cast(p, nodes[1], CADRE_BF16));
        cadre_node_t gradients[2];
        cadre_op_gradient(p, cadre_op_sum_all(p, cadre_op_mul(p, c, y)), nodes, 2, gradients);
        cadre_tensor_t got = run_once(p, gradients[which], x);
        for (int64_t at = 0; at < cadre_tensor_count(&got); at++) {
            double sum = 0;
            for (int64_t i = 0; i < (which == 0 ? COLUMNS : ROWS); i++) {
                int64_t in_c = which == 0 ? at / INNER * COLUMNS + i : i * COLUMNS + at % COLUMNS;
                int64_t in_other = which == 0 ? at % INNER * COLUMNS + i : i * INNER + at / COLUMNS;
                sum += nearest((double)f32_at(&x[2], in_c)) *
                       nearest((double)f32_at(&x[1 - which], in_other));
            }
            cr_assert_float_eq(f32_at(&got, at), sum, 1e-6, "%d at %d: %g, not %g", which, (int)at,
                               (double)f32_at(&got, at), sum);
        }
        cadre_tensor_fini(&got);
    }
    for (int i = 0; i < 3; i++) {
        cadre_tensor_fini(&x[i]);
    }
}

/* Through casts and movement a gradient is that of the same program in f32, bit for bit: what is
 * rounded on the way there is not on the way back. */
Test(bf16_op, hands_gradients_on_through_movement)
{
    int32_t places[] = {3, 0, 14, 14, 7, 3, 1};
    cadre_tensor_t x[2] = {random_tensor(CADRE_F32, (int64_t[]){15, 5, 7}, 3, 1),
                           {.dtype = CADRE_I32, .rank = 1, .shape = {7}, .data = places}};
    for (int which = 0; which < MOVEMENTS; which++) {
        cadre_tensor_t results[2];
        for (int half = 0; half < 2; half++) {
            cadre_program_t *p = cadre_program_new("gradient");
            cadre_node_t node = arg_like(p, "x", &x[0]);
            cadre_node_t index = arg_like(p, "index", &x[1]);
            cadre_node_t y = half ? cadre_op_cast(p, node, CADRE_BF16) : node;
            y = moved(p, y, index, which);
            y = half ? cadre_op_cast(p, y, CADRE_F32) : y;
            const cadre_extents_t *shape = &cadre_program_at(p, y)->shape;
            cadre_node_t weights = cadre_program_emit_rand(p, shape);
            cadre_node_t gradient;
            cadre_op_gradient(p, cadre_op_sum_all(p, cadre_op_mul(p, y, weights)), &node, 1,
                              &gradient);
            results[half] = run_once(p, gradient, x);
        }
        cr_assert_eq(results[1].dtype, CADRE_F32);
        cr_assert_eq(memcmp(results[0].data, results[1].data, cadre_tensor_size_bytes(&results[0])),
                     0, "movement %d", which);
        cadre_tensor_fini(&results[0]);
        cadre_tensor_fini(&results[1]);
    }
    cadre_tensor_fini(&x[0]);
}
