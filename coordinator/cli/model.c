#include "coordinator/cli/model.h"

#include <stdio.h>

#include "common/memory.h"
#include "common/status.h"

enum { NAME_SIZE = 24 };

/* One dense layer. */
typedef struct {
    char weight[NAME_SIZE];
    char bias[NAME_SIZE];
    int64_t shape[2]; /* of the weight: [in, out] */
    bool last;
} layer_t;

static size_t
layer_count(const cadre_job_t *job)
{
    return job->hidden_count + 1;
}

static int64_t
output_width(const cadre_job_t *job, int64_t classes)
{
    return job->label == CADRE_JOB_CLASS ? classes : 1;
}

static layer_t
layer_at(const cadre_job_t *job, size_t number, int64_t features, int64_t classes)
{
    layer_t layer = {.last = number == job->hidden_count};
    snprintf(layer.weight, sizeof(layer.weight), "w%zu", number + 1);
    snprintf(layer.bias, sizeof(layer.bias), "b%zu", number + 1);
    layer.shape[0] = number == 0 ? features : job->hidden[number - 1];
    layer.shape[1] = layer.last ? output_width(job, classes) : job->hidden[number];
    return layer;
}

static cadre_node_t
activate(cadre_program_t *program, cadre_node_t x, cadre_activation_t activation)
{
    switch (activation) {
    case CADRE_ACTIVATION_RELU:
        return cadre_relu(program, x);
    case CADRE_ACTIVATION_SIGMOID:
        return cadre_sigmoid(program, x);
    case CADRE_ACTIVATION_TANH:
        return cadre_tanh(program, x);
    case CADRE_ACTIVATION_GELU:
        return cadre_gelu(program, x);
    case CADRE_ACTIVATION_SOFTPLUS:
        return cadre_softplus(program, x);
    }
    return x;
}

static cadre_node_t
data_loss(cadre_program_t *program, cadre_job_label_t label, cadre_node_t output, cadre_node_t y)
{
    switch (label) {
    case CADRE_JOB_CLASS:
        return cadre_softmax_cross_entropy(program, output, y);
    case CADRE_JOB_BINARY:
        return cadre_sigmoid_cross_entropy(program, output, y);
    case CADRE_JOB_VALUE:
        return cadre_mse(program, output, y);
    }
    return output;
}

/* Half the sum of squares of all weights, times `l2`, on top of the loss. */
static cadre_node_t
add_penalty(cadre_program_t *program, cadre_node_t loss, cadre_node_t weight, double l2)
{
    cadre_node_t squares = cadre_sum_all(program, cadre_square(program, weight));
    cadre_node_t factor = cadre_const_f32(program, (float)(0.5 * l2));
    return cadre_add(program, loss, cadre_mul(program, factor, squares));
}

int
cadre_model_program(const cadre_job_t *job, int64_t features, int64_t classes, bool training,
                    cadre_program_t **out)
{
    cadre_program_t *program = cadre_program_new(training ? "train_step" : "evaluate_step");
    const cadre_dim_t x_dims[] = {cadre_sym("B"), cadre_dim(features)};
    cadre_node_t x = cadre_arg(program, "x", CADRE_F32, x_dims, 2);
    cadre_dtype_t y_dtype = job->label == CADRE_JOB_CLASS ? CADRE_I32 : CADRE_F32;
    cadre_node_t y = cadre_arg(program, "y", y_dtype, x_dims, 1);
    cadre_node_t weights[CADRE_JOB_HIDDEN_MAX + 1];
    for (size_t i = 0; i < layer_count(job); i++) {
        layer_t layer = layer_at(job, i, features, classes);
        weights[i] = cadre_var(program, layer.weight, layer.shape, 2);
        cadre_node_t bias = cadre_var(program, layer.bias, &layer.shape[1], 1);
        x = cadre_dense(program, x, weights[i], bias);
        if (!layer.last) {
            x = activate(program, x, (cadre_activation_t)job->activation);
            x = cadre_dropout(program, x, (float)job->dropout, training);
        }
    }
    cadre_node_t loss = data_loss(program, job->label, x, y);
    cadre_result(program, "loss", loss);
    if (!training && job->label != CADRE_JOB_VALUE) {
        cadre_node_t correct = job->label == CADRE_JOB_CLASS ? cadre_correct(program, x, y)
                                                             : cadre_binary_correct(program, x, y);
        cadre_result(program, "correct", cadre_sum_all(program, correct));
    }
    if (training) {
        for (size_t i = 0; job->l2 > 0 && i < layer_count(job); i++) {
            loss = add_penalty(program, loss, weights[i], job->l2);
        }
        cadre_minimize(program, loss);
    }
    int status = cadre_program_finish(program);
    if (status < 0) {
        cadre_program_destroy(&program);
        return cadre_fail_within(status, "the model");
    }
    *out = program;
    return 0;
}

static cadre_variable_options_t
variable_options(const cadre_job_t *job, const char *optimizer_parameters)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = job->optimizer;
    options.optimizer_parameters = optimizer_parameters;
    int partitions = (int)(job->partitions > 0 ? job->partitions : job->ps);
    switch ((cadre_job_partition_t)job->partitioner) {
    case CADRE_JOB_PARTITION_FIXED:
        options.partitioner = CADRE_PARTITION_FIXED;
        options.count = partitions;
        break;
    case CADRE_JOB_PARTITION_MIN_BYTES:
        options.partitioner = CADRE_PARTITION_MIN_BYTES;
        break;
    case CADRE_JOB_PARTITION_MAX_BYTES:
        options.partitioner = CADRE_PARTITION_MAX_BYTES;
        break;
    }
    if (job->partitioner != CADRE_JOB_PARTITION_FIXED) {
        options.bytes = job->partition_bytes;
        options.max_partitions = partitions;
    }
    return options;
}

static int
create_layer(const cadre_job_t *job, cadre_coordinator_t *coordinator, const layer_t *layer,
             cadre_variable_options_t options, cadre_model_t *model)
{
    bool he = !layer->last && (job->activation == CADRE_ACTIVATION_RELU ||
                               job->activation == CADRE_ACTIVATION_GELU);
    cadre_variable_t **created = &model->variables[model->variable_count];
    options.initializer = he ? "he_normal" : "glorot_uniform";
    int status = cadre_variable_create(coordinator, layer->weight, CADRE_F32, layer->shape, 2,
                                       &options, &created[0]);
    if (status < 0) {
        return status;
    }
    options.initializer = "zeros";
    model->variable_count += 2;
    model->parameters += (layer->shape[0] + 1) * layer->shape[1];
    return cadre_variable_create(coordinator, layer->bias, CADRE_F32, &layer->shape[1], 1, &options,
                                 &created[1]);
}

static int
register_program(const cadre_job_t *job, cadre_coordinator_t *coordinator, const int64_t widths[2],
                 bool training, cadre_function_t **function)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    int status = cadre_model_program(job, widths[0], widths[1], training, &program);
    return status < 0 ? status : cadre_function_register(coordinator, &program, function);
}

int
cadre_model_open(const cadre_job_t *job, cadre_coordinator_t *coordinator, int64_t features,
                 int64_t classes, cadre_model_t *model)
{
    cadre_auto(cadre_free) char *parameters = json_dumps(job->optimizer_parameters, JSON_COMPACT);
    cadre_variable_options_t options = variable_options(job, parameters);
    cadre_model_t opened = {0};
    for (size_t i = 0; i < layer_count(job); i++) {
        layer_t layer = layer_at(job, i, features, classes);
        int status = create_layer(job, coordinator, &layer, options, &opened);
        if (status < 0) {
            return status;
        }
    }
    const int64_t widths[] = {features, classes};
    int status = register_program(job, coordinator, widths, true, &opened.train);
    if (status == 0) {
        status = register_program(job, coordinator, widths, false, &opened.evaluate);
    }
    if (status == 0) {
        *model = opened;
    }
    return status;
}
