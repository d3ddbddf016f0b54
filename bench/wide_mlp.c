/*
 * Examples per second of a network 784-512-512-10 with relu, cross entropy and sgd in batches of
 * 128, trained on the CPU device in this process, beside the rate of its matrix products alone:
 * what no implementation on OpenBLAS can surpass. torch_mlp.py trains the same in PyTorch.
 */
#include <cadre/program.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/measure.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "ps/core/values/optimizer.h"
#include "worker/device/blas.h"
#include "worker/device/device.h"

enum {
    BATCH = 128,
    LAYERS = 3,
    VARIABLES = 2 * LAYERS,
    BATCHES = 8, /* that are trained on in turn */
    STEPS_FULL = 200,
    STEPS_QUICK = 20,
    REPETITIONS = 9,
};

static const int64_t widths[LAYERS + 1] = {784, 512, 512, 10};
static const double rate = 0.05;
static const double blas_share = 1.3; /* times the OpenBLAS calls' time is the most we want */

/* Forward, gradients of the weights, gradients of the inputs but the first: in the order they are
 * run. */
static const cadre_blas_product_t products[] = {
    {BATCH, 512, 784, false, false}, {BATCH, 512, 512, false, false},
    {BATCH, 10, 512, false, false},  {512, 10, BATCH, true, false},
    {BATCH, 512, 10, false, true},   {512, 512, BATCH, true, false},
    {BATCH, 512, 512, false, true},  {784, 512, BATCH, true, false},
};

typedef struct {
    cadre_program_t *program;
    cadre_device_t *device;
    cadre_slot_t *slot;
    cadre_ps_optimizer_t optimizer;
    int64_t counts[VARIABLES]; /* in the program's order, as all that follows */
    float *values[VARIABLES];
    float *gradients[VARIABLES];
    cadre_tensor_t batches[BATCHES][2];
    uint64_t step;
    int steps;
    int threads;
    float loss; /* of the last step */
} subject_t;

static int
make_program(cadre_program_t **out)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("mlp");
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(widths[0])};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    cadre_node_t label = cadre_op_arg(p, "y", CADRE_I32, dims, 1);
    static const char *const names[VARIABLES] = {"w1", "b1", "w2", "b2", "w3", "b3"};
    for (int i = 0; i < LAYERS; i++) {
        cadre_node_t weight = cadre_op_var(p, names[2 * i], widths + i, 2);
        cadre_node_t bias = cadre_op_var(p, names[2 * i + 1], widths + i + 1, 1);
        x = cadre_op_dense(p, x, weight, bias);
        x = i + 1 < LAYERS ? cadre_op_relu(p, x) : x;
    }

    cadre_node_t loss = cadre_op_softmax_cross_entropy(p, x, label);
    cadre_op_result(p, "loss", loss);
    cadre_op_minimize(p, loss);
    int status = cadre_program_finish(p);
    if (status < 0) {
        return status;
    }

    *out = p;
    p = NULL;
    return 0;
}

static void
make_variables(subject_t *self)
{
    for (int i = 0; i < VARIABLES; i++) {
        const cadre_program_variable_t *about = cadre_program_variable(self->program, i);
        int64_t count = about->shape[0] * (about->rank > 1 ? about->shape[1] : 1);
        self->counts[i] = count;
        self->values[i] = cadre_aligned_alloc((size_t)count * sizeof(float));
        self->gradients[i] = cadre_aligned_alloc((size_t)count * sizeof(float));
        for (int64_t k = 0; k < count; k++) {
            float number = cadre_random_uniform(1, (uint64_t)i, (uint64_t)k) - 0.5F;
            self->values[i][k] = about->rank > 1 ? 0.15F * number : 0;
        }
    }
}

/* Labels that can be learned: which of the first ten numbers is the largest. */
static int
make_batch(cadre_tensor_t batch[2], uint64_t stream)
{
    const int64_t shape[] = {BATCH, widths[0]};
    int status = cadre_tensor_init(&batch[0], CADRE_F32, shape, 2);
    if (status < 0) {
        return status;
    }

    status = cadre_tensor_init(&batch[1], CADRE_I32, shape, 1);
    if (status < 0) {
        return status;
    }

    for (int64_t row = 0; row < BATCH; row++) {
        float *x = (float *)batch[0].data + row * widths[0];
        int32_t *label = (int32_t *)batch[1].data + row;
        *label = 0;
        for (int64_t i = 0; i < widths[0]; i++) {
            x[i] = cadre_random_uniform(2, stream, (uint64_t)(row * widths[0] + i));
            *label = i < widths[LAYERS] && x[i] > x[*label] ? (int32_t)i : *label;
        }
    }

    return 0;
}

static int
subject_init(subject_t *self)
{
    cadre_optimizer_spec_t spec;
    int status = cadre_optimizer_spec_parse(&spec, "sgd");
    if (status < 0) {
        return status;
    }

    status = cadre_optimizer_spec_set(&spec, "learning_rate", rate);
    if (status < 0) {
        return status;
    }

    status = cadre_optimizer_init(&self->optimizer, &spec, CADRE_F32);
    if (status < 0) {
        return status;
    }

    status = cadre_device_open("cpu", self->threads, &self->device);
    if (status < 0) {
        return status;
    }

    status = cadre_slot_open(self->device, NULL, &self->slot);
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < BATCHES; i++) {
        status = make_batch(self->batches[i], (uint64_t)i);
        if (status < 0) {
            return status;
        }
    }

    status = make_program(&self->program);
    if (status < 0) {
        return status;
    }

    make_variables(self);
    return 0;
}

static void
subject_fini(subject_t *self)
{
    for (int i = 0; i < VARIABLES; i++) {
        free(self->values[i]);
        free(self->gradients[i]);
    }

    for (int i = 0; i < BATCHES; i++) {
        cadre_tensor_fini(&self->batches[i][0]);
        cadre_tensor_fini(&self->batches[i][1]);
    }

    cadre_program_destroy(&self->program);
    cadre_slot_close(&self->slot);
    cadre_device_close(&self->device);
}

static int
train_step(subject_t *self)
{
    const void *values[VARIABLES];
    void *gradients[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) {
        values[i] = self->values[i];
        gradients[i] = self->gradients[cadre_program_push(self->program, i)->variable];
    }

    cadre_tensor_t loss = {.data = NULL};
    const cadre_slot_run_t run = {.program = self->program,
                                  .arguments = self->batches[self->step % BATCHES],
                                  .argument_count = 2,
                                  .variables = values,
                                  .seed = self->step,
                                  .gradients = gradients,
                                  .results = &loss};
    int status = cadre_slot_run(self->slot, &run);
    if (status < 0) {
        return status;
    }

    self->loss = *(const float *)loss.data;
    cadre_tensor_fini(&loss);
    self->step++;
    for (int i = 0; i < VARIABLES; i++) {
        const cadre_optimizer_span_t span = {.count = (size_t)self->counts[i],
                                             .gradient = self->gradients[i],
                                             .value_in = self->values[i],
                                             .value_out = self->values[i]};
        cadre_optimizer_apply(&self->optimizer, self->step, &span);
    }

    return 0;
}

/* ---- what is measured ---- */

static int
run_training(void *context, double *value)
{
    subject_t *self = context;
    int status = 0;
    double begin = cadre_bench_now();
    for (int i = 0; i < self->steps && status == 0; i++) {
        status = train_step(self);
    }
    *value = (double)self->steps * BATCH / (cadre_bench_now() - begin);
    return status;
}

/* Of the sizes that training has, in memory that it uses: only time is taken. */
static int
run_products(void *context, double *value)
{
    subject_t *self = context;
    const float *x = self->batches[0][0].data;
    int before = cadre_blas_set_threads(self->threads);
    cadre_auto(cadre_free) float *out =
        cadre_aligned_alloc((size_t)(widths[0] * widths[1]) * sizeof(float));
    cadre_auto(cadre_free) float *operand =
        cadre_aligned_alloc((size_t)(widths[0] * widths[1]) * sizeof(float));
    for (int64_t i = 0; i < widths[0] * widths[1]; i++) {
        operand[i] = cadre_random_uniform(3, 1, (uint64_t)i);
    }

    double begin = cadre_bench_now();
    for (int i = 0; i < self->steps; i++) {
        for (size_t k = 0; k < CADRE_COUNT_OF(products); k++) {
            cadre_blas_multiply(&products[k], x, operand, out);
        }
    }

    *value = (double)self->steps * BATCH / (cadre_bench_now() - begin);
    cadre_blas_set_threads(before);
    return 0;
}

static int
measure(cadre_bench_t *bench, subject_t *self)
{
    int status = train_step(self);
    if (status < 0) {
        return status;
    }

    float first = self->loss;
    cadre_bench_measure_t measures[] = {{run_training, self, 0}, {run_products, self, 0}};
    status = cadre_bench_measure_in_turn(measures, CADRE_COUNT_OF(measures),
                                         cadre_bench_amount(bench, REPETITIONS, 3));
    if (status < 0) {
        return status;
    }

    /* A fast step that learns nothing is no result. */
    if (!(self->loss < first)) {
        return cadre_fail(CADRE_EDATA, "training is wrong: the loss was %g, now it is %g",
                          (double)first, (double)self->loss);
    }

    const cadre_bench_figure_t figure = {.section = "mlp",
                                         .unit = "examples/s",
                                         .value = measures[0].value,
                                         .ceiling_name = "its OpenBLAS calls alone",
                                         .ceiling = measures[1].value,
                                         .least_ratio = 1 / blas_share};
    cadre_bench_report_add(&bench->report, &figure, "784-512-512-10, sgd, threads %d",
                           self->threads);
    return 0;
}

int
cadre_bench_wide_mlp(cadre_bench_t *self)
{
    cadre_auto(subject_fini) subject_t subject = {
        .threads = self->threads, .steps = cadre_bench_amount(self, STEPS_FULL, STEPS_QUICK)};
    int status = subject_init(&subject);
    if (status < 0) {
        return status;
    }
    return measure(self, &subject);
}
