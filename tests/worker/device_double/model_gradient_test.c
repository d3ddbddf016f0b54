/*
 * The gradients of whole models against difference quotients.
 */
#include "tests/worker/device_double/gradient_check.h"

TestSuite(model_gradient, .timeout = 120);

static cadre_node_t
linear(cadre_program_t *p, int64_t outputs)
{
    cadre_node_t x = batch(p, "x", CADRE_F32, 3);
    return cadre_dense(p, x, matrix(p, "w", 3, outputs), vector(p, "b", outputs));
}

static cadre_node_t
build_linear(cadre_program_t *p)
{
    return cadre_mse(p, linear(p, 2), batch(p, "y", CADRE_F32, 2));
}

static cadre_node_t
build_linear_mae(cadre_program_t *p)
{
    return cadre_mae(p, linear(p, 2), batch(p, "y", CADRE_F32, 2));
}

static cadre_node_t
build_logistic(cadre_program_t *p)
{
    return cadre_sigmoid_cross_entropy(p, linear(p, 1), batch(p, "y", CADRE_F32, 0));
}

static cadre_node_t
build_softmax_regression(cadre_program_t *p)
{
    return cadre_softmax_cross_entropy(p, linear(p, CLASSES), batch(p, "y", CADRE_I32, 0));
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
    cadre_node_t h = cadre_dense(p, x, matrix(p, "w1", 3, 6), vector(p, "b1", 6));
    h = cadre_dropout(p, activation_of_test(p, h), dropout_of_test, 1);
    h = activation_of_test(p, cadre_dense(p, h, matrix(p, "w2", 6, 5), vector(p, "b2", 5)));
    cadre_node_t logits = cadre_dense(p, h, matrix(p, "w3", 5, CLASSES), vector(p, "b3", CLASSES));
    return cadre_softmax_cross_entropy(p, logits, batch(p, "label", CADRE_I32, 0));
}

static cadre_node_t
leaky(cadre_program_t *p, cadre_node_t x)
{
    return cadre_max(p, x, cadre_mul(p, x, cadre_const_f32(p, 0.25F)));
}

Test(model_gradient, of_deep_models_with_each_activation_and_dropout)
{
    cadre_node_t (*activations[])(cadre_program_t *, cadre_node_t) = {
        cadre_relu, cadre_sigmoid, cadre_tanh, cadre_gelu, cadre_softplus, leaky};
    for (size_t i = 0; i < CADRE_COUNT_OF(activations); i++) {
        activation_of_test = activations[i];
        dropout_of_test = 0;
        check_gradient("mlp", build_mlp);
        dropout_of_test = 0.4F;
        check_gradient("mlp with dropout", build_mlp);
    }
}
