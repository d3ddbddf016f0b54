#include "worker/device/device.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "common/base/limits.h"
#include "tests/worker/device/run_program.h"

TestSuite(device, .timeout = 240);

Test(device, opens_the_cpu_and_nothing_else)
{
    cadre_device_t *device = NULL;
    cr_assert_eq(cadre_device_open("tpu", 1, &device), CADRE_EINVALID);
    const cadre_device_options_t options = {.name = "cpu", .threads = 1, .math = "f16"};
    cr_assert_eq(cadre_device_open_with(&options, &device), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "math \"f16\" is none of f32|tf32|bf16");
    cr_assert_eq(cadre_device_open("cpu", 0, &device), CADRE_EINVALID);
    cr_assert_null(device);
    cr_assert_eq(cadre_device_open("cpu", 1, &device), 0);
    cr_assert(strncmp(cadre_device_name(device), "cpu ", 4) == 0, "%s", cadre_device_name(device));
    cadre_device_close(&device);
    cr_assert_null(device);
}

/* y = x w, its mean squared against `t`, with the gradient of w. */
static cadre_program_t *
linear(void)
{
    cadre_program_t *p = cadre_program_new("linear");
    cadre_dim_t dims[2] = {cadre_dim_symbol("B"), cadre_dim(2)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    cadre_node_t t = cadre_op_arg(p, "t", CADRE_F32, dims, 1);
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){2, 1}, 2);
    cadre_node_t loss = cadre_op_mse(p, cadre_op_matmul(p, x, w), t);
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    return p;
}

typedef struct {
    float x[8];
    float t[4];
    float w[2];
    float gradient[2];
    cadre_tensor_t arguments[2];
    cadre_tensor_t result;
} data_t;

static void
data_init(data_t *data, int64_t rows)
{
    *data = (data_t){.x = {1, 2, 3, 4, 5, 6, 7, 8}, .t = {1, 2, 3, 4}, .w = {1, -1}};
    data->arguments[0] =
        (cadre_tensor_t){.dtype = CADRE_F32, .rank = 2, .shape = {rows, 2}, .data = data->x};
    data->arguments[1] =
        (cadre_tensor_t){.dtype = CADRE_F32, .rank = 1, .shape = {rows}, .data = data->t};
}

static int
run_linear(const cadre_program_t *p, cadre_slot_t *slot, data_t *data)
{
    const void *variables[1] = {data->w};
    void *gradients[1] = {data->gradient};
    cadre_slot_run_t run = {.program = p,
                            .arguments = data->arguments,
                            .argument_count = 2,
                            .variables = variables,
                            .gradients = gradients,
                            .results = &data->result};
    return cadre_slot_run(slot, &run);
}

/* Each y is -1: the loss is the mean of (t + 1)^2, its gradient -2 mean((t + 1) x). */
static void
expect_linear(data_t *data, int64_t rows)
{
    float loss = 0;
    float gradient[2] = {0};
    for (int64_t i = 0; i < rows; i++) {
        loss += (data->t[i] + 1) * (data->t[i] + 1) / (float)rows;
        gradient[0] -= 2 * (data->t[i] + 1) * data->x[2 * i] / (float)rows;
        gradient[1] -= 2 * (data->t[i] + 1) * data->x[2 * i + 1] / (float)rows;
    }
    cr_assert(fabsf(f32_at(&data->result, 0) - loss) < 1e-4F);
    cr_assert(fabsf(data->gradient[0] - gradient[0]) < 1e-4F);
    cr_assert(fabsf(data->gradient[1] - gradient[1]) < 1e-4F);
    cadre_tensor_fini(&data->result);
}

Test(device, runs_batches_of_any_size_whatever_plans_it_keeps)
{
    cadre_program_t *p = linear();
    for (int plans_max = 0; plans_max <= 3; plans_max++) {
        cadre_slot_options_t options = {.plans_max = plans_max, .checks.poison = true};
        runner_t runner = runner_open(&options);
        for (int i = 0; i < 40; i++) {
            int64_t rows = 1 + i * 7 % 4;
            data_t data;
            data_init(&data, rows);
            cr_assert_eq(run_linear(p, runner.slot, &data), 0, "%s", cadre_error_text());
            expect_linear(&data, rows);
        }
        runner_close(&runner);
    }
    cadre_program_destroy(&p);
}

Test(device, takes_no_more_memory_after_the_largest_batch)
{
    cadre_program_t *p = linear();
    runner_t runner = runner_open(NULL);
    size_t size_bytes = 0;
    for (int i = 0; i < 100; i++) {
        data_t data;
        data_init(&data, i % 2 ? 3 : 4);
        cr_assert_eq(run_linear(p, runner.slot, &data), 0);
        expect_linear(&data, i % 2 ? 3 : 4);
        size_bytes = i == 0 ? cadre_slot_arena_size_bytes(runner.slot) : size_bytes;
    }
    cr_assert_gt(size_bytes, 0);
    cr_assert_eq(cadre_slot_arena_size_bytes(runner.slot), size_bytes);
    runner_close(&runner);
    cadre_program_destroy(&p);
}

Test(device, refuses_what_does_not_fit_into_its_memory_and_goes_on)
{
    cadre_program_t *p = linear();
    data_t data;
    data_init(&data, 4);
    runner_t runner = runner_open(NULL);
    cr_assert_eq(run_linear(p, runner.slot, &data), 0);
    cadre_tensor_fini(&data.result);
    size_t needed = cadre_slot_arena_size_bytes(runner.slot);
    runner_close(&runner);
    for (int i = -1; i <= 1; i++) {
        cadre_slot_options_t options = {.memory_size_max = needed + (size_t)i};
        runner = runner_open(&options);
        cr_assert_eq(run_linear(p, runner.slot, &data), i < 0 ? CADRE_ENOMEMORY : 0);
        cadre_tensor_fini(&data.result);
        runner_close(&runner);
    }
    cadre_program_destroy(&p);
}

Test(device, refuses_arguments_that_do_not_fit)
{
    cadre_program_t *p = linear();
    runner_t runner = runner_open(NULL);
    data_t data;
    data_init(&data, 4);
    data.arguments[1].shape[0] = 3;
    cr_assert_eq(run_linear(p, runner.slot, &data), CADRE_ESHAPE);
    cr_assert_str_eq(cadre_error_text(), "linear: argument t is [3], not [B] with B = 4 as before");
    cr_assert_null(data.result.data);
    data_init(&data, 4);
    data.arguments[1].dtype = CADRE_I32;
    cr_assert_eq(run_linear(p, runner.slot, &data), CADRE_EDTYPE);
    data_init(&data, 4);
    cr_assert_eq(run_linear(p, runner.slot, &data), 0);
    expect_linear(&data, 4);
    runner_close(&runner);
    cadre_program_destroy(&p);
}

Test(device, limits_the_size_of_results)
{
    int64_t limit = CADRE_RESULT_SIZE_MAX / 4;
    for (int64_t over = 0; over <= 1; over++) {
        int64_t count = limit + over;
        cadre_program_t *p = cadre_program_new("large");
        cadre_node_t zero = cadre_op_const_f32(p, 0);
        cadre_op_result(p, "y", cadre_op_broadcast(p, zero, &(cadre_dim_t){count, NULL}, 1));
        cadre_tensor_t result = {0};
        cr_assert_eq(try_once(p, NULL, &result), over ? CADRE_ETOOLARGE : 0);
        cadre_tensor_fini(&result);
    }
}

Test(device, gives_out_values_that_come_from_outside_or_go_to_several_places)
{
    cadre_program_t *p = cadre_program_new("outputs");
    cadre_dim_t dims[1] = {cadre_dim(3)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 1);
    cadre_node_t v = cadre_op_var(p, "v", (int64_t[]){3}, 1);
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){3}, 1);
    cadre_node_t u = cadre_op_var(p, "u", (int64_t[]){3}, 1);
    cadre_node_t sum = cadre_op_add(p, x, v);
    cadre_op_push(p, v, sum);
    cadre_op_push(p, w, sum);
    cadre_op_push(p, u, x);
    cadre_op_result(p, "x", x);
    cadre_op_result(p, "v", v);
    cadre_op_result(p, "sum",
                    cadre_op_reshape(p, sum, (cadre_dim_t[]){cadre_dim(3), cadre_dim(1)}, 2));
    cadre_op_result(p, "twice", cadre_op_add(p, sum, sum)); /* after it, sum lives on */
    cadre_op_result(p, "const", cadre_op_const_f32(p, 2.5F));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    float values[3][3] = {{1, 2, 3}, {10, 20, 30}, {0}};
    float pushed[3][3] = {{0}};
    const void *variables[3] = {values[1], values[2], values[2]};
    void *gradients[3] = {pushed[0], pushed[1], pushed[2]};
    cadre_tensor_t argument = {.dtype = CADRE_F32, .rank = 1, .shape = {3}, .data = values[0]};
    cadre_tensor_t results[5] = {0};
    cadre_slot_run_t run = {.program = p,
                            .arguments = &argument,
                            .argument_count = 1,
                            .variables = variables,
                            .gradients = gradients,
                            .results = results};
    runner_t runner = runner_open(NULL);
    cr_assert_eq(cadre_slot_run(runner.slot, &run), 0);
    const float sums[3] = {11, 22, 33};
    cr_assert_eq(memcmp(pushed[0], sums, 12), 0);
    cr_assert_eq(memcmp(pushed[1], sums, 12), 0);
    cr_assert_eq(memcmp(pushed[2], values[0], 12), 0);
    cr_assert_eq(memcmp(results[0].data, values[0], 12), 0);
    cr_assert_eq(memcmp(results[1].data, values[1], 12), 0);
    cr_assert_eq(memcmp(results[2].data, sums, 12), 0);
    cr_assert_eq(results[2].rank, 2);
    cr_assert_eq(f32_at(&results[3], 2), 66);
    cr_assert_eq(f32_at(&results[4], 0), 2.5F);
    for (int i = 0; i < 5; i++) {
        cadre_tensor_fini(&results[i]);
    }
    runner_close(&runner);
    cadre_program_destroy(&p);
}

Test(device, lets_nan_through_to_loss_and_gradients)
{
    cadre_program_t *p = linear();
    runner_t runner = runner_open(NULL);
    data_t data;
    data_init(&data, 2);
    data.x[3] = NAN;
    cr_assert_eq(run_linear(p, runner.slot, &data), 0);
    cr_assert(isnan(f32_at(&data.result, 0)));
    cr_assert(isnan(data.gradient[0]) && isnan(data.gradient[1]));
    cadre_tensor_fini(&data.result);
    runner_close(&runner);
    cadre_program_destroy(&p);
}

/* ---- several slots at once ---- */

enum { THREADS = 4, RUNS = 200, WIDTH = 24, BATCH = 16 };

typedef struct {
    const cadre_program_t *program;
    cadre_device_t *device;
    float gradient[WIDTH * WIDTH];
} worker_t;

static void *
work(void *argument)
{
    worker_t *worker = argument;
    cadre_slot_t *slot = NULL;
    cr_assert_eq(cadre_slot_open(worker->device, NULL, &slot), 0);
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){BATCH, WIDTH}, 2, 1);
    cadre_tensor_t w = random_tensor(CADRE_F32, (int64_t[]){WIDTH, WIDTH}, 2, 2);
    const void *variables[1] = {w.data};
    void *gradients[1] = {worker->gradient};
    for (int i = 0; i < RUNS; i++) {
        cadre_tensor_t result = {0};
        cadre_slot_run_t run = {.program = worker->program,
                                .arguments = &x,
                                .argument_count = 1,
                                .variables = variables,
                                .seed = 77,
                                .gradients = gradients,
                                .results = &result};
        cr_assert_eq(cadre_slot_run(slot, &run), 0);
        cadre_tensor_fini(&result);
    }
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&w);
    cadre_slot_close(&slot);
    return NULL;
}

Test(device, runs_one_program_on_several_threads_with_the_same_bits)
{
    cadre_program_t *p = cadre_program_new("shared");
    cadre_dim_t dims[2] = {cadre_dim_symbol("B"), cadre_dim(WIDTH)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){WIDTH, WIDTH}, 2);
    cadre_node_t y = cadre_op_dropout(p, cadre_op_gelu(p, cadre_op_matmul(p, x, w)), 0.5F, 1);
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, cadre_op_matmul(p, y, w)));
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    cr_assert_eq(cadre_program_finish(p), 0);
    cadre_device_t *device = NULL;
    cr_assert_eq(cadre_device_open("cpu", 1, &device), 0);
    worker_t workers[THREADS] = {0};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker_t){.program = p, .device = device};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(memcmp(workers[i].gradient, workers[0].gradient, sizeof(workers[0].gradient)),
                     0);
    }
    cadre_device_close(&device);
    cadre_program_destroy(&p);
}
