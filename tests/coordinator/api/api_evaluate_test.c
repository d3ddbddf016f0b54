/* A closure by hand: programs on the caller's thread, without a cluster. */
#include <cadre/inspection.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/system/float_mode.h"

TestSuite(api_evaluate, .timeout = 240);

enum { ROWS = 2, COLUMNS = 3 };

/* loss = mean((x w - y)^2) of x [B, 3], w [3, 1]; pushes d loss / d w. */
typedef struct {
    cadre_program_t *program;
    cadre_node_t x;
    cadre_node_t prediction;
    cadre_node_t difference;
} line_t;

static const float x_of[ROWS][COLUMNS] = {{1, 2, 3}, {4, 5, 6}};
static const float y_of[ROWS] = {10, 20};
static const float w_of[COLUMNS] = {1, 0, 2};

static line_t
new_line(void)
{
    line_t self = {.program = cadre_program_new("line")};
    cadre_program_t *p = self.program;
    const cadre_dim_t batch = cadre_dim_symbol("B");
    self.x = cadre_op_arg(p, "x", CADRE_F32, (const cadre_dim_t[]){batch, cadre_dim(COLUMNS)}, 2);
    cadre_node_t y = cadre_op_arg(p, "y", CADRE_F32, (const cadre_dim_t[]){batch, cadre_dim(1)}, 2);
    cadre_node_t w = cadre_op_var(p, "w", (const int64_t[]){COLUMNS, 1}, 2);
    self.prediction = cadre_op_matmul(p, self.x, w);
    self.difference = cadre_op_sub(p, self.prediction, y);
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, self.difference));
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    return self;
}

/* Tensors of the line's arguments and its variable, and options with them. */
typedef struct {
    cadre_tensor_t x;
    cadre_tensor_t y;
    cadre_tensor_t w;
    cadre_argument_t arguments[2];
    cadre_argument_t variables[1];
    cadre_inspection_options_t options;
} given_t;

static void
give(given_t *self)
{
    self->x = cadre_tensor_view(CADRE_F32, x_of, (const int64_t[]){ROWS, COLUMNS}, 2);
    self->y = cadre_tensor_view(CADRE_F32, y_of, (const int64_t[]){ROWS, 1}, 2);
    self->w = cadre_tensor_view(CADRE_F32, w_of, (const int64_t[]){COLUMNS, 1}, 2);
    self->arguments[0] = (cadre_argument_t){"x", &self->x};
    self->arguments[1] = (cadre_argument_t){"y", &self->y};
    self->variables[0] = (cadre_argument_t){"w", &self->w};
    self->options = cadre_inspection_options();
    self->options.tensors = self->arguments;
    self->options.tensor_count = 2;
    self->options.variables = self->variables;
    self->options.variable_count = 1;
}

static void
expect_values(const cadre_tensor_t *tensor, const float *wanted, int64_t count)
{
    cr_assert_not_null(tensor);
    cr_assert_eq(cadre_tensor_count(tensor), count);
    const float *values = tensor->data;
    for (int64_t i = 0; i < count; i++) {
        cr_expect_float_eq(values[i], wanted[i], 1e-5, "%g", (double)values[i]);
    }
}

/* x w = (7, 16); differences (-3, -4); loss 25 / 2; gradient x' (-3, -4). */
Test(api_evaluate, gives_results_nodes_and_gradients)
{
    line_t line = new_line();
    given_t given;
    cadre_inspection_t *inspection = NULL;
    give(&given);
    const cadre_node_t nodes[] = {line.difference, line.prediction, line.x, line.prediction};
    given.options.nodes = nodes;
    given.options.node_count = 4;
    cr_assert_eq(cadre_program_evaluate(line.program, &given.options, &inspection), 0, "%s",
                 cadre_error_text());

    expect_values(cadre_inspection_result(inspection, "loss"), (const float[]){12.5f}, 1);
    expect_values(cadre_inspection_result(inspection, NULL), (const float[]){12.5f}, 1);
    expect_values(cadre_inspection_node(inspection, line.prediction), (const float[]){7, 16}, 2);
    expect_values(cadre_inspection_node(inspection, line.difference), (const float[]){-3, -4}, 2);
    expect_values(cadre_inspection_node(inspection, line.x), &x_of[0][0], ROWS * COLUMNS);
    expect_values(cadre_inspection_gradient(inspection, "w"), (const float[]){-19, -26, -33}, 3);

    cr_expect_null(cadre_inspection_result(inspection, "accuracy"));
    cr_expect_null(cadre_inspection_gradient(inspection, "b"));
    cr_expect_null(cadre_inspection_node(inspection, (cadre_node_t){0}));
    cadre_inspection_destroy(&inspection);
    cr_expect_null(inspection);
    cadre_program_destroy(&line.program);
}

Test(api_evaluate, gives_more_nodes_than_a_program_has_results)
{
    enum { STEPS = 150 };
    cadre_program_t *p = cadre_program_new("count");
    cadre_node_t nodes[STEPS];
    cadre_node_t one = cadre_op_arg(p, "one", CADRE_F32, NULL, 0);
    cadre_node_t sum = one;
    for (int i = 0; i < STEPS; i++) {
        sum = cadre_op_add(p, sum, one);
        nodes[i] = sum;
    }
    cadre_op_result(p, "sum", sum);

    const float one_of = 1;
    cadre_tensor_t value = cadre_tensor_view(CADRE_F32, &one_of, NULL, 0);
    cadre_inspection_options_t options = cadre_inspection_options();
    options.tensors = &(const cadre_argument_t){"one", &value};
    options.tensor_count = 1;
    options.nodes = nodes;
    options.node_count = STEPS;
    cadre_inspection_t *inspection = NULL;
    cr_assert_eq(cadre_program_evaluate(p, &options, &inspection), 0, "%s", cadre_error_text());
    for (int i = 0; i < STEPS; i++) {
        expect_values(cadre_inspection_node(inspection, nodes[i]), (const float[]){(float)i + 2},
                      1);
    }
    expect_values(cadre_inspection_result(inspection, "sum"), (const float[]){STEPS + 1}, 1);
    cadre_inspection_destroy(&inspection);
    cadre_program_destroy(&p);
}

Test(api_evaluate, draws_the_same_random_numbers_for_a_seed)
{
    cadre_program_t *p = cadre_program_new("noise");
    cadre_op_result(p, "noise", cadre_op_rand_uniform(p, (const cadre_dim_t[]){cadre_dim(8)}, 1));
    cadre_inspection_t *inspections[3] = {NULL};
    for (int i = 0; i < 3; i++) {
        cadre_inspection_options_t options = cadre_inspection_options();
        options.seed = i < 2 ? 7 : 8;
        cr_assert_eq(cadre_program_evaluate(p, &options, &inspections[i]), 0);
    }

    const void *first = cadre_inspection_result(inspections[0], NULL)->data;
    cr_expect_eq(memcmp(first, cadre_inspection_result(inspections[1], NULL)->data, 32), 0);
    cr_expect_neq(memcmp(first, cadre_inspection_result(inspections[2], NULL)->data, 32), 0);
    for (int i = 0; i < 3; i++) {
        cadre_inspection_destroy(&inspections[i]);
    }
    cadre_program_destroy(&p);
}

/* Evaluates the line as given and expects the status, and the words in its text. */
static void
expect_failure(const given_t *given, int status, const char *words)
{
    line_t line = new_line();
    cadre_inspection_t *inspection = NULL;
    cr_expect_eq(cadre_program_evaluate(line.program, &given->options, &inspection), status);
    cr_expect(strstr(cadre_error_text(), words), "\"%s\" is not in \"%s\"", words,
              cadre_error_text());
    cr_expect_null(inspection);
    cadre_program_destroy(&line.program);
}

Test(api_evaluate, names_what_does_not_fit)
{
    given_t given;
    const int64_t wrong[] = {COLUMNS, ROWS};
    give(&given);
    given.options.tensor_count = 1;
    expect_failure(&given, CADRE_EINVALID, "program line: argument y is missing");

    give(&given);
    given.x = cadre_tensor_view(CADRE_F32, x_of, wrong, 2);
    expect_failure(&given, CADRE_ESHAPE, "line: argument x is [3,2], not [B,3]");

    give(&given);
    given.y.dtype = CADRE_I32;
    expect_failure(&given, CADRE_EDTYPE, "line: argument y is i32, not f32");

    give(&given);
    given.options.variable_count = 0;
    expect_failure(&given, CADRE_ENOTFOUND, "program line: variable w has no value: give it");

    give(&given);
    given.w = cadre_tensor_view(CADRE_F32, w_of, (const int64_t[]){1, COLUMNS}, 2);
    expect_failure(&given, CADRE_ESHAPE, "program line: variable w is [1,3], not [3,1]");

    give(&given);
    given.w.dtype = CADRE_I32;
    expect_failure(&given, CADRE_EDTYPE, "program line: variable w is i32, not f32");

    give(&given);
    given.options.nodes = &(const cadre_node_t){9999};
    given.options.node_count = 1;
    expect_failure(&given, CADRE_EINVALID, "nodes[0] is no node");

    give(&given);
    given.options.tensors = NULL;
    expect_failure(&given, CADRE_EINVALID, "a count whose array is NULL");

    give(&given);
    given.options.size = sizeof(given.options) + 8;
    expect_failure(&given, CADRE_EINVALID, "cadre_inspection_options_t");
    cr_expect_eq(cadre_program_evaluate(NULL, NULL, NULL), CADRE_EINVALID);
}

Test(api_evaluate, names_the_operation_whose_data_are_wrong)
{
    cadre_program_t *p = cadre_program_new("pick");
    const cadre_dim_t batch = cadre_dim_symbol("B");
    cadre_node_t index = cadre_op_arg(p, "index", CADRE_I32, &batch, 1);
    cadre_node_t table = cadre_op_var(p, "table", (const int64_t[]){COLUMNS, 1}, 2);
    cadre_op_result(p, "rows", cadre_op_take(p, table, index));
    const int32_t index_of[] = {1, COLUMNS};
    cadre_tensor_t rows = cadre_tensor_view(CADRE_I32, index_of, (const int64_t[]){2}, 1);
    cadre_tensor_t value = cadre_tensor_view(CADRE_F32, w_of, (const int64_t[]){COLUMNS, 1}, 2);
    cadre_inspection_options_t options = cadre_inspection_options();
    options.tensors = &(const cadre_argument_t){"index", &rows};
    options.tensor_count = 1;
    options.variables = &(const cadre_argument_t){"table", &value};
    options.variable_count = 1;
    cr_expect_eq(cadre_program_evaluate(p, &options, NULL), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "pick") && strstr(cadre_error_text(), "take"), "%s",
              cadre_error_text());
    cadre_program_destroy(&p);
}

/* 2^-127 is subnormal: a worker takes it as 0, and the caller's own arithmetic goes on with it. */
Test(api_evaluate, computes_as_a_worker_and_leaves_the_callers_float_mode)
{
    volatile float tiny = 0x1p-127f;
    uint64_t mode = cadre_float_mode();
    cadre_program_t *p = cadre_program_new("tiny");
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, NULL, 0);
    cadre_op_result(p, "twice", cadre_op_add(p, x, x));
    const float given = tiny;
    cadre_tensor_t value = cadre_tensor_view(CADRE_F32, &given, NULL, 0);
    cadre_inspection_options_t options = cadre_inspection_options();
    options.tensors = &(const cadre_argument_t){"x", &value};
    options.tensor_count = 1;
    cadre_inspection_t *inspection = NULL;
    cr_assert_eq(cadre_program_evaluate(p, &options, &inspection), 0, "%s", cadre_error_text());
    expect_values(cadre_inspection_result(inspection, "twice"), (const float[]){0}, 1);
    cr_expect_eq(*(const float *)cadre_inspection_result(inspection, "twice")->data, 0);
    cr_expect_eq(tiny + tiny, 0x1p-126f);
    cr_expect_eq(cadre_float_mode() & 0x8040, mode & 0x8040);
    cadre_inspection_destroy(&inspection);
    cadre_program_destroy(&p);
}

/* --- tables --- */

enum { KEYS = 5, IDS = 4, DIM = 2 };

static const float rows_of[KEYS][DIM] = {{0, 1}, {10, 11}, {20, 21}, {30, 31}, {40, 41}};

/* loss = sum((row - 1)^2) over the rows of ids[4] in a table, and of another table that is looked
 * up by computed ids; pushes to the first. */
typedef struct {
    cadre_program_t *program;
    cadre_node_t table;
    cadre_node_t rows;
    cadre_node_t others;
} lookup_t;

static lookup_t
new_lookup(void)
{
    lookup_t self = {.program = cadre_program_new("lookup")};
    cadre_program_t *p = self.program;
    const cadre_dim_t dims[] = {cadre_dim(IDS)};
    cadre_node_t ids = cadre_op_arg(p, "ids", CADRE_I32, dims, 1);
    self.table = cadre_op_table(p, "users", DIM);
    self.rows = cadre_op_take(p, self.table, ids);
    cadre_node_t more = cadre_op_cast(
        p, cadre_op_add(p, cadre_op_cast(p, ids, CADRE_F32), cadre_op_const_f32(p, 1)), CADRE_I32);
    self.others = cadre_op_take(p, cadre_op_table(p, "items", DIM), more);
    cadre_node_t loss = cadre_op_sum_all(
        p, cadre_op_square(p, cadre_op_sub(p, self.rows, cadre_op_const_f32(p, 1))));
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    return self;
}

/* Evaluates the lookup of ids with so many rows given. */
static int
look_up(const lookup_t *self, const int32_t ids[IDS], int64_t rows, const cadre_node_t *nodes,
        size_t node_count, cadre_inspection_t **out)
{
    cadre_tensor_t given = cadre_tensor_view(CADRE_F32, rows_of, (const int64_t[]){rows, DIM}, 2);
    cadre_tensor_t argument = cadre_tensor_view(CADRE_I32, ids, (const int64_t[]){IDS}, 1);
    const cadre_argument_t variables[] = {{"users", &given}, {"items", &given}};
    cadre_inspection_options_t options = cadre_inspection_options();
    options.tensors = &(const cadre_argument_t){"ids", &argument};
    options.tensor_count = 1;
    options.variables = variables;
    options.variable_count = 2;
    options.nodes = nodes;
    options.node_count = node_count;
    return cadre_program_evaluate(self->program, &options, out);
}

Test(api_evaluate, looks_rows_of_tables_up_in_values_that_are_given)
{
    lookup_t lookup = new_lookup();
    cadre_inspection_t *inspection = NULL;
    const cadre_node_t nodes[] = {lookup.rows, lookup.others};
    const int32_t ids[] = {3, 0, 3, 2};
    cr_assert_eq(look_up(&lookup, ids, KEYS, nodes, 2, &inspection), 0, "%s", cadre_error_text());
    expect_values(cadre_inspection_node(inspection, lookup.rows),
                  (const float[]){30, 31, 0, 1, 30, 31, 20, 21}, (int64_t)IDS * DIM);
    expect_values(cadre_inspection_node(inspection, lookup.others),
                  (const float[]){40, 41, 10, 11, 40, 41, 30, 31}, (int64_t)IDS * DIM);

    size_t count = 0;
    const uint64_t *keys = cadre_inspection_keys(inspection, "users", &count);
    cr_assert_eq(count, 3);
    cr_expect_eq(memcmp(keys, (const uint64_t[]){0, 2, 3}, 3 * sizeof(*keys)), 0);
    const cadre_tensor_t *gradient = cadre_inspection_gradient(inspection, "users");
    cr_assert_not_null(gradient);
    cr_expect_eq(gradient->shape[0], 3);
    expect_values(gradient, (const float[]){-2, 0, 38, 40, 116, 120}, 3 * DIM);
    keys = cadre_inspection_keys(inspection, "items", NULL);
    cr_expect_eq(memcmp(keys, (const uint64_t[]){1, 3, 4}, 3 * sizeof(*keys)), 0);
    cr_expect_null(cadre_inspection_keys(inspection, "loss", &count));
    cadre_inspection_destroy(&inspection);
    cadre_program_destroy(&lookup.program);
}

Test(api_evaluate, names_what_is_wrong_with_a_table)
{
    lookup_t lookup = new_lookup();
    const int32_t ids[] = {3, 0, 3, 2};
    const int32_t negative[] = {3, 0, -3, 2};
    static const struct {
        int64_t rows;
        int status;
        const char *words;
    } bad[] = {
        {3, CADRE_EDATA, "key 3 of table users has no row: 3 rows were given"},
        {4, CADRE_EDATA, "key 4 of table items has no row"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(look_up(&lookup, ids, bad[i].rows, NULL, 0, NULL), bad[i].status);
        cr_expect(strstr(cadre_error_text(), bad[i].words), "%s", cadre_error_text());
    }
    cr_expect_eq(look_up(&lookup, negative, KEYS, NULL, 0, NULL), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "lookup: take: index -3 at 2"), "%s", cadre_error_text());
    cr_expect_eq(look_up(&lookup, ids, KEYS, &lookup.table, 1, NULL), CADRE_EINVALID);
    cr_expect(strstr(cadre_error_text(), "table users can only be looked up"), "%s",
              cadre_error_text());

    cadre_tensor_t flat = cadre_tensor_view(CADRE_F32, rows_of, (const int64_t[]){DIM}, 1);
    cadre_tensor_t argument = cadre_tensor_view(CADRE_I32, ids, (const int64_t[]){IDS}, 1);
    const cadre_argument_t variables[] = {{"users", &flat}, {"items", &flat}};
    cadre_inspection_options_t options = cadre_inspection_options();
    options.tensors = &(const cadre_argument_t){"ids", &argument};
    options.tensor_count = 1;
    cr_expect_eq(cadre_program_evaluate(lookup.program, &options, NULL), CADRE_ENOTFOUND);
    options.variables = variables;
    options.variable_count = 2;
    cr_expect_eq(cadre_program_evaluate(lookup.program, &options, NULL), CADRE_ESHAPE);
    cr_expect(strstr(cadre_error_text(), "table users is [2], not [rows,2]"), "%s",
              cadre_error_text());
    cadre_program_destroy(&lookup.program);
}

/* What a program makes of a number that is no id says nothing of the number. */
Test(api_evaluate, names_the_number_that_is_no_id)
{
    static const struct {
        float x;
        const char *words;
    } bad[] = {{2.5F, "argument x has 2.5 (row 1, column 2, from 0)"},
               {-3, "argument x has -3 (row 1, column 2, from 0)"},
               {1e11F, "argument x has 99999997952 (row 1, column 2, from 0), and ids are whole "
                       "numbers from 0 on: larger ones are keys of 64 bits"}};
    cadre_program_t *p = cadre_program_new("lookup");
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(COLUMNS)};
    const cadre_dim_t more[] = {cadre_dim_symbol("B")};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    cadre_node_t wide = cadre_op_arg(p, "wide", CADRE_I64, more, 1);
    cadre_node_t table = cadre_op_table(p, "users", DIM);
    cadre_op_result(p, "rows", cadre_op_embedding(p, table, x));
    cadre_op_result(p, "more", cadre_op_take(p, table, wide));
    float numbers[ROWS][COLUMNS] = {{0}};
    int64_t ids[ROWS] = {0, 0};
    cadre_tensor_t given = cadre_tensor_view(CADRE_F32, rows_of, (const int64_t[]){KEYS, DIM}, 2);
    cadre_tensor_t numbers_of =
        cadre_tensor_view(CADRE_F32, numbers, (const int64_t[]){ROWS, COLUMNS}, 2);
    cadre_tensor_t wide_of = cadre_tensor_view(CADRE_I64, ids, (const int64_t[]){ROWS}, 1);
    const cadre_argument_t arguments[] = {{"x", &numbers_of}, {"wide", &wide_of}};
    cadre_inspection_options_t options = cadre_inspection_options();
    options.tensors = arguments;
    options.tensor_count = 2;
    options.variables = &(const cadre_argument_t){"users", &given};
    options.variable_count = 1;
    cr_expect_eq(cadre_program_evaluate(p, &options, NULL), 0, "%s", cadre_error_text());
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        numbers[1][2] = bad[i].x;
        cr_expect_eq(cadre_program_evaluate(p, &options, NULL), CADRE_EDATA);
        cr_expect(strstr(cadre_error_text(), bad[i].words), "%s", cadre_error_text());
    }
    numbers[1][2] = 0;
    ids[1] = INT64_C(1) << 40;
    cr_expect_eq(cadre_program_evaluate(p, &options, NULL), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "key 1099511627776 of table users has no row"), "%s",
              cadre_error_text());
    cadre_program_destroy(&p);
}
