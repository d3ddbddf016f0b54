/*
 * cpu_cast - casts between the dtypes of programs, from each to each.
 */
#include "common/base/assert.h"
#include "worker/device/cpu.h"
#include "worker/device/cpu_vector.h"
#include "worker/device/element.h"
#include "worker/device/element_wide.h"

typedef void cast_t(void *out, const void *x, int64_t begin, int64_t end);

#define KERNEL(name, from_t, to_t, convert)                                                        \
    CADRE_VECTOR static void name(void *out_data, const void *data, int64_t begin, int64_t end)    \
    {                                                                                              \
        const from_t *x = data;                                                                    \
        to_t *out = out_data;                                                                      \
        CADRE_INDEPENDENT                                                                          \
        for (int64_t i = begin; i < end; i++) {                                                    \
            out[i] = convert(x[i]);                                                                \
        }                                                                                          \
    }
#define SAME(x)        (x)
#define TO_REAL(x)     ((cadre_real_t)(x))
#define TO_F64(x)      ((double)(x))
#define TO_I64(x)      ((int64_t)(x))
#define REAL_TO_I64(x) cadre_f64_to_i64((double)(x))
#define TO_BF16(x)     cadre_element_to_bf16((cadre_real_t)(x))
#define BF16_TO_I32(x) cadre_element_to_i32(cadre_element_from_bf16(x))
#define BF16_TO_F64(x) ((double)cadre_element_from_bf16(x))
#define BF16_TO_I64(x) cadre_f64_to_i64((double)cadre_element_from_bf16(x))
KERNEL(real_to_real, cadre_real_t, cadre_real_t, SAME)
KERNEL(real_to_i32, cadre_real_t, int32_t, cadre_element_to_i32)
KERNEL(real_to_bf16, cadre_real_t, uint16_t, cadre_element_to_bf16)
KERNEL(real_to_f64, cadre_real_t, double, TO_F64)
KERNEL(real_to_i64, cadre_real_t, int64_t, REAL_TO_I64)
KERNEL(i32_to_real, int32_t, cadre_real_t, TO_REAL)
KERNEL(i32_to_i32, int32_t, int32_t, SAME)
KERNEL(i32_to_bf16, int32_t, uint16_t, TO_BF16)
KERNEL(i32_to_f64, int32_t, double, TO_F64)
KERNEL(i32_to_i64, int32_t, int64_t, TO_I64)
KERNEL(bf16_to_real, uint16_t, cadre_real_t, cadre_element_from_bf16)
KERNEL(bf16_to_i32, uint16_t, int32_t, BF16_TO_I32)
KERNEL(bf16_to_bf16, uint16_t, uint16_t, SAME)
KERNEL(bf16_to_f64, uint16_t, double, BF16_TO_F64)
KERNEL(bf16_to_i64, uint16_t, int64_t, BF16_TO_I64)
KERNEL(f64_to_real, double, cadre_real_t, TO_REAL)
KERNEL(f64_to_i32, double, int32_t, cadre_f64_to_i32)
KERNEL(f64_to_bf16, double, uint16_t, TO_BF16)
KERNEL(f64_to_f64, double, double, SAME)
KERNEL(f64_to_i64, double, int64_t, cadre_f64_to_i64)
KERNEL(i64_to_real, int64_t, cadre_real_t, TO_REAL)
KERNEL(i64_to_i32, int64_t, int32_t, cadre_i64_to_i32)
KERNEL(i64_to_bf16, int64_t, uint16_t, TO_BF16)
KERNEL(i64_to_f64, int64_t, double, TO_F64)
KERNEL(i64_to_i64, int64_t, int64_t, SAME)
#undef KERNEL

enum { REAL, I32, BF16, F64, I64, KINDS };

/* Returns the row or column of a dtype in the table of casts. */
static int
kind_of(cadre_dtype_t dtype)
{
    switch (dtype) {
    case CADRE_F32:
        return REAL;
    case CADRE_I32:
        return I32;
    case CADRE_BF16:
        return BF16;
    case CADRE_F64:
        return F64;
    case CADRE_I64:
        return I64;
    case CADRE_U64:
    case CADRE_U8:
        break;
    }
    cadre_assert(false); /* no program has these */
    return REAL;
}

/* Casts the elements begin..end of a step, by the function for its two dtypes. */
static void
cast_part(const void *context, int64_t begin, int64_t end)
{
    static cast_t *const kernels[KINDS][KINDS] = {
        [REAL] = {real_to_real, real_to_i32, real_to_bf16, real_to_f64, real_to_i64},
        [I32] = {i32_to_real, i32_to_i32, i32_to_bf16, i32_to_f64, i32_to_i64},
        [BF16] = {bf16_to_real, bf16_to_i32, bf16_to_bf16, bf16_to_f64, bf16_to_i64},
        [F64] = {f64_to_real, f64_to_i32, f64_to_bf16, f64_to_f64, f64_to_i64},
        [I64] = {i64_to_real, i64_to_i32, i64_to_bf16, i64_to_f64, i64_to_i64},
    };
    const cadre_operands_t *operands = context;
    cast_t *kernel = kernels[kind_of(operands->inputs[0]->dtype)][kind_of(operands->out->dtype)];
    kernel(operands->out_data, operands->data[0], begin, end);
}

/* Casts every element of the input to the output's dtype. */
int
cadre_cpu_cast(const cadre_operands_t *operands)
{
    cadre_cpu_pool_run(operands->pool, operands->out->count, CADRE_CPU_PART_COST, cast_part,
                       operands);
    return 0;
}

void
cadre_cpu_from_bf16(cadre_real_t *out, const void *x, int64_t count)
{
    bf16_to_real(out, x, 0, count);
}
