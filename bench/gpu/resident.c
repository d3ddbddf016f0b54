#include "bench/gpu/resident.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "worker/device/device.h"

struct gpu_resident {
    gpu_model_t model;
    cadre_program_t *program;
    cadre_device_t *device;
    cadre_slot_t *slot;
    void *values[2][GPU_VARIABLES_MAX];                     /* of the device; [from] is read */
    cadre_tensor_t batches[GPU_BATCHES][GPU_ARGUMENTS_MAX]; /* their data is the device's */
    int from;
    uint64_t step;
};

static size_t
variable_size_bytes(const gpu_resident_t *self, int index)
{
    return (size_t)gpu_variable_count(&self->model.variables[index]) * sizeof(float);
}

static int
make_values(gpu_resident_t *self)
{
    int status = 0;
    for (int i = 0; i < 2 * self->model.variable_count; i++) {
        int index = i / 2;
        status = cadre_device_buffer_new(self->device, variable_size_bytes(self, index),
                                         &self->values[i % 2][index]);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

static int
make_argument(gpu_resident_t *self, int batch, int index)
{
    cadre_tensor_t tensor = gpu_batch(&self->model, batch, index);
    size_t size_bytes = cadre_tensor_size_bytes(&tensor);
    void *buffer = NULL;
    int status = cadre_device_buffer_new(self->device, size_bytes, &buffer);
    if (status == 0) {
        status = cadre_device_buffer_write(self->device, buffer, tensor.data, size_bytes);
        self->batches[batch][index] = tensor;
        self->batches[batch][index].data = buffer;
    }

    cadre_tensor_fini(&tensor);
    return status;
}

static int
make_batches(gpu_resident_t *self)
{
    int status = 0;
    for (int batch = 0; batch < GPU_BATCHES; batch++) {
        for (int i = 0; i < self->model.argument_count && status == 0; i++) {
            status = make_argument(self, batch, i);
        }
    }
    return status;
}

int
gpu_resident_open(const gpu_options_t *options, gpu_resident_t **out)
{
    cadre_auto(gpu_resident_close) gpu_resident_t *self = cadre_calloc(1, sizeof(*self));
    const cadre_device_options_t device = {
        .name = options->device, .threads = options->threads, .math = options->math};
    int status = gpu_model_make(&options->size, GPU_PUSH_VALUES, &self->model, &self->program);
    if (status < 0) {
        return status;
    }

    status = cadre_device_open_with(&device, &self->device);
    if (status < 0) {
        return status;
    }

    status = cadre_slot_open(self->device, NULL, &self->slot);
    if (status < 0) {
        return status;
    }

    status = make_values(self);
    if (status < 0) {
        return status;
    }

    status = make_batches(self);
    if (status < 0) {
        return status;
    }

    status = gpu_resident_reset(self);
    if (status < 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

void
gpu_resident_close(gpu_resident_t **self_p)
{
    gpu_resident_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    cadre_slot_close(&self->slot);
    for (int i = 0; i < self->model.variable_count && self->device; i++) {
        cadre_device_buffer_free(self->device, self->values[0][i]);
        cadre_device_buffer_free(self->device, self->values[1][i]);
    }

    for (int i = 0; i < self->model.argument_count && self->device; i++) {
        for (int batch = 0; batch < GPU_BATCHES; batch++) {
            cadre_device_buffer_free(self->device, self->batches[batch][i].data);
        }
    }

    cadre_device_close(&self->device);
    cadre_program_destroy(&self->program);
    free(self);
}

const char *
gpu_resident_device_name(const gpu_resident_t *self)
{
    return cadre_device_name(self->device);
}

int
gpu_resident_reset(void *context)
{
    gpu_resident_t *self = context;
    int status = 0;

    self->step = 0;
    self->from = 0;
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < self->model.variable_count; i++) {
        cadre_auto(cadre_free) float *values = gpu_first_values(&self->model, i);
        status = cadre_device_buffer_write(self->device, self->values[0][i], values,
                                           variable_size_bytes(self, i));
        if (status < 0) {
            return status;
        }
    }

    return 0;
}

/* The push of each variable is its next value. */
static int
train_step(gpu_resident_t *self, float *loss)
{
    void *next[GPU_VARIABLES_MAX];
    const void *now[GPU_VARIABLES_MAX];
    cadre_tensor_t result = {.data = NULL};

    for (int i = 0; i < self->model.variable_count; i++) {
        now[i] = self->values[self->from][i];
        next[i] = self->values[!self->from][cadre_program_push(self->program, i)->variable];
    }

    const cadre_slot_run_t run = {.program = self->program,
                                  .arguments = self->batches[self->step % GPU_BATCHES],
                                  .argument_count = self->model.argument_count,
                                  .variables = now,
                                  .seed = self->step,
                                  .gradients = next,
                                  .results = &result,
                                  .resident = true};
    int status = cadre_slot_run(self->slot, &run);
    if (status == 0) {
        *loss = *(const float *)result.data;
        self->from = !self->from;
        self->step++;
    }

    cadre_tensor_fini(&result);
    return status;
}

int
gpu_resident_train(void *context, int steps, float *losses)
{
    gpu_resident_t *self = context;
    int status = 0;
    for (int i = 0; i < steps; i++) {
        float loss = 0;
        status = train_step(self, losses ? &losses[i] : &loss);
        if (status < 0) {
            return status;
        }
    }

    return 0;
}
