/*
 * random_layers - layers drawn from a seed, for tests of what goes with a matrix product: with and
 * without bias, relu and other functions, weights either way round, odd sizes, and what looks like
 * a layer and is none.
 */
#ifndef CADRE_TESTS_WORKER_DEVICE_RANDOM_LAYERS_H
#define CADRE_TESTS_WORKER_DEVICE_RANDOM_LAYERS_H

#include <stdio.h>

#include "common/base/random.h"
#include "common/graph/program.h"

enum { RANDOM_LAYERS_MAX = 4 };

typedef struct {
    cadre_program_t *p;
    uint64_t seed;
    uint64_t drawn;
    int64_t rows;
    int64_t width; /* of what the next layer takes */
    int variables;
    int results;
} random_layers_t;

static inline int
random_layers_draw(random_layers_t *self, int count)
{
    return (int)(cadre_random_uniform(self->seed, 17, self->drawn++) * (float)count) % count;
}

static inline cadre_node_t
random_layers_variable(random_layers_t *self, const int64_t *shape, int rank)
{
    char name[16];
    snprintf(name, sizeof(name), "v%d", self->variables++);
    cadre_node_t variable = cadre_op_var(self->p, name, shape, rank);
    bool frozen = self->variables > 1 && random_layers_draw(self, 8) == 0;
    return frozen ? cadre_op_detach(self->p, variable) : variable;
}

static inline void
random_layers_result(random_layers_t *self, cadre_node_t node)
{
    char name[16];
    snprintf(name, sizeof(name), "r%d", self->results++);
    cadre_op_result(self->p, name, node);
}

static inline cadre_node_t
random_layers_bias(random_layers_t *self, cadre_node_t z, int64_t width)
{
    cadre_program_t *p = self->p;
    switch (random_layers_draw(self, 8)) {
    case 0:
        return z;
    case 1:
        return cadre_op_add(p, random_layers_variable(self, (int64_t[]){1, width}, 2), z);
    case 2: { /* computed, in memory that may end here */
        cadre_node_t bias = cadre_op_neg(p, random_layers_variable(self, (int64_t[]){1, width}, 2));
        return random_layers_draw(self, 2) == 0 ? cadre_op_add(p, z, bias)
                                                : cadre_op_add(p, bias, z);
    }
    case 3: /* no bias */
        return cadre_op_add(p, z, random_layers_variable(self, (int64_t[]){self->rows, 1}, 2));
    case 4: /* seen in another shape */
        z = cadre_op_reshape(
            p, z, (cadre_dim_t[]){cadre_dim(self->rows), cadre_dim(1), cadre_dim(width)}, 3);
        z = cadre_op_relu(p, cadre_op_add(p, z, random_layers_variable(self, &width, 1)));
        return cadre_op_reshape(p, z, (cadre_dim_t[]){cadre_dim(self->rows), cadre_dim(width)}, 2);
    default:
        return cadre_op_add(p, z, random_layers_variable(self, &width, 1));
    }
}

static inline cadre_node_t
random_layers_function(random_layers_t *self, cadre_node_t z)
{
    cadre_program_t *p = self->p;
    switch (random_layers_draw(self, 8)) {
    case 0:
        return z;
    case 1:
        return cadre_op_tanh(p, z);
    case 2: /* what relu reads is needed itself */
        random_layers_result(self, z);
        return cadre_op_relu(p, z);
    case 3: {
        cadre_node_t h = cadre_op_relu(p, z);
        return cadre_op_add(p, h, cadre_op_square(p, h)); /* it is read twice */
    }
    case 4:
        return cadre_op_dropout(p, cadre_op_relu(p, z), 0.3F, 1);
    default:
        return cadre_op_relu(p, z);
    }
}

/* Reductions of what goes into a product: one of four is a sum of rows. */
static inline void
random_layers_reductions(random_layers_t *self, cadre_node_t x)
{
    cadre_program_t *p = self->p;
    switch (random_layers_draw(self, 12)) {
    case 0:
        random_layers_result(self, cadre_op_sum(p, x, 0));
        break;
    case 1:
        random_layers_result(self, cadre_op_mean(p, x, 0));
        break;
    case 2:
        random_layers_result(self, cadre_op_sum(p, x, 1));
        break;
    case 3:
        random_layers_result(self, cadre_op_sum_all(p, x));
        break;
    default:
        break;
    }
}

/* What a gradient by a relu looks like, of a step that somebody else may read, too. */
static inline cadre_node_t
random_layers_masked(random_layers_t *self, cadre_node_t h)
{
    cadre_program_t *p = self->p;
    cadre_node_t above = cadre_op_step(p, h);
    cadre_node_t square = random_layers_variable(self, (int64_t[]){self->width, self->width}, 2);
    if (random_layers_draw(self, 2) == 0) {
        random_layers_result(self, above);
    }
    cadre_node_t z = cadre_op_matmul(p, h, square);
    return random_layers_draw(self, 2) == 0 ? cadre_op_mul(p, z, above) : cadre_op_mul(p, above, z);
}

static inline cadre_node_t
random_layers_layer(random_layers_t *self, cadre_node_t h)
{
    static const int64_t widths[] = {1, 2, 3, 5, 8, 17, 130};
    int64_t width = widths[random_layers_draw(self, 7)];
    bool flip = random_layers_draw(self, 3) == 0;
    int64_t shape[] = {flip ? width : self->width, flip ? self->width : width};
    cadre_node_t weight = random_layers_variable(self, shape, 2);
    random_layers_reductions(self, h);
    random_layers_reductions(self, weight);
    cadre_node_t z = cadre_op_matmul_transposed(self->p, h, 0, weight, flip);
    self->width = width;
    h = random_layers_function(self, random_layers_bias(self, z, width));
    return random_layers_draw(self, 6) == 0 ? random_layers_masked(self, h) : h;
}

/* Layers over x [rows,width], a loss, its gradients by all variables, and results, not finished. */
static inline void
random_layers(cadre_program_t *p, cadre_node_t x, int64_t rows, int64_t width, uint64_t seed)
{
    random_layers_t self = {.p = p, .seed = seed, .rows = rows, .width = width};
    int count = 1 + random_layers_draw(&self, RANDOM_LAYERS_MAX);
    cadre_node_t h = x;
    for (int i = 0; i < count; i++) {
        h = random_layers_layer(&self, h);
    }
    if (random_layers_draw(&self, 3) == 0) {
        random_layers_result(&self, h);
    }
    /* Gradients of both signs, and none that is the same for all. */
    cadre_node_t loss = cadre_op_mean_all(
        p, cadre_op_square(p, cadre_op_sub(p, cadre_op_tanh(p, h), cadre_op_const_f32(p, 0.25F))));
    cadre_op_minimize(p, loss);
    random_layers_result(&self, loss);
}

#endif
