/*
 * op - the operations a program is made of: names, numbers on the wire, attributes.
 *
 * A number never changes its meaning. Ranges are kept free so that later ops stand beside their
 * kin. Every op has the same shape of description: inputs, up to CADRE_OP_ATTRIBUTES_MAX integer
 * attributes, and for some the shape of the result.
 */
#ifndef CADRE_COMMON_GRAPH_OP_H
#define CADRE_COMMON_GRAPH_OP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CADRE_OP_INPUTS_MAX = 32,
    CADRE_OP_ATTRIBUTES_MAX = 4,
};

/* name, number, text, inputs at least, inputs at most, attributes, carries the result's shape */
#define CADRE_OP_LIST(X)                                                                           \
    X(ARG, 1, "arg", 0, 0, 1, false)                                                               \
    X(VAR, 2, "var", 0, 0, 1, false)                                                               \
    X(CONST, 3, "const", 0, 0, 1, false)                                                           \
    X(MATMUL, 16, "matmul", 2, 2, 2, false)                                                        \
    X(MAP1, 17, "map1", 1, 1, 1, false)                                                            \
    X(MAP2, 18, "map2", 2, 2, 1, false)                                                            \
    X(WHERE, 19, "where", 3, 3, 0, false)                                                          \
    X(REDUCE, 20, "reduce", 1, 1, 3, false)                                                        \
    X(BROADCAST, 21, "broadcast", 1, 1, 1, true)                                                   \
    X(RESHAPE, 32, "reshape", 1, 1, 0, true)                                                       \
    X(TRANSPOSE, 33, "transpose", 1, 1, 4, false)                                                  \
    X(CONCAT, 34, "concat", 1, CADRE_OP_INPUTS_MAX, 1, false)                                      \
    X(SLICE, 35, "slice", 1, 1, 3, false)                                                          \
    X(PAD, 36, "pad", 1, 1, 3, false)                                                              \
    X(TAKE, 48, "take", 2, 2, 0, false)                                                            \
    X(SCATTER, 49, "scatter", 2, 2, 0, true)                                                       \
    X(BAG, 50, "bag", 3, 4, 1, false)                                                              \
    X(BAG_GRAD, 51, "bag_grad", 3, 4, 2, true)                                                     \
    X(SOFTMAX, 64, "softmax", 1, 1, 1, false)                                                      \
    X(XENT, 65, "xent", 2, 2, 0, false)                                                            \
    X(XENT_GRAD, 66, "xent_grad", 3, 3, 0, false)                                                  \
    X(ROWNORM, 67, "rownorm", 1, 1, 1, false)                                                      \
    X(ROWNORM_GRAD, 68, "rownorm_grad", 2, 2, 1, false)                                            \
    X(CAST, 80, "cast", 1, 1, 1, false)                                                            \
    X(RAND, 81, "rand", 0, 0, 1, true)                                                             \
    X(DETACH, 82, "detach", 1, 1, 0, false)                                                        \
    X(IM2COL, 96, "im2col", 1, 1, 4, false)                                                        \
    X(COL2IM, 97, "col2im", 1, 1, 4, true)

typedef enum {
#define CADRE_OP_ENUM(name, number, text, inputs_min, inputs_max, attributes, shape)               \
    CADRE_OP_##name = number,
    CADRE_OP_LIST(CADRE_OP_ENUM)
#undef CADRE_OP_ENUM
} cadre_op_t;

/* The function of MAP1, its attribute 0. */
#define CADRE_MAP1_LIST(X)                                                                         \
    X(NEG, 1, "neg")                                                                               \
    X(EXP, 2, "exp")                                                                               \
    X(LOG, 3, "log")                                                                               \
    X(SQRT, 4, "sqrt")                                                                             \
    X(RSQRT, 5, "rsqrt")                                                                           \
    X(RECIP, 6, "recip")                                                                           \
    X(SQUARE, 7, "square")                                                                         \
    X(ABS, 8, "abs")                                                                               \
    X(SIGN, 9, "sign")                                                                             \
    X(STEP, 10, "step")                                                                            \
    X(RELU, 11, "relu")                                                                            \
    X(SIGMOID, 12, "sigmoid")                                                                      \
    X(TANH, 13, "tanh")                                                                            \
    X(GELU, 14, "gelu")                                                                            \
    X(DGELU, 15, "dgelu")                                                                          \
    X(SOFTPLUS, 16, "softplus")

typedef enum {
#define CADRE_MAP1_ENUM(name, number, text) CADRE_MAP1_##name = number,
    CADRE_MAP1_LIST(CADRE_MAP1_ENUM)
#undef CADRE_MAP1_ENUM
} cadre_map1_t;

/* The function of MAP2, its attribute 0. */
#define CADRE_MAP2_LIST(X)                                                                         \
    X(ADD, 1, "add")                                                                               \
    X(SUB, 2, "sub")                                                                               \
    X(MUL, 3, "mul")                                                                               \
    X(DIV, 4, "div")                                                                               \
    X(MAX, 5, "max")                                                                               \
    X(MIN, 6, "min")                                                                               \
    X(GT, 7, "gt")                                                                                 \
    X(EQ, 8, "eq")

typedef enum {
#define CADRE_MAP2_ENUM(name, number, text) CADRE_MAP2_##name = number,
    CADRE_MAP2_LIST(CADRE_MAP2_ENUM)
#undef CADRE_MAP2_ENUM
} cadre_map2_t;

/* The function of REDUCE, its attribute 0. */
#define CADRE_REDUCE_LIST(X)                                                                       \
    X(SUM, 1, "sum")                                                                               \
    X(MEAN, 2, "mean")                                                                             \
    X(MAX, 3, "max")                                                                               \
    X(ARGMAX, 4, "argmax")

typedef enum {
#define CADRE_REDUCE_ENUM(name, number, text) CADRE_REDUCE_##name = number,
    CADRE_REDUCE_LIST(CADRE_REDUCE_ENUM)
#undef CADRE_REDUCE_ENUM
} cadre_reduce_t;

/* What the attributes of the other ops mean, by index. */
enum {
    CADRE_LEAF_INDEX = 0, /* ARG, VAR, CONST: place in the program's table */

    CADRE_MATMUL_TRANSPOSE_LEFT = 0,
    CADRE_MATMUL_TRANSPOSE_RIGHT = 1,

    CADRE_FUNCTION = 0, /* MAP1, MAP2, REDUCE */
    /* REDUCE over the neighbouring axes begin..end-1, which disappear. */
    CADRE_REDUCE_BEGIN = 1,
    CADRE_REDUCE_END = 2,

    /* BROADCAST: 1 divides each value by the number of its copies (the adjoint of a mean). */
    CADRE_BROADCAST_SHARE = 0,

    /* TRANSPOSE: attribute i is the input's axis that becomes axis i; unused ones are 0. */

    CADRE_AXIS = 0,         /* CONCAT, SLICE, PAD */
    CADRE_SLICE_BEGIN = 1,  /* in units of the axis' symbol, if it has one */
    CADRE_SLICE_LENGTH = 2, /* likewise */
    CADRE_PAD_BEFORE = 1,   /* likewise */
    CADRE_PAD_AFTER = 2,    /* likewise */

    CADRE_BAG_MODE = 0, /* BAG, BAG_GRAD: a cadre_bag_mode_t */
    /* BAG_GRAD: 0 is the gradient of the table, 1 that of the weights. */
    CADRE_BAG_GRAD_OF_WEIGHTS = 1,

    CADRE_SOFTMAX_LOG = 0,
    CADRE_ROWNORM_EPS = 0, /* ROWNORM, ROWNORM_GRAD: the bits of an f32, see cadre_op_float */
    CADRE_CAST_DTYPE = 0,
    CADRE_RAND_STREAM = 0, /* tells the RAND nodes of a program apart */

    /* IM2COL, COL2IM over [batch, height, width, channels]; padding is zeros, alike on all sides.
     */
    CADRE_IMAGE_HEIGHT = 0, /* of the kernel, as its width */
    CADRE_IMAGE_WIDTH = 1,
    CADRE_IMAGE_STRIDE = 2,
    CADRE_IMAGE_PADDING = 3,
    CADRE_IMAGE_ATTRIBUTE_MAX = 1 << 16, /* of each */
};

typedef struct {
    const char *text;
    int inputs_min;
    int inputs_max;
    int attributes;
    bool carries_shape;
} cadre_op_info_t;

/* NULL for a number that is no op. */
const cadre_op_info_t *cadre_op_info(uint64_t number);

/* The word for messages: the function's name for MAP1, MAP2 and REDUCE, otherwise the op's. */
const char *cadre_op_text(cadre_op_t op, int64_t function);

/* A number as an attribute: the bits of an f32. `is` is false for what are no bits of a finite one.
 */
bool cadre_op_is_float(int64_t attribute);
float cadre_op_float(int64_t attribute);
int64_t cadre_op_float_bits(float number);

bool cadre_map1_valid(int64_t function);
bool cadre_map2_valid(int64_t function);
bool cadre_reduce_valid(int64_t function);

#endif
