#include "common/graph/op.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const cadre_op_info_t *
cadre_op_info(uint64_t number)
{
    switch (number) {
#define CASE(name, op_number, text, inputs_min, inputs_max, attributes, shape)                     \
    case op_number: {                                                                              \
        static const cadre_op_info_t info = {text, inputs_min, inputs_max, attributes, shape};     \
        return &info;                                                                              \
    }
        CADRE_OP_LIST(CASE)
#undef CASE
    }
    return NULL;
}

static const char *
map1_text(int64_t function)
{
    switch (function) {
#define CASE(name, number, text)                                                                   \
    case number:                                                                                   \
        return text;
        CADRE_MAP1_LIST(CASE)
    }
    return NULL;
}

static const char *
map2_text(int64_t function)
{
    switch (function) {
        CADRE_MAP2_LIST(CASE)
    }
    return NULL;
}

static const char *
reduce_text(int64_t function)
{
    switch (function) {
        CADRE_REDUCE_LIST(CASE)
#undef CASE
    }
    return NULL;
}

const char *
cadre_op_text(cadre_op_t op, int64_t function)
{
    const char *text = NULL;
    if (op == CADRE_OP_MAP1) {
        text = map1_text(function);
    } else if (op == CADRE_OP_MAP2) {
        text = map2_text(function);
    } else if (op == CADRE_OP_REDUCE) {
        text = reduce_text(function);
    }
    const cadre_op_info_t *info = cadre_op_info((uint64_t)op);
    return text ? text : info ? info->text : "?";
}

bool
cadre_map1_valid(int64_t function)
{
    return map1_text(function) != NULL;
}

bool
cadre_map2_valid(int64_t function)
{
    return map2_text(function) != NULL;
}

bool
cadre_reduce_valid(int64_t function)
{
    return reduce_text(function) != NULL;
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
