/*
 * The gradients of whole models against difference quotients.
 */
#include "tests/worker/device_double/gradient_check.h"

TestSuite(model_gradient, .timeout = 240);

static cadre_node_t
linear(cadre_program_t *p, int64_t outputs)
{
    cadre_node_t x = batch(p, "x", CADRE_F32, 3);
    return cadre_op_dense(p, x, matrix(p, "w", 3, outputs), vector(p, "b", outputs));
}

static cadre_node_t
build_linear(cadre_program_t *p)
{
    return cadre_op_mse(p, linear(p, 2), batch(p, "y", CADRE_F32, 2));
}

static cadre_node_t
build_linear_mae(cadre_program_t *p)
{
    return cadre_op_mae(p, linear(p, 2), batch(p, "y", CADRE_F32, 2));
}

static cadre_node_t
build_logistic(cadre_program_t *p)
{
    return cadre_op_sigmoid_cross_entropy(p, linear(p, 1), batch(p, "y", CADRE_F32, 0));
}

static cadre_node_t
build_softmax_regression(cadre_program_t *p)
{
    return cadre_op_softmax_cross_entropy(p, linear(p, CLASSES), batch(p, "y", CADRE_I32, 0));
}

Test(model_gradient, of_linear_and_logistic_models)
{
    check_gradient("linear", build_linear);
    check_gradient("linear mae", build_linear_mae);
    check_gradient("logistic", build_logistic);
    check_gradient("softmax regression", build_softmax_regression);
}

static cadre_node_t (*activation_of_test)(cadre_program_t *p, cadre_node_t x);
static float dropout_of_test;

static cadre_node_t
build_mlp(cadre_program_t *p)
{
    cadre_node_t x = batch(p, "x", CADRE_F32, 3);
    cadre_node_t h = cadre_op_dense(p, x, matrix(p, "w1", 3, 6), vector(p, "b1", 6));
    h = cadre_op_dropout(p, activation_of_test(p, h), dropout_of_test, 1);
    h = activation_of_test(p, cadre_op_dense(p, h, matrix(p, "w2", 6, 5), vector(p, "b2", 5)));
    cadre_node_t logits =
        cadre_op_dense(p, h, matrix(p, "w3", 5, CLASSES), vector(p, "b3", CLASSES));
    return cadre_op_softmax_cross_entropy(p, logits, batch(p, "label", CADRE_I32, 0));
}

static cadre_node_t
leaky(cadre_program_t *p, cadre_node_t x)
{
    return cadre_op_max(p, x, cadre_op_mul(p, x, cadre_op_const_f32(p, 0.25F)));
}

Test(model_gradient, of_deep_models_with_each_activation_and_dropout)
{
    cadre_node_t (*activations[])(cadre_program_t *, cadre_node_t) = {
        cadre_op_relu, cadre_op_sigmoid, cadre_op_tanh, cadre_op_gelu, cadre_op_softplus, leaky};
    for (size_t i = 0; i < CADRE_COUNT_OF(activations); i++) {
        activation_of_test = activations[i];
        dropout_of_test = 0;
        check_gradient("mlp", build_mlp);
        dropout_of_test = 0.4F;
        check_gradient("mlp with dropout", build_mlp);
    }
}

/* Two convolutions with pooling between, a dense layer on top. */
static cadre_node_t
build_cnn(cadre_program_t *p)
{
    cadre_dim_t image[4] = {cadre_dim_symbol("B"), cadre_dim(6), cadre_dim(6), cadre_dim(1)};
    cadre_dim_t flat[2] = {cadre_dim_symbol("B"), cadre_dim(12)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, image, 4);
    cadre_node_t kernel = cadre_op_var(p, "k1", (int64_t[]){3, 3, 1, 2}, 4);
    x = cadre_op_tanh(p, cadre_op_conv2d(p, x, kernel, vector(p, "b1", 2), 1, 1));
    x = cadre_op_max_pool2d(p, x, (int[]){2, 2}, 2);
    kernel = cadre_op_var(p, "k2", (int64_t[]){2, 2, 2, 3}, 4);
    x = cadre_op_gelu(p, cadre_op_conv2d(p, x, kernel, vector(p, "b2", 3), 1, 0));
    x = cadre_op_dense(p, cadre_op_reshape(p, x, flat, 2), matrix(p, "w", 12, CLASSES),
                       vector(p, "b3", CLASSES));
    return cadre_op_softmax_cross_entropy(p, x, batch(p, "label", CADRE_I32, 0));
}

enum { MODEL_WIDTH = 4, POSITIONS = 3 };

static cadre_node_t
projection(cadre_program_t *p, cadre_node_t x, const char *name)
{
    return cadre_op_matmul(p, x, matrix(p, name, MODEL_WIDTH, MODEL_WIDTH));
}

/* A block as in Xiong and others 2020: norms before causal attention and before the dense layers,
 * each with a way around it; then the mean over the positions. */
static cadre_node_t
build_transformer(cadre_program_t *p)
{
    cadre_dim_t dims[3] = {cadre_dim_symbol("B"), cadre_dim(POSITIONS), cadre_dim(MODEL_WIDTH)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 3);
    x = cadre_op_add(p, x, matrix(p, "positions", POSITIONS, MODEL_WIDTH));
    cadre_node_t y = cadre_op_layer_norm(p, x, vector(p, "scale1", MODEL_WIDTH),
                                         vector(p, "shift1", MODEL_WIDTH), 1e-5F);
    y = cadre_op_attention(p, projection(p, y, "q"), projection(p, y, "k"), projection(p, y, "v"),
                           2, 1);
    x = cadre_op_add(p, x, projection(p, y, "o"));
    y = cadre_op_layer_norm(p, x, vector(p, "scale2", MODEL_WIDTH),
                            vector(p, "shift2", MODEL_WIDTH), 1e-5F);
    y = cadre_op_gelu(p, cadre_op_dense(p, y, matrix(p, "w1", MODEL_WIDTH, 6), vector(p, "b1", 6)));
    y = cadre_op_dense(p, y, matrix(p, "w2", 6, MODEL_WIDTH), vector(p, "b2", MODEL_WIDTH));
    x = cadre_op_mean(p, cadre_op_add(p, x, y), 1);
    x = cadre_op_dense(p, x, matrix(p, "w3", MODEL_WIDTH, CLASSES), vector(p, "b3", CLASSES));
    return cadre_op_softmax_cross_entropy(p, x, batch(p, "label", CADRE_I32, 0));
}

static cadre_node_t
build_batchnorm(cadre_program_t *p)
{
    cadre_node_t h =
        cadre_op_dense(p, batch(p, "x", CADRE_F32, 3), matrix(p, "w1", 3, 6), (cadre_node_t){0});
    h = cadre_op_batch_norm(p, h, vector(p, "scale", 6), vector(p, "shift", 6), 1e-3F, NULL);
    h = cadre_op_dense(p, cadre_op_tanh(p, h), matrix(p, "w2", 6, 2), vector(p, "b2", 2));
    return cadre_op_huber(p, h, batch(p, "y", CADRE_F32, 2), 0.5F);
}

Test(model_gradient, of_a_convolutional_network_a_transformer_block_and_batch_norm)
{
    check_gradient("cnn", build_cnn);
    check_gradient("transformer", build_transformer);
    check_gradient("batchnorm", build_batchnorm);
}
