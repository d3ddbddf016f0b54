/* The models of job files, built by their own code, in double; batch norm is with the other models.
 */
#include <string.h>

#include "coordinator/cli/train/model_layers.h"
#include "coordinator/cli/train/network.h"
#include "tests/worker/device_double/gradient_check.h"

TestSuite(named_model_gradient, .timeout = 240);

static const cadre_job_t *job; /* which build_job builds */

static cadre_node_t
build_job(cadre_program_t *p)
{
    int64_t features = 1;
    for (size_t i = 0; i < job->input_rank; i++) {
        features *= job->input[i];
    }
    cadre_network_t network = {.program = p, .training = true, .wire = CADRE_F32};
    bool ids = job->layers[0].type == CADRE_LAYER_EMBEDDING;
    network.x = ids ? cadre_op_cast(p, batch(p, "x", CADRE_I32, features), CADRE_F32)
                    : batch(p, "x", CADRE_F32, features);
    cr_assert_eq(cadre_network_begin(&network, features, job->input, job->input_rank), 0);
    cadre_layer_t layers[CADRE_MODEL_LAYERS_MAX];
    size_t count = cadre_model_layers(job, layers);
    for (size_t i = 0; i < count; i++) {
        cadre_network_add(&network, &layers[i]);
    }
    bool classes = job->label == CADRE_JOB_CLASS;
    cr_assert_eq(cadre_network_end(&network, classes ? CLASSES : 1), 0, "%s", cadre_error_text());
    return classes ? cadre_op_softmax_cross_entropy(p, network.x, batch(p, "y", CADRE_I32, 0))
                   : cadre_op_mse(p, network.x, batch(p, "y", CADRE_F32, 0));
}

static void
check_job(const char *name, const cadre_job_t *checked)
{
    job = checked;
    check_gradient(name, build_job);
}

Test(named_model_gradient, of_linear_logistic_and_mlp)
{
    check_job("linear", &(cadre_job_t){.model = CADRE_MODEL_LINEAR,
                                       .label = CADRE_JOB_VALUE,
                                       .input = {3},
                                       .input_rank = 1});
    check_job("logistic",
              &(cadre_job_t){.model = CADRE_MODEL_LOGISTIC, .input = {3}, .input_rank = 1});
    check_job("mlp", &(cadre_job_t){.model = CADRE_MODEL_MLP,
                                    .input = {3},
                                    .input_rank = 1,
                                    .hidden = {5, 4},
                                    .hidden_count = 2,
                                    .dropout = 0.3});
}

Test(named_model_gradient, of_a_cnn_and_a_transformer)
{
    check_job("cnn", &(cadre_job_t){.model = CADRE_MODEL_CNN,
                                    .input = {5, 4, 2},
                                    .input_rank = 3,
                                    .filters = {3, 2},
                                    .filter_count = 2,
                                    .kernel = 3,
                                    .hidden = {4},
                                    .hidden_count = 1});
    check_job("transformer", &(cadre_job_t){.model = CADRE_MODEL_TRANSFORMER,
                                            .input = {3, 2},
                                            .input_rank = 2,
                                            .width = 4,
                                            .heads = 2,
                                            .blocks = 2,
                                            .dropout = 0.3});
}

Test(named_model_gradient, of_a_list_of_layers)
{
    cadre_job_t listed = {
        .model = CADRE_MODEL_LAYERS, .input = {6, 6, 1}, .input_rank = 3, .layer_count = 5};
    listed.layers[0] = cadre_layer_of(CADRE_LAYER_CONV2D);
    listed.layers[0].units = 2;
    listed.layers[0].stride = 2;
    listed.layers[0].padding = 1;
    listed.layers[0].activation = CADRE_ACTIVATION_GELU;
    listed.layers[1] = cadre_layer_of(CADRE_LAYER_MEAN_POOL2D);
    listed.layers[1].stride = 1;
    listed.layers[2] = cadre_layer_of(CADRE_LAYER_LAYER_NORM);
    listed.layers[3] = cadre_layer_of(CADRE_LAYER_POSITIONS);
    listed.layers[4] = cadre_layer_of(CADRE_LAYER_MEAN);
    check_job("layers", &listed);
}

Test(named_model_gradient, of_an_embedding_before_a_transformer)
{
    cadre_job_t listed = {
        .model = CADRE_MODEL_LAYERS, .input = {3}, .input_rank = 1, .layer_count = 3};
    listed.layers[0] = cadre_layer_of(CADRE_LAYER_EMBEDDING);
    listed.layers[0].ids = CLASSES;
    listed.layers[0].units = 2;
    listed.layers[1] = cadre_layer_of(CADRE_LAYER_TRANSFORMER);
    listed.layers[2] = cadre_layer_of(CADRE_LAYER_FLATTEN);
    check_job("embedding", &listed);
}

/* Two branches over columns that overlap, with a way around each of two layers. */
Test(named_model_gradient, of_branches_and_ways_around)
{
    cadre_job_t listed = {
        .model = CADRE_MODEL_LAYERS, .input = {6}, .input_rank = 1, .layer_count = 7};
    cadre_layer_t *layers = listed.layers;
    for (int i = 0; i < 4; i++) {
        layers[i] = cadre_layer_of(CADRE_LAYER_DENSE);
        layers[i].units = 3;
        layers[i].activation = CADRE_ACTIVATION_TANH;
    }
    layers[0].column_count = 4;
    layers[2].first_column = 2;
    layers[2].column_count = 4;
    layers[4] = cadre_layer_of(CADRE_LAYER_ADD);
    layers[4].from_count = 3;
    memcpy(layers[4].from, (int[]){1, 0, 3}, 3 * sizeof(int));
    layers[5] = cadre_layer_of(CADRE_LAYER_CONCAT);
    layers[5].from_count = 4;
    memcpy(layers[5].from, (int[]){4, 2, CADRE_LAYER_ROW, 4}, 4 * sizeof(int));
    layers[6] = cadre_layer_of(CADRE_LAYER_LAYER_NORM);
    check_job("branches", &listed);
}

Test(named_model_gradient, of_convolutions_along_a_sequence)
{
    cadre_job_t listed = {
        .model = CADRE_MODEL_LAYERS, .input = {6, 2}, .input_rank = 2, .layer_count = 4};
    listed.layers[0] = cadre_layer_of(CADRE_LAYER_CONV1D);
    listed.layers[0].units = 3;
    listed.layers[0].causal = true;
    listed.layers[0].activation = CADRE_ACTIVATION_TANH;
    listed.layers[1] = cadre_layer_of(CADRE_LAYER_MEAN_POOL1D);
    listed.layers[2] = cadre_layer_of(CADRE_LAYER_CONV1D);
    listed.layers[2].units = 2;
    listed.layers[2].padding = 1;
    listed.layers[3] = cadre_layer_of(CADRE_LAYER_MEAN);
    check_job("conv1d", &listed);
}

Test(named_model_gradient, of_recurrent_layers)
{
    cadre_job_t listed = {
        .model = CADRE_MODEL_LAYERS, .input = {5, 2}, .input_rank = 2, .layer_count = 2};
    listed.layers[0] = cadre_layer_of(CADRE_LAYER_GRU);
    listed.layers[0].units = 3;
    listed.layers[0].sequences = true;
    listed.layers[1] = cadre_layer_of(CADRE_LAYER_LSTM);
    listed.layers[1].units = 2;
    check_job("recurrent", &listed);
}
