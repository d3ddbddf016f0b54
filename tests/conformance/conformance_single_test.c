/* What a single process computes: a plain loop over cadre_program_evaluate and the formulas of
 * ps/core/values/optimizer.h, without cluster, is the oracle of jobs whose closures run one after
 * the other. */
#include <cadre/inspection.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_single, .timeout = 900);

enum { ROWS = 6, INPUTS = 12, FIRST = 9, SECOND = 7, OUTPUTS = 5, CLOSURES = 40, LAYERS = 3 };

enum { WEIGHTS_MAX = INPUTS * FIRST };

static const double SGD_RATE = 0.05;
static const double MOMENTUM_RATE = 0.03;
static const double MOMENTUM = 0.8;
static const double ADAM_RATE = 0.01;
static const double ADAM_BETA_1 = 0.85;
static const double ADAM_BETA_2 = 0.99;
static const double ADAM_EPSILON = 1e-6;

/* A layer of the network: each has another optimizer. */
typedef struct {
    const char *name;
    cadre_optimizer_kind_t optimizer;
    int64_t shape[2];
} layer_t;

static const layer_t layers[LAYERS] = {{"plain", CADRE_OPTIMIZER_SGD, {INPUTS, FIRST}},
                                       {"moving", CADRE_OPTIMIZER_MOMENTUM, {FIRST, SECOND}},
                                       {"adaptive", CADRE_OPTIMIZER_ADAM, {SECOND, OUTPUTS}}};

typedef struct {
    float values[LAYERS][WEIGHTS_MAX];
} weights_t;

static size_t
count_of(int layer)
{
    return (size_t)(layers[layer].shape[0] * layers[layer].shape[1]);
}

static weights_t
initial_weights(void)
{
    weights_t weights;
    memset(&weights, 0, sizeof(weights));
    for (int i = 0; i < LAYERS; i++) {
        cadre_random_fill_normal(17, (uint64_t)i, 0, count_of(i), weights.values[i]);
        for (size_t k = 0; k < count_of(i); k++) {
            weights.values[i][k] *= 0.3f;
        }
    }
    return weights;
}

/* The arguments of closure `number`: rows and what the network should make of them. */
typedef struct {
    float x[ROWS * INPUTS];
    float y[ROWS * OUTPUTS];
    cadre_tensor_t tensors[2];
    cadre_argument_t items[2];
} arguments_t;

static void
fill_arguments(arguments_t *self, int number)
{
    cadre_random_fill_normal(23, 2 * (uint64_t)number, 0, ROWS * INPUTS, self->x);
    cadre_random_fill_normal(23, 2 * (uint64_t)number + 1, 0, ROWS * OUTPUTS, self->y);
    self->tensors[0] =
        (cadre_tensor_t){.dtype = CADRE_F32, .rank = 2, .shape = {ROWS, INPUTS}, .data = self->x};
    self->tensors[1] =
        (cadre_tensor_t){.dtype = CADRE_F32, .rank = 2, .shape = {ROWS, OUTPUTS}, .data = self->y};
    self->items[0] = (cadre_argument_t){"x", &self->tensors[0]};
    self->items[1] = (cadre_argument_t){"y", &self->tensors[1]};
}

static cadre_program_t *
network(void)
{
    cadre_program_t *program = cadre_program_new("step");
    const cadre_dim_t inputs[] = {cadre_dim(ROWS), cadre_dim(INPUTS)};
    const cadre_dim_t outputs[] = {cadre_dim(ROWS), cadre_dim(OUTPUTS)};
    cadre_node_t node = cadre_op_arg(program, "x", CADRE_F32, inputs, 2);
    cadre_node_t y = cadre_op_arg(program, "y", CADRE_F32, outputs, 2);
    for (int i = 0; i < LAYERS; i++) {
        node = cadre_op_matmul(program, node,
                               cadre_op_var(program, layers[i].name, layers[i].shape, 2));
        node = i + 1 < LAYERS ? cadre_op_tanh(program, node) : node;
    }
    cadre_node_t loss = cadre_op_mse(program, node, y);
    cadre_op_result(program, "loss", loss);
    cadre_op_minimize(program, loss);
    return program;
}

/* --- the plain loop --- */

/* Applies a gradient by the formula of the layer's optimizer (ps/core/values/optimizer.h), in f32
 * and in its order; `t` is the number of the update. Adam's alpha is computed in double. */
static void
apply(int layer, uint64_t t, const float *gradient, float *value, float slots[2][WEIGHTS_MAX])
{
    const float one_minus_beta_1 = (float)(1 - ADAM_BETA_1);
    const float one_minus_beta_2 = (float)(1 - ADAM_BETA_2);
    const float alpha = (float)(ADAM_RATE * sqrt(1 - pow(ADAM_BETA_2, (double)t)) /
                                (1 - pow(ADAM_BETA_1, (double)t)));
    for (size_t i = 0; i < count_of(layer); i++) {
        const float g = gradient[i];
        float *first = &slots[0][i];
        float *second = &slots[1][i];
        if (layers[layer].optimizer == CADRE_OPTIMIZER_SGD) {
            value[i] -= (float)SGD_RATE * g;
        } else if (layers[layer].optimizer == CADRE_OPTIMIZER_MOMENTUM) {
            *first = (float)MOMENTUM * *first - (float)MOMENTUM_RATE * g;
            value[i] += *first;
        } else {
            *first += (g - *first) * one_minus_beta_1;
            *second += (g * g - *second) * one_minus_beta_2;
            value[i] -= *first * alpha / (sqrtf(*second) + (float)ADAM_EPSILON);
        }
    }
}

/* Computes the gradients of a closure in this thread, and applies them. */
static double
step(cadre_program_t *program, int number, weights_t *weights, float slots[LAYERS][2][WEIGHTS_MAX])
{
    arguments_t arguments;
    fill_arguments(&arguments, number);
    cadre_tensor_t values[LAYERS];
    cadre_argument_t variables[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        values[i] = (cadre_tensor_t){.dtype = CADRE_F32,
                                     .rank = 2,
                                     .shape = {layers[i].shape[0], layers[i].shape[1]},
                                     .data = weights->values[i]};
        variables[i] = (cadre_argument_t){layers[i].name, &values[i]};
    }
    cadre_inspection_options_t options = cadre_inspection_options();
    options.tensors = arguments.items;
    options.tensor_count = 2;
    options.variables = variables;
    options.variable_count = LAYERS;
    cadre_inspection_t *inspection = NULL;
    OK(cadre_program_evaluate(program, &options, &inspection));
    const double loss = (double)*(const float *)cadre_inspection_result(inspection, "loss")->data;
    for (int i = 0; i < LAYERS; i++) {
        const cadre_tensor_t *gradient = cadre_inspection_gradient(inspection, layers[i].name);
        cr_assert(gradient, "%s has a gradient", layers[i].name);
        apply(i, (uint64_t)number + 1, gradient->data, weights->values[i], slots[i]);
    }
    cadre_inspection_destroy(&inspection);
    return loss;
}

static weights_t
train_alone(void)
{
    static float slots[LAYERS][2][WEIGHTS_MAX];
    memset(slots, 0, sizeof(slots));
    weights_t weights = initial_weights();
    cadre_program_t *program = network();
    double first = 0;
    double last = 0;
    for (int number = 0; number < CLOSURES; number++) {
        last = step(program, number, &weights, slots);
        first = number == 0 ? last : first;
    }
    cr_expect_lt(last, first, "it learns");
    cadre_program_destroy(&program);
    return weights;
}

/* --- the job --- */

static cadre_optimizer_t
optimizer_of(int layer)
{
    cadre_optimizer_t optimizer = cadre_optimizer(layers[layer].optimizer);
    switch (layers[layer].optimizer) {
    case CADRE_OPTIMIZER_SGD:
        optimizer.learning_rate = SGD_RATE;
        break;
    case CADRE_OPTIMIZER_MOMENTUM:
        optimizer.learning_rate = MOMENTUM_RATE;
        optimizer.momentum = MOMENTUM;
        break;
    default:
        optimizer.learning_rate = ADAM_RATE;
        optimizer.beta_1 = ADAM_BETA_1;
        optimizer.beta_2 = ADAM_BETA_2;
        optimizer.epsilon = ADAM_EPSILON;
    }
    return optimizer;
}

/* Creates the variable of a layer, a part of it on every ps, with its initial weights. */
static cadre_variable_t *
create(local_cluster_t *cluster, int layer, float *initial)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = optimizer_of(layer);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = cluster->options.ps;
    cadre_variable_t *variable = NULL;
    OK(cadre_variable_create(cluster->coordinator, layers[layer].name, CADRE_F32,
                             layers[layer].shape, 2, &options, &variable));
    const cadre_tensor_t value = {.dtype = CADRE_F32,
                                  .rank = 2,
                                  .shape = {layers[layer].shape[0], layers[layer].shape[1]},
                                  .data = initial};
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    return variable;
}

/* Trains with real processes, and gives the weights. */
static weights_t
train_job(const local_cluster_options_t *options)
{
    local_cluster_t cluster;
    local_cluster_open(&cluster, options);
    weights_t weights = initial_weights();
    cadre_variable_t *variables[LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        variables[i] = create(&cluster, i, weights.values[i]);
    }
    cadre_program_t *program = network();
    cadre_function_t *function = NULL;
    OK(cadre_function_register(cluster.coordinator, &program, &function));
    for (int number = 0; number < CLOSURES; number++) {
        arguments_t arguments;
        fill_arguments(&arguments, number);
        cadre_call_t call = cadre_call_tensors(arguments.items, 2);
        OK(cadre_coordinator_schedule(cluster.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
    }
    OK(cadre_coordinator_join(cluster.coordinator, LOCAL_WAIT_MS));
    for (int i = 0; i < LAYERS; i++) {
        cadre_tensor_t value = {.data = NULL};
        OK(cadre_variable_read(variables[i], &value, LOCAL_WAIT_MS));
        memcpy(weights.values[i], value.data, count_of(i) * sizeof(float));
        cadre_tensor_fini(&value);
    }
    local_cluster_close(&cluster);
    return weights;
}

/* Passes when a job of any number of ps and workers has the weights of the plain loop, bit for
 * bit. */
static void
expect_what_a_single_process_computes(cadre_consistency_t consistency)
{
    const weights_t expected = train_alone();
    for (int ps = 1; ps <= 3; ps++) {
        for (int workers = 1; workers <= 2; workers++) {
            local_cluster_options_t options = {.ps = ps, .workers = workers};
            options.coordinator.consistency = consistency;
            options.coordinator.step_closures = consistency == CADRE_SYNC ? 1 : 0;
            const weights_t actual = train_job(&options);
            for (int i = 0; i < LAYERS; i++) {
                cr_expect(
                    memcmp(actual.values[i], expected.values[i], count_of(i) * sizeof(float)) == 0,
                    "%s, %d ps, %d workers: the first weight is %.9g, not %.9g", layers[i].name, ps,
                    workers, (double)actual.values[i][0], (double)expected.values[i][0]);
            }
        }
    }
}

Test(conformance_single, S7_synchronous_steps_of_one_closure_equal_a_single_process)
{
    expect_what_a_single_process_computes(CADRE_SYNC);
}

Test(conformance_single, S7_a_staleness_bound_of_0_equals_a_single_process)
{
    expect_what_a_single_process_computes(CADRE_BOUNDED);
}
