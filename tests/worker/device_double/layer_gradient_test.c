/*
 * The gradient of each layer and loss against difference quotients.
 */
#include "tests/worker/device_double/gradient_check.h"

TestSuite(layer_gradient, .timeout = 240);

static const cadre_node_t none = {0};

static cadre_node_t
var4(cadre_program_t *p, const char *name, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return cadre_op_var(p, name, (int64_t[]){a, b, c, d}, 4);
}

static cadre_node_t
build_conv2d(cadre_program_t *p)
{
    return cadre_op_conv2d(p, var4(p, "x", 2, 4, 5, 2), var4(p, "w", 3, 2, 2, 3), vector(p, "b", 3),
                           1, 1);
}

static cadre_node_t
build_conv2d_with_stride(cadre_program_t *p)
{
    return cadre_op_conv2d(p, var4(p, "x", 1, 5, 5, 1), var4(p, "w", 2, 2, 1, 2), none, 2, 0);
}

static cadre_node_t
build_conv2d_of_one(cadre_program_t *p)
{
    return cadre_op_conv2d(p, var4(p, "x", 2, 2, 3, 2), var4(p, "w", 1, 1, 2, 3), vector(p, "b", 3),
                           1, 0);
}

static cadre_node_t
build_conv1d(cadre_program_t *p)
{
    return cadre_op_conv1d(p, var(p, "x", 3, 2, 5, 2), var(p, "w", 3, 3, 2, 3), vector(p, "b", 3),
                           1, 2);
}

static cadre_node_t
build_conv1d_with_stride(cadre_program_t *p)
{
    return cadre_op_conv1d(p, var(p, "x", 3, 2, 6, 1), var(p, "w", 3, 2, 1, 2), none, 2, 0);
}

Test(layer_gradient, of_convolutions)
{
    check_gradient("conv2d", build_conv2d);
    check_gradient("conv2d with stride", build_conv2d_with_stride);
    check_gradient("conv2d of one", build_conv2d_of_one);
    check_gradient("conv1d", build_conv1d);
    check_gradient("conv1d with stride", build_conv1d_with_stride);
}

static bool tiled_of_test;

static cadre_node_t
build_max_pool1d(cadre_program_t *p)
{
    return cadre_op_max_pool1d(p, var(p, "x", 3, 2, 6, 2), 3, tiled_of_test ? 3 : 2);
}

static cadre_node_t
build_mean_pool1d(cadre_program_t *p)
{
    return cadre_op_mean_pool1d(p, var(p, "x", 3, 2, 6, 2), 3, tiled_of_test ? 3 : 2);
}

static cadre_node_t
build_max_pool2d(cadre_program_t *p)
{
    return cadre_op_max_pool2d(p, var4(p, "x", 2, 4, 6, 2), (int[]){2, 2}, tiled_of_test ? 2 : 1);
}

static cadre_node_t
build_mean_pool2d(cadre_program_t *p)
{
    return cadre_op_mean_pool2d(p, var4(p, "x", 2, 4, 6, 2), (int[]){2, 2}, tiled_of_test ? 2 : 1);
}

Test(layer_gradient, of_pools)
{
    for (int tiled = 0; tiled < 2; tiled++) {
        tiled_of_test = tiled != 0;
        check_gradient("max pool", build_max_pool2d);
        check_gradient("mean pool", build_mean_pool2d);
        check_gradient("max pool of sequences", build_max_pool1d);
        check_gradient("mean pool of sequences", build_mean_pool1d);
    }
}

static cadre_node_t
build_layer_norm(cadre_program_t *p)
{
    return cadre_op_layer_norm(p, var(p, "x", 3, 2, 3, 4), vector(p, "scale", 4),
                               vector(p, "shift", 4), 1e-3F);
}

static cadre_node_t
build_batch_norm(cadre_program_t *p)
{
    return cadre_op_batch_norm(p, var4(p, "x", 3, 2, 2, 3), vector(p, "scale", 3),
                               vector(p, "shift", 3), 1e-3F, NULL);
}

static cadre_node_t
build_batch_norm_moments(cadre_program_t *p)
{
    cadre_moments_t moments = {none, none};
    cadre_node_t y = cadre_op_batch_norm(p, matrix(p, "x", 4, 3), none, none, 1e-3F, &moments);
    return cadre_op_add(p, y, cadre_op_mul(p, moments.mean, moments.variance));
}

static cadre_node_t
build_batch_norm_fixed(cadre_program_t *p)
{
    cadre_moments_t moments = {vector(p, "mean", 3), cadre_op_square(p, vector(p, "deviation", 3))};
    return cadre_op_batch_norm_fixed(p, matrix(p, "x", 4, 3), moments, vector(p, "scale", 3),
                                     vector(p, "shift", 3), 1e-3F);
}

Test(layer_gradient, of_norms)
{
    check_gradient("layer norm", build_layer_norm);
    check_gradient("batch norm", build_batch_norm);
    check_gradient("batch norm moments", build_batch_norm_moments);
    check_gradient("batch norm fixed", build_batch_norm_fixed);
}

static cadre_node_t
build_attention(cadre_program_t *p)
{
    return cadre_op_attention(p, var(p, "q", 3, 2, 3, 4), var(p, "k", 3, 2, 5, 4),
                              var(p, "v", 3, 2, 5, 6), 2, 0);
}

static cadre_node_t
build_causal_attention(cadre_program_t *p)
{
    return cadre_op_attention(p, var(p, "q", 3, 2, 4, 4), var(p, "k", 3, 2, 4, 4),
                              var(p, "v", 3, 2, 4, 2), 2, 1);
}

Test(layer_gradient, of_attention)
{
    check_gradient("attention", build_attention);
    check_gradient("causal attention", build_causal_attention);
}

static cadre_node_t
values(cadre_program_t *p)
{
    return batch(p, "y", CADRE_F32, 2);
}

static cadre_node_t
outputs(cadre_program_t *p, int64_t width)
{
    return cadre_op_matmul(p, batch(p, "x", CADRE_F32, 3), matrix(p, "w", 3, width));
}

static cadre_node_t
build_mse(cadre_program_t *p)
{
    return cadre_op_mse(p, outputs(p, 2), values(p));
}

static cadre_node_t
build_mae(cadre_program_t *p)
{
    return cadre_op_mae(p, outputs(p, 2), values(p));
}

static cadre_node_t
build_huber(cadre_program_t *p)
{
    return cadre_op_huber(p, outputs(p, 2), values(p), 0.7F);
}

static cadre_node_t
build_hinge(cadre_program_t *p)
{
    return cadre_op_hinge(p, outputs(p, 2), values(p));
}

static cadre_node_t
build_sigmoid(cadre_program_t *p)
{
    return cadre_op_sigmoid_cross_entropy(p, outputs(p, 2), values(p));
}

static cadre_node_t
build_sigmoid_smoothed(cadre_program_t *p)
{
    return cadre_op_sigmoid_cross_entropy_smoothed(p, outputs(p, 2), values(p), 0.3F);
}

Test(layer_gradient, of_losses_of_values)
{
    check_gradient("mse", build_mse);
    check_gradient("mae", build_mae);
    check_gradient("huber", build_huber);
    check_gradient("hinge", build_hinge);
    check_gradient("sigmoid cross entropy", build_sigmoid);
    check_gradient("smoothed sigmoid cross entropy", build_sigmoid_smoothed);
}

static cadre_node_t
labels(cadre_program_t *p)
{
    return batch(p, "label", CADRE_I32, 0);
}

static cadre_node_t
build_softmax(cadre_program_t *p)
{
    return cadre_op_softmax_cross_entropy(p, outputs(p, CLASSES), labels(p));
}

static cadre_node_t
build_softmax_smoothed(cadre_program_t *p)
{
    return cadre_op_softmax_cross_entropy_smoothed(p, outputs(p, CLASSES), labels(p), 0.3F);
}

static cadre_node_t
build_nll(cadre_program_t *p)
{
    return cadre_op_nll(p, cadre_op_log_softmax(p, outputs(p, CLASSES)), labels(p));
}

/* The targets depend on variables too, as when one network teaches another. */
static cadre_node_t
build_kl_divergence(cadre_program_t *p)
{
    return cadre_op_kl_divergence(
        p, outputs(p, CLASSES),
        cadre_op_softmax(
            p, cadre_op_matmul(p, batch(p, "z", CADRE_F32, 2), matrix(p, "v", 2, CLASSES))));
}

Test(layer_gradient, of_losses_of_classes)
{
    check_gradient("softmax cross entropy", build_softmax);
    check_gradient("smoothed softmax cross entropy", build_softmax_smoothed);
    check_gradient("nll", build_nll);
    check_gradient("kl divergence", build_kl_divergence);
}

static bool sequences_of_test;
static int64_t positions_of_test;

static cadre_node_t
build_gru(cadre_program_t *p)
{
    return cadre_op_gru(p, var(p, "x", 3, 2, positions_of_test, 2), matrix(p, "kernel", 2, 9),
                        matrix(p, "recurrent", 3, 9), matrix(p, "bias", 2, 9), sequences_of_test);
}

static cadre_node_t
build_lstm(cadre_program_t *p)
{
    return cadre_op_lstm(p, var(p, "x", 3, 2, positions_of_test, 2), matrix(p, "kernel", 2, 12),
                         matrix(p, "recurrent", 3, 12), vector(p, "bias", 12), sequences_of_test);
}

Test(layer_gradient, of_recurrent_layers)
{
    static const int64_t positions[] = {1, 3, 7};
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(positions); i++) {
        positions_of_test = positions[i / 2];
        sequences_of_test = i % 2 == 1;
        check_gradient("gru", build_gru);
        check_gradient("lstm", build_lstm);
    }
}
