#include "common/tensor/dtype.h"

#include <string.h>

#include "common/base/memory.h"
#include "common/tensor/bf16.h"
#include "common/tensor/clones.h"

/* Types of words that may stand at any address, or be read as another type. */
typedef uint32_t unaligned_u32_t __attribute__((aligned(1), may_alias));
typedef uint64_t unaligned_u64_t __attribute__((aligned(1), may_alias));

/* Returns whether no number is infinite or NaN: those have all bits of the exponent set. */
CADRE_CLONES static bool
all_finite_f32(const void *elements, size_t count)
{
    const uint32_t exponent = UINT32_C(0x7f800000);
    const unaligned_u32_t *words = elements;
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        bad |= (words[i] & exponent) == exponent;
    }
    return bad == 0;
}

/* Returns whether no number is infinite or NaN: those have all bits of the exponent set. */
CADRE_CLONES static bool
all_finite_f64(const void *elements, size_t count)
{
    const uint64_t exponent = UINT64_C(0x7ff0000000000000);
    const unaligned_u64_t *words = elements;
    uint64_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        bad |= (words[i] & exponent) == exponent;
    }
    return bad == 0;
}

/* Wraps all_finite_f32 for the constant table `rows`, which cannot hold the address of a function
 * with clones: it is known only at load time. */
static bool
is_finite_f32(const void *elements, size_t count)
{
    return all_finite_f32(elements, count);
}

static bool
is_finite_f64(const void *elements, size_t count)
{
    return all_finite_f64(elements, count);
}

#define NUMBER(name, type)                                                                         \
    static double name##_number(const void *elements)                                              \
    {                                                                                              \
        return (double)*(const type *)elements;                                                    \
    }

NUMBER(f32, float)
NUMBER(f64, double)
NUMBER(i32, int32_t)
NUMBER(i64, int64_t)
NUMBER(u64, uint64_t)
NUMBER(u8, uint8_t)

static double
bf16_number(const void *elements)
{
    float number = 0;
    cadre_bf16_to_f32(elements, &number, 1);
    return (double)number;
}

static const cadre_dtype_traits_t rows[] = {
    [0] = {.is_of_variables = false}, /* the row for numbers that are no dtype */
    [CADRE_F32] = {.is_of_variables = true,
                   .is_of_programs = true,
                   .number = f32_number,
                   .is_finite = is_finite_f32},
    [CADRE_F64] = {.is_of_variables = true,
                   .is_of_programs = true,
                   .number = f64_number,
                   .is_finite = is_finite_f64},
    [CADRE_I32] = {.is_of_variables = true, .is_of_programs = true, .number = i32_number},
    [CADRE_I64] = {.is_of_variables = true, .is_of_programs = true, .number = i64_number},
    [CADRE_U64] = {.number = u64_number},
    [CADRE_U8] = {.number = u8_number},
    [CADRE_BF16] = {.is_of_programs = true,
                    .number = bf16_number,
                    .is_finite = cadre_bf16_finite,
                    .from_f32 = cadre_bf16_from_f32,
                    .to_f32 = cadre_bf16_to_f32},
};

/* The numbers of dtypes count from 1 without a gap, so each has a row. */
#define ONE(name, number, size_bytes, text) +1
_Static_assert(CADRE_COUNT_OF(rows) == 1 CADRE_DTYPE_LIST(ONE), "a row for each dtype");
#undef ONE

size_t
cadre_dtype_size(cadre_dtype_t dtype)
{
    switch (dtype) {
#define CASE(name, number, size_bytes, text)                                                       \
    case name:                                                                                     \
        return size_bytes;
        CADRE_DTYPE_LIST(CASE)
#undef CASE
    }
    return 0;
}

const char *
cadre_dtype_text(cadre_dtype_t dtype)
{
    switch (dtype) {
#define CASE(name, number, size_bytes, text)                                                       \
    case name:                                                                                     \
        return text;
        CADRE_DTYPE_LIST(CASE)
#undef CASE
    }
    return "?";
}

const cadre_dtype_traits_t *
cadre_dtype_traits(cadre_dtype_t dtype)
{
    return &rows[cadre_dtype_valid((uint64_t)dtype) ? dtype : 0];
}

bool
cadre_dtype_valid(uint64_t number)
{
    return number > 0 && number < CADRE_COUNT_OF(rows);
}

/* Looks at the bits of each element: all of them are 0, but for the sign of a float. */
bool
cadre_dtype_has_zero(cadre_dtype_t dtype, const void *elements, size_t count)
{
    const bool is_float = cadre_dtype_traits(dtype)->is_finite != NULL;
    const size_t size = cadre_dtype_size(dtype);
    const uint64_t bits = UINT64_MAX >> (64 - 8 * size);
    const uint64_t mask = is_float ? bits >> 1 : bits;
    for (size_t i = 0; i < count; i++) {
        uint64_t word = 0; /* little-endian: the low bytes */
        memcpy(&word, (const char *)elements + i * size, size);
        if ((word & mask) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns the dtype of this text, such as "f32"; 0 when there is none. */
cadre_dtype_t
cadre_dtype_of_text(const char *text)
{
    for (uint64_t number = 1; cadre_dtype_valid(number); number++) {
        if (strcmp(text, cadre_dtype_text((cadre_dtype_t)number)) == 0) {
            return (cadre_dtype_t)number;
        }
    }
    return (cadre_dtype_t)0;
}

bool
cadre_dtype_is_finite(cadre_dtype_t dtype, const void *elements, size_t count)
{
    const cadre_dtype_traits_t *traits = cadre_dtype_traits(dtype);
    return !traits->is_finite || traits->is_finite(elements, count);
}

/* Returns the position of the first finite number that becomes infinite in `dtype`; `count` when
 * there is none. `element` has room for an element of every dtype. */
size_t
cadre_dtype_find_beyond(cadre_dtype_t dtype, const float *numbers, size_t count)
{
    const cadre_dtype_traits_t *traits = cadre_dtype_traits(dtype);
    for (size_t i = 0; i < count; i++) {
        uint64_t element = 0;
        bool was_finite = is_finite_f32(&numbers[i], 1);
        if (was_finite && !traits->from_f32(&numbers[i], &element, 1)) {
            return i;
        }
    }
    return count;
}
