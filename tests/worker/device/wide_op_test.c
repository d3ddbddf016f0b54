/*
 * f64 and i64 on the CPU device: casts, arithmetic, reductions and movement against plain C.
 */
#include <math.h>

#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(wide_op, .timeout = 240);

/* ---- casts ---- */

/* An element as the widest numbers that C has: long double has all bits of i64. */
static long double
number_at(const cadre_tensor_t *tensor, int64_t i)
{
    switch (tensor->dtype) {
    case CADRE_F32:
        return (long double)f32_at(tensor, i);
    case CADRE_F64:
        return (long double)f64_at(tensor, i);
    case CADRE_I32:
        return (long double)i32_at(tensor, i);
    case CADRE_I64:
        return (long double)i64_at(tensor, i);
    default:
        return (long double)bf16_at(tensor, i);
    }
}

static long double
whole(long double from, long double least, long double most)
{
    if (isnan(from)) {
        return 0;
    }
    return fmaxl(least, fminl(most, truncl(from)));
}

static long double
cast_to(long double from, cadre_dtype_t to)
{
    switch (to) {
    case CADRE_F32:
        return (long double)(float)from;
    case CADRE_F64:
        return (long double)(double)from;
    case CADRE_I32:
        return whole(from, INT32_MIN, INT32_MAX);
    default:
        return whole(from, (long double)INT64_MIN, (long double)INT64_MAX);
    }
}

static void
check_casts(const cadre_tensor_t *x)
{
    static const cadre_dtype_t dtypes[] = {CADRE_F32, CADRE_F64, CADRE_I32, CADRE_I64};
    for (size_t k = 0; k < CADRE_COUNT_OF(dtypes); k++) {
        cadre_program_t *p = cadre_program_new("cast");
        cadre_tensor_t y = run_once(p, cadre_op_cast(p, arg_like(p, "x", x), dtypes[k]), x);
        cr_assert_eq(y.dtype, dtypes[k]);
        for (int64_t i = 0; i < cadre_tensor_count(x); i++) {
            long double wanted = cast_to(number_at(x, i), dtypes[k]);
            long double got = number_at(&y, i);
            cr_assert(got == wanted || (isnan(got) && isnan(wanted)), "%s to %s: %Lg: %Lg",
                      cadre_dtype_text(x->dtype), cadre_dtype_text(dtypes[k]), number_at(x, i),
                      got);
        }
        cadre_tensor_fini(&y);
    }
}

Test(wide_op, casts_to_the_nearest_and_stops_at_the_ends)
{
    double doubles[] = {0,        0.1,       -2.7,          0x1p31,     0x1p31 - 1, -0x1p31 - 1,
                        0x1p63,   -0x1p63,   0x1p63 - 1024, 1e300,      -1e300,     NAN,
                        INFINITY, -INFINITY, 0x1p24 + 1,    0x1p53 + 2, 1e-300,     16777217.5};
    cadre_tensor_t x = {.dtype = CADRE_F64, .rank = 1, .shape = {18}, .data = doubles};
    check_casts(&x);
    int64_t integers[] = {0,           -1,        INT64_MAX,       INT64_MIN,
                          INT32_MAX,   INT32_MIN, (1LL << 53) + 1, (1LL << 24) + 1,
                          -(1LL << 40)};
    x = (cadre_tensor_t){.dtype = CADRE_I64, .rank = 1, .shape = {9}, .data = integers};
    check_casts(&x);
    float floats[] = {0, 1.5F, -2.5F, 3e38F, -3e38F, NAN, INFINITY, 0x1p63F, -0x1p63F, 0x1p31F};
    x = (cadre_tensor_t){.dtype = CADRE_F32, .rank = 1, .shape = {10}, .data = floats};
    check_casts(&x);
    int32_t small[] = {0, -1, INT32_MAX, INT32_MIN, 16777217};
    x = (cadre_tensor_t){.dtype = CADRE_I32, .rank = 1, .shape = {5}, .data = small};
    check_casts(&x);
    uint16_t halves[] = {0x3f80, 0xc2f7, 0x7f80, 0x7fc0, 0x5f00};
    x = (cadre_tensor_t){.dtype = CADRE_BF16, .rank = 1, .shape = {5}, .data = halves};
    check_casts(&x);
}

/* ---- functions of two elements ---- */

static double
f64_of(cadre_map2_t function, double a, double b)
{
    switch (function) {
    case CADRE_MAP2_ADD:
        return a + b;
    case CADRE_MAP2_SUB:
        return a - b;
    case CADRE_MAP2_MUL:
        return a * b;
    case CADRE_MAP2_DIV:
        return a / b;
    case CADRE_MAP2_MAX:
        return isnan(a) || isnan(b) ? NAN : fmax(a, b);
    case CADRE_MAP2_MIN:
        return isnan(a) || isnan(b) ? NAN : fmin(a, b);
    case CADRE_MAP2_GT:
        return a > b;
    case CADRE_MAP2_EQ:
        return a == b;
    }
    return NAN;
}

/* By numbers of 128 bits, cut to 64. */
static int64_t
i64_of(cadre_map2_t function, int64_t a, int64_t b)
{
    __extension__ typedef __int128 wider_t;
    const wider_t left = a;
    const wider_t right = b;
    switch (function) {
    case CADRE_MAP2_ADD:
        return (int64_t)(uint64_t)(left + right);
    case CADRE_MAP2_SUB:
        return (int64_t)(uint64_t)(left - right);
    case CADRE_MAP2_MUL:
        return (int64_t)(uint64_t)(left * right);
    case CADRE_MAP2_DIV:
        return b == 0 ? 0 : (int64_t)(uint64_t)(left / right);
    case CADRE_MAP2_MAX:
        return a > b ? a : b;
    case CADRE_MAP2_MIN:
        return a < b ? a : b;
    case CADRE_MAP2_GT:
        return a > b;
    case CADRE_MAP2_EQ:
        return a == b;
    }
    return 0;
}

typedef cadre_node_t map2_t(cadre_program_t *p, cadre_node_t left, cadre_node_t right);

static map2_t *const map2[] = {
    [CADRE_MAP2_ADD] = cadre_op_add, [CADRE_MAP2_SUB] = cadre_op_sub,
    [CADRE_MAP2_MUL] = cadre_op_mul, [CADRE_MAP2_DIV] = cadre_op_div,
    [CADRE_MAP2_MAX] = cadre_op_max, [CADRE_MAP2_MIN] = cadre_op_min,
    [CADRE_MAP2_GT] = cadre_op_gt,   [CADRE_MAP2_EQ] = cadre_op_eq,
};

/* Every number of `left` [n,1] against every one of `right` [1,n]. */
static cadre_tensor_t
each_with_each(cadre_map2_t function, const cadre_tensor_t x[2])
{
    cadre_program_t *p = cadre_program_new("map2");
    cadre_node_t left = arg_like(p, "left", &x[0]);
    return run_once(p, map2[function](p, left, arg_like(p, "right", &x[1])), x);
}

Test(wide_op, computes_in_f64)
{
    double numbers[] = {0, -1, 3, 1 + 0x1p-52, 0x1p53 + 2, -1e300, INFINITY, NAN, 0.1};
    enum { COUNT = CADRE_COUNT_OF(numbers) };
    const cadre_tensor_t x[2] = {
        {.dtype = CADRE_F64, .rank = 2, .shape = {COUNT, 1}, .data = numbers},
        {.dtype = CADRE_F64, .rank = 2, .shape = {1, COUNT}, .data = numbers}};
    for (cadre_map2_t f = CADRE_MAP2_ADD; f <= CADRE_MAP2_EQ; f++) {
        cadre_tensor_t y = each_with_each(f, x);
        bool compares = f == CADRE_MAP2_GT || f == CADRE_MAP2_EQ;
        cr_assert_eq(y.dtype, compares ? CADRE_F32 : CADRE_F64);
        for (int i = 0; i < COUNT * COUNT; i++) {
            double wanted = f64_of(f, numbers[i / COUNT], numbers[i % COUNT]);
            double got = compares ? (double)f32_at(&y, i) : f64_at(&y, i);
            cr_assert(got == wanted || (isnan(got) && isnan(wanted)), "%d of %g and %g: %.17g",
                      (int)f, numbers[i / COUNT], numbers[i % COUNT], got);
        }
        cadre_tensor_fini(&y);
    }
}

Test(wide_op, computes_in_i64_and_wraps_around)
{
    int64_t numbers[] = {0, -1, 3, -7, (1LL << 33) + 1, -(1LL << 53) - 1, INT64_MAX, INT64_MIN};
    enum { COUNT = CADRE_COUNT_OF(numbers) };
    const cadre_tensor_t x[2] = {
        {.dtype = CADRE_I64, .rank = 2, .shape = {COUNT, 1}, .data = numbers},
        {.dtype = CADRE_I64, .rank = 2, .shape = {1, COUNT}, .data = numbers}};
    for (cadre_map2_t f = CADRE_MAP2_ADD; f <= CADRE_MAP2_EQ; f++) {
        cadre_tensor_t y = each_with_each(f, x);
        bool compares = f == CADRE_MAP2_GT || f == CADRE_MAP2_EQ;
        for (int i = 0; i < COUNT * COUNT; i++) {
            int64_t wanted = i64_of(f, numbers[i / COUNT], numbers[i % COUNT]);
            int64_t got = compares ? (int64_t)f32_at(&y, i) : i64_at(&y, i);
            cr_assert_eq(got, wanted, "%d of %lld and %lld", (int)f, (long long)numbers[i / COUNT],
                         (long long)numbers[i % COUNT]);
        }
        cadre_tensor_fini(&y);
    }
}

Test(wide_op, chooses_by_a_condition_that_is_broadcast)
{
    float holds[] = {0, 1, NAN};
    int64_t yes[] = {INT64_MAX, (1LL << 53) + 1};
    int64_t no = INT64_MIN;
    const cadre_tensor_t x[3] = {{.dtype = CADRE_F32, .rank = 2, .shape = {3, 1}, .data = holds},
                                 {.dtype = CADRE_I64, .rank = 1, .shape = {2}, .data = yes},
                                 {.dtype = CADRE_I64, .rank = 0, .data = &no}};
    cadre_program_t *p = cadre_program_new("where");
    cadre_node_t condition = arg_like(p, "condition", &x[0]);
    cadre_node_t left = arg_like(p, "yes", &x[1]);
    cadre_tensor_t y = run_once(p, cadre_op_where(p, condition, left, arg_like(p, "no", &x[2])), x);
    cr_assert_eq(y.dtype, CADRE_I64);
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(i64_at(&y, i), holds[i / 2] != 0 ? yes[i % 2] : no);
    }
    cadre_tensor_fini(&y);
}

/* ---- reductions ---- */

Test(wide_op, sums_what_f32_would_round)
{
    enum { OUTER = 3, SIZE = 1001, INNER = 5 };
    const int64_t shape[] = {OUTER, SIZE, INNER};
    cadre_tensor_t numbers = random_tensor(CADRE_F64, shape, 3, 4);
    cadre_tensor_t counts = random_tensor(CADRE_I64, shape, 3, 5);
    cadre_program_t *p = cadre_program_new("sum");
    cadre_tensor_t sums = run_once(p, cadre_op_sum(p, arg_like(p, "x", &numbers), 1), &numbers);
    p = cadre_program_new("mean");
    cadre_tensor_t means = run_once(p, cadre_op_mean(p, arg_like(p, "x", &numbers), 1), &numbers);
    p = cadre_program_new("max");
    cadre_tensor_t largest =
        run_once(p, cadre_op_reduce_max(p, arg_like(p, "x", &numbers), 1), &numbers);
    p = cadre_program_new("sum");
    cadre_tensor_t wrapped = run_once(p, cadre_op_sum(p, arg_like(p, "x", &counts), 1), &counts);
    p = cadre_program_new("max");
    cadre_tensor_t most =
        run_once(p, cadre_op_reduce_max(p, arg_like(p, "x", &counts), 1), &counts);
    for (int64_t at = 0; at < OUTER * INNER; at++) {
        long double sum = 0;
        double max = -INFINITY;
        uint64_t whole_sum = 0;
        int64_t whole_max = INT64_MIN;
        for (int64_t s = 0; s < SIZE; s++) {
            int64_t i = at / INNER * SIZE * INNER + s * INNER + at % INNER;
            sum += (long double)f64_at(&numbers, i);
            max = fmax(max, f64_at(&numbers, i));
            whole_sum += (uint64_t)i64_at(&counts, i);
            whole_max = i64_at(&counts, i) > whole_max ? i64_at(&counts, i) : whole_max;
        }
        cr_assert_float_eq(f64_at(&sums, at), (double)sum, 1e-11);
        cr_assert_float_eq(f64_at(&means, at), (double)(sum / SIZE), 1e-14);
        cr_assert_eq(f64_at(&largest, at), max);
        cr_assert_eq(i64_at(&wrapped, at), (int64_t)whole_sum);
        cr_assert_eq(i64_at(&most, at), whole_max);
    }
    cadre_tensor_t *all[] = {&numbers, &counts, &sums, &means, &largest, &wrapped, &most};
    for (size_t i = 0; i < CADRE_COUNT_OF(all); i++) {
        cadre_tensor_fini(all[i]);
    }
}

Test(wide_op, reduces_all_to_one_number)
{
    int64_t numbers[] = {1LL << 33, 1LL << 33, 1LL << 33, 1};
    cadre_tensor_t x = {.dtype = CADRE_I64, .rank = 2, .shape = {2, 2}, .data = numbers};
    cadre_program_t *p = cadre_program_new("sum");
    cadre_tensor_t y = run_once(p, cadre_op_sum_all(p, arg_like(p, "x", &x)), &x);
    cr_assert_eq(i64_at(&y, 0), 3 * (1LL << 33) + 1);
    cadre_tensor_fini(&y);
}

/* ---- movement: the bits of two i32 that are moved together ---- */

static cadre_node_t
moved(cadre_program_t *p, cadre_node_t x, cadre_node_t index, int which)
{
    cadre_node_t three[3] = {x, cadre_op_slice(p, x, 1, 1, 2), x};
    const cadre_dim_t large[] = {cadre_dim(4), cadre_dim(35), cadre_dim(5), cadre_dim(7)};
    switch (which) {
    case 0:
        return cadre_op_transpose(p, x, (int[]){2, 0, 1});
    case 1:
        return cadre_op_transpose(p, x, (int[]){1, 0, 2});
    case 2:
        return cadre_op_concat(p, three, 3, 1);
    case 3:
        return cadre_op_slice(p, x, 2, 3, 3);
    case 4:
        return cadre_op_pad(p, x, 1, 2, 1);
    case 5:
        return cadre_op_broadcast(p, cadre_op_slice(p, x, 2, 6, 1), large, 4);
    default:
        return cadre_op_take(p, x, index);
    }
}

enum { MOVEMENTS = 7 };

/* Moves x as it is, or as f32 its numbers from 0 up: what f32 holds then says which element each is
 * now. */
static cadre_tensor_t
move(const cadre_tensor_t *x, int which)
{
    int64_t positions[] = {34, 0, 7};
    const cadre_tensor_t arguments[2] = {
        *x, {.dtype = CADRE_I64, .rank = 1, .shape = {3}, .data = positions}};
    cadre_program_t *p = cadre_program_new("move");
    cadre_node_t node = arg_like(p, "x", &arguments[0]);
    cadre_node_t index = arg_like(p, "index", &arguments[1]);
    return run_once(p, moved(p, node, index, which), arguments);
}

Test(wide_op, moves_as_f32_does)
{
    const int64_t shape[] = {35, 5, 7};
    cadre_tensor_t plain = random_tensor(CADRE_F32, shape, 3, 1);
    cadre_tensor_t numbers = random_tensor(CADRE_F64, shape, 3, 2);
    cadre_tensor_t integers = random_tensor(CADRE_I64, shape, 3, 3);
    for (int64_t i = 0; i < cadre_tensor_count(&plain); i++) {
        ((float *)plain.data)[i] = (float)(i + 1);
    }
    for (int which = 0; which < MOVEMENTS; which++) {
        cadre_tensor_t places = move(&plain, which);
        cadre_tensor_t doubles = move(&numbers, which);
        cadre_tensor_t whole_numbers = move(&integers, which);
        for (int64_t i = 0; i < cadre_tensor_count(&places); i++) {
            int64_t from = (int64_t)f32_at(&places, i) - 1; /* -1: padding */
            cr_assert_eq(f64_at(&doubles, i), from < 0 ? 0 : f64_at(&numbers, from));
            cr_assert_eq(i64_at(&whole_numbers, i), from < 0 ? 0 : i64_at(&integers, from));
        }
        cadre_tensor_fini(&places);
        cadre_tensor_fini(&doubles);
        cadre_tensor_fini(&whole_numbers);
    }
    cadre_tensor_fini(&plain);
    cadre_tensor_fini(&numbers);
    cadre_tensor_fini(&integers);
}

/* ---- positions ---- */

Test(wide_op, takes_rows_at_positions_of_i64_and_refuses_what_is_beyond_i32)
{
    float table[] = {1, 2, 3};
    int64_t positions[] = {2, 0};
    const cadre_tensor_t x[2] = {{.dtype = CADRE_F32, .rank = 2, .shape = {3, 1}, .data = table},
                                 {.dtype = CADRE_I64, .rank = 1, .shape = {2}, .data = positions}};
    static const int64_t refused[] = {3, -1, 1LL << 32, -(1LL << 32), INT64_MAX, INT64_MIN};
    cadre_program_t *p = cadre_program_new("take");
    cadre_node_t node = arg_like(p, "table", &x[0]);
    cadre_tensor_t y = run_once(p, cadre_op_take(p, node, arg_like(p, "index", &x[1])), x);
    cr_assert_eq(f32_at(&y, 0), 3);
    cr_assert_eq(f32_at(&y, 1), 1);
    cadre_tensor_fini(&y);
    for (size_t i = 0; i < CADRE_COUNT_OF(refused); i++) {
        positions[1] = refused[i];
        p = cadre_program_new("take");
        node = arg_like(p, "table", &x[0]);
        cadre_op_result(p, "y", cadre_op_take(p, node, arg_like(p, "index", &x[1])));
        cr_assert_eq(try_once(p, x, &y), CADRE_EDATA);
    }
}

/* A table has a row for each number of i32 that is not negative, and a bag's padding is -1: what is
 * beyond i32 must become neither. */
Test(wide_op, makes_no_row_and_no_padding_of_a_position_beyond_i32)
{
    int64_t positions[] = {0,         -1,        INT32_MAX,       INT32_MAX + 1LL, (1LL << 32) + 5,
                           INT64_MAX, INT32_MIN, INT32_MIN - 1LL, INT64_MIN};
    static const int32_t wanted[] = {0,         -1,        INT32_MAX, INT32_MIN, INT32_MIN,
                                     INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN};
    enum { COUNT = CADRE_COUNT_OF(wanted) };
    const cadre_tensor_t x = {.dtype = CADRE_I64, .rank = 1, .shape = {COUNT}, .data = positions};
    cadre_program_t *p = cadre_program_new("positions");
    cadre_tensor_t y = run_once(p, cadre_program_positions(p, arg_like(p, "x", &x), "take"), &x);
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(i32_at(&y, i), wanted[i], "%lld: %d", (long long)positions[i], i32_at(&y, i));
    }
    cadre_tensor_fini(&y);
}

/* ---- variables and pushes ---- */

Test(wide_op, reads_variables_and_pushes_in_their_dtypes)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("count");
    cadre_node_t count = cadre_op_var_of(p, "count", CADRE_I64, NULL, 0);
    cadre_node_t mean = cadre_op_var_of(p, "mean", CADRE_F64, (int64_t[]){2}, 1);
    cadre_op_push(p, count, cadre_op_const_i64(p, 1LL << 33));
    cadre_op_push(p, mean, cadre_op_div(p, mean, cadre_op_cast(p, count, CADRE_F64)));
    cadre_op_result(p, "next", cadre_op_add(p, count, cadre_op_const_i64(p, 1)));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());

    int64_t counted = (1LL << 53) + 1;
    double means[] = {1, 0x1p60};
    int64_t pushed = 0;
    double moves[2] = {0};
    const void *variables[] = {&counted, means};
    void *gradients[] = {&pushed, moves};
    cadre_dtype_t dtypes[] = {CADRE_I64, CADRE_F64};
    cadre_tensor_t next = {0};
    cadre_slot_run_t run = {.program = p,
                            .variables = variables,
                            .variable_dtypes = dtypes,
                            .gradients = gradients,
                            .gradient_dtypes = dtypes,
                            .results = &next};
    runner_t runner = runner_open(&(cadre_slot_options_t){.checks.poison = true});
    cr_assert_eq(cadre_slot_run(runner.slot, &run), 0, "%s", cadre_error_text());
    cr_assert_eq(pushed, 1LL << 33);
    cr_assert_eq(moves[1], 0x1p60 / (double)counted);
    cr_assert_eq(i64_at(&next, 0), (1LL << 53) + 2);
    cadre_tensor_fini(&next);

    dtypes[0] = CADRE_BF16;
    cr_assert_eq(cadre_slot_run(runner.slot, &run), CADRE_EDTYPE);
    cr_assert_str_eq(cadre_error_text(),
                     "count: the device takes no variables or gradients of i64 as bf16");
    runner_close(&runner);
}
