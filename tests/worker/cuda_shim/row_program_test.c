/*
 * A program over rows whose gradients are clipped by their norm, by the CUDA kernels: the norm is
 * one over the rows that are looked up and the padding behind them.
 */
#include "common/graph/row_program.h"
#include "tests/worker/cuda_shim/compare.h"

TestSuite(row_program, .timeout = 240);

enum { TABLE = 300, WIDTH = 5, BATCH = 40, ROWS = 22, CAPACITY = 32 };

static const float norm = 0.01F; /* shorter than the gradient */

/* Clips the gradient of a table that two arguments look up. */
static cadre_row_program_t *
clipped(void)
{
    cadre_program_t *p = cadre_program_new("clipped");
    const cadre_dim_t batch[] = {cadre_dim(BATCH)};
    cadre_node_t t = cadre_op_var(p, "t", (int64_t[]){TABLE, WIDTH}, 2);
    cadre_node_t first = cadre_op_take(p, t, cadre_op_arg(p, "i", CADRE_I32, batch, 1));
    cadre_node_t second = cadre_op_take(p, t, cadre_op_arg(p, "k", CADRE_I32, batch, 1));
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, cadre_op_mul(p, first, second)));
    cadre_node_t gradient = {0};
    cadre_op_gradient(p, loss, &t, 1, &gradient);
    cadre_op_push(p, t, cadre_op_clip_by_norm(p, gradient, norm));
    cadre_op_result(p, "loss", loss);
    const bool may = true;
    cadre_row_program_t *rows = NULL;
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_row_program_new(p, &may, &rows), 0, "%s", cadre_error_text());
    cr_assert_eq(rows->variables[0], 0, "the table stays whole");
    cadre_program_destroy(&p);
    return rows;
}

static double
norm_of(const float *gradient)
{
    double sum = 0;
    for (int i = 0; i < CAPACITY * WIDTH; i++) {
        sum += (double)gradient[i] * (double)gradient[i];
    }
    return sqrt(sum);
}

Test(row_program, is_clipped_by_the_norm_of_its_rows)
{
    cadre_row_program_t *rows = clipped();
    cadre_tensor_t table = random_tensor(CADRE_F32, (int64_t[]){CAPACITY, WIDTH}, 2, 1);
    cadre_tensor_t x[4];
    for (int i = 0; i < 4; i++) {
        x[i] = random_tensor(CADRE_I32, (int64_t[]){BATCH}, 1, 2);
        for (int k = 0; k < BATCH; k++) { /* two positions are in both halves, others in one */
            ((int32_t *)x[i].data)[k] = i % 2 == 0 ? k % 13 : k % 11 + 11;
        }
    }
    float wanted[CAPACITY * WIDTH];
    float got[CAPACITY * WIDTH];
    cadre_tensor_t result = {0};
    cadre_slot_run_t run = {.program = rows->program,
                            .arguments = x,
                            .argument_count = cadre_program_argument_count(rows->program),
                            .variables = (const void *[]){table.data},
                            .rows = CAPACITY,
                            .gradients = (void *[]){wanted},
                            .results = &result};
    runner_t runner = runner_open(NULL);
    cr_assert_eq(run.argument_count, 4);
    cr_assert_eq(cadre_slot_run(runner.slot, &run), 0, "%s", cadre_error_text());
    cr_assert_float_eq(norm_of(wanted), (double)norm, 1e-6, "%g", norm_of(wanted));
    cadre_tensor_fini(&result);
    runner_close(&runner);

    run.gradients = (void *[]){got};
    for (size_t i = 0; i < CADRE_COUNT_OF(compare_modes); i += COMPARE_STEP) {
        memset(got, 0xff, sizeof(got));
        cr_assert_eq(kernel_device_run(&run, &compare_modes[i]), 0, "mode %d", (int)i);
        for (int k = 0; k < CAPACITY * WIDTH; k++) {
            cr_assert_float_eq(got[k], wanted[k], 1e-7, "mode %d, at %d: %.9g, not %.9g", (int)i, k,
                               (double)got[k], (double)wanted[k]);
            cr_assert(k < ROWS * WIDTH || got[k] == 0);
        }
        cadre_tensor_fini(&result);
    }
    cadre_tensor_fini(&table);
    for (int i = 0; i < 4; i++) {
        cadre_tensor_fini(&x[i]);
    }
    cadre_row_program_destroy(&rows);
}
