#include "coordinator/cli/train/network.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "coordinator/cli/train/layer_ids.h"

static const float norm_eps = 1e-5F;
static const cadre_node_t none = {0};

/* ---- shapes ---- */

static cadre_extents_t
shape_at(const cadre_network_t *self, cadre_node_t node)
{
    return cadre_program_node(self->program, node.id - 1)->shape;
}

static cadre_extents_t
shape_of(const cadre_network_t *self)
{
    return shape_at(self, self->x);
}

/* Returns the size of axis `axis` of self->x, counted from the end when negative. The batch axis,
 * whose size is a symbol, may not be asked for. */
static int64_t
size_of(const cadre_network_t *self, int axis)
{
    cadre_extents_t shape = shape_of(self);
    return shape.extents[axis < 0 ? shape.rank + axis : axis].factor;
}

/* Returns how many numbers one row of self->x has: the product of all axes but the batch. */
static int64_t
row_size(const cadre_network_t *self)
{
    int64_t size = 1;
    for (int i = 1; i < shape_of(self).rank; i++) {
        size *= size_of(self, i);
    }
    return size;
}

static const char *
shape_text(const cadre_network_t *self, cadre_node_t node, char text[CADRE_EXTENTS_TEXT_SIZE])
{
    cadre_extents_t shape = shape_at(self, node);
    return cadre_extents_text(&shape, cadre_program_symbols(self->program), text);
}

/* ---- mistakes ---- */

/* Notes why a layer does not fit its inputs, unless an earlier mistake was noted. Returns false. */
static bool refuse(cadre_network_t *self, const char *format, ...) CADRE_PRINTF(2, 3);

static bool
refuse(cadre_network_t *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (self->status == 0) {
        vsnprintf(self->text, sizeof(self->text), format, arguments);
        self->status = CADRE_ECONFIG;
    }
    va_end(arguments);
    self->x = none;
    return false;
}

/* ---- variables ---- */

/* Everything about a new variable except its name and shape. */
typedef struct {
    const char *initializer;
    double value;
    cadre_network_role_t role;
} kind_t;

static const kind_t zeros = {"zeros", 0, CADRE_ROLE_OTHER};
static const kind_t ones = {"constant", 1, CADRE_ROLE_OTHER};
static const kind_t mean_average = {"zeros", 0, CADRE_ROLE_AVERAGE};
static const kind_t variance_average = {"constant", 1, CADRE_ROLE_AVERAGE};
static const kind_t place = {"glorot_uniform", 0, CADRE_ROLE_OTHER};
static const kind_t table = {"uniform", 0, CADRE_ROLE_OTHER};
static const kind_t factor = {"uniform", 0, CADRE_ROLE_WEIGHT};
static const kind_t no_weight = {"zeros", 0, CADRE_ROLE_WEIGHT};

/* Returns what a weight begins as, by the activation that follows it: He for relu and gelu, else
 * Glorot. */
static kind_t
weight_before(int64_t activation)
{
    bool he = activation == CADRE_ACTIVATION_RELU || activation == CADRE_ACTIVATION_GELU;
    return (kind_t){he ? "he_normal" : "glorot_uniform", 0, CADRE_ROLE_WEIGHT};
}

/* Adds a variable for the layer that is being added, named after it and the layer's number, and
 * returns its node. In a later local step of the same program the layers ask for the same variables
 * in the same order, and get the nodes that these have by now. */
static cadre_node_t
variable(cadre_network_t *self, const char *name, const int64_t *shape, int rank, kind_t kind)
{
    if (self->variable_count < self->known_count) {
        return self->variables[self->variable_count++].node;
    }
    if (self->variable_count == CADRE_NETWORK_VARIABLES_MAX) {
        self->overfull = true;
        return none;
    }

    cadre_network_variable_t *added = &self->variables[self->variable_count++];
    *added = (cadre_network_variable_t){.rank = rank,
                                        .initializer = kind.initializer,
                                        .value = kind.value,
                                        .role = kind.role,
                                        .wire = self->layer_wire,
                                        .trainable = self->layer->trainable,
                                        .l1 = self->layer->l1,
                                        .l2 = self->layer->l2};
    snprintf(added->name, sizeof(added->name), "%s%d%s", name, self->number,
             self->suffix && kind.role != CADRE_ROLE_AVERAGE ? self->suffix : "");
    memcpy(added->shape, shape, (size_t)rank * sizeof(*shape));
    added->node = cadre_op_var(self->program, added->name, shape, rank);
    return added->node;
}

/* Adds the variable of a layer over ids: a row of `width` numbers for each id. */
static cadre_node_t
lookup(cadre_network_t *self, const char *name, int64_t width, kind_t kind)
{
    const cadre_layer_t *layer = self->layer;
    const bool is_table = layer->table.is_table;
    const int64_t rows = is_table ? CADRE_PROGRAM_TABLE_ROWS : cadre_layer_ids(layer);
    if (is_table) {
        kind.role = CADRE_ROLE_OTHER; /* a penalty would be one of all rows */
    }
    const size_t before = self->variable_count;
    cadre_node_t node = variable(self, name, (int64_t[]){rows, width}, 2, kind);
    if (is_table && before >= self->known_count && self->variable_count > before) {
        cadre_network_variable_t *added = &self->variables[before];
        added->table = layer->table;
        if (strcmp(kind.initializer, no_weight.initializer) == 0) {
            added->table.spec.initializer.kind = CADRE_INITIALIZER_ZEROS;
        }
    }
    return node;
}

static cadre_node_t
row(cadre_network_t *self, const char *name, int64_t size, kind_t kind)
{
    return variable(self, name, &size, 1, kind);
}

/* ---- layers ---- */

/* Adds the activation function over x and returns its node; x itself where there is none. */
static cadre_node_t
activate(cadre_program_t *program, cadre_node_t x, int64_t activation)
{
    switch ((cadre_activation_t)activation) {
    case CADRE_ACTIVATION_RELU:
        return cadre_op_relu(program, x);
    case CADRE_ACTIVATION_SIGMOID:
        return cadre_op_sigmoid(program, x);
    case CADRE_ACTIVATION_TANH:
        return cadre_op_tanh(program, x);
    case CADRE_ACTIVATION_GELU:
        return cadre_op_gelu(program, x);
    case CADRE_ACTIVATION_SOFTPLUS:
        return cadre_op_softplus(program, x);
    case CADRE_ACTIVATION_NONE:
        return x;
    }

    return x;
}

/* Adds a dense layer over x, with a weight of this shape and a bias, whose names are `names`. */
static cadre_node_t
dense(cadre_network_t *self, cadre_node_t x, const int64_t shape[2], const char *const names[2],
      kind_t kind)
{
    cadre_node_t weight = variable(self, names[0], shape, 2, kind);
    return cadre_op_dense(self->program, x, weight, row(self, names[1], shape[1], zeros));
}

static void
add_dense(cadre_network_t *self, const cadre_layer_t *layer)
{
    self->number++;
    self->x = dense(self, self->x, (int64_t[]){size_of(self, -1), layer->units},
                    (const char *[]){"w", "b"}, weight_before(layer->activation));
    self->x = activate(self->program, self->x, layer->activation);
}

static void
add_conv2d(cadre_network_t *self, const cadre_layer_t *layer)
{
    self->number++;
    const int64_t shape[] = {layer->size, layer->size, size_of(self, -1), layer->units};
    cadre_node_t weight = variable(self, "w", shape, 4, weight_before(layer->activation));
    cadre_node_t bias = row(self, "b", layer->units, zeros);
    self->x = cadre_op_conv2d(self->program, self->x, weight, bias, (int)layer->stride,
                              (int)layer->padding);
    self->x = activate(self->program, self->x, layer->activation);
}

/* Adds a convolution over the positions of a sequence. A causal one sees no later position: as many
 * zeros as the kernel reaches back come before the first. */
static void
add_conv1d(cadre_network_t *self, const cadre_layer_t *layer)
{
    self->number++;
    const int64_t shape[] = {layer->size, size_of(self, -1), layer->units};
    cadre_node_t weight = variable(self, "w", shape, 3, weight_before(layer->activation));
    cadre_node_t bias = row(self, "b", layer->units, zeros);
    if (layer->causal) {
        self->x = cadre_op_pad(self->program, self->x, 1, layer->size - 1, 0);
    }
    self->x = cadre_op_conv1d(self->program, self->x, weight, bias, (int)layer->stride,
                              (int)layer->padding);
    self->x = activate(self->program, self->x, layer->activation);
}

/* Adds a pooling over the positions of a sequence, with the window as the stride where none is
 * given. */
static void
add_pool1d(cadre_network_t *self, const cadre_layer_t *layer)
{
    int window = (int)layer->size;
    int stride = (int)(layer->stride > 0 ? layer->stride : layer->size);
    self->x = layer->type == CADRE_LAYER_MAX_POOL1D
                  ? cadre_op_max_pool1d(self->program, self->x, window, stride)
                  : cadre_op_mean_pool1d(self->program, self->x, window, stride);
}

/* Adds a pooling over images, with the window as the stride where none is given. */
static void
add_pool(cadre_network_t *self, const cadre_layer_t *layer)
{
    const int window[] = {(int)layer->size, (int)layer->size};
    int stride = (int)(layer->stride > 0 ? layer->stride : layer->size);
    self->x = layer->type == CADRE_LAYER_MAX_POOL2D
                  ? cadre_op_max_pool2d(self->program, self->x, window, stride)
                  : cadre_op_mean_pool2d(self->program, self->x, window, stride);
}

static void
add_flatten(cadre_network_t *self)
{
    const cadre_dim_t dims[] = {self->batch, cadre_dim(row_size(self))};
    self->x = cadre_op_reshape(self->program, self->x, dims, 2);
}

/* Adds a reshape of the rows to the layer's shape, which ends at a size of 0; the batch axis
 * stays. */
static void
add_reshape(cadre_network_t *self, const cadre_layer_t *layer)
{
    cadre_dim_t dims[CADRE_LAYER_AXES_MAX + 1] = {self->batch};
    int rank = 1;
    while (rank <= CADRE_LAYER_AXES_MAX && layer->shape[rank - 1] > 0) {
        dims[rank] = cadre_dim(layer->shape[rank - 1]);
        rank++;
    }
    self->x = cadre_op_reshape(self->program, self->x, dims, rank);
}

/* Adds means over all axes between the batch and the last one. */
static void
add_mean(cadre_network_t *self)
{
    for (int axis = shape_of(self).rank - 2; axis > 0; axis--) {
        self->x = cadre_op_mean(self->program, self->x, 1);
    }
}

/* Adds a norm over the last axis with a learned scale and shift, and returns its node. */
static cadre_node_t
layer_norm(cadre_network_t *self, const char *scale_name, const char *shift_name)
{
    cadre_node_t scale = row(self, scale_name, size_of(self, -1), ones);
    cadre_node_t shift = row(self, shift_name, size_of(self, -1), zeros);
    return cadre_op_layer_norm(self->program, self->x, scale, shift, norm_eps);
}

void
cadre_network_set_drift(cadre_network_t *self, cadre_node_t variable, cadre_node_t drift)
{
    for (size_t i = 0; i < self->variable_count; i++) {
        if (self->variables[i].node.id == variable.id) {
            self->variables[i].drift = drift;
        }
    }
}

/* Notes as `drift` of the variable of a running average how far it is from the batch's moment. */
static void
note_drift(cadre_network_t *self, cadre_node_t running, cadre_node_t batch)
{
    cadre_network_set_drift(self, running, cadre_op_sub(self->program, running, batch));
}

/* Adds a batch norm. In training it uses the moments of the batch, and its running averages are
 * moved toward them; in an evaluation, and where it is not trainable, it uses the running
 * averages. */
static void
add_batch_norm(cadre_network_t *self)
{
    self->number++;
    int64_t channels = size_of(self, -1);
    cadre_program_t *p = self->program;
    cadre_node_t scale = row(self, "scale", channels, ones);
    cadre_node_t shift = row(self, "shift", channels, zeros);
    cadre_moments_t running = {.mean = row(self, "mean", channels, mean_average)};
    running.variance = row(self, "variance", channels, variance_average);
    if (!self->training || !self->layer->trainable) {
        self->x = cadre_op_batch_norm_fixed(p, self->x, running, scale, shift, norm_eps);
        return;
    }

    cadre_moments_t batch = {none, none};
    self->x = cadre_op_batch_norm(p, self->x, scale, shift, norm_eps, &batch);
    note_drift(self, running.mean, batch.mean);
    note_drift(self, running.variance, batch.variance);
}

/* Adds a learned array of the rows' shape, without the batch, to each row. */
static void
add_positions(cadre_network_t *self)
{
    self->number++;
    cadre_extents_t shape = shape_of(self);
    int64_t sizes[CADRE_PROGRAM_RANK_MAX] = {0};
    for (int i = 1; i < shape.rank; i++) {
        sizes[i - 1] = shape.extents[i].factor;
    }
    cadre_node_t positions = variable(self, "positions", sizes, shape.rank - 1, place);
    self->x = cadre_op_add(self->program, self->x, positions);
}

/* Gives the ids in self->x, one for each field of the layer, as positions in a table of all fields,
 * or as keys. Returns whether there are as many columns; if not, notes a mistake. */
static bool
place_fields(cadre_network_t *self, const cadre_layer_t *layer, const char *scope,
             cadre_node_t *out)
{
    const int64_t width = cadre_layer_id_width(layer) * (int64_t)layer->field_count;
    if (shape_of(self).rank != 2 || size_of(self, 1) != width) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        return refuse(self, "%s has %zu fields, but is given %s: an id for each%s", scope,
                      layer->field_count, shape_text(self, self->x, text),
                      layer->keys ? ", in three numbers" : "");
    }
    *out = cadre_layer_ids_place(self->program, layer, self->x);
    return true;
}

/* Gives the keys in self->x, three numbers for each. Returns whether there are as many; if not,
 * notes a mistake. */
static bool
join_keys(cadre_network_t *self, const char *scope, cadre_node_t *out)
{
    if (shape_of(self).rank != 2 || size_of(self, 1) % CADRE_KEY_PARTS != 0) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        return refuse(self,
                      "%s needs keys, three numbers for each, but is given %s: \"key\" of a column "
                      "in data.train makes them",
                      scope, shape_text(self, self->x, text));
    }
    *out = cadre_layer_ids_join(self->program, self->x);
    return true;
}

static void
add_embedding(cadre_network_t *self, const cadre_layer_t *layer, const char *scope)
{
    cadre_node_t ids = self->x;
    if (layer->field_count > 0 ? !place_fields(self, layer, scope, &ids)
                               : layer->keys && !join_keys(self, scope, &ids)) {
        return;
    }
    if (layer->field_count == 0 && !layer->keys) {
        ids = cadre_layer_ids_place(self->program, layer, ids);
    }
    self->number++;
    self->x = cadre_op_embedding(self->program, lookup(self, "table", layer->units, table), ids);
}

/* ---- layers over the items of a row ---- */

/* Cuts self->x into the ids, its first half, and their values, its second half; with fields, it is
 * ids alone. Returns whether it is that; if not, notes a mistake. */
static bool
split_items(cadre_network_t *self, const cadre_layer_t *layer, const char *scope,
            cadre_layer_items_t *out)
{
    *out = (cadre_layer_items_t){.batch = self->batch};
    if (layer->field_count > 0) {
        return place_fields(self, layer, scope, &out->ids);
    }
    cadre_extents_t shape = shape_of(self);
    const int64_t parts = cadre_layer_id_width(layer);
    if (shape.rank != 2 || size_of(self, 1) % (parts + 1) != 0) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        return refuse(
            self,
            "%s needs items, ids%s and then as many values, but is given %s: \"items\" in "
            "data.train makes such rows",
            scope, layer->keys ? " in three numbers each" : "", shape_text(self, self->x, text));
    }
    const int64_t items = size_of(self, 1) / (parts + 1);
    out->ids = cadre_op_slice(self->program, self->x, 1, 0, parts * items);
    out->ids = cadre_layer_ids_place(self->program, layer, out->ids);
    out->values = cadre_op_slice(self->program, self->x, 1, parts * items, items);
    return true;
}

static void
add_embedding_bag(cadre_network_t *self, const cadre_layer_t *layer, const char *scope)
{
    cadre_layer_items_t items;
    if (split_items(self, layer, scope, &items)) {
        self->number++;
        self->x = cadre_layer_ids_bag(self->program, layer, &items,
                                      lookup(self, "table", layer->units, table));
    }
}

/* Adds a linear model of the items: the sum of weight times value, and a bias, for each output. */
static void
add_linear(cadre_network_t *self, const cadre_layer_items_t *items, int64_t outputs)
{
    self->number++;
    cadre_node_t weights = lookup(self, "w", outputs, no_weight);
    cadre_node_t sum = cadre_layer_ids_bag(self->program, self->layer, items, weights);
    self->x = cadre_op_add(self->program, sum, row(self, "b", outputs, zeros));
}

/* Adds a factorization machine: the products of the vectors of all pairs of items, as one number,
 * and with `linear` a linear model of the items. */
static void
add_factorization_machine(cadre_network_t *self, const cadre_layer_t *layer, const char *scope)
{
    cadre_layer_items_t items;
    if (!split_items(self, layer, scope, &items)) {
        return;
    }
    if (layer->linear) {
        add_linear(self, &items, 1);
    } else {
        self->number++;
    }
    cadre_node_t vectors = lookup(self, "v", layer->units, factor);
    cadre_node_t pairs =
        cadre_op_factorization_machine(self->program, vectors, items.ids, none, items.values);
    const cadre_dim_t column[] = {self->batch, cadre_dim(1)};
    pairs = cadre_op_reshape(self->program, pairs, column, 2);
    self->x = layer->linear ? cadre_op_add(self->program, self->x, pairs) : pairs;
}

/* Adds a kernel of a gru or lstm. Kernels begin as Glorot, as in Keras, but Keras begins the
 * recurrent kernel as an orthogonal matrix. */
static cadre_node_t
recurrent_kernel(cadre_network_t *self, const char *name, int64_t rows, int64_t columns)
{
    return variable(self, name, (int64_t[]){rows, columns}, 2,
                    weight_before(CADRE_ACTIVATION_NONE));
}

/* Adds a gru, whose kernels have the columns of its three gates side by side. The bias has two
 * rows: for the input and for the recurrent part. */
static void
add_gru(cadre_network_t *self, const cadre_layer_t *layer)
{
    self->number++;
    int64_t columns = 3 * layer->units;
    cadre_node_t kernel = recurrent_kernel(self, "kernel", size_of(self, -1), columns);
    cadre_node_t recurrent = recurrent_kernel(self, "recurrent", layer->units, columns);
    cadre_node_t bias = variable(self, "b", (int64_t[]){2, columns}, 2, zeros);
    self->x = cadre_op_gru(self->program, self->x, kernel, recurrent, bias, layer->sequences);
}

/* Adds an lstm. The bias of its forget gate begins as ones, in a variable of its own: Jozefowicz,
 * Zaremba, Sutskever 2015, "An empirical exploration of recurrent network architectures"; Keras'
 * default. */
static void
add_lstm(cadre_network_t *self, const cadre_layer_t *layer)
{
    self->number++;
    cadre_program_t *p = self->program;
    int64_t units = layer->units;
    cadre_node_t kernel = recurrent_kernel(self, "kernel", size_of(self, -1), 4 * units);
    cadre_node_t recurrent = recurrent_kernel(self, "recurrent", units, 4 * units);
    cadre_node_t others = row(self, "b", 3 * units, zeros);
    cadre_node_t forget = row(self, "forget", units, ones);
    cadre_node_t parts[] = {cadre_op_slice(p, others, 0, 0, units), forget,
                            cadre_op_slice(p, others, 0, units, 2 * units)};
    cadre_node_t bias = cadre_op_concat(p, parts, 3, 0);
    self->x = cadre_op_lstm(p, self->x, kernel, recurrent, bias, layer->sequences);
}

/* Adds a linear map from `width` to `width` numbers, without a bias, and returns its node. */
static cadre_node_t
projection(cadre_network_t *self, cadre_node_t x, const char *name, int64_t width)
{
    cadre_node_t weight =
        variable(self, name, (int64_t[]){width, width}, 2, weight_before(CADRE_ACTIVATION_NONE));
    return cadre_op_matmul(self->program, x, weight);
}

/* Adds a transformer block in its pre-norm form: the norm comes before attention and before the
 * dense layers, and each of these halves has a residual connection: Xiong and others 2020, "On
 * layer normalization in the transformer architecture". */
static void
add_transformer(cadre_network_t *self, const cadre_layer_t *layer)
{
    self->number++;
    cadre_program_t *p = self->program;
    int64_t width = size_of(self, -1);
    int64_t inner = layer->units > 0 ? layer->units : 4 * width;
    float rate = (float)layer->rate;
    cadre_node_t y = layer_norm(self, "scale_a", "shift_a");
    cadre_node_t query = projection(self, y, "query", width);
    cadre_node_t key = projection(self, y, "key", width);
    cadre_node_t value = projection(self, y, "value", width);
    y = cadre_op_attention(p, query, key, value, (int)layer->heads, layer->causal);
    y = cadre_op_dropout(p, projection(self, y, "out", width), rate, self->training);
    self->x = cadre_op_add(p, self->x, y);
    if (self->x.id ==
        0) { /* a mistake, as in the number of heads: there is no shape to go on with */
        return;
    }

    y = layer_norm(self, "scale_b", "shift_b");
    y = dense(self, y, (int64_t[]){width, inner}, (const char *[]){"w_a", "b_a"},
              weight_before(layer->activation));
    y = activate(p, y, layer->activation);
    y = dense(self, y, (int64_t[]){inner, width}, (const char *[]){"w_b", "b_b"},
              weight_before(CADRE_ACTIVATION_NONE));
    self->x = cadre_op_add(p, self->x, cadre_op_dropout(p, y, rate, self->training));
}

/* The inputs of a layer. */
typedef struct {
    cadre_network_value_t values[CADRE_LAYER_FROM_MAX];
    size_t count;
} inputs_t;

static void
add_sum(cadre_network_t *self, const inputs_t *inputs)
{
    for (size_t i = 1; i < inputs->count; i++) {
        self->x = cadre_op_add(self->program, self->x, inputs->values[i].node);
    }
}

/* Concatenates the inputs along the last axis. */
static void
add_concat(cadre_network_t *self, const inputs_t *inputs)
{
    cadre_node_t nodes[CADRE_LAYER_FROM_MAX];
    for (size_t i = 0; i < inputs->count; i++) {
        nodes[i] = inputs->values[i].node;
    }
    self->x = cadre_op_concat(self->program, nodes, (int)inputs->count, -1);
}

/* Adds the products of all pairs of the vectors in the inputs, of which the first has one. */
static void
add_interaction(cadre_network_t *self, const inputs_t *inputs)
{
    cadre_node_t nodes[CADRE_LAYER_FROM_MAX];
    for (size_t i = 1; i < inputs->count; i++) {
        nodes[i - 1] = inputs->values[i].node;
    }
    self->x = cadre_op_dlrm_interaction(self->program, self->x, nodes, (int)inputs->count - 1);
}

/* Adds a layer of any type over `inputs`, of which `self->x` is the first; its output becomes
 * `self->x`. */
static void
add_any(cadre_network_t *self, const cadre_layer_t *layer, const inputs_t *inputs,
        const char *scope)
{
    switch (layer->type) {
    case CADRE_LAYER_DENSE:
        add_dense(self, layer);
        return;
    case CADRE_LAYER_CONV2D:
        add_conv2d(self, layer);
        return;
    case CADRE_LAYER_MAX_POOL2D:
    case CADRE_LAYER_MEAN_POOL2D:
        add_pool(self, layer);
        return;
    case CADRE_LAYER_FLATTEN:
        add_flatten(self);
        return;
    case CADRE_LAYER_MEAN:
        add_mean(self);
        return;
    case CADRE_LAYER_ACTIVATION:
        self->x = activate(self->program, self->x, layer->activation);
        return;
    case CADRE_LAYER_DROPOUT:
        self->x = cadre_op_dropout(self->program, self->x, (float)layer->rate, self->training);
        return;
    case CADRE_LAYER_LAYER_NORM:
        self->number++;
        self->x = layer_norm(self, "scale", "shift");
        return;
    case CADRE_LAYER_BATCH_NORM:
        add_batch_norm(self);
        return;
    case CADRE_LAYER_POSITIONS:
        add_positions(self);
        return;
    case CADRE_LAYER_TRANSFORMER:
        add_transformer(self, layer);
        return;
    case CADRE_LAYER_EMBEDDING:
        add_embedding(self, layer, scope);
        return;
    case CADRE_LAYER_RESHAPE:
        add_reshape(self, layer);
        return;
    case CADRE_LAYER_ADD:
        add_sum(self, inputs);
        return;
    case CADRE_LAYER_CONCAT:
        add_concat(self, inputs);
        return;
    case CADRE_LAYER_CONV1D:
        add_conv1d(self, layer);
        return;
    case CADRE_LAYER_MAX_POOL1D:
    case CADRE_LAYER_MEAN_POOL1D:
        add_pool1d(self, layer);
        return;
    case CADRE_LAYER_GRU:
        add_gru(self, layer);
        return;
    case CADRE_LAYER_LSTM:
        add_lstm(self, layer);
        return;
    case CADRE_LAYER_EMBEDDING_BAG:
        add_embedding_bag(self, layer, scope);
        return;
    case CADRE_LAYER_FACTORIZATION_MACHINE:
        add_factorization_machine(self, layer, scope);
        return;
    case CADRE_LAYER_INTERACTION:
        add_interaction(self, inputs);
        return;
    }
}

/* Returns the advice of an error: how to give the layer inputs with `wanted` axes instead of
 * `rank`. */
static const char *
remedy_for(int rank, int wanted)
{
    if (rank > 2) {
        return "the layers before it, or \"input\" in model, make something else";
    }

    return wanted == 4 ? "the shape of a row is \"input\" in model, such as [28, 28, 1]"
                       : "the shape of a row is \"input\" in model, such as [8, 16]";
}

/* ---- the inputs of a layer ---- */

/* Returns whether self->x has as many axes as the type of layer needs; if not, notes a mistake with
 * advice. */
static bool
has_axes(cadre_network_t *self, const char *scope, cadre_layer_type_t type)
{
    int wanted = cadre_layer_rank(type);
    int rank = shape_of(self).rank;
    if (wanted == 0 || rank == wanted) {
        return true;
    }

    char text[CADRE_EXTENTS_TEXT_SIZE] = "rows of numbers";
    if (rank > 2) {
        shape_text(self, self->x, text);
    }
    return refuse(self, "%s needs %s, but is given %s: %s", scope,
                  wanted == 4 ? "images [B,height,width,channels]"
                              : "sequences [B,positions,numbers]",
                  text, remedy_for(rank, wanted));
}

/* Returns whether all inputs have the shape of the first; if not, notes a mistake. The operation
 * add would broadcast other shapes silently. */
static bool
are_alike(cadre_network_t *self, const char *scope, const inputs_t *inputs)
{
    cadre_extents_t first = shape_of(self);
    for (size_t i = 1; i < inputs->count; i++) {
        cadre_node_t node = inputs->values[i].node;
        cadre_extents_t shape = shape_at(self, node);
        if (!cadre_extents_equal(&first, &shape)) {
            char left[CADRE_EXTENTS_TEXT_SIZE];
            char right[CADRE_EXTENTS_TEXT_SIZE];
            return refuse(self, "%s takes what has one shape, but from[0] is %s and from[%zu] %s",
                          scope, shape_text(self, self->x, left), i, shape_text(self, node, right));
        }
    }
    return true;
}

/* Returns whether the inputs suit the type of layer; if not, notes a mistake. What looks up ids
 * must have an input that is `plain`: numbers of the rows, unchanged. */
static bool
can_take(cadre_network_t *self, const char *scope, cadre_layer_type_t type, const inputs_t *inputs)
{
    if (cadre_layer_takes_ids(type) && !self->plain) {
        return refuse(self,
                      "%s needs ids, numbers of a row as they came, but is given what a layer "
                      "computes: take them by \"columns\", or from \"input\"",
                      scope);
    }
    if (type == CADRE_LAYER_ADD) {
        return are_alike(self, scope, inputs);
    }
    return has_axes(self, scope, type);
}

/* Gives the layer's columns, cut out of the rows; returns false when a row has fewer. */
static bool
cut_columns(cadre_network_t *self, const char *scope, const cadre_layer_t *layer,
            cadre_network_value_t *out)
{
    int64_t features = shape_at(self, self->row).extents[1].factor;
    int64_t end = layer->first_column + layer->column_count;
    if (end > features) {
        return refuse(self, "%s: columns %lld to %lld are not all in a row, which has %lld", scope,
                      (long long)layer->first_column, (long long)end - 1, (long long)features);
    }
    out->node =
        cadre_op_slice(self->program, self->row, 1, layer->first_column, layer->column_count);
    out->plain = true;
    return out->node.id != 0;
}

/* Finds the inputs of the layer; returns false after a mistake, also after one of an earlier
 * layer. */
static bool
find_inputs(cadre_network_t *self, const char *scope, const cadre_layer_t *layer, inputs_t *inputs)
{
    if (layer->column_count > 0) { /* a layer of columns has no other inputs */
        inputs->count = 1;
        return self->row.id != 0 && cut_columns(self, scope, layer, &inputs->values[0]);
    }

    inputs->count = layer->from_count > 0 ? layer->from_count : 1;
    inputs->values[0] = (cadre_network_value_t){self->x, self->plain};
    for (size_t i = 0; i < layer->from_count; i++) {
        cadre_assert(layer->from[i] < self->layer_count);
        inputs->values[i] =
            layer->from[i] == CADRE_LAYER_ROW ? self->input : self->made[layer->from[i]];
    }
    for (size_t i = 0; i < inputs->count; i++) {
        if (inputs->values[i].node.id == 0) {
            return false;
        }
    }
    return true;
}

/* Returns whether a layer of this type passes numbers of the rows on unchanged, so that its output
 * may hold ids. */
static bool
keeps_numbers(cadre_layer_type_t type)
{
    return type == CADRE_LAYER_FLATTEN || type == CADRE_LAYER_RESHAPE || type == CADRE_LAYER_CONCAT;
}

/* ---- the list ---- */

/* Adds a layer, named `scope` in messages; leaves self->x empty after a mistake. Its output is
 * `plain`, that is, holds numbers of the rows unchanged, if all its inputs are and its type keeps
 * them. */
static void
add_within(cadre_network_t *self, const cadre_layer_t *layer, const char *scope)
{
    inputs_t inputs = {.count = 0};
    if (self->status < 0 || !find_inputs(self, scope, layer, &inputs)) {
        self->x = none;
        return;
    }

    self->x = inputs.values[0].node;
    self->plain = true;
    for (size_t i = 0; i < inputs.count; i++) {
        self->plain = self->plain && inputs.values[i].plain;
    }
    if (!can_take(self, scope, layer->type, &inputs)) {
        return;
    }

    self->layer = layer;
    self->layer_wire = layer->wire == 0 ? self->wire : (cadre_dtype_t)layer->wire;
    cadre_program_scope_begin(self->program, scope);
    add_any(self, layer, &inputs, scope);
    cadre_program_scope_end(self->program);
    self->plain = self->plain && keeps_numbers(layer->type);
}

/* Adds a layer, which messages name by its position: "model.layers[3] (conv2d)". Its output is kept
 * for later layers, empty after a mistake. */
void
cadre_network_add(cadre_network_t *self, const cadre_layer_t *layer)
{
    char scope[64];
    cadre_assert(self->layer_count < CADRE_NETWORK_LAYERS_MAX);
    snprintf(scope, sizeof(scope), "%s[%d] (%s)", self->list ? self->list : "layers",
             self->layer_count, cadre_layer_text(layer->type));
    add_within(self, layer, scope);
    self->made[self->layer_count++] = (cadre_network_value_t){self->x, self->plain};
}

/* Begins with the rows self->x of `features` numbers, in the shape `input` if `rank` is above 0. */
int
cadre_network_begin(cadre_network_t *self, int64_t features, const int64_t *input, size_t rank)
{
    self->row = self->x;
    self->plain = true; /* the rows hold their numbers unchanged, as an embedding needs its ids */
    if (self->batch.factor == 0) {
        self->batch = cadre_dim_symbol("B");
    }
    self->input = (cadre_network_value_t){self->x, true};
    if (rank == 0 || self->x.id == 0) {
        return 0;
    }

    cadre_dim_t dims[CADRE_PROGRAM_RANK_MAX] = {self->batch};
    int64_t size = 1;
    for (size_t i = 0; i < rank; i++) {
        dims[i + 1] = cadre_dim(input[i]);
        size = input[i] > INT64_MAX / size ? INT64_MAX : size * input[i]; /* no overflow */
    }

    if (size != features) {
        return cadre_fail(CADRE_ECONFIG,
                          "model.input: a row has %lld numbers, its shape there has %lld",
                          (long long)features, (long long)size);
    }

    self->x = cadre_op_reshape(self->program, self->x, dims, (int)rank + 1);
    self->input.node = self->x;
    return 0;
}

/* Goes back before the first layer, for another local step over the `batch` rows x with the
 * variables that are there. */
void
cadre_network_rewind(cadre_network_t *self, cadre_node_t x, cadre_dim_t batch)
{
    self->x = x;
    self->batch = batch;
    self->known_count = self->variable_count;
    self->variable_count = 0;
    self->layer_count = 0;
    self->number = 0;
}

/* Fails on the first mistake that was noted, or when there are too many variables. */
static int
check_noted(const cadre_network_t *self)
{
    if (self->status < 0) {
        return cadre_fail(self->status, "%s", self->text);
    }
    return self->overfull ? cadre_fail(CADRE_ECONFIG, "model: more than %d variables",
                                       CADRE_NETWORK_VARIABLES_MAX)
                          : 0;
}

/* Makes the rows' items the model's whole input: adds a linear model of them with `outputs`
 * outputs or, with factors, a factorization machine, which has one. */
int
cadre_network_end_items(cadre_network_t *self, const cadre_layer_t *lookup, int64_t outputs)
{
    static const char scope[] = "the model";
    if (lookup->units > 0) {
        add_within(self, lookup, scope);
        return check_noted(self);
    }

    cadre_layer_items_t items;
    if (self->x.id != 0 && split_items(self, lookup, scope, &items)) {
        self->layer = lookup;
        self->layer_wire = self->wire;
        add_linear(self, &items, outputs);
    }
    return check_noted(self);
}

/* Fails on the first mistake that was noted, or when the last layer does not make rows of
 * numbers. */
static int
check_rows(const cadre_network_t *self)
{
    if (self->status < 0) {
        return check_noted(self);
    }

    if (self->x.id != 0 && shape_of(self).rank != 2) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        return cadre_fail(CADRE_ECONFIG,
                          "model.layers: the last one gives %s, not rows of numbers: add "
                          "{\"type\": \"flatten\"} or {\"type\": \"mean\"}",
                          shape_text(self, self->x, text));
    }
    return 0;
}

/* Adds the last layer, which is dense with `width` outputs. */
int
cadre_network_end(cadre_network_t *self, int64_t width)
{
    int status = check_rows(self);
    if (status < 0) {
        return status;
    }

    cadre_layer_t last = cadre_layer_of(CADRE_LAYER_DENSE);
    last.units = width;
    add_within(self, &last, "the last layer (dense)");
    return check_noted(self);
}

/* Adds the variables of candidates, which stand in the place of the last layer. */
int
cadre_network_end_candidates(cadre_network_t *self, cadre_network_candidates_t *candidates)
{
    int status = check_rows(self);
    if (status < 0 || self->x.id == 0) {
        return status;
    }

    const cadre_layer_t last = cadre_layer_of(CADRE_LAYER_EMBEDDING);
    self->layer = &last;
    self->layer_wire = self->wire;
    self->number++;
    candidates->table =
        variable(self, "candidates", (int64_t[]){candidates->count, size_of(self, -1)}, 2, table);
    if (candidates->corrected && self->training) {
        candidates->seen =
            variable(self, "seen", (int64_t[]){candidates->count, 1}, 2, mean_average);
    }
    self->layer = NULL;
    return check_noted(self);
}
