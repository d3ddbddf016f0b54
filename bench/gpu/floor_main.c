/* cadre-bench-gpu-floor: the matrix products of a model, and nothing else (floor.h). See runner.h.
 */
#include "bench/gpu/floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu/runner.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/program.h"

typedef struct {
    gpu_model_t model;
    gpu_floor_t *floor; /* or on the CPU: */
    float *numbers[3];  /* room for the largest factors and product */
} subject_t;

static void
largest(const gpu_model_t *model, size_t sizes[3])
{
    for (int i = 0; i < model->product_count; i++) {
        const cadre_blas_product_t *product = &model->products[i];
        const size_t needed[3] = {(size_t)product->m * (size_t)product->inner,
                                  (size_t)product->inner * (size_t)product->n,
                                  (size_t)product->m * (size_t)product->n};
        for (int k = 0; k < 3; k++) {
            sizes[k] = needed[k] > sizes[k] ? needed[k] : sizes[k];
        }
    }
}

static int
train(void *context, int steps, float *losses)
{
    subject_t *self = context;
    (void)losses;
    if (self->floor) {
        return gpu_floor_run(self->floor, steps);
    }

    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < self->model.product_count; i++) {
            for (int k = 0; k < self->model.repeats[i]; k++) {
                cadre_blas_multiply(&self->model.products[i], self->numbers[0], self->numbers[1],
                                    self->numbers[2]);
            }
        }
    }

    return 0;
}

static int
open_subject(const gpu_options_t *options, subject_t *self)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *program = NULL;
    int status = gpu_model_make(&options->size, GPU_PUSH_VALUES, &self->model, &program);
    if (status < 0) {
        return status;
    }

    if (strncmp(options->device, "cuda", 4) == 0) {
        const char *colon = strchr(options->device, ':');
        const gpu_floor_work_t work = {.products = self->model.products,
                                       .repeats = self->model.repeats,
                                       .product_count = self->model.product_count,
                                       .math = options->math,
                                       .index = colon ? (int)strtol(colon + 1, NULL, 10) : 0};
        return gpu_floor_open(&work, &self->floor);
    }

    size_t sizes[3] = {0};
    largest(&self->model, sizes);
    for (int i = 0; i < 3; i++) {
        self->numbers[i] = cadre_calloc(sizes[i], sizeof(float));
    }

    status = cadre_blas_load();
    if (status == 0) {
        cadre_blas_set_threads(options->threads);
    }
    return status;
}

int
main(int argc, char **argv)
{
    gpu_options_t options;
    subject_t subject = {.floor = NULL};
    int status = gpu_options_parse(argc, argv, &options);

    status = status < 0 ? status : open_subject(&options, &subject);
    if (status == 0) {
        const gpu_runner_t runner = {.context = &subject, .train = train};
        status = gpu_runner_serve(&runner, options.device);
    }

    gpu_floor_close(&subject.floor);
    for (int i = 0; i < 3; i++) {
        free(subject.numbers[i]);
    }

    if (status < 0) {
        fprintf(stderr, "%s: %s\n", argv[0], cadre_error_text());
    }

    return status < 0;
}
