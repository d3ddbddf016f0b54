/*
 * take, scatter, bag and bag_grad against index arithmetic, in poisoned memory; and every position
 * that is none.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(sparse_op, .timeout = 240);

static void
expect_near(double got, double wanted, const char *what, int64_t at)
{
    cr_assert(fabs(got - wanted) <= 2e-6 * fmax(1, fabs(wanted)), "%s at %d: %.9g, not %.9g", what,
              (int)at, got, wanted);
}

static cadre_tensor_t
positions(const int32_t *values, int rank, const int64_t *shape)
{
    cadre_tensor_t tensor = {0};
    cr_assert_eq(cadre_tensor_init(&tensor, CADRE_I32, shape, rank), 0);
    memcpy(tensor.data, values, cadre_tensor_size_bytes(&tensor));
    return tensor;
}

/* ---- take and scatter ---- */

typedef struct {
    int table_rank;
    int64_t table[4];
    int index_rank;
    int64_t index[4];
} rows_t;

static const rows_t rows_cases[] = {
    {2, {5, 3}, 1, {7}},       {2, {5, 1}, 1, {4}},       {1, {6}, 2, {3, 4}},
    {1, {1}, 0, {0}},          {3, {4, 2, 3}, 1, {5}},    {2, {3, 8}, 0, {0}},
    {2, {1, 4}, 3, {2, 1, 3}}, {4, {3, 2, 2, 2}, 0, {0}}, {2, {9, 64}, 2, {3, 5}},
};

/* Tensors of a case: table, index, and values of the shape of the rows. */
static void
make_case(const rows_t *one, cadre_tensor_t tensors[3])
{
    int64_t shape[4] = {0};
    int rank = one->index_rank;
    memcpy(shape, one->index, sizeof(shape));
    for (int i = 1; i < one->table_rank; i++) {
        shape[rank++] = one->table[i];
    }
    tensors[0] = random_tensor(CADRE_F32, one->table, one->table_rank, 1);
    tensors[1] = random_tensor(CADRE_I32, one->index, one->index_rank, 2);
    tensors[2] = random_tensor(CADRE_F32, shape, rank, 3);
    int32_t *index = tensors[1].data;
    for (int64_t i = 0; i < cadre_tensor_count(&tensors[1]); i++) {
        index[i] = (int32_t)((i * 5 + 2) % one->table[0]);
    }
}

static void
end_tensors(cadre_tensor_t *tensors, int count)
{
    for (int i = 0; i < count; i++) {
        cadre_tensor_fini(&tensors[i]);
    }
}

Test(sparse_op, takes_rows)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(rows_cases); i++) {
        cadre_tensor_t tensors[3];
        make_case(&rows_cases[i], tensors);
        cadre_program_t *p = cadre_program_new("take");
        cadre_node_t table = arg_like(p, "table", &tensors[0]);
        cadre_node_t y = cadre_op_take(p, table, arg_like(p, "index", &tensors[1]));
        /* In the arena, which is poisoned: each element must be written. */
        cadre_tensor_t result = run_once(p, cadre_op_neg(p, y), tensors);
        int64_t size = cadre_tensor_count(&tensors[0]) / rows_cases[i].table[0];
        cr_assert_eq(result.rank, tensors[2].rank);
        cr_assert_eq(memcmp(result.shape, tensors[2].shape, sizeof(result.shape)), 0);
        for (int64_t k = 0; k < cadre_tensor_count(&result); k++) {
            int64_t from = i32_at(&tensors[1], k / size) * size + k % size;
            cr_assert_eq(-f32_at(&result, k), f32_at(&tensors[0], from), "case %zu", i);
        }
        cadre_tensor_fini(&result);
        end_tensors(tensors, 3);
    }
}

Test(sparse_op, scatters_rows_and_leaves_zeros_elsewhere)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(rows_cases); i++) {
        cadre_tensor_t tensors[3];
        make_case(&rows_cases[i], tensors);
        cadre_program_t *p = cadre_program_new("scatter");
        cadre_node_t index = arg_like(p, "index", &tensors[1]);
        cadre_node_t y = cadre_op_scatter(p, arg_like(p, "values", &tensors[2]), index,
                                          cadre_dim(rows_cases[i].table[0]));
        cadre_tensor_t result = run_once(p, cadre_op_neg(p, y), &tensors[1]);
        int64_t size = cadre_tensor_count(&tensors[0]) / rows_cases[i].table[0];
        float *wanted = cadre_calloc((size_t)cadre_tensor_count(&tensors[0]), sizeof(*wanted));
        for (int64_t k = 0; k < cadre_tensor_count(&tensors[2]); k++) {
            wanted[i32_at(&tensors[1], k / size) * size + k % size] += f32_at(&tensors[2], k);
        }
        cr_assert_eq(cadre_tensor_count(&result), cadre_tensor_count(&tensors[0]));
        for (int64_t k = 0; k < cadre_tensor_count(&result); k++) {
            /* The same order of additions: the same bits. */
            cr_assert_eq(-f32_at(&result, k), wanted[k], "case %zu", i);
        }
        free(wanted);
        cadre_tensor_fini(&result);
        end_tensors(tensors, 3);
    }
}

Test(sparse_op, takes_rows_with_infinite_and_nan_values_as_they_are)
{
    float values[] = {1, NAN, INFINITY, 2};
    int32_t at[] = {2, 0, 1};
    cadre_tensor_t tensors[2] = {
        {.dtype = CADRE_F32, .rank = 2, .shape = {4, 1}, .data = values},
        {.dtype = CADRE_I32, .rank = 1, .shape = {3}, .data = at},
    };
    cadre_program_t *p = cadre_program_new("take");
    cadre_node_t table = arg_like(p, "table", &tensors[0]);
    cadre_tensor_t y =
        run_once(p, cadre_op_take(p, table, arg_like(p, "index", &tensors[1])), tensors);
    cr_assert(isinf(f32_at(&y, 0)));
    cr_assert_eq(f32_at(&y, 1), 1);
    cr_assert(isnan(f32_at(&y, 2)));
    cadre_tensor_fini(&y);
}

/* ---- bags ---- */

enum { ROWS = 5, ENTRIES_MAX = 12, BAGS_MAX = 5 };

typedef struct {
    int64_t size; /* of a row */
    int64_t entries;
    int32_t index[ENTRIES_MAX];
    int64_t bags;
    int32_t offsets[BAGS_MAX];
} bags_t;

static const bags_t bags_cases[] = {
    {3, 6, {4, 0, 2, 2, 1, 4}, 3, {0, 2, 5}},
    {1, 1, {3}, 1, {0}},
    {4, 6, {4, -1, 2, -1, -1, -1}, 4, {0, 2, 2, 3}}, /* padding, an empty bag, one of padding */
    {2, 5, {0, 0, 0, 0, 0}, 5, {0, 0, 1, 5, 5}},     /* empty at the front and at the end */
    {33, 12, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, -1, 2}, 2, {0, 11}},
    {2, 2, {-1, -1}, 2, {0, 1}},
};

static int64_t
bag_of(const bags_t *one, int64_t entry)
{
    int64_t bag = one->bags - 1;
    while (one->offsets[bag] > entry) {
        bag--;
    }
    return bag;
}

static double
divisor_of(const bags_t *one, int64_t bag)
{
    double count = 0;
    for (int64_t i = 0; i < one->entries; i++) {
        count += one->index[i] >= 0 && bag_of(one, i) == bag;
    }
    return count > 0 ? count : 1;
}

typedef enum { PLAIN, MEAN, WEIGHTED } form_t;

/* Arguments in the order table, index, offsets, weights, gradient of the bags. */
static void
make_bags(const bags_t *one, cadre_tensor_t tensors[5])
{
    tensors[0] = random_tensor(CADRE_F32, (int64_t[]){ROWS, one->size}, 2, 1);
    tensors[1] = positions(one->index, 1, &one->entries);
    tensors[2] = positions(one->offsets, 1, &one->bags);
    tensors[3] = random_tensor(CADRE_F32, &one->entries, 1, 2);
    tensors[4] = random_tensor(CADRE_F32, (int64_t[]){one->bags, one->size}, 2, 3);
}

static double
factor_of(const bags_t *one, form_t form, const cadre_tensor_t tensors[5], int64_t entry)
{
    return form == PLAIN  ? 1
           : form == MEAN ? 1 / divisor_of(one, bag_of(one, entry))
                          : (double)f32_at(&tensors[3], entry);
}

/* The bags and what the gradient of sum(bags * tensors[4]) has to be, by the definition. */
typedef struct {
    double bags[BAGS_MAX * 40];
    double table[ROWS * 40];
    double weights[ENTRIES_MAX];
} wanted_t;

static void
define(const bags_t *one, form_t form, const cadre_tensor_t tensors[5], wanted_t *wanted)
{
    memset(wanted, 0, sizeof(*wanted));
    for (int64_t i = 0; i < one->entries; i++) {
        for (int64_t k = 0; k < one->size && one->index[i] >= 0; k++) {
            int64_t row = one->index[i] * one->size + k;
            int64_t bag = bag_of(one, i) * one->size + k;
            double factor = factor_of(one, form, tensors, i);
            wanted->bags[bag] += factor * (double)f32_at(&tensors[0], row);
            wanted->table[row] += factor * (double)f32_at(&tensors[4], bag);
            wanted->weights[i] +=
                (double)f32_at(&tensors[0], row) * (double)f32_at(&tensors[4], bag);
        }
    }
}

/* The nodes of one case: the result asked for is negated, so that it was in poisoned memory. */
static void
check_bags(const bags_t *one, form_t form, int what)
{
    cadre_tensor_t tensors[5];
    cadre_node_t inputs[5];
    wanted_t wanted;
    const char *names[5] = {"table", "index", "offsets", "weights", "gradient"};
    make_bags(one, tensors);
    define(one, form, tensors, &wanted);
    cadre_program_t *p = cadre_program_new("bags");
    for (int i = 0; i < 5; i++) {
        inputs[i] = arg_like(p, names[i], &tensors[i]);
    }
    cadre_node_t weights = form == WEIGHTED ? inputs[3] : (cadre_node_t){0};
    cadre_node_t y = cadre_op_bag(p, inputs[0], inputs[1], inputs[2], weights,
                                  form == MEAN ? CADRE_BAG_MEAN : CADRE_BAG_SUM);
    const double *expected = wanted.bags;
    if (what > 0) {
        cadre_node_t loss = cadre_op_sum_all(p, cadre_op_mul(p, y, inputs[4]));
        cadre_op_gradient(p, loss, &inputs[what == 1 ? 0 : 3], 1, &y);
        expected = what == 1 ? wanted.table : wanted.weights;
    }
    cadre_tensor_t result = run_once(p, cadre_op_neg(p, y), tensors);
    for (int64_t k = 0; k < cadre_tensor_count(&result); k++) {
        expect_near(-(double)f32_at(&result, k), expected[k], "bags", k);
    }
    cadre_tensor_fini(&result);
    end_tensors(tensors, 5);
}

Test(sparse_op, sums_and_averages_bags_with_padding_and_empty_ones)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(bags_cases); i++) {
        for (form_t form = PLAIN; form <= WEIGHTED; form++) {
            check_bags(&bags_cases[i], form, 0);
            check_bags(&bags_cases[i], form, 1);
        }
        check_bags(&bags_cases[i], WEIGHTED, 2);
    }
}

/* ---- what is no position ---- */

static void
expect_refused(cadre_program_t *p, cadre_node_t node, const cadre_tensor_t *arguments,
               const char *text)
{
    cadre_tensor_t result = {0};
    cadre_op_result(p, "result", node);
    cr_assert_eq(try_once(p, arguments, &result), CADRE_EDATA, "%s", text);
    cr_assert_str_eq(cadre_error_text(), text);
}

static void
refuse_row(int32_t bad, bool scatter, const char *text)
{
    int32_t at[] = {0, 4, bad, 1};
    int64_t count = 4;
    cadre_tensor_t tensors[2] = {random_tensor(CADRE_F32, (int64_t[]){scatter ? 4 : ROWS, 3}, 2, 1),
                                 positions(at, 1, &count)};
    cadre_program_t *p = cadre_program_new("rows");
    cadre_node_t x = arg_like(p, "x", &tensors[0]);
    cadre_node_t index = arg_like(p, "index", &tensors[1]);
    cadre_node_t y =
        scatter ? cadre_op_scatter(p, x, index, cadre_dim(ROWS)) : cadre_op_take(p, x, index);
    expect_refused(p, y, tensors, text);
    end_tensors(tensors, 2);
}

Test(sparse_op, refuses_positions_outside_of_the_table)
{
    refuse_row(-1, false, "rows: take: index -1 at 2 is not in 0..4");
    refuse_row(5, false, "rows: take: index 5 at 2 is not in 0..4");
    refuse_row(INT32_MIN, false, "rows: take: index -2147483648 at 2 is not in 0..4");
    refuse_row(INT32_MAX, false, "rows: take: index 2147483647 at 2 is not in 0..4");
    refuse_row(-1, true, "rows: scatter: index -1 at 2 is not in 0..4");
    refuse_row(5, true, "rows: scatter: index 5 at 2 is not in 0..4");
}

/* `what` is 0 for bag, 1 and 2 for its gradients of the table and of the weights. */
static void
refuse_bags(const bags_t *one, int what, const char *text)
{
    cadre_tensor_t tensors[5];
    make_bags(one, tensors);
    cadre_program_t *p = cadre_program_new("bags");
    cadre_node_t inputs[3] = {arg_like(p, "table", &tensors[0]), arg_like(p, "index", &tensors[1]),
                              arg_like(p, "offsets", &tensors[2])};
    cadre_node_t weights = arg_like(p, "weights", &tensors[3]);
    cadre_node_t gradient = arg_like(p, "gradient", &tensors[4]);
    cadre_node_t y = {0};
    if (what == 0) {
        y = cadre_op_bag(p, inputs[0], inputs[1], inputs[2], weights, CADRE_BAG_SUM);
    } else {
        cadre_program_node_t node = {.op = CADRE_OP_BAG_GRAD,
                                     .input_count = 4,
                                     .inputs = {gradient.id - 1, inputs[1].id - 1, inputs[2].id - 1,
                                                what == 1 ? weights.id - 1 : inputs[0].id - 1},
                                     .attributes = {CADRE_BAG_SUM, what - 1}};
        node.shape = cadre_program_at(p, what == 1 ? inputs[0] : weights)->shape;
        y = cadre_program_emit(p, &node);
    }
    expect_refused(p, y, tensors, text);
    end_tensors(tensors, 5);
}

Test(sparse_op, refuses_bags_that_do_not_follow_each_other)
{
    static const struct {
        bags_t bags;
        const char *text;
    } cases[] = {
        {{2, 3, {0, 1, -2}, 2, {0, 1}}, "index -2 at 2 is not in -1..4"},
        {{2, 3, {5, 1, 2}, 2, {0, 1}}, "index 5 at 0 is not in -1..4"},
        {{2, 3, {0, 1, 2}, 2, {1, 1}}, "offset 1 of bag 0 is not in 0..0"},
        {{2, 3, {0, 1, 2}, 2, {-1, 1}}, "offset -1 of bag 0 is not in 0..0"},
        {{2, 3, {0, 1, 2}, 3, {0, 2, 1}}, "offset 1 of bag 2 is not in 2..3"},
        {{2, 3, {0, 1, 2}, 3, {0, 2, 4}}, "offset 4 of bag 2 is not in 2..3"},
        {{2, 3, {0, 1, 2}, 3, {0, INT32_MAX, 4}}, "offset 2147483647 of bag 1 is not in 0..3"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        for (int what = 0; what < 3; what++) {
            char text[128];
            snprintf(text, sizeof(text), "bags: %s: %s", what ? "bag_grad" : "bag", cases[i].text);
            refuse_bags(&cases[i].bags, what, text);
        }
    }
}
