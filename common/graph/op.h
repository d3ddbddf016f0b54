/*
 * op - the operations a program is made of: names, numbers on the wire, attributes.
 *
 * A number never changes its meaning. Ranges of numbers are kept free, so that a later op can have
 * one beside similar ops. Every op is described alike: inputs, up to CADRE_OP_ATTRIBUTES_MAX
 * integer attributes, and for some ops the shape of the result.
 */
#ifndef CADRE_COMMON_GRAPH_OP_H
#define CADRE_COMMON_GRAPH_OP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CADRE_OP_INPUTS_MAX = 32,
    CADRE_OP_ATTRIBUTES_MAX = 4,
};

/* Sets of an op's inputs: bit k stands for input k. */
#define CADRE_OP_INPUT(k) (1U << (k))
#define CADRE_OP_ALL      UINT32_MAX

/*
 * The operations. A layer that does something for each of them makes a table out of these lists,
 * keyed by the op and filled with functions of its own that carry the op's word: an op that lacks
 * one does not compile. Columns:
 *
 * name, number, word, inputs at least, inputs at most, attributes, carries the result's shape,
 * where an element comes from (cadre_walk_t), the positions among its inputs (cadre_indexes_t), its
 * derivative (RULE, NONE or LAST: cadre_derivative_t), inputs to which a gradient flows, inputs
 * whose memory the result may take over
 *
 * An input may be in the last column if element i of the result depends on no other element of that
 * input than i, or, for an op along rows, if each row is written only after all of it was read.
 */

/* Leaves: values from outside, which the program lists in tables and no step computes. */
#define CADRE_OP_LEAF_LIST(X)                                                                      \
    X(ARG, 1, arg, 0, 0, 1, false, OWN, NONE, NONE, 0, 0)                                          \
    X(VAR, 2, var, 0, 0, 1, false, OWN, NONE, NONE, 0, 0)                                          \
    X(CONST, 3, const, 0, 0, 1, false, OWN, NONE, NONE, 0, 0)

/* Views: the result is the memory of the input. */
#define CADRE_OP_VIEW_LIST(X)                                                                      \
    X(RESHAPE, 32, reshape, 1, 1, 0, true, OWN, NONE, RULE, CADRE_OP_ALL, 0)                       \
    X(DETACH, 82, detach, 1, 1, 0, false, OWN, NONE, NONE, 0, 0)

/* Products of matrices, for which there are libraries. */
#define CADRE_OP_PRODUCT_LIST(X)                                                                   \
    X(MATMUL, 16, matmul, 2, 2, 2, false, OWN, NONE, RULE, CADRE_OP_ALL, 0)

/* A function of one, two or three elements at a time: several that follow each other can be
 * computed in one pass. */
#define CADRE_OP_ELEMENT_LIST(X)                                                                   \
    X(MAP1, 17, map1, 1, 1, 1, false, BROADCAST, NONE, RULE, CADRE_OP_ALL, CADRE_OP_ALL)           \
    X(MAP2, 18, map2, 2, 2, 1, false, BROADCAST, NONE, RULE, CADRE_OP_ALL, CADRE_OP_ALL)           \
    X(WHERE, 19, where, 3, 3, 0, false, BROADCAST, NONE, RULE,                                     \
      CADRE_OP_INPUT(1) | CADRE_OP_INPUT(2), CADRE_OP_ALL)

/* Kernels: all other operations. */
#define CADRE_OP_KERNEL_LIST(X)                                                                    \
    X(REDUCE, 20, reduce, 1, 1, 3, false, OWN, NONE, RULE, CADRE_OP_ALL, 0)                        \
    X(BROADCAST, 21, broadcast, 1, 1, 1, true, BROADCAST, NONE, RULE, CADRE_OP_ALL, 0)             \
    X(TRANSPOSE, 33, transpose, 1, 1, 4, false, PERMUTE, NONE, RULE, CADRE_OP_ALL, 0)              \
    X(CONCAT, 34, concat, 1, CADRE_OP_INPUTS_MAX, 1, false, OWN, NONE, RULE, CADRE_OP_ALL, 0)      \
    X(SLICE, 35, slice, 1, 1, 3, false, SLICE, NONE, RULE, CADRE_OP_ALL, 0)                        \
    X(PAD, 36, pad, 1, 1, 3, false, OWN, NONE, RULE, CADRE_OP_ALL, 0)                              \
    X(TAKE, 48, take, 2, 2, 0, false, OWN, ROWS, RULE, CADRE_OP_INPUT(0), 0)                       \
    X(SCATTER, 49, scatter, 2, 2, 0, true, OWN, RESULT_ROWS, RULE, CADRE_OP_INPUT(0), 0)           \
    X(BAG, 50, bag, 3, 4, 1, false, OWN, BAGS, RULE, CADRE_OP_INPUT(0) | CADRE_OP_INPUT(3), 0)     \
    X(BAG_GRAD, 51, bag_grad, 3, 4, 2, true, OWN, RESULT_BAGS, RULE,                               \
      CADRE_OP_INPUT(0) | CADRE_OP_INPUT(3), 0)                                                    \
    X(SOFTMAX, 64, softmax, 1, 1, 1, false, OWN, NONE, RULE, CADRE_OP_ALL, CADRE_OP_ALL)           \
    X(XENT, 65, xent, 2, 2, 0, false, OWN, LABELS, RULE, CADRE_OP_INPUT(0), 0)                     \
    X(XENT_GRAD, 66, xent_grad, 3, 3, 0, false, OWN, LABELS, LAST,                                 \
      CADRE_OP_INPUT(0) | CADRE_OP_INPUT(2), CADRE_OP_INPUT(0))                                    \
    X(ROWNORM, 67, rownorm, 1, 1, 1, false, OWN, NONE, RULE, CADRE_OP_ALL, CADRE_OP_ALL)           \
    X(ROWNORM_GRAD, 68, rownorm_grad, 2, 2, 1, false, OWN, NONE, LAST, CADRE_OP_ALL, CADRE_OP_ALL) \
    X(CAST, 80, cast, 1, 1, 1, false, OWN, NONE, RULE, CADRE_OP_ALL, 0)                            \
    X(RAND, 81, rand, 0, 0, 1, true, OWN, NONE, NONE, 0, 0)                                        \
    X(IM2COL, 96, im2col, 1, 1, 4, false, OWN, NONE, RULE, CADRE_OP_ALL, 0)                        \
    X(COL2IM, 97, col2im, 1, 1, 4, true, OWN, NONE, RULE, CADRE_OP_ALL, 0)

/* STEP: all ops that a device computes by steps of a plan. RULE: all ops that have a rule for their
 * shape, that is, all but leaves. LIST: all ops. */
#define CADRE_OP_STEP_LIST(X)                                                                      \
    CADRE_OP_PRODUCT_LIST(X) CADRE_OP_ELEMENT_LIST(X) CADRE_OP_KERNEL_LIST(X)
#define CADRE_OP_RULE_LIST(X) CADRE_OP_VIEW_LIST(X) CADRE_OP_STEP_LIST(X)
#define CADRE_OP_LIST(X)      CADRE_OP_LEAF_LIST(X) CADRE_OP_RULE_LIST(X)

typedef enum {
#define ROW(NAME, number, ...) CADRE_OP_##NAME = number,
    CADRE_OP_LIST(ROW)
#undef ROW
} cadre_op_t;

/* The functions of MAP1 (its attribute 0). Columns: name, number, word, derivative. */
#define CADRE_MAP1_LIST(X)                                                                         \
    X(NEG, 1, neg, RULE)                                                                           \
    X(EXP, 2, exp, RULE)                                                                           \
    X(LOG, 3, log, RULE)                                                                           \
    X(SQRT, 4, sqrt, RULE)                                                                         \
    X(RSQRT, 5, rsqrt, RULE)                                                                       \
    X(RECIP, 6, recip, RULE)                                                                       \
    X(SQUARE, 7, square, RULE)                                                                     \
    X(ABS, 8, abs, RULE)                                                                           \
    X(SIGN, 9, sign, NONE)                                                                         \
    X(STEP, 10, step, NONE)                                                                        \
    X(RELU, 11, relu, RULE)                                                                        \
    X(SIGMOID, 12, sigmoid, RULE)                                                                  \
    X(TANH, 13, tanh, RULE)                                                                        \
    X(GELU, 14, gelu, RULE)                                                                        \
    X(DGELU, 15, dgelu, LAST)                                                                      \
    X(SOFTPLUS, 16, softplus, RULE)

/* The functions of MAP2 (its attribute 0). Columns: name, number, word, derivative. */
#define CADRE_MAP2_LIST(X)                                                                         \
    X(ADD, 1, add, RULE)                                                                           \
    X(SUB, 2, sub, RULE)                                                                           \
    X(MUL, 3, mul, RULE)                                                                           \
    X(DIV, 4, div, RULE)                                                                           \
    X(MAX, 5, max, RULE)                                                                           \
    X(MIN, 6, min, RULE)                                                                           \
    X(GT, 7, gt, NONE)                                                                             \
    X(EQ, 8, eq, NONE)

/* The functions of REDUCE (its attribute 0). Columns: name, number, word, derivative. */
#define CADRE_REDUCE_LIST(X)                                                                       \
    X(SUM, 1, sum, RULE)                                                                           \
    X(MEAN, 2, mean, RULE)                                                                         \
    X(MAX, 3, max, RULE)                                                                           \
    X(ARGMAX, 4, argmax, NONE)

#define ROW(NAME, number, ...) CADRE_MAP1_##NAME = number,
typedef enum { CADRE_MAP1_LIST(ROW) } cadre_map1_t;
#undef ROW

#define ROW(NAME, number, ...) CADRE_MAP2_##NAME = number,
typedef enum { CADRE_MAP2_LIST(ROW) } cadre_map2_t;
#undef ROW

#define ROW(NAME, number, ...) CADRE_REDUCE_##NAME = number,
typedef enum { CADRE_REDUCE_LIST(ROW) } cadre_reduce_t;
#undef ROW

/* What the attributes of ops mean: the names of their indexes, with the ops that have them. */
enum {
    CADRE_LEAF_INDEX = 0, /* ARG, VAR, CONST: index in the program's table of such leaves */

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
    CADRE_IMAGE_HEIGHT = 0, /* height of the window; the next is its width */
    CADRE_IMAGE_WIDTH = 1,
    CADRE_IMAGE_STRIDE = 2,
    CADRE_IMAGE_PADDING = 3,
    CADRE_IMAGE_ATTRIBUTE_MAX = 1 << 16, /* largest value of height, width, stride or padding */
};

typedef enum {
    CADRE_OP_LEAF,
    CADRE_OP_VIEW,
    CADRE_OP_PRODUCT,
    CADRE_OP_ELEMENT,
    CADRE_OP_KERNEL,
} cadre_op_kind_t;

typedef enum {
    CADRE_DERIVATIVE_NONE, /* no gradient flows through the op */
    CADRE_DERIVATIVE_RULE, /* the op has a rule (gradient_rules.h) */
    CADRE_DERIVATIVE_LAST, /* the op is itself a first derivative: no gradient of it is supported */
} cadre_derivative_t;

/* Where in the inputs an element of the result comes from, for ops that a plan walks with
 * strides. */
typedef enum {
    CADRE_WALK_OWN,       /* the op has an order of its own */
    CADRE_WALK_BROADCAST, /* the same position of every input, which is broadcast to the result */
    CADRE_WALK_PERMUTE,   /* axis i of the result is the axis that attribute i names */
    CADRE_WALK_SLICE,     /* a range of one axis: CADRE_AXIS, CADRE_SLICE_BEGIN */
} cadre_walk_t;

/* What the positions in input 1 of an op refer to. A device checks positions before it uses
 * them. */
typedef enum {
    CADRE_INDEXES_NONE,        /* input 1 holds no positions */
    CADRE_INDEXES_LABELS,      /* positions within the rows of input 0 */
    CADRE_INDEXES_ROWS,        /* rows of input 0 */
    CADRE_INDEXES_RESULT_ROWS, /* rows of the result */
    CADRE_INDEXES_BAGS, /* rows of input 0 or none (-1), in bags that begin where input 2 says */
    CADRE_INDEXES_RESULT_BAGS, /* rows of the result or none (-1), in bags as above; for a gradient
                                  of weights, rows of input 3 */
} cadre_indexes_t;

/* A row of CADRE_OP_LIST. */
typedef struct {
    cadre_op_kind_t kind;
    const char *text;
    int inputs_min;
    int inputs_max;
    int attributes;
    bool carries_shape;
    cadre_walk_t walk;
    cadre_indexes_t indexes;
    cadre_derivative_t derivative;
    uint32_t gradient_inputs; /* bit k: a gradient flows to input k */
    uint32_t in_place_inputs; /* bit k: the result may take over the memory of input k */
} cadre_op_info_t;

/* Returns the row of an op; NULL for a number that is no op. */
const cadre_op_info_t *cadre_op_info(uint64_t number);

/* Returns which derivative an op has. For MAP1, MAP2 and REDUCE it is that of `function` (their
 * attribute 0); other ops ignore `function`. */
cadre_derivative_t cadre_op_derivative(cadre_op_t op, int64_t function);

/* Returns the word for error texts: the function's name for MAP1, MAP2 and REDUCE, else the
 * op's. */
const char *cadre_op_text(cadre_op_t op, int64_t function);

/* Convert between an f32 and an attribute, which holds its bits; the first returns whether an
 * attribute is the bits of a finite f32. */
bool cadre_op_is_float(int64_t attribute);
float cadre_op_float(int64_t attribute);
int64_t cadre_op_float_bits(float number);

bool cadre_map1_valid(int64_t function);
bool cadre_map2_valid(int64_t function);
bool cadre_reduce_valid(int64_t function);

#endif
