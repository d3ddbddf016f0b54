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
