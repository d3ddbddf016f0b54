/*
 * network - the layers of a model as nodes of a program, and the variables that they need.
 *
 * Layers are added one by one to the program's nodes; each is named by its place in the messages of
 * the builder ("layer 3 (conv2d): ..."). Variables are numbered by layers that have any, from 1:
 *
 *     dense, conv1d, conv2d  w<i>, b<i>
 *     layer_norm     scale<i>, shift<i>
 *     batch_norm     the same, and mean<i>, variance<i>: running averages, which are not trained
 *     positions      positions<i>
 *     embedding      table<i>
 *     gru            kernel<i>, recurrent<i>, b<i>
 *     lstm           kernel<i>, recurrent<i>, b<i> of all gates but forget<i>
 *     transformer    scale_a<i>, shift_a<i>, query<i>, key<i>, value<i>, out<i>, and
 *                    scale_b<i>, shift_b<i>, w_a<i>, b_a<i>, w_b<i>, b_b<i>
 *
 * Weights before a relu or gelu begin as He, others as Glorot; biases and shifts as zeros, scales
 * and variances as ones; tables uniformly in -0.05 to 0.05, as Keras' Embedding does.
 *
 * Owner:   whoever builds the program.
 * Thread:  one at a time.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_NETWORK_H
#define CADRE_COORDINATOR_CLI_TRAIN_NETWORK_H

#include <cadre/program.h>
#include <stddef.h>

#include "common/graph/extent.h"
#include "coordinator/cli/train/layer.h"

enum {
    CADRE_NETWORK_VARIABLES_MAX = 256,
    CADRE_NETWORK_NAME_SIZE = 32,
    CADRE_NETWORK_LAYERS_MAX = 128,
};

typedef enum {
    CADRE_ROLE_WEIGHT = 0, /* counts for the penalties l1 and l2 */
    CADRE_ROLE_OTHER,      /* biases, scales, shifts, positions, tables */
    CADRE_ROLE_AVERAGE,    /* pushed as the difference to a batch's, with the optimizer sgd */
} cadre_network_role_t;

typedef struct {
    char name[CADRE_NETWORK_NAME_SIZE];
    int rank;
    int64_t shape[CADRE_PROGRAM_RANK_MAX];
    const char *initializer; /* as cadre_initializer_named takes it */
    double value;            /* value for the initializer "constant" */
    cadre_network_role_t role;
    cadre_dtype_t wire; /* dtype in which its values travel between workers and ps */
    bool trainable;     /* else nothing is pushed to it */
    double l1;          /* penalties of a weight; below 0: those of the model */
    double l2;
    cadre_node_t node;
} cadre_network_variable_t;

/* What a layer, or nobody, has made of the rows. */
typedef struct {
    cadre_node_t node; /* empty after a mistake */
    bool plain;        /* numbers of the rows as they came, which ids must be */
} cadre_network_value_t;

typedef struct {
    cadre_program_t *program;
    cadre_node_t x; /* what the last layer so far makes of the rows; empty after a mistake */
    bool plain;     /* of x: numbers of the rows as they came, which ids must be */
    bool training;
    const char *suffix;          /* of the names of variables that are trained; NULL: none */
    cadre_dtype_t wire;          /* in which variables of layers that do not say travel */
    cadre_dtype_t layer_wire;    /* in which those of the layer being added do */
    const cadre_layer_t *layer;  /* the layer that is being added */
    int layer_count;             /* added so far */
    cadre_node_t row;            /* all numbers of the rows, as they came */
    cadre_network_value_t input; /* the same in the shape that the model gives them */
    cadre_network_value_t made[CADRE_NETWORK_LAYERS_MAX]; /* by each layer */
    int number;                                           /* of the last one with variables */
    cadre_network_variable_t variables[CADRE_NETWORK_VARIABLES_MAX];
    size_t variable_count;
    bool overfull; /* more than CADRE_NETWORK_VARIABLES_MAX variables were asked for */
    /* Name of the layers in messages, before an index from 0: "model.layers" for
     * "model.layers[0]"; NULL: "layers". */
    const char *list;
    int status; /* of a layer that cannot follow the one before it; 0: none so far */
    char text[CADRE_EXTENTS_TEXT_SIZE + 256]; /* the message for `status` */
} cadre_network_t;

/* Begins with the rows `x` of `features` numbers, in the shape `input`, of which there may be none.
 * CADRE_ECONFIG when that has another number of elements. */
int cadre_network_begin(cadre_network_t *self, int64_t features, const int64_t *input, size_t rank);

/* Adds a layer of what it takes (layer_links.h). cadre_network_end tells of mistakes. */
void cadre_network_add(cadre_network_t *self, const cadre_layer_t *layer);

/* The last layer, dense, of `width` outputs. CADRE_ECONFIG when a row is not one row of numbers,
 * when there are too many variables, and for a layer that cannot be where it is; other mistakes of
 * the program are its own. */
int cadre_network_end(cadre_network_t *self, int64_t width);

#endif
