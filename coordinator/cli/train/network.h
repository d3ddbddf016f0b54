/*
 * network - the layers of a model as nodes of a program, and the variables that they need.
 *
 * Layers are added one by one; messages name a layer by its position ("model.layers[3] (conv2d)").
 * Names of variables end in <i>, the number of their layer among the layers with variables, from 1:
 *
 *     dense, conv1d, conv2d  w<i>, b<i>
 *     layer_norm     scale<i>, shift<i>
 *     batch_norm     scale<i>, shift<i>, and the running averages mean<i>, variance<i>, not trained
 *     positions      positions<i>
 *     embedding, embedding_bag  table<i>
 *     factorization_machine     w<i>, b<i>, v<i>; without "linear" v<i> alone
 *     gru            kernel<i>, recurrent<i>, b<i>
 *     lstm           kernel<i>, recurrent<i>, b<i> of all gates but forget<i>
 *     candidates     candidates<i>, and seen<i>, how often each was trained on
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

/* Learning rate of the running averages of batch_norm: each closure moves them by this fraction
 * towards the moments of its batch. */
#define CADRE_NETWORK_AVERAGE_RATE 0.1

typedef enum {
    CADRE_ROLE_WEIGHT = 0, /* counts for the penalties l1 and l2 */
    CADRE_ROLE_OTHER,      /* biases, scales, shifts, positions, tables */
    CADRE_ROLE_AVERAGE,    /* a running average of batch_norm, or the count of candidates: SGD, with
                              `drift` as the gradient */
} cadre_network_role_t;

typedef struct {
    char name[CADRE_NETWORK_NAME_SIZE];
    int rank;
    int64_t shape[CADRE_PROGRAM_RANK_MAX];
    const char *initializer; /* as cadre_initializer_named takes it */
    double value;            /* value for the initializer "constant" */
    cadre_network_role_t role;
    cadre_dtype_t wire; /* dtype in which its values travel between workers and ps */
    bool trainable;     /* false: nothing is pushed to it */
    double l1;          /* penalties of a weight; below 0: those of the model */
    double l2;
    /* `table.is_table`: it is a table, with rows of shape[1] numbers; shape[0] is that which
     * programs have it in. */
    cadre_layer_table_t table;
    cadre_node_t node;  /* its value: as pulled, or after local steps */
    cadre_node_t drift; /* of a running average: its value less that of the batch; else empty */
} cadre_network_variable_t;

/* The output of a layer, or the rows themselves. */
typedef struct {
    cadre_node_t node; /* empty after a mistake */
    bool plain;        /* holds numbers of the rows unchanged, as an embedding needs */
} cadre_network_value_t;

typedef struct {
    cadre_program_t *program;
    cadre_node_t x;     /* output of the last layer so far; empty after a mistake */
    bool plain;         /* whether x holds numbers of the rows unchanged (cadre_network_value_t) */
    bool training;      /* the program trains, else it evaluates */
    const char *suffix; /* ends the names of variables that are trained; NULL: none */
    cadre_dtype_t wire; /* dtype of messages for variables of layers without their own */
    cadre_dtype_t layer_wire;    /* dtype of messages for variables of the layer being added */
    const cadre_layer_t *layer;  /* the layer that is being added */
    int layer_count;             /* layers added so far */
    cadre_node_t row;            /* the rows as they came: [B, features] */
    cadre_network_value_t input; /* the rows in the shape of model.input */
    cadre_network_value_t made[CADRE_NETWORK_LAYERS_MAX]; /* [layer_count] output of each layer */
    int number;                                           /* layers with variables so far */
    cadre_network_variable_t variables[CADRE_NETWORK_VARIABLES_MAX];
    size_t variable_count;
    size_t known_count; /* how many variables an earlier local step has added */
    cadre_dim_t batch;  /* rows of x; zeroed: the symbol "B" */
    bool overfull;      /* more than CADRE_NETWORK_VARIABLES_MAX variables were asked for */
    /* Name of the layers in messages, before an index from 0: "model.layers" for
     * "model.layers[0]"; NULL: "layers". */
    const char *list;
    int status; /* CADRE_ECONFIG after a layer that does not fit its inputs; 0: all fit so far */
    char text[CADRE_EXTENTS_TEXT_SIZE + 256]; /* the message for `status` */
} cadre_network_t;

/* Begins with the rows self->x of `features` numbers. With a `rank` above 0 rows get the shape
 * `input`. Fails with CADRE_ECONFIG when that shape has another number of elements. */
int cadre_network_begin(cadre_network_t *self, int64_t features, const int64_t *input, size_t rank);

/* Goes back before the first layer, for another local step in the same program, over the `batch`
 * rows `x`. The layers are added again, and take the variables of the step before, with the values
 * (nodes) that these have by now. Then cadre_network_begin has to be called. */
void cadre_network_rewind(cadre_network_t *self, cadre_node_t x, cadre_dim_t batch);

/* Adds a layer over its inputs (layer_links.h). A mistake is reported by cadre_network_end. */
void cadre_network_add(cadre_network_t *self, const cadre_layer_t *layer);

/* Adds the last layer, which is dense with `width` outputs. Fails with CADRE_ECONFIG when the layer
 * before it does not give one list of numbers for each row, when there are too many variables, and
 * when an earlier layer did not fit its inputs; other mistakes are reported when the program is
 * finished. */
int cadre_network_end(cadre_network_t *self, int64_t width);

/* The variables of a model that ends with candidates (candidates.h). */
typedef struct {
    int64_t count;      /* of candidates */
    bool corrected;     /* a program that trains has `seen` */
    cadre_node_t table; /* candidates<i> [count, units of the last layer] */
    cadre_node_t seen;  /* seen<i> [count, 1]: how often each was trained on; else empty */
} cadre_network_candidates_t;

/* Adds the variables of candidates, of which `count` and `corrected` are given. Fails as
 * cadre_network_end. */
int cadre_network_end_candidates(cadre_network_t *self, cadre_network_candidates_t *candidates);

/* Sets what is pushed to a variable with the role of a running average, which then moves by
 * CADRE_NETWORK_AVERAGE_RATE times that, downward. */
void cadre_network_set_drift(cadre_network_t *self, cadre_node_t variable, cadre_node_t drift);

/* Adds the whole of a model over rows of items (data_spec.h) or, where `lookup` has fields, over
 * rows of an id for each: a linear one with `outputs` outputs, w1 [ids, outputs] and b1 [outputs]
 * or, with units in `lookup`, a factorization machine, with v1 [ids, units] beside them, or alone
 * where it is not `linear`, and one output (cadre_op_factorization_machine). Weights begin as
 * zeros, vectors as tables do. Fails with CADRE_ECONFIG when the rows are others. `lookup`: a layer
 * of the type factorization_machine. */
int cadre_network_end_items(cadre_network_t *self, const cadre_layer_t *lookup, int64_t outputs);

#endif
