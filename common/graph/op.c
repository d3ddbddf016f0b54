#include "common/graph/op.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "common/base/memory.h"

/* Returns the row of an op in a table made of the lists in op.h; NULL for a number that is no op.
 * The list that an op is in becomes its kind. */
const cadre_op_info_t *
cadre_op_info(uint64_t number)
{
    static const cadre_op_info_t infos[] = {
#define ROW(kind, NAME, number, word, inputs_min, inputs_max, attributes, shape, walk, indexes,    \
            derivative, gradient_inputs, in_place_inputs)                                          \
    [number] = {CADRE_OP_##kind,                                                                   \
                #word,                                                                             \
                inputs_min,                                                                        \
                inputs_max,                                                                        \
                attributes,                                                                        \
                shape,                                                                             \
                CADRE_WALK_##walk,                                                                 \
                CADRE_INDEXES_##indexes,                                                           \
                CADRE_DERIVATIVE_##derivative,                                                     \
                gradient_inputs,                                                                   \
                in_place_inputs},
#define LEAF(...)    ROW(LEAF, __VA_ARGS__)
#define VIEW(...)    ROW(VIEW, __VA_ARGS__)
#define PRODUCT(...) ROW(PRODUCT, __VA_ARGS__)
#define ELEMENT(...) ROW(ELEMENT, __VA_ARGS__)
#define KERNEL(...)  ROW(KERNEL, __VA_ARGS__)
        CADRE_OP_LEAF_LIST(LEAF) CADRE_OP_VIEW_LIST(VIEW) CADRE_OP_PRODUCT_LIST(PRODUCT)
            CADRE_OP_ELEMENT_LIST(ELEMENT) CADRE_OP_KERNEL_LIST(KERNEL)
#undef ROW
#undef LEAF
#undef VIEW
#undef PRODUCT
#undef ELEMENT
#undef KERNEL
    };
    return number < CADRE_COUNT_OF(infos) && infos[number].text ? &infos[number] : NULL;
}

typedef struct {
    const char *text;
    cadre_derivative_t derivative;
} function_t;

#define ROW(NAME, number, word, derivative) [number] = {#word, CADRE_DERIVATIVE_##derivative},
static const function_t map1[] = {CADRE_MAP1_LIST(ROW)};
static const function_t map2[] = {CADRE_MAP2_LIST(ROW)};
static const function_t reduce[] = {CADRE_REDUCE_LIST(ROW)};
#undef ROW

/* Returns the row of a function of an op; NULL for a number that is none. */
static const function_t *
find(const function_t *functions, size_t count, int64_t function)
{
    bool valid = function >= 0 && (uint64_t)function < count && functions[function].text;
    return valid ? &functions[function] : NULL;
}

/* Returns the row of a function of MAP1, MAP2 or REDUCE; NULL for other ops, which have no
 * functions, and for a number that is no function of the op. */
static const function_t *
function_of(cadre_op_t op, int64_t function)
{
    if (op == CADRE_OP_MAP1) {
        return find(map1, CADRE_COUNT_OF(map1), function);
    }
    if (op == CADRE_OP_MAP2) {
        return find(map2, CADRE_COUNT_OF(map2), function);
    }
    if (op == CADRE_OP_REDUCE) {
        return find(reduce, CADRE_COUNT_OF(reduce), function);
    }
    return NULL;
}

/* Returns the word for error texts: that of the function (attribute 0) for MAP1, MAP2 and REDUCE,
 * else that of the op. */
const char *
cadre_op_text(cadre_op_t op, int64_t function)
{
    const function_t *named = function_of(op, function);
    if (named) {
        return named->text;
    }
    const cadre_op_info_t *info = cadre_op_info((uint64_t)op);
    return info ? info->text : "?";
}

cadre_derivative_t
cadre_op_derivative(cadre_op_t op, int64_t function)
{
    const function_t *named = function_of(op, function);
    return named ? named->derivative : cadre_op_info((uint64_t)op)->derivative;
}

bool
cadre_map1_valid(int64_t function)
{
    return function_of(CADRE_OP_MAP1, function) != NULL;
}

bool
cadre_map2_valid(int64_t function)
{
    return function_of(CADRE_OP_MAP2, function) != NULL;
}

bool
cadre_reduce_valid(int64_t function)
{
    return function_of(CADRE_OP_REDUCE, function) != NULL;
}

bool
cadre_op_is_float(int64_t attribute)
{
    return attribute >= 0 && attribute <= UINT32_MAX && isfinite(cadre_op_float(attribute));
}

float
cadre_op_float(int64_t attribute)
{
    uint32_t bits = (uint32_t)attribute;
    float number = 0;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

int64_t
cadre_op_float_bits(float number)
{
    uint32_t bits = 0;
    memcpy(&bits, &number, sizeof(bits));
    return bits;
}
