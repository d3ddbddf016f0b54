#include "bench/gpu/models.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "common/tensor/tensor.h"

enum { FEATURES = 1024, DENSE = 13, TABLES = 26, SIZE = 64, VALUE_SEED = 3, BATCH_SEED = 5 };

static const float mlp_rate = 0.25F; /* divided by the width: steps as large as they can be grow
                                         smaller with it */
static const float dlrm_rate = 0.05F;

/* A model in the making. */
typedef struct {
    gpu_model_t *model;
    cadre_program_t *program;
    int64_t batch;
    cadre_node_t variables[GPU_VARIABLES_MAX];
} maker_t;

/* ---- parts ---- */

static cadre_node_t
add_variable(maker_t *maker, const char *kind, const int64_t *shape, int rank, float deviation)
{
    gpu_model_t *model = maker->model;
    cadre_assert(model->variable_count < GPU_VARIABLES_MAX);
    int index = model->variable_count++;
    gpu_variable_t *variable = &model->variables[index];
    snprintf(variable->name, sizeof(variable->name), "%s%d", kind, index);
    variable->rank = rank;
    variable->shape[0] = shape[0];
    variable->shape[1] = rank > 1 ? shape[1] : 1;
    variable->deviation = deviation;
    maker->variables[index] = cadre_op_var(maker->program, variable->name, shape, rank);
    return maker->variables[index];
}

static cadre_node_t
add_argument(maker_t *maker, cadre_dtype_t dtype, int64_t columns, int64_t range)
{
    gpu_model_t *model = maker->model;
    cadre_assert(model->argument_count < GPU_ARGUMENTS_MAX);
    int index = model->argument_count++;
    gpu_argument_t *argument = &model->arguments[index];
    snprintf(argument->name, sizeof(argument->name), "a%d", index);
    argument->dtype = dtype;
    argument->rank = columns ? 2 : 1;
    argument->shape[0] = maker->batch;
    argument->shape[1] = columns ? columns : 1;
    argument->range = range;
    const cadre_dim_t dims[] = {cadre_dim(maker->batch), cadre_dim(columns)};
    return cadre_op_arg(maker->program, argument->name, dtype, dims, argument->rank);
}

static void
add_product(gpu_model_t *model, const cadre_blas_product_t *product, int repeats)
{
    cadre_assert(model->product_count < GPU_PRODUCTS_MAX);
    model->products[model->product_count] = *product;
    model->repeats[model->product_count++] = repeats;
}

/* The forward product of a dense layer, and those of its gradients; of its input's only where that
 * leads to a variable. */
static void
add_dense_products(maker_t *maker, int64_t in, int64_t out, bool first)
{
    const int batch = (int)maker->batch;
    const cadre_blas_product_t forward = {.m = batch, .n = (int)out, .inner = (int)in};
    const cadre_blas_product_t weight = {
        .m = (int)in, .n = (int)out, .inner = batch, .transpose_left = true};
    const cadre_blas_product_t input = {
        .m = batch, .n = (int)in, .inner = (int)out, .transpose_right = true};

    add_product(maker->model, &forward, 1);
    add_product(maker->model, &weight, 1);
    if (!first) {
        add_product(maker->model, &input, 1);
    }
}

/* `first`: nothing before it is learned. */
static cadre_node_t
add_dense(maker_t *maker, cadre_node_t x, int64_t in, int64_t out, bool first)
{
    cadre_node_t weight = add_variable(maker, "w", (int64_t[]){in, out}, 2, sqrtf(2 / (float)in));
    cadre_node_t bias = add_variable(maker, "b", &out, 1, 0);
    add_dense_products(maker, in, out, first);
    return cadre_op_dense(maker->program, x, weight, bias);
}

static cadre_node_t
as_vector(maker_t *maker, cadre_node_t column)
{
    return cadre_op_reshape(maker->program, column, (cadre_dim_t[]){cadre_dim(maker->batch)}, 1);
}

/* ---- models ---- */

static cadre_node_t
make_mlp(maker_t *maker, const gpu_size_t *size)
{
    cadre_program_t *p = maker->program;
    maker->model->rate = mlp_rate / (float)size->width;
    cadre_node_t h = add_argument(maker, CADRE_F32, FEATURES, 0);
    cadre_node_t target = add_argument(maker, CADRE_F32, 0, 0);
    h = cadre_op_relu(p, add_dense(maker, h, FEATURES, size->width, true));
    h = cadre_op_relu(p, add_dense(maker, h, size->width, size->width, false));
    h = cadre_op_relu(p, add_dense(maker, h, size->width, size->width, false));
    return cadre_op_mse(p, as_vector(maker, add_dense(maker, h, size->width, 1, false)), target);
}

/* Each example's [27, 64] times its transpose, and the gradient of that. */
static void
add_interaction_products(maker_t *maker)
{
    const cadre_blas_product_t forward = {
        .m = TABLES + 1, .n = TABLES + 1, .inner = SIZE, .transpose_right = true};
    const cadre_blas_product_t gradient = {.m = TABLES + 1, .n = SIZE, .inner = TABLES + 1};
    add_product(maker->model, &forward, (int)maker->batch);
    add_product(maker->model, &gradient, (int)maker->batch);
}

static cadre_node_t
make_dlrm(maker_t *maker, const gpu_size_t *size)
{
    static const int64_t pairs = SIZE + (int64_t)(TABLES + 1) * TABLES / 2;
    cadre_program_t *p = maker->program;

    maker->model->rate = dlrm_rate;
    cadre_node_t h = add_argument(maker, CADRE_F32, DENSE, 0);
    cadre_node_t target = add_argument(maker, CADRE_F32, 0, 1);
    cadre_node_t embeddings[TABLES];
    for (int i = 0; i < TABLES; i++) {
        cadre_node_t index = add_argument(maker, CADRE_I32, 0, size->rows);
        cadre_node_t table = add_variable(maker, "t", (int64_t[]){size->rows, SIZE}, 2, 0.125F);
        embeddings[i] = cadre_op_take(p, table, index);
    }

    h = cadre_op_relu(p, add_dense(maker, h, DENSE, 512, true));
    h = cadre_op_relu(p, add_dense(maker, h, 512, 256, false));
    h = cadre_op_relu(p, add_dense(maker, h, 256, SIZE, false));
    add_interaction_products(maker);
    h = cadre_op_dlrm_interaction(p, h, embeddings, TABLES);
    h = cadre_op_relu(p, add_dense(maker, h, pairs, 512, false));
    h = cadre_op_relu(p, add_dense(maker, h, 512, 256, false));
    cadre_node_t logit = as_vector(maker, add_dense(maker, h, 256, 1, false));
    return cadre_op_sigmoid_cross_entropy(p, logit, target);
}

/* Pushes the variables after a gradient step. */
static void
push_values(const maker_t *maker, cadre_node_t loss)
{
    cadre_program_t *program = maker->program;
    const gpu_model_t *model = maker->model;
    cadre_node_t gradients[GPU_VARIABLES_MAX];
    cadre_node_t rate = cadre_op_const_f32(program, model->rate);

    cadre_op_gradient(program, loss, maker->variables, model->variable_count, gradients);
    for (int i = 0; i < model->variable_count; i++) {
        cadre_node_t step = cadre_op_mul(program, gradients[i], rate);
        cadre_op_push(program, maker->variables[i],
                      cadre_op_sub(program, maker->variables[i], step));
    }
}

static bool
is_size(const gpu_size_t *size)
{
    return size->batch >= 1 && size->batch <= 1 << 20 && size->width >= 1 &&
           size->width <= 1 << 16 && size->rows >= 1 && size->rows <= 1 << 24;
}

int
gpu_model_make(const gpu_size_t *size, gpu_push_t push, gpu_model_t *model, cadre_program_t **out)
{
    bool is_mlp = strcmp(size->model, "mlp") == 0;
    if (!is_size(size) || (!is_mlp && strcmp(size->model, "dlrm") != 0)) {
        return cadre_fail(CADRE_EINVALID, "a model is mlp or dlrm, of sizes above 0");
    }

    *model = (gpu_model_t){.name = size->model};
    cadre_auto(cadre_program_destroy) cadre_program_t *program = cadre_program_new(size->model);
    maker_t maker = {.model = model, .program = program, .batch = size->batch};
    cadre_node_t loss = is_mlp ? make_mlp(&maker, size) : make_dlrm(&maker, size);
    cadre_op_result(program, "loss", loss);
    if (push == GPU_PUSH_GRADIENTS) {
        cadre_op_minimize(program, loss);
    } else {
        push_values(&maker, loss);
    }

    int status = cadre_program_finish(program);
    if (status < 0) {
        return status;
    }

    cadre_assert(cadre_program_variable_count(program) == model->variable_count);
    cadre_assert(cadre_program_argument_count(program) == model->argument_count);
    *out = program;
    program = NULL;
    return 0;
}

/* ---- numbers ---- */

int64_t
gpu_variable_count(const gpu_variable_t *variable)
{
    return variable->shape[0] * variable->shape[1];
}

float *
gpu_first_values(const gpu_model_t *model, int index)
{
    const gpu_variable_t *variable = &model->variables[index];
    size_t count = (size_t)gpu_variable_count(variable);
    float *values = cadre_aligned_alloc(count * sizeof(float));
    cadre_random_fill_normal(VALUE_SEED, (uint64_t)index, 0, count, values);
    for (size_t i = 0; i < count; i++) {
        values[i] *= variable->deviation;
    }
    return values;
}

cadre_tensor_t
gpu_batch(const gpu_model_t *model, int batch, int index)
{
    const gpu_argument_t *argument = &model->arguments[index];
    const uint64_t stream = (uint64_t)(batch * GPU_ARGUMENTS_MAX + index);
    cadre_tensor_t tensor = {.data = NULL};
    int status = cadre_tensor_init(&tensor, argument->dtype, argument->shape, argument->rank);

    cadre_assert(status == 0);
    size_t count = (size_t)cadre_tensor_count(&tensor);
    if (argument->dtype == CADRE_F32 && argument->range == 0) {
        cadre_random_fill_normal(BATCH_SEED, stream, 0, count, tensor.data);
        return tensor;
    }

    for (size_t i = 0; i < count; i++) {
        float number = cadre_random_uniform(BATCH_SEED, stream, i);
        if (argument->dtype == CADRE_I32) {
            ((int32_t *)tensor.data)[i] = (int32_t)(number * (float)argument->range);
        } else {
            ((float *)tensor.data)[i] = number < 0.5F ? 0 : 1;
        }
    }

    return tensor;
}

double
gpu_model_operations(const gpu_model_t *model)
{
    double operations = 0;
    for (int i = 0; i < model->product_count; i++) {
        const cadre_blas_product_t *product = &model->products[i];
        operations += 2.0 * product->m * product->n * product->inner * model->repeats[i];
    }
    return operations;
}
