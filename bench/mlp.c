#include "bench/mlp.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "ps/core/optimizer.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"

enum { COLUMNS = 2 }; /* of a batch: x and y */

const cadre_bench_mlp_variable_t cadre_bench_mlp_variables[CADRE_BENCH_MLP_VARIABLES] = {
    {"w1", 2, {CADRE_BENCH_MLP_FEATURES, CADRE_BENCH_MLP_HIDDEN}},
    {"b1", 1, {CADRE_BENCH_MLP_HIDDEN, 1}},
    {"w2", 2, {CADRE_BENCH_MLP_HIDDEN, CADRE_BENCH_MLP_CLASSES}},
    {"b2", 1, {CADRE_BENCH_MLP_CLASSES, 1}},
};

typedef struct {
    size_t count;
    float *value;
    float *gradient;
    float *slots[CADRE_OPTIMIZER_SLOTS_MAX];
} variable_t;

struct cadre_bench_mlp {
    cadre_source_t *source;
    cadre_device_t *device;
    cadre_slot_t *slot;
    cadre_program_t *program;
    cadre_ps_optimizer_t optimizer;
    uint64_t step;
    uint64_t epoch;
    variable_t variables[CADRE_BENCH_MLP_VARIABLES]; /* in the program's order */
    cadre_tensor_t batch[COLUMNS];
};

/* --- what both ways of training share --- */

int
cadre_bench_mlp_program(cadre_program_t **out)
{
    cadre_program_t *program = cadre_program_new("train");
    const cadre_dim_t images[] = {cadre_dim_symbol("B"), cadre_dim(CADRE_BENCH_MLP_FEATURES)};
    cadre_node_t x = cadre_op_arg(program, "x", CADRE_F32, images, 2);
    cadre_node_t y = cadre_op_arg(program, "y", CADRE_I32, images, 1);
    cadre_node_t nodes[CADRE_BENCH_MLP_VARIABLES];
    for (int i = 0; i < CADRE_BENCH_MLP_VARIABLES; i++) {
        const cadre_bench_mlp_variable_t *variable = &cadre_bench_mlp_variables[i];
        nodes[i] = cadre_op_var(program, variable->name, variable->shape, variable->rank);
    }

    cadre_node_t hidden = cadre_op_relu(program, cadre_op_dense(program, x, nodes[0], nodes[1]));
    cadre_node_t logits = cadre_op_dense(program, hidden, nodes[2], nodes[3]);
    cadre_node_t loss = cadre_op_softmax_cross_entropy(program, logits, y);
    cadre_op_result(program, "loss", loss);
    cadre_op_minimize(program, loss);
    int status = cadre_program_finish(program);
    if (status < 0) {
        cadre_program_destroy(&program);
        return status;
    }

    *out = program;
    return 0;
}

char *
cadre_bench_mlp_data(const char *path)
{
    return cadre_asprintf("{\"format\": \"csv\", \"path\": \"%s\", \"scale\": 0.0625}", path);
}

/* --- in this process --- */

static int
open_source(cadre_bench_mlp_t *self, const char *path)
{
    cadre_auto(cadre_free) char *text = cadre_bench_mlp_data(path);
    cadre_auto(cadre_data_spec_fini) cadre_data_spec_t spec = {.path = NULL};
    int status = cadre_data_spec_decode(text, strlen(text), &spec);
    if (status < 0) {
        return status;
    }

    status = cadre_source_open(&spec, NULL, &self->source);
    if (status < 0) {
        return status;
    }

    if (cadre_source_info(self->source)->features != CADRE_BENCH_MLP_FEATURES) {
        return cadre_fail(CADRE_EDATA, "%s has no rows of %d features", path,
                          CADRE_BENCH_MLP_FEATURES);
    }

    return 0;
}

static void
make_variables(cadre_bench_mlp_t *self)
{
    for (int i = 0; i < CADRE_BENCH_MLP_VARIABLES; i++) {
        const cadre_program_variable_t *about = cadre_program_variable(self->program, i);
        variable_t *variable = &self->variables[i];

        variable->count = (size_t)(about->shape[0] * (about->rank > 1 ? about->shape[1] : 1));
        variable->value = cadre_aligned_alloc(variable->count * sizeof(float));
        variable->gradient = cadre_aligned_alloc(variable->count * sizeof(float));
        cadre_random_fill_normal(1, (uint64_t)i, 0, variable->count, variable->value);
        for (size_t k = 0; k < variable->count; k++) {
            variable->value[k] *= about->rank > 1 ? 0.1F : 0;
        }

        for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
            variable->slots[slot] = cadre_calloc(variable->count, sizeof(float));
        }
    }
}

int
cadre_bench_mlp_open(const char *path, cadre_bench_mlp_t **out)
{
    cadre_auto(cadre_bench_mlp_close) cadre_bench_mlp_t *self = cadre_calloc(1, sizeof(*self));
    cadre_optimizer_spec_t spec;
    int status = open_source(self, path);
    if (status < 0) {
        return status;
    }

    status = cadre_optimizer_spec_parse(&spec, "adam");
    if (status < 0) {
        return status;
    }

    status = cadre_optimizer_spec_set(&spec, "learning_rate", CADRE_BENCH_MLP_RATE);
    if (status < 0) {
        return status;
    }

    status = cadre_optimizer_init(&self->optimizer, &spec, CADRE_F32);
    if (status < 0) {
        return status;
    }

    status = cadre_device_open("cpu", 1, &self->device);
    if (status < 0) {
        return status;
    }

    status = cadre_slot_open(self->device, NULL, &self->slot);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_mlp_program(&self->program);
    if (status < 0) {
        return status;
    }

    make_variables(self);
    *out = self;
    self = NULL;
    return 0;
}

void
cadre_bench_mlp_close(cadre_bench_mlp_t **self_p)
{
    cadre_bench_mlp_t *self = *self_p;
    if (!self) {
        return;
    }

    for (int i = 0; i < CADRE_BENCH_MLP_VARIABLES; i++) {
        free(self->variables[i].value);
        free(self->variables[i].gradient);
        for (size_t slot = 0; slot < CADRE_OPTIMIZER_SLOTS_MAX; slot++) {
            free(self->variables[i].slots[slot]);
        }
    }

    for (int i = 0; i < COLUMNS; i++) {
        cadre_tensor_fini(&self->batch[i]);
    }

    cadre_program_destroy(&self->program);
    cadre_slot_close(&self->slot);
    cadre_device_close(&self->device);
    cadre_source_close(&self->source);
    cadre_free(self_p);
}

static void
apply(cadre_bench_mlp_t *self)
{
    self->step++;
    for (int i = 0; i < CADRE_BENCH_MLP_VARIABLES; i++) {
        const variable_t *variable = &self->variables[i];
        cadre_optimizer_stretch_t stretch = {.count = variable->count,
                                             .gradient = variable->gradient,
                                             .value_in = variable->value,
                                             .value_out = variable->value};
        for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
            stretch.slots_in[slot] = variable->slots[slot];
            stretch.slots_out[slot] = variable->slots[slot];
        }
        cadre_optimizer_apply(&self->optimizer, self->step, &stretch);
    }
}

/* One batch, which has been read. */
static int
train_step(cadre_bench_mlp_t *self)
{
    const void *values[CADRE_BENCH_MLP_VARIABLES];
    void *gradients[CADRE_BENCH_MLP_VARIABLES];
    cadre_tensor_t loss = {.data = NULL};

    cadre_assert(cadre_program_push_count(self->program) == CADRE_BENCH_MLP_VARIABLES);
    for (int i = 0; i < CADRE_BENCH_MLP_VARIABLES; i++) {
        int pushed = cadre_program_push(self->program, i)->variable;
        values[i] = self->variables[i].value;
        gradients[i] = self->variables[pushed].gradient;
    }

    const cadre_slot_run_t run = {.program = self->program,
                                  .arguments = self->batch,
                                  .argument_count = COLUMNS,
                                  .variables = values,
                                  .seed = self->step,
                                  .gradients = gradients,
                                  .results = &loss};
    int status = cadre_slot_run(self->slot, &run);
    if (status == 0) {
        apply(self);
    }

    cadre_tensor_fini(&loss);
    return status;
}

int
cadre_bench_mlp_train(cadre_bench_mlp_t *self, int epochs, int64_t *examples)
{
    int64_t rows = cadre_source_info(self->source)->rows;
    *examples = 0;
    for (int i = 0; i < epochs; i++) {
        const cadre_batch_order_t order = {.shuffle = true, .seed = 1, .epoch = self->epoch++};
        for (int64_t first = 0; first < rows; first += CADRE_BENCH_MLP_BATCH) {
            int64_t count = cadre_min_i64(rows - first, CADRE_BENCH_MLP_BATCH);
            int status = cadre_batch_read(self->source, &order, first, count, &self->batch[0],
                                          &self->batch[1]);
            if (status < 0) {
                return status;
            }
            status = train_step(self);
            if (status < 0) {
                return status;
            }
            *examples += count;
        }
    }

    return 0;
}
