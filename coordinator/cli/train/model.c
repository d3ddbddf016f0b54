#include "coordinator/cli/train/model.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/optimizer_spec.h"
#include "common/spec/wire_dtype.h"
#include "coordinator/cli/train/candidates.h"
#include "coordinator/cli/train/evaluation.h"
#include "coordinator/cli/train/job_local.h"
#include "coordinator/cli/train/job_model.h"
#include "coordinator/cli/train/job_optimizer.h"
#include "coordinator/cli/train/model_layers.h"

_Static_assert((int)CADRE_MODEL_LAYERS_MAX <= (int)CADRE_NETWORK_LAYERS_MAX, "a model fits");

/* Ends the names of variables that hold running averages for evaluations. */
#define AVERAGE_SUFFIX ".average"

/* Returns the loss of the data by what the labels are: one of many classes, one of two, or
 * values. */
static cadre_node_t
data_loss(cadre_program_t *program, cadre_job_label_t label, cadre_node_t output, cadre_node_t y)
{
    switch (label) {
    case CADRE_JOB_CLASS:
        return cadre_op_softmax_cross_entropy(program, output, y);
    case CADRE_JOB_BINARY:
        return cadre_op_sigmoid_cross_entropy(program, output, y);
    case CADRE_JOB_VALUE:
        return cadre_op_mse(program, output, y);
    }
    return output;
}

/* Adds a penalty, `factor` times a number, to the loss. */
static cadre_node_t
add_penalty(cadre_program_t *program, cadre_node_t loss, double factor, cadre_node_t number)
{
    cadre_node_t scale = cadre_op_const_f32(program, (float)factor);
    return cadre_op_add(program, loss, cadre_op_mul(program, scale, number));
}

/* Adds the penalties of a weight to the loss: l1 times the sum of magnitudes, and half of l2 times
 * the sum of squares. */
static cadre_node_t
penalise(const cadre_job_t *job, cadre_program_t *program, cadre_node_t loss,
         const cadre_network_variable_t *weight)
{
    const double l1 = weight->l1 < 0 ? job->l1 : weight->l1;
    const double l2 = weight->l2 < 0 ? job->l2 : weight->l2;
    if (l1 > 0) {
        cadre_node_t magnitudes = cadre_op_abs(program, weight->node);
        loss = add_penalty(program, loss, l1, cadre_op_sum_all(program, magnitudes));
    }
    if (l2 > 0) {
        cadre_node_t squares = cadre_op_square(program, weight->node);
        loss = add_penalty(program, loss, 0.5 * l2, cadre_op_sum_all(program, squares));
    }
    return loss;
}

/* Adds the results that an evaluation of class labels reads (evaluation.h). */
static void
add_class_results(cadre_program_t *program, const cadre_job_t *job, cadre_node_t output,
                  cadre_node_t y)
{
    cadre_op_result(program, "correct",
                    cadre_op_sum_all(program, cadre_op_correct(program, output, y)));
    if (cadre_job_counts_confusion(job)) {
        cadre_op_result(program, "confusion", cadre_op_confusion(program, output, y));
    }
    if (job->metrics[CADRE_METRIC_TOP_K]) {
        cadre_node_t right = cadre_op_top_k_correct(program, output, y, (int)job->top_k);
        cadre_op_result(program, "top_k", cadre_op_sum_all(program, right));
    }
}

/* Adds the results that an evaluation of two classes reads (evaluation.h). */
static void
add_binary_results(cadre_program_t *program, const cadre_job_t *job, cadre_node_t output,
                   cadre_node_t y)
{
    cadre_op_result(program, "correct",
                    cadre_op_sum_all(program, cadre_op_binary_correct(program, output, y)));
    if (cadre_job_counts_confusion(job)) {
        cadre_op_result(program, "confusion", cadre_op_binary_confusion(program, output, y));
    }
    if (cadre_job_counts_scores(job)) {
        cadre_op_result(program, "roc",
                        cadre_op_roc_counts(program, output, y, CADRE_EVALUATION_THRESHOLDS));
    }
    if (job->metrics[CADRE_METRIC_AUC_EXACT]) {
        cadre_op_result(program, "scores", output);
        cadre_op_result(program, "targets", y);
    }
}

/* Adds the results that an evaluation of values reads (evaluation.h). */
static void
add_value_results(cadre_program_t *program, const cadre_job_t *job, cadre_node_t output,
                  cadre_node_t y)
{
    if (job->metrics[CADRE_METRIC_MAE]) {
        cadre_op_result(program, "absolute_error", cadre_op_mae(program, output, y));
    }
}

/* Adds the results that the metrics of an evaluation are computed from, by what the labels are. */
static void
add_results(cadre_program_t *program, const cadre_job_t *job, cadre_node_t output, cadre_node_t y)
{
    switch (job->label) {
    case CADRE_JOB_CLASS:
        add_class_results(program, job, output, y);
        break;
    case CADRE_JOB_BINARY:
        add_binary_results(program, job, output, y);
        break;
    case CADRE_JOB_VALUE:
        add_value_results(program, job, output, y);
        break;
    }
}

/* Returns whether gradients are pushed to the variable. */
static bool
is_trained(const cadre_network_variable_t *variable)
{
    return variable->role != CADRE_ROLE_AVERAGE && variable->trainable;
}

/* Adds the gradients of the variables that are trained, clipped as the job says. gradients[i] is
 * that of variable i, and empty for a variable that is not trained. */
static void
add_gradients(const cadre_job_t *job, const cadre_network_t *network, cadre_node_t loss,
              cadre_node_t gradients[CADRE_NETWORK_VARIABLES_MAX])
{
    cadre_program_t *program = network->program;
    cadre_node_t variables[CADRE_NETWORK_VARIABLES_MAX] = {{0}};
    cadre_node_t found[CADRE_NETWORK_VARIABLES_MAX] = {{0}};
    int count = 0;
    for (size_t i = 0; i < network->variable_count; i++) {
        if (is_trained(&network->variables[i])) {
            variables[count++] = network->variables[i].node;
        }
    }

    cadre_op_gradient(program, loss, variables, count, found);
    for (int i = 0; job->clip_norm > 0 && i < count; i++) {
        found[i] = cadre_op_clip_by_norm(program, found[i], (float)job->clip_norm);
    }
    if (job->global_clip_norm > 0) {
        cadre_op_clip_by_global_norm(program, found, count, (float)job->global_clip_norm);
    }

    count = 0;
    for (size_t i = 0; i < network->variable_count; i++) {
        gradients[i] = is_trained(&network->variables[i]) ? found[count++] : (cadre_node_t){0};
    }
}

/* Adds what ends the model: candidates, the dense layer behind the others, or all of a model over
 * items; and the loss of the data. */
static int
end_layers(const cadre_job_t *job, cadre_network_t *network, int64_t outputs, cadre_node_t y,
           cadre_node_t *loss)
{
    if (job->softmax != CADRE_SOFTMAX_FULL) {
        return cadre_candidates_end(network, (cadre_softmax_t)job->softmax, outputs, y, loss);
    }
    int status = cadre_job_is_over_items(job)
                     ? cadre_network_end_items(network, &job->lookup, outputs)
                     : cadre_network_end(network, outputs);
    if (status == 0) {
        *loss = data_loss(network->program, job->label, network->x, y);
    }
    return status;
}

/* Adds the layers over the rows in network->x, and the loss of the data. widths: the number of
 * features and of classes. */
static int
add_layers(const cadre_job_t *job, const int64_t widths[2], cadre_node_t y,
           cadre_network_t *network, cadre_node_t *loss)
{
    int status = cadre_network_begin(network, widths[0], job->input, job->input_rank);
    if (status < 0) {
        return status;
    }

    cadre_layer_t layers[CADRE_MODEL_LAYERS_MAX];
    size_t count = cadre_model_layers(job, layers);
    for (size_t i = 0; i < count; i++) {
        cadre_network_add(network, &layers[i]);
    }

    /* The model has an output for each class; one for two classes or a value. */
    const int64_t outputs = job->label == CADRE_JOB_CLASS ? widths[1] : 1;
    return end_layers(job, network, outputs, y, loss);
}

/* Adds the penalties of all weights that are trained. */
static cadre_node_t
penalise_all(const cadre_job_t *job, const cadre_network_t *network, cadre_node_t loss)
{
    for (size_t i = 0; i < network->variable_count; i++) {
        const cadre_network_variable_t *variable = &network->variables[i];
        if (variable->role == CADRE_ROLE_WEIGHT && variable->trainable) {
            loss = penalise(job, network->program, loss, variable);
        }
    }
    return loss;
}

/* Adds the arguments of a closure: rows[0] is x, its rows, and rows[1] is y, their labels. */
static void
add_rows(const cadre_job_t *job, cadre_program_t *program, const cadre_dim_t dims[2],
         cadre_node_t rows[2])
{
    cadre_dtype_t label = job->label == CADRE_JOB_CLASS ? CADRE_I32 : CADRE_F32;
    rows[0] = cadre_op_arg(program, "x", CADRE_F32, dims, 2);
    rows[1] = cadre_op_arg(program, "y", label, dims, 1);
}

/* Builds the program of one step, or of an evaluation, whose variables come into `network`. widths:
 * the number of features and of classes. The size of a batch is the symbol B. */
static int
build(const cadre_job_t *job, const int64_t widths[2], cadre_network_t *network)
{
    cadre_program_t *program = network->program;
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(widths[0])};
    cadre_node_t rows[2];
    add_rows(job, program, dims, rows);
    network->x = rows[0];

    cadre_node_t loss = {0};
    int status = add_layers(job, widths, rows[1], network, &loss);
    if (status < 0) {
        return status;
    }

    cadre_op_result(program, "loss", loss);
    if (!network->training) {
        add_results(program, job, network->x, rows[1]);
        return 0;
    }

    for (size_t i = 0; i < network->variable_count; i++) {
        const cadre_network_variable_t *variable = &network->variables[i];
        /* For a running average of batch_norm, its distance from the moments of the batch is
         * pushed. */
        if (variable->drift.id != 0) {
            cadre_op_push(program, variable->node, variable->drift);
        }
    }

    /* The reported loss is that of the data alone; the penalty only adds to the gradients. */
    cadre_node_t gradients[CADRE_NETWORK_VARIABLES_MAX];
    add_gradients(job, network, penalise_all(job, network, loss), gradients);
    for (size_t i = 0; i < network->variable_count; i++) {
        if (is_trained(&network->variables[i])) {
            cadre_op_push(program, network->variables[i].node, gradients[i]);
        }
    }
    return 0;
}

/* --- local steps --- */

/* The steps of one closure, which are all nodes of one program. */
typedef struct {
    const cadre_job_t *job;
    cadre_network_t *network;
    cadre_inner_optimizer_t inner;
    cadre_inner_slots_t slots[CADRE_NETWORK_VARIABLES_MAX]; /* of the trained variables */
    cadre_node_t pulled[CADRE_NETWORK_VARIABLES_MAX]; /* the variables before the first step */
} local_t;

/* Limits each element of a gradient, as a ps does where there are no local steps. */
static cadre_node_t
clip_elements(cadre_program_t *program, cadre_node_t gradient, double limit)
{
    cadre_node_t below = cadre_op_min(program, gradient, cadre_op_const_f32(program, (float)limit));
    return cadre_op_max(program, below, cadre_op_const_f32(program, (float)-limit));
}

/* Moves the trained variables by one step of the inner optimizer; variable->node is the moved value
 * from then on. gradients[i]: that of variable i. */
static void
step_variables(local_t *self, const cadre_node_t *gradients)
{
    const cadre_job_t *job = self->job;
    cadre_network_t *network = self->network;
    cadre_node_t values[CADRE_NETWORK_VARIABLES_MAX];
    cadre_node_t clipped[CADRE_NETWORK_VARIABLES_MAX];
    int count = 0;
    for (size_t i = 0; i < network->variable_count; i++) {
        if (is_trained(&network->variables[i])) {
            values[count] = network->variables[i].node;
            clipped[count++] = job->clip_value > 0
                                   ? clip_elements(network->program, gradients[i], job->clip_value)
                                   : gradients[i];
        }
    }

    cadre_op_inner_step(network->program, &self->inner, values, clipped, self->slots, count);
    count = 0;
    for (size_t i = 0; i < network->variable_count; i++) {
        if (is_trained(&network->variables[i])) {
            network->variables[i].node = values[count++];
        }
    }
}

/* Moves each trained variable by one step of the inner optimizer, and each running average of
 * batch_norm toward the moments of this step's rows. */
static void
move_variables(local_t *self, cadre_node_t loss)
{
    cadre_network_t *network = self->network;
    cadre_program_t *program = network->program;
    cadre_node_t gradients[CADRE_NETWORK_VARIABLES_MAX];
    add_gradients(self->job, network, penalise_all(self->job, network, loss), gradients);
    step_variables(self, gradients);
    for (size_t i = 0; i < network->variable_count; i++) {
        cadre_network_variable_t *variable = &network->variables[i];
        if (!is_trained(variable) && variable->drift.id != 0) {
            cadre_node_t rate = cadre_op_const_f32(program, (float)CADRE_NETWORK_AVERAGE_RATE);
            cadre_node_t moved = cadre_op_mul(program, rate, variable->drift);
            variable->node = cadre_op_sub(program, variable->node, moved);
        }
    }
}

/* Pushes for each variable how far the local steps have led it: the outer optimizer, which runs on
 * the ps, takes that for a gradient. A running average of batch_norm is a variable too, but its
 * optimizer on the ps is SGD with the learning rate CADRE_NETWORK_AVERAGE_RATE: what is pushed for
 * it is divided by that here, so that the ps moves it all the way. */
static void
push_ways(const local_t *self)
{
    const cadre_network_t *network = self->network;
    cadre_program_t *program = network->program;
    for (size_t i = 0; i < network->variable_count; i++) {
        const cadre_network_variable_t *variable = &network->variables[i];
        if (variable->node.id == self->pulled[i].id) { /* no step has moved it */
            continue;
        }
        cadre_node_t way = cadre_op_sub(program, self->pulled[i], variable->node);
        if (!is_trained(variable)) {
            way = cadre_op_mul(
                program, way, cadre_op_const_f32(program, (float)(1 / CADRE_NETWORK_AVERAGE_RATE)));
        }
        cadre_op_push(program, self->pulled[i], way);
    }
}

/* Adds one local step over the rows from `begin` to `begin` + `length`. Where the number of rows is
 * a symbol B times a factor, both are multiples of B, as cadre_op_slice counts. */
static int
add_step(local_t *self, const int64_t widths[2], const cadre_node_t rows[2], int64_t begin,
         cadre_dim_t length, cadre_node_t *loss)
{
    cadre_network_t *network = self->network;
    cadre_program_t *program = network->program;
    cadre_node_t x = cadre_op_slice(program, rows[0], 0, begin, length.factor);
    cadre_node_t y = cadre_op_slice(program, rows[1], 0, begin, length.factor);
    cadre_network_rewind(network, x, length);
    int status = add_layers(self->job, widths, y, network, loss);
    if (status < 0) {
        return status;
    }

    /* The first step pulls the variables; later ones go on from where the last has moved them. */
    for (size_t i = 0; begin == 0 && i < network->variable_count; i++) {
        self->pulled[i] = network->variables[i].node;
    }
    move_variables(self, *loss);
    return 0;
}

/* Builds a program of local steps: each takes the next `step` rows, the last what is left. `rows`
 * may be a multiple of a symbol (a number that is known only when the program runs): then `step`
 * counts multiples of it too. `widths`: elements of a row of features, of labels. The loss of the
 * program is the mean over all rows. */
static int
build_local(const cadre_job_t *job, const int64_t widths[2], cadre_dim_t rows, int64_t step,
            cadre_network_t *network)
{
    cadre_program_t *program = network->program;
    const cadre_dim_t dims[] = {rows, cadre_dim(widths[0])};
    const cadre_optimizer_spec_t spec = cadre_job_inner(job);
    cadre_node_t arguments[2];
    add_rows(job, program, dims, arguments);

    cadre_auto(cadre_free) local_t *local = cadre_calloc(1, sizeof(*local));
    local->job = job;
    local->network = network;
    local->inner.optimizer = cadre_optimizer_spec_give(&spec);
    cadre_node_t mean = cadre_op_const_f32(program, 0);
    for (int64_t begin = 0; begin < rows.factor; begin += step) {
        const cadre_dim_t length = {cadre_min_i64(step, rows.factor - begin), rows.symbol};
        cadre_node_t loss = {0};
        int status = add_step(local, widths, arguments, begin, length, &loss);
        if (status < 0) {
            return status;
        }

        cadre_node_t share = cadre_op_const_f32(program, (float)length.factor / (float)rows.factor);
        mean = cadre_op_add(program, mean, cadre_op_mul(program, share, loss));
    }

    cadre_op_result(program, "loss", mean);
    push_ways(local);
    return 0;
}

/* Finishes a program, unless building it failed with `status`. A failure names the job's file. */
static int
finish(const cadre_job_t *job, int status, cadre_program_t *program)
{
    const char *file = job->file ? job->file : "the job";
    if (status == 0) {
        status = cadre_program_finish(program);
    }
    if (status == CADRE_ETOOLARGE && cadre_job_is_local(job)) {
        return cadre_fail_within(CADRE_ECONFIG,
                                 "%s: training.local_steps %lld is too much for one program of "
                                 "this model: take fewer",
                                 file, (long long)job->local_steps);
    }

    return status < 0 ? cadre_fail_within(CADRE_ECONFIG, "%s", file) : 0;
}

/* Builds the program of a closure that trains, or of an evaluation, into `network`. A closure of
 * local steps has B rows for each step. */
int
cadre_model_network(const cadre_job_t *job, const int64_t widths[2], bool training,
                    cadre_network_t *network)
{
    *network =
        (cadre_network_t){.program = cadre_program_new(training ? "train_step" : "evaluate_step"),
                          .training = training,
                          .suffix = !training && job->evaluate_average ? AVERAGE_SUFFIX : NULL,
                          .list = job->model == CADRE_MODEL_LAYERS ? "model.layers" : NULL,
                          .wire = cadre_wire_dtype_at(job->wire)};
    bool is_local = training && cadre_job_is_local(job);
    cadre_dim_t rows = cadre_dim_symbol_times("B", job->local_steps);
    int status =
        is_local ? build_local(job, widths, rows, 1, network) : build(job, widths, network);
    return finish(job, status, network->program);
}

/* Builds the program of a closure of local steps that has just `rows` rows. */
int
cadre_model_rest(const cadre_job_t *job, const int64_t widths[2], int64_t rows,
                 cadre_program_t **out)
{
    cadre_auto(cadre_free) cadre_network_t *network = cadre_calloc(1, sizeof(*network));
    cadre_auto(cadre_free) char *name = cadre_asprintf("train_rest_%lld", (long long)rows);
    *network = (cadre_network_t){.program = cadre_program_new(name),
                                 .training = true,
                                 .list = job->model == CADRE_MODEL_LAYERS ? "model.layers" : NULL,
                                 .wire = cadre_wire_dtype_at(job->wire)};
    int status = build_local(job, widths, cadre_dim(rows), job->batch_size, network);
    status = finish(job, status, network->program);
    if (status < 0) {
        cadre_program_destroy(&network->program);
        return status;
    }

    *out = network->program;
    return 0;
}

/* Builds the program of a closure that trains, or of an evaluation; the caller destroys it. */
int
cadre_model_program(const cadre_job_t *job, int64_t features, int64_t classes, bool training,
                    cadre_program_t **out)
{
    cadre_auto(cadre_free) cadre_network_t *network = cadre_calloc(1, sizeof(*network));
    int status = cadre_model_network(job, (int64_t[]){features, classes}, training, network);
    if (status < 0) {
        cadre_program_destroy(&network->program);
        return status;
    }
    *out = network->program;
    return 0;
}

/* Returns whether a whole row is an input of the layer. */
static bool
takes_rows(const cadre_job_t *job, size_t number)
{
    const cadre_layer_t *layer = &job->layers[number];
    for (size_t i = 0; i < layer->from_count; i++) {
        if (layer->from[i] == CADRE_LAYER_ROW) {
            return true;
        }
    }
    return number == 0 && layer->from_count == 0 && layer->column_count == 0;
}

/* Returns of what number a row of this layer's numbers has a multiple: as many as an id and its
 * value take, or an id alone. */
static int64_t
unit_of(const cadre_layer_t *layer)
{
    const bool has_values = layer->type == CADRE_LAYER_EMBEDDING_BAG ||
                            layer->type == CADRE_LAYER_FACTORIZATION_MACHINE;
    return cadre_layer_id_width(layer) + (has_values && layer->field_count == 0);
}

/* Gives the number of features of a row, if the model says it, else one that is large enough for
 * the columns that layers take: the true number is known only with the data, and any will do for a
 * check. Returns false where a check could fail wrongly: the sum of layers needs equal shapes,
 * which may depend on the true number. */
static bool
features_known(const cadre_job_t *job, int64_t *features)
{
    const int64_t fields = cadre_max_i64(1, (int64_t)job->lookup.field_count);
    *features = cadre_job_is_over_items(job) ? fields * unit_of(&job->lookup) : 1;
    for (size_t i = 0; i < job->input_rank; i++) {
        *features *= job->input[i];
    }
    if (job->input_rank > 0 || job->model != CADRE_MODEL_LAYERS) {
        return true;
    }

    bool whole = false;
    bool sums = false;
    int64_t unit = 1; /* of which the features are a multiple */
    int64_t said = 0; /* numbers of a row, as a layer that takes all of it says */
    for (size_t i = 0; i < job->layer_count; i++) {
        const cadre_layer_t *layer = &job->layers[i];
        int64_t end = layer->first_column + layer->column_count;
        *features = end > *features ? end : *features;
        whole = whole || takes_rows(job, i);
        sums = sums || layer->type == CADRE_LAYER_ADD;
        unit = unit % unit_of(layer) == 0 ? unit : unit * unit_of(layer);
        if (layer->type == CADRE_LAYER_RESHAPE && takes_rows(job, i)) {
            said = cadre_layer_shape_size(layer);
        }
        if (layer->field_count > 0 && takes_rows(job, i)) {
            said = (int64_t)layer->field_count * cadre_layer_id_width(layer);
        }
    }
    *features = (*features + unit - 1) / unit * unit;
    *features = said > 0 ? said : *features;
    /* `whole`: some layer takes a whole row; `said`: a layer that does says its size. */
    return said > 0 || !whole || !sums;
}

/* Checks the layers by building the program for rows of a width that suits them; does nothing where
 * no such width is known. */
int
cadre_model_check(const cadre_job_t *job)
{
    int64_t features = 0;
    if (!features_known(job, &features)) {
        return 0;
    }
    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    return cadre_model_program(job, features, 2, true, &program);
}

cadre_optimizer_spec_t
cadre_model_optimizer(const cadre_job_t *job)
{
    return cadre_job_is_local(job) ? cadre_job_outer(job) : cadre_job_optimizer_scaled(job);
}

/* Returns the options of a trained variable: optimizer, averages and partitions as the job has
 * them. */
static cadre_variable_options_t
variable_options(const cadre_job_t *job)
{
    cadre_variable_options_t options = cadre_variable_options();
    const bool is_local = cadre_job_is_local(job);
    const cadre_optimizer_spec_t optimizer = cadre_model_optimizer(job);
    options.optimizer = cadre_optimizer_spec_give(&optimizer);
    options.schedule = cadre_schedule_spec_give(&optimizer.schedule);
    options.clip_value = is_local ? 0 : job->clip_value; /* local steps clip on the worker */
    if (job->use_ema) {
        options.average_momentum = job->ema_momentum;
        options.average_overwrite = (uint32_t)job->ema_overwrite_frequency;
    }
    options.delay_compensation = job->delay_compensation;
    options.lazy = job->lazy;
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

/* Creates a table of the network. */
static int
create_table(const cadre_job_t *job, cadre_coordinator_t *coordinator,
             const cadre_network_variable_t *variable, cadre_variable_t **created)
{
    const cadre_optimizer_spec_t optimizer = cadre_model_optimizer(job);
    cadre_table_options_t options = cadre_layer_table_options(&variable->table, &optimizer);
    options.wire = variable->wire;
    return cadre_variable_create_table(coordinator, variable->name, (uint32_t)variable->shape[1],
                                       &options, created);
}

/* Creates one variable of the network on the ps, and adds it to the model. */
static int
create_variable(const cadre_job_t *job, cadre_coordinator_t *coordinator,
                const cadre_network_variable_t *variable, cadre_variable_options_t options,
                cadre_model_t *model)
{
    int status = cadre_initializer_named(variable->initializer, &options.initializer);
    if (status < 0) {
        return status;
    }
    options.initializer.value = variable->value;
    options.wire = variable->wire;
    /* A running average: SGD moves it by CADRE_NETWORK_AVERAGE_RATE of the way that is pushed. */
    if (variable->role == CADRE_ROLE_AVERAGE) {
        options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_SGD);
        options.optimizer.learning_rate = CADRE_NETWORK_AVERAGE_RATE;
        options.schedule = (cadre_schedule_t){0};
        options.clip_value = 0;
        options.average_momentum = 0;
        options.average_overwrite = 0;
        options.delay_compensation = 0;
        options.lazy = 0;
    }

    cadre_variable_t **created = &model->variables[model->variable_count];
    status = variable->table.is_table
                 ? create_table(job, coordinator, variable, created)
                 : cadre_variable_create(coordinator, variable->name, CADRE_F32, variable->shape,
                                         variable->rank, &options, created);
    if (status < 0) {
        return status;
    }

    /* 0: none of its numbers counts; how many a table has nobody knows. */
    int64_t count = is_trained(variable) && !variable->table.is_table ? 1 : 0;
    for (int i = 0; i < variable->rank; i++) {
        count *= variable->shape[i];
    }

    model->has_rate[model->variable_count] =
        variable->role != CADRE_ROLE_AVERAGE && !variable->table.has_optimizer;
    model->variable_count++;
    model->parameters += count;
    return 0;
}

/* Creates the variables of the network on the ps, and adds them to the model. */
static int
create_variables(const cadre_job_t *job, cadre_coordinator_t *coordinator,
                 const cadre_network_t *network, cadre_model_t *model)
{
    cadre_variable_options_t options = variable_options(job);
    for (size_t i = 0; i < network->variable_count; i++) {
        int status = create_variable(job, coordinator, &network->variables[i], options, model);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Creates the variable that evaluations read instead of `variable`: its running average is assigned
 * to it before each evaluation. */
static int
create_average(cadre_coordinator_t *coordinator, const cadre_network_variable_t *variable,
               cadre_variable_options_t options, cadre_variable_t **average)
{
    cadre_auto(cadre_free) char *name = cadre_asprintf("%s" AVERAGE_SUFFIX, variable->name);
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD); /* unused: nothing pushes to it */
    options.schedule = (cadre_schedule_t){0};
    options.clip_value = 0;
    options.average_momentum = 0;
    options.average_overwrite = 0;
    options.delay_compensation = 0;
    options.lazy = 0;
    return cadre_variable_create(coordinator, name, CADRE_F32, variable->shape, variable->rank,
                                 &options, average);
}

/* Creates for each variable the one that evaluations read in its place, if the job evaluates
 * averages. The running averages of batch_norm are read as they are. */
static int
create_averages(const cadre_job_t *job, cadre_coordinator_t *coordinator,
                const cadre_network_t *network, cadre_model_t *model)
{
    for (size_t i = 0; job->evaluate_average && i < network->variable_count; i++) {
        const cadre_network_variable_t *variable = &network->variables[i];
        int status =
            variable->role == CADRE_ROLE_AVERAGE
                ? 0
                : create_average(coordinator, variable, variable_options(job), &model->averages[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Copies the running average of each variable to the variable that evaluations read in its
 * place. */
int
cadre_model_take_averages(const cadre_model_t *self)
{
    for (size_t i = 0; i < self->variable_count; i++) {
        if (!self->averages[i]) {
            continue;
        }
        cadre_auto(cadre_tensor_fini) cadre_tensor_t average = {0};
        int status = cadre_variable_read_average(self->variables[i], &average, -1);
        if (status < 0) {
            return status;
        }
        status = cadre_variable_assign(self->averages[i], CADRE_VARIABLE_SET, &average, -1);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

static void
network_destroy(cadre_network_t **self_p)
{
    cadre_program_destroy(&(*self_p)->program);
    free(*self_p);
}

/* Creates the variables on the ps, and registers the programs that train and that evaluate as
 * functions. */
int
cadre_model_open(const cadre_job_t *job, cadre_coordinator_t *coordinator, int64_t features,
                 int64_t classes, cadre_model_t *model)
{
    cadre_auto(network_destroy) cadre_network_t *network = cadre_calloc(1, sizeof(*network));
    const int64_t widths[] = {features, classes};
    cadre_model_t opened = {0};
    int status = cadre_model_network(job, widths, true, network);
    if (status < 0) {
        return status;
    }

    status = create_variables(job, coordinator, network, &opened);
    if (status < 0) {
        return status;
    }
    status = create_averages(job, coordinator, network, &opened);
    if (status < 0) {
        return status;
    }

    status = cadre_function_register(coordinator, &network->program, &opened.train);
    if (status < 0) {
        return status;
    }

    /* The program that evaluates has the same variables, but no dropout and no gradients. */
    cadre_program_destroy(&network->program);
    status = cadre_model_network(job, widths, false, network);
    if (status < 0) {
        return status;
    }

    status = cadre_function_register(coordinator, &network->program, &opened.evaluate);
    if (status < 0) {
        return status;
    }

    *model = opened;
    return 0;
}

/* Registers the function for closures of local steps that have just `rows` rows, unless that is 0
 * or there is one already. */
int
cadre_model_open_rest(const cadre_job_t *job, cadre_coordinator_t *coordinator,
                      const int64_t widths[2], int64_t rows, cadre_model_t *model)
{
    if (rows == 0 || cadre_model_train(model, rows) != model->train) {
        return 0;
    }

    cadre_assert(model->rest_count < CADRE_COUNT_OF(model->rests));
    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    int status = cadre_model_rest(job, widths, rows, &program);
    if (status < 0) {
        return status;
    }

    cadre_model_rest_t *rest = &model->rests[model->rest_count];
    status = cadre_function_register(coordinator, &program, &rest->train);
    if (status < 0) {
        return status;
    }

    rest->rows = rows;
    model->rest_count++;
    return 0;
}

/* Returns the function that trains on a closure of `rows` rows: the one for just that number, else
 * the one for a full closure. */
const cadre_function_t *
cadre_model_train(const cadre_model_t *self, int64_t rows)
{
    for (size_t i = 0; i < self->rest_count; i++) {
        if (self->rests[i].rows == rows) {
            return self->rests[i].train;
        }
    }
    return self->train;
}

/* Changes the learning rate of the variables, but for averages of batch_norm, whose rate is their
 * own. */
int
cadre_model_change_rate(const cadre_model_t *self, uint64_t updates, double rate)
{
    for (size_t i = 0; i < self->variable_count; i++) {
        int status = self->has_rate[i]
                         ? cadre_variable_change_rate(self->variables[i], updates, rate, -1)
                         : 0;
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

int
cadre_model_repeat_changes(const cadre_model_t *self, const cadre_training_plateau_t *plateau)
{
    for (int64_t i = 0; i < plateau->changes; i++) {
        int status =
            cadre_model_change_rate(self, (uint64_t)plateau->updates[i], plateau->rates[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}
