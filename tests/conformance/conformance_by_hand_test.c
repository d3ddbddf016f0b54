/* One closure run by hand in the coordinator's process; C19 of docs/conformance.md. */
#include <cadre/inspection.h>
#include <string.h>

#include "tests/conformance/stage.h"

TestSuite(conformance_by_hand, .timeout = 900);

enum { COLUMNS = 8, BATCH = 4 };

/* gelu(x weight), and a gradient of "weight" that is made of it. */
static cadre_program_t *
new_program(void)
{
    cadre_program_t *p = cadre_program_new("layer");
    const cadre_dim_t rows[] = {cadre_dim_symbol("B"), cadre_dim(COLUMNS)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, rows, 2);
    cadre_node_t weight = cadre_op_var(p, "weight", (const int64_t[]){COLUMNS, COLUMNS}, 2);
    cadre_node_t hidden = cadre_op_gelu(p, cadre_op_matmul(p, x, weight));
    cadre_op_result(p, "hidden", hidden);
    cadre_op_push(p, weight, cadre_op_matmul_transposed(p, x, 1, hidden, 0));
    return p;
}

/* Creates "weight", which begins at random and from which gradients are subtracted as they are. */
static cadre_variable_t *
create_weight(stage_t *stage)
{
    cadre_variable_t *weight = NULL;
    cadre_variable_options_t options = cadre_variable_options();
    options.initializer = cadre_initializer(CADRE_INITIALIZER_GLOROT_UNIFORM);
    options.optimizer.learning_rate = 1;
    OK(cadre_variable_create(stage->coordinator, "weight", CADRE_F32,
                             (const int64_t[]){COLUMNS, COLUMNS}, 2, &options, &weight));
    return weight;
}

/* Runs the program on a worker and expects the same result and the same gradient, bit for bit. */
static void
expect_like_a_worker(stage_t *stage, cadre_program_t **program_p, const cadre_call_t *call,
                     const cadre_inspection_t *inspection, cadre_variable_t *weight)
{
    cadre_function_t *function = NULL;
    cadre_future_t *future = NULL;
    cadre_tensor_t hidden = {0};
    cadre_tensor_t before = {0};
    cadre_tensor_t after = {0};
    OK(cadre_variable_read(weight, &before, LOCAL_WAIT_MS));
    OK(cadre_function_register(stage->coordinator, program_p, &function));
    OK(cadre_coordinator_schedule(stage->coordinator, function, call, LOCAL_WAIT_MS, &future));
    OK(cadre_future_fetch(future, "hidden", &hidden, LOCAL_WAIT_MS));
    OK(cadre_variable_read(weight, &after, LOCAL_WAIT_MS));

    const cadre_tensor_t *value = cadre_inspection_result(inspection, "hidden");
    cr_expect_eq(memcmp(hidden.data, value->data, cadre_tensor_size_bytes(value)), 0);
    const float *gradient = cadre_inspection_gradient(inspection, "weight")->data;
    for (int i = 0; i < COLUMNS * COLUMNS; i++) {
        const float moved = ((const float *)before.data)[i] - gradient[i];
        cr_expect_eq(((const float *)after.data)[i], moved, "%d", i);
    }
    cadre_future_destroy(&future);
    cadre_tensor_fini(&hidden);
    cadre_tensor_fini(&before);
    cadre_tensor_fini(&after);
}

Test(conformance_by_hand, C19_a_program_is_evaluated_in_the_coordinators_process_as_by_a_worker)
{
    stage_t stage;
    stage_open(&stage, 2, 1);
    cadre_variable_t *weight = create_weight(&stage);
    float x_of[BATCH][COLUMNS];
    for (int i = 0; i < BATCH * COLUMNS; i++) {
        x_of[i / COLUMNS][i % COLUMNS] = (float)(i % 7) / 8 - 0.25f;
    }
    cadre_tensor_t x = cadre_tensor_view(CADRE_F32, x_of, (const int64_t[]){BATCH, COLUMNS}, 2);
    const cadre_argument_t argument = {"x", &x};
    const cadre_call_t call = cadre_call_tensors(&argument, 1);

    cadre_program_t *program = new_program();
    cadre_inspection_t *inspection = NULL;
    cadre_inspection_options_t options = cadre_inspection_options();
    options.tensors = &argument;
    options.tensor_count = 1;
    options.coordinator = stage.coordinator;
    OK(cadre_program_evaluate(program, &options, &inspection));
    expect_like_a_worker(&stage, &program, &call, inspection, weight);
    cadre_inspection_destroy(&inspection);

    cadre_program_t *other = cadre_program_new("other");
    cadre_op_result(other, "bias", cadre_op_var(other, "bias", (const int64_t[]){1}, 1));
    FAILS(cadre_program_evaluate(other, &options, &inspection), CADRE_ENOTFOUND,
          "program other: variable bias has no value: the coordinator has none");
    cadre_program_destroy(&other);
    stage_close(&stage);
}

/* --- counts and sums --- */

/* Numbers that f64, and f32, would round. */
static const int64_t counted = (INT64_C(1) << 53) + 1;
static const double summed = 1 + 0x1p-40;

/* Gives "seen" and "sum" plus 1, and pushes 3 and 0.5 to them. */
static cadre_program_t *
new_tally(void)
{
    cadre_program_t *p = cadre_program_new("tally");
    const double half = 0.5;
    const cadre_tensor_t pushed = cadre_tensor_view(CADRE_F64, &half, NULL, 0);
    const cadre_node_t seen = cadre_op_var_of(p, "seen", CADRE_I64, NULL, 0);
    const cadre_node_t sum = cadre_op_var_of(p, "sum", CADRE_F64, NULL, 0);
    cadre_op_result(p, "seen", cadre_op_add(p, seen, cadre_op_const_i64(p, 1)));
    cadre_op_result(p, "sum",
                    cadre_op_add(p, sum, cadre_op_cast(p, cadre_op_const_i64(p, 1), CADRE_F64)));
    cadre_op_push(p, seen, cadre_op_const_i64(p, 3));
    cadre_op_push(p, sum, cadre_op_const(p, &pushed));
    return p;
}

/* Creates a number that what is pushed to it is added to, with this value. */
static cadre_variable_t *
create_number(stage_t *stage, const char *name, const cadre_tensor_t *value)
{
    cadre_variable_t *number = NULL;
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.initializer = cadre_initializer(CADRE_INITIALIZER_ZEROS);
    OK(cadre_variable_create(stage->coordinator, name, value->dtype, NULL, 0, &options, &number));
    OK(cadre_variable_assign(number, CADRE_VARIABLE_SET, value, LOCAL_WAIT_MS));
    return number;
}

/* Expects a number of this dtype with the bits of `wanted`, of 8 bytes. */
static void
expect_number(const cadre_tensor_t *tensor, cadre_dtype_t dtype, const void *wanted)
{
    cr_assert(tensor && tensor->dtype == dtype && tensor->rank == 0);
    cr_expect_eq(memcmp(tensor->data, wanted, sizeof(int64_t)), 0);
}

static void
expect_tally(const cadre_inspection_t *inspection)
{
    const int64_t seen = counted + 1;
    const double sum = summed + 1;
    const int64_t three = 3;
    const double half = 0.5;
    expect_number(cadre_inspection_result(inspection, "seen"), CADRE_I64, &seen);
    expect_number(cadre_inspection_result(inspection, "sum"), CADRE_F64, &sum);
    expect_number(cadre_inspection_gradient(inspection, "seen"), CADRE_I64, &three);
    expect_number(cadre_inspection_gradient(inspection, "sum"), CADRE_F64, &half);
}

/* Variables of i64 and f64: as the caller gives them, and as the coordinator has them. */
Test(conformance_by_hand, C19_counts_and_sums_are_evaluated_in_their_own_types)
{
    stage_t stage;
    stage_open(&stage, 2, 1);
    int64_t seen_of = counted;
    double sum_of = summed;
    const cadre_tensor_t seen = cadre_tensor_view(CADRE_I64, &seen_of, NULL, 0);
    const cadre_tensor_t sum = cadre_tensor_view(CADRE_F64, &sum_of, NULL, 0);
    cadre_program_t *program = new_tally();
    cadre_inspection_t *inspection = NULL;
    cadre_inspection_options_t options = cadre_inspection_options();
    const cadre_argument_t given[] = {{"seen", &seen}, {"sum", &sum}};
    options.variables = given;
    options.variable_count = 2;
    OK(cadre_program_evaluate(program, &options, &inspection));
    expect_tally(inspection);
    cadre_inspection_destroy(&inspection);

    const cadre_argument_t wrong[] = {{"seen", &sum}, {"sum", &sum}};
    options.variables = wrong;
    FAILS(cadre_program_evaluate(program, &options, &inspection), CADRE_EDTYPE,
          "program tally: variable seen is f64, not i64");

    create_number(&stage, "seen", &seen);
    create_number(&stage, "sum", &sum);
    options.variable_count = 0;
    options.coordinator = stage.coordinator;
    OK(cadre_program_evaluate(program, &options, &inspection));
    expect_tally(inspection);

    cadre_function_t *function = NULL;
    cadre_future_t *future = NULL;
    cadre_tensor_t value = {0};
    const cadre_call_t call = cadre_call_tensors(NULL, 0);
    OK(cadre_function_register(stage.coordinator, &program, &function));
    OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, &future));
    OK(cadre_future_fetch(future, "sum", &value, LOCAL_WAIT_MS));
    expect_number(&value, CADRE_F64, cadre_inspection_result(inspection, "sum")->data);
    cadre_tensor_fini(&value);
    OK(cadre_future_fetch(future, "seen", &value, LOCAL_WAIT_MS));
    expect_number(&value, CADRE_I64, cadre_inspection_result(inspection, "seen")->data);
    cadre_tensor_fini(&value);
    cadre_future_destroy(&future);
    cadre_inspection_destroy(&inspection);
    stage_close(&stage);
}
