#include "coordinator/cli/train/network.h"

#include <stdio.h>
#include <string.h>

#include "common/base/status.h"
#include "common/graph/program.h"

static const float norm_eps = 1e-5F;
static const cadre_node_t none = {0};

/* ---- shapes ---- */

static cadre_extents_t
shape_of(const cadre_network_t *self)
{
    return cadre_program_node(self->program, self->x.id - 1)->shape;
}

/* The size of axis `axis`, from the end when negative; the axes of a row are numbers. */
static int64_t
size_of(const cadre_network_t *self, int axis)
{
    cadre_extents_t shape = shape_of(self);
    return shape.extents[axis < 0 ? shape.rank + axis : axis].factor;
}

static int64_t
row_size(const cadre_network_t *self)
{
    int64_t size = 1;
    for (int i = 1; i < shape_of(self).rank; i++) {
        size *= size_of(self, i);
    }
    return size;
}

/* ---- variables ---- */

/* What a variable is, but for its name and shape. */
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

static kind_t
weight_before(int64_t activation)
{
    bool he = activation == CADRE_ACTIVATION_RELU || activation == CADRE_ACTIVATION_GELU;
    return (kind_t){he ? "he_normal" : "glorot_uniform", 0, CADRE_ROLE_WEIGHT};
}

static cadre_node_t
variable(cadre_network_t *self, const char *name, const int64_t *shape, int rank, kind_t kind)
{
    if (self->variable_count == CADRE_NETWORK_VARIABLES_MAX) {
        self->overfull = true;
        return none;
    }

    cadre_network_variable_t *added = &self->variables[self->variable_count++];
    *added = (cadre_network_variable_t){.rank = rank,
                                        .initializer = kind.initializer,
                                        .value = kind.value,
                                        .role = kind.role,
                                        .wire = self->layer_wire};
    snprintf(added->name, sizeof(added->name), "%s%d", name, self->number);
    memcpy(added->shape, shape, (size_t)rank * sizeof(*shape));
    added->node = cadre_op_var(self->program, added->name, shape, rank);
    return added->node;
}

static cadre_node_t
row(cadre_network_t *self, const char *name, int64_t size, kind_t kind)
{
    return variable(self, name, &size, 1, kind);
}

/* ---- layers ---- */

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
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(row_size(self))};
    self->x = cadre_op_reshape(self->program, self->x, dims, 2);
}

/* Over what lies between the batch and the last axis. */
static void
add_mean(cadre_network_t *self)
{
    for (int axis = shape_of(self).rank - 2; axis > 0; axis--) {
        self->x = cadre_op_mean(self->program, self->x, 1);
    }
}

static cadre_node_t
layer_norm(cadre_network_t *self, const char *scale_name, const char *shift_name)
{
    cadre_node_t scale = row(self, scale_name, size_of(self, -1), ones);
    cadre_node_t shift = row(self, shift_name, size_of(self, -1), zeros);
    return cadre_op_layer_norm(self->program, self->x, scale, shift, norm_eps);
}

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
    if (!self->training) {
        self->x = cadre_op_batch_norm_fixed(p, self->x, running, scale, shift, norm_eps);
        return;
    }

    cadre_moments_t batch = {none, none};
    self->x = cadre_op_batch_norm(p, self->x, scale, shift, norm_eps, &batch);
    cadre_op_push(p, running.mean, cadre_op_sub(p, running.mean, batch.mean));
    cadre_op_push(p, running.variance, cadre_op_sub(p, running.variance, batch.variance));
}

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

static void
add_embedding(cadre_network_t *self, const cadre_layer_t *layer)
{
    self->number++;
    const int64_t shape[] = {layer->ids, layer->units};
    self->x = cadre_op_embedding(self->program, variable(self, "table", shape, 2, table), self->x);
}

static cadre_node_t
projection(cadre_network_t *self, cadre_node_t x, const char *name, int64_t width)
{
    cadre_node_t weight =
        variable(self, name, (int64_t[]){width, width}, 2, weight_before(CADRE_ACTIVATION_NONE));
    return cadre_op_matmul(self->program, x, weight);
}

/* The norms stand before what they feed, and each half has a way around it: Xiong and others 2020,
 * "On layer normalization in the transformer architecture". */
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
    if (self->x.id == 0) {
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

/* Adds a layer of any type, whose output becomes `self->x`. */
static void
add_any(cadre_network_t *self, const cadre_layer_t *layer)
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
        add_embedding(self, layer);
        return;
    }
}

/* What a layer must be given; 0 for rows of any rank. */
static int
wanted_rank(cadre_layer_type_t type)
{
    switch (type) {
    case CADRE_LAYER_CONV2D:
    case CADRE_LAYER_MAX_POOL2D:
    case CADRE_LAYER_MEAN_POOL2D:
        return 4;
    case CADRE_LAYER_TRANSFORMER:
        return 3;
    case CADRE_LAYER_DENSE:
    case CADRE_LAYER_FLATTEN:
    case CADRE_LAYER_MEAN:
    case CADRE_LAYER_ACTIVATION:
    case CADRE_LAYER_DROPOUT:
    case CADRE_LAYER_LAYER_NORM:
    case CADRE_LAYER_BATCH_NORM:
    case CADRE_LAYER_POSITIONS:
    case CADRE_LAYER_EMBEDDING:
        return 0;
    }

    return 0;
}

/* Returns what would give the layer rows of `wanted` axes where it is given rows of `rank`. */
static const char *
remedy_for(int rank, int wanted)
{
    if (rank > 2) {
        return "the layers before it, or \"input\" in model, make something else";
    }

    return wanted == 4 ? "the shape of a row is \"input\" in model, such as [28, 28, 1]"
                       : "the shape of a row is \"input\" in model, such as [8, 16]";
}

/* Whether the rows so far are what the layer is for; otherwise says what would make them so. */
static bool
can_follow(cadre_network_t *self, const char *scope, cadre_layer_type_t type)
{
    int rank = wanted_rank(type);
    cadre_extents_t shape = shape_of(self);
    if (rank == 0 || shape.rank == rank) {
        return true;
    }

    char text[CADRE_EXTENTS_TEXT_SIZE] = "rows of numbers";
    if (shape.rank > 2) {
        cadre_extents_text(&shape, cadre_program_symbols(self->program), text);
    }

    snprintf(self->text, sizeof(self->text), "%s needs %s, but is given %s: %s", scope,
             rank == 4 ? "images [B,height,width,channels]" : "sequences [B,positions,numbers]",
             text, remedy_for(shape.rank, rank));
    self->status = CADRE_ECONFIG;
    self->x = none;
    return false;
}

static void
add_within(cadre_network_t *self, const cadre_layer_t *layer, const char *scope)
{
    self->layer_wire = layer->wire == 0 ? self->wire : (cadre_dtype_t)layer->wire;
    if (self->x.id == 0 || !can_follow(self, scope, layer->type)) {
        return;
    }
    cadre_program_scope_begin(self->program, scope);
    add_any(self, layer);
    cadre_program_scope_end(self->program);
}

void
cadre_network_add(cadre_network_t *self, const cadre_layer_t *layer)
{
    char scope[64];
    snprintf(scope, sizeof(scope), "%s[%d] (%s)", self->list ? self->list : "layers",
             self->layer_count++, cadre_layer_text(layer->type));
    add_within(self, layer, scope);
}

int
cadre_network_begin(cadre_network_t *self, int64_t features, const int64_t *input, size_t rank)
{
    if (rank == 0 || self->x.id == 0) {
        return 0;
    }

    cadre_dim_t dims[CADRE_PROGRAM_RANK_MAX] = {cadre_dim_symbol("B")};
    int64_t size = 1;
    for (size_t i = 0; i < rank; i++) {
        dims[i + 1] = cadre_dim(input[i]);
        size = input[i] > INT64_MAX / size ? INT64_MAX : size * input[i];
    }

    if (size != features) {
        return cadre_fail(CADRE_ECONFIG,
                          "model.input: a row has %lld numbers, its shape there has %lld",
                          (long long)features, (long long)size);
    }

    self->x = cadre_op_reshape(self->program, self->x, dims, (int)rank + 1);
    return 0;
}

int
cadre_network_end(cadre_network_t *self, int64_t width)
{
    if (self->status < 0) {
        return cadre_fail(self->status, "%s", self->text);
    }

    if (self->x.id != 0 && shape_of(self).rank != 2) {
        cadre_extents_t shape = shape_of(self);
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_extents_text(&shape, cadre_program_symbols(self->program), text);
        return cadre_fail(CADRE_ECONFIG,
                          "model.layers: the last one gives %s, not rows of numbers: add "
                          "{\"type\": \"flatten\"} or {\"type\": \"mean\"}",
                          text);
    }

    cadre_layer_t last = cadre_layer_of(CADRE_LAYER_DENSE);
    last.units = width;
    add_within(self, &last, "the last layer (dense)");
    if (self->overfull) {
        return cadre_fail(CADRE_ECONFIG, "model: more than %d variables",
                          CADRE_NETWORK_VARIABLES_MAX);
    }

    return 0;
}
