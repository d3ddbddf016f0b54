/*
 * layer - one layer of a model as a job file describes it: its type and its numbers.
 *
 * Plain data. Which keys a type of layer has, their ranges and defaults stand in one table
 * (layer.c); layer_links.h reads the names of its inputs; what it computes
 * is in network.h.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_LAYER_H
#define CADRE_COORDINATOR_CLI_TRAIN_LAYER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/cli/train/json_source.h"
#include "coordinator/cli/train/layer_table.h"

enum {
    CADRE_LAYER_WIDTH_MAX = 1 << 20, /* units of one layer */
    CADRE_LAYER_WINDOW_MAX = 1024,   /* most of kernel, stride, padding and heads */
    CADRE_LAYER_PENALTY_MAX = 1000,  /* most of l1 and l2 */
    CADRE_LAYER_IDS_MAX = 1 << 24,   /* ids of an embedding: rows hold them as f32, exact so far */
    CADRE_LAYER_FACTORS = 8,         /* of a factorization machine that does not say */
    CADRE_LAYER_FIELDS_MAX = 64,     /* columns of ids that share a table */
    CADRE_LAYER_TABLE_UNITS = 8192,  /* most numbers of a row that cadre_op_table has */
    CADRE_LAYER_AXES_MAX = 3,        /* axes of a row after a reshape, without the batch */
    CADRE_LAYER_NAME_SIZE = 32,      /* bytes of a name, with the NUL that ends it */
    CADRE_LAYER_FROM_MAX = 32,       /* inputs of one layer */
    CADRE_LAYER_ROW = -1,            /* as an input: the row itself */
};

/* The words of a list with the rows X(NAME, word), such as "relu|tanh". Each word comes with a "|"
 * before it; [1] leaves out the first one. */
#define CADRE_LIST_WORD(NAME, word) "|" #word
#define CADRE_LIST_WORDS(LIST)      (&LIST(CADRE_LIST_WORD)[1])

/* The activation functions: name, word in job files. */
#define CADRE_ACTIVATION_LIST(X)                                                                   \
    X(RELU, relu)                                                                                  \
    X(SIGMOID, sigmoid)                                                                            \
    X(TANH, tanh)                                                                                  \
    X(GELU, gelu)                                                                                  \
    X(SOFTPLUS, softplus)

typedef enum {
#define X(NAME, word) CADRE_ACTIVATION_##NAME,
    CADRE_ACTIVATION_LIST(X)
#undef X
        CADRE_ACTIVATION_NONE,
} cadre_activation_t;

#define CADRE_ACTIVATION_WORDS CADRE_LIST_WORDS(CADRE_ACTIVATION_LIST)

/* What a bag of rows becomes: their sum, mean, or sum over the root of their number; all weighted.
 * Name, word in job files. */
#define CADRE_COMBINER_LIST(X)                                                                     \
    X(SUM, sum)                                                                                    \
    X(MEAN, mean)                                                                                  \
    X(SQRTN, sqrtn)

typedef enum {
#define X(NAME, word) CADRE_COMBINER_##NAME,
    CADRE_COMBINER_LIST(X)
#undef X
} cadre_combiner_t;

/* The types of layers: name, word in job files. */
#define CADRE_LAYER_LIST(X)                                                                        \
    X(DENSE, dense)                                                                                \
    X(CONV2D, conv2d)                                                                              \
    X(MAX_POOL2D, max_pool2d)                                                                      \
    X(MEAN_POOL2D, mean_pool2d)                                                                    \
    X(FLATTEN, flatten)                                                                            \
    X(MEAN, mean)                                                                                  \
    X(ACTIVATION, activation)                                                                      \
    X(DROPOUT, dropout)                                                                            \
    X(LAYER_NORM, layer_norm)                                                                      \
    X(BATCH_NORM, batch_norm)                                                                      \
    X(POSITIONS, positions)                                                                        \
    X(TRANSFORMER, transformer)                                                                    \
    X(EMBEDDING, embedding)                                                                        \
    X(RESHAPE, reshape)                                                                            \
    X(ADD, add)                                                                                    \
    X(CONCAT, concat)                                                                              \
    X(CONV1D, conv1d)                                                                              \
    X(MAX_POOL1D, max_pool1d)                                                                      \
    X(MEAN_POOL1D, mean_pool1d)                                                                    \
    X(GRU, gru)                                                                                    \
    X(LSTM, lstm)                                                                                  \
    X(EMBEDDING_BAG, embedding_bag)                                                                \
    X(FACTORIZATION_MACHINE, factorization_machine)                                                \
    X(INTERACTION, interaction)

typedef enum {
#define X(NAME, word) CADRE_LAYER_##NAME,
    CADRE_LAYER_LIST(X)
#undef X
} cadre_layer_type_t;

typedef struct {
    cadre_layer_type_t type;
    /* Width of the output: of dense, gru, lstm; filters of conv1d, conv2d; numbers of an embedding
     * or embedding_bag for each id; factors of a factorization_machine. For transformer width of
     * the inner dense layer, 0: 4 times its input. */
    int64_t units;
    int64_t ids;        /* of layers over ids: rows of the table; ids are 0 to ids - 1 */
    int64_t size;       /* of a kernel or window along each of its axes */
    int64_t stride;     /* of a convolution or pooling; 0 for pooling: `size` */
    int64_t padding;    /* zeros on each side of a convolution */
    int64_t heads;      /* attention heads of a transformer */
    bool causal;        /* conv1d, transformer: a position sees none after it */
    bool linear;        /* factorization_machine: adds the linear model of the items */
    bool sequences;     /* gru, lstm: gives the output of every position, not of the last alone */
    double rate;        /* fraction that dropout removes; also of a transformer */
    int64_t activation; /* cadre_activation_t */
    int64_t combiner;   /* cadre_combiner_t of an embedding_bag */
    int64_t wire;       /* cadre_dtype_t of its values in messages; 0: that of the model */
    bool trainable;     /* its variables are trained, and batch_norm uses the batch */
    double l1;          /* penalty of its weights; below 0: that of the model */
    double l2;          /* penalty of its weights; below 0: that of the model */
    /* In place of `ids`: each column of the input is a field, whose ids are 0 to fields[i] - 1. The
     * table has the rows of all fields, one behind the other. In a table each column may have
     * CADRE_LAYER_IDS_MAX ids: the key of id i of column c is c CADRE_LAYER_IDS_MAX + i. */
    int64_t fields[CADRE_LAYER_FIELDS_MAX];
    size_t field_count;        /* 0: the layer has `ids`, or any in a table */
    cadre_layer_table_t table; /* of layers over ids: rows by key, and no number of ids */
    bool keys; /* of a table: ids are keys of 64 bits, CADRE_KEY_PARTS numbers of the row each */
    int64_t shape[CADRE_LAYER_AXES_MAX]; /* reshape: sizes of axes without the batch, then 0 */

    char name[CADRE_LAYER_NAME_SIZE]; /* by which later layers take its output; "": none */

    /* Inputs. Without `from` and columns: the output of the layer before, or the row for the
     * first. */
    int from[CADRE_LAYER_FROM_MAX]; /* numbers of earlier layers, or CADRE_LAYER_ROW */
    size_t from_count;
    int64_t first_column; /* position in the row as it came, before model.input shapes it */
    int64_t column_count; /* numbers of the row that are the input; 0: no columns are taken */
} cadre_layer_t;

/* Returns the type's word in job files, such as "conv2d". */
const char *cadre_layer_text(cadre_layer_type_t type);

/* Returns how many axes the rows have that a layer of the type takes, the batch counted; 0: any. */
int cadre_layer_rank(cadre_layer_type_t type);

/* Returns whether a layer of the type looks up ids. */
bool cadre_layer_takes_ids(cadre_layer_type_t type);

/* Returns a layer of the type with the defaults of its keys; members without a default are 0. */
cadre_layer_t cadre_layer_of(cadre_layer_type_t type);

/* Returns how many ids the layer's table has: `ids`, or those of all fields; CADRE_LAYER_IDS_MAX of
 * each column where they are keys of a table. */
int64_t cadre_layer_ids(const cadre_layer_t *layer);

/* Returns how many numbers of a row each id of the layer is: CADRE_KEY_PARTS of a key, else 1. */
int64_t cadre_layer_id_width(const cadre_layer_t *layer);

/* Returns how many numbers a row has after a reshape: the product of its axes. */
int64_t cadre_layer_shape_size(const cadre_layer_t *layer);

/* Reads the fields of a layer over ids, an array at `pointer`, or of a table their number. Fails
 * with CADRE_ECONFIG and the place in the file. */
int cadre_layer_read_fields(const cadre_json_source_t *source, const char *pointer,
                            const json_t *array, cadre_layer_t *layer);

/* Reads the layer at `pointer`, except its inputs (layer_links.h). Fails with CADRE_ECONFIG and the
 * place in the file. */
int cadre_layer_read(const cadre_json_source_t *source, const char *pointer, const json_t *object,
                     cadre_layer_t *layer);

#endif
