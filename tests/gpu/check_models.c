/* Whole models, trained for some steps on both devices: the same losses. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/gpu/gpu_check.h"

enum { STEPS = 20, RUNS = 3 };

/* Variable `name` of that shape. */
static cadre_node_t
matrix(cadre_program_t *p, const char *name, int64_t rows, int64_t columns)
{
    return cadre_op_var(p, name, (int64_t[]){rows, columns}, 2);
}

static cadre_node_t
vector(cadre_program_t *p, const char *name, int64_t size)
{
    return cadre_op_var(p, name, &size, 1);
}

static void
finish(gpu_case_t *one, cadre_program_t *p, cadre_node_t loss)
{
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    gpu_case_init(one, p);
}

static cadre_node_t
argument(gpu_case_t *one, cadre_program_t *p, cadre_dtype_t dtype, int64_t rows, int64_t columns,
         float high)
{
    int64_t shape[2] = {rows, columns};
    return gpu_argument(
        one, p, gpu_random(dtype, shape, columns ? 2 : 1, dtype == CADRE_I32 ? 0 : -high, high));
}

static void
make_mlp(const gpu_check_t *self, gpu_case_t *one)
{
    int64_t batch = self->scale ? 512 : 9;
    int64_t width = self->scale ? 784 : 12;
    int64_t hidden = self->scale ? 300 : 8;
    cadre_program_t *p = cadre_program_new("mlp");
    cadre_node_t x = argument(one, p, CADRE_F32, batch, width, 1);
    cadre_node_t labels = argument(one, p, CADRE_I32, batch, 0, 9.99F);
    cadre_node_t h = cadre_op_relu(
        p, cadre_op_dense(p, x, matrix(p, "w0", width, hidden), vector(p, "b0", hidden)));
    h = cadre_op_relu(
        p, cadre_op_dense(p, h, matrix(p, "w1", hidden, hidden), vector(p, "b1", hidden)));
    h = cadre_op_dropout(p, h, 0.25F, 1);
    cadre_node_t y = cadre_op_dense(p, h, matrix(p, "w2", hidden, 10), vector(p, "b2", 10));
    finish(one, p, cadre_op_softmax_cross_entropy(p, y, labels));
}

static void
make_cnn(const gpu_check_t *self, gpu_case_t *one)
{
    int64_t batch = self->scale ? 32 : 2;
    int64_t side = self->scale ? 28 : 8;
    int64_t left = side / 2;
    cadre_program_t *p = cadre_program_new("cnn");
    cadre_tensor_t images = gpu_random(CADRE_F32, (int64_t[]){batch, side, side, 1}, 4, -1, 1);
    cadre_node_t x = gpu_argument(one, p, images);
    cadre_node_t labels = argument(one, p, CADRE_I32, batch, 0, 9.99F);
    cadre_node_t kernel = cadre_op_var(p, "k", (int64_t[]){3, 3, 1, 8}, 4);
    cadre_node_t h = cadre_op_relu(p, cadre_op_conv2d(p, x, kernel, vector(p, "kb", 8), 1, 1));
    h = cadre_op_max_pool2d(p, h, (int[]){2, 2}, 2);
    h = cadre_op_reshape(p, h, (cadre_dim_t[]){cadre_dim(batch), cadre_dim(left * left * 8)}, 2);
    cadre_node_t y = cadre_op_dense(p, h, matrix(p, "w", left * left * 8, 10), vector(p, "b", 10));
    finish(one, p, cadre_op_softmax_cross_entropy(p, y, labels));
}

/* A normalized sequence, looked at by itself. */
static cadre_node_t
attention(cadre_program_t *p, cadre_node_t x, int64_t width, int causal)
{
    cadre_node_t h =
        cadre_op_layer_norm(p, x, vector(p, "scale", width), vector(p, "shift", width), 1e-5F);
    return cadre_op_attention(p, cadre_op_matmul(p, h, matrix(p, "q", width, width)),
                              cadre_op_matmul(p, h, matrix(p, "k", width, width)),
                              cadre_op_matmul(p, h, matrix(p, "v", width, width)), 4, causal);
}

static void
make_attention(const gpu_check_t *self, gpu_case_t *one)
{
    int64_t batch = self->scale ? 8 : 2;
    int64_t length = self->scale ? 64 : 5;
    int64_t width = self->scale ? 64 : 8;
    cadre_program_t *p = cadre_program_new("attention");
    cadre_node_t x =
        gpu_argument(one, p, gpu_random(CADRE_F32, (int64_t[]){batch, length, width}, 3, -1, 1));
    cadre_node_t y = cadre_op_add(p, x, cadre_op_gelu(p, attention(p, x, width, 1)));
    finish(one, p,
           cadre_op_mean_all(p, cadre_op_square(p, cadre_op_sub(p, y, cadre_op_const_f32(p, 1)))));
}

/* The block of the job files' models: attention and a dense layer, each beside its input. */
static void
make_transformer(const gpu_check_t *self, gpu_case_t *one)
{
    int64_t batch = self->scale ? 16 : 2;
    int64_t length = self->scale ? 32 : 4;
    int64_t width = self->scale ? 64 : 8;
    cadre_program_t *p = cadre_program_new("transformer");
    cadre_node_t x =
        gpu_argument(one, p, gpu_random(CADRE_F32, (int64_t[]){batch, length, width}, 3, -1, 1));
    cadre_node_t labels = argument(one, p, CADRE_I32, batch, 0, 9.99F);
    cadre_node_t a = attention(p, x, width, 0);
    x = cadre_op_add(p, x, cadre_op_matmul(p, a, matrix(p, "o", width, width)));
    cadre_node_t h =
        cadre_op_layer_norm(p, x, vector(p, "s1", width), vector(p, "h1", width), 1e-5F);
    h = cadre_op_gelu(
        p, cadre_op_dense(p, h, matrix(p, "w0", width, 2 * width), vector(p, "b0", 2 * width)));
    x = cadre_op_add(
        p, x, cadre_op_dense(p, h, matrix(p, "w1", 2 * width, width), vector(p, "b1", width)));
    cadre_node_t y =
        cadre_op_dense(p, cadre_op_mean(p, x, 1), matrix(p, "w2", width, 10), vector(p, "b2", 10));
    finish(one, p, cadre_op_softmax_cross_entropy(p, y, labels));
}

static void
make_fm(const gpu_check_t *self, gpu_case_t *one)
{
    int64_t batch = self->scale ? 256 : 6;
    int64_t rows = self->scale ? 5000 : 30;
    int64_t features = self->scale ? 40 : 5;
    const cadre_node_t none = {0};
    cadre_program_t *p = cadre_program_new("fm");
    cadre_node_t index = argument(one, p, CADRE_I32, batch, features, (float)rows - 0.01F);
    cadre_node_t values = argument(one, p, CADRE_F32, batch, features, 0.3F);
    cadre_node_t target = cadre_op_step(p, argument(one, p, CADRE_F32, batch, 0, 1));
    cadre_node_t linear =
        cadre_op_embedding_bag(p, matrix(p, "w", rows, 1), index, none, values, CADRE_BAG_SUM);
    cadre_node_t pairs =
        cadre_op_factorization_machine(p, matrix(p, "v", rows, 16), index, none, values);
    cadre_node_t logit =
        cadre_op_add(p, cadre_op_add(p, cadre_op_sum(p, linear, 1), pairs), vector(p, "b", 1));
    finish(one, p, cadre_op_sigmoid_cross_entropy(p, logit, target));
}

static void
make_dlrm(const gpu_check_t *self, gpu_case_t *one)
{
    enum { TABLES = 3 };
    int64_t batch = self->scale ? 256 : 6;
    int64_t rows = self->scale ? 1000 : 20;
    int64_t size = self->scale ? 64 : 4;
    cadre_program_t *p = cadre_program_new("dlrm");
    cadre_node_t dense = argument(one, p, CADRE_F32, batch, 13, 1);
    cadre_node_t target = argument(one, p, CADRE_F32, batch, 0, 1);
    cadre_node_t embeddings[TABLES];
    for (int i = 0; i < TABLES; i++) {
        char name[8];
        snprintf(name, sizeof(name), "t%d", i);
        cadre_node_t index = argument(one, p, CADRE_I32, batch, 2, (float)rows - 0.01F);
        embeddings[i] = cadre_op_embedding_bag(p, matrix(p, name, rows, size), index,
                                               (cadre_node_t){0}, (cadre_node_t){0}, CADRE_BAG_SUM);
    }
    cadre_node_t h =
        cadre_op_relu(p, cadre_op_dense(p, dense, matrix(p, "w", 13, size), vector(p, "b", size)));
    cadre_node_t z = cadre_op_dlrm_interaction(p, h, embeddings, TABLES);
    int64_t pairs = size + (TABLES + 1) * TABLES / 2;
    cadre_node_t y = cadre_op_dense(p, z, matrix(p, "top", pairs, 1), vector(p, "tb", 1));
    finish(one, p,
           cadre_op_mse(p, cadre_op_reshape(p, y, (cadre_dim_t[]){cadre_dim(batch)}, 1), target));
}

/* Plain gradient steps on the host; the loss before each. */
static void
train(gpu_check_t *self, const char *name, gpu_case_t *one, cadre_device_t *device,
      float losses[STEPS])
{
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(device, NULL, &slot) == 0);
    for (int step = 0; step < STEPS; step++) {
        gpu_outcome_t outcome;
        int status = gpu_case_run(one, slot, (uint64_t)step, &outcome);
        gpu_check_that(self, status == 0, "%s, step %d: %s", name, step, cadre_error_text());
        losses[step] = status == 0 ? *(const float *)outcome.results[0].data : 0;
        for (int i = 0; i < cadre_program_push_count(one->program) && status == 0; i++) {
            int variable = cadre_program_push(one->program, i)->variable;
            for (int64_t k = 0; k < gpu_push_count(one->program, i); k++) {
                one->variables[variable][k] -= 0.05F * outcome.gradients[i][k];
            }
        }
        gpu_outcome_fini(one, &outcome);
    }
    cadre_slot_close(&slot);
}

typedef void (*make_t)(const gpu_check_t *self, gpu_case_t *one);

/* From the same variables on both devices. */
static void
check_training(gpu_check_t *self, const char *name, make_t make)
{
    gpu_case_t one = {0};
    make(self, &one);
    size_t sizes[GPU_CHECK_VARIABLES_MAX] = {0};
    float *start[GPU_CHECK_VARIABLES_MAX] = {0};
    int count = cadre_program_variable_count(one.program);
    for (int i = 0; i < count; i++) {
        sizes[i] = (size_t)gpu_variable_count(one.program, i) * sizeof(float);
        start[i] = cadre_aligned_alloc(sizes[i]);
        memcpy(start[i], one.variables[i], sizes[i]);
    }
    float want[STEPS];
    float got[STEPS];
    train(self, name, &one, self->cpu, want);
    for (int i = 0; i < count; i++) {
        memcpy(one.variables[i], start[i], sizes[i]);
        free(start[i]);
    }
    train(self, name, &one, self->device, got);
    for (int step = 0; step < STEPS; step++) {
        gpu_check_that(self,
                       fabsf(got[step] - want[step]) <= GPU_CHECK_TOLERANCE * fabsf(want[step]),
                       "%s: the loss at step %d is %.9g, on the CPU %.9g", name, step,
                       (double)got[step], (double)want[step]);
    }
    gpu_check_that(self, want[STEPS - 1] < want[0], "%s does not learn", name);
    gpu_case_fini(&one);
}

void
gpu_check_models(gpu_check_t *self)
{
    static const struct {
        const char *name;
        make_t make;
    } models[] = {{"mlp", make_mlp},
                  {"cnn", make_cnn},
                  {"attention", make_attention},
                  {"transformer", make_transformer},
                  {"dlrm", make_dlrm},
                  {"fm", make_fm}};
    for (size_t i = 0; i < CADRE_COUNT_OF(models); i++) {
        gpu_case_t one = {0};
        models[i].make(self, &one);
        snprintf(one.name, sizeof(one.name), "%s", models[i].name);
        gpu_check_case(self, &one, RUNS);
        check_training(self, models[i].name, models[i].make);
    }
}
