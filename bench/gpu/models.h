/*
 * models - the two models of bench/gpu, with their first values and their batches, the same in
 * every way of training them.
 *
 *     mlp   1024 - W - W - W - 1, relu, mean squared error
 *     dlrm  13 - 512 - 256 - 64 beside 26 tables [R, 64], the products of all pairs of the 27
 *           vectors, then 415 - 512 - 256 - 1, sigmoid cross entropy (Naumov and others 2019)
 *
 * Both by plain gradient steps. Numbers are random ones of fixed seeds.
 *
 * Owner and thread: main.
 */
#ifndef CADRE_BENCH_GPU_MODELS_H
#define CADRE_BENCH_GPU_MODELS_H

#include <cadre/program.h>
#include <stdio.h>

#include "worker/device/blas.h"

enum {
    GPU_VARIABLES_MAX = 48,
    GPU_ARGUMENTS_MAX = 28,
    GPU_PRODUCTS_MAX = 32,
    GPU_BATCHES = 2, /* in turn */
    GPU_NAME_SIZE = 16,
};

/* How large a model is. */
typedef struct {
    const char *model;
    int64_t batch;
    int64_t width; /* W */
    int64_t rows;  /* R */
} gpu_size_t;

typedef struct {
    char name[GPU_NAME_SIZE];
    int rank;
    int64_t shape[2];
    float deviation; /* of its first values, which are normal; 0: zeros */
} gpu_variable_t;

typedef struct {
    char name[GPU_NAME_SIZE];
    cadre_dtype_t dtype;
    int rank;
    int64_t shape[2];
    int64_t range; /* of i32: 0 to below it; of f32: 0 normal, 1 either 0 or 1 */
} gpu_argument_t;

typedef struct {
    const char *name;
    float rate; /* of its gradient steps */
    gpu_variable_t variables[GPU_VARIABLES_MAX];
    int variable_count;
    gpu_argument_t arguments[GPU_ARGUMENTS_MAX];
    int argument_count;
    cadre_blas_product_t products[GPU_PRODUCTS_MAX]; /* of matrices, in one step */
    int repeats[GPU_PRODUCTS_MAX];                   /* as a batch of so many */
    int product_count;
} gpu_model_t;

/* What a step pushes. */
typedef enum {
    GPU_PUSH_GRADIENTS, /* for a ps, which applies them */
    GPU_PUSH_VALUES,    /* the variables after a gradient step */
} gpu_push_t;

/* Describes the model and makes a program of one step, with the result "loss"; its variables and
 * arguments are in the model's order. CADRE_EINVALID for a model or size that is none. */
int gpu_model_make(const gpu_size_t *size, gpu_push_t push, gpu_model_t *model,
                   cadre_program_t **out);

int64_t gpu_variable_count(const gpu_variable_t *variable);

/* The first values of variable `index`, which the caller frees. */
float *gpu_first_values(const gpu_model_t *model, int index);

/* Argument `index` of batch `batch`, which the caller ends. */
cadre_tensor_t gpu_batch(const gpu_model_t *model, int batch, int index);

/* Operations of all matrix products of a step: 2 per multiplication. */
double gpu_model_operations(const gpu_model_t *model);

#endif
