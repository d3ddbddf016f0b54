#include "bench/mlp.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/weights.h"
#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "ps/core/values/optimizer.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"

enum {
    COLUMNS = 2,      /* of a batch: x and y */
    ROWS_WIDE = 4096, /* that are made for the wide network */
};

const cadre_bench_network_t cadre_bench_digits = {.name = "digits, 64-128-10, adam",
                                                  .layers = 2,
                                                  .widths = {64, 128, 10},
                                                  .batch = 32,
                                                  .optimizer = CADRE_OPTIMIZER_ADAM,
                                                  .optimizer_name = "adam",
                                                  .rate = 0.003};

const cadre_bench_network_t cadre_bench_wide = {.name = "784-512-512-10, sgd",
                                                .layers = 3,
                                                .widths = {784, 512, 512, 10},
                                                .batch = 128,
                                                .optimizer = CADRE_OPTIMIZER_SGD,
                                                .optimizer_name = "sgd",
                                                .rate = 0.05};

struct cadre_bench_mlp {
    const cadre_bench_network_t *network;
    cadre_source_t *source;
    cadre_device_t *device;
    cadre_slot_t *slot;
    cadre_program_t *program;
    cadre_bench_weights_t *weights;
    float *gradients[CADRE_BENCH_VARIABLES_MAX]; /* of the variables, in the program's order */
    cadre_tensor_t batch[COLUMNS];
    uint64_t step;
    uint64_t epoch;
    int part; /* which of an epoch's batches it trains: this one of so many, again and again */
    int parts;
    int epochs; /* of train_all, and what it led to: */
    int64_t examples;
    int status;
};

/* --- what both ways of training share --- */

/* "w1" and "b1" of layer 0, and so on. */
static const char *const weight_names[CADRE_BENCH_LAYERS_MAX] = {"w1", "w2", "w3"};
static const char *const bias_names[CADRE_BENCH_LAYERS_MAX] = {"b1", "b2", "b3"};

/* Adds the variables of the network, each weight before the bias of its layer. */
static void
add_variables(const cadre_bench_network_t *network, cadre_program_t *p, cadre_node_t *variables)
{
    for (int i = 0; i < network->layers; i++) {
        variables[2 * i] = cadre_op_var(p, weight_names[i], network->widths + i, 2);
        variables[2 * i + 1] = cadre_op_var(p, bias_names[i], network->widths + i + 1, 1);
    }
}

/* Adds the layers over the rows x, and returns the mean loss against the labels y. */
static cadre_node_t
add_layers(const cadre_bench_network_t *network, cadre_program_t *p, const cadre_node_t *variables,
           cadre_node_t x, cadre_node_t y)
{
    for (int i = 0; i < network->layers; i++) {
        x = cadre_op_dense(p, x, variables[2 * i], variables[2 * i + 1]);
        x = i + 1 < network->layers ? cadre_op_relu(p, x) : x;
    }
    return cadre_op_softmax_cross_entropy(p, x, y);
}

/* Finishes the program and gives it; destroys it where it is not valid. */
static int
finish(cadre_program_t *p, cadre_program_t **out)
{
    int status = cadre_program_finish(p);
    if (status < 0) {
        cadre_program_destroy(&p);
        return status;
    }

    *out = p;
    return 0;
}

int
cadre_bench_mlp_program(const cadre_bench_network_t *network, cadre_program_t **out)
{
    cadre_program_t *p = cadre_program_new("train");
    const cadre_dim_t rows[] = {cadre_dim_symbol("B"), cadre_dim(network->widths[0])};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, rows, 2);
    cadre_node_t y = cadre_op_arg(p, "y", CADRE_I32, rows, 1);
    cadre_node_t variables[CADRE_BENCH_VARIABLES_MAX];
    add_variables(network, p, variables);
    cadre_node_t loss = add_layers(network, p, variables, x, y);
    cadre_op_result(p, "loss", loss);
    cadre_op_minimize(p, loss);
    return finish(p, out);
}

/* Reads the network's optimizer, as a ps and as local steps take it. */
static int
parse_optimizer(const cadre_bench_network_t *network, cadre_optimizer_spec_t *spec)
{
    int status = cadre_optimizer_spec_parse(spec, network->optimizer_name);
    return status < 0 ? status : cadre_optimizer_spec_set(spec, "learning_rate", network->rate);
}

/* Makes a program of `steps` local steps, each on the next batch of its rows, as
 * training.local_steps of a job file makes it: the network's optimizer inside, and how far it led
 * is pushed. */
int
cadre_bench_mlp_local_program(const cadre_bench_network_t *network, int steps,
                              cadre_program_t **out)
{
    cadre_optimizer_spec_t spec;
    int status = parse_optimizer(network, &spec);
    if (status < 0) {
        return status;
    }

    cadre_program_t *p = cadre_program_new("local_steps");
    const cadre_dim_t rows[] = {cadre_dim(steps * network->batch), cadre_dim(network->widths[0])};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, rows, 2);
    cadre_node_t y = cadre_op_arg(p, "y", CADRE_I32, rows, 1);
    cadre_node_t pulled[CADRE_BENCH_VARIABLES_MAX];
    cadre_node_t values[CADRE_BENCH_VARIABLES_MAX];
    cadre_inner_slots_t slots[CADRE_BENCH_VARIABLES_MAX] = {{{{0}}}};
    cadre_inner_optimizer_t inner = {.optimizer = cadre_optimizer_spec_give(&spec)};
    const int count = 2 * network->layers;
    add_variables(network, p, pulled);
    memcpy(values, pulled, sizeof(values));
    for (int step = 0; step < steps; step++) {
        int64_t begin = step * network->batch;
        cadre_node_t gradients[CADRE_BENCH_VARIABLES_MAX];
        cadre_node_t loss =
            add_layers(network, p, values, cadre_op_slice(p, x, 0, begin, network->batch),
                       cadre_op_slice(p, y, 0, begin, network->batch));
        cadre_op_gradient(p, loss, values, count, gradients);
        cadre_op_inner_step(p, &inner, values, gradients, slots, count);
    }

    for (int i = 0; i < count; i++) {
        cadre_op_push(p, pulled[i], cadre_op_sub(p, pulled[i], values[i]));
    }
    return finish(p, out);
}

int
cadre_bench_mlp_create(const cadre_bench_network_t *network, bool has_local_steps,
                       cadre_coordinator_t *coordinator)
{
    cadre_variable_t *variable = NULL;
    cadre_variable_options_t weight = cadre_variable_options();
    weight.optimizer = cadre_optimizer(has_local_steps ? CADRE_OPTIMIZER_SGD : network->optimizer);
    weight.optimizer.learning_rate = has_local_steps ? 1 : network->rate;
    cadre_variable_options_t bias = weight;
    weight.initializer = cadre_initializer(CADRE_INITIALIZER_HE_NORMAL);
    for (int i = 0; i < network->layers; i++) {
        int status = cadre_variable_create(coordinator, weight_names[i], CADRE_F32,
                                           network->widths + i, 2, &weight, &variable);
        if (status < 0) {
            return status;
        }
        status = cadre_variable_create(coordinator, bias_names[i], CADRE_F32,
                                       network->widths + i + 1, 1, &bias, &variable);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

int
cadre_bench_mlp_schedule(const cadre_bench_network_t *network, cadre_dataset_t *data,
                         const cadre_function_t *step, uint64_t *epoch, int epochs,
                         int64_t *examples)
{
    int status = cadre_dataset_train(data, step, *epoch, (uint64_t)epochs, network->batch,
                                     CADRE_BENCH_WAIT_MS);
    *epoch += (uint64_t)epochs;
    *examples = epochs * cadre_dataset_info(data).rows;
    return status;
}

/* Schedules the full closures of each epoch, and joins. */
int
cadre_bench_mlp_schedule_local(const cadre_bench_network_t *network, cadre_bench_job_t *job,
                               int epochs, int64_t *examples)
{
    const int64_t rows = job->steps * network->batch;
    *examples = 0;
    for (int i = 0; i < epochs; i++) {
        int status = cadre_dataset_begin(job->data, job->epoch++, 0, rows, CADRE_ORDER_SHUFFLED,
                                         CADRE_LAST_BATCH_DROPPED);
        if (status < 0) {
            return status;
        }

        cadre_batch_t batch;
        while (cadre_dataset_next(job->data, &batch)) {
            const cadre_call_t call = cadre_call_batch(&batch);
            status = cadre_coordinator_schedule(job->coordinator, job->function, &call,
                                                CADRE_BENCH_WAIT_MS, NULL);
            if (status < 0) {
                return status;
            }
            *examples += rows;
        }
    }

    return cadre_coordinator_join(job->coordinator, CADRE_BENCH_WAIT_MS);
}

char *
cadre_bench_mlp_csv(const char *path)
{
    return cadre_asprintf("{\"format\": \"csv\", \"path\": \"%s\", \"scale\": 0.0625}", path);
}

/* --- rows for the wide network --- */

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10 };

/* Writes the head of an IDX file: bytes, of these dimensions. */
static void
write_head(FILE *file, const uint32_t *dimensions, int count)
{
    const uint8_t magic[] = {0, 0, 8, (uint8_t)count};
    fwrite(magic, sizeof(magic), 1, file);
    for (int i = 0; i < count; i++) {
        for (int shift = 24; shift >= 0; shift -= 8) {
            fputc((int)(dimensions[i] >> shift & 0xff), file);
        }
    }
}

static void
write_rows(FILE *images, FILE *labels, uint32_t rows)
{
    uint8_t pixels[PIXELS];
    write_head(images, (const uint32_t[]){rows, SIDE, SIDE}, 3);
    write_head(labels, &rows, 1);
    for (uint32_t row = 0; row < rows; row++) {
        int label = 0;
        for (int i = 0; i < PIXELS; i++) {
            pixels[i] = (uint8_t)(255 * cadre_random_uniform(2, row, (uint64_t)i));
            label = i < CLASSES && pixels[i] > pixels[label] ? i : label;
        }
        fwrite(pixels, sizeof(pixels), 1, images);
        fputc(label, labels);
    }
}

int
cadre_bench_mlp_write_rows(const char *folder, int rows, char **description)
{
    cadre_auto(cadre_free) char *image_path = cadre_asprintf("%s/bench-images", folder);
    cadre_auto(cadre_free) char *label_path = cadre_asprintf("%s/bench-labels", folder);
    FILE *images = fopen(image_path, "wbe");
    FILE *labels = fopen(label_path, "wbe");
    if (images && labels) {
        write_rows(images, labels, (uint32_t)rows);
    }

    bool is_written = images && labels && !ferror(images) && !ferror(labels);
    is_written = images && fclose(images) == 0 && is_written;
    is_written = labels && fclose(labels) == 0 && is_written;
    if (!is_written) {
        return cadre_fail(CADRE_EIO, "%s cannot be written", image_path);
    }

    *description = cadre_asprintf(
        "{\"format\": \"idx\", \"path\": \"%s\", \"labels_path\": \"%s\", \"scale\": 0.004}",
        image_path, label_path);
    return 0;
}

void
cadre_bench_mlp_remove_rows(const char *folder)
{
    cadre_auto(cadre_free) char *image_path = cadre_asprintf("%s/bench-images", folder);
    cadre_auto(cadre_free) char *label_path = cadre_asprintf("%s/bench-labels", folder);
    remove(image_path);
    remove(label_path);
}

/* --- in this process --- */

static int
open_source(cadre_bench_mlp_t *self, const char *text)
{
    cadre_auto(cadre_data_spec_fini) cadre_data_spec_t spec = {.classes = 0};
    int status = cadre_data_spec_decode(text, strlen(text), &spec);
    if (status < 0) {
        return status;
    }

    status = cadre_source_open(&spec, NULL, &self->source);
    if (status < 0) {
        return status;
    }

    if (cadre_source_info(self->source)->features != self->network->widths[0]) {
        return cadre_fail(CADRE_EDATA, "%s has no rows for %s", text, self->network->name);
    }

    return 0;
}

/* Opens a loop by itself, without weights. */
static int
open_loop(const cadre_bench_network_t *network, const char *description, int threads,
          cadre_bench_mlp_t **out)
{
    cadre_auto(cadre_bench_mlp_close) cadre_bench_mlp_t *self = cadre_calloc(1, sizeof(*self));
    self->network = network;
    self->parts = 1;
    int status = open_source(self, description);
    if (status < 0) {
        return status;
    }

    status = cadre_device_open("cpu", threads, &self->device);
    if (status < 0) {
        return status;
    }

    status = cadre_slot_open(self->device, NULL, &self->slot);
    if (status < 0) {
        return status;
    }

    status = cadre_bench_mlp_program(network, &self->program);
    if (status < 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

/* Gives the loops one set of weights, and each its part of the batches. */
static int
make_weights(cadre_bench_mlp_t **loops, int count)
{
    cadre_optimizer_spec_t spec;
    int status = parse_optimizer(loops[0]->network, &spec);
    if (status < 0) {
        return status;
    }

    cadre_ps_optimizer_t optimizer;
    status = cadre_optimizer_init(&optimizer, &spec, CADRE_F32);
    if (status < 0) {
        return status;
    }

    cadre_bench_weights_t *weights = cadre_bench_weights_new(loops[0]->program, &optimizer, count);
    for (int i = 0; i < count; i++) {
        cadre_bench_mlp_t *loop = loops[i];
        loop->weights = weights;
        loop->part = i;
        loop->parts = count;
        for (int k = 0; k < cadre_program_variable_count(loop->program); k++) {
            loop->gradients[k] =
                cadre_aligned_alloc(cadre_bench_weights_count(weights, k) * sizeof(float));
        }
    }
    return 0;
}

int
cadre_bench_mlp_open(const cadre_bench_network_t *network, const char *description, int threads,
                     cadre_bench_mlp_t **out)
{
    return cadre_bench_mlp_open_team(network, description, threads, 1, out);
}

int
cadre_bench_mlp_open_team(const cadre_bench_network_t *network, const char *description,
                          int threads, int count, cadre_bench_mlp_t **loops)
{
    int status = 0;
    int opened = 0;
    while (opened < count && status == 0) {
        status = open_loop(network, description, threads, &loops[opened]);
        opened += status == 0;
    }
    status = status < 0 ? status : make_weights(loops, count);

    for (int i = 0; i < opened && status < 0; i++) {
        cadre_bench_mlp_close(&loops[i]);
    }
    return status;
}

void
cadre_bench_mlp_close(cadre_bench_mlp_t **self_p)
{
    cadre_bench_mlp_t *self = *self_p;
    if (!self) {
        return;
    }

    for (int i = 0; i < CADRE_BENCH_VARIABLES_MAX; i++) {
        free(self->gradients[i]);
    }

    for (int i = 0; i < COLUMNS; i++) {
        cadre_tensor_fini(&self->batch[i]);
    }

    cadre_bench_weights_drop(&self->weights);

    cadre_program_destroy(&self->program);
    cadre_slot_close(&self->slot);
    cadre_device_close(&self->device);
    cadre_source_close(&self->source);
    cadre_free(self_p);
}

/* One batch, which has been read. */
static int
train_step(cadre_bench_mlp_t *self)
{
    const void *values[CADRE_BENCH_VARIABLES_MAX];
    void *gradients[CADRE_BENCH_VARIABLES_MAX];
    cadre_tensor_t loss = {.data = NULL};

    const int count = cadre_program_push_count(self->program);
    cadre_assert(count == cadre_program_variable_count(self->program));
    for (int i = 0; i < count; i++) {
        gradients[i] = self->gradients[cadre_program_push(self->program, i)->variable];
    }

    const int set = cadre_bench_weights_take(self->weights, values);
    const cadre_slot_run_t run = {.program = self->program,
                                  .arguments = self->batch,
                                  .argument_count = COLUMNS,
                                  .variables = values,
                                  .seed = self->step++,
                                  .gradients = gradients,
                                  .results = &loss};
    int status = cadre_slot_run(self->slot, &run);
    if (status == 0) {
        cadre_bench_weights_apply(self->weights, set, self->gradients);
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
        const int64_t step = self->parts * self->network->batch;
        for (int64_t first = self->part * self->network->batch; first < rows; first += step) {
            int64_t count = cadre_min_i64(rows - first, self->network->batch);
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

static void *
run_loop(void *context)
{
    cadre_bench_mlp_t *self = context;
    self->status = cadre_bench_mlp_train(self, self->epochs, &self->examples);
    return NULL;
}

int
cadre_bench_mlp_train_all(cadre_bench_mlp_t **loops, int count, int epochs, int64_t *examples)
{
    pthread_t *threads = cadre_calloc((size_t)count, sizeof(*threads));
    int started = 1; /* the first loop is this thread's */
    for (int i = 0; i < count; i++) {
        loops[i]->epochs = epochs;
    }
    while (started < count &&
           pthread_create(&threads[started], NULL, run_loop, loops[started]) == 0) {
        started++;
    }
    run_loop(loops[0]);

    int status = 0;
    *examples = 0;
    for (int i = 0; i < started; i++) {
        if (i > 0) {
            pthread_join(threads[i], NULL);
        }
        status = status < 0 ? status : loops[i]->status;
        *examples += loops[i]->examples;
    }
    free(threads);
    return started == count ? status : cadre_fail(CADRE_EIO, "a thread cannot be started");
}

int
cadre_bench_mlp_each(cadre_bench_t *bench, const cadre_bench_epochs_t *epochs,
                     cadre_bench_network_measure_t *measure)
{
    cadre_auto(cadre_free) char *digits = cadre_bench_mlp_csv(bench->digits);
    int status = measure(bench, &cadre_bench_digits,
                         cadre_bench_amount(bench, epochs->digits, epochs->digits / 10), digits);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_free) char *wide = NULL;
    status = cadre_bench_mlp_write_rows(bench->socket_directory, ROWS_WIDE, &wide);
    if (status == 0) {
        status =
            measure(bench, &cadre_bench_wide, cadre_bench_amount(bench, epochs->wide, 1), wide);
    }
    cadre_bench_mlp_remove_rows(bench->socket_directory);
    return status;
}
