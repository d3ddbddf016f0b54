#include "bench/gpu/dump.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"

static int
write_file(const char *folder, const char *name, const void *bytes, size_t size_bytes)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(bytes, 1, size_bytes, file) == size_bytes;
    written = (!file || fclose(file) == 0) && written;
    return written ? 0 : cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
}

static int
write_numbers(const gpu_model_t *model, const char *folder)
{
    char name[32];
    int status = 0;
    for (int i = 0; i < model->variable_count && status == 0; i++) {
        cadre_auto(cadre_free) float *values = gpu_first_values(model, i);
        snprintf(name, sizeof(name), "v%d", i);
        status = write_file(folder, name, values,
                            (size_t)gpu_variable_count(&model->variables[i]) * sizeof(float));
    }

    for (int i = 0; i < GPU_BATCHES * model->argument_count && status == 0; i++) {
        int batch = i / model->argument_count;
        int argument = i % model->argument_count;
        cadre_tensor_t tensor = gpu_batch(model, batch, argument);
        snprintf(name, sizeof(name), "b%d_%d", batch, argument);
        status = write_file(folder, name, tensor.data, cadre_tensor_size_bytes(&tensor));
        cadre_tensor_fini(&tensor);
    }

    return status;
}

static void
print_shape(FILE *file, const int64_t shape[2], int rank)
{
    fprintf(file, rank > 1 ? "[%" PRId64 ", %" PRId64 "]" : "[%" PRId64 "]", shape[0], shape[1]);
}

static void
print_model(FILE *file, const gpu_model_t *model, const gpu_size_t *size)
{
    fprintf(file, "{\"model\": \"%s\", \"batch\": %" PRId64 ", \"batches\": %d, \"rate\": %.9g,\n",
            model->name, size->batch, GPU_BATCHES, (double)model->rate);
    fprintf(file, " \"operations\": %.0f,\n \"variables\": [", gpu_model_operations(model));
    for (int i = 0; i < model->variable_count; i++) {
        fprintf(file, i ? ", " : "");
        print_shape(file, model->variables[i].shape, model->variables[i].rank);
    }

    fprintf(file, "],\n \"arguments\": [");
    for (int i = 0; i < model->argument_count; i++) {
        const gpu_argument_t *argument = &model->arguments[i];
        fprintf(file, "%s{\"dtype\": \"%s\", \"shape\": ", i ? ", " : "",
                argument->dtype == CADRE_I32 ? "i32" : "f32");
        print_shape(file, argument->shape, argument->rank);
        fprintf(file, "}");
    }

    fprintf(file, "]}\n");
}

int
gpu_dump(const gpu_model_t *model, const gpu_size_t *size, const char *folder)
{
    int status = write_numbers(model, folder);
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/model.json", folder);
    FILE *file = status == 0 ? fopen(path, "w") : NULL;
    if (!file) {
        return status < 0 ? status : cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }
    print_model(file, model, size);
    return fclose(file) == 0 ? 0 : cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
}
