#include "coordinator/cli/train/network.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "coordinator/cli/train/candidates.h"
#include "coordinator/cli/train/model.h"
#include "coordinator/cli/train/model_layers.h"

TestSuite(network, .timeout = 240);

static cadre_network_t *
network_of(const cadre_job_t *job, int64_t features, bool training)
{
    cadre_network_t *network = cadre_calloc(1, sizeof(*network));
    network->program = cadre_program_new("network");
    network->training = training;
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(features)};
    network->x = cadre_op_arg(network->program, "x", CADRE_F32, dims, 2);
    cr_assert_eq(cadre_network_begin(network, features, job->input, job->input_rank), 0);
    cadre_layer_t layers[CADRE_MODEL_LAYERS_MAX];
    size_t count = cadre_model_layers(job, layers);
    for (size_t i = 0; i < count; i++) {
        cadre_network_add(network, &layers[i]);
    }
    cr_assert_eq(cadre_network_end(network, 3), 0, "%s", cadre_error_text());
    cadre_op_result(network->program, "y", network->x);
    cr_assert_eq(cadre_program_finish(network->program), 0, "%s", cadre_error_text());
    return network;
}

static void
destroy(cadre_network_t **network)
{
    cadre_program_destroy(&(*network)->program);
    cadre_free(network);
}

static void
expect_variable(const cadre_network_t *network, size_t index, const char *name,
                const char *initializer, const char *shape)
{
    const cadre_network_variable_t *variable = &network->variables[index];
    cr_assert_lt(index, network->variable_count);
    cr_expect_str_eq(variable->name, name);
    cr_expect_str_eq(variable->initializer, initializer, "%s", name);
    char text[CADRE_EXTENTS_TEXT_SIZE];
    cadre_extents_t extents = {.rank = variable->rank};
    for (int i = 0; i < variable->rank; i++) {
        extents.extents[i] = cadre_extent_number(variable->shape[i]);
    }
    cr_expect_str_eq(cadre_extents_text(&extents, NULL, text), shape, "%s", name);
}

Test(network, of_an_mlp_has_a_weight_and_a_bias_for_each_layer)
{
    cadre_job_t job = {.model = CADRE_MODEL_MLP,
                       .hidden = {5, 4},
                       .hidden_count = 2,
                       .activation = CADRE_ACTIVATION_RELU,
                       .dropout = 0.5};
    cadre_auto(destroy) cadre_network_t *network = network_of(&job, 6, true);
    cr_assert_eq(network->variable_count, 6);
    expect_variable(network, 0, "w1", "he_normal", "[6,5]");
    expect_variable(network, 1, "b1", "zeros", "[5]");
    expect_variable(network, 2, "w2", "he_normal", "[5,4]");
    expect_variable(network, 4, "w3", "glorot_uniform", "[4,3]");
    expect_variable(network, 5, "b3", "zeros", "[3]");
}

Test(network, of_a_cnn_halves_the_image_until_it_is_too_small)
{
    cadre_job_t job = {.model = CADRE_MODEL_CNN,
                       .input = {7, 7, 1},
                       .input_rank = 3,
                       .filters = {2, 3, 4, 5},
                       .filter_count = 4,
                       .kernel = 3,
                       .activation = CADRE_ACTIVATION_TANH};
    cadre_layer_t layers[CADRE_MODEL_LAYERS_MAX];
    cr_assert_eq(cadre_model_layers(&job, layers), 7); /* 7, 3, 1, and no more pooling */
    cadre_auto(destroy) cadre_network_t *network = network_of(&job, 49, true);
    expect_variable(network, 0, "w1", "glorot_uniform", "[3,3,1,2]");
    expect_variable(network, 6, "w4", "glorot_uniform", "[3,3,4,5]");
    expect_variable(network, 8, "w5", "glorot_uniform", "[5,3]");
}

Test(network, of_a_transformer_has_positions_and_blocks)
{
    cadre_job_t job = {.model = CADRE_MODEL_TRANSFORMER,
                       .input = {5, 2},
                       .input_rank = 2,
                       .width = 8,
                       .heads = 2,
                       .blocks = 2};
    cadre_auto(destroy) cadre_network_t *network = network_of(&job, 10, true);
    cr_assert_eq(network->variable_count, 2 + 1 + 2 * 12 + 2 + 2);
    expect_variable(network, 0, "w1", "glorot_uniform", "[2,8]");
    expect_variable(network, 2, "positions2", "glorot_uniform", "[5,8]");
    expect_variable(network, 3, "scale_a3", "constant", "[8]");
    expect_variable(network, 5, "query3", "glorot_uniform", "[8,8]");
    expect_variable(network, 11, "w_a3", "he_normal", "[8,32]");
    expect_variable(network, 13, "w_b3", "glorot_uniform", "[32,8]");
    expect_variable(network, 15, "scale_a4", "constant", "[8]");
    expect_variable(network, 29, "w6", "glorot_uniform", "[8,3]");
}

Test(network, has_the_drift_of_running_averages_of_batch_norm_while_training_only)
{
    cadre_job_t job = {.model = CADRE_MODEL_LAYERS, .layer_count = 1};
    job.layers[0] = cadre_layer_of(CADRE_LAYER_BATCH_NORM);
    for (int training = 0; training < 2; training++) {
        cadre_auto(destroy) cadre_network_t *network = network_of(&job, 4, training != 0);
        expect_variable(network, 2, "mean1", "zeros", "[4]");
        expect_variable(network, 3, "variance1", "constant", "[4]");
        cr_expect_eq(network->variables[0].role, CADRE_ROLE_OTHER);
        cr_expect_eq(network->variables[3].role, CADRE_ROLE_AVERAGE);
        cr_expect_eq(network->variables[3].value, 1);
        for (size_t i = 0; i < network->variable_count; i++) {
            bool drifts = training && network->variables[i].role == CADRE_ROLE_AVERAGE;
            cr_expect_eq(network->variables[i].drift.id != 0, drifts, "%zu", i);
        }
    }
}

Test(network, of_an_embedding_has_a_table_of_all_ids)
{
    cadre_job_t job = {.model = CADRE_MODEL_LAYERS, .layer_count = 2};
    job.layers[0] = cadre_layer_of(CADRE_LAYER_EMBEDDING);
    job.layers[0].ids = 9;
    job.layers[0].units = 2;
    job.layers[1] = cadre_layer_of(CADRE_LAYER_FLATTEN);
    cadre_auto(destroy) cadre_network_t *network = network_of(&job, 4, true);
    cr_assert_eq(network->variable_count, 3);
    expect_variable(network, 0, "table1", "uniform", "[9,2]");
    expect_variable(network, 1, "w2", "glorot_uniform", "[8,3]");
    cr_expect_eq(network->variables[0].role, CADRE_ROLE_OTHER);
}

/* A model over rows of `features` numbers that are items. */
static cadre_network_t *
items_network(int64_t features, int64_t factors, int64_t outputs, int status)
{
    cadre_network_t *network = cadre_calloc(1, sizeof(*network));
    network->program = cadre_program_new("network");
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(features)};
    network->x = cadre_op_arg(network->program, "x", CADRE_F32, dims, 2);
    cr_assert_eq(cadre_network_begin(network, features, NULL, 0), 0);
    cadre_layer_t lookup = cadre_layer_of(CADRE_LAYER_FACTORIZATION_MACHINE);
    lookup.ids = 9;
    lookup.units = factors;
    cr_assert_eq(cadre_network_end_items(network, &lookup, outputs), status);
    return network;
}

static void
expect_output(const cadre_network_t *network, const char *wanted)
{
    char text[CADRE_EXTENTS_TEXT_SIZE];
    const cadre_program_node_t *node = cadre_program_node(network->program, network->x.id - 1);
    cadre_extents_text(&node->shape, cadre_program_symbols(network->program), text);
    cr_expect_str_eq(text, wanted);
}

Test(network, of_items_is_linear_or_a_factorization_machine)
{
    cadre_auto(destroy) cadre_network_t *linear = items_network(8, 0, 3, 0);
    cr_assert_eq(linear->variable_count, 2);
    expect_variable(linear, 0, "w1", "zeros", "[9,3]");
    expect_variable(linear, 1, "b1", "zeros", "[3]");
    cr_expect_eq(linear->variables[0].role, CADRE_ROLE_WEIGHT);
    expect_output(linear, "[B,3]");

    cadre_auto(destroy) cadre_network_t *machine = items_network(8, 5, 1, 0);
    cr_assert_eq(machine->variable_count, 3);
    expect_variable(machine, 0, "w1", "zeros", "[9,1]");
    expect_variable(machine, 1, "b1", "zeros", "[1]");
    expect_variable(machine, 2, "v1", "uniform", "[9,5]");
    cr_expect_eq(machine->variables[2].role, CADRE_ROLE_WEIGHT);
    expect_output(machine, "[B,1]");
}

Test(network, of_fields_without_a_linear_part_is_products_alone)
{
    cadre_auto(destroy) cadre_network_t *network = cadre_calloc(1, sizeof(*network));
    network->program = cadre_program_new("network");
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(2)};
    network->x = cadre_op_arg(network->program, "x", CADRE_F32, dims, 2);
    cr_assert_eq(cadre_network_begin(network, 2, NULL, 0), 0);
    cadre_layer_t lookup = cadre_layer_of(CADRE_LAYER_FACTORIZATION_MACHINE);
    cr_assert(lookup.linear, "by default");
    lookup.linear = false;
    lookup.fields[0] = 4;
    lookup.fields[1] = 4;
    lookup.field_count = 2;
    lookup.units = 3;
    cr_assert_eq(cadre_network_end_items(network, &lookup, 1), 0);
    cr_assert_eq(network->variable_count, 1);
    expect_variable(network, 0, "v1", "uniform", "[8,3]");
    expect_output(network, "[B,1]");
}

/* The network of a whole model, over rows of 3 numbers of 3 classes. */
static cadre_network_t *
model_of(const cadre_job_t *job, bool training)
{
    cadre_network_t *network = cadre_calloc(1, sizeof(*network));
    int status = cadre_model_network(job, (const int64_t[]){3, 3}, training, network);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    return network;
}

/* What trains counts candidates, what evaluates has scores of all of them. */
Test(network, of_candidates_has_a_table_in_the_place_of_the_last_layer)
{
    cadre_job_t job = {
        .model = CADRE_MODEL_MLP, .hidden = {5}, .hidden_count = 1, .label = CADRE_JOB_CLASS};
    job.activation = CADRE_ACTIVATION_RELU;
    for (int64_t softmax = CADRE_SOFTMAX_IN_BATCH; softmax <= CADRE_SOFTMAX_IN_BATCH_UNCORRECTED;
         softmax++) {
        job.softmax = softmax;
        cadre_auto(destroy) cadre_network_t *training = model_of(&job, true);
        expect_variable(training, 2, "candidates2", "uniform", "[3,5]");
        const bool counts = softmax == CADRE_SOFTMAX_IN_BATCH;
        cr_assert_eq(training->variable_count, counts ? 4 : 3);
        if (counts) {
            expect_variable(training, 3, "seen2", "zeros", "[3,1]");
            cr_expect_eq(training->variables[3].role, CADRE_ROLE_AVERAGE);
            cr_expect_neq(training->variables[3].drift.id, 0);
        }
        cadre_auto(destroy) cadre_network_t *evaluating = model_of(&job, false);
        cr_assert_eq(evaluating->variable_count, 3);
        expect_output(evaluating, "[B,3]");
    }
}

Test(network, of_fields_has_one_table_for_all)
{
    cadre_job_t job = {.model = CADRE_MODEL_LAYERS, .layer_count = 2};
    job.layers[0] = cadre_layer_of(CADRE_LAYER_EMBEDDING);
    job.layers[0].fields[0] = 4;
    job.layers[0].fields[1] = 7;
    job.layers[0].field_count = 2;
    job.layers[0].units = 3;
    job.layers[1] = cadre_layer_of(CADRE_LAYER_FLATTEN);
    cadre_auto(destroy) cadre_network_t *network = network_of(&job, 2, true);
    expect_variable(network, 0, "table1", "uniform", "[11,3]");
    expect_variable(network, 1, "w2", "glorot_uniform", "[6,3]");
}

Test(network, of_a_table_has_rows_by_key_and_no_penalty)
{
    cadre_job_t job = {.model = CADRE_MODEL_LAYERS, .layer_count = 2};
    job.layers[0] = cadre_layer_of(CADRE_LAYER_EMBEDDING);
    job.layers[0].table.is_table = true;
    job.layers[0].table.spec = cadre_table_spec(1);
    job.layers[0].field_count = 2;
    job.layers[0].units = 3;
    job.layers[1] = cadre_layer_of(CADRE_LAYER_FLATTEN);
    cadre_auto(destroy) cadre_network_t *network = network_of(&job, 2, true);
    expect_variable(network, 0, "table1", "uniform", "[2147483648,3]");
    cr_expect(network->variables[0].table.is_table);
    cr_expect_not(network->variables[1].table.is_table);

    job.layers[0] = cadre_layer_of(CADRE_LAYER_FACTORIZATION_MACHINE);
    job.layers[0].table.is_table = true;
    job.layers[0].units = 3;
    job.layer_count = 1;
    cadre_auto(destroy) cadre_network_t *machine = network_of(&job, 4, true);
    expect_variable(machine, 0, "w1", "zeros", "[2147483648,1]");
    expect_variable(machine, 2, "v1", "uniform", "[2147483648,3]");
    cr_expect_eq(machine->variables[0].table.spec.initializer.kind, CADRE_INITIALIZER_ZEROS);
    cr_expect_eq(machine->variables[0].role, CADRE_ROLE_OTHER);
    cr_expect_eq(machine->variables[2].role, CADRE_ROLE_OTHER);
}

/* Returns whether the program cuts columns `first` to `first` + `count` - 1 out of something. */
static bool
cuts(const cadre_program_t *program, int64_t first, int64_t count)
{
    for (int32_t i = 0; i < cadre_program_node_count(program); i++) {
        const cadre_program_node_t *node = cadre_program_node(program, i);
        if (node->op == CADRE_OP_SLICE && node->attributes[CADRE_SLICE_BEGIN] == first &&
            node->attributes[CADRE_SLICE_LENGTH] == count) {
            return true;
        }
    }
    return false;
}

Test(network, of_keys_takes_three_numbers_for_each)
{
    cadre_job_t job = {.model = CADRE_MODEL_LAYERS, .layer_count = 2};
    job.layers[0] = cadre_layer_of(CADRE_LAYER_EMBEDDING);
    job.layers[0].table.is_table = true;
    job.layers[0].table.spec = cadre_table_spec(1);
    job.layers[0].keys = true;
    job.layers[0].units = 3;
    job.layers[1] = cadre_layer_of(CADRE_LAYER_FLATTEN);
    cadre_auto(destroy) cadre_network_t *network = network_of(&job, 6, true);
    expect_variable(network, 0, "table1", "uniform", "[2147483648,3]");
    expect_variable(network, 1, "w2", "glorot_uniform", "[6,3]");

    job.layers[0].field_count = 2;
    cadre_auto(destroy) cadre_network_t *fields = network_of(&job, 6, true);
    expect_variable(fields, 1, "w2", "glorot_uniform", "[6,3]");

    job.layers[0] = cadre_layer_of(CADRE_LAYER_FACTORIZATION_MACHINE);
    job.layers[0].table.is_table = true;
    job.layers[0].keys = true;
    job.layers[0].units = 3;
    job.layer_count = 1;
    cadre_auto(destroy) cadre_network_t *machine = network_of(&job, 8, true); /* two items */
    expect_variable(machine, 2, "v1", "uniform", "[2147483648,3]");
    cr_expect(cuts(machine->program, 0, 6) && cuts(machine->program, 6, 2));
}

Test(network, of_items_needs_a_value_for_each_id)
{
    for (int64_t factors = 0; factors < 2; factors++) {
        cadre_auto(destroy) cadre_network_t *network = items_network(7, factors, 1, CADRE_ECONFIG);
        cr_expect_str_eq(cadre_error_text(),
                         "the model needs items, ids and then as many values, but is given [B,7]: "
                         "\"items\" in data.train makes such rows");
    }
}

Test(network, of_convolutions_along_a_sequence_has_kernels_of_three_axes)
{
    cadre_job_t job = {
        .model = CADRE_MODEL_LAYERS, .input = {8, 2}, .input_rank = 2, .layer_count = 3};
    job.layers[0] = cadre_layer_of(CADRE_LAYER_CONV1D);
    job.layers[0].units = 5;
    job.layers[0].causal = true; /* keeps the 8 positions */
    job.layers[0].activation = CADRE_ACTIVATION_RELU;
    job.layers[1] = cadre_layer_of(CADRE_LAYER_MAX_POOL1D);
    job.layers[2] = cadre_layer_of(CADRE_LAYER_FLATTEN);
    cadre_auto(destroy) cadre_network_t *network = network_of(&job, 16, true);
    expect_variable(network, 0, "w1", "he_normal", "[3,2,5]");
    expect_variable(network, 1, "b1", "zeros", "[5]");
    expect_variable(network, 2, "w2", "glorot_uniform", "[20,3]");
}

Test(network, of_recurrent_layers_has_kernels_and_the_biases_of_keras)
{
    cadre_job_t job = {
        .model = CADRE_MODEL_LAYERS, .input = {4, 2}, .input_rank = 2, .layer_count = 2};
    job.layers[0] = cadre_layer_of(CADRE_LAYER_GRU);
    job.layers[0].units = 5;
    job.layers[0].sequences = true;
    job.layers[1] = cadre_layer_of(CADRE_LAYER_LSTM);
    job.layers[1].units = 3;
    cadre_auto(destroy) cadre_network_t *network = network_of(&job, 8, true);
    cr_assert_eq(network->variable_count, 9);
    expect_variable(network, 0, "kernel1", "glorot_uniform", "[2,15]");
    expect_variable(network, 1, "recurrent1", "glorot_uniform", "[5,15]");
    expect_variable(network, 2, "b1", "zeros", "[2,15]");
    expect_variable(network, 3, "kernel2", "glorot_uniform", "[5,12]");
    expect_variable(network, 4, "recurrent2", "glorot_uniform", "[3,12]");
    expect_variable(network, 5, "b2", "zeros", "[9]");
    expect_variable(network, 6, "forget2", "constant", "[3]");
    cr_expect_eq(network->variables[6].value, 1);
    cr_expect_eq(network->variables[6].role, CADRE_ROLE_OTHER);
    expect_variable(network, 7, "w3", "glorot_uniform", "[3,3]");
}
