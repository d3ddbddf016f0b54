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
