#include "ps/core/values/assignment.h"

#include <stdint.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/tensor/dtype.h"
#include "ps/core/values/optimizer.h"

/* The functions of one dtype; those of integers compute with an unsigned `word`, since a signed
 * overflow is undefined. */
#define FLOAT_FUNCTIONS(suffix, type)                                                              \
    static type multiply_##suffix(type a, type b)                                                  \
    {                                                                                              \
        return a * b;                                                                              \
    }                                                                                              \
    static type divide_##suffix(type a, type b)                                                    \
    {                                                                                              \
        return a / b;                                                                              \
    }

#define INTEGER_FUNCTIONS(suffix, type, word)                                                      \
    static type multiply_##suffix(type a, type b)                                                  \
    {                                                                                              \
        return (type)((word)a * (word)b);                                                          \
    }                                                                                              \
    /* the lowest number divided by -1 wraps around to itself */                                   \
    static type divide_##suffix(type a, type b)                                                    \
    {                                                                                              \
        return b == -1 ? (type)(0 - (word)a) : (type)(a / b);                                      \
    }

/* Changes values of one dtype; numbers are copied out, since they may stand at any address. */
#define CHANGE(suffix, type)                                                                       \
    static void change_##suffix(cadre_assign_mode_t mode, const char *numbers, const type *in,     \
                                type *out, size_t count)                                           \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            type number;                                                                           \
            memcpy(&number, numbers + i * sizeof(number), sizeof(number));                         \
            switch (mode) {                                                                        \
            case CADRE_ASSIGN_MUL:                                                                 \
                out[i] = multiply_##suffix(in[i], number);                                         \
                break;                                                                             \
            case CADRE_ASSIGN_DIV:                                                                 \
                out[i] = divide_##suffix(in[i], number);                                           \
                break;                                                                             \
            case CADRE_ASSIGN_MIN:                                                                 \
                out[i] = number < in[i] ? number : in[i];                                          \
                break;                                                                             \
            case CADRE_ASSIGN_MAX:                                                                 \
                out[i] = number > in[i] ? number : in[i];                                          \
                break;                                                                             \
            case CADRE_ASSIGN_SET:                                                                 \
            case CADRE_ASSIGN_ADD:                                                                 \
            case CADRE_ASSIGN_SUB:                                                                 \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
    }

FLOAT_FUNCTIONS(f32, float)
FLOAT_FUNCTIONS(f64, double)
INTEGER_FUNCTIONS(i32, int32_t, uint32_t)
INTEGER_FUNCTIONS(i64, int64_t, uint64_t)
CHANGE(f32, float)
CHANGE(f64, double)
CHANGE(i32, int32_t)
CHANGE(i64, int64_t)

void
cadre_assignment_apply(cadre_assign_mode_t mode, cadre_dtype_t dtype, const void *numbers,
                       const void *in, void *out, size_t count)
{
    if (mode == CADRE_ASSIGN_SET) {
        memcpy(out, numbers, count * cadre_dtype_size(dtype));
        return;
    }
    if (mode == CADRE_ASSIGN_ADD || mode == CADRE_ASSIGN_SUB) {
        const cadre_optimizer_span_t span = {
            .count = count, .gradient = numbers, .value_in = in, .value_out = out};
        cadre_optimizer_add(dtype, mode == CADRE_ASSIGN_SUB, &span);
        return;
    }
    switch (dtype) {
    case CADRE_F32:
        change_f32(mode, numbers, in, out, count);
        break;
    case CADRE_F64:
        change_f64(mode, numbers, in, out, count);
        break;
    case CADRE_I32:
        change_i32(mode, numbers, in, out, count);
        break;
    case CADRE_I64:
        change_i64(mode, numbers, in, out, count);
        break;
    case CADRE_U64:
    case CADRE_U8:
    case CADRE_BF16:
        cadre_assert(dtype == CADRE_F32); /* fails: no variable has such a dtype */
    }
}
