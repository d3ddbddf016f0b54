/* Dense layers whose bias, relu and gradients are part of a product: ordinary numbers, numbers that
 * are exactly 0 before relu, and those that an epilogue would lose. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/gpu/gpu_check.h"

typedef struct {
    const char *name;
    int64_t rows;
    int64_t width;
    bool biased;
    bool zeros;   /* the first rows of the argument, and all biases */
    float number; /* in the argument, unless 0 */
} layers_t;

static void
make_layers(gpu_case_t *one, const layers_t *layers)
{
    cadre_program_t *p = cadre_program_new(layers->name);
    int64_t shape[] = {layers->rows, layers->width};
    cadre_node_t h = gpu_argument(one, p, gpu_random(CADRE_F32, shape, 2, -1, 1));
    for (int i = 0; i < 3; i++) {
        char name[8];
        int64_t weight[] = {layers->width, i < 2 ? layers->width : 10};
        cadre_node_t bias = {0};
        snprintf(name, sizeof(name), "b%d", i);
        bias = layers->biased ? cadre_op_var(p, name, &weight[1], 1) : bias;
        snprintf(name, sizeof(name), "w%d", i);
        h = cadre_op_dense(p, h, cadre_op_var(p, name, weight, 2), bias);
        h = i < 2 ? cadre_op_relu(p, h) : h;
    }
    cadre_node_t one_node = cadre_op_const_f32(p, 1);
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, cadre_op_sub(p, h, one_node)));
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    gpu_case_init(one, p);
    snprintf(one->name, sizeof(one->name), "%s, %lld rows of %lld", layers->name,
             (long long)layers->rows, (long long)layers->width);
}

/* With a row of zeros and no bias every number is 0 before each relu. */
static void
put_numbers(gpu_case_t *one, const layers_t *layers)
{
    float *x = one->arguments[0].data;
    size_t row = (size_t)layers->width * sizeof(float);
    if (layers->zeros) {
        memset(x, 0, (size_t)(layers->rows + 1) / 2 * row);
    }
    for (int i = 0; layers->zeros && i < cadre_program_variable_count(one->program); i++) {
        const cadre_program_variable_t *variable = cadre_program_variable(one->program, i);
        if (variable->rank == 1) {
            memset(one->variables[i], 0, (size_t)variable->shape[0] * sizeof(float));
        }
    }
    x[layers->width / 2] = layers->number != 0 ? layers->number : x[layers->width / 2];
}

void
gpu_check_fuse(gpu_check_t *self)
{
    static const layers_t all[] = {
        {.name = "layers", .biased = true},
        {.name = "layers without a bias"},
        {.name = "layers of zeros", .biased = true, .zeros = true},
        {.name = "layers with NaN", .biased = true, .number = NAN},
        {.name = "layers with infinity", .biased = true, .number = -INFINITY},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        for (int odd = 0; odd < 2; odd++) {
            layers_t layers = all[i];
            layers.rows = self->scale ? 256 - 3 * odd : 7 - odd;
            layers.width = self->scale ? 384 - 5 * odd : 6 - odd;
            gpu_case_t one = {0};
            make_layers(&one, &layers);
            put_numbers(&one, &layers);
            gpu_check_case(self, &one, 3);
        }
    }
}
